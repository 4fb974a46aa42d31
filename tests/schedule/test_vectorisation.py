"""Which loop becomes the vector loop, and which order loops take, by the prices of accesses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aot.ir.dtypes import FLOAT64
from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.layout import choose_layouts
from aot.schedule.stages import StageDraft
from aot.schedule.strides import strided_accesses
from aot.schedule.vectorisation import StageCost, nests_reduce, order_by_stride, stage_cost
from tests.schedule.graphs import (
    DEVICE,
    Body,
    concatenate,
    make_graph,
    reduce_op,
    transpose,
    unary_op,
)
from tests.schedule.steps import laid, scheduler


def _cost(graph: LoopGraph) -> tuple[StageCost, tuple[Axis, ...]]:
    """Of the graph's last nest without outer loops; and all its loops."""
    *_, nest = graph.ops
    stage = StageDraft(nest.axes, nest.reduction, (nest,))
    return stage_cost(scheduler(graph), (), stage), stage.domain


def _exp(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", x)]


def _turned(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [transpose(x, 0, 1)]


def _rows(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 1)]


def _turned_sums(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", transpose(x, 0, 2), 1)]


def _columns(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 0)]


@pytest.mark.parametrize(
    ("body", "shape", "chosen"),
    [
        (_exp, (8, 64), 1),
        (_rows, (8, 64), 1),
        (_columns, (64, 32), 0),  # the kept axis is the first of the domain
        (_exp, (64, 2), 0),  # two lanes of sixteen are worth less than strides
    ],
)
def test_the_vector_loop(body: Body, shape: tuple[int, ...], chosen: int) -> None:
    cost, axes = _cost(laid(body, {"x": shape}))
    price, axis = cost.best(axes)
    assert axis == axes[chosen]
    assert price == cost.along(axis) < cost.along(None)


def test_few_lanes_are_dear() -> None:
    """65 elements take five vectors of 16 lanes, as 80 do."""
    (odd, odd_axes), (even, even_axes) = (_cost(laid(_exp, {"x": (4, n)})) for n in (65, 80))
    assert odd.along(odd_axes[1]) == even.along(even_axes[1])
    assert odd.along(None) < even.along(None)


def test_scalar_code_pays_for_every_access_at_every_point() -> None:
    cost, _ = _cost(laid(_exp, {"x": (4, 6)}))
    assert cost.along(None) == 24 * (2 + cost.operations)


def test_a_reduction_along_the_vector_ends_with_adding_its_lanes() -> None:
    graph = laid(_rows, {"x": (8, 64)})
    cost, (row, column) = _cost(graph)
    per_vector = cost.along(column) - 8 * (8.0 + cost.after + 1)
    assert per_vector == pytest.approx(8 * 4 * (1.0 + cost.operations))
    assert cost.along(row) > cost.along(column)
    assert nests_reduce(graph.ops) and not nests_reduce(laid(_exp, {"x": (4,)}).ops)


def test_what_a_reduction_gave_is_stored_once() -> None:
    """Results 9 elements apart, terms side by side: what counts is how the terms are read."""
    cost, (row, column, reduced) = _cost(laid(_turned_sums, {"x": (9, 512, 64)}))
    assert cost.best((row, column, reduced))[1] == row
    assert cost.along(row) < 2 * (9 * 512 * 64 / cost.lanes) * (1 + cost.operations)


def test_conditions_of_a_loop_are_computed_for_every_vector() -> None:
    graph = laid(lambda _, x, y: [concatenate(x, y, 1)], {"x": (4, 30), "y": (4, 34)})
    cost, (row, column) = _cost(graph)
    assert cost.values == {column.symbol}
    assert cost.best((row, column))[1] == column


@pytest.mark.parametrize(("body", "order"), [(_exp, [0, 1]), (_turned, [0, 1])])
def test_the_loop_that_moves_farthest_is_the_outermost(body: Body, order: list[int]) -> None:
    graph = laid(body, {"x": (4, 6)})
    *_, nest = graph.ops
    stores = [m for m in strided_accesses(graph, nest) if m.store]
    found = order_by_stride(hints_of(()), stores, tuple(reversed(nest.axes)))
    assert found == [nest.axes[k] for k in order]
    loads = [m for m in strided_accesses(graph, nest) if not m.store]
    if body is _turned:
        assert order_by_stride(hints_of(()), loads, nest.axes) == list(reversed(nest.axes))


def test_lanes_are_those_of_the_widest_values() -> None:
    graph = laid(_exp, {"x": (64, 8)})
    wide = choose_layouts(make_graph(_exp, {"x": (64, 8)}, dtypes={"x": FLOAT64}), DEVICE)
    (cost, axes), (double, _) = _cost(graph), _cost(wide)
    assert (cost.lanes, double.lanes) == (DEVICE.lanes, DEVICE.lanes // 2)
    assert double.along(axes[1]) == cost.along(axes[1])  # eight lanes are all, or half of them
    assert double.along(axes[0]) == 2 * cost.along(axes[0])


def test_lines_that_other_units_read_too_are_paid_for() -> None:
    """Down one of eight columns, each element brings seven along; a cache may hold a few."""

    def price(rows: int) -> float:
        (nest,) = laid(_columns, {"x": (rows, 8)}).ops
        graph = laid(_columns, {"x": (rows, 8)})
        stage = StageDraft((), nest.reduction, (nest,))
        return stage_cost(scheduler(graph), nest.axes, stage).along(nest.reduction[0]) / rows

    many, few = (price(rows) for rows in (1 << 16, 1 << 10))
    assert many - few == pytest.approx(8 * 28 / DEVICE.instruction_bytes, rel=0.05)


def test_stores_apart_are_dearer_than_loads_apart() -> None:
    cost, (row, column) = _cost(laid(_turned, {"x": (64, 64)}))
    assert cost.along(row) != cost.along(column)
    assert cost.best((row, column))[1] == column
