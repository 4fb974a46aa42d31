"""Factors of channels: which go into a convolution's weight, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.loops import LoopGraph, reads
from aot.ir.nests import LoopNest
from aot.ir.scalar import postorder
from aot.ir.templates.base import LoopOp, TemplateCall
from aot.ir.templates.conv import Conv, ConvSupport
from aot.lowering.lower import lower
from aot.passes.scale_weights import scale_weights
from tests.schedule.graphs import DEVICE, check_same

PACKS = replace(DEVICE, templates=(ConvSupport(Conv),))
IN_PLACE = replace(DEVICE, templates=(ConvSupport(Conv, in_place=True),))
IMAGE = torch.zeros(2, 4, 6, 5)


class Under(torch.nn.Module):
    """A convolution, and what a function makes of its result."""

    def __init__(self, then: Callable[..., object], dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 6, 3, padding=1, bias=False, dtype=dtype)
        self.norm = torch.nn.BatchNorm2d(6, dtype=dtype)
        for number, values in enumerate((self.norm.running_mean, self.norm.running_var)):
            assert values is not None
            values.copy_(torch.rand(6) + number)
        self.scale = torch.nn.Parameter(torch.rand(1, 6, 1, 1, dtype=dtype))
        self.then = then
        self.eval()

    def forward(self, x: torch.Tensor) -> object:
        return self.then(self, self.conv(x), x)


def lowered(
    then: Callable[..., object], dtype: torch.dtype = torch.float32, x: torch.Tensor = IMAGE
) -> LoopGraph:
    graph, _ = ingest(capture_module(Under(then, dtype), (x.to(dtype),)))
    return lower(graph)


def products(graph: LoopGraph) -> int:
    """Multiplications of nests over images."""
    nests = (op for op in graph.ops if isinstance(op, LoopNest) and len(op.axes) == 4)
    images = (nest for nest in nests if not nest.name.endswith("_scaled"))
    return sum(node.op == "mul" for nest in images for node in postorder(nest.roots))


@pytest.mark.parametrize(
    "then",
    [
        lambda m, y, x: m.norm(y),
        lambda m, y, x: torch.relu(m.norm(y)),
        lambda m, y, x: y * m.scale,
        lambda m, y, x: m.scale * y + x.sum(),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_factor_of_channels_goes_into_the_weight(
    then: Callable[..., object], dtype: torch.dtype
) -> None:
    graph = lowered(then, dtype)
    scaled = scale_weights(graph, PACKS)
    assert (products(graph), products(scaled)) == (1, 0)
    assert scaled.decisions[-1].verdict == "in the weight"
    check_same(graph, scaled, tolerance=1e-5)


@pytest.mark.parametrize(
    "then",
    [
        lambda m, y, x: torch.relu(y) * m.scale,  # not of the result itself
        lambda m, y, x: (m.norm(y), y),  # the result is wanted, too
        lambda m, y, x: y * m.scale + y,  # by one that does not multiply
        lambda m, y, x: y * (m.scale + x[:, :1].mean()),  # not of weights alone
        lambda m, y, x: y * y,
        lambda m, y, x: m.norm(y) + m.conv.weight.sum(),  # the weight is read elsewhere
        lambda m, y, x: y * torch.rand(1, 1, 6, 5),  # not of channels
    ],
)
def test_other_factors_stay(then: Callable[..., object]) -> None:
    graph = lowered(then)
    assert scale_weights(graph, PACKS) is graph


def test_results_that_an_update_takes_over_stay() -> None:
    """What the update leaves as it was has no factor."""
    graph = lowered(lambda m, y, x: y * m.scale)
    (call,) = (op for op in graph.ops if isinstance(op, Conv))

    def over(op: LoopOp) -> LoopOp:
        if isinstance(op, TemplateCall) or call.output.buffer not in reads(op):
            return op
        return replace(op, stores=(replace(op.stores[0], base=call.output.buffer),))

    updated = replace(graph, ops=tuple(map(over, graph.ops)))
    assert scale_weights(updated, PACKS) is updated


def test_narrow_weights_would_be_rounded_again() -> None:
    graph = lowered(lambda m, y, x: m.norm(y), torch.bfloat16)
    assert scale_weights(graph, PACKS) is graph


def test_weights_that_are_read_where_they_lie_stay() -> None:
    graph = lowered(lambda m, y, x: m.norm(y))
    assert scale_weights(graph, IN_PLACE) is graph
