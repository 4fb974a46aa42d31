"""When buffers are in use: events in order, and that nobody reads a buffer after its last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from aot.ir.flow import Repeat, items_of
from aot.ir.interpreter import run_op
from aot.ir.kernels import KernelGraph, kernel_ops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.timeline import timeline
from tests.schedule.flows import branching, repeating, scheduled
from tests.schedule.graphs import binary_op, matmul, random_inputs, reduce_op, unary_op
from tests.schedule.steps import check_groups, groups, laid


def _layers(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    y = matmul(builder, x, w)
    z = binary_op("add", unary_op("exp", y), reduce_op("sum", y, 1, keep=True))
    return [matmul(builder, z, w), z]


def _straight() -> KernelGraph:
    graph = laid(_layers, {"x": (4, 6)}, {"w": (6, 6)})
    return check_groups(graph, groups(graph))


def test_each_kernel_is_an_event_that_touches_its_buffers() -> None:
    graph = _straight()
    line = timeline(graph)
    assert line.kernels == tuple(range(len(graph.kernels)))
    assert [set(names) for names in line.touched] == [{*k.reads, *k.writes} for k in graph.kernels]
    assert line.loops == ()


def _run(graph: KernelGraph, uses: dict[str, tuple[int, int]]) -> list[np.ndarray]:
    """The results; a temporary is filled with NaN when it is not in use."""
    inputs, weights = random_inputs(graph)
    arrays = {**inputs, "w": weights["w"]}
    for k, kernel in enumerate(graph.kernels):
        for op in kernel_ops(kernel):
            run_op(op, graph.buffers, arrays, {})
        for name, (first, last) in uses.items():
            idle = not first <= k < last and name not in graph.outputs
            if idle and graph.buffers[name].kind == "temp" and name in arrays:
                arrays[name] = np.full_like(arrays[name], np.nan)
    return [arrays[name] for name in graph.outputs]


def test_nothing_is_read_after_its_last_event() -> None:
    graph = _straight()
    uses = timeline(graph).uses()
    everything = {name: (0, len(graph.kernels)) for name in uses}
    for want, got in zip(_run(graph, everything), _run(graph, uses), strict=True):
        np.testing.assert_array_equal(got, want)
    cut = {name: (first, max(first, last - 1)) for name, (first, last) in uses.items()}
    assert any(np.isnan(result).any() for result in _run(graph, cut))


def test_what_a_loop_reads_in_every_turn_lives_until_it_ends() -> None:
    _, graph = scheduled(repeating, torch.arange(12.0).reshape(3, 4) / 10)
    line = timeline(graph)
    ((begin, end),) = line.loops
    inside = [k for k, event in enumerate(line.kernels) if begin < event < end]
    assert inside
    uses = line.uses()
    made_inside = {name for k in inside for name in graph.kernels[k].writes}
    read_inside = {name for k in inside for name in graph.kernels[k].reads} - made_inside
    loop = next(i for i in items_of(graph.flow) if isinstance(i, Repeat))
    parts = {s.buffer: s.source for s in loop.slices}
    for name in read_inside:
        first, last = uses[parts.get(name, name)]
        assert first <= begin and last >= end, name


def test_a_slice_is_in_use_as_what_it_is_a_part_of() -> None:
    _, graph = scheduled(repeating, torch.arange(12.0).reshape(3, 4) / 10)
    loop = next(i for i in items_of(graph.flow) if isinstance(i, Repeat))
    uses = timeline(graph).uses()
    for part in loop.slices:
        assert part.buffer not in uses
        assert part.source in uses


def test_the_arms_of_a_branch_follow_its_predicate() -> None:
    _, graph = scheduled(branching, torch.ones(3, 4), -torch.ones(3, 4))
    line = timeline(graph)
    predicate = graph.flow[1].predicate
    (asked,) = (n for n, names in enumerate(line.touched) if names == (predicate,))
    spans = [item.graph for flow in (graph.flow[1].then, graph.flow[1].otherwise) for item in flow]
    for span in (s for s in spans if hasattr(s, "first")):
        assert all(event > asked for event in line.kernels[span.first :][: span.count])
    assert sorted(line.kernels) == list(line.kernels)
