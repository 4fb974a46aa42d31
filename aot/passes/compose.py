"""Views of template calls read through views: an operand is taken from where it was computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.ir.loops import Axis, LoopGraph, TemplateCall, View
from aot.ir.origin import Origin
from aot.ir.scalar import Access, Node
from aot.ir.views import strides_of_order, view_strides, wanted_order
from aot.symbolic import (
    Expr,
    FloorDiv,
    Symbol,
    exact_quotient,
    row_major_strides,
    substitute,
    var,
)


@dataclass(frozen=True)
class Inlined:
    """An inlined buffer: its value as a function of the buffer's index, and where it is from."""

    symbols: tuple[Symbol, ...]
    value: Node
    origins: tuple[Origin, ...]


def compose_views(
    graph: LoopGraph, call: TemplateCall, inlined: Mapping[str, Inlined]
) -> TemplateCall:
    """The call with its operands read from the sources of inlined views, where strides allow it."""
    if call.kind == "attention":
        call = _share_heads(graph, call, inlined)
    operands = tuple((role, _compose(graph, view, inlined)) for role, view in call.operands)
    return call if operands == call.operands else replace(call, operands=operands)


def _compose(graph: LoopGraph, view: View, inlined: Mapping[str, Inlined]) -> View:
    composed = _source_view(graph, view, inlined)
    return composed if composed is not None and _has_layout(graph, composed) else view


def _source_view(graph: LoopGraph, view: View, inlined: Mapping[str, Inlined]) -> View | None:
    """The view's elements where the inlined view got them; None when that is no view."""
    body = inlined.get(view.buffer)
    if body is None or body.value.op != "load" or body.value.args:
        return None
    access = body.value.attr
    assert isinstance(access, Access)
    mapping = dict(zip(body.symbols, view.index, strict=True))
    ranges = graph.ranges(*view.axes)
    index = tuple(ranges.simplify(substitute(e, mapping)) for e in access.index)
    return View(access.buffer, view.axes, index)


def _has_layout(graph: LoopGraph, view: View) -> bool:
    """True when some layout of the source makes the view plain strides."""
    source = graph.buffers[view.buffer]
    candidates = [source.strides or row_major_strides(source.shape)]
    if source.strides is None:
        order = wanted_order(view, source.shape, view.axes)
        if order is not None:
            candidates.append(strides_of_order(source.shape, order))
    ranges = graph.ranges(*view.axes)
    return any(view_strides(view, s, ranges) is not None for s in candidates)


def _share_heads(
    graph: LoopGraph, call: TemplateCall, inlined: Mapping[str, Inlined]
) -> TemplateCall:
    """Keys and values that repeat each head for a group of query heads, without the repetition."""
    views = {role: _source_view(graph, call.operand(role), inlined) for role in ("k", "v")}
    keys, values = views["k"], views["v"]
    if keys is None or values is None:
        return call
    size = _group_size(keys)
    if size is None:
        return call
    shared = {"k": _one_of_group(graph, keys, size), "v": _one_of_group(graph, values, size)}
    if any(v is None or not _has_layout(graph, v) for v in shared.values()):
        return call
    operands = tuple((role, shared.get(role) or view) for role, view in call.operands)
    return replace(call, operands=operands)


def _group_size(view: View) -> Expr | None:
    head = view.axes[1].symbol
    for expr in view.index:
        for part in expr.atoms(FloorDiv):
            if part.args[0] == head:
                return part.args[1]
    return None


def _one_of_group(graph: LoopGraph, view: View, size: Expr) -> View | None:
    """The view over groups of `size` heads; None when the heads of a group differ."""
    head = view.axes[1]
    count = exact_quotient(head.extent, size)
    if count is None:
        return None
    group, member = Axis(var("hg"), count), Axis(var("hm"), size)
    mapping: dict[Symbol, Expr] = {head.symbol: group.symbol * size + member.symbol}
    axes = (view.axes[0], group, *view.axes[2:])
    ranges = graph.ranges(*axes, member)
    index = tuple(ranges.simplify(substitute(e, mapping)) for e in view.index)
    if any(member.symbol in e.free_symbols for e in index):
        return None
    return View(view.buffer, axes, index)
