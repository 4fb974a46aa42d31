"""Axes: what reshapes split, and what has one turn only."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.scalar import Access, loads, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.normalize_axes import normalize_axes
from aot.symbolic import FloorDiv, Modulo, as_expr
from tests.passes.parts import nests
from tests.schedule.graphs import (
    check_same,
    make_graph,
    pointwise,
    reduce_op,
    unary_op,
)


def test_reshaped_reads_become_affine() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        at = lambda i: (FloorDiv(i[0], as_expr(8)), Modulo(i[0], as_expr(8)))  # noqa: E731
        return [pointwise(builder, (32,), lambda i: unary("exp", x.load(at(i))))]

    graph = make_graph(body, {"x": (4, 8)})
    normal = normalize_axes(graph)
    (nest,) = nests(normal)
    assert [int(a.extent) for a in nest.axes] == [4, 8]
    (read,) = loads(nest.roots)
    assert isinstance(read.attr, Access)
    assert all(e.is_Symbol for e in read.attr.index)
    check_same(graph, normal)


def test_loops_of_one_turn_go() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", x), reduce_op("sum", x, 0)]

    graph = make_graph(body, {"x": (1, 8, 1)})
    normal = normalize_axes(graph)
    first, second = nests(normal)
    assert [int(a.extent) for a in first.axes] == [8]
    assert len(second.reduction) == 1
    check_same(graph, normal)
