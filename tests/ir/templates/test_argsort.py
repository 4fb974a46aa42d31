"""Rows that are sorted in runs and merged: the same order, for every size, type and direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT64, UINT8, DType
from aot.ir.hints import Hints
from aot.ir.loops import LoopGraph
from aot.ir.nests import Buffer
from aot.ir.templates.argsort import Argsort, ArgsortSupport
from aot.ir.templates.base import Parts
from aot.lowering.builder import GraphBuilder, Tensor
from aot.lowering.rowwise import at_rank, order_along
from aot.symbolic import FloorDiv, as_expr
from tests.schedule.graphs import BATCH, DEVICE, S0, Size, interpret, make_graph, run_passes
from tests.settings import seeded


def refuses(call: Argsort, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Rows of more than two runs."""
    return "long" if hints.value(call.x.axes[1].extent) > 16 else ""


RUNS = replace(DEVICE, templates=(*DEVICE.templates, ArgsortSupport(Argsort, refuses, run=8)))


def graph_of(
    shape: Sequence[Size], dtype: DType, descending: bool = False, kept: Size | None = None
) -> LoopGraph:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        size = x.shape[1] if kept is None else as_expr(kept)
        return [order_along(x, 1, size, descending)]

    dims = [replace(BATCH, hint=60)] if S0 in shape else []
    return make_graph(body, {"x": shape}, dims=dims, dtypes={"x": dtype})


def runs_of(graph: LoopGraph) -> list[int]:
    calls = [op for op in graph.ops if isinstance(op, Argsort)]
    return [int(c.x.axes[1].extent) for c in calls]


def sample(dtype: DType, rows: int, columns: int) -> np.ndarray:
    x = np.random.default_rng(seeded(columns)).integers(0, 9, (rows, columns))
    if dtype == BOOL:
        return x > 4
    made = x.astype(dtype.numpy)
    if dtype.is_float and columns > 20:
        made[0, ::7] = np.nan
        made[1, 3:9] = [np.inf, -np.inf, 0.0, -0.0, 0.0, -np.inf]
    return made


def check(graph: LoopGraph, x: np.ndarray, sizes: dict[str, int] | None = None) -> None:
    (expected,) = interpret(graph, {"x": x}, {}, sizes)
    for machine in (RUNS, DEVICE):  # runs of the template, and of single elements
        (order,) = interpret(run_passes(graph, machine), {"x": x}, {}, sizes)
        assert np.array_equal(order, expected)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT64, UINT8, BOOL])
@pytest.mark.parametrize("columns", [17, 32, 100])
def test_the_order_is_that_of_the_template(dtype: DType, columns: int, descending: bool) -> None:
    graph = graph_of((3, columns), dtype, descending)
    assert runs_of(run_passes(graph, RUNS)) == [8]
    check(graph, sample(dtype, 3, columns))


def test_rows_of_any_size() -> None:
    graph = graph_of((2, S0), FLOAT32)
    assert runs_of(run_passes(graph, RUNS)) == [8]
    for size in (0, 1, 8, 9, 33, 64):
        check(graph, sample(FLOAT32, 2, size), {"s0": size})


def test_rows_that_the_template_takes_are_left_to_it() -> None:
    graph = graph_of((3, 16), FLOAT32)
    assert runs_of(run_passes(graph, RUNS)) == [16]
    assert runs_of(run_passes(graph, DEVICE)) == []


@pytest.mark.parametrize("dtype", [FLOAT32, INT64, UINT8])
@pytest.mark.parametrize("columns", [S0, as_expr(33)])
def test_one_rank_is_what_the_whole_order_has_there(dtype: DType, columns: Size) -> None:
    middle = FloorDiv(as_expr(columns) - 1, as_expr(2))
    dims = [replace(BATCH, hint=60)] if columns == S0 else []
    graph = make_graph(
        lambda _, x: [at_rank(x, 1, middle)], {"x": (2, columns)}, dims=dims, dtypes={"x": dtype}
    )
    sizes = {"s0": 33} if columns == S0 else None
    x = sample(dtype, 2, 33)
    (found,) = interpret(graph, {"x": x}, {}, sizes)
    assert np.array_equal(found, np.argsort(x, axis=-1, kind="stable")[:, 16:17])
    check(graph, x, sizes)
    skips = replace(DEVICE, templates=(*DEVICE.templates, ArgsortSupport(Argsort, skips=True)))
    (call,) = (op for op in run_passes(graph, skips).ops if isinstance(op, Argsort))
    assert call.skipped == middle


PARTS = replace(
    DEVICE,
    templates=(*DEVICE.templates, ArgsortSupport(Argsort, run=8, parts=Parts(32, 16, 2))),
    units=4,
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT64, UINT8, BOOL])
@pytest.mark.parametrize("columns", [64, 100, 1000])
def test_the_first_few_are_those_of_the_parts(dtype: DType, columns: int, descending: bool) -> None:
    graph = graph_of((2, columns), dtype, descending, kept=3)
    made = run_passes(graph, PARTS)
    calls = [op for op in made.ops if isinstance(op, Argsort)]
    rows = [int(c.x.axes[0].extent) for c in calls]
    assert rows[0] > rows[-1] == 2 and len(calls) == len(rows) >= 2
    assert [d.verdict for d in made.decisions if d.stage == "split"] == [
        f"the first 3 of parts of {calls[0].x.axes[1].extent} elements"
    ]
    x = sample(dtype, 2, columns)
    (expected,), (order,) = (interpret(g, {"x": x}, {}) for g in (graph, made))
    assert np.array_equal(order, expected)


@pytest.mark.parametrize(("shape", "kept"), [((2, 32), 3), ((3, 64), 3), ((2, 64), 5)], ids=str)
def test_rows_stay_whole(shape: tuple[int, int], kept: int) -> None:
    """Short ones, many, and those of which more are wanted than parts could leave out."""
    calls = runs_of(run_passes(graph_of(shape, FLOAT32, kept=kept), PARTS))
    assert calls == [shape[1]]
