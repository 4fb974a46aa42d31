"""The kernels of all parts in one list, with the flow over them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from aot.errors import InternalError
from aot.ir.flow import Branch, Copy, Outline, Repeat, Span, Straight, items_of, parts_of
from aot.schedule.fusion import fuse
from aot.schedule.join import join
from aot.symbolic import as_expr
from tests.schedule.flows import branching, repeating, scheduled
from tests.schedule.graphs import DEVICE

ONES, MINUS = torch.ones(3, 4), -torch.ones(3, 4)


def test_a_model_without_control_flow_is_its_only_part() -> None:
    loops, kernels = scheduled(lambda x: x.exp(), ONES)
    assert loops.only is not None
    assert kernels.flow == ()
    only = fuse(loops.only, DEVICE)
    assert join(Outline(loops.frame, (Straight(only),))) is only


def test_kernels_are_numbered_through_the_parts() -> None:
    _, kernels = scheduled(branching, ONES, MINUS)
    assert [k.name for k in kernels.kernels] == [f"k{n}" for n in range(len(kernels.kernels))]
    spans = [span for span in parts_of(kernels.flow) if isinstance(span, Span)]
    assert [span.first for span in spans] == [0, *_running([s.count for s in spans])][:-1]
    assert spans[-1].first + spans[-1].count == len(kernels.kernels)
    first, branch, last = kernels.flow
    assert isinstance(first, Straight) and isinstance(branch, Branch) and isinstance(last, Straight)
    named = {name for d in kernels.decisions for name in d.subject if name.startswith("k")}
    assert named <= {k.name for k in kernels.kernels}


def _running(counts: list[int]) -> list[int]:
    return [sum(counts[: n + 1]) for n in range(len(counts))]


def test_what_passes_between_parts_is_a_buffer_that_both_name() -> None:
    loops, kernels = scheduled(branching, ONES, MINUS)
    branch = kernels.flow[1]
    assert isinstance(branch, Branch)
    assert kernels.buffers[branch.predicate].kind == "temp"
    assert {kernels.buffers[name].kind for name in kernels.inputs} == {"input"}
    inner = {
        n for part in parts_of(loops.flow) for n, b in part.buffers.items() if b.kind == "input"
    }
    assert inner <= set(kernels.buffers)


def test_a_loop_keeps_its_slices_and_copies() -> None:
    example = torch.arange(12.0).reshape(3, 4) / 10
    loops, kernels = scheduled(repeating, example)
    before, after = (
        [i for i in items_of(flow) if not isinstance(i, Straight)]
        for flow in (loops.flow, kernels.flow)
    )
    assert [type(i) for i in after] == [type(i) for i in before]
    assert {Repeat, Copy} <= {type(i) for i in after}
    slices = [s for i in after if isinstance(i, Repeat) for s in i.slices]
    assert slices
    for part in slices:
        assert kernels.buffers[part.buffer].shape == kernels.buffers[part.source].shape[1:]


def test_neighbouring_parts_are_one_span() -> None:
    loops, kernels = scheduled(branching, ONES, MINUS)
    fused = loops.map(lambda part: fuse(part, DEVICE))
    first = fused.flow[0]
    empty = replace(first.graph, kernels=(), outputs=(), inputs=())
    doubled = replace(fused, flow=(Straight(empty), *fused.flow))
    assert join(doubled).flow == kernels.flow


def test_one_name_for_two_buffers_is_refused() -> None:
    loops, _ = scheduled(branching, ONES, MINUS)
    fused = loops.map(lambda part: fuse(part, DEVICE))
    first = fused.flow[0].graph
    name = next(n for n, b in first.buffers.items() if b.kind != "input")
    other = replace(first.buffers[name], shape=(as_expr(7),), strides=(as_expr(1),))
    clash = replace(first, buffers={**first.buffers, name: other}, kernels=())
    with pytest.raises(InternalError, match=f"another buffer is called {name} too"):
        join(replace(fused, flow=(*fused.flow, Straight(clash))))
