"""Squared deviations from parts' own means: which nests are pairs, and that sums stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.loops import LoopGraph
from aot.ir.scalar import Node, binary, cast, const, index_value, reduce_
from aot.ir.tensors import Dim
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.deviations import find_pairs
from aot.schedule.split import split_reductions
from aot.symbolic import Expr, as_expr
from tests.schedule.graphs import S0, TILES, Size, check_same, interpret
from tests.schedule.steps import laid, text
from tests.settings import seeded

GPU = replace(TILES, local_buffers=False, crossed=None, units=8, large_bytes=1 << 16)


def spread(
    rows: Size, columns: int, *, power: str = "mul", about: str = "mean", dims: Sequence[Dim] = ()
) -> LoopGraph:
    """Sums of columns, and of their squared deviations from the mean."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        sizes = [as_expr(rows)]

        def mean(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            return binary("div", reduce_("sum", x.load((r[0], *at))), count(rows, x))

        means = builder.reduction([as_expr(columns)], sizes, [(x.dtype, mean)])[0]

        def squares(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            here = x.load((r[0], *at)) if about == "mean" else const(1.0, x.dtype)
            off = binary("sub", here, means.load(at))
            return reduce_("sum", binary(power, off, off))

        return [means, builder.reduction([as_expr(columns)], sizes, [(x.dtype, squares)])[0]]

    return laid(body, {"x": (rows, columns)}, dims=dims)


def count(size: Size, like: Tensor) -> Node:
    """A size as a number like the tensor's."""
    return cast(index_value(as_expr(size)), like.dtype)


def along(rows: int, columns: Size, dims: Sequence[Dim] = ()) -> LoopGraph:
    """Sums of rows, and of their squared deviations from the mean."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        sizes = [as_expr(columns)]

        def mean(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            return binary("div", reduce_("sum", x.load((*at, r[0]))), count(columns, x))

        means = builder.reduction([as_expr(rows)], sizes, [(x.dtype, mean)])[0]

        def squares(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            off = binary("sub", x.load((*at, r[0])), means.load(at))
            return reduce_("sum", binary("mul", off, off))

        return [means, builder.reduction([as_expr(rows)], sizes, [(x.dtype, squares)])[0]]

    return laid(body, {"x": (rows, columns)}, dims=dims)


def named(name: str, example: int) -> Dim:
    """A size that only a run knows."""
    return Dim(name, 0, 1 << 30, example, (0, 0, 0, 0), name)


@pytest.mark.parametrize(
    "columns", [65536, 64000], ids=["even parts", "a last one that ends early"]
)
def test_few_long_rows_are_read_once(columns: int) -> None:
    graph, held = along(2, columns), replace(GPU, held_points=1024)
    split = split_reductions(graph, held)
    check_same(graph, split, tolerance=1e-3)
    assert [op.name for op in split.ops] == ["n0_part", "n0", "n1_part", "n1"]
    parts = text(split.ops[2])
    assert "buf1_part0[" in parts and "buf1[" not in parts
    many = split_reductions(along(16, columns), held)
    assert all("squares" not in d.reason for d in many.decisions)


@pytest.mark.parametrize("length", [1, 300, 1024, 70000])
def test_rows_of_any_length_are_read_once(length: int) -> None:
    """Packaged with rows that give a quarter of the parts that fill the device, and no more."""
    graph = along(2, S0, [named("s0", 65536)])
    split = split_reductions(graph, replace(GPU, held_points=4096, units=256))
    assert [op.name for op in split.ops] == ["n0_part", "n0", "n1_part", "n1"]
    assert "buf1_part0[" in text(split.ops[2]) and "buf1[" not in text(split.ops[2])
    check_same(graph, split, {"s0": length}, tolerance=1e-3)


@pytest.mark.parametrize("height", [1, 127, 2000])
def test_columns_of_any_height_are_read_once(height: int) -> None:
    graph = spread(S0, 64, dims=[named("s0", 2000)])
    split = split_reductions(graph, replace(GPU, units=32))
    assert [op.name for op in split.ops] == ["n0_part", "n0", "n1_part", "n1"]
    assert "buf1_part0[" in text(split.ops[2]) and "buf1[" not in text(split.ops[2])
    check_same(graph, split, {"s0": height}, tolerance=1e-3)


@pytest.mark.parametrize("rows", [2048, 2000], ids=["even parts", "a last part that ends early"])
def test_both_sums_come_from_parts(rows: int) -> None:
    graph = spread(rows, 64)
    split = split_reductions(graph, GPU)
    check_same(graph, split, tolerance=1e-3)
    assert [op.name for op in split.ops] == ["n0_part", "n0", "n1_part", "n1"]
    assert [d.subject for d in split.decisions] == [("n0",), ("n1",)]
    parts = text(split.ops[2])
    assert "buf1_part0[" in parts and "buf1[" not in parts


def test_what_is_far_from_zero_keeps_its_digits() -> None:
    split = split_reductions(spread(2000, 64), GPU)
    x = np.random.default_rng(seeded()).standard_normal((2000, 64)) + 1000.0
    x = x.astype(np.float32)
    _, found = interpret(split, {"x": x}, {}, {})
    exact = ((x - x.mean(0, dtype=np.float64)) ** 2).sum(0)
    np.testing.assert_allclose(found, exact, rtol=1e-4)


@pytest.mark.parametrize(
    "graph",
    [spread(2048, 64, power="add"), spread(2048, 64, about="one")],
    ids=["no squares", "of something else"],
)
def test_other_sums_are_no_pair(graph: LoopGraph) -> None:
    assert find_pairs(graph) == {}


def test_many_columns_are_not_cut() -> None:
    graph = spread(256, 4096)
    assert find_pairs(graph).keys() == {"n0"}
    assert split_reductions(graph, GPU) is graph


def test_where_a_worker_loops_nothing_is_cut_for_it() -> None:
    graph = spread(2048, 64)
    split = split_reductions(graph, replace(GPU, local_buffers=True))
    assert all("own" not in d.reason and "squares" not in d.reason for d in split.decisions)
