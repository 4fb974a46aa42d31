"""The last of several points that meet in one element: found by notes or by a search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aot.ir.dtypes import INT64
from aot.ir.interpreter import interpret_loops
from aot.ir.nests import LoopNest
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.resolve_conflicts import resolve_conflicts
from aot.symbolic import Expr
from tests.passes.conflicts import ANY_ORDER, in_a_loop, kept, run, scattered, values, verdict
from tests.schedule.graphs import make_graph


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


def test_notes_are_as_many_as_what_indices_tell_apart() -> None:
    made = resolve_conflicts(scattered(200, "last"), ANY_ORDER)
    (notes,) = [b for name, b in made.buffers.items() if name.endswith("_notes")]
    assert [int(n) for n in notes.shape] == [5]  # not for each column


def test_one_point_is_a_plain_store() -> None:
    made = resolve_conflicts(scattered(1, "last"), ANY_ORDER)
    assert kept(made) == []
    assert len(made.ops) == 1
    np.testing.assert_array_equal(run(made, 1), in_a_loop(1, lambda _, v: v))
