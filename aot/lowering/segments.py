"""Reductions over runs of a dimension whose lengths are data, and positions of what is not 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, binary, cast, reduce_
from aot.ir.templates.scan import Scan
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.pointwise import narrow
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr, as_expr, product, unravel

SegmentBounds = Callable[[Sequence[Expr]], tuple[Node, Node]]
"""Where the segment at an index of the lengths begins and ends."""

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_KIND = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "max", "min": "min"}
_JOIN = {"sum": e.add, "mean": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}


def _bounds(call: Call, lengths: Tensor | None, offsets: Tensor | None) -> SegmentBounds:
    builder = call.builder
    if offsets is not None:
        given = offsets

        def between(at: Sequence[Expr]) -> tuple[Node, Node]:
            following = (*at[:-1], at[-1] + 1)
            return cast(given.load(at), INT64), cast(given.load(following), INT64)

        return between
    if lengths is None:
        raise CannotLower("segment_reduce without lengths and offsets")
    sizes = lengths
    axis = sizes.rank - 1

    def before(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        size = cast(sizes.load(replace(index, axis, rindex[0])), INT64)
        earlier = e.lt(builder.index_node(rindex[0]), builder.index_node(index[axis]))
        return reduce_("sum", e.select(earlier, size, 0))

    starts = builder.reduction(sizes.shape, (sizes.shape[axis],), [(INT64, before)])[0]

    def from_start(at: Sequence[Expr]) -> tuple[Node, Node]:
        start = starts.load(at)
        return start, e.add(start, cast(sizes.load(at), INT64))

    return from_start


@REGISTRY.row("aten.segment_reduce.default")
def segment_reduce(
    call: Call,
    x: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Runs of x along `axis` reduced by sum, mean, prod, max or min, each from `initial`.

    Raises:
        CannotLower: `indices` are given.
    """
    if indices is not None:
        raise CannotLower("segment_reduce with indices")
    builder, result = call.builder, call.result_type()
    compute, along = x.dtype.compute, wrap_dim(axis, x.rank)
    bounds = _bounds(call, lengths, offsets)
    first = _START[reduce] if initial is None else float(initial)

    def body(index: tuple[Expr, ...], rindex: tuple[Expr, ...]) -> Node:
        start, end = bounds(index[: along + 1])
        position = builder.index_node(rindex[0])
        inside = e.and_(e.ge(position, start), e.lt(position, end))
        value = cast(x.load(replace(index, along, rindex[0])), compute)
        total = reduce_(_KIND[reduce], e.select(inside, value, _START[reduce]))
        if initial is not None:
            total = _JOIN[reduce](total, first)
        if reduce == "mean":
            count = cast(e.sub(end, start), compute)
            empty = e.lift(math.nan if initial is None else first, total)
            total = e.select(e.gt(count, 0.0), e.div(total, count), empty)
        return narrow(total, result.dtype)

    return builder.reduction(result.shape, (x.shape[along],), [(result.dtype, body)])[0]


def _first_places(flags: Tensor, counted: Tensor, size: Expr) -> Tensor:
    """Positions of the first `size` flags that are set; how many there are behind the last one.

    `counted`: how many are set up to each. Both are rows, (1, n).
    """
    builder, count = flags.builder, flags.shape[1]

    def none(_: tuple[Expr, ...]) -> Node:
        return builder.index_node(count)

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        row = (as_expr(0), at[0])
        number = e.sub(counted.load(row), 1)
        wanted = e.and_(e.gt(flags.load(row), 0), e.lt(number, builder.index_node(size)))
        # One more takes what is not set, and what comes too late.
        named = e.select(wanted, number, builder.index_node(size))
        return (builder.indirect(named, size + 1, wrap=False),)

    empty = builder.pointwise((size + 1,), INT64, none)
    return builder.update(empty, (count,), place, lambda at: builder.index_node(at[0]), "last")


@REGISTRY.row("aten.nonzero_static.default")
def nonzero_static(call: Call, x: Tensor, *, size: Expr | int, fill_value: int = -1) -> Tensor:
    """Positions of the first `size` elements that are not 0, then rows of `fill_value`.

    The k-th, from 0, is at the number of places whose running count is at most k.
    """
    builder, count = call.builder, product(x.shape)
    flat = builder.pointwise(
        (as_expr(1), count),
        INT64,
        lambda at: cast(e.truth(x.load(unravel(at[1], x.shape))), INT64),
    )
    counted = builder.template(
        partial(Scan, x=identity_view(flat), combine="sum"), flat.shape, INT64
    )

    places = _first_places(flat, counted, as_expr(size))
    shape = call.result_type().shape
    if x.rank == 0:
        return builder.pointwise(shape, INT64, lambda at: builder.index_node(at[1]))

    def coordinate(index: tuple[Expr, ...]) -> Node:
        found = places.load((index[0],))
        inside = e.lt(found, builder.index_node(count))
        value = e.lift(fill_value, found)
        for k in range(x.rank):
            inner = builder.index_node(product(x.shape[k + 1 :]))
            own = e.div(found, inner)
            if k > 0:
                own = binary("mod", own, builder.index_node(x.shape[k]))
            wanted = e.eq(builder.index_node(index[1]), k)
            value = e.select(wanted, own, value)
        return e.select(inside, value, fill_value)

    return builder.pointwise(shape, INT64, coordinate)
