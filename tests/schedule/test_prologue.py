"""Prologues: nests that a template call evaluates where it loads, and what is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.loops import LoopGraph
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.groups import Group
from aot.schedule.matching import Matched, match
from aot.schedule.prologue import attach_prologue
from aot.symbolic import Modulo, as_expr
from tests.schedule.graphs import Body, binary_op, matmul, pointwise, scan, softmax, unary_op
from tests.schedule.steps import check_groups, groups, laid, text


def _parts(body: Body) -> tuple[LoopGraph, Group, Group, tuple[Group, ...]]:
    """The graph, the nests before its template call as one group, the call, and what follows."""
    graph = laid(body, {"x": (4, 8), "w": (8, 6)})
    every = groups(graph)
    place = next(k for k, g in enumerate(every) if g.template)
    producer, *more = every[:place]
    for other in more:
        found = match(graph, producer, other)
        assert isinstance(found, Matched)
        producer = replace(found.first, nests=(*found.first.nests, *found.second.nests))
    return graph, producer, every[place], every[place + 1 :]


def _exp(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [matmul(builder, unary_op("exp", x), w)]


def _chain(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [matmul(builder, unary_op("exp", binary_op("mul", x, x)), w)]


def _scanned(_: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [scan(unary_op("exp", x))]


@pytest.mark.parametrize(
    ("body", "nest"),
    [
        (_exp, "nest(v0<4, v1<8) { buf2[v0, v1] = exp(x[v0, v1]) }"),
        (_chain, "nest(v0<4, v1<8) { buf3[v0, v1] = exp(x[v0, v1] * x[v0, v1]) }"),
        (_scanned, "nest(v0<4, v1<8) { buf2[v0, v1] = exp(x[v0, v1]) }"),
    ],
)
def test_it_runs_over_the_axes_of_the_operand(body: Body, nest: str) -> None:
    graph, producer, call, after = _parts(body)
    found = attach_prologue(graph, producer, call)
    assert isinstance(found, Group)
    assert text(*found.prologue).partition(" = ")[2] == nest
    first, *_ = check_groups(graph, [found, *after]).kernels
    assert found.prologue[0].stores[0].buffer in getattr(first, "local", ())


def _reduced(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [matmul(builder, softmax(x), w)]


def _both(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    y = pointwise(builder, (8, 8), lambda at: x.load((Modulo(at[0], as_expr(4)), at[1])))
    return [matmul(builder, y, y)]


def test_a_reduction_is_none() -> None:
    graph, producer, call, _ = _parts(_reduced)
    assert attach_prologue(graph, producer, call) == (
        "a template's operand is computed point by point, or not in its kernel"
    )


def test_one_operand_is_computed() -> None:
    graph, producer, call, _ = _parts(_both)
    assert attach_prologue(graph, producer, call) == "several operands are computed"
    graph, producer, call, _ = _parts(_exp)
    found = attach_prologue(graph, producer, call)
    assert isinstance(found, Group)
    assert attach_prologue(graph, producer, found) == "several operands are computed"


def test_a_nest_that_visits_elements_twice_is_none() -> None:
    graph, producer, call, _ = _parts(_exp)
    (nest,) = producer.nests
    (store,) = nest.stores
    once = replace(store, index=(store.index[0], as_expr(0)))
    odd = replace(producer, nests=(replace(nest, stores=(once,)),))
    assert attach_prologue(graph, odd, call) == "t1 does not read buf2 point by point"
