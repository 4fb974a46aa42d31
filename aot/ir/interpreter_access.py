"""Reading and writing buffers at symbolic indices, for all points of a block at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from aot.errors import InternalError
from aot.ir.dtypes import DTYPES
from aot.ir.nests import Axis, Store
from aot.ir.numpy_ops import in_memory
from aot.ir.scalar import Access, Node
from aot.symbolic import Expr, Symbol, affine_coefficients, evaluate

Array = np.ndarray[Any, Any]

# The blocks of a nest ask for the same few expressions again and again.
_split = lru_cache(maxsize=4096)(affine_coefficients)


@dataclass(frozen=True)
class Space:
    """A block of an iteration space: for each axis the part [low, high) of it.

    Values over it are arrays with one dimension per axis, of the part's size or 1.
    """

    axes: tuple[Axis, ...]
    box: tuple[tuple[int, int], ...]
    sizes: Mapping[Any, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many points each axis has in the block."""
        return tuple(hi - lo for lo, hi in self.box)

    def _symbols(self) -> dict[Symbol, Any]:
        rank = len(self.axes)
        table: dict[Symbol, Any] = dict(self.sizes)
        for k, (axis, (low, high)) in enumerate(zip(self.axes, self.box, strict=True)):
            shape = tuple(high - low if j == k else 1 for j in range(rank))
            table[axis.symbol] = np.arange(low, high, dtype=np.int64).reshape(shape)
        return table

    def value(self, expr: Expr, bound: Mapping[Symbol, Array]) -> Any:
        """An index expression at every point; `bound`: the values of indirect symbols."""
        return evaluate(expr, {**self._symbols(), **bound})

    def affine(self, index: Sequence[Expr]) -> list[tuple[int, tuple[int, ...]]] | None:
        """Per expression the value at the block's first point, and the step of each axis.

        None when an expression is not affine in the axes.
        """
        symbols = [a.symbol for a in self.axes]
        lows = [lo for lo, _ in self.box]
        found = []
        for expr in index:
            split = _split(expr, tuple(symbols))
            if split is None or not split[1].free_symbols <= set(self.sizes):
                return None
            steps = tuple(int(evaluate(c, self.sizes)) for c in split[0])
            first = int(evaluate(split[1], self.sizes))
            found.append((first + sum(s * lo for s, lo in zip(steps, lows, strict=True)), steps))
        return found

    def strided(self, array: Array, index: Sequence[Expr], what: str) -> Array | None:
        """`array` at affine indices as a view with this block's shape; None when not affine.

        Raises:
            InternalError: A point is out of bounds.
        """
        affine = self.affine(index)
        if affine is None:
            return None
        shape = self.shape
        start: list[Any] = []
        for (first, steps), size in zip(affine, array.shape, strict=True):
            ends = [s * (n - 1) for s, n in zip(steps, shape, strict=True)]
            low = first + sum(x for x in ends if x < 0)
            high = first + sum(x for x in ends if x > 0)
            if low < 0 or high >= size:
                raise InternalError(f"{what}: index {low}..{high} in a dimension of {size}")
            start.append(slice(first, None))
        strides = tuple(
            sum(steps[k] * stride for (_, steps), stride in zip(affine, array.strides, strict=True))
            for k in range(len(shape))
        )
        # The ellipsis makes a view of 0-d arrays too, not a number.
        part = array[tuple([*start, ...])]
        if array.dtype.itemsize > 1:
            return as_strided(part, shape, strides)
        # NumPy makes views by the types' names, of which one float8 has none that it knows.
        return as_strided(part.view(np.uint8), shape, strides).view(array.dtype)


def _positions(
    array: Array, index: Sequence[Expr], space: Space, bound: Mapping[Symbol, Array], mask: Any
) -> tuple[Array, ...]:
    """Index arrays, checked; points outside of `mask` (if any) read position 0.

    Raises:
        InternalError: An index is out of bounds.
    """
    positions = []
    for expr, size in zip(index, array.shape, strict=True):
        position = np.asarray(space.value(expr, bound), np.int64)
        if mask is not None:
            position = np.where(mask, position, 0)
        if position.size and (position.min() < 0 or position.max() >= size):
            raise InternalError(
                f"index {expr}: {position.min()}..{position.max()} in a dimension of {size}"
            )
        positions.append(position)
    return tuple(positions)


def read(array: Array, node: Node, args: Sequence[Array], space: Space) -> Array:
    """The value of a load node over the block, in the type that arithmetic runs in.

    Raises:
        InternalError: The node has no access, or reads out of bounds.
    """
    access = node.attr
    if not isinstance(access, Access):
        raise InternalError("a load without an access")
    compute = node.dtype.compute.numpy
    bound = dict(zip(access.binds, args, strict=False))
    if not access.binds and not access.masked:
        view = space.strided(array, access.index, access.buffer)
        if view is not None:
            return view.astype(compute, copy=False)
    mask = args[-1] if access.masked else None
    if mask is not None and not mask.any():
        return np.zeros(np.shape(mask), compute)
    positions = _positions(array, access.index, space, bound, mask)
    gathered = np.asarray(array[positions]).astype(compute)
    if gathered.ndim < len(space.axes):
        gathered = gathered.reshape((1,) * (len(space.axes) - gathered.ndim) + gathered.shape)
    zero = np.zeros((), compute)
    return gathered if mask is None else np.where(mask, gathered, zero)


_JOIN: Mapping[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
"""By the modes of stores that join."""


def write(
    array: Array,
    store: Store,
    space: Space,
    value: Array,
    bound: Mapping[Symbol, Array],
    reduction: int,
) -> None:
    """Stores `value` over the block; the space's last `reduction` axes have size 1 here."""
    shape = space.shape
    spread = np.broadcast_to(value, shape)
    dtype = DTYPES[array.dtype.name]
    stored = in_memory(spread, dtype) if dtype.is_float else spread.astype(array.dtype)
    if store.clipped:
        _write_inside(array, store, space, stored)
        return
    if store.mode == "set" and not store.binds:
        view = space.strided(array, store.index, store.buffer)
        if view is not None:
            view[...] = stored
            return
    positions = _positions(array, store.index, space, bound, None)
    whole = tuple(np.broadcast_to(p, shape) for p in positions)
    if store.mode in _JOIN:
        _JOIN[store.mode].at(array, whole, stored)
    else:
        array[whole] = stored


def _write_inside(array: Array, store: Store, space: Space, stored: Array) -> None:
    """Stores what lies inside of the array."""
    places = [np.asarray(space.value(e, {}), np.int64) for e in store.index]
    places = [np.broadcast_to(place, space.shape) for place in places]
    inside = np.ones(space.shape, bool)
    for place, size in zip(places, array.shape, strict=True):
        inside &= (place >= 0) & (place < size)
    array[tuple(place[inside] for place in places)] = stored[inside]
