"""Views composed into operands of template calls."""

from __future__ import annotations

from collections.abc import Sequence

from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.inline import inline_producers
from aot.symbolic import FloorDiv, as_expr
from tests.passes.parts import templates
from tests.schedule.graphs import (
    DEVICE,
    attention,
    check_same,
    make_graph,
    matmul,
    pointwise,
    transpose,
)


def test_views_compose_into_template_operands() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        return [matmul(builder, transpose(x, 0, 1), w)]

    graph = make_graph(body, {"x": (16, 8), "w": (16, 4)})
    inlined = inline_producers(graph, DEVICE)
    (call,) = templates(inlined)
    assert len(inlined.ops) == 1
    assert dict(call.operands)["a"].buffer == "x"
    check_same(graph, inlined)


def test_repeated_heads_are_read_without_the_repetition() -> None:
    def body(builder: GraphBuilder, q: Tensor, kv: Tensor) -> Sequence[Tensor]:
        wide = pointwise(
            builder,
            (1, 6, 5, 8),
            lambda at: kv.load((at[0], FloorDiv(at[1], as_expr(3)), at[2], at[3])),
        )
        return [attention(q, wide, wide, causal=True)]

    graph = make_graph(body, {"q": (1, 6, 5, 8), "kv": (1, 2, 5, 8)})
    inlined = inline_producers(graph, DEVICE)
    (call,) = templates(inlined)
    assert len(inlined.ops) == 1
    assert [int(a.extent) for a in dict(call.operands)["k"].axes] == [1, 2, 5, 8]
    check_same(graph, inlined, tolerance=1e-4)
