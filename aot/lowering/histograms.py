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
from aot.symbolic import Expr, as_expr, integer, product


def _bounds(x: Tensor, low: float, high: float) -> Tensor:
    """[low, high]; the elements' extrema where these are equal, one apart from equal elements."""
    builder, compute = x.builder, x.dtype.compute

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
        apart = cast(e.eq(first, last), compute)
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
