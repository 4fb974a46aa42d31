"""Canonical loop names in a kernel, so that equal kernels have equal text and compile once."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.kernel_facts import outer_axes
from aot.ir.kernels import FusedKernel, NestKernel, Stage, Strip, TemplateKernel
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis, LoopNest
from aot.ir.rewrite import simplify_indices
from aot.schedule.groups import rename
from aot.symbolic import Symbol, substitute, var


def canonical_kernel(graph: LoopGraph, kernel: FusedKernel) -> FusedKernel:
    """The kernel with loop variables named o0…, i0…, r0… in order, and indices simplified."""
    mapping: dict[Symbol, Symbol] = {}
    counts = {"o": 0, "i": 0, "r": 0}

    def name(axes: tuple[Axis, ...], prefix: str) -> None:
        for axis in axes:
            if axis.symbol not in mapping:
                mapping[axis.symbol] = var(f"{prefix}{counts[prefix]}")
                counts[prefix] += 1

    name(outer_axes(kernel), "o")
    if isinstance(kernel, TemplateKernel):
        name(kernel.template.output.axes, "i")
    for stage in kernel.stages:
        name(stage.inner, "i")
        name(stage.reduction, "r")
    stages = tuple(_rename_stage(graph, s, mapping) for s in kernel.stages)
    if isinstance(kernel, NestKernel):
        strip = kernel.strip
        renamed = None if strip is None else Strip(_axis(strip.axis, mapping), strip.size)
        outer = tuple(_axis(a, mapping) for a in kernel.outer)
        return replace(kernel, outer=outer, stages=stages, strip=renamed)
    view = kernel.template.output
    axes = tuple(_axis(a, mapping) for a in view.axes)
    index = tuple(substitute(e, mapping) for e in view.index)
    template = replace(kernel.template, output=replace(view, axes=axes, index=index))
    prologue = tuple(simplify(graph, n) for n in kernel.prologue)
    return replace(kernel, prologue=prologue, stages=stages, template=template)


def _axis(axis: Axis, mapping: dict[Symbol, Symbol]) -> Axis:
    return Axis(mapping[axis.symbol], axis.extent)


def _rename_stage(graph: LoopGraph, stage: Stage, mapping: dict[Symbol, Symbol]) -> Stage:
    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(_axis(a, mapping) for a in old)

    vector = _axis(stage.vector, mapping) if stage.vector else None
    nests = tuple(simplify(graph, rename(n, mapping)) for n in stage.nests)
    return Stage(axes(stage.inner), axes(stage.reduction), axes(stage.order), vector, nests)


def simplify(graph: LoopGraph, nest: LoopNest, *more: Axis) -> LoopNest:
    """The nest with every index simplified by the ranges of its axes (and `more`)."""
    return simplify_indices(nest, graph.ranges(*nest.axes, *nest.reduction, *more))
