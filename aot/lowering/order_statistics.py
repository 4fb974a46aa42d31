"""Elements by their rank along a dimension: k-th values, medians, modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.axes import insert, replace, wrap_dim
from aot.lowering.builder import Tensor
from aot.lowering.promotion import size_node
from aot.lowering.reductions import domain, reduced
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import at_rank, order_along, picked, running
from aot.lowering.views import moved, reshaped
from aot.symbolic import Expr, FloorDiv, as_expr, product


def _at_rank(x: Tensor, axis: int, kept: Expr, place: Callable[[tuple[Expr, ...]], Node]) -> Tensor:
    """Positions along `axis` of the elements of rank `place(index)`, one for each line along it.

    Ranks count from 0, the least element, and are below `kept`; `axis` has size 1 in the result.
    """
    order = order_along(x, axis, kept, descending=False)
    shape = replace(x.shape, axis, as_expr(1))

    def point(at: tuple[Expr, ...]) -> Node:
        rank = x.builder.indirect(place(at), kept, wrap=False)
        return order.load(replace(at, axis, rank))

    return x.builder.pointwise(shape, INT64, point)


def _results(x: Tensor, positions: Tensor, axis: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """(values, positions), of size 1 along `axis`, or without it."""
    values = picked(x, positions, axis)
    if keepdim:
        return values, positions
    shape = tuple(s for k, s in enumerate(positions.shape) if k != axis)
    zero = as_expr(0)

    def dropped(y: Tensor) -> Tensor:
        return moved(y, shape, lambda at: insert(at, axis, zero))

    return dropped(values), dropped(positions)


def _line(x: Tensor) -> Tensor:
    """A 0-d tensor as a line of one element; others as they are."""
    return x if x.rank else reshaped(x, (as_expr(1),))


@REGISTRY.row("aten.kthvalue.default")
def kthvalue(
    call: Call, x: Tensor, k: Expr | int, dim: int = -1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The k-th least element, counted from 1, NaN greatest; of equals the k-th in order."""
    axis, keep = wrap_dim(dim, x.rank), keepdim and x.rank > 0
    x = _line(x)
    return _results(x, at_rank(x, axis, as_expr(k) - 1), axis, keep)


def _median_positions(x: Tensor, axis: int, skips_nan: bool) -> Tensor:
    """Positions, of size 1 along `axis`, of the lower median; the first NaN where it counts."""
    builder, size = x.builder, x.shape[axis]
    # Where NaNs count, a line that has one has its median without its order.
    half = (
        None if x.dtype.is_float and skips_nan else at_rank(x, axis, FloorDiv(size - 1, as_expr(2)))
    )
    if half is not None and not x.dtype.is_float:
        return half
    over = domain(x, axis, keepdim=True)
    outputs: list[Any] = [
        (INT64, lambda read: reduce_("sum", cast(e.isnan(read(x)), INT64))),
        (INT64, lambda read: reduce_("argmax", cast(read(x), x.dtype.compute))),
    ]
    nans, first = reduced(builder, over, outputs)

    def middle(at: tuple[Expr, ...]) -> Node:
        last = e.sub(size_node(builder, size - 1, INT64), nans.load(at))
        return e.shr(e.maximum(last, 0), 1)

    if half is None:
        return _at_rank(x, axis, size, middle)

    def point(at: tuple[Expr, ...]) -> Node:
        return e.select(e.gt(nans.load(at), 0), first.load(at), half.load(at))

    return builder.pointwise(half.shape, INT64, point)


def _median_dim(x: Tensor, dim: int, keepdim: bool, skips_nan: bool) -> tuple[Tensor, Tensor]:
    axis, keep = wrap_dim(dim, x.rank), keepdim and x.rank > 0
    x = _line(x)
    return _results(x, _median_positions(x, axis, skips_nan), axis, keep)


@REGISTRY.row("aten.median.dim")
def median_dim(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(lower median, its position); the first NaN where there is one."""
    return _median_dim(x, dim, keepdim, skips_nan=False)


@REGISTRY.row("aten.nanmedian.dim")
def nanmedian_dim(call: Call, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """As median, of what is not NaN."""
    return _median_dim(x, dim, keepdim, skips_nan=True)


def _median_of_all(x: Tensor, skips_nan: bool) -> Tensor:
    count = product(x.shape)
    if count == 0:
        value = float("nan") if x.dtype.is_float else -(1 << (8 * x.dtype.itemsize - 1))
        return x.builder.pointwise((), x.dtype, lambda at: cast(const(value, x.dtype), x.dtype))
    return _median_dim(reshaped(x, (count,)), 0, keepdim=False, skips_nan=skips_nan)[0]


@REGISTRY.row("aten.median.default")
def median(call: Call, x: Tensor) -> Tensor:
    """The lower median of all elements; NaN where one is."""
    return _median_of_all(x, skips_nan=False)


@REGISTRY.row("aten.nanmedian.default")
def nanmedian(call: Call, x: Tensor) -> Tensor:
    """The lower median of what is not NaN."""
    return _median_of_all(x, skips_nan=True)


@REGISTRY.row("aten.mode.default")
def mode(call: Call, x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """(the most frequent element, the least of them; its last position)."""
    axis, keep = wrap_dim(dim, x.rank), keepdim and x.rank > 0
    x = _line(x)
    builder, size = x.builder, x.shape[axis]
    order = order_along(x, axis, size, descending=False)
    ordered = picked(x, order, axis)

    def start(at: tuple[Expr, ...]) -> Node:
        here = builder.index_node(at[axis])
        before = ordered.load(replace(at, axis, at[axis] - 1), e.gt(here, 0))
        return e.select(e.ne(ordered.load(at), before), here, 0)

    starts = running(builder.pointwise(x.shape, INT64, start), axis, INT64, "max")

    def behind(at: tuple[Expr, ...]) -> Node:
        return e.sub(builder.index_node(at[axis]), starts.load(at))

    lengths = builder.pointwise(x.shape, INT64, behind)
    over = domain(lengths, axis, keepdim=True)
    # Where the first of the longest runs ends: in ascending order it is that of the least element,
    # and equal ones are in the order of their positions.
    best = reduced(builder, over, [(INT64, lambda read: reduce_("argmax", read(lengths)))])[0]
    return _results(x, picked(order, best, axis), axis, keep)
