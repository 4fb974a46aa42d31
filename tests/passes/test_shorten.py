"""Results that end where they are read: which do, and that what is read stays the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.loops import LoopGraph
from aot.ir.templates.conv import Conv
from aot.lowering.lower import lower
from aot.passes.dead_code import remove_dead_code
from aot.passes.shorten import shorten_results
from tests.schedule.graphs import check_same

LINE = torch.zeros(2, 4, 9)


class Under(torch.nn.Module):
    """What a function makes of a causal convolution's padded result."""

    def __init__(self, then: Callable[..., object], bias: bool) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 6, 4, padding=3, bias=bias)
        self.image = torch.nn.Conv2d(4, 6, 3, stride=2, padding=2, bias=bias)
        self.back = torch.nn.ConvTranspose1d(4, 6, 4, stride=2, bias=bias)
        self.point = torch.nn.Conv1d(6, 4, 1, bias=bias)
        self.then = then

    def forward(self, x: torch.Tensor) -> object:
        return self.then(self, x)


def lowered(
    then: Callable[..., object], bias: bool = True, x: torch.Tensor = LINE, **sizes: object
) -> LoopGraph:
    captured = capture_module(Under(then, bias), (x,), **sizes)
    return remove_dead_code(lower(ingest(captured)[0]))


def ends(graph: LoopGraph) -> list[tuple[str, ...]]:
    """Places of each convolution's result, as printed."""
    calls = (op for op in graph.ops if isinstance(op, Conv))
    return [tuple(str(a.extent) for a in call.output.axes[2:]) for call in calls]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("then", "x", "before", "after"),
    [
        (lambda m, x: m.conv(x)[..., :9], LINE, ("12",), ("9",)),
        (lambda m, x: torch.tanh(m.conv(x))[..., 1:8:3], LINE, ("12",), ("8",)),
        (lambda m, x: (y := m.conv(x))[..., :5].sum() + y[..., 2:7], LINE, ("12",), ("7",)),
        (lambda m, x: functional.pad(m.conv(x)[..., :9], (2, 2)), LINE, ("12",), ("9",)),
        (lambda m, x: m.conv(x)[..., 3], LINE, ("12",), ("4",)),
        (lambda m, x: m.conv(x)[..., :9].flip(-1), LINE, ("12",), ("9",)),
        (lambda m, x: m.image(x)[..., :4, :3], torch.zeros(1, 4, 9, 9), ("6", "6"), ("4", "3")),
        (lambda m, x: m.back(x)[..., :9], LINE, ("10",), ("5",)),
    ],
)
def test_a_convolution_ends_where_it_is_read_last(
    then: Callable[..., object],
    x: torch.Tensor,
    before: tuple[str, ...],
    after: tuple[str, ...],
    bias: bool,
) -> None:
    graph = lowered(then, bias, x)
    shorter = shorten_results(graph)
    assert (ends(graph)[0], ends(shorter)[0]) == (before, after)
    assert shorter.decisions[-1].stage == "shorten"
    check_same(graph, shorter, tolerance=1e-6)


@pytest.mark.parametrize(
    "then",
    [
        lambda m, x: m.conv(x),
        lambda m, x: m.conv(x)[..., 3:],
        lambda m, x: ((y := m.conv(x))[..., :9], y.sum()),
        lambda m, x: m.conv(x).flip(-1)[..., :9],  # its end is read
        lambda m, x: m.point(m.conv(x)),  # whose kernel's places are fewer, by the same symbols
        lambda m, x: m.point(m.conv(x).relu()),
        lambda m, x: m.conv(x)[:, :3],  # channels are the weight's
        lambda m, x: m.conv(x)[:1],
        lambda m, x: m.conv(x).reshape(2, 72)[:, :40],  # by no index of its own
        lambda m, x: m.conv(x).cumsum(-1)[..., :9],  # by points that read others
        lambda m, x: m.conv(x)[..., x.argmax(-1)[0]],
        lambda m, x: ((y := m.conv(x))[..., :9], y),
    ],
)
def test_what_is_read_to_its_end_stays(then: Callable[..., object]) -> None:
    graph = lowered(then)
    assert shorten_results(graph) is graph


def test_extents_may_be_sizes() -> None:
    length = torch.export.Dim("length", min=2, max=64)
    graph = lowered(lambda m, x: m.conv(x)[..., : x.shape[-1]], dynamic_shapes=({2: length},))
    before, after = ends(graph)[0][0], ends(shorten_results(graph))[0][0]
    assert before == f"{after} + 3"
