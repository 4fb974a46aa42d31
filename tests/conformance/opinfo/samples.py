"""Samples of PyTorch's OpInfo database as cases: a function, its tensors, and everything else.

Beside the samples there are its reference inputs, which are more of them (broadcast, with gaps,
extreme values), and its error inputs, calls that eager refuses: these are cases of a type of their
own, `ERRORS`.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.conformance.opinfo.rebuilt import unique
from tests.conformance.opinfo.scope import DTYPES, foreign_device, foreign_type, out_of_scope
from tests.settings import seeded

ERRORS = "error"
"""What stands for the type in cases that eager refuses."""


@dataclass(frozen=True, eq=False)
class Case:
    """One sample of one operator.

    `leaves`: the flattened `(args, kwargs)`; tensors become inputs, the rest is constant.
    `number`: the sample's place in OpInfo's list for this type.
    """

    op: str
    dtype: str
    number: int
    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: pytree.TreeSpec

    @property
    def key(self) -> tuple[str, str, int]:
        """Operator, type, number."""
        return self.op, self.dtype, self.number

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensor arguments, in order."""
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def call(self, tensors: Iterator[torch.Tensor]) -> list[Any]:
        """Results for other tensors in the places of the sample's own, flat."""
        leaves = [next(tensors) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return [r for r in pytree.tree_leaves(self.function(*args, **kwargs)) if r is not None]

    def __str__(self) -> str:
        """`op float32 #3 (float32[2, 3], dim=1)`."""
        args, kwargs = pytree.tree_unflatten([_brief(x) for x in self.leaves], self.spec)
        words = [str(a) for a in args] + [f"{k}={v}" for k, v in kwargs.items()]
        return f"{self.op} {self.dtype} #{self.number} ({', '.join(words)})"


def _brief(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return value


def _no_test() -> None:
    """None calls us."""


@lru_cache(maxsize=1)
def _operators() -> Mapping[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Seconds, and only workers need it.
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core
    # For each operator they look through the sources of all callers for a test of unittest's, which
    # takes longer than the samples.
    for module in (common_utils, core):
        module.extract_test_fn = _no_test
    return {info.formatted_name: info for info in op_db}


def pairs(dtypes: Sequence[str] = tuple(DTYPES)) -> list[tuple[str, str]]:
    """(operator, type) of everything in scope, in a fixed order."""
    return [
        (name, dtype)
        for name, info in sorted(_operators().items())
        if not out_of_scope(name)
        for dtype in dtypes
        if _has(info, dtype)
    ]


def _has(info: Any, dtype: str) -> bool:
    if dtype == ERRORS:
        return info.error_inputs_func is not None
    return DTYPES[dtype] in info.supported_dtypes("cpu")


def seed() -> None:
    """Every random number generator that OpInfo's samples draw from."""
    torch.manual_seed(seeded())
    random.seed(seeded())
    np.random.seed(seeded())


@lru_cache(maxsize=1)
def cases(op: str, dtype: str, reference: bool = False) -> tuple[Case, ...]:
    """The samples of an operator in a type, but those with arguments of foreign types or devices.

    `reference`: its reference inputs instead, where it has any.
    """
    info = _operators()[op]
    seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = _samples(info, dtype, reference)
    made, function = [], unique(op, info.op)
    for number, sample in enumerate(samples):
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        leaves = [x.detach() if isinstance(x, torch.Tensor) else x for x in leaves]
        if not any(map(_is_foreign, leaves)):
            made.append(Case(op, dtype, number, function, tuple(leaves), spec))
    return tuple(made)


def _is_foreign(leaf: Any) -> bool:
    return bool(foreign_type(leaf) if isinstance(leaf, torch.Tensor) else foreign_device(leaf))


def _samples(info: Any, dtype: str, reference: bool) -> list[Any]:
    if dtype == ERRORS:
        return [error.sample_input for error in info.error_inputs("cpu")]
    listed = info.reference_inputs if reference else info.sample_inputs
    return list(listed("cpu", DTYPES[dtype], requires_grad=False))


def spread(
    op: str, dtype: str, count: int, draw: int | None = None, reference: bool = False
) -> Sequence[Case]:
    """At most `count` of an operator's cases, spread evenly over them; 0: all.

    `draw`: a seed that chooses them at random instead. `reference`: of its reference inputs.
    """
    every = cases(op, dtype, reference)
    if not 0 < count < len(every):
        return every
    if draw is not None:
        return random.Random(f"{draw} {op} {dtype}").sample(every, count)
    return [every[k * len(every) // count] for k in range(count)]


class AllCases(torch.nn.Module):
    """The function of every case, results flat; all tensors are inputs.

    `current`: the case that runs, for the one who wants to know which one failed.
    """

    def __init__(self, chosen: Sequence[Case]) -> None:
        super().__init__()
        self.chosen = tuple(chosen)
        self.current: Case | None = None

    def forward(self, *tensors: torch.Tensor) -> tuple[Any, ...]:
        """Results of all cases, one after the other."""
        rest = iter(tensors)
        results: list[Any] = []
        for case in self.chosen:
            self.current = case
            results += case.call(rest)
        self.current = None
        return tuple(results)
