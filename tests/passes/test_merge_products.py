"""Products of one matrix by two weights: which become one, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.dtypes import DType
from aot.ir.flow import Outline, Straight, parts_of
from aot.ir.loops import LoopGraph
from aot.ir.templates import Matmul, MatmulSupport
from aot.lowering.lower import lower
from aot.passes.merge_products import merge_in_parts, merge_products
from tests.schedule.graphs import DEVICE, check_same


def _always(rows: int, widths: tuple[int, int], depth: int, dtype: DType) -> bool:
    return True


MERGES = replace(DEVICE, templates=(MatmulSupport(Matmul, merges=_always),))
ROWS = torch.zeros(5, 12)


class Gated(torch.nn.Module):
    """Two layers, and what a function makes of them and of their input."""

    def __init__(self, then: Callable[..., object], up: int = 8) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(12, 8)
        self.up = torch.nn.Linear(12, up, bias=False)
        self.turned = torch.nn.Parameter(torch.rand(12, 8))
        self.then = then

    def forward(self, x: torch.Tensor) -> object:
        return self.then(self, x)


def lowered(then: Callable[..., object], up: int = 8) -> LoopGraph:
    graph, _ = ingest(capture_module(Gated(then, up), (ROWS,)))
    return lower(graph)


def products(graph: LoopGraph) -> list[tuple[int, ...]]:
    """The extents of products' results."""
    calls = [op for op in graph.ops if isinstance(op, Matmul)]
    return [tuple(int(axis.extent) for axis in call.output.axes) for call in calls]


@pytest.mark.parametrize(
    "then",
    [
        lambda m, x: F.silu(m.gate(x)) * m.up(x),
        lambda m, x: m.up(x) * torch.sigmoid(m.gate(x)),
        lambda m, x: F.gelu(m.gate(x)) + x @ m.turned,
    ],
    ids=["swiglu", "second first", "weights in both orders"],
)
def test_products_whose_results_meet_are_one(then: Callable[..., object]) -> None:
    before = lowered(then)
    after = merge_products(before, MERGES)
    assert products(before) == [(5, 8), (5, 8)]
    assert products(after) == [(5, 16)]
    check_same(before, after)


def test_widths_may_differ() -> None:
    before = lowered(lambda m, x: m.gate(x) * m.up(x), up=1)
    after = merge_products(before, MERGES)
    assert products(after) == [(5, 9)]
    check_same(before, after)


@pytest.mark.parametrize(
    "then",
    [
        lambda m, x: (m.gate(x), m.up(x)),
        lambda m, x: m.gate(x) * m.up(x + 1.0),
        lambda m, x: F.silu(m.gate(x)) * m.up(x) + m.gate.weight[0, :8],
        lambda m, x: m.gate(x).softmax(-1) * m.up(x),
    ],
    ids=["results of the model", "another matrix", "a weight with other readers", "whole rows"],
)
def test_others_stay(then: Callable[..., object]) -> None:
    graph = lowered(then)
    assert products(merge_products(graph, MERGES)) == products(graph)


def test_the_device_decides() -> None:
    graph = lowered(lambda m, x: F.silu(m.gate(x)) * m.up(x))
    never = MatmulSupport(Matmul, merges=lambda *sizes: False)
    assert merge_products(graph, replace(DEVICE, templates=(never,))) is graph
    assert merge_products(graph, DEVICE) is graph


def test_weights_that_two_parts_read_stay() -> None:
    graph = lowered(lambda m, x: F.silu(m.gate(x)) * m.up(x))
    frame, _ = ingest(capture_module(Gated(lambda m, x: x), (ROWS,)))
    for parts, merged in (((graph,), [(5, 16)]), ((graph, graph), [(5, 8), (5, 8)])):
        outline = Outline(frame, tuple(Straight(part) for part in parts))
        after = parts_of(merge_in_parts(outline, MERGES).flow)
        assert products(after[0]) == merged
