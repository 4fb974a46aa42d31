"""Puts other operations in the place of template calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph, writes
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr

Replacement = tuple[Decision, Sequence[LoopOp]]
"""What takes a template call's place, and why."""

Change = Callable[[NestBuilder, TemplateCall], Replacement | None]
"""What becomes of a template call; None: it stays."""


def change_calls(
    graph: LoopGraph,
    machine: Machine,
    change: Change,
    strides: Mapping[str, tuple[Expr, ...]] | None = None,
) -> LoopGraph:
    """The graph with some template calls replaced; the same one where all stay.

    `strides`: as `NestBuilder` has it.
    """
    nests = {n: op for op in graph.ops if isinstance(op, LoopNest) for n in writes(op)}
    lanes = None if machine.gathers else machine.lanes
    builder = NestBuilder(
        dict(graph.buffers), nests, graph.dims, lanes, machine.units, strides or {}
    )
    ops: list[LoopOp] = []
    decisions: list[Decision] = []
    for op in graph.ops:
        changed = change(builder, op) if isinstance(op, TemplateCall) else None
        if changed is None:
            ops.append(op)
            continue
        decision, made = changed
        decisions.append(decision)
        ops.extend(made)
    if not decisions:
        return graph
    return replace(
        graph,
        buffers=builder.buffers,
        ops=tuple(ops),
        derived=(*graph.derived, *builder.derived),
        decisions=(*graph.decisions, *decisions),
    )
