"""Approximated functions and sums in float64: which are widened, and how exact values are then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT64
from aot.ir.loops import LoopGraph
from aot.ir.scalar import postorder
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.precise import with_precise_functions
from tests.passes.parts import nests
from tests.schedule.graphs import (
    Body,
    binary_op,
    check_same,
    interpret,
    make_graph,
    random_inputs,
    reduce_op,
    unary_op,
)
from tests.schedule.steps import text


def _precise(graph: LoopGraph) -> LoopGraph:
    changed = replace(graph, ops=tuple(with_precise_functions(n) for n in nests(graph)))
    check_same(graph, changed)
    return changed


def _exp(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", x)]


def _sum(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 0)]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (_exp, "n0 = nest(i0<9) { buf1[i0] = float32(exp(float64(x[i0]))) }"),
        (_sum, "n0 = nest( | r0<9) { buf1[] = float32(sum(float64(x[r0]))) }"),
    ],
)
def test_the_function_is_wide_and_its_result_is_not(body: Body, line: str) -> None:
    (nest,) = nests(_precise(make_graph(body, {"x": (9,)})))
    assert text(nest) == line


def test_values_are_those_of_float64_once_rounded() -> None:
    graph = make_graph(_exp, {"x": (1000,)})
    inputs, weights = random_inputs(graph)
    (found,) = interpret(_precise(graph), inputs, weights)
    np.testing.assert_array_equal(found, np.exp(inputs["x"].astype(np.float64)).astype(np.float32))


def test_exact_arithmetic_stays_as_it_is() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("sqrt", binary_op("mul", x, x)), reduce_op("max", x, 0)]

    for nest in nests(make_graph(body, {"x": (9,)})):
        changed = with_precise_functions(nest)
        assert changed is nest
        assert FLOAT64 not in {node.dtype for node in postorder(changed.roots)}
