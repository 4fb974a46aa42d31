"""Loops within the vector loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aot.ir.dtypes import FLOAT32, INT32, INT64
from aot.ir.kernels import NestKernel
from aot.ir.scalar import Node, binary, cast, const, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.symbolic import Expr
from tests.launches import nest_kernel
from tests.schedule.graphs import BARE, check_same, make_graph, pointwise, run_passes


def _looked_up(builder: GraphBuilder, x: Tensor, at: Tensor) -> Sequence[Tensor]:
    """Of every channel the element at a place that a tensor gives, times a dear weight of it."""

    def value(index: tuple[Expr, ...]) -> Node:
        channel, *place = index
        low = binary("maximum", binary("minimum", at.load(place), const(6.0, FLOAT32)), at_least)
        named = builder.indirect(cast(cast(low, INT32), INT64), x.shape[1], wrap=False)
        return binary("mul", x.load((channel, named)), unary("exp", at.load(place)))

    at_least = const(0.0, FLOAT32)
    return [pointwise(builder, (x.shape[0], *at.shape), value)]


def _kernel(channels: int, places: tuple[int, ...]) -> NestKernel:
    graph = make_graph(_looked_up, {"x": (channels, 7), "at": places})
    fused = fuse(run_passes(graph), BARE)
    check_same(graph, fused)
    (kernel,) = fused.kernels
    return nest_kernel(kernel)


@pytest.mark.parametrize("places", [(400,), (20, 20)])
def test_channels_run_within_vectors_of_the_places_that_they_share(places: tuple[int, ...]) -> None:
    (stage,) = _kernel(24, places).stages
    assert [int(a.extent) for a in stage.order] == [400, 24]
    assert stage.vector == stage.order[0]


def test_units_are_parts_of_the_places() -> None:
    kernel = _kernel(24, (4096,))
    assert kernel.strip is not None
    assert kernel.strip.axis == kernel.stages[0].vector


def test_what_only_one_channel_needs_stays_in_the_vector_loop() -> None:
    (stage,) = _kernel(1, (4096,)).stages
    assert stage.order[-1] == stage.vector


def test_cheap_values_are_computed_again() -> None:
    def body(builder: GraphBuilder, x: Tensor, bias: Tensor) -> Sequence[Tensor]:
        return [
            pointwise(builder, x.shape, lambda at: binary("add", x.load(at), bias.load(at[1:])))
        ]

    graph = make_graph(body, {"x": (24, 4096), "bias": (4096,)})
    (kernel,) = fuse(run_passes(graph), BARE).kernels
    (stage,) = nest_kernel(kernel).stages
    assert stage.order[-1] == stage.vector
