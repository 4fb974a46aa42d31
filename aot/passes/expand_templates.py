"""Template calls that are better, or only possible, as loop nests."""

from __future__ import annotations

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.passes.change_calls import Replacement, change_calls


def expand_templates(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with nests for the calls that the device has no template for, or a slower one.

    What a call becomes may have calls of other kinds: these are expanded in their turn.
    """

    def expanded(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        reason = _reason(builder, call, machine)
        if not reason:
            return None
        made = call.expand(builder, machine.support(type(call)))
        on_host = any(isinstance(op, TemplateCall) and op.on_host for op in made)
        verdict = "a call of the host, with copies" if on_host else "loop nests"
        return Decision("expand", (call.name,), verdict, reason), made

    while True:
        changed = change_calls(graph, machine, expanded)
        if changed is graph:
            return graph
        graph = changed


def _reason(builder: NestBuilder, call: TemplateCall, machine: Machine) -> str:
    support = machine.support(type(call))
    if support is None:
        return f"the device has no template for {call.kind}"
    refused = support.accepts(call, builder.buffers, builder.hints)
    return refused or call.better_as_nests(support, builder)
