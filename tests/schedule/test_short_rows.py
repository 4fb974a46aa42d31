"""Reductions down narrow columns: which take several rows at once, in what nests, and the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.dtypes import FLOAT64
from aot.ir.loops import LoopGraph
from aot.ir.scalar import binary, const, reduce_, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.layout import choose_layouts
from aot.schedule.deviations import find_pairs
from aot.schedule.fusion import fuse
from aot.schedule.short_rows import lengthen_rows, rows_of_lines, rows_together
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    TILES,
    Body,
    check_same,
    make_graph,
    reduce_op,
)
from tests.schedule.steps import laid, text


def _sum(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 0)]


def _deviations(builder: GraphBuilder, x: Tensor, mean: Tensor) -> Sequence[Tensor]:
    """Exponentials of what is beyond a value of each column, summed up; then a logarithm."""

    def value(at, r):
        beyond = binary("sub", x.load((r[0], at[0])), mean.load(at))
        return unary("log", reduce_("sum", unary("exp", beyond)))

    return [builder.reduction([x.shape[1]], [x.shape[0]], [(x.dtype, value)])[0]]


def _lengthened(graph: LoopGraph) -> list[str]:
    """The nests, a line each; values are checked."""
    long = lengthen_rows(graph, DEVICE)
    check_same(graph, long, tolerance=1e-3)
    return text(*long.ops).splitlines()


@pytest.mark.parametrize(
    ("width", "lanes", "count"),
    [(1, 16, 32), (3, 16, 16), (8, 16, 4), (8, 8, 2), (16, 8, 1), (33, 16, 4), (31, 16, 2)],
)
def test_rows_together_fill_two_vectors_at_least(width: int, lanes: int, count: int) -> None:
    assert rows_together(width, lanes, 0.25) == count
    assert count == 1 or count * width >= 2 * lanes
    assert -count * width % lanes <= count * width / 8


LINES = replace(TILES, line_elements=256, alignment=16, large_bytes=1 << 16)
"""A device whose work units read columns side by side."""


@pytest.mark.parametrize(
    ("width", "size", "height", "count"),
    [
        (6, 2, 11184810, 44),  # 10 rows are over
        (6, 2, 10483200, 48),  # none are
        (3, 4, 1 << 20, 128),
        (8, 4, 1 << 20, 32),
        (64, 2, 1 << 20, 1),  # a line
        (63, 2, 1 << 20, 8),
        (265, 2, 253240, 8),  # longer than a line, at odd addresses
        (33719, 4, 1873, 4),
        (39356, 2, 1705, 1),  # half a vector
    ],
)
def test_rows_of_lines_are_whole_vectors(width: int, size: int, height: int, count: int) -> None:
    assert rows_of_lines(width, size, height, LINES) == count
    assert count == 1 or (count * width * size % 16 == 0 and count * width >= 256)
    assert rows_of_lines(width, size, height, TILES) == 1


def test_narrow_columns_side_by_side_are_joined_to_lines() -> None:
    graph = laid(_sum, {"x": (30001, 3)})
    long = lengthen_rows(graph, LINES)
    check_same(graph, long, tolerance=1e-3)
    assert text(*long.ops).splitlines() == [
        "n0_rows = nest(r0_i0<264 | r0_turn<340) "
        "{ buf1_rows0[r0_i0] = sum(x[(r0_i0 // 3) + 88*r0_turn, (r0_i0 % 3)]) }",
        "n0_over = nest(i0<3 | r0_over<81) { buf1_over0[i0] = sum(x[r0_over + 29920, i0]) }",
        "n0 = nest(i0<3 | r0_lane<88) "
        "{ buf1[i0] = sum(buf1_rows0[3*r0_lane + i0]) + buf1_over0[i0] }",
    ]
    small = replace(LINES, large_bytes=1 << 20)
    assert lengthen_rows(graph, small) is graph


def test_squares_are_summed_up_in_the_long_rows_of_their_sums() -> None:
    def variance(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        total = reduce_op("sum", x, 0)

        def value(at, r):
            mean = binary("mul", total.load(at), const(1 / 30000, x.dtype))
            off = binary("sub", x.load((r[0], at[0])), mean)
            return reduce_("sum", binary("mul", off, off))

        return [builder.reduction([x.shape[1]], [x.shape[0]], [(x.dtype, value)])[0]]

    graph = laid(variance, {"x": (30001, 3)})
    assert len(lengthen_rows(graph, DEVICE).ops) > len(graph.ops)
    long = lengthen_rows(graph, LINES)
    check_same(graph, long, tolerance=1e-3)
    assert [op.name for op in long.ops] == ["n0_rows", "n0_over", "n0", "n1_rows", "n1_over", "n1"]
    assert {s: q.name for s, q in find_pairs(long).items()} == {
        "n0_rows": "n1_rows",
        "n0_over": "n1_over",
    }


def test_long_rows_then_what_is_over_then_all_of_them() -> None:
    nests = _lengthened(laid(_sum, {"x": (30001, 3)}))
    assert nests == [
        "n0_rows = nest(r0_i0<48 | r0_turn<1856) "
        "{ buf1_rows0[r0_i0] = sum(x[(r0_i0 // 3) + 16*r0_turn, (r0_i0 % 3)]) }",
        "n0_over = nest(i0<3 | r0_over<305) { buf1_over0[i0] = sum(x[r0_over + 29696, i0]) }",
        "n0 = nest(i0<3 | r0_lane<16) "
        "{ buf1[i0] = sum(buf1_rows0[3*r0_lane + i0]) + buf1_over0[i0] }",
    ]


def test_a_value_of_each_column_is_repeated_along_a_long_row() -> None:
    nests = _lengthened(laid(_deviations, {"x": (16384, 8), "mean": (8,)}))
    assert nests[0] == "n0_spread0 = nest(r0_i0<32) { buf2_spread0[r0_i0] = mean[(r0_i0 % 8)] }"
    assert "- buf2_spread0[r0_i0]" in nests[1] and nests[1].startswith("n0_rows = ")
    assert nests[2].endswith("{ buf2[i0] = log(sum(buf2_rows0[8*r0_lane + i0])) }")
    assert len(nests) == 3  # no rows are over


def test_columns_between_other_axes() -> None:
    def middle(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("max", x, 1)]

    nests = _lengthened(laid(middle, {"x": (5, 4099, 5)}))
    assert nests[0].startswith("n0_rows = nest(i0<5, r0_i1<80 | r0_turn<256)")
    assert nests[-1].endswith("maximum(max(buf1_rows0[i0, 5*r0_lane + i1]), buf1_over0[i0, i1]) }")


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        (_sum, {"x": (20000, 64)}),  # rows that fill vectors
        (_sum, {"x": (4000, 8)}),  # little work
        (lambda _, x: [reduce_op("sum", x, 1)], {"x": (4, 40000)}),  # along rows
        (lambda _, x: [reduce_op("prod", x, 0)], {"x": (30000, 3)}),
    ],
    ids=("wide", "small", "rows", "product"),
)
def test_other_reductions_stay(body: Body, inputs: dict[str, Sequence[int]]) -> None:
    graph = laid(body, inputs)
    assert lengthen_rows(graph, DEVICE) is graph


def test_what_follows_rows_in_another_way_keeps_the_reduction_whole() -> None:
    def weighted(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        def value(at, r):
            return reduce_("sum", binary("mul", x.load((r[0], at[0])), w.load(r)))

        return [builder.reduction([x.shape[1]], [x.shape[0]], [(x.dtype, value)])[0]]

    graph = laid(weighted, {"x": (30000, 3), "w": (30000,)})
    assert lengthen_rows(graph, DEVICE) is graph


def test_tiles_and_unknown_lengths_stay() -> None:
    graph = laid(_sum, {"x": (30001, 3)})
    assert lengthen_rows(graph, TILES) is graph
    many = replace(BATCH, maximum=1 << 20, hint=30001)
    dynamic = laid(_sum, {"x": (S0, 3)}, dims=[many])
    assert lengthen_rows(dynamic, DEVICE) is dynamic


def test_long_rows_keep_their_vectors_when_kernels_are_fused() -> None:
    """The columns of a large matrix are no units of their own: each would read every line."""

    def chain(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return _deviations(builder, x, reduce_op("max", x, 0))

    kernels = fuse(laid(chain, {"x": (100000, 8)}), DEVICE).kernels
    stages = [s for k in kernels for s in k.stages if any("_rows_part" in n.name for n in s.nests)]
    assert len(stages) == 2
    for stage in stages:
        assert stage.vector in stage.inner and stage.vector not in stage.reduction
        assert stage.vector.extent == 32


def test_wider_types_take_fewer_rows() -> None:
    graph = laid(_sum, {"x": (30001, 8)})
    wide = make_graph(_sum, {"x": (30001, 8)}, dtypes={"x": FLOAT64})
    assert "r0_i0<32" in text(*lengthen_rows(graph, DEVICE).ops)
    assert "r0_i0<16" in text(*lengthen_rows(choose_layouts(wide, DEVICE), DEVICE).ops)
