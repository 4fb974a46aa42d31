"""How accesses move with each loop: offsets, strides, and which loops follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import INT64
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.scalar import index_value, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.strides import adjacent, strided_accesses, symbols_as_values
from aot.symbolic import as_expr, dim, evaluate
from tests.schedule.graphs import (
    BATCH,
    S0,
    Body,
    binary_op,
    concatenate,
    pointwise,
    transpose,
    unary_op,
)
from tests.schedule.steps import laid


def _only(graph: LoopGraph) -> LoopNest:
    (nest,) = graph.ops
    assert isinstance(nest, LoopNest)
    return nest


def _turned(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [transpose(x, 0, 1)]


def _every_other(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [pointwise(builder, (2, 6), lambda at: x.load((2 * at[0] + 1, at[1])))]


def _columns(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [binary_op("add", x, x)]


@pytest.mark.parametrize("body", [_turned, _every_other, _columns])
def test_an_offset_is_where_the_element_lies(body: Body) -> None:
    graph = laid(body, {"x": (4, 6)})
    nest = _only(graph)
    (read,) = (m for m in strided_accesses(graph, nest) if not m.store)
    (access,) = {n.attr for n in nest.roots[0].args} or {nest.roots[0].attr}
    for point in np.ndindex(*(int(a.extent) for a in nest.axes)):
        at = dict(zip((a.symbol for a in nest.axes), point, strict=True))
        index = tuple(int(evaluate(e, at)) for e in access.index)
        assert evaluate(read.offset, at) == np.ravel_multi_index(index, (4, 6))


def test_each_loop_has_its_stride() -> None:
    graph = laid(_turned, {"x": (4, 6)})
    nest = _only(graph)
    row, column = (a.symbol for a in nest.axes)
    read, written = strided_accesses(graph, nest)
    assert (read.store, written.store) == (False, True)
    assert (read.stride(row), read.stride(column)) == (1, 6)
    assert (written.stride(row), written.stride(column)) == (4, 1)


def test_strides_of_dynamic_sizes_are_expressions() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (3, S0, 2)}, dims=(BATCH,))
    nest = _only(graph)
    read, _ = strided_accesses(graph, nest)
    assert [read.stride(a.symbol) for a in nest.axes] == [2 * dim("s0"), 2, 1]


def test_what_a_value_decides_has_no_stride() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        ids = builder.pointwise((as_expr(6),), INT64, lambda at: index_value(at[0] + 2))
        size = w.shape[0]
        return [
            pointwise(
                builder,
                (6, 4),
                lambda at: w.load((builder.indirect(ids.load(at[:1]), size), at[1])),
            ),
            unary_op("exp", x),
        ]

    graph = laid(body, {"x": (2,)}, {"w": (10, 4)})
    gather = next(op for op in graph.ops if isinstance(op, LoopNest) and "w" in str(op.roots))
    row, column = (a.symbol for a in gather.axes)
    (read,) = (m for m in strided_accesses(graph, gather) if m.buffer == "w")
    assert read.indirect == {row}
    assert (read.stride(row), read.stride(column)) == (None, 1)


def test_a_guard_names_what_it_depends_on() -> None:
    graph = laid(lambda _, x, y: [concatenate(x, y, 1)], {"x": (4, 3), "y": (4, 5)})
    nest = _only(graph)
    (_, column) = (a.symbol for a in nest.axes)
    reads = [m for m in strided_accesses(graph, nest) if not m.store]
    assert [m.guard for m in reads] == [{column}, {column}]
    assert symbols_as_values(nest.roots) == {column}


def test_loops_that_follow_each_other() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (2, 3, 4)})
    nest = _only(graph)
    moves = strided_accesses(graph, nest)
    first, second, third = nest.axes
    assert adjacent(moves, first, second) and adjacent(moves, second, third)
    assert not adjacent(moves, first, third) and not adjacent(moves, third, second)
    turned = laid(_turned, {"x": (4, 6)})
    assert not adjacent(strided_accesses(turned, _only(turned)), *_only(turned).axes)


def test_loops_that_overlap_do_not_follow_each_other() -> None:
    def windows(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [pointwise(builder, (4, 3), lambda at: x.load((at[0] + at[1],)))]

    graph = laid(windows, {"x": (6,)})
    assert not adjacent(strided_accesses(graph, _only(graph)), *_only(graph).axes)


def test_buffers_without_strides_are_refused() -> None:
    graph = laid(
        lambda _, x: [pointwise(x.builder, (4,), lambda at: unary("exp", x.load(at)))], {"x": (4,)}
    )
    nest = _only(graph)
    bare = {name: replace(b, strides=None) for name, b in graph.buffers.items()}
    with pytest.raises(ValueError, match="x has no strides yet"):
        strided_accesses(replace(graph, buffers=bare), nest)
