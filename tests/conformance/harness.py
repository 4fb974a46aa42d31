"""Runs one operator row on an executor and compares it with eager PyTorch in float64.

A row is a function of tensors with sample inputs. All samples of a row make one module, which is
exported once and then run by each executor (tests/conformance/executors.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from aot.frontend.capture import Captured, capture_module
from aot.frontend.weights import to_array
from tests.conformance.executors import Args, Executor

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTS = (*SIGNED, torch.uint8)
BOOL = (torch.bool,)
ALL = (*FLOATS, *INTS, *BOOL)

# A result may be off by this much of itself, or three times as far as eager is: two roundings of
# the type, and for the wide ones the few ulp that vectorised functions are allowed.
TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-6,
    torch.float16: 2.0**-9,
    torch.bfloat16: 2.0**-6,
}

# Up to this size the greatest error of eager is what counts; the error of one huge element must
# not excuse that of a small one.
ORDINARY = 1e3


@dataclass(frozen=True)
class Row:
    """One operator: `function` applied to each tuple that `samples(dtype)` gives.

    `against_eager`: compare with eager in the same type instead of float64, for functions whose
    result jumps (rounding, comparisons) or that depend on the type itself.
    """

    name: str
    function: Callable[..., Any]
    samples: Callable[[torch.dtype], Sequence[Args]]
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    against_eager: bool = False


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
class Prepared:
    """A row's captured module, its inputs, and (label, eager result, exact result) per output."""

    captured: Captured
    inputs: Args
    expected: tuple[tuple[str, torch.Tensor, torch.Tensor], ...]


@lru_cache(maxsize=1)
def prepare(row: Row, device: str = "cpu") -> Prepared:
    """Exports a row and computes what eager gives on a device.

    All types make one module, because exporting costs more than everything after it.
    """
    torch.manual_seed(0)
    samples = [sample for dtype in row.dtypes for sample in _samples(row, dtype)]
    inputs = tuple(a for s in samples for a in s if _is_tensor(a))
    expected = tuple(
        (f"{_describe(sample)}, result {j}", *pair)
        for sample in samples
        for j, pair in enumerate(_expected(row, sample, device))
    )
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
    problems = (
        (label, difference(a, to_array(eager), eager.dtype, to_array(exact)))
        for a, (label, eager, exact) in zip(actual, ready.expected, strict=True)
    )
    return [f"{label}: {problem}" for label, problem in problems if problem]


def _expected(row: Row, sample: Args, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What eager gives on a device in the sample's own types, and on the CPU in float64."""
    there = (a.to(device) if _is_tensor(a) else a for a in sample)
    eager = (result.cpu() for result in _flat(row.function(*there)))
    wide = sample if row.against_eager else tuple(_widened(a) for a in sample)
    return list(zip(eager, _flat(row.function(*wide)), strict=True))


def _widened(value: Any) -> Any:
    if _is_tensor(value) and value.dtype.is_floating_point:
        return value.double()
    return value


def _describe(sample: Args) -> str:
    return ", ".join(
        f"{str(a.dtype).removeprefix('torch.')}{list(a.shape)}" if _is_tensor(a) else repr(a)
        for a in sample
    )


def difference(
    actual: np.ndarray,
    eager: np.ndarray,
    dtype: torch.dtype,
    exact: np.ndarray,
    nearby: float = 0.0,
) -> str:
    """Why `actual` is not right; "" when it is. `nearby`: eager's error for inputs close by."""
    if actual.dtype != eager.dtype or actual.shape != eager.shape:
        return f"{actual.dtype}{list(actual.shape)}, eager {eager.dtype}{list(eager.shape)}"
    if not dtype.is_floating_point:
        wrong = np.argwhere(actual != eager)
        return _first(wrong, actual, eager) if len(wrong) else ""
    a, own, x = (v.astype(np.float64) for v in (actual, eager, exact))
    with np.errstate(over="ignore"):
        representable = np.isfinite(exact.astype(actual.dtype).astype(np.float64))
    # Eager's own arithmetic may overflow where the true result does not.
    e = np.where(np.isfinite(own) | ~representable, own, x)
    finite = np.isfinite(a) & np.isfinite(e) & np.isfinite(x)
    # At infinities and NaN eager's types do not always agree; either answer will do.
    same = finite | (a == own) | (np.isnan(a) & (np.isnan(own) | np.isnan(x))) | (a == x)
    if not same.all():
        return _first(np.argwhere(~same), actual, eager)
    a, e, x = (np.where(finite, v, 0.0) for v in (a, e, x))
    error = np.abs(e - x)
    if np.abs(x).max(initial=0.0) < ORDINARY:
        error = np.full_like(error, error.max(initial=nearby))
        # float64 is its own reference, with roundings of its own.
        allowed = np.maximum(3.0 * error, TOLERANCE[dtype] * np.maximum(np.abs(x), 1e-3))
    else:
        allowed = np.maximum(3.0 * error, TOLERANCE[dtype] * np.abs(x))
    allowed = allowed + float(torch.finfo(dtype).tiny)
    wrong = np.argwhere(~(np.abs(a - x) <= allowed))
    return _first(wrong, actual, exact) if len(wrong) else ""


def _first(where: np.ndarray, actual: np.ndarray, expected: np.ndarray) -> str:
    at = tuple(int(i) for i in where[0])
    return f"{len(where)} wrong, first at {at}: {actual[at]!r} instead of {expected[at]!r}"


def specials(dtype: torch.dtype) -> torch.Tensor:
    """Values at the edges of a type: zeros of both signs, infinities, NaN, extremes, ordinary."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        low = [] if dtype == torch.uint8 else [-1, -7]
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
    start = max(int(low), 0) if dtype == torch.uint8 else int(low)
    return torch.randint(start, int(high) + 1, shape, dtype=dtype)
