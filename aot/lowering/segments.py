"""Reductions over runs of a dimension whose lengths are data, and positions of what is not 0."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, binary, cast
from aot.ir.templates.scan import Scan
from aot.lowering import exprs as e
from aot.lowering.axes import replace, wrap_dim
from aot.lowering.builder import GraphBuilder, PointBody, Tensor, identity_view
from aot.lowering.joined_writes import count_up_to, join_fresh
from aot.lowering.pointwise import narrow
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import running
from aot.symbolic import Expr, as_expr, product, unravel

SegmentBounds = Callable[[Sequence[Expr]], tuple[Node, Node]]
"""Where the segment at an index of the lengths begins and ends."""

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_JOIN = {"sum": e.add, "mean": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}


def _bounds(lengths: Tensor | None, offsets: Tensor | None) -> SegmentBounds:
    """Where segments begin and end, by their lengths or their offsets.

    Raises:
        CannotLower: Neither is given.
    """
    if offsets is not None:
        given = offsets

        def between(at: Sequence[Expr]) -> tuple[Node, Node]:
            following = (*at[:-1], at[-1] + 1)
            return cast(given.load(at), INT64), cast(given.load(following), INT64)

        return between
    if lengths is None:
        raise CannotLower("segment_reduce without lengths and offsets")
    sizes, ends = lengths, running(lengths, lengths.rank - 1, INT64, "sum")

    def up_to_end(at: Sequence[Expr]) -> tuple[Node, Node]:
        end = ends.load(at)
        return e.sub(end, cast(sizes.load(at), INT64)), end

    return up_to_end


def _segments(
    builder: GraphBuilder, shape: Sequence[Expr], bounds: SegmentBounds, count: Expr
) -> Tensor:
    """The segment of each position along the last dimension of `shape`; `count` for none.

    As many segments lie before a position as have ended there: a running count of ends.
    """
    ended = _ended(builder, shape, count, lambda at: bounds(at)[1])

    def segment(at: tuple[Expr, ...]) -> Node:
        number, none = cast(ended.load(at), INT64), builder.index_node(count)
        there = e.lt(number, none)
        own = builder.indirect(e.select(there, number, 0), count, wrap=False)
        begun = e.le(bounds((*at[:-1], own))[0], builder.index_node(at[-1]))
        return e.select(e.and_(there, begun), number, none)

    return builder.pointwise(shape, INT64, segment)


def _ended(builder: GraphBuilder, shape: Sequence[Expr], count: Expr, end: PointBody) -> Tensor:
    """At each position along the last dimension of `shape`, and behind it, how many have ended.

    `end`: where each of the `count` segments ends, a position or the one behind the last.
    """
    *lead, size = shape
    places = size + 1

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*at[:-1], builder.indirect(end(at), places, wrap=False))

    return count_up_to(builder, (*lead, places), (*lead, count), place)


@REGISTRY.row("aot.ended.default")
def ended(call: Call, ends: Tensor, size: Expr) -> Tensor:
    """At each of `size` positions, how many of the rising `ends` are not above it."""
    builder = call.builder
    counts = _ended(builder, (size,), ends.shape[0], lambda at: cast(ends.load(at), INT64))
    return builder.pointwise((size,), INT64, lambda at: cast(counts.load(at), INT64))


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
    builder, result, along = call.builder, call.result_type(), wrap_dim(axis, x.rank)
    bounds, count = _bounds(lengths, offsets), result.shape[along]
    segment = _segments(builder, x.shape[: along + 1], bounds, count)

    def place(at: tuple[Expr, ...]) -> Sequence[Expr]:
        # One more segment takes what lies in none.
        named = segment.load(at[: along + 1])
        return replace(at, along, builder.indirect(named, count + 1, wrap=False))

    fresh = replace(result.shape, along, count + 1)
    total, joined = join_fresh(builder, fresh, x.dtype, x.shape, place, x.load, reduce)
    first = _START[reduce] if initial is None else float(initial)

    def point(at: tuple[Expr, ...]) -> Node:
        start, end = bounds(at[: along + 1])
        size = e.sub(end, start)
        found = e.select(e.gt(size, 0), joined.give(total.load(at)), _START[reduce])
        if initial is not None:
            found = _JOIN[reduce](found, first)
        if reduce == "mean":
            empty = e.lift(math.nan if initial is None else first, found)
            found = e.select(e.gt(size, 0), e.div(found, cast(size, found.dtype)), empty)
        return narrow(found, result.dtype)

    return builder.pointwise(result.shape, result.dtype, point)


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
