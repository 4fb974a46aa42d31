"""Families of the tests' operator rows: one sample of each, its dimensions scaled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from benchmarks.growth.family import Draw, Family, Problem, Tensor
from tests.conformance.harness import Args, Row

PREFIX = "row: "
"""Before the name of a family that is an operator row."""

TOP = 2**20
SMALL = 3
"""Times as large a sample that shows whether the row takes it."""


@dataclass(frozen=True)
class Scaling:
    """How a sample grows: every dimension of size `size` becomes a multiple of it.

    Attributes:
        size: Dimensions of the same size are taken for the same thing.
        positions: Integers are positions in such a dimension: drawn anew from all of it. Other
            integers, and all other values, are drawn from the sample's own.
    """

    size: int
    positions: bool


def scaled_family(row: Row) -> Family | None:
    """The row as a family of about n elements; None where no dimension can grow."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = _sample(row)
        found = next((s for s in _scalings(sample) if _grows(row.function, sample, s)), None)
    if found is None:
        return None
    unit = max(a.numel() for a in sample if isinstance(a, Tensor))

    def problem(n: int, draw: Draw, scaling: Scaling = found) -> Problem:
        return row.function, *scaled(sample, scaling, max(n // unit, 1), draw)

    return Family(f"{PREFIX}{row.name}", problem, top=TOP)


def _sample(row: Row) -> Args:
    """The row's sample of the most elements, in its first type."""
    samples = row.samples(row.dtypes[0])
    return max(samples, key=lambda s: sum(a.numel() for a in s if isinstance(a, Tensor)))


def _scalings(sample: Args) -> Iterator[Scaling]:
    """Ways to grow: dimensions of the first tensor before others, then those of most tensors."""
    tensors = [a for a in sample if isinstance(a, Tensor)]
    sizes = {s for t in tensors for s in t.shape if s > 1}
    whole = any(_is_whole(t) for t in tensors)

    def rank(size: int) -> tuple[bool, int, int]:
        return size not in tensors[0].shape, -sum(size in t.shape for t in tensors), -size

    for size in sorted(sizes, key=rank):
        if whole:
            yield Scaling(size, positions=True)
        yield Scaling(size, positions=False)


def _is_whole(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.int64, torch.int32)


def scaled(sample: Args, scaling: Scaling, factor: int, draw: Draw) -> Args:
    """The sample with the dimension so many times as large."""

    def grown(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        shape = [s * factor if s == scaling.size else s for s in value.shape]
        if scaling.positions and _is_whole(value):
            return draw.places(scaling.size * factor, *shape).to(value.dtype)
        found = draw.like(value, shape)
        return found.sort(-1).values if _rises(value) else found

    return tuple(grown(value) for value in sample)


def _rises(tensor: Tensor) -> bool:
    """Whether each row is sorted, which a search counts on."""
    return tensor.ndim > 0 and tensor.shape[-1] > 2 and bool((tensor.diff(dim=-1) >= 0).all())


def _grows(function: Callable[..., Any], sample: Args, scaling: Scaling) -> bool:
    """Whether eager takes the larger sample, and more comes out."""
    try:
        before = _elements(function(*sample))
        after = _elements(function(*scaled(sample, scaling, SMALL, Draw())))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return False
    return after >= before > 0


def _elements(result: Any) -> int:
    leaves = (leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, Tensor))
    return sum(math.prod(leaf.shape) for leaf in leaves)
