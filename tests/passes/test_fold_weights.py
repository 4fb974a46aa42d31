"""Constant parts of a model: what becomes a derived weight, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.dtypes import BOOL, FLOAT32, INT64
from aot.ir.scalar import binary, const, index_value, postorder, unary, where
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.dead_code import remove_dead_code
from aot.passes.fold_weights import fold_weights
from aot.passes.inline import inline_producers
from aot.symbolic import FloorDiv, Modulo, as_expr
from tests.passes.parts import nests
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    binary_op,
    check_same,
    make_graph,
    matmul,
    pointwise,
    transpose,
    unary_op,
)


def _scaled(_: GraphBuilder, x: Tensor, w: Tensor, g: Tensor) -> Sequence[Tensor]:
    scale = unary_op("exp", binary_op("mul", w, g))
    return [binary_op("mul", x, scale)]


def test_constant_parts_become_derived_weights() -> None:
    graph = make_graph(_scaled, {"x": (S0, 8)}, {"w": (8,), "g": (8,)}, (BATCH,))
    folded = fold_weights(graph)
    assert [d.recipe for d in folded.derived] == ["fold"]
    assert len(folded.ops) == 1
    (name,) = [d.name for d in folded.derived]
    assert folded.buffers[name].kind == "weight"
    check_same(graph, folded, {"s0": 3})
    check_same(graph, inline_producers(folded, DEVICE), {"s0": 3})


def test_a_derived_weight_that_only_recipes_read_is_their_scratch() -> None:
    """Two derived weights of one chain, of which the model reads the second."""

    def body(_: GraphBuilder, x: Tensor, w: Tensor, g: Tensor) -> Sequence[Tensor]:
        scaled = binary_op("mul", w, g)
        unused = binary_op("add", x, scaled)
        return [binary_op("add", x, unary_op("exp", scaled)), unused]

    graph = make_graph(body, {"x": (S0, 4)}, {"w": (4,), "g": (4,)}, (BATCH,))
    folded = fold_weights(graph)
    assert len(folded.derived) == 2
    read = remove_dead_code(replace(folded, outputs=folded.outputs[:1]))
    (left,) = [d.name for d in read.derived]
    weights = {b.name for b in read.buffers.values() if b.kind == "weight"}
    assert weights == {"w", "g", left}


def test_views_and_broadcasts_are_not_folded() -> None:
    def body(_: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [binary_op("add", x, transpose(w, 0, 1))]

    graph = make_graph(body, {"x": (8, 4)}, {"w": (4, 8)})
    assert fold_weights(graph).derived == ()


def test_views_that_a_template_cannot_see_through_are_folded() -> None:
    """A matrix whose columns are two halves of a weight side by side is no plain view of it."""

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        half = as_expr(4)
        mixed = builder.pointwise(
            (as_expr(4), as_expr(8)),
            FLOAT32,
            lambda at: w.load((Modulo(at[1], half), 2 * at[0] + FloorDiv(at[1], half))),
        )
        plain = transpose(w, 0, 1)
        return [matmul(builder, x, mixed), matmul(builder, x, transpose(plain, 0, 1))]

    graph = make_graph(body, {"x": (4, 4)}, {"w": (4, 8)})
    folded = fold_weights(graph)
    assert [buffer.shape for buffer in folded.buffers.values() if buffer.kind == "weight"] == [
        (4, 8),
        (4, 8),
    ]
    assert len(folded.derived) == 1
    check_same(graph, folded, {})


def test_what_positions_decide_is_neither_folded_nor_computed() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        place = builder.pointwise((as_expr(6),), INT64, lambda at: index_value(at[0]))
        moved = builder.pointwise(
            (as_expr(6),), INT64, lambda at: binary("add", place.load(at), const(3, INT64))
        )
        inside = builder.pointwise(
            (as_expr(6),), BOOL, lambda at: binary("ge", moved.load(at), const(0, INT64))
        )
        zero = const(0, FLOAT32)
        return [
            pointwise(
                builder, (6,), lambda at: where(inside.load(at), unary("neg", x.load(at)), zero)
            )
        ]

    graph = make_graph(body, {"x": (6,)})
    folded = fold_weights(graph)
    assert folded.derived == ()
    (nest,) = nests(inline_producers(folded, DEVICE))
    assert [n.op for n in postorder(nest.roots)] == ["load", "neg"]
    check_same(graph, inline_producers(folded, DEVICE))


def test_large_expansions_are_not_folded() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        table = pointwise(builder, (1024, 1024), lambda at: unary("exp", w.load(at[1:])))
        return [binary_op("add", x, table)]

    graph = make_graph(body, {"x": (1024, 1024)}, {"w": (1024,)})
    folded = fold_weights(graph)
    assert folded.derived == ()
    assert [d.verdict for d in folded.decisions if d.stage == "fold"] == ["computed at run time"]


def test_outputs_are_not_folded_away() -> None:
    def body(_: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", w), unary_op("neg", x)]

    graph = make_graph(body, {"x": (4,)}, {"w": (4,)})
    folded = fold_weights(graph)
    assert len(folded.ops) == 2
    check_same(graph, folded)
