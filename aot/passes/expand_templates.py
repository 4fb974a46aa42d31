"""Template calls that are better, or only possible, as loop nests."""

from __future__ import annotations

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.passes.change_calls import Replacement, change_calls
from aot.passes.dead_code import remove_dead_code
from aot.passes.layout import expected_strides


def expand_templates(graph: LoopGraph, machine: Machine) -> LoopGraph:
    """The graph with nests for the calls that the device has no template for, or a slower one.

    What a call becomes may have calls of other kinds: these are expanded in their turn. Those whose
    nests depend on where operands lie come last, when it can be told. Calls that stay drop what
    only other devices need, and nobody computes that.
    """

    def expanded(builder: NestBuilder, call: TemplateCall) -> Replacement | None:
        waits = call.by_layout and not machine.gathers and not builder.strides
        reason = "" if waits else _reason(builder, call, machine)
        if not reason:
            alone = call.alone()
            kept = Decision("expand", (call.name,), "the template", "the device has it")
            return None if alone is call else (kept, [alone])
        made = call.expand(builder, machine.support(type(call)))
        on_host = any(isinstance(op, TemplateCall) and op.on_host for op in made)
        verdict = "a call of the host, with copies" if on_host else "loop nests"
        return Decision("expand", (call.name,), verdict, reason), made

    while True:
        changed = change_calls(graph, machine, expanded)
        if changed is graph and any(_is_last(op, machine) for op in graph.ops):
            strides = expected_strides(graph, machine)
            changed = change_calls(graph, machine, expanded, strides)
        if changed is graph:
            return graph
        graph = remove_dead_code(changed)


def _is_last(op: LoopOp, machine: Machine) -> bool:
    """Whether it is a call whose nests wait for layouts."""
    return isinstance(op, TemplateCall) and op.by_layout and not machine.gathers


def _reason(builder: NestBuilder, call: TemplateCall, machine: Machine) -> str:
    support = machine.support(type(call))
    if support is None:
        return f"the device has no template for {call.kind}"
    refused = support.accepts(call, builder.buffers, builder.hints)
    return refused or call.better_as_nests(support, builder)
