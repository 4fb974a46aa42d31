"""Reductions over a block of the reduction domain, and their combination over blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from aot.ir.numpy_ops import Array, rounded
from aot.ir.scalar import Node

_REDUCE: dict[str, Callable[..., Array]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "xor": np.bitwise_xor.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "any": np.logical_or.reduce,
    "all": np.logical_and.reduce,
}
_COMBINE: dict[str, Callable[..., Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "any": np.logical_or,
    "all": np.logical_and,
}


@dataclass(frozen=True)
class Partial:
    """A reduce node with what its domain has given so far: a value (and position), or None."""

    node: Node
    value: Array | None
    position: Array | None = None


def combine(
    partial: Partial, block: Array, shape: tuple[int, ...], width: int, start: int
) -> Partial:
    """`partial` with one more block of the domain.

    `block`: values over `shape`, whose last `width` dimensions are reduced; `start`: the linear
    position of the block's first point in the domain.
    """
    kept = len(shape) - width
    full = block.reshape((1,) * (len(shape) - block.ndim) + block.shape)
    full = np.broadcast_to(full, (*full.shape[:kept], *shape[kept:]))
    rows = full.reshape(*full.shape[:kept], -1)
    kind = str(partial.node.attr)
    if kind in ("argmin", "argmax"):
        return _combine_position(partial, rows, kind, start)
    value = _REDUCE[kind](rows, axis=-1, dtype=_accumulator(partial.node, rows))
    if partial.value is not None:
        value = _COMBINE[kind](partial.value, value)
    return Partial(partial.node, np.asarray(value))


def _accumulator(node: Node, rows: Array) -> Any:
    """Floats add and multiply in float64; the others in their own type."""
    if node.attr in ("sum", "prod") and node.dtype.is_float:
        return np.float64
    return np.bool_ if node.attr in ("any", "all") else rows.dtype


def _combine_position(partial: Partial, rows: Array, kind: str, start: int) -> Partial:
    choose = np.argmax if kind == "argmax" else np.argmin
    # NumPy's argmin and argmax give the first NaN, else the first of equals: our own rule.
    position = choose(rows, axis=-1)
    value = np.take_along_axis(rows, position[..., None], axis=-1)[..., 0]
    position = position + start
    if partial.value is None or partial.position is None:
        return Partial(partial.node, value, position)
    old = partial.value
    better = value > old if kind == "argmax" else value < old
    if np.issubdtype(value.dtype, np.floating):
        better = better | (np.isnan(value) & ~np.isnan(old))
    return Partial(
        partial.node,
        np.where(better, value, old),
        np.where(better, position, partial.position),
    )


def identity(node: Node) -> Any:
    """What a reduction over no elements gives."""
    kind = str(node.attr)
    if kind in ("min", "max"):
        if node.dtype.is_float:
            return np.inf if kind == "min" else -np.inf
        if node.dtype.kind == "b":
            return kind == "min"
        info = np.iinfo(node.dtype.numpy)
        return info.max if kind == "min" else info.min
    return 1 if kind in ("prod", "all") else 0


def finish(partial: Partial, ones: tuple[int, ...]) -> Array:
    """The node's value, with dimensions of size 1 for the reduced axes; `ones` has the rank."""
    dtype = partial.node.dtype
    result = partial.position if partial.position is not None else partial.value
    if result is None:
        result = np.full((), identity(partial.node), dtype.compute.numpy)
    shaped = result.reshape(*result.shape, *ones[result.ndim :])
    return rounded(shaped, dtype.compute) if dtype.is_float else shaped.astype(dtype.numpy)
