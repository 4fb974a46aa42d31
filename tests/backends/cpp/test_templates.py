"""Which calls the C++ templates take, and which become nests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from aot.backends.cpp.backend import CppBackend
from aot.ir.templates.conv import Conv
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.options import Target
from aot.passes.expand_templates import expand_templates
from aot.symbolic import as_expr
from tests.passes.parts import templates
from tests.schedule.graphs import check_same, make_graph

CHANNELS, SIZE = 6, 20


def _graph(taps: tuple[int, ...], groups: int, *, weight: bool):
    """A convolution of a line or an image by a weight, or by an input."""

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        line = (1,) * len(taps)
        call = partial(
            Conv,
            x=identity_view(x),
            w=identity_view(w),
            stride=line,
            padding=(0,) * len(taps),
            dilation=line,
            groups=groups,
        )
        shape = (2, CHANNELS, *(SIZE - t + 1 for t in taps))
        return [builder.template(call, [as_expr(s) for s in shape], x.dtype)]

    x = {"x": (2, CHANNELS, *(SIZE for _ in taps))}
    w = {"w": (CHANNELS, CHANNELS // groups, *taps)}
    return make_graph(body, x, w) if weight else make_graph(body, {**x, **w}, {})


@pytest.mark.parametrize(
    ("taps", "groups", "weight", "taken"),
    [
        ((3, 3), CHANNELS, True, True),
        ((3, 3), CHANNELS, False, False),
        ((3, 3), 2, False, True),
        ((4,), CHANNELS, True, True),
        ((4,), CHANNELS, False, False),
        ((4,), 2, True, True),
    ],
)
def test_depthwise_convolutions_by_computed_weights_are_nests(
    taps: tuple[int, ...], groups: int, weight: bool, taken: bool
) -> None:
    graph = _graph(taps, groups, weight=weight)
    machine = CppBackend().machine(Target("cpu", ("x86-64-v3",)))
    expanded = expand_templates(graph, machine)
    assert bool(templates(expanded)) is taken
    check_same(graph, expanded, tolerance=1e-4)
