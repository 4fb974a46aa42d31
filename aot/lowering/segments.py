"""Reductions over runs of a dimension whose lengths are data, and positions of what is not 0."""

from __future__ import annotations

import math
from functools import partial

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, binary, cast
from aot.ir.templates.scan import Scan
from aot.lowering import exprs as e
from aot.lowering.axes import wrap_dim
from aot.lowering.bags import Runs
from aot.lowering.builder import Tensor, identity_view
from aot.lowering.joined_writes import count_up_to
from aot.lowering.pointwise import narrow
from aot.lowering.registry import Call, CannotLower
from aot.lowering.rows import REGISTRY
from aot.lowering.rowwise import running
from aot.lowering.views import moved
from aot.symbolic import Expr, as_expr, product, ravel, unravel

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_JOIN = {"sum": e.add, "mean": e.add, "prod": e.mul, "max": e.maximum, "min": e.minimum}


def _segments(
    x: Tensor, along: int, count: Expr, lengths: Tensor | None, offsets: Tensor | None
) -> Runs:
    """The runs of each row's positions along an axis: rows one behind the other, as one.

    Raises:
        CannotLower: Neither lengths nor offsets are given.
    """
    if lengths is None and offsets is None:
        raise CannotLower("segment_reduce without lengths and offsets")
    *lead, size = x.shape[: along + 1]
    sums = None if lengths is None else running(lengths, along, INT64, "sum")

    def between(bag: Expr) -> tuple[Node, Node]:
        at = unravel(bag, (*lead, count))
        if sums is None or lengths is None:
            assert offsets is not None
            ends = cast(offsets.load((*at[:-1], at[-1] + 1)), INT64)
            begins = cast(offsets.load(at), INT64)
        else:
            ends = sums.load(at)
            begins = e.sub(ends, cast(lengths.load(at), INT64))
        return begins, ends

    def first(bag: Expr) -> Node:
        return x.builder.index_node(ravel(unravel(bag, (*lead, count))[:-1], lead) * size)

    return Runs.between(x.builder, product((*lead, count)), size, between, first if lead else None)


@REGISTRY.row("aot.ended.default")
def ended(call: Call, ends: Tensor, size: Expr) -> Tensor:
    """At each of `size` positions, how many of the rising `ends` are not above it."""
    builder, places = call.builder, size + 1

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (builder.indirect(cast(ends.load(at), INT64), places, wrap=False),)

    counts = count_up_to(builder, (places,), ends.shape, place)
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
    count = result.shape[along]
    runs = _segments(x, along, count, lengths, offsets)
    positions, inner = x.shape[: along + 1], x.shape[along + 1 :]
    rows = builder.view(
        x,
        (product(positions), product(inner)),
        lambda at: (*unravel(at[0], positions), *unravel(at[1], inner)),
    )
    kind = "sum" if reduce == "mean" else reduce
    joined = runs.reduced(rows, x.dtype, kind)
    first = _START[reduce] if initial is None else float(initial)

    def point(at: tuple[Expr, ...]) -> Node:
        found, size = joined.load(at), runs.size(at[0])
        if initial is not None:
            found = _JOIN[reduce](found, first)
        if reduce == "mean":
            empty = e.lift(math.nan if initial is None else first, found)
            found = e.select(e.gt(size, 0), e.div(found, cast(size, found.dtype)), empty)
        return narrow(found, result.dtype)

    matrix = builder.pointwise(joined.shape, result.dtype, point)
    segments = result.shape[: along + 1]
    return moved(
        matrix,
        result.shape,
        lambda at: (ravel(at[: along + 1], segments), ravel(at[along + 1 :], inner)),
    )


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
