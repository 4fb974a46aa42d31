"""Reductions in two steps: which are split, into what nests, and that sums stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import INT64
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import LoopNest
from aot.ir.scalar import reduce_, unary
from aot.ir.tensors import Dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.split import split_reductions
from aot.symbolic import as_expr, dim
from tests.schedule.graphs import DEVICE, TILES, check_same, interpret, reduce_op
from tests.schedule.steps import laid, text
from tests.settings import seeded


def _split(graph: LoopGraph, machine: Machine = DEVICE) -> tuple[list[str], list[str]]:
    """The nests, a line each, and why; values are checked."""
    split = split_reductions(graph, machine)
    check_same(graph, split, tolerance=1e-3)
    assert [d.verdict for d in split.decisions] == ["two steps"] * len(split.decisions)
    return text(*split.ops).splitlines(), [d.reason for d in split.decisions]


def test_a_long_sum_is_one_of_many_short_ones() -> None:
    graph = laid(lambda _, x: [reduce_op("sum", x, 0)], {"x": (1 << 16,)})
    nests, reasons = _split(graph)
    assert nests == [
        "n0_part = nest(r0_part<64 | r0_in<1024) "
        "{ buf1_part0[r0_part] = sum(x[1024*r0_part + r0_in]) }",
        "n0 = nest( | r0_part<64) { buf1[] = sum(buf1_part0[r0_part]) }",
    ]
    assert reasons == ["1 parallel units are few"]


def test_a_long_product_is_one_of_few() -> None:
    """Each part of it takes as many steps to leave the range of normal numbers."""
    nests, _ = _split(laid(lambda _, x: [reduce_op("prod", x, 0)], {"x": (1 << 16,)}))
    assert nests[0].startswith(f"n0_part = nest(r0_part<{DEVICE.units} | r0_in<")


def test_what_follows_the_reduction_is_done_once() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        value = [(x.dtype, lambda at, r: unary("exp", reduce_("max", x.load(r))))]
        return [builder.reduction([], x.shape, value)[0]]

    nests, _ = _split(laid(body, {"x": (1 << 17,)}))
    assert [line.partition(" = ")[0] for line in nests] == ["n0_part", "n0"]
    assert "= max(x[" in nests[0] and "= exp(max(buf1_part0[" in nests[1]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1 << 15,), 0), ((256, 512), 1), ((4096, 2048), 0)],
    ids=("little work", "many rows", "many columns"),
)
def test_reductions_of_enough_units_stay(shape: tuple[int, ...], axis: int) -> None:
    graph = laid(lambda _, x: [reduce_op("sum", x, axis)], {"x": shape})
    assert split_reductions(graph, DEVICE) is graph


@pytest.mark.parametrize(("columns", "parts"), [(4096, 8), (16384, 8), (40000, 0)])
def test_strips_of_columns_count_less_than_other_units(columns: int, parts: int) -> None:
    """Each reads a line of each row: there want to be more of them."""
    graph = laid(lambda _, x: [reduce_op("sum", x, 0)], {"x": (2048, columns)})
    assert split_reductions(graph, replace(TILES, units=16)) is graph
    split = split_reductions(graph, replace(TILES, units=16, column_units=512))
    first = split.ops[0]
    assert isinstance(first, LoopNest)
    assert [int(a.extent) for a in first.axes] == ([parts] if parts else []) + [columns]
    check_same(graph, split, tolerance=1e-3)


def _extreme(kind: str, shape: tuple[int, ...]) -> LoopGraph:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        found = [
            (x.dtype, lambda at, r: reduce_(kind, x.load((*at, *r)))),
            (INT64, lambda at, r: reduce_("arg" + kind, x.load((*at, *r)))),
        ]
        return builder.reduction(x.shape[:-1], x.shape[-1:], found)

    return laid(body, {"x": shape})


def test_positions_of_a_greatest_value_stay_where_a_worker_loops() -> None:
    graph = _extreme("max", (1 << 17,))
    assert split_reductions(graph, DEVICE) is graph


def _loops(graph: LoopGraph) -> list[tuple[list[int], list[int], int]]:
    """Of each nest of the split graph, whose values are checked: axes, reduction, stores."""
    split = split_reductions(graph, TILES)
    check_same(graph, split, tolerance=1e-3)
    nests = [op for op in split.ops if isinstance(op, LoopNest)]
    return [
        ([int(a.extent) for a in n.axes], [int(a.extent) for a in n.reduction], len(n.stores))
        for n in nests
    ]


@pytest.mark.parametrize("kind", ["max", "min"])
def test_positions_are_those_of_the_first_best_part(kind: str) -> None:
    graph = _extreme(kind, (2, 1 << 17))
    assert _loops(graph) == [([128, 2], [1024], 2), ([2], [128], 1), ([2], [128], 2)]


@pytest.mark.parametrize("kind", ["sum", "prod", "min", "max"])
def test_the_last_part_of_a_tile_need_not_be_full(kind: str) -> None:
    graph = laid(lambda _, x: [reduce_op(kind, x, 0)], {"x": (100003,)})
    assert split_reductions(graph, DEVICE) is graph
    assert _loops(graph) == [([97], [1040], 1), ([], [97], 1)]


def test_columns_of_a_tile_are_cut_into_shorter_parts() -> None:
    """A work unit sums up many of them at once."""
    graph = laid(lambda _, x: [reduce_op("sum", x, 0)], {"x": (1100, 96)})
    assert _loops(graph) == [([4, 96], [288], 1), ([96], [4], 1)]


@pytest.mark.parametrize("kind", ["max", "min"])
def test_positions_in_parts_with_a_rest(kind: str) -> None:
    graph = _extreme(kind, (100003,))
    assert _loops(graph) == [([97], [1040], 2), ([], [97], 1), ([], [97], 2)]


def test_positions_of_equals_are_the_first_ones() -> None:
    graph = _extreme("max", (1 << 17,))
    split = split_reductions(graph, TILES)
    x = np.zeros(1 << 17, np.float32)
    for places in ((), (5, 70000), (99999, 131071)):
        x[list(places)] += 1
        _, found = interpret(split, {"x": x}, {}, {})
        assert found == x.argmax()
    x[[3000, 90000]] = np.nan
    assert interpret(split, {"x": x}, {}, {})[1] == 3000


def test_parts_of_an_unknown_length_are_as_many_at_any_size() -> None:
    rows = Dim("s0", 0, 1 << 20, 1 << 18, (0, 0, 0, 0), "rows")
    graph = laid(lambda _, x: [reduce_op("sum", x, 0)], {"x": (dim("s0"),)}, {}, (rows,))
    split = split_reductions(graph, TILES)
    first, last = split.ops
    assert isinstance(first, LoopNest) and isinstance(last, LoopNest)
    assert [int(a.extent) for a in (*first.axes, *last.reduction)] == [256, 256]
    for size in (0, 3, 100003):
        x = np.random.default_rng(seeded()).standard_normal(size).astype(np.float32)
        (found,) = interpret(split, {"x": x}, {}, {"s0": size})
        np.testing.assert_allclose(found, x.sum(dtype=np.float64), rtol=1e-3, atol=1e-2)


def test_few_neighbours_of_one_result_are_reduced_last() -> None:
    """Four channels of a group are too few for a vector; all channels together are enough."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def value(at, r):
            return reduce_("sum", x.load((r[0], at[0] * 4 + r[1])))

        sizes = [as_expr(4096), as_expr(4)]
        return [builder.reduction([as_expr(16)], sizes, [(x.dtype, value)])[0]]

    nests, reasons = _split(laid(body, {"x": (4096, 64)}))
    assert reasons == ["only 4 neighbouring elements belong to one result"]
    assert nests[0].startswith("n0_part = nest(")
    assert "i0_r1<64 | " in nests[0]
    assert nests[1].endswith("{ buf1[i0] = sum(buf1_part0[r0_part, r1 + 4*i0]) }")


@pytest.mark.parametrize(
    ("machine", "rows", "reason"),
    [
        (TILES, 16, "another nest reduces x along rows: one tile serves both"),
        (DEVICE, 32, "another nest reduces x along rows: both can read blocks of rows"),
    ],
    ids=("tiles", "vectors"),
)
def test_columns_of_what_rows_are_reduced_of_too(machine: Machine, rows: int, reason: str) -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", x, 0), reduce_op("sum", x, 1)]

    graph = laid(body, {"x": (1024, 2048)})
    nests, reasons = _split(graph, machine)
    assert reasons == [reason]
    parts = 1024 // rows
    assert nests == [
        f"n0_part = nest(r0_part<{parts}, i0<2048 | r0_in<{rows}) "
        f"{{ buf1_part0[r0_part, i0] = sum(x[{rows}*r0_part + r0_in, i0]) }}",
        f"n0 = nest(i0<2048 | r0_part<{parts}) {{ buf1[i0] = sum(buf1_part0[r0_part, i0]) }}",
        "n1 = nest(i0<1024 | r0<2048) { buf2[i0] = sum(x[i0, r0]) }",
    ]
