"""Rows of temporaries in whole lines: where, by how much, and that results stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.loops import LoopGraph
from aot.ir.templates.matmul import AlignedRows, Matmul, MatmulSupport
from aot.ir.tensors import Dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.layout import choose_layouts
from aot.symbolic import Expr, dim, is_multiple
from tests.passes.parts import templates
from tests.schedule.graphs import DEVICE, check_same, make_graph, matmul, unary_op

ROWS = AlignedRows(bytes=16, least_uses=1000, least_work=1, line=32, line_rows=4)
LINES = replace(DEVICE, templates=(MatmulSupport(Matmul, rows=ROWS),))


def _chain(rows: int, hidden: int, tied: bool = False) -> tuple[LoopGraph, LoopGraph]:
    """Two products with something between them, before and after its layout."""

    def body(builder: GraphBuilder, x: Tensor, up: Tensor, down: Tensor) -> Sequence[Tensor]:
        result = matmul(builder, unary_op("tanh", matmul(builder, x, up)), down)
        return [result, unary_op("tanh", down)] if tied else [result]

    graph = make_graph(body, {"x": (rows, 64)}, {"up": (64, hidden), "down": (hidden, 68)})
    return graph, choose_layouts(graph, LINES)


def _rows(laid: LoopGraph) -> list[tuple[int, ...]]:
    """Strides of the operands of the second product, and of the first one's weight."""
    first, second = templates(laid)
    assert isinstance(first, Matmul)
    assert isinstance(second, Matmul)
    strides = [laid.buffers[v.buffer].strides or () for v in (second.a, second.b, first.b)]
    return [tuple(int(s) for s in one) for one in strides]


def test_temporaries_and_weights_are_longer() -> None:
    graph, laid = _chain(5, 67)
    assert _rows(laid) == [(72, 1), (72, 1), (72, 1)]
    check_same(graph, laid, tolerance=1e-4)


@pytest.mark.parametrize(
    ("rows", "hidden", "weight"),
    [(1, 67, 67), (3, 67, 72), (5, 63, 64)],
    ids=["one row", "few rows", "short rows"],
)
def test_where_that_gains_little_they_are_not(rows: int, hidden: int, weight: int) -> None:
    """What completes a row of fewer than eight lines is more than an eighth of it.

    A weight is stored once, and its rows may be a fourth longer; few rows read little else.
    """
    _, laid = _chain(rows, hidden)
    assert _rows(laid)[0] == (hidden, 1)
    assert _rows(laid)[2] == (weight, 1)


def test_rows_of_any_length_are_longer_where_they_may_be_long() -> None:
    def body(builder: GraphBuilder, x: Tensor, up: Tensor, down: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, unary_op("tanh", matmul(builder, x, up)), down)]

    def laid(hint: int) -> LoopGraph:
        long = Dim("s0", 1, None, hint, (1, 1, 1, 0))
        shapes = {"x": (5, 64), "up": (64, dim("s0")), "down": (dim("s0"), 68)}
        graph = make_graph(body, shapes, {}, (long,))
        found = choose_layouts(graph, LINES)
        for size in (1, 8, 67):
            check_same(graph, found, {"s0": size}, tolerance=1e-4)
        return found

    def row(laid: LoopGraph) -> Expr:
        first, _ = templates(laid)
        return (laid.buffers[first.output.buffer].strides or ())[0]

    assert row(laid(1)) == dim("s0")
    assert row(laid(16)) != dim("s0") and is_multiple(row(laid(16)), 8)


def test_weights_have_no_lines_that_are_more_than_a_fourth_of_a_row() -> None:
    _, laid = _chain(5, 17)
    assert _rows(laid)[2] == (17, 1)


def test_weights_that_others_read_are_not_stored_twice() -> None:
    graph, laid = _chain(5, 67, tied=True)
    assert _rows(laid) == [(72, 1), (68, 1), (72, 1)]
    check_same(graph, laid, tolerance=1e-4)


def test_rows_of_results_are_two_vectors() -> None:
    """Of what no product reads; what one reads is in whole lines, and stays so."""

    def body(builder: GraphBuilder, x: Tensor, up: Tensor) -> Sequence[Tensor]:
        result = matmul(builder, x, up)
        return [unary_op("tanh", result), unary_op("exp", result)]

    graph = make_graph(body, {"x": (5, 64)}, {"up": (64, 67)})
    laid = choose_layouts(graph, LINES)
    (call,) = templates(laid)
    assert laid.buffers[call.output.buffer].strides == (72, 1)
    check_same(graph, laid, tolerance=1e-4)
