"""Dead code: what goes, and what stays."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import FLOAT32
from aot.ir.scalar import unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.dead_code import remove_dead_code
from tests.passes.parts import nests
from tests.schedule.graphs import (
    make_graph,
    unary_op,
)


def test_dead_operations_and_their_buffers_go() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        unary_op("exp", unary_op("neg", x))
        return [unary_op("abs", x)]

    graph = make_graph(body, {"x": (4,)})
    clean = remove_dead_code(graph)
    assert len(clean.ops) == 1
    assert len(clean.buffers) == 2
    assert remove_dead_code(clean) is clean


def test_dead_stores_of_living_nests_go() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        both = builder.pointwise_many(
            x.shape,
            [(FLOAT32, lambda at: unary("exp", x.load(at))), (FLOAT32, x.load)],
        )
        return [both[1]]

    clean = remove_dead_code(make_graph(body, {"x": (4,)}))
    assert [len(n.stores) for n in nests(clean)] == [1]
