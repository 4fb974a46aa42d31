"""Fusion: operations become groups, groups become kernels."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.capabilities import Capabilities
from aot.ir.hints import hints_of
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import LoopGraph
from aot.schedule.canonical import canonical_kernel
from aot.schedule.groups import Group, group_of
from aot.schedule.loops import Scheduler, build_kernel


def initial_groups(graph: LoopGraph) -> tuple[Group, ...]:
    """One group per operation."""
    return tuple(group_of(op, k) for k, op in enumerate(graph.ops))


def build_kernels(
    graph: LoopGraph, groups: Sequence[Group], capabilities: Capabilities
) -> KernelGraph:
    """The kernel graph of groups in execution order. All buffers must have strides."""
    scheduler = Scheduler(graph, hints_of(graph.dims), capabilities)
    kernels: list[Kernel] = []
    for k, group in enumerate(groups):
        others = {b for g in groups if g is not group for b in g.reads}
        needed = frozenset(b for b in group.writes if b in others or b in graph.outputs)
        kernel = build_kernel(scheduler, group, f"k{k}", needed)
        kernels.append(canonical_kernel(graph, kernel))
    return KernelGraph(
        graph.name,
        graph.dims,
        graph.buffers,
        tuple(kernels),
        graph.inputs,
        graph.outputs,
        graph.signature,
        graph.relations,
        graph.decisions,
        graph.derived,
    )


def fuse(graph: LoopGraph, capabilities: Capabilities) -> KernelGraph:
    """Groups operations into kernels and decides their loops."""
    return build_kernels(graph, initial_groups(graph), capabilities)
