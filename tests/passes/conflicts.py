"""Graphs whose points meet in one element, and what a loop over the points gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from aot.ir.dtypes import INT64
from aot.ir.interpreter import interpret_loops
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
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
