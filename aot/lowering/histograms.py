"""Histograms: each bin counts the elements that fall into it."""

from __future__ import annotations

from functools import partial
from typing import Any

from aot.ir.dtypes import INT64
from aot.ir.scalar import Node, cast, const, reduce_
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.promotion import size_node
from aot.lowering.reductions import Read, domain, reduced
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.lowering.views import reshaped
from aot.symbolic import Expr, as_expr, integer, is_int, product


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


def _extreme(x: Tensor, kind: str, read: Read) -> Node:
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

    def body(at: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        hit = e.eq(places.load(rat), builder.index_node(at[0]))
        return cast(reduce_("sum", cast(hit, INT64)), result.dtype)

    return builder.reduction((as_expr(bins),), (count,), [(result.dtype, body)])[0]


@REGISTRY.row("aot.bin_total.default")
def bin_total(call: Call, x: Tensor, least: int) -> Tensor:
    """One more than the greatest element, at least `least`; -1 where an element is negative."""

    def body(_: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        value = cast(x.load(rat), INT64)
        negative = reduce_("any", e.lt(value, 0))
        greatest = reduce_("max", e.maximum(value, -1))
        return e.select(negative, -1, e.maximum(e.add(e.maximum(greatest, -1), 1), int(least)))

    return call.builder.reduction((), x.shape, [(INT64, body)])[0]


@REGISTRY.row("aot.bin_counts.default")
def bin_counts(call: Call, x: Tensor, weights: Tensor | None) -> Tensor:
    """How many elements equal each index, or the sum of their weights."""
    builder, result = call.builder, call.result_type()
    compute = result.dtype.compute

    def body(at: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        hit = e.eq(cast(x.load(rat), INT64), builder.index_node(at[0]))
        if weights is None:
            return reduce_("sum", cast(hit, INT64))
        weight = cast(weights.load(rat), compute)
        return reduce_("sum", e.select(hit, weight, 0))

    return builder.reduction(result.shape, x.shape, [(result.dtype, body)])[0]


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
    low, high = range or ((0.0, 1.0) if is_int(product(x.shape), 0) else (0.0, 0.0))
    if range is not None and low == high:
        low, high = low - 0.5, high + 0.5
    bounds, compute, builder = _bounds(x, low, high, 0.5), x.dtype.compute, call.builder

    def edge(at: tuple[Expr, ...]) -> Node:
        first, end = bounds.load((integer(0),)), bounds.load((integer(1),))
        k, last = (size_node(builder, n, compute) for n in (at[0], as_expr(bins)))
        step = e.div(e.sub(end, first), last)
        low_half = e.lt(e.mul(k, 2.0), last)
        # An element on an edge is in the bin that eager's roundings say.
        from_start, from_end = e.fma(step, k, first), e.fma(e.neg(step), e.sub(last, k), end)
        return cast(e.select(low_half, from_start, from_end), x.dtype)

    edges = builder.pointwise((as_expr(bins) + 1,), x.dtype, edge)
    return _histogram(call, x, edges, weight, density), edges


def _histogram(
    call: Call, x: Tensor, edges: Tensor, weight: Tensor | None, density: bool
) -> Tensor:
    builder, compute, count = call.builder, x.dtype.compute, product(x.shape)
    flat = reshaped(x, (count,))
    weights = None if weight is None else reshaped(weight, (count,))
    bins = edges.shape[0] - 1

    def edge(at: Expr) -> Node:
        return cast(edges.load((at,)), compute)

    def body(at: tuple[Expr, ...], rat: tuple[Expr, ...]) -> Node:
        value = cast(flat.load(rat), compute)
        is_last = e.eq(builder.index_node(at[0]), builder.index_node(bins - 1))
        below = e.or_(e.lt(value, edge(at[0] + 1)), e.and_(is_last, e.eq(value, edge(at[0] + 1))))
        hit = e.and_(e.ge(value, edge(at[0])), below)
        given = e.lift(1.0, value) if weights is None else cast(weights.load(rat), compute)
        return cast(reduce_("sum", e.select(hit, given, 0.0)), x.dtype)

    counts = builder.reduction((bins,), (count,), [(x.dtype, body)])[0]
    if not density:
        return counts
    over = domain(counts, None)
    outputs: list[Any] = [(compute, lambda read: reduce_("sum", cast(read(counts), compute)))]
    total = reduced(builder, over, outputs)[0]

    def share(at: tuple[Expr, ...]) -> Node:
        width = e.mul(total.load(()), e.sub(edge(at[0] + 1), edge(at[0])))
        return cast(e.div(cast(counts.load(at), compute), width), x.dtype)

    return builder.pointwise(counts.shape, x.dtype, share)
