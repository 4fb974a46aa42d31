"""Two template calls in turn as one, where the device has a template that does the work of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, reads
from aot.ir.machine import Machine
from aot.ir.nests import View
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.views import view_strides
from aot.symbolic import Expr


def join_templates(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with one call for pairs of calls, the last pair of a row of them first."""
    readers = Counter(name for op in graph.ops for name in reads(op))
    writers = {op.output.buffer: op for op in graph.ops if isinstance(op, TemplateCall)}
    ops: list[LoopOp] = []
    gone: set[str] = set()
    decisions: list[Decision] = []
    for op in reversed(graph.ops):
        if op.name in gone:
            continue
        found = next(_pairs(graph, machine, op, writers), None)
        if found is None:
            ops.append(op)
            continue
        first, joined = found
        between, names = first.output.buffer, (first.name, op.name)
        if readers[between] > 1 or between in graph.outputs:
            joined = f"{between} is wanted by others too"
        if isinstance(joined, str):
            decisions.append(Decision("join", names, "two calls", joined))
            ops.append(op)
            continue
        decisions.append(Decision("join", names, "one call", f"{between} need not be stored"))
        gone.add(first.name)
        ops.append(joined)
    if not decisions:
        return graph
    left = (*graph.decisions, *reversed(decisions))
    return replace(graph, ops=tuple(reversed(ops)), decisions=left)


def _pairs(
    graph: LoopGraph, machine: Machine, op: LoopOp, writers: Mapping[str, TemplateCall]
) -> Iterator[tuple[TemplateCall, TemplateCall | str]]:
    """(the call whose result the operation reads, both in one or why not) by the device's kinds."""

    def strides(view: View) -> Sequence[Expr] | None:
        known = graph.buffers[view.buffer].strides
        found = None if known is None else view_strides(view, known, graph.ranges(*view.axes))
        return None if found is None else found[0]

    if not isinstance(op, TemplateCall):
        return
    for _, view in op.operands:
        first = writers.get(view.buffer)
        if first is None:
            continue
        for support in machine.templates:
            joined = support.kind.joined(first, op, support, strides)
            if joined is not None:
                yield first, joined
