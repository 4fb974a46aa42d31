"""Concatenations: what they mean, as nests, and when nests are better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.scalar import unary
from aot.ir.templates import Concat, ConcatSupport
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor, identity_view
from aot.passes.expand_templates import expand_templates
from tests.schedule.graphs import BARE, BATCH, DEVICE, S0, Size, interpret, make_graph
from tests.settings import seeded

WIDTHS = (3, 1, 0, 4)


def joined(builder: GraphBuilder, *parts: Tensor) -> Sequence[Tensor]:
    width = sum((part.shape[1] for part in parts), builder.zero)
    call = partial(Concat, parts=tuple(identity_view(part) for part in parts))
    return [builder.template(call, (parts[0].shape[0], width), parts[0].dtype)]


def computed(builder: GraphBuilder, *parts: Tensor) -> Sequence[Tensor]:
    """The same of the parts' exponentials, which are seen through views."""

    def seen(x: Tensor) -> Tensor:
        exp = builder.pointwise(x.shape, x.dtype, lambda at: unary("exp", x.load(at)))
        return builder.pointwise(x.shape, x.dtype, exp.load)

    return joined(builder, *map(seen, parts))


def graph_of(rows: Size, widths: Sequence[Size], body=joined) -> LoopGraph:
    shapes = {f"x{k}": (rows, width) for k, width in enumerate(widths)}
    return make_graph(body, shapes, dims=(BATCH,))


def inputs(widths: Sequence[int]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seeded())
    return {f"x{k}": rng.standard_normal((5, w)).astype(np.float32) for k, w in enumerate(widths)}


def device(**facts: int):
    return replace(DEVICE, templates=(ConcatSupport(Concat, **facts),))


@pytest.mark.parametrize("widths", [WIDTHS, (0, 3), (0, 0), (2,)], ids=str)
def test_parts_lie_side_by_side_also_as_nests(widths: tuple[int, ...]) -> None:
    graph, given = graph_of(5, widths), inputs(widths)
    expected = np.concatenate(list(given.values()), axis=1)
    expanded = expand_templates(graph, BARE)
    verify_loops(expanded)
    assert [type(op) for op in expanded.ops] == [LoopNest]
    for made in (graph, expanded):
        (found,) = interpret(made, given, {}, {})
        np.testing.assert_array_equal(found, expected)


def test_parts_of_dynamic_width_as_nests() -> None:
    graph, given = graph_of(5, (S0, 2, S0)), inputs((4, 2, 4))
    (found,) = interpret(expand_templates(graph, BARE), given, {}, {"s0": 4})
    np.testing.assert_array_equal(found, np.concatenate(list(given.values()), axis=1))


def expands(graph: LoopGraph, **facts: int) -> bool:
    made = expand_templates(graph, device(**facts))
    return not any(isinstance(op, Concat) for op in made.ops)


def test_parts_that_are_in_memory_anyway_are_copied() -> None:
    assert not expands(graph_of(5, (4,) * 9))


def test_parts_are_computed_where_they_are_joined_if_that_saves_storing_them() -> None:
    graph = graph_of(5, (4,) * 9, computed)
    made = expand_templates(graph, device())
    assert not any(isinstance(op, Concat) for op in made.ops)
    (decision,) = made.decisions
    launches, traffic = 9 * (1 << 15), 2 * 9 * 5 * 4 * 4
    assert str(launches + traffic) in decision.reason


def test_computed_parts_are_stored_where_telling_them_apart_costs_more() -> None:
    saved = 9 * (1 << 15) + 2 * 9 * 5 * 4 * 4
    graph = graph_of(5, (4,) * 9, computed)
    assert expands(graph, piece_bytes=(saved - 1) // 45)
    assert not expands(graph, piece_bytes=saved // 45 + 1)
    assert not expands(graph, most_pieces=8)
    assert not expands(graph_of(5, (S0,) * 9, computed))


def test_each_element_is_one_operation() -> None:
    (call,) = graph_of(5, WIDTHS).ops
    assert isinstance(call, Concat)
    assert int(call.flops()) == 5 * sum(WIDTHS)
    assert call.attributes == ()
    assert call.with_views(lambda _, view: view) is call
