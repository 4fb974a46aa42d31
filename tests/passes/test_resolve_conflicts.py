"""Points that meet in one element: every way of keeping them apart gives the same values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32
from aot.ir.machine import Machine
from aot.ir.nests import JOINING, LoopNest
from aot.ir.scalar import Node, binary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.resolve_conflicts import resolve_conflicts
from aot.symbolic import Expr
from tests.passes.conflicts import ANY_ORDER, in_a_loop, kept, run, scattered, verdict
from tests.schedule.graphs import DEVICE, make_graph


@pytest.mark.parametrize("mode", [*JOINING, "last"])
def test_a_worker_that_goes_in_order_needs_nothing(mode: str) -> None:
    graph = scattered(40, mode)
    made = resolve_conflicts(graph, DEVICE)
    assert made.ops == graph.ops
    assert verdict(made) == "in memory"


@pytest.mark.parametrize("mode", JOINING)
def test_few_elements_are_joined_in_private_copies(mode: str) -> None:
    private = replace(ANY_ORDER, joins=None, private_points=100)
    made = resolve_conflicts(scattered(400, mode), private)
    assert (verdict(made), kept(made)) == ("private copies", [mode])
    (copies,) = [b for name, b in made.buffers.items() if name.endswith("_copies")]
    assert [int(n) for n in copies.shape] == [5, 3, 4]  # the greatest power of 2: 100 // 15 is 6
    join = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}[mode]
    np.testing.assert_allclose(run(made, 400), in_a_loop(400, join), rtol=1e-4, atol=1e-5)


def test_copies_are_no_more_than_points_fill() -> None:
    private = replace(ANY_ORDER, private_points=1 << 20)
    (copies,) = (
        b
        for name, b in resolve_conflicts(scattered(160, "add"), private).buffers.items()
        if name.endswith("_copies")
    )
    assert int(copies.shape[-1]) == 4  # 8 points for each element of a copy
    assert verdict(resolve_conflicts(scattered(40, "add"), private)) == "atomic operations"


def test_sums_are_atomic_where_the_device_adds_in_memory() -> None:
    made = resolve_conflicts(scattered(40, "add"), ANY_ORDER)
    assert (verdict(made), kept(made)) == ("atomic operations", ["add"])
    (decision,) = made.decisions
    assert "differ from run to run" in decision.reason


@pytest.mark.parametrize("mode", JOINING)
def test_elements_look_for_their_points_where_the_device_has_no_such_operation(mode: str) -> None:
    bare: Machine = replace(ANY_ORDER, joins=frozenset())
    made = resolve_conflicts(scattered(40, mode), bare)
    assert (verdict(made), kept(made)) == ("each element looks for its points", [])
    (nest,) = [op for op in made.ops if isinstance(op, LoopNest)]
    assert [int(a.extent) for a in nest.axes] == [5, 3]
    assert [int(a.extent) for a in nest.reduction] == [40]  # columns are matched, not searched
    join = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}[mode]
    np.testing.assert_allclose(run(made, 40), in_a_loop(40, join), rtol=1e-5, atol=1e-5)


def test_a_graph_without_conflicts_is_the_same_object() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def twice(at: tuple[Expr, ...]) -> Node:
            return binary("add", x.load(at), x.load(at))

        return [builder.pointwise(x.shape, FLOAT32, twice)]

    graph = make_graph(body, {"x": (4,)})
    assert resolve_conflicts(graph, ANY_ORDER) is graph
