"""Writes at positions that tensors name.

Replacing elements is an update of the tensor: only what is named is written. Where several indices
name one element, all of them write the last one's value, so that results do not depend on the order
of threads and duplicates behave as in a loop. What joins values (adding, minimum, …) is read the
other way round: each element of the result looks for the indices that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aot.ir.dtypes import BOOL, INT64, UINT8
from aot.ir.scalar import Node, binary, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.indexing import at_value, broadcast_at, index_tensors
from aot.lowering.masked_writes import masked_put
from aot.lowering.masks import conjunction
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import TensorLike, element
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped
from aot.symbolic import Expr, as_expr, product, ravel, unravel

_TRUE = const(True, BOOL)


def _broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Expr, ...]:
    rank = max(t.rank for t in tensors)
    shape = [as_expr(1)] * rank
    for t in tensors:
        for k, size in enumerate(t.shape):
            if size != 1:
                shape[rank - t.rank + k] = size
    return tuple(shape)


def _last_alike(
    builder: GraphBuilder,
    shape: Sequence[Expr],
    count: Expr,
    own: Callable[[Sequence[Expr]], Expr],
    alike: Callable[[Sequence[Expr], Expr], Node],
) -> Callable[[Sequence[Expr]], Expr]:
    """For each point of `shape` the last index r < count that names the point's own element.

    `own`: the r that belongs to a point. `alike(point, r)`: whether the r-th index names the same
    element as the point's own.
    """
    if count == 1:
        return own

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        position = builder.index_node(rindex[0])
        return reduce_("max", e.select(alike(index, rindex[0]), position, 0))

    last = builder.reduction(shape, (count,), [(INT64, body)])[0]
    return lambda index: at_value(builder, last.load(index), count, wrap=False)


def _wrapped(value: Node, size: Node) -> Node:
    """A negative position counted from the end."""
    position = cast(value, INT64)
    return e.select(e.lt(position, 0), e.add(position, size), position)


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

    def added(self) -> Tensor:
        """Each element of the result adds up the values of the indices that name it."""
        compute = self.x.dtype.compute

        def total(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
            hit = self._names(index, rindex[0])
            rest = [i for k, i in enumerate(index) if k not in self.tensors]
            value = self.values.load_broadcast(self._full(rest, rindex[0]), hit)
            sum_ = reduce_("sum", cast(value, compute))
            return narrow(e.add(cast(self.x.load(index), compute), sum_), self.x.dtype)

        outputs = [(self.x.dtype, total)]
        return self.builder.reduction(self.x.shape, (product(self.shared),), outputs)[0]

    def replaced(self) -> Tensor:
        """Each index stores the value of the last one that names the same element."""
        place, rank = self.place, len(self.shared)
        last = _last_alike(
            self.builder,
            self.shared,
            product(self.shared),
            lambda at: ravel(at, self.shared),
            self._alike,
        )
        rest = [size for k, size in enumerate(self.x.shape) if k not in self.tensors]

        def target(at: tuple[Expr, ...]) -> list[Expr]:
            own, left = at[place : place + rank], iter((*at[:place], *at[place + rank :]))
            return [
                at_value(self.builder, self.tensors[k].load_broadcast(own), size, wrap=True)
                if k in self.tensors
                else next(left)
                for k, size in enumerate(self.x.shape)
            ]

        def value(at: tuple[Expr, ...]) -> Node:
            own, left = at[place : place + rank], (*at[:place], *at[place + rank :])
            return self.values.load_broadcast(self._full(left, last(own)))

        shape = (*rest[:place], *self.shared, *rest[place:])
        return self.builder.update(self.x, shape, target, value)

    def _full(self, rest: Sequence[Expr], r: Expr) -> tuple[Expr, ...]:
        """The r-th index's place in the values."""
        return (*rest[: self.place], *unravel(r, self.shared), *rest[self.place :])

    def _position(self, k: int, at: Sequence[Expr]) -> Node:
        size = self.builder.index_node(self.x.shape[k])
        return _wrapped(self.tensors[k].load_broadcast(at), size)

    def _names(self, index: Sequence[Expr], r: Expr) -> Node:
        """Whether the r-th index names an element of x."""
        where_ = unravel(r, self.shared)
        return _all(
            e.eq(self._position(k, where_), self.builder.index_node(index[k]))
            for k in sorted(self.tensors)
        )

    def _alike(self, at: Sequence[Expr], r: Expr) -> Node:
        """Whether two indices name the same."""
        other = unravel(r, self.shared)
        return _all(
            e.eq(self._position(k, at), self._position(k, other)) for k in sorted(self.tensors)
        )


def _all(conditions: Iterable[Node]) -> Node:
    return conjunction(conditions) or _TRUE


def _listed(x: Tensor) -> Tensor:
    """A 0-d tensor as a list of one element; others as they are."""
    return x if x.rank else reshaped(x, (as_expr(1),))


def _by_slices(
    call: Call, x: Tensor, dim: int, indices: Tensor, value_at: Any, wrap: bool
) -> Tensor:
    """x with the slices along `dim` that `indices` names replaced by values."""
    if x.rank == 0:
        return reshaped(_by_slices(call, _listed(x), 0, indices, value_at, wrap), ())
    axis, builder, indices = wrap_dim(dim, x.rank), call.builder, _listed(indices)
    count = indices.shape[0]

    def named(r: Expr) -> Node:
        return indices.load((r,))

    def alike(at: Sequence[Expr], r: Expr) -> Node:
        size = builder.index_node(x.shape[axis])
        return e.eq(_wrapped(named(at[0]), size), _wrapped(named(r), size))

    last = _last_alike(builder, (count,), count, lambda at: at[0], alike)

    def target(at: tuple[Expr, ...]) -> Sequence[Expr]:
        return replace(at, axis, at_value(builder, named(at[axis]), x.shape[axis], wrap))

    def value(at: tuple[Expr, ...]) -> Node:
        return cast(value_at(replace(at, axis, last([at[axis]]))), x.dtype)

    return builder.update(x, replace(x.shape, axis, count), target, value)


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
    axis, builder, compute = wrap_dim(dim, x.rank), call.builder, x.dtype.compute
    indices, source = _listed(indices), _listed(source)

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        r = rindex[0]
        named = cast(indices.load((r,)), INT64)
        hit = e.eq(named, builder.index_node(index[axis]))
        added = cast(source.load(replace(index, axis, r), hit), compute)
        scaled = added if alpha == 1 else e.mul(added, alpha)
        return narrow(e.add(cast(x.load(index), compute), reduce_("sum", scaled)), x.dtype)

    return builder.reduction(x.shape, indices.shape, [(x.dtype, body)])[0]


@REGISTRY.row("aten.as_strided_scatter.default")
def as_strided_scatter(
    call: Call,
    x: Tensor,
    src: Tensor,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    offset: Any = None,
) -> Tensor:
    """x with the elements at given strides of its (contiguous) memory replaced by src."""
    builder = call.builder
    start = as_expr(0) if offset is None else as_expr(offset)

    def place(at: Sequence[Expr]) -> Expr:
        return sum((i * step for i, step in zip(at, stride, strict=True)), start)

    def alike(at: Sequence[Expr], r: Expr) -> Node:
        other = place(unravel(r, src.shape))
        return e.eq(builder.index_node(place(at)), builder.index_node(other))

    def own(at: Sequence[Expr]) -> Expr:
        return ravel(at, src.shape)

    last = _last_alike(builder, src.shape, product(src.shape), own, alike)

    def value(at: tuple[Expr, ...]) -> Node:
        return cast(src.load(unravel(last(at), src.shape)), x.dtype)

    def target(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return unravel(place(at), x.shape)

    return builder.update(x, src.shape, target, value)


class _Scatter:
    """The geometry of scatter operators: which (r) of `indices` along `dim` names a position."""

    def __init__(self, call: Call, x: Tensor, dim: int, indices: Tensor) -> None:
        self.builder, self.x, self.indices = call.builder, x, indices
        self.axis = wrap_dim(dim, x.rank)
        self.count = indices.shape[self.axis] if x.rank else as_expr(1)

    def at(self, index: Sequence[Expr], r: Expr) -> tuple[Expr, ...]:
        """The position in `indices` and in the source."""
        return replace(index, self.axis, r) if self.x.rank else ()

    def within(self, index: Sequence[Expr]) -> Node | None:
        """Whether `indices` reaches this far in the other dimensions; None when it always does."""
        result: Node | None = None
        for k, (i, size) in enumerate(zip(index, self.indices.shape, strict=True)):
            if k == self.axis or size == self.x.shape[k]:
                continue
            inside = e.lt(self.builder.index_node(i), self.builder.index_node(size))
            result = inside if result is None else e.and_(result, inside)
        return result

    def names(self, index: Sequence[Expr], r: Expr) -> Node:
        """Whether the r-th index names the position `index`."""
        within = self.within(index)
        named = cast(self.indices.load(self.at(index, r), within), INT64)
        place = index[self.axis] if self.x.rank else as_expr(0)
        same = e.eq(named, self.builder.index_node(place))
        return same if within is None else e.and_(same, within)

    def replaced(self, value_at: Any) -> Tensor:
        """x with the named elements replaced by the last of their values."""
        builder, x, indices = self.builder, self.x, self.indices
        if not x.rank:
            return builder.pointwise((), x.dtype, lambda _: value_at(()))

        def alike(at: Sequence[Expr], r: Expr) -> Node:
            return e.eq(indices.load(at), indices.load(self.at(at, r)))

        last = _last_alike(builder, indices.shape, self.count, lambda at: at[self.axis], alike)

        def target(at: tuple[Expr, ...]) -> Sequence[Expr]:
            place = at_value(builder, indices.load(at), x.shape[self.axis], wrap=False)
            return replace(at, self.axis, place)

        return builder.update(
            x, indices.shape, target, lambda at: cast(value_at(self.at(at, last(at))), x.dtype)
        )

    def joined(self, value_at: Any, kind: str, include_self: bool) -> Tensor:
        """x joined with all values that name an element, by sum, prod, min or max.

        `value_at`: position in `indices`, whether it names the element -> value.
        """
        x = self.x

        def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
            hit = self.names(index, rindex[0])
            value = value_at(self.at(index, rindex[0]), hit)
            return _joined(x.load(index), hit, value, kind, include_self)

        return self.builder.reduction(x.shape, (self.count,), [(x.dtype, body)])[0]


def _joined(old: Node, hit: Node, value: Node, kind: str, include_self: bool) -> Node:
    """`old` joined with the values that hit it, in its type; means of integers round down."""
    dtype, compute = old.dtype, old.dtype.compute
    join = "sum" if kind == "mean" else kind
    old, value = cast(old, compute), cast(value, compute)
    total = reduce_(join, e.select(hit, value, _NEUTRAL[join](compute)))
    result = _JOIN[join](old, total) if include_self else total
    if kind == "mean":
        hits = reduce_("sum", cast(hit, INT64))
        # Where nothing hits, `old` is chosen below.
        parts = e.add(hits, 1) if include_self else e.maximum(hits, 1)
        result = _quotient(result, cast(parts, compute), exact=compute.is_float)
    if not include_self:
        result = e.select(reduce_("any", hit), result, old)
    return narrow(result, dtype)


def _quotient(a: Node, b: Node, *, exact: bool) -> Node:
    """a / b; rounded down unless `exact`."""
    return e.div(a, b) if exact else binary("floordiv", a, b)


_NEUTRAL: dict[str, Any] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "max": lambda dtype: dtype.ends[0],
    "min": lambda dtype: dtype.ends[1],
}
_JOIN = {"sum": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}
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

    def same(at: Sequence[Expr], _: Node) -> Node:
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
    axis, builder = wrap_dim(dim, x.rank), call.builder
    indices, source = _listed(indices), _listed(source)

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        r = rindex[0]
        named = cast(indices.load((r,)), INT64)
        hit = e.eq(named, builder.index_node(index[axis]))
        value = source.load(replace(index, axis, r), hit)
        return _joined(x.load(index), hit, value, _REDUCE_NAMES[reduce], include_self)

    return builder.reduction(x.shape, indices.shape, [(x.dtype, body)])[0]


@REGISTRY.row("aten.put.default")
def put(call: Call, x: Tensor, indices: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """The flat x with the elements that `indices` names replaced by (or increased by) source's."""
    flat, count = reshaped(x, (product(x.shape),)), (product(indices.shape),)
    where_, values = reshaped(indices, count), reshaped(source, count)
    return reshaped(index_put(call, flat, (where_,), values, accumulate), x.shape)
