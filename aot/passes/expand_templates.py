"""Template calls that are better, or only possible, as loop nests.

A matrix product is expanded when the device has no template for it, or when its second operand is
so small that a template's packing and tiles cost more than they save: as nests, chains of tiny
layers become a single kernel.
"""

from __future__ import annotations

import math
from typing import Any

from aot.ir.decisions import Decision
from aot.ir.dtypes import BOOL, DType
from aot.ir.hints import Hints, hints_of
from aot.ir.loops import Axis, LoopGraph, LoopNest, LoopOp, Store, TemplateCall, View
from aot.ir.machine import Machine
from aot.ir.scalar import (
    Node,
    binary,
    cast,
    const,
    index_value,
    load,
    make,
    reduce_,
    unary,
    where,
)
from aot.passes.expand_argsort import expand_argsort, long_rows
from aot.passes.expand_resample import expand_resample, no_walk
from aot.passes.nest_builder import NestBuilder, Replacement, change_calls
from aot.symbolic import (
    Expr,
    FloorDiv,
    Symbol,
    integer,
    is_int,
    var,
)

TINY_WEIGHT = 4096
"""Elements of a second operand up to which a product is expanded."""

TINY_WORK = 1 << 17
"""Multiplications up to which a product with a tiny second operand is expanded."""


def expand_templates(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with some template calls as nests. Raises NotImplementedError for unknown kinds."""
    hints = hints_of(graph.dims)

    def expanded(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        reason = _reason(graph, call, machine, hints)
        if not reason:
            return None
        decision = Decision("expand", (call.name,), "loop nests", reason)
        return decision, _EXPANSIONS[call.kind](builder, call, machine)

    return change_calls(graph, expanded)


def _reason(graph: LoopGraph, call: TemplateCall, machine: Machine, hints: Hints) -> str:
    if call.kind not in machine.templates:
        return f"the device has no template for {call.kind}"
    dtype = graph.buffers[call.operands[0][1].buffer].dtype
    matrix = call.kind in ("matmul", "conv", "attention")
    if matrix and machine.matrix_dtypes and dtype.name not in machine.matrix_dtypes:
        return f"the device's template for {call.kind} takes no {dtype}"
    if call.kind == "attention":
        sizes = (call.operand("q").axes[3].extent, call.output.axes[3].extent)
        if not all(s.is_Integer for s in sizes):
            return "the size of a head is dynamic"
        if machine.head_size and any(int(s) > machine.head_size for s in sizes):
            return f"the device's template takes heads of up to {machine.head_size} elements"
    if call.kind == "argsort":
        return long_rows(call, dtype, machine, hints)
    if call.kind == "resample":
        return no_walk(call)
    if call.kind != "matmul":
        return ""
    right = call.operand("b").axes
    if not all(a.extent.is_Integer for a in right):
        return ""
    weight = hints.volume(right)
    work = hints.volume((*call.output.axes, right[-2]))
    if weight <= TINY_WEIGHT and work <= TINY_WORK:
        return f"its second operand has only {weight} elements"
    return ""


def _store(call: TemplateCall, value: Node, dtype: DType) -> Store:
    return Store(call.output.buffer, call.output.index, cast(value, dtype))


def _expand_matmul(builder: NestBuilder, call: TemplateCall, _: Machine) -> list[LoopOp]:
    a, b, axes = call.operand("a"), call.operand("b"), call.output.axes
    b = builder.row_major_weight(f"{call.name}_b", b, call.origin)
    k = Axis(var("k"), a.axes[-1].extent)
    *batch, m, n = (x.symbol for x in axes)
    at_a = dict(zip([x.symbol for x in a.axes], [*batch, m, k.symbol], strict=True))
    at_b = dict(zip([x.symbol for x in b.axes], [*batch, k.symbol, n], strict=True))
    left, right = builder.load(a, at_a), builder.load(b, at_b)
    value = reduce_("sum", binary("mul", left, right))
    store = _store(call, value, builder.dtype(call.output.buffer))
    return [LoopNest(call.name, axes, (k,), (store,), call.origin)]


def _expand_conv(builder: NestBuilder, call: TemplateCall, _: Machine) -> list[LoopOp]:
    x, w, axes = call.operand("x"), call.operand("w"), call.output.axes
    n, o, *spatial = (a.symbol for a in axes)
    kernel = [Axis(var(f"k{d}"), a.extent) for d, a in enumerate(w.axes[2:])]
    c = Axis(var("c"), w.axes[1].extent)
    per_group = w.axes[0].extent / call.attr("groups")
    group = FloorDiv(o, per_group) if call.attr("groups") > 1 else integer(0)
    position: list[Expr] = []
    mask: Node | None = None
    moves = [call.attr(name) for name in ("stride", "padding", "dilation")]
    geometry = zip(spatial, kernel, *moves, strict=True)
    for d, (s, tap, stride, padding, dilation) in enumerate(geometry):
        place = s * stride + tap.symbol * dilation - padding
        position.append(place)
        if padding:
            mask = _inside(mask, place, x.axes[2 + d].extent)
    at_x = dict(
        zip([a.symbol for a in x.axes], [n, group * c.extent + c.symbol, *position], strict=True)
    )
    at_w = dict(
        zip([a.symbol for a in w.axes], [o, c.symbol, *(t.symbol for t in kernel)], strict=True)
    )
    product = binary("mul", builder.load(x, at_x, mask), builder.load(w, at_w))
    store = _store(call, reduce_("sum", product), builder.dtype(call.output.buffer))
    return [LoopNest(call.name, axes, (c, *kernel), (store,), call.origin)]


def _inside(mask: Node | None, place: Expr, size: Expr) -> Node:
    low = binary("ge", index_value(place), index_value(integer(0)))
    high = binary("lt", index_value(place), index_value(size))
    inside = binary("and", low, high)
    return inside if mask is None else binary("and", mask, inside)


def _expand_attention(builder: NestBuilder, call: TemplateCall, _: Machine) -> list[LoopOp]:
    q, k, v, axes = call.operand("q"), call.operand("k"), call.operand("v"), call.output.axes
    b, h, s, d = (a.symbol for a in axes)
    keys, inner = Axis(var("t"), k.axes[2].extent), Axis(var("c"), q.axes[3].extent)
    dtype = builder.dtype(q.buffer).compute
    group = FloorDiv(q.axes[1].extent, k.axes[1].extent)
    head = FloorDiv(h, group) if not is_int(group, 1) else h
    rows, scored = axes[:3], (*axes[:3], keys)
    shape = tuple(a.extent for a in rows)
    scores = builder.temp(f"{call.name}_scores", dtype, (*shape, keys.extent))
    top = builder.temp(f"{call.name}_max", dtype, shape)
    exps = builder.temp(f"{call.name}_exp", dtype, (*shape, keys.extent))
    total = builder.temp(f"{call.name}_sum", dtype, shape)
    at_q = _at(q, (b, h, s, inner.symbol))
    at_k = _at(k, (b, head, keys.symbol, inner.symbol))
    dots = reduce_("sum", binary("mul", builder.load(q, at_q), builder.load(k, at_k)))
    value = binary("mul", dots, const(call.attr("scale"), dtype))
    value = _masked(builder, call, value, (b, h, s, keys.symbol))
    row, point = (b, h, s), (b, h, s, keys.symbol)
    finite = load(top, dtype, row)
    safe = where(unary("isinf", finite), const(0.0, dtype), finite)
    exp = unary("exp", binary("sub", load(scores, dtype, point), safe))
    at_v = _at(v, (b, head, keys.symbol, d))
    mix = reduce_("sum", binary("mul", load(exps, dtype, point), builder.load(v, at_v)))
    weight = load(total, dtype, row)
    none = binary("eq", weight, const(0.0, dtype))
    result = where(none, const(0.0, dtype), binary("div", mix, weight))

    def nest(part: str, over: tuple[Axis, ...], red: tuple[Axis, ...], store: Store) -> LoopNest:
        return LoopNest(f"{call.name}_{part}", over, red, (store,), call.origin)

    biggest = reduce_("max", load(scores, dtype, point))
    out = _store(call, result, builder.dtype(call.output.buffer))
    return [
        nest("scores", scored, (inner,), Store(scores, point, value)),
        nest("max", rows, (keys,), Store(top, row, biggest)),
        nest("exp", scored, (), Store(exps, point, exp)),
        nest("sum", rows, (keys,), Store(total, row, reduce_("sum", load(exps, dtype, point)))),
        nest("out", axes, (keys,), out),
    ]


def _at(view: View, index: tuple[Expr, ...]) -> dict[Symbol, Expr]:
    return dict(zip([a.symbol for a in view.axes], index, strict=True))


def _masked(
    builder: NestBuilder, call: TemplateCall, value: Node, point: tuple[Symbol, ...]
) -> Node:
    lowest = const(-math.inf, value.dtype)
    if call.attr("causal"):
        later = make("gt", BOOL, index_value(point[3]), index_value(point[2]))
        value = where(later, lowest, value)
    operands: dict[str, Any] = dict(call.operands)
    if "mask" not in operands:
        return value
    view = operands["mask"]
    mask = builder.load(view, _at(view, point))
    if mask.dtype == BOOL:
        return where(mask, value, lowest)
    return binary("add", value, cast(mask, value.dtype))


_EXPANSIONS = {
    "matmul": _expand_matmul,
    "conv": _expand_conv,
    "attention": _expand_attention,
    "resample": expand_resample,
    "argsort": expand_argsort,
}
