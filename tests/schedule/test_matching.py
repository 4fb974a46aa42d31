"""Iteration spaces of two groups: which loops run over the same elements, and are one then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.nests import Axis
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.matching import (
    Matched,
    dependences,
    invert,
    invert_turned,
    match,
    mixed_radix,
)
from aot.symbolic import Expr, FloorDiv, Modulo, as_expr, evaluate, var
from tests.schedule.graphs import binary_op, pointwise, reduce_op, transpose, unary_op
from tests.schedule.steps import check_ops, groups, laid, text

I, J = var("i"), var("j")  # noqa: E741  # as loop variables are called
AXES = (Axis(I, as_expr(3)), Axis(J, as_expr(4)))
EXTENTS = {a.symbol: a.extent for a in AXES}


@pytest.mark.parametrize(
    ("index", "digits"),
    [
        (4 * I + J, ((I, 4), (J, 1))),
        (I + 3 * J, ((J, 3), (I, 1))),
        (J, ((J, 1),)),
        (5 * I + J, None),
        (4 * I + J + 1, None),
        (2 * J, None),
    ],
)
def test_digits_number_all_points(index: Expr, digits: tuple[tuple[Expr, int], ...] | None) -> None:
    assert mixed_radix(index, EXTENTS) == digits


@pytest.mark.parametrize("index", [(I, J), (J, I), (4 * I + J,), (I + 3 * J,)])
def test_an_index_is_solved_for_the_loops(index: tuple[Expr, ...]) -> None:
    for i in range(3):
        for j in range(4):
            element = tuple(as_expr(int(evaluate(e, {I: i, J: j}))) for e in index)
            solved = invert(AXES, index, element)
            assert solved is not None
            assert (int(solved[I]), int(solved[J])) == (i, j)


@pytest.mark.parametrize("index", [(I,), (I + J,), (FloorDiv(I, as_expr(2)), J)])
def test_an_index_that_points_share_is_not(index: tuple[Expr, ...]) -> None:
    assert invert(AXES, index, tuple(as_expr(0) for _ in index)) is None


@pytest.mark.parametrize(
    "index",
    [
        (I + FloorDiv(J + 1, as_expr(4)), Modulo(J + 1, as_expr(4))),
        (3 * Modulo(J + 3, as_expr(4)) + I,),
        (FloorDiv(J + 1, as_expr(2)), 2 * I + Modulo(J + 1, as_expr(2))),
        (I + 2, J),
    ],
)
def test_an_index_of_turned_digits_is_solved(index: tuple[Expr, ...]) -> None:
    for i in range(3):
        for j in range(4):
            element = tuple(as_expr(int(evaluate(e, {I: i, J: j}))) for e in index)
            solved = invert_turned(AXES, index, element)
            assert solved is not None
            assert (int(solved[I]), int(solved[J])) == (i, j)


def test_an_element_that_no_point_has_is_outside_of_a_loop() -> None:
    index = (I + FloorDiv(J + 1, as_expr(4)), Modulo(J + 1, as_expr(4)))
    solved = invert_turned(AXES, index, (as_expr(0), as_expr(0)))
    assert solved == {I: -1, J: 3}
    assert invert_turned(AXES, (I + J, J * 2), (as_expr(0), as_expr(0))) is None


def _matched(body, **inputs: tuple[int, ...]) -> tuple[Matched, str]:
    """The two groups of the graph on common loops, which compute the same; and their text."""
    graph = laid(body, inputs)
    first, second = groups(graph)
    found = match(graph, first, second)
    assert isinstance(found, Matched)
    assert found.first.outer == found.second.outer
    check_ops(graph, (*found.first.ops, *found.second.ops))
    return found, text(*found.second.ops)


def test_elements_that_are_read_in_turn_share_all_loops() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("sin", unary_op("exp", x))]

    _, read = _matched(body, x=(4, 6))
    assert read == "n1 = nest(n0_i0<4, n0_i1<6) { buf2[n0_i0, n0_i1] = sin(buf1[n0_i0, n0_i1]) }"


def test_transposed_reads_share_loops_crosswise() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [transpose(unary_op("exp", x), 0, 1)]

    found, read = _matched(body, x=(4, 6))
    assert [int(a.extent) for a in found.first.outer] == [4, 6]
    assert read == "n1 = nest(n0_i0<4, n0_i1<6) { buf2[n0_i1, n0_i0] = buf1[n0_i0, n0_i1] }"


def test_a_row_that_is_read_as_blocks_is_cut_into_them() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        sums = reduce_op("sum", x, 1)
        return [pointwise(builder, (3, 8), lambda at: sums.load((at[0] * 8 + at[1],)))]

    found, read = _matched(body, x=(24, 5))
    assert [int(a.extent) for a in found.first.outer] == [3, 8]
    assert read.startswith("n1 = nest(n0_i0_0<3, n0_i0_1<8) { buf2[n0_i0_0, n0_i0_1] = ")


def test_blocks_that_are_read_as_a_row_cut_the_reader() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        sums = reduce_op("sum", x, 2)
        at = lambda i: (FloorDiv(i[0], as_expr(8)), Modulo(i[0], as_expr(8)))  # noqa: E731
        flat = builder.reduction(
            [as_expr(24)], [as_expr(5)], [(x.dtype, lambda i, r: sums.load(at(i)))]
        )
        return [flat[0]]

    found, _ = _matched(body, x=(3, 8, 5))
    assert [int(a.extent) for a in found.first.outer] == [3, 8]


def test_loops_of_a_reduction_are_not_shared() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", unary_op("exp", x), 0)]

    found, read = _matched(body, x=(4, 6))
    assert [int(a.extent) for a in found.first.outer] == [6]
    assert read.startswith("n1 = nest(n0_i1<6 | n1_r0<4)")


def test_readers_of_one_input_share_the_loops_that_index_it() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", x, 1), reduce_op("max", binary_op("add", x, y), 1)]

    graph = laid(body, {"x": (4, 6), "y": (4, 6)})
    first, _, third = groups(graph)
    assert dependences(graph, first, third) == []
    one, two, _ = groups(graph)
    found = match(graph, one, two)
    assert isinstance(found, Matched)
    assert [int(a.extent) for a in found.first.outer] == [4]
    assert "x[n0_i0, n1_i1]" in text(*found.second.ops)


def test_a_flow_says_where_the_producer_was() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        twice = pointwise(builder, (6,), lambda at: x.load((FloorDiv(at[0], as_expr(2)),)))
        return [unary_op("exp", twice)]

    graph = laid(body, {"x": (3,)})  # the first nest has loops of 3 and of 2
    first, second = groups(graph)
    (flow,) = dependences(graph, first, second) or ()
    (place,) = (a.symbol for a in second.outer)
    assert list(flow.coordinates.values()) == [
        FloorDiv(place, as_expr(2)),
        Modulo(place, as_expr(2)),
    ]


def test_elements_that_nobody_made_have_no_flow() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("sin", unary_op("exp", x))]

    graph = laid(body, {"x": (6,)})
    first, second = groups(graph)
    (nest,) = first.nests
    (store,) = nest.stores
    odd = replace(store, index=(2 * store.index[0] + 1,))
    spread = replace(first, nests=(replace(nest, stores=(odd,)),))
    assert dependences(graph, spread, second) is None
    assert match(graph, spread, second) == "a store of the producer cannot be inverted"
