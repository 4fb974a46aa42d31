"""Template calls that would leave the device idle, as several operations."""

from __future__ import annotations

from aot.ir.decisions import Decision
from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.passes.change_calls import Replacement, change_calls


def split_templates(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with calls in the parts that their kinds cut them into for this device."""
    hints = hints_of(graph.dims)

    def in_parts(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        support = machine.support(type(call))
        found = None if support is None else call.split(builder, support, machine.units, hints)
        if found is None:
            return None
        return Decision("split", (call.name,), found.choice, found.reason), found.ops

    return change_calls(graph, machine, in_parts)
