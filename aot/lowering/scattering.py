"""Writes at positions that tensors name.

Replacing elements is an update of the tensor: only what is named is written. Where several indices
name one element, it gets the last one's value, so that results do not depend on the order of
threads and duplicates behave as in a loop. What joins values (adding, minimum, …) goes to memory
value by value (`joined_writes`). How points that meet are kept apart is the device's choice
(`passes.resolve_conflicts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aot.ir.dtypes import BOOL, UINT8
from aot.ir.scalar import Node, cast
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import GraphBuilder, PointBody, Tensor
from aot.lowering.indexing import at_value, broadcast_at, index_tensors
from aot.lowering.joined_writes import Place, join_at
from aot.lowering.masked_writes import masked_put
from aot.lowering.promotion import TensorLike, element
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped, strided_index
from aot.symbolic import Expr, as_expr, product


def _broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Expr, ...]:
    rank = max(t.rank for t in tensors)
    shape = [as_expr(1)] * rank
    for t in tensors:
        for k, size in enumerate(t.shape):
            if size != 1:
                shape[rank - t.rank + k] = size
    return tuple(shape)


def _mode(points: Expr) -> str:
    """Of a store by so many indices that may name one element."""
    return "set" if points == 1 else "last"


@REGISTRY.row("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    call: Call,
    x: Tensor,
    indices: tuple[Tensor | None, ...],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """x with x[indices] replaced by (or increased by) `values`."""
    named = [(k, t) for k, t in enumerate(indices) if t is not None]
    if len(named) == 1 and named[0][1].dtype in (BOOL, UINT8):
        return masked_put(call, x, *named[0], values, accumulate)
    put = _Put(call.builder, x, index_tensors(x, indices), values)
    return put.added() if accumulate else put.replaced()


@dataclass(frozen=True)
class _Put:
    """Values for the elements of x that `tensors` name: dimension -> its indices."""

    builder: GraphBuilder
    x: Tensor
    tensors: Mapping[int, Tensor]
    values: Tensor

    @cached_property
    def shared(self) -> tuple[Expr, ...]:
        """What the indices broadcast to."""
        return _broadcast_shape(list(self.tensors.values()))

    @property
    def place(self) -> int:
        """Where the indices' dimensions stand among those of the values."""
        return broadcast_at(self.tensors)

    @property
    def points(self) -> tuple[Expr, ...]:
        """The shape of the values, broadcast."""
        rest = [size for k, size in enumerate(self.x.shape) if k not in self.tensors]
        return (*rest[: self.place], *self.shared, *rest[self.place :])

    def target(self, at: tuple[Expr, ...]) -> list[Expr]:
        """The element that a value goes to."""
        place, rank = self.place, len(self.shared)
        own, left = at[place : place + rank], iter((*at[:place], *at[place + rank :]))
        return [
            self._named(k, own) if k in self.tensors else next(left) for k in range(self.x.rank)
        ]

    def added(self) -> Tensor:
        """Each value is added to the element that its index names."""
        return join_at(self.x, self.points, self.target, self.values.load_broadcast, "sum")

    def replaced(self) -> Tensor:
        """Each element gets the value of the last index that names it."""

        def value(at: tuple[Expr, ...]) -> Node:
            return cast(self.values.load_broadcast(at), self.x.dtype)

        mode = _mode(product(self.shared))
        return self.builder.update(self.x, self.points, self.target, value, mode)

    def _named(self, k: int, at: Sequence[Expr]) -> Expr:
        """The position along dimension k that an index names."""
        value = self.tensors[k].load_broadcast(at)
        return at_value(self.builder, value, self.x.shape[k], wrap=True)


def _listed(x: Tensor) -> Tensor:
    """A 0-d tensor as a list of one element; others as they are."""
    return x if x.rank else reshaped(x, (as_expr(1),))


def _by_slices(
    call: Call, x: Tensor, dim: int, indices: Tensor, value_at: Any, wrap: bool
) -> Tensor:
    """x with the slices along `dim` that `indices` names replaced by values."""
    if x.rank == 0:
        return reshaped(_by_slices(call, _listed(x), 0, indices, value_at, wrap), ())
    points, place = _slices(x, dim, indices, wrap=wrap)

    def value(at: tuple[Expr, ...]) -> Node:
        return cast(value_at(at), x.dtype)

    return call.builder.update(x, points, place, value, _mode(product(indices.shape)))


def _slices(x: Tensor, dim: int, indices: Tensor, *, wrap: bool) -> tuple[tuple[Expr, ...], Place]:
    """The points of values for slices along `dim`, one for each index, and where they go in x."""
    axis, indices = wrap_dim(dim, x.rank), _listed(indices)

    def place(at: tuple[Expr, ...]) -> Sequence[Expr]:
        named = at_value(x.builder, indices.load((at[axis],)), x.shape[axis], wrap)
        return replace(at, axis, named)

    return replace(x.shape, axis, indices.shape[0]), place


@REGISTRY.row("aten.index_copy.default")
def index_copy(call: Call, x: Tensor, dim: int, indices: Tensor, source: Tensor) -> Tensor:
    """x with slices along `dim` replaced by those of `source`."""
    return _by_slices(call, x, dim, indices, _listed(source).load, wrap=False)


@REGISTRY.row("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(call: Call, x: Tensor, dim: int, indices: Tensor, value: TensorLike) -> Tensor:
    """x with slices along `dim` replaced by a value."""

    def filled(at: Sequence[Expr]) -> Node:
        return element(call.builder, value, at, x.dtype)

    return _by_slices(call, x, dim, indices, filled, wrap=True)


@REGISTRY.row("aten.index_add.default")
def index_add(
    call: Call, x: Tensor, dim: int, indices: Tensor, source: Tensor, *, alpha: Any = 1
) -> Tensor:
    """x with slices of `source` added to the slices along `dim` that `indices` names."""
    if x.rank == 0:
        row = index_add(call, _listed(x), 0, indices, source, alpha=alpha)
        return reshaped(row, ())
    compute, source = x.dtype.compute, _listed(source)

    def scaled(at: tuple[Expr, ...]) -> Node:
        added = cast(source.load(at), compute)
        return added if alpha == 1 else e.mul(added, alpha)

    return _join_slices(x, dim, indices, scaled, "sum")


def _join_slices(
    x: Tensor, dim: int, indices: Tensor, value: PointBody, kind: str, *, include_self: bool = True
) -> Tensor:
    """x joined with values at the slices along `dim` that `indices` names."""
    points, place = _slices(x, dim, indices, wrap=False)
    return join_at(x, points, place, value, kind, include_self=include_self)


@REGISTRY.row("aten.as_strided_scatter.default")
def as_strided_scatter(
    call: Call,
    x: Tensor,
    src: Tensor,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    offset: Any = None,
) -> Tensor:
    """x with the elements at given strides of its memory, which has no gaps, replaced by src.

    Raises:
        CannotLower: x's memory has gaps, or its elements share some.
    """
    builder = call.builder
    place = strided_index(call, x, stride, offset)

    def target(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(place(at))

    def value(at: tuple[Expr, ...]) -> Node:
        return cast(src.load(at), x.dtype)

    return builder.update(x, src.shape, target, value, _mode(product(src.shape)))


class _Scatter:
    """The geometry of scatter operators: `indices` name positions of x along `dim`."""

    def __init__(self, call: Call, x: Tensor, dim: int, indices: Tensor) -> None:
        self.builder, self.x, self.indices = call.builder, x, indices
        self.axis = wrap_dim(dim, x.rank)
        self.count = indices.shape[self.axis] if x.rank else as_expr(1)

    def target(self, at: Sequence[Expr]) -> tuple[Expr, ...]:
        """The element of x that the index at a position names."""
        size = self.x.shape[self.axis]
        return replace(
            at, self.axis, at_value(self.builder, self.indices.load(at), size, wrap=False)
        )

    def replaced(self, value_at: Any) -> Tensor:
        """x with the named elements replaced by the last of their values."""
        builder, x, indices = self.builder, self.x, self.indices
        if not x.rank:
            return builder.pointwise((), x.dtype, lambda _: value_at(()))

        def value(at: tuple[Expr, ...]) -> Node:
            return cast(value_at(at), x.dtype)

        return builder.update(x, indices.shape, self.target, value, _mode(self.count))

    def joined(self, value_at: PointBody, kind: str, include_self: bool) -> Tensor:
        """x joined with the values at all positions of `indices`, by sum, prod, min or max."""
        x, points = self.x, self.indices.shape
        if x.rank:
            return join_at(x, points, self.target, value_at, kind, include_self=include_self)
        # The index of a 0-d tensor can name its element alone.
        named = self.indices

        def place(_: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (at_value(self.builder, named.load(()), as_expr(1), wrap=False),)

        def value(_: tuple[Expr, ...]) -> Node:
            return value_at(())

        listed, one = _listed(x), (as_expr(1),)
        row = join_at(listed, one, place, value, kind, include_self=include_self)
        return reshaped(row, ())


_REDUCE_NAMES = {"sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod"}
_REDUCE_NAMES |= {"amax": "max", "amin": "min", "mean": "mean"}


@REGISTRY.row("aten.scatter.src")
def scatter_src(call: Call, x: Tensor, dim: int, indices: Tensor, src: Tensor) -> Tensor:
    """x with the elements that `indices` names along `dim` replaced by those of src."""
    return _Scatter(call, x, dim, indices).replaced(src.load)


@REGISTRY.row("aten.scatter.value")
def scatter_value(call: Call, x: Tensor, dim: int, indices: Tensor, value: Any) -> Tensor:
    """x with the elements that `indices` names along `dim` replaced by a value."""

    def filled(at: Sequence[Expr]) -> Node:
        return element(call.builder, value, at, x.dtype)

    return _Scatter(call, x, dim, indices).replaced(filled)


@REGISTRY.row("aten.scatter_add.default")
def scatter_add(call: Call, x: Tensor, dim: int, indices: Tensor, src: Tensor) -> Tensor:
    """x with src added at the elements that `indices` names along `dim`."""
    return _Scatter(call, x, dim, indices).joined(src.load, "sum", include_self=True)


@REGISTRY.row("aten.scatter.reduce", "aten.scatter_reduce.two")
def scatter_reduce(
    call: Call,
    x: Tensor,
    dim: int,
    indices: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """x joined with src at the elements that `indices` names along `dim`.

    Raises:
        CannotLower: `reduce` names no reduction that has a lowering.
    """
    if reduce not in _REDUCE_NAMES:
        raise CannotLower(f"scatter with reduce={reduce!r}")
    return _Scatter(call, x, dim, indices).joined(src.load, _REDUCE_NAMES[reduce], include_self)


@REGISTRY.row("aten.scatter.value_reduce")
def scatter_value_reduce(
    call: Call, x: Tensor, dim: int, indices: Tensor, value: Any, *, reduce: str
) -> Tensor:
    """x with a value added to, or multiplied with, the elements that `indices` names."""

    def same(at: Sequence[Expr]) -> Node:
        return element(call.builder, value, at, x.dtype)

    return _Scatter(call, x, dim, indices).joined(same, _REDUCE_NAMES[reduce], include_self=True)


@REGISTRY.row("aten.index_reduce.default")
def index_reduce(
    call: Call,
    x: Tensor,
    dim: int,
    indices: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """x joined with slices of `source` at the slices along `dim` that `indices` names."""
    if x.rank == 0:
        row = index_reduce(call, _listed(x), 0, indices, source, reduce, include_self=include_self)
        return reshaped(row, ())
    kind, load = _REDUCE_NAMES[reduce], _listed(source).load
    return _join_slices(x, dim, indices, load, kind, include_self=include_self)


@REGISTRY.row("aten.put.default")
def put(call: Call, x: Tensor, indices: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The flat x with the elements that `indices` names replaced by (or increased by) source's."""
    flat, count = reshaped(x, (product(x.shape),)), (product(indices.shape),)
    where_, values = reshaped(indices, count), reshaped(source, count)
    return reshaped(index_put(call, flat, (where_,), values, accumulate), x.shape)
