"""Loops in pieces: where they are cut, that pieces have no conditions, and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.loops import LoopGraph
from aot.ir.nests import Axis
from aot.ir.scalar import Node, binary, const, where
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.layout import choose_layouts
from aot.passes.normalize_axes import normalize_axes
from aot.schedule.groups import with_outer
from aot.schedule.index_set_splitting import split_index_sets, split_points
from aot.schedule.stages import StageDraft, form_stages
from aot.symbolic import Expr, Modulo, Symbol
from tests.lowering.lowered import lowered
from tests.schedule.graphs import BATCH, DEVICE, S0, concatenate, pointwise, unary_op
from tests.schedule.steps import check_parts, groups, laid, scheduler, text


def _joined(axis: int):
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [concatenate(x, y, axis)]

    return body


def _stages(graph: LoopGraph, outer: int) -> tuple[StageDraft, ...]:
    """The graph's only nest as a stage inside the first `outer` loops."""
    (group,) = groups(graph)
    return form_stages(graph, with_outer(group, group.outer[:outer]))


def test_the_halves_of_a_concatenation_are_loops_of_their_own() -> None:
    graph = laid(_joined(1), {"x": (4, 100), "y": (4, 60)})
    cut = split_index_sets(scheduler(graph), _stages(graph, 1), None)
    nests = [nest for stage in cut for nest in stage.nests]
    assert text(*nests).splitlines() == [
        "n0 = nest(n0_i0<4, n0_i1_from0_to100<100) "
        "{ buf2[n0_i0, n0_i1_from0_to100] = x[n0_i0, n0_i1_from0_to100] }",
        "n0 = nest(n0_i0<4, n0_i1_from100_to160<60) "
        "{ buf2[n0_i0, n0_i1_from100_to160 + 100] = y[n0_i0, n0_i1_from100_to160] }",
    ]
    check_parts(graph, nests)


def test_pieces_of_one_name_have_one_extent() -> None:
    # Stages of a kernel may cut axes of one name at different places; both were called `from0`.
    extents: dict[Symbol, Expr] = {}
    for left, right in ((100, 60), (40, 120)):
        graph = laid(_joined(1), {"x": (4, left), "y": (4, right)})
        for stage in split_index_sets(scheduler(graph), _stages(graph, 1), None):
            for axis in stage.inner:
                assert extents.setdefault(axis.symbol, axis.extent) == axis.extent
    assert len(extents) == 4


def test_an_axis_that_must_stay_whole_stays() -> None:
    graph = laid(_joined(1), {"x": (4, 100), "y": (4, 60)})
    stages = _stages(graph, 1)
    (axis,) = stages[0].inner
    assert split_index_sets(scheduler(graph), stages, axis) == stages


@pytest.mark.parametrize(
    ("left", "right"), [((4, 10), (4, 6)), ((4, 100), (4, S0))], ids=("short", "dynamic")
)
def test_loops_that_are_not_worth_it_stay(left, right) -> None:
    graph = laid(_joined(1), {"x": left, "y": right}, dims=(BATCH,))
    stages = _stages(graph, 1)
    assert split_index_sets(scheduler(graph), stages, None) == stages


def _beside(builder: GraphBuilder, *parts: Tensor) -> Sequence[Tensor]:
    """Inputs of two columns side by side."""

    def point(at: tuple[Expr, ...]) -> Node:
        column, value = builder.index_node(at[1]), const(0, FLOAT32)
        for k, part in reversed(list(enumerate(parts))):
            inside = binary("lt", column, const(2 * k + 2, INT64))
            mask = binary("and", inside, binary("ge", column, const(2 * k, INT64)))
            value = where(inside, part.load((at[0], at[1] - 2 * k), mask), value)
        return value

    return [pointwise(builder, (4, 2 * len(parts)), point)]


def _stacked(builder: GraphBuilder, *parts: Tensor) -> Sequence[Tensor]:
    """Inputs of rows, stacked."""

    def point(at: tuple[Expr, ...]) -> Node:
        value = const(0, FLOAT32)
        for k, part in enumerate(parts):
            here = binary("eq", builder.index_node(at[1]), const(k, INT64))
            value = where(here, part.load((at[0], at[2]), here), value)
        return value

    return [pointwise(builder, (4, len(parts), 8), point)]


@pytest.mark.parametrize(
    ("body", "width", "piece"), [(_beside, 2, [2]), (_stacked, 8, [1, 8])], ids=("cat", "stack")
)
def test_many_conditions_are_worth_short_pieces(body, width, piece) -> None:
    graph = laid(body, {f"x{k}": (4, width) for k in range(12)})
    cut = split_index_sets(scheduler(graph), _stages(graph, 1), None)
    assert [[int(a.extent) for a in stage.inner] for stage in cut] == [piece] * 12
    nests = [nest for stage in cut for nest in stage.nests]
    assert "where" not in text(*nests)
    assert " if " not in text(*nests)
    check_parts(graph, nests)


def test_rows_in_blocks_need_much_inside() -> None:
    graph = laid(_joined(0), {"x": (3, 200), "y": (5, 200)})
    cut = split_index_sets(scheduler(graph), _stages(graph, 0), None)
    assert [[int(a.extent) for a in stage.inner] for stage in cut] == [[3, 200], [5, 200]]
    check_parts(graph, [nest for stage in cut for nest in stage.nests])


@pytest.mark.parametrize(("dtype", "count"), [(torch.float32, 3), (torch.float16, 5)])
def test_rows_of_elements_that_masks_do_not_fit_are_cut_too(dtype: torch.dtype, count: int) -> None:
    """A padded image: its rows of zeros, and of the others what is beside the data."""
    graph = lowered(lambda x: F.pad(x, (1, 1, 1, 1)), torch.ones(64, 64, dtype=dtype))
    graph = choose_layouts(normalize_axes(graph), DEVICE)
    cut = split_index_sets(scheduler(graph), _stages(graph, 0), None)
    assert len(cut) == count
    check_parts(graph, [nest for stage in cut for nest in stage.nests])


def test_places_are_where_a_condition_changes_inside_of_the_loop() -> None:
    graph = laid(_joined(1), {"x": (4, 100), "y": (4, 60)})
    (stage,) = _stages(graph, 0)
    row, column = stage.inner
    assert split_points(DEVICE, stage.nests, column) == [100]
    assert split_points(DEVICE, stage.nests, row) == []
    assert split_points(DEVICE, stage.nests, Axis(column.symbol, column.extent - 60)) == []


def _rolled(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    height, width = x.shape

    def point(at: tuple[Expr, ...]) -> Node:
        return x.load((Modulo(at[0] + 3, height), Modulo(at[1] + 7, width)))

    return [builder.pointwise(x.shape, x.dtype, point)]


def test_both_loops_of_a_roll_are_cut_where_machines_do_not_gather() -> None:
    graph = laid(_rolled, {"x": (64, 128)})
    cut = split_index_sets(scheduler(graph), _stages(graph, 0), None)
    sizes = sorted([int(a.extent) for a in stage.inner] for stage in cut)
    assert sizes == [[3, 7], [3, 121], [61, 7], [61, 121]]
    nests = [nest for stage in cut for nest in stage.nests]
    assert "%" not in text(*nests)
    check_parts(graph, nests)
    (stage,) = _stages(graph, 0)
    assert split_points(replace(DEVICE, gathers=True), stage.nests, stage.inner[0]) == []


def test_a_nest_without_conditions_is_left_alone() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (4, 100)})
    stages = _stages(graph, 1)
    assert split_index_sets(scheduler(graph), stages, None) == stages
