"""Composition of views: a template call whose operand is a view of a buffer reads that buffer.

A transposed weight, say, is no operand of its own: the call's view of it and the transposition
become one view, where that still is plain strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aot.ir.loops import LoopGraph
from aot.ir.nests import View
from aot.ir.origin import Origin
from aot.ir.scalar import Access, Node
from aot.ir.templates.base import TemplateCall
from aot.ir.views import strides_of_order, view_strides, wanted_order
from aot.symbolic import (
    Symbol,
    row_major_strides,
    substitute,
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

    def source(view: View) -> View | None:
        return _source_view(graph, view, inlined)

    def fits(view: View) -> bool:
        return _has_layout(graph, view)

    def composed(_: str, view: View) -> View:
        found = source(view)
        return found if found is not None and fits(found) else view

    return call.composed(source, fits, graph.ranges).with_views(composed)


def _source_view(graph: LoopGraph, view: View, inlined: Mapping[str, Inlined]) -> View | None:
    """The same elements as a view of what the buffer is a view of; None when it is none."""
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
