"""Single steps of scheduling: their input, what came out as text, and what that computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from aot.ir.hints import hints_of
from aot.ir.kernels import FusedKernel, KernelGraph
from aot.ir.loops import LoopGraph, LoopOp
from aot.ir.printer import op_lines
from aot.ir.tensors import Dim
from aot.passes.layout import choose_layouts
from aot.passes.normalize_axes import normalize_axes
from aot.schedule.fusion import build_kernels, initial_groups
from aot.schedule.groups import Group
from aot.schedule.scheduler import Scheduler
from tests.schedule.graphs import (
    DEVICE,
    Body,
    Size,
    check_same,
    interpret,
    make_graph,
    random_inputs,
)


def laid(
    body: Body,
    inputs: Mapping[str, Sequence[Size]],
    weights: Mapping[str, Sequence[Size]] | None = None,
    dims: Sequence[Dim] = (),
) -> LoopGraph:
    """A graph that is ready to be scheduled, in which every operation is still a nest or call."""
    graph = make_graph(body, inputs, weights, dims)
    return choose_layouts(normalize_axes(graph), DEVICE)


def scheduler(graph: LoopGraph) -> Scheduler:
    """What choices look at, for the tests' device."""
    return Scheduler(graph, hints_of(graph.dims), DEVICE)


def groups(graph: LoopGraph) -> tuple[Group, ...]:
    """A group for each operation."""
    return initial_groups(graph)


def text(*ops: LoopOp) -> str:
    """The operations as they are printed, a line each where they fit, without their origins."""
    lines = (line.partition("  #")[0] for op in ops for line in op_lines(op))
    return "\n".join(lines)


def check_ops(
    graph: LoopGraph, ops: Iterable[LoopOp], sizes: Mapping[str, int] | None = None
) -> None:
    """The operations in place of the graph's are sound, and compute the same."""
    check_same(graph, replace(graph, ops=tuple(ops)), sizes)


def check_parts(graph: LoopGraph, ops: Iterable[LoopOp]) -> None:
    """The same for operations that write one buffer in turns, as only kernels may."""
    inputs, weights = random_inputs(graph)
    expected = interpret(graph, inputs, weights)
    actual = interpret(replace(graph, ops=tuple(ops)), inputs, weights)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def check_groups(
    graph: LoopGraph, fused: Sequence[Group], sizes: Mapping[str, int] | None = None
) -> KernelGraph:
    """The groups' kernels, which compute what the graph does."""
    kernels = build_kernels(scheduler(graph), fused)
    check_same(graph, kernels, sizes, tolerance=1e-4)
    return kernels


def check_kernels(graph: LoopGraph, kernels: Sequence[FusedKernel]) -> None:
    """The kernels compute what the graph does."""
    whole = build_kernels(scheduler(graph), groups(graph))
    check_same(graph, replace(whole, kernels=tuple(kernels)), tolerance=1e-4)
