"""Template calls that others take the place of: what is declared, recorded, and left alone."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.decisions import Decision
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.templates import Matmul, Scan
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.change_calls import Replacement, change_calls
from tests.passes.parts import nests, templates
from tests.schedule.graphs import (
    DEVICE,
    attention,
    check_same,
    make_graph,
    matmul,
    scan,
    unary_op,
)


def _both(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", scan(matmul(builder, unary_op("neg", x), w)))]


def _graph() -> LoopGraph:
    return make_graph(_both, {"x": (4, 8)}, {"w": (8, 6)})


def _as_nests(builder: NestBuilder, call: TemplateCall) -> Replacement:
    return Decision("test", (call.name,), "nests", "they are wanted"), call.expand(builder, None)


def test_calls_that_all_stay_leave_the_graph_alone() -> None:
    graph = _graph()
    seen: list[str] = []
    assert change_calls(graph, DEVICE, lambda _, call: seen.append(call.name)) is graph
    assert seen == [call.name for call in templates(graph)]


def test_what_takes_a_calls_place_stands_there() -> None:
    graph = _graph()
    product, running = templates(graph)
    assert isinstance(product, Matmul) and isinstance(running, Scan)
    changed = change_calls(
        graph, DEVICE, lambda b, call: _as_nests(b, call) if call is product else None
    )
    assert templates(changed) == [running]
    first, *made, last = nests(changed)
    assert (first, last) == (nests(graph)[0], nests(graph)[-1])
    assert made and all(isinstance(op, LoopNest) and op.reduction for op in made)
    assert [d.subject for d in changed.decisions] == [(product.name,)]
    check_same(graph, changed, tolerance=1e-4)


def test_buffers_between_its_parts_are_declared() -> None:
    def attend(_: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
        return [attention(q, k, k)]

    graph = make_graph(attend, {"q": (1, 2, 5, 8), "k": (1, 2, 7, 8)})
    changed = change_calls(graph, DEVICE, _as_nests)
    assert not templates(changed)
    written = {s.buffer for nest in nests(changed) for s in nest.stores}
    assert written - set(graph.buffers) <= set(changed.buffers)
    assert len(changed.buffers) > len(graph.buffers)
    check_same(graph, changed, tolerance=1e-4)
