"""Runs one operator row on an executor and compares it with eager PyTorch in float64.

A row is a function of tensors with sample inputs. All samples of a row make one module, which is
exported once and then run by each executor (tests/conformance/executors.py).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch

from aot.frontend.capture import Captured, capture_module
from aot.frontend.weights import to_array
from tests.comparing import difference
from tests.conformance.executors import Args, Executor
from tests.examples.accuracy import default_double
from tests.rounding import slack
from tests.settings import seeded

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTS = (*SIGNED, torch.uint8)
UNSIGNED = (torch.uint64, torch.uint32, torch.uint16)
BOOL = (torch.bool,)
ALL = (*FLOATS, *INTS, *BOOL)


@dataclass(frozen=True)
class Row:
    """One operator: `function` applied to each tuple that `samples(dtype)` gives.

    `against_eager`: compare with eager in the same type instead of float64, for functions whose
    result jumps (rounding, comparisons) or that depend on the type itself. `or_float64`: what
    float64 gives is right as well, element by element, where eager's vectors and its remainders
    jump at other values.
    """

    name: str
    function: Callable[..., Any]
    samples: Callable[[torch.dtype], Sequence[Args]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    against_eager: bool = False
    or_float64: bool = False


class _AllSamples(torch.nn.Module):
    """The row's function on every sample; tensors are inputs, everything else is constant."""

    def __init__(self, row: Row, samples: Sequence[Args]) -> None:
        super().__init__()
        self.row = row
        self.samples = [tuple(_Slot() if _is_tensor(a) else a for a in s) for s in samples]

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rest = iter(tensors)
        results: list[torch.Tensor] = []
        for sample in self.samples:
            args = [next(rest) if isinstance(a, _Slot) else a for a in sample]
            results.extend(_flat(self.row.function(*args)))
        return tuple(results)


class _Slot:
    """A tensor argument's place."""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _flat(result: Any) -> Iterator[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        yield result
    else:
        for item in result:
            yield from _flat(item)


@dataclass(frozen=True)
class Expected:
    """One output of a row: what eager gives in the row's own type, and the reference.

    `again`: computes the reference's outputs for the sample; `position`: this one's among them.
    `also`: another answer that is right, in the row's own type.
    """

    label: str
    eager: torch.Tensor
    exact: torch.Tensor
    again: Callable[[], list[torch.Tensor]]
    position: int
    also: torch.Tensor | None = None

    def problem(self, actual: np.ndarray) -> str:
        """Why an array is not this output; "" when it is."""
        eager, exact = to_array(self.eager), to_array(self.exact)
        if self.also is not None and actual.shape == eager.shape:
            right = actual == to_array(self.also)
            eager, exact = (np.where(right, actual, e) for e in (eager, exact))
        dtype = self.eager.dtype
        moved = partial(slack, self.again, self.position, dtype)
        return difference(actual, eager, dtype, exact, slack=moved)


@dataclass(frozen=True)
class Prepared:
    """A row's captured module, its inputs, and what each output has to be."""

    captured: Captured
    inputs: Args
    expected: tuple[Expected, ...]


@lru_cache(maxsize=1)
def prepare(row: Row, device: str = "cpu") -> Prepared:
    """Exports a row and computes what eager gives on a device.

    All types make one module, because exporting costs more than everything after it.
    """
    torch.manual_seed(seeded())
    samples = [sample for dtype in row.dtypes for sample in _samples(row, dtype)]
    inputs = tuple(a for s in samples for a in s if _is_tensor(a))
    expected = tuple(e for sample in samples for e in _expected(row, sample, device))
    return Prepared(capture_module(_AllSamples(row, samples), inputs), inputs, expected)


def _samples(row: Row, dtype: torch.dtype) -> Sequence[Args]:
    """All samples in the row's first type, a spread of about four in the others."""
    every = list(row.samples(dtype))
    return every if dtype == row.dtypes[0] else every[:: math.ceil(len(every) / 4)]


def run_row(row: Row, executor: Executor, device: str = "cpu") -> list[str]:
    """What is wrong with a row: nothing, or a line for each wrong output.

    `device`: where eager runs in the row's own types.
    """
    ready = prepare(row, device)
    actual = executor(ready.captured, ready.inputs)
    assert len(actual) == len(ready.expected)
    problems = ((e.label, e.problem(a)) for a, e in zip(actual, ready.expected, strict=True))
    return [f"{label}: {problem}" for label, problem in problems if problem]


def _expected(row: Row, sample: Args, device: str) -> list[Expected]:
    """What eager gives on a device in the sample's own types, and on the CPU in float64."""
    there = (a.to(device) if _is_tensor(a) else a for a in sample)
    eager = [result.cpu() for result in _flat(row.function(*there))]
    wide = sample if row.against_eager else tuple(_widened(a) for a in sample)

    def again() -> list[torch.Tensor]:
        # Functions of integers give float64 too.
        with contextlib.nullcontext() if row.against_eager else default_double():
            return list(_flat(row.function(*wide)))

    also: list[torch.Tensor | None] = [None] * len(eager)
    if row.or_float64:
        in_float64 = _flat(row.function(*(_widened(a) for a in sample)))
        also = [a.to(e.dtype) for a, e in zip(in_float64, eager, strict=True)]
    return [
        Expected(f"{_describe(sample)}, result {k}", own, exact, again, k, other)
        for k, (own, exact, other) in enumerate(zip(eager, again(), also, strict=True))
    ]


def _widened(value: Any) -> Any:
    if _is_tensor(value) and value.dtype.is_floating_point:
        return value.double()
    if _is_tensor(value) and value.dtype.is_complex:
        return value.to(torch.complex128)
    return value


def _describe(sample: Args) -> str:
    return ", ".join(
        f"{str(a.dtype).removeprefix('torch.')}{list(a.shape)}" if _is_tensor(a) else repr(a)
        for a in sample
    )


def specials(dtype: torch.dtype) -> torch.Tensor:
    """Values at the edges of a type: zeros of both signs, infinities, NaN, extremes, ordinary."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        low = [-1, -7] if dtype.is_signed else []
        return torch.tensor([0, 1, 2, 7, 63, info.max, info.min, *low], dtype=dtype)
    info = torch.finfo(dtype)
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, info.max, -info.max, info.tiny]
    plain = [0.25, -0.25, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.5, -3.5, 7.0, -7.0, 20.5, -20.5]
    return torch.tensor([*edges, *plain], dtype=torch.float64).to(dtype)


def ordinary(dtype: torch.dtype, *shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
    """Random values of a type within [low, high] (integers in that range of the type)."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape, dtype=torch.float64) * (high - low) + low).to(dtype)
    start = int(low) if dtype.is_signed else max(int(low), 0)
    return torch.randint(start, int(high) + 1, shape, dtype=dtype)
