"""The weight program: code that computes derived weights again when weights are replaced.

It goes through the same stages as the model. Its routines are small graphs whose inputs are the
model's own weights (`passes.weight_routines`), so folding and packing at run time need nothing that
running a model does not have.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.base import Backend, EmittedGraph, EmittedRoutine
from aot.ir.flow import items_of, touched_by
from aot.ir.kernels import KernelGraph
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.options import Target
from aot.passes.dead_code import remove_dead_code
from aot.passes.inline import inline_producers
from aot.passes.layout import choose_layouts
from aot.passes.normalize_axes import normalize_axes
from aot.passes.weight_routines import weight_routines
from aot.schedule.fusion import fuse
from aot.schedule.memory import plan_memory


def with_weight_program(emitted: EmittedGraph, backend: Backend, target: Target) -> EmittedGraph:
    """The emitted graph with routines for every derived weight that its steps use."""
    used = [name for kernel in emitted.graph.kernels for name in kernel.reads]
    # What is called between launches reads derived weights as well.
    used += [name for item in items_of(emitted.graph.flow) for name in touched_by(item)[0]]
    wanted = weight_routines(emitted.graph, used)
    functions = list(emitted.functions)
    routines: list[EmittedRoutine] = []
    for routine in wanted.routines:
        kernels = backend.prepare(_schedule(routine, backend.machine(target)), target)
        made = backend.emit(kernels, target)
        functions += made.functions
        routines.append(EmittedRoutine(made.graph, plan_memory(made.graph), made.launches))
    return replace(
        emitted,
        functions=tuple(functions),
        routines=tuple(routines),
        derivations=wanted.derivations,
    )


def _schedule(graph: LoopGraph, machine: Machine) -> KernelGraph:
    """Kernels named after the routine. Nothing is folded: all of it depends on what changes."""
    graph = normalize_axes(inline_producers(remove_dead_code(graph), machine))
    kernels = fuse(choose_layouts(graph, machine), machine)
    named = (replace(k, name=f"{graph.name}_{k.name}") for k in kernels.kernels)
    return replace(kernels, kernels=tuple(named))
