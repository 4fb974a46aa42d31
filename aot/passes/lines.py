"""Rows of temporaries start where template calls read and write them faster.

Where they are read that is at whole lines of the cache, where they are written at whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.hints import Hints, larger_hints
from aot.ir.loops import LoopGraph, bases
from aot.ir.machine import Machine
from aot.ir.nests import Buffer, LoopNest, View
from aot.ir.templates.base import TemplateCall, operand_dtype
from aot.ir.templates.builder import multiple_of
from aot.ir.views import strides_of_order, view_strides
from aot.symbolic import Expr, is_multiple

LEAST_LINES = 8
"""Lines of a row from which what completes the last one is at most an eighth more."""


def in_lines(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with temporaries that are longer by what makes their rows whole lines."""
    fixed = set(graph.results) | {
        name for op in graph.ops for pair in bases(op).items() for name in pair
    }
    buffers, decisions = dict(graph.buffers), list(graph.decisions)
    hints = larger_hints(graph.dims)
    for call, does, view, wanted in _wishes(graph, machine, hints):
        source = buffers[view.buffer]
        if source.kind != "temp" or view.buffer in fixed:
            continue
        longer = _longer(source, view, wanted, hints)
        if longer is None or not _plain(graph, longer):
            continue
        buffers[view.buffer] = longer
        reason = f"{call.name} {does} rows faster that start at multiples of {wanted} bytes"
        decisions.append(Decision("layout", (view.buffer,), "in whole lines", reason))
    return replace(graph, buffers=buffers, decisions=tuple(decisions))


def _wishes(
    graph: LoopGraph, machine: Machine, hints: Hints
) -> Iterator[tuple[TemplateCall, str, View, int]]:
    """What calls wish of operands, and then of results: these wish for less."""
    results: list[tuple[TemplateCall, str, View, int]] = []
    for op in graph.ops:
        support = None if isinstance(op, LoopNest) else machine.support(type(op))
        if isinstance(op, LoopNest) or support is None:
            continue
        typed = support.of_type(operand_dtype(op, graph.buffers))
        for role, view in op.operands:
            wanted = op.line_bytes(role, typed, hints)
            if wanted > 1:
                yield op, "reads", view, wanted
        wanted = op.line_bytes("output", typed, hints)
        if wanted > 1:
            results.append((op, "writes", op.output, wanted))
    yield from results


def _longer(source: Buffer, view: View, wanted: int, hints: Hints) -> Buffer | None:
    """The buffer with rows of whole lines; None where they are, are short, or no axis runs along.

    Only a dimension that an axis of the view has for itself may get longer.
    """
    strides, size = source.strides or (), source.dtype.itemsize
    along = [k for k, stride in enumerate(strides) if stride == 1 and source.shape[k] != 1]
    if len(along) != 1:
        return None
    (k,) = along
    row = source.shape[k]
    own = [a for a in view.axes[-2:] if a.symbol == view.index[k] and a.extent == row]
    few = hints.value(row) * size < LEAST_LINES * wanted
    if not own or few or is_multiple(row * size, wanted):
        return None
    shape = tuple(
        multiple_of(wanted // size, e) if d == k else e for d, e in enumerate(source.shape)
    )
    return replace(source, shape=shape, strides=strides_of_order(shape, _order(strides, hints)))


def _order(strides: Sequence[Expr], hints: Hints) -> tuple[int, ...]:
    """Dimensions by falling stride."""
    return tuple(sorted(range(len(strides)), key=lambda k: -hints.value(strides[k])))


def _plain(graph: LoopGraph, longer: Buffer) -> bool:
    """Whether template calls still read and write the buffer by plain strides."""
    views = [
        view
        for op in graph.ops
        if isinstance(op, TemplateCall)
        for view in (op.output, *(v for _, v in op.operands))
        if view.buffer == longer.name
    ]
    assert longer.strides is not None
    return all(view_strides(v, longer.strides, graph.ranges(*v.axes)) is not None for v in views)
