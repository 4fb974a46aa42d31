"""Writes at positions that tensors name, read the other way round.

Each element of the result looks for the (last) index that names it: no nest writes an element
twice, results do not depend on the order of threads, and duplicates behave as in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aot.ir.dtypes import BOOL, INT64, UINT8, DType
from aot.ir.scalar import Node, cast, const, reduce_, where
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.indexing import at_value, broadcast_at, index_tensors
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import Operand, element
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr, product, unravel


def _broadcast_shape(tensors: Sequence[Tensor]) -> tuple[Expr, ...]:
    rank = max(t.rank for t in tensors)
    shape = [as_expr(1)] * rank
    for t in tensors:
        for k, size in enumerate(t.shape):
            if size != 1:
                shape[rank - t.rank + k] = size
    return tuple(shape)


def _last_match(
    builder: GraphBuilder,
    shape: Sequence[Expr],
    count: Expr,
    named: Any,
) -> Tensor:
    """For each position of `shape` the last r < count for which `named(index, r)`, else -1."""

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        position = builder.index_node(rindex[0])
        return reduce_("max", e.select(named(index, rindex[0]), position, -1))

    last = builder.reduction(shape, (count,), [(INT64, body)])[0]
    return last


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
    """x with x[indices] replaced by (or increased by) `values`.

    Read the other way round: each element of the result looks for the last index that names it.
    """
    only = indices[0] if len(indices) == 1 else None
    if only is not None and only.dtype in (BOOL, UINT8):
        return _masked_put(call, x, only, values, accumulate)
    builder, tensors = call.builder, index_tensors(x, indices)
    shared = _broadcast_shape(list(tensors.values()))
    place, dims = broadcast_at(tensors), sorted(tensors)
    count = product(shared)

    def names(at: Sequence[Expr], r: Expr) -> Node:
        """Whether the r-th index names the position `at` (of the indexed dimensions)."""
        where_ = unravel(r, shared)
        result: Node | None = None
        for k, i in zip(dims, at, strict=True):
            size = builder.index_node(x.shape[k])
            named = _wrapped(tensors[k].load_broadcast(where_), size)
            same = e.eq(named, builder.index_node(i))
            result = same if result is None else e.and_(result, same)
        return result if result is not None else const(True, BOOL)

    def value_at(index: Sequence[Expr], r: Expr, mask: Node) -> Node:
        rest = [i for k, i in enumerate(index) if k not in tensors]
        full = (*rest[:place], *unravel(r, shared), *rest[place:])
        return values.load_broadcast(full, mask)

    if accumulate:
        compute = x.dtype.compute

        def total(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
            hit = names([index[k] for k in dims], rindex[0])
            added = cast(value_at(index, rindex[0], hit), compute)
            return narrow(e.add(cast(x.load(index), compute), reduce_("sum", added)), x.dtype)

        return builder.reduction(x.shape, (count,), [(x.dtype, total)])[0]
    source = _last_match(builder, [x.shape[k] for k in dims], count, names)

    def point(index: tuple[Expr, ...]) -> Node:
        last = source.load([index[k] for k in dims])
        found = e.ge(last, 0)
        r = at_value(builder, e.maximum(last, 0), count, wrap=False)
        return where(found, value_at(index, r, found), x.load(index))

    return builder.pointwise(x.shape, x.dtype, point)


def _masked_put(call: Call, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    if any(size != 1 for size in values.shape):
        raise CannotLower("the number of values depends on the values of a mask")

    def point(index: tuple[Expr, ...]) -> Node:
        old = cast(x.load(index), x.dtype.compute)
        new = cast(values.load_broadcast(index[: values.rank]), x.dtype.compute)
        hit = e.truth(mask.load(index[: mask.rank]))
        return narrow(e.select(hit, e.add(old, new) if accumulate else new, old), x.dtype)

    return call.builder.pointwise(x.shape, x.dtype, point)


def _by_slices(
    call: Call, x: Tensor, dim: int, indices: Tensor, value_at: Any, combine: Any = None
) -> Tensor:
    """x with slices along `dim` replaced by the last (or, with `combine`, joined by all) values."""
    axis, builder = wrap_dim(dim, x.rank), call.builder
    count = indices.shape[0] if indices.rank else as_expr(1)

    def names(at: Sequence[Expr], r: Expr) -> Node:
        named = _wrapped(
            indices.load((r,) if indices.rank else ()), builder.index_node(x.shape[axis])
        )
        return e.eq(named, builder.index_node(at[0]))

    source = _last_match(builder, [x.shape[axis]], count, names)

    def point(index: tuple[Expr, ...]) -> Node:
        last = source.load([index[axis]])
        found = e.ge(last, 0)
        r = at_value(builder, e.maximum(last, 0), count, wrap=False)
        return where(found, value_at(replace(index, axis, r), found), x.load(index))

    return builder.pointwise(x.shape, x.dtype, point)


@REGISTRY.row("aten.index_copy.default")
def index_copy(call: Call, x: Tensor, dim: int, indices: Tensor, source: Tensor) -> Tensor:
    """x with slices along `dim` replaced by those of `source`."""
    return _by_slices(call, x, dim, indices, source.load)


@REGISTRY.row("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(call: Call, x: Tensor, dim: int, indices: Tensor, value: Operand) -> Tensor:
    """x with slices along `dim` replaced by a value."""

    def filled(at: Sequence[Expr], mask: Node) -> Node:
        return element(call.builder, value, at, x.dtype)

    return _by_slices(call, x, dim, indices, filled)


@REGISTRY.row("aten.index_add.default")
def index_add(
    call: Call, x: Tensor, dim: int, indices: Tensor, source: Tensor, *, alpha: Any = 1
) -> Tensor:
    """x with slices of `source` added to the slices along `dim` that `indices` names."""
    axis, builder, compute = wrap_dim(dim, x.rank), call.builder, x.dtype.compute

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        r = rindex[0]
        named = cast(indices.load((r,)), INT64)
        hit = e.eq(named, builder.index_node(index[axis]))
        added = cast(source.load(replace(index, axis, r), hit), compute)
        scaled = added if alpha == 1 else e.mul(added, alpha)
        return narrow(e.add(cast(x.load(index), compute), reduce_("sum", scaled)), x.dtype)

    return builder.reduction(x.shape, indices.shape, [(x.dtype, body)])[0]


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
        source = _last_match(self.builder, self.x.shape, self.count, self.names)

        def point(index: tuple[Expr, ...]) -> Node:
            last = source.load(index)
            found = e.ge(last, 0)
            r = at_value(self.builder, e.maximum(last, 0), self.count, wrap=False)
            return where(found, value_at(self.at(index, r), found), self.x.load(index))

        return self.builder.pointwise(self.x.shape, self.x.dtype, point)

    def joined(self, source: Tensor, kind: str, include_self: bool) -> Tensor:
        """x joined with all values that name an element, by sum, prod, min or max."""
        x, compute = self.x, self.x.dtype.compute
        neutral = _NEUTRAL[kind](compute)

        def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
            hit = self.names(index, rindex[0])
            value = cast(source.load(self.at(index, rindex[0]), hit), compute)
            total = reduce_(kind, e.select(hit, value, neutral))
            old = cast(x.load(index), compute)
            result = _JOIN[kind](old, total)
            if not include_self:
                result = e.select(reduce_("any", hit), total, old)
            return narrow(result, x.dtype)

        return self.builder.reduction(x.shape, (self.count,), [(x.dtype, body)])[0]


def _extreme(least: bool) -> Any:
    def neutral(dtype: DType) -> float | int:
        if dtype.is_float:
            return -float("inf") if least else float("inf")
        bits = 8 * dtype.itemsize - (dtype.kind == "i")
        low = -(1 << bits) if dtype.kind == "i" else 0
        return low if least else (1 << bits) - 1

    return neutral


_NEUTRAL: dict[str, Any] = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "max": _extreme(least=True),
    "min": _extreme(least=False),
}
_JOIN = {"sum": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}
_REDUCE_NAMES = {"sum": "sum", "add": "sum", "prod": "prod", "multiply": "prod"}
_REDUCE_NAMES |= {"amax": "max", "amin": "min"}


@REGISTRY.row("aten.scatter.src")
def scatter_src(call: Call, x: Tensor, dim: int, indices: Tensor, src: Tensor) -> Tensor:
    """x with the elements that `indices` names along `dim` replaced by those of src."""
    return _Scatter(call, x, dim, indices).replaced(src.load)


@REGISTRY.row("aten.scatter.value")
def scatter_value(call: Call, x: Tensor, dim: int, indices: Tensor, value: Any) -> Tensor:
    """x with the elements that `indices` names along `dim` replaced by a value."""

    def filled(at: Sequence[Expr], mask: Node) -> Node:
        return element(call.builder, value, at, x.dtype)

    return _Scatter(call, x, dim, indices).replaced(filled)


@REGISTRY.row("aten.scatter_add.default")
def scatter_add(call: Call, x: Tensor, dim: int, indices: Tensor, src: Tensor) -> Tensor:
    """x with src added at the elements that `indices` names along `dim`."""
    return _Scatter(call, x, dim, indices).joined(src, "sum", include_self=True)


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
    """x joined with src at the elements that `indices` names along `dim`."""
    if reduce not in _REDUCE_NAMES:
        raise CannotLower(f"scatter with reduce={reduce!r}")
    return _Scatter(call, x, dim, indices).joined(src, _REDUCE_NAMES[reduce], include_self)
