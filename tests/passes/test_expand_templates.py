"""Template calls that become nests, and that these compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from aot.ir.loops import LoopGraph
from aot.ir.templates.conv import Conv
from aot.ir.templates.matmul import Matmul, MatmulSupport
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from aot.symbolic import as_expr
from tests.lowering.lowered import lowered
from tests.passes.parts import templates
from tests.schedule.graphs import (
    BARE,
    BATCH,
    DEVICE,
    S0,
    attention,
    check_same,
    make_graph,
    matmul,
)

LONE_ROWS = replace(BARE, templates=(MatmulSupport(Matmul, lone_rows=True),))


@pytest.mark.parametrize("tiny", [True, False])
def test_small_products_become_nests(tiny: bool) -> None:
    size = 16 if tiny else 512

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w)]

    graph = make_graph(body, {"x": (8, size)}, {"w": (size, size)})
    expanded = expand_templates(graph, DEVICE)
    assert bool(templates(expanded)) is not tiny
    check_same(graph, expanded, tolerance=1e-4)


def _conv(groups: int):
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        call = partial(
            Conv,
            x=identity_view(x),
            w=identity_view(w),
            stride=(2, 1),
            padding=(1, 0),
            dilation=(1, 2),
            groups=groups,
        )
        return [builder.template(call, [as_expr(s) for s in (2, 4, 4, 4)], x.dtype)]

    return body


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolution_expands_to_the_same(groups: int) -> None:
    graph = make_graph(_conv(groups), {"x": (2, 4, 7, 8)}, {"w": (4, 4 // groups, 3, 3)})
    expanded = expand_templates(graph, BARE)
    assert not templates(expanded)
    check_same(graph, expanded, tolerance=1e-4)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("size", [40, 100])  # less than, and more than, four times as large
def test_what_is_resized_is_read_as_it_lies(channels_last: bool, size: int) -> None:
    """Panels of neighbours where these are a row's; channels last, two taps of whole vectors."""
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.ones(1, 32, 24, 30).contiguous(memory_format=memory_format)
    graph = lowered(lambda x: F.interpolate(x, (size, size), mode="bilinear"), x)
    assert bool(_bands(expand_templates(graph, DEVICE))) is not channels_last


@pytest.mark.parametrize(
    ("size", "antialias", "panels"), [(60, False, True), (20, False, False), (20, True, True)]
)
def test_taps_that_lie_apart_are_gathered(size: int, antialias: bool, panels: bool) -> None:
    """What is made smaller reads few of a row's inputs, unless windows overlap."""
    x = torch.randn(1, 2, 24, 40)

    def body(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, (24, size), mode="bilinear", antialias=antialias)

    graph = lowered(body, x)
    expanded = expand_templates(graph, DEVICE)
    assert bool(_bands(expanded)) is panels
    check_same(graph, expanded, tolerance=1e-5)


def test_results_of_convolutions_are_resized_channels_last() -> None:
    weight = torch.ones(32, 16, 3, 3)

    def body(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.interpolate(F.conv2d(x, w).relu(), scale_factor=2.0, mode="bilinear")

    graph = lowered(body, torch.ones(1, 16, 24, 30), weight)
    assert not _bands(expand_templates(graph, DEVICE))


def _bands(graph: LoopGraph) -> list[str]:
    """Weights of panels of neighbours."""
    return [name for name in graph.buffers if name.endswith("_band")]


def test_attention_over_vectors_of_a_dynamic_length_expands() -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
        return [attention(q, k, k)]

    graph = make_graph(body, {"q": (2, 4, 5, S0), "k": (2, 4, 7, S0)}, {}, (BATCH,))
    expanded = expand_templates(graph, DEVICE)
    assert "attention" not in [call.kind for call in templates(expanded)]
    check_same(graph, expanded, {"s0": 3}, tolerance=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_expands_to_the_same(masked: bool) -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Sequence[Tensor]:
        return [attention(q, k, v, m if masked else None, causal=not masked)]

    heads = {"q": (2, 4, 5, 8), "k": (2, 2, 5, 8), "v": (2, 2, 5, 8), "m": (2, 4, 5, 5)}
    graph = make_graph(body, heads)
    expanded = expand_templates(graph, BARE)
    check_same(graph, expanded, tolerance=1e-4)


@pytest.mark.parametrize(
    ("rows", "kind", "nests"),
    [
        (1, torch.int8, True),
        (2, torch.int8, False),  # which would make each element twice
        (1, torch.float64, False),  # no narrower
    ],
)
def test_one_row_makes_what_it_multiplies(rows: int, kind: torch.dtype, nests: bool) -> None:
    """A weight of int8 is read as such: once, and not written at four times its width before."""
    w = torch.arange(300 * 256).reshape(300, 256).remainder(50).to(kind)
    scale = torch.ones(300, 1)
    graph = lowered(
        lambda x, w, scale: F.linear(x, (w - 3).to(torch.float32) * scale),
        *(torch.ones(rows, 256), w, scale),
    )
    expanded = expand_templates(graph, LONE_ROWS)
    assert bool(templates(expanded)) is not nests
    check_same(graph, expanded, tolerance=1e-4)
