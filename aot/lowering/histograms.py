"""Histograms: each bin counts the elements that fall into it."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.joined_writes import count_at
from aot.lowering.promotion import size_node
from aot.lowering.reductions import ElementAt, domain, reduced
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.searching import search_steps
from aot.lowering.views import reshaped
from aot.symbolic import Expr, as_expr, integer, is_int, product, ravel


def _bounds(x: Tensor, low: float, high: float, margin: float = 1.0) -> Tensor:
    """[low, high]; the elements' extrema where these are 0, `margin` beyond them if equal.

    Of nothing [0, 1].
    """
    builder, compute, count = x.builder, x.dtype.compute, product(x.shape)

    def extremum(kind: str) -> Node:
        if low != high:
            return const(low if kind == "min" else high, compute)
        return extrema[kind].load(())

    kinds = ("min", "max")
    extrema: dict[str, Tensor] = {}
    if low == high:
        outputs = [(compute, partial(_extreme, x, kind)) for kind in kinds]
        extrema = dict(zip(kinds, reduced(builder, domain(x, None), outputs), strict=True))

    def bound(at: tuple[Expr, ...]) -> Node:
        first, last = (extremum(kind) for kind in kinds)
        if extrema and not is_int(count):  # A size that varies may be 0.
            empty = e.eq(builder.index_node(count), 0)
            first, last = e.select(empty, 0, first), e.select(empty, 1, last)
        apart = e.mul(cast(e.eq(first, last), compute), e.lift(margin, first))
        is_first = e.eq(builder.index_node(at[0]), 0)
        return e.select(is_first, e.sub(first, apart), e.add(last, apart))

    return builder.pointwise((integer(2),), compute, bound)


def _extreme(x: Tensor, kind: str, read: ElementAt) -> Node:
    return reduce_(kind, cast(read(x), x.dtype.compute))


@REGISTRY.row("aten.histc.default")
def histc(call: Call, x: Tensor, bins: Expr | int = 100, low: Any = 0, high: Any = 0) -> Tensor:
    """How many elements lie in each of `bins` equal parts of [low, high], its ends included."""
    builder, result, compute = call.builder, call.result_type(), x.dtype.compute
    count = product(x.shape)
    flat, bounds = reshaped(x, (count,)), _bounds(x, float(low), float(high))

    def place(at: tuple[Expr, ...]) -> Node:
        first, end = bounds.load((integer(0),)), bounds.load((integer(1),))
        value = cast(flat.load(at), compute)
        share = e.div(e.sub(value, first), e.sub(end, first))
        parts = size_node(builder, as_expr(bins), compute)
        position = cast(e.floor(e.mul(share, parts)), INT64)
        last = builder.index_node(as_expr(bins) - 1)
        inside = e.and_(e.ge(value, first), e.le(value, end))
        return e.select(inside, e.minimum(position, last), -1)

    places = builder.pointwise((count,), INT64, place)
    hits = _counts(places, as_expr(bins))
    return builder.pointwise(
        (as_expr(bins),), result.dtype, lambda at: cast(hits.load(at), result.dtype)
    )


def _counts(places: Tensor, bins: Expr) -> Tensor:
    """How many of the places name each bin, and, behind them, how many are -1; int32."""

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (places.builder.indirect(places.load(at), bins + 1, wrap=True),)

    return count_at(places.builder, (bins + 1,), places.shape, place)


@REGISTRY.row("aot.bin_total.default")
def bin_total(call: Call, x: Tensor, least: int | Expr) -> Tensor:
    """One more than the greatest element, at least `least`; -1 where an element is negative."""
    fewest = size_node(call.builder, as_expr(least), INT64)

    def body(_: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        value = cast(x.load(rat), INT64)
        negative = reduce_("any", e.lt(value, 0))
        greatest = reduce_("max", e.maximum(value, -1))
        return e.select(negative, -1, e.maximum(e.add(e.maximum(greatest, -1), 1), fewest))

    return call.builder.reduction((), x.shape, [(INT64, body)])[0]


@REGISTRY.row("aot.bin_counts.default")
def bin_counts(call: Call, x: Tensor, weights: Tensor | None) -> Tensor:
    """How many elements equal each index, or the sum of their weights."""
    builder, result = call.builder, call.result_type()
    none = builder.pointwise(result.shape, result.dtype, lambda _: const(0, result.dtype))

    def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (builder.indirect(x.load(at), result.shape[0], wrap=False),)

    def weight(at: tuple[Expr, ...]) -> Node:
        given = const(1, result.dtype) if weights is None else weights.load(at)
        return cast(given, result.dtype)

    return builder.update(none, x.shape, place, weight, "add")


@REGISTRY.row("aten.histogram.bins_tensor")
def histogram_of_edges(
    call: Call, x: Tensor, edges: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor | None, ...]:
    """(how many elements, or what weights, lie between neighbouring edges; the edges)."""
    return _histogram(call, x, edges, weight, density), edges


@REGISTRY.row("aten.histogram.bin_ct")
def histogram_of_parts(
    call: Call,
    x: Tensor,
    bins: Expr | int = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor | None, ...]:
    """As of edges that divide `range`, by default the elements', evenly."""
    edges = _even_edges(x, bins, range)
    return _histogram(call, x, edges, weight, density), edges


def _even_edges(x: Tensor, bins: Expr | int, range: tuple[float, float] | None) -> Tensor:
    """The edges of `bins` equal parts of the range, by default the elements'."""
    low, high = range or ((0.0, 1.0) if is_int(product(x.shape), 0) else (0.0, 0.0))
    if range is not None and low == high:
        low, high = low - 0.5, high + 0.5
    bounds, compute, builder = _bounds(x, low, high, 0.5), x.dtype.compute, x.builder

    def edge(at: tuple[Expr, ...]) -> Node:
        first, end = bounds.load((integer(0),)), bounds.load((integer(1),))
        k, last = (size_node(builder, n, compute) for n in (at[0], as_expr(bins)))
        step = e.div(e.sub(end, first), last)
        low_half = e.lt(e.mul(k, 2.0), last)
        # An element on an edge is in the bin that eager's roundings say.
        from_start, from_end = e.fma(step, k, first), e.fma(e.neg(step), e.sub(last, k), end)
        return cast(e.select(low_half, from_start, from_end), x.dtype)

    return builder.pointwise((as_expr(bins) + 1,), x.dtype, edge)


@REGISTRY.row("aten._histogramdd_bin_edges.default")
def edges_of_columns(
    call: Call,
    x: Tensor,
    bins: Sequence[Expr | int],
    *,
    range: Sequence[float] | None = None,
    **_: Any,
) -> tuple[Tensor, ...]:
    """For each column of a matrix the edges of as many equal parts as `bins` says."""
    ends = [None] * len(bins) if range is None else list(zip(range[::2], range[1::2], strict=True))
    columns = _columns(x)
    return tuple(_even_edges(c, n, r) for c, n, r in zip(columns, bins, ends, strict=True))


@REGISTRY.row("aten._histogramdd_from_bin_cts.default")
def histogram_of_even_columns(
    call: Call,
    x: Tensor,
    bins: Sequence[Expr | int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """How many rows, or what weights, lie in each box of the columns' equal parts."""
    edges = edges_of_columns(call, x, bins, range=range)
    return histogram_of_columns(call, x, edges, weight=weight, density=density)


@REGISTRY.row("aten._histogramdd_from_bin_tensors.default")
def histogram_of_columns(
    call: Call,
    x: Tensor,
    bins: Sequence[Tensor],
    *,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    """How many rows, or what weights, lie in each box of the columns' neighbouring edges."""
    return _boxes(call, _columns(x), bins, weight, density)


def _columns(x: Tensor) -> list[Tensor]:
    """The columns of a matrix, whose rows may be nested."""
    count, builder = product(x.shape[:-1]), x.builder
    rows = reshaped(x, (count, x.shape[-1]))

    def column(k: int) -> Tensor:
        return builder.pointwise((count,), x.dtype, lambda at: rows.load((at[0], integer(k))))

    return [column(k) for k in builtins.range(int(x.shape[-1]))]


def _histogram(
    call: Call, x: Tensor, edges: Tensor, weight: Tensor | None, density: bool
) -> Tensor:
    return _boxes(call, [reshaped(x, (product(x.shape),))], [edges], weight, density)


def _boxes(
    call: Call,
    columns: Sequence[Tensor],
    edges: Sequence[Tensor],
    weight: Tensor | None,
    density: bool,
) -> Tensor:
    """How many points, or what weights, lie between neighbouring edges in every column."""
    builder, dtype = call.builder, columns[0].dtype
    compute, count = dtype.compute, columns[0].shape[0]
    weights = None if weight is None else reshaped(weight, (count,))
    bins = tuple(edge.shape[0] - 1 for edge in edges)

    places = [_parts(column, ends) for column, ends in zip(columns, edges, strict=True)]
    total = product(bins)

    def box(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
        # What lies in no box goes behind the last one.
        known = [place.load(at) for place in places]
        inside = reduce(e.and_, (e.ge(k, 0) for k in known))
        number: Node = known[0]
        for k, size in zip(known[1:], bins[1:], strict=True):
            number = e.add(e.mul(number, builder.index_node(size)), k)
        named = e.select(inside, number, builder.index_node(total))
        return (builder.indirect(named, total + 1, wrap=False),)

    def given(at: tuple[Expr, ...]) -> Node:
        return const(1.0, compute) if weights is None else cast(weights.load(at), compute)

    none = builder.pointwise((total + 1,), compute, lambda _: const(0.0, compute))
    sums = builder.update(none, (count,), box, given, "add")
    counts = builder.pointwise(bins, dtype, lambda at: cast(sums.load((ravel(at, bins),)), dtype))
    if not density:
        return counts
    outputs: list[Any] = [(compute, lambda read: reduce_("sum", cast(read(counts), compute)))]
    whole = reduced(builder, domain(counts, None), outputs)[0]

    def share(at: tuple[Expr, ...]) -> Node:
        ends = ((cast(edges[k].load((n,)), compute) for n in (i, i + 1)) for k, i in enumerate(at))
        widths = (e.sub(end, start) for start, end in ends)
        volume = reduce(e.mul, widths, whole.load(()))
        return cast(e.div(cast(counts.load(at), compute), volume), dtype)

    return builder.pointwise(counts.shape, dtype, share)


def _parts(x: Tensor, edges: Tensor) -> Tensor:
    """Between which two edges each element lies, the last one included; -1 for none.

    A binary search, as eager has it: edges that are not sorted give what it gives.
    """
    builder, compute, count = x.builder, x.dtype.compute, edges.shape[0]
    last = builder.index_node(count - 1)

    def part(at: tuple[Expr, ...]) -> Node:
        value = cast(x.load(at), compute)
        first, length = const(0, INT64), builder.index_node(count)
        for _ in range(search_steps(builder, count)):
            half = e.shr(length, 1)
            middle = e.add(first, half)
            place = builder.indirect(e.minimum(middle, last), count, wrap=False)
            below = e.lt(value, cast(edges.load((place,)), compute))
            ended = e.le(length, 0)
            rest = e.select(below, half, e.sub(e.sub(length, half), 1))
            first = e.select(e.or_(below, ended), first, e.add(middle, 1))
            length = e.select(ended, length, rest)
        least, greatest = (cast(edges.load((i,)), compute) for i in (integer(0), count - 1))
        inside = e.and_(e.ge(value, least), e.le(value, greatest))
        return e.select(inside, e.minimum(e.sub(first, 1), e.sub(last, 1)), -1)

    return builder.pointwise(x.shape, INT64, part)
