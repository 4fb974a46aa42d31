"""Operations over no points: what takes their place reads nothing, and values stay."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.loops import reads
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.empty import settle_empty
from tests.passes.parts import nests
from tests.schedule.graphs import (
    BATCH,
    S0,
    binary_op,
    check_same,
    concatenate,
    make_graph,
    matmul,
    reduce_op,
    unary_op,
)
from tests.schedule.steps import text


def test_a_sum_of_nothing_stays_and_a_nest_over_nothing_reads_nothing() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", x), reduce_op("sum", x, 1)]

    graph = make_graph(body, {"x": (4, 0)})
    settled = settle_empty(graph)
    nothing, total = nests(settled)
    assert text(nothing) == "n0.buf1 = nest(i0<4, i1<0) { buf1[i0, i1] = 0.0 }"
    assert total is nests(graph)[1]  # four results, of which each is zero
    assert reads(nothing) == ()
    check_same(graph, settled)


def test_a_template_over_nothing_is_a_nest() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, x, w)]

    graph = make_graph(body, {"x": (0, 4), "w": (4, 6)})
    settled = settle_empty(graph)
    (nest,) = nests(settled)
    assert [int(a.extent) for a in nest.axes] == [0, 6]
    assert not nest.reduction
    check_same(graph, settled)


def test_an_empty_piece_of_a_concatenation() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [concatenate(unary_op("exp", x), unary_op("neg", y), 1)]

    graph = make_graph(body, {"x": (4, 0), "y": (4, 3)})
    settled = settle_empty(graph)
    assert [reads(n) for n in nests(settled)] == [(), ("y",), ("buf2", "buf3")]
    check_same(graph, settled)


def test_sizes_that_may_be_nothing_are_the_runtimes_matter() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [binary_op("add", x, x)]

    graph = make_graph(body, {"x": (S0, 4)}, dims=(BATCH,))
    assert settle_empty(graph) is graph
