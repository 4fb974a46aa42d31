"""Broadcasts are stored once: which dimensions go, which stay, and that results stay the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aot.ir.dtypes import INT64
from aot.ir.loops import LoopGraph
from aot.ir.scalar import cast, unary
from aot.ir.templates.base import TemplateCall
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.narrow import narrow_broadcasts
from aot.symbolic import as_expr
from tests.schedule.graphs import attention, check_same, make_graph, pointwise

SIZES = {"q": (2, 4, 5, 8), "k": (2, 4, 6, 8), "v": (2, 4, 6, 8), "m": (2, 6)}


def shapes(graph: LoopGraph) -> list[tuple[int, ...]]:
    """Sizes of everything that is stored but the results."""
    stored = [b for n, b in graph.buffers.items() if b.kind == "temp" and n not in graph.outputs]
    return [tuple(map(int, b.shape)) for b in stored]


def test_a_mask_of_keys_is_stored_once_for_all_queries() -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Sequence[Tensor]:
        size = (2, 4, 5, 6)
        mask = pointwise(builder, size, lambda at: unary("exp", m.load((at[0], at[3]))))
        return [attention(q, k, v, mask)]

    graph = make_graph(body, SIZES)
    narrow = narrow_broadcasts(graph)
    assert shapes(narrow) == [(2, 1, 1, 6)]
    (call,) = [op for op in narrow.ops if isinstance(op, TemplateCall)]
    assert [int(a.extent) for a in dict(call.operands)["mask"].axes] == [2, 4, 5, 6]
    check_same(graph, narrow, tolerance=1e-4)


def test_the_keys_of_a_mask_and_other_operands_stay() -> None:
    def body(builder: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Sequence[Tensor]:
        mask = pointwise(builder, (2, 4, 5, 6), lambda at: unary("exp", m.load((at[0], 0 * at[0]))))
        wide = pointwise(builder, (2, 4, 6, 8), lambda at: unary("exp", m.load((at[0], at[2]))))
        return [attention(q, wide, v, mask)]

    graph = make_graph(body, SIZES)
    narrow = narrow_broadcasts(graph)
    assert shapes(narrow) == [(2, 1, 1, 6), (2, 4, 6, 8)]
    check_same(graph, narrow, tolerance=1e-4)


def test_readers_and_what_they_store_follow() -> None:
    def body(builder: GraphBuilder, x: Tensor, m: Tensor) -> Sequence[Tensor]:
        wide = pointwise(builder, (4, 6), lambda at: unary("exp", m.load(at[1:])))
        wider = pointwise(builder, (4, 6), lambda at: unary("neg", wide.load(at)))
        return [pointwise(builder, (4, 6), lambda at: wider.load((at[0], 5 - at[1])))]

    graph = make_graph(body, {"x": (4, 6), "m": (6,)})
    narrow = narrow_broadcasts(graph)
    assert shapes(narrow) == [(1, 6), (1, 6)]
    check_same(graph, narrow)


@pytest.mark.parametrize("checked", (0, 1))
def test_indices_that_are_checked_count_on_their_dimension(checked: int) -> None:
    def body(builder: GraphBuilder, i: Tensor, m: Tensor) -> Sequence[Tensor]:
        wide = pointwise(builder, (4, 4), lambda at: unary("exp", m.load(at[1:])))

        def read(at: Sequence[object]) -> object:
            place = builder.indirect(cast(i.load(at[:1]), INT64), as_expr(4))
            return wide.load((place, at[1]) if checked == 0 else (at[1], place))

        return [pointwise(builder, (2, 4), read)]

    graph = make_graph(body, {"i": (2,), "m": (4,)})
    assert shapes(narrow_broadcasts(graph)) == [(4, 4) if checked == 0 else (1, 4)]


def test_results_stay_whole() -> None:
    def body(builder: GraphBuilder, m: Tensor) -> Sequence[Tensor]:
        return [pointwise(builder, (4, 6), lambda at: unary("exp", m.load(at[1:])))]

    graph = make_graph(body, {"m": (6,)})
    assert narrow_broadcasts(graph) is graph


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_is_computed_for_no_point(size: int) -> None:
    def body(builder: GraphBuilder, m: Tensor, n: Tensor) -> Sequence[Tensor]:
        wide = pointwise(builder, (size, 6), lambda at: unary("exp", m.load(at[1:])))
        return [pointwise(builder, (size, 6), lambda at: unary("exp", wide.load(at)))]

    graph = make_graph(body, {"m": (6,), "n": (size,)})
    assert narrow_broadcasts(graph) is graph


def test_what_an_update_takes_over_stays_whole() -> None:
    def body(builder: GraphBuilder, i: Tensor, m: Tensor) -> Sequence[Tensor]:
        filled = pointwise(builder, (4, 6), lambda at: unary("exp", m.load(at[1:])))

        def place(at: Sequence[object]) -> tuple[object, object]:
            return builder.indirect(cast(i.load(at[:1]), INT64), as_expr(4)), at[1]

        return [builder.update(filled, (as_expr(2), as_expr(6)), place, lambda at: m.load(at[1:]))]

    graph = make_graph(body, {"i": (2,), "m": (6,)})
    assert shapes(narrow_broadcasts(graph)) == [(4, 6)]
