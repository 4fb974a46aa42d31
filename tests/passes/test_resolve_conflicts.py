"""Points that meet in one element: every way of keeping them apart gives the same values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.interpreter import interpret_loops
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import JOINING, LoopNest
from aot.ir.scalar import Node, binary
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.resolve_conflicts import resolve_conflicts
from aot.symbolic import Expr
from tests.schedule.graphs import DEVICE, make_graph
from tests.settings import seeded

ATOMIC = frozenset([("add", "float32"), ("maximum", "int64")])
ANY_ORDER = replace(DEVICE, in_order=False, joins=ATOMIC, compared_points=3 * 50 * 50)


def scattered(points: int, mode: str, columns: int = 3, rows: int = 5) -> LoopGraph:
    """Rows of v written to the rows of x that i names."""

    def body(builder: GraphBuilder, x: Tensor, i: Tensor, v: Tensor) -> Sequence[Tensor]:
        def place(at: tuple[Expr, ...]) -> Sequence[Expr]:
            return (builder.indirect(i.load(at[:1]), x.shape[0]), at[1])

        return [builder.update(x, v.shape, place, v.load, mode)]

    shapes = {"x": (rows, columns), "i": (points,), "v": (points, columns)}
    return make_graph(body, shapes, dtypes={"i": INT64})


def values(points: int, rows: int = 5) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seeded(points))
    return {
        "x": random.standard_normal((rows, 3)).astype(np.float32),
        "i": random.integers(-5, 5, points),
        "v": random.standard_normal((points, 3)).astype(np.float32),
    }


def run(graph: LoopGraph, points: int, rows: int = 5) -> np.ndarray:
    verify_loops(graph)
    given = values(points, rows)
    (result,) = interpret_loops(graph, given, lambda name: given[name], {})
    return result


def kept(graph: LoopGraph) -> list[str]:
    """Modes of the stores that may meet."""
    nests = [op for op in graph.ops if isinstance(op, LoopNest)]
    return [s.mode for nest in nests for s in nest.stores if s.conflicts]


def verdict(graph: LoopGraph) -> str:
    (decision,) = [d for d in graph.decisions if d.stage == "conflict"]
    return decision.verdict


def in_a_loop(
    points: int, join: Callable[[np.ndarray, np.ndarray], np.ndarray], rows: int = 5
) -> np.ndarray:
    given = values(points, rows)
    x = given["x"].copy()
    for row, value in zip(given["i"], given["v"], strict=True):
        x[row] = join(x[row], value)
    return x


@pytest.mark.parametrize("mode", [*JOINING, "last"])
def test_a_worker_that_goes_in_order_needs_nothing(mode: str) -> None:
    graph = scattered(40, mode)
    made = resolve_conflicts(graph, DEVICE)
    assert made.ops == graph.ops
    assert verdict(made) == "in memory"


@pytest.mark.parametrize(
    ("points", "way", "modes"),
    [
        (40, "each point looks for the last", []),
        (200, "notes of the last point", ["maximum"]),
    ],
)
def test_the_last_point_wins_in_any_order(points: int, way: str, modes: list[str]) -> None:
    made = resolve_conflicts(scattered(points, "last"), ANY_ORDER)
    assert (verdict(made), kept(made)) == (way, modes)
    np.testing.assert_array_equal(run(made, points), in_a_loop(points, lambda _, v: v))


@pytest.mark.parametrize(("rows", "by_elements"), [(5, True), (800, True), (801, False)])
def test_elements_take_values_where_they_are_not_many_more_than_points(
    rows: int, by_elements: bool
) -> None:
    made = resolve_conflicts(scattered(200, "last", rows=rows), ANY_ORDER)
    end = made.ops[-1]
    assert isinstance(end, LoopNest)
    assert [int(a.extent) for a in end.axes] == [rows if by_elements else 200, 3]
    assert bool(end.stores[0].base) is not by_elements
    expected = in_a_loop(200, lambda _, v: v, rows)
    np.testing.assert_array_equal(run(made, 200, rows), expected)


def test_a_diagonal_is_stored_by_points() -> None:
    def body(builder: GraphBuilder, x: Tensor, i: Tensor, v: Tensor) -> Sequence[Tensor]:
        def place(at: tuple[Expr, ...]) -> Sequence[Expr]:
            return (builder.indirect(i.load(at[:1]), x.shape[0]), at[1], at[1])

        return [builder.update(x, v.shape, place, v.load, "last")]

    shapes = {"x": (5, 3, 3), "i": (200,), "v": (200, 3)}
    made = resolve_conflicts(make_graph(body, shapes, dtypes={"i": INT64}), ANY_ORDER)
    given = values(200) | {"x": np.zeros((5, 3, 3), np.float32)}
    verify_loops(made)
    (result,) = interpret_loops(made, given, lambda name: given[name], {})
    expected = np.zeros((5, 3, 3), np.float32)
    for row, value in zip(given["i"], given["v"], strict=True):
        expected[row, np.arange(3), np.arange(3)] = value
    np.testing.assert_array_equal(result, expected)


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


def test_notes_are_as_many_as_what_indices_tell_apart() -> None:
    made = resolve_conflicts(scattered(200, "last"), ANY_ORDER)
    (notes,) = [b for name, b in made.buffers.items() if name.endswith("_notes")]
    assert [int(n) for n in notes.shape] == [5]  # not for each column


def test_one_point_is_a_plain_store() -> None:
    made = resolve_conflicts(scattered(1, "last"), ANY_ORDER)
    assert kept(made) == []
    assert len(made.ops) == 1
    np.testing.assert_array_equal(run(made, 1), in_a_loop(1, lambda _, v: v))


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
