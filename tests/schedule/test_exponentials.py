"""Greatest elements and sums of exponentials of parts: which nests are pairs, and the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from aot.ir.dtypes import FLOAT32
from aot.ir.loops import LoopGraph
from aot.ir.scalar import Node, binary, const, reduce_, unary, where
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.exponentials import find_tops
from aot.schedule.fusion import fuse
from aot.schedule.split import split_reductions
from aot.symbolic import Expr
from tests.schedule.graphs import TILES, check_same, interpret, reduce_op
from tests.schedule.steps import laid, text

GPU = replace(TILES, local_buffers=False, crossed=None, units=8)
LENGTH = 1 << 16


def rows(count: int = 2, length: int = LENGTH) -> LoopGraph:
    """Softmax, whose exponentials are stored."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        top = reduce_op("max", x, 1)

        def exponential(at: Sequence[Expr]) -> Node:
            return unary("exp", binary("sub", x.load(at), top.load(at[:1])))

        exps = builder.pointwise(x.shape, x.dtype, exponential)
        total = reduce_op("sum", exps, 1)

        def share(at: Sequence[Expr]) -> Node:
            return binary("div", exps.load(at), total.load(at[:1]))

        return [builder.pointwise(x.shape, x.dtype, share)]

    return laid(body, {"x": (count, length)})


def log_total(
    kind: str = "max", function: str = "exp", guard: bool = True, length: int = LENGTH
) -> LoopGraph:
    """The logarithm of the sum of exponentials, about a number that is never infinite."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        shape = x.shape[:1]

        def top(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            found = reduce_(kind, x.load((*at, r[0])))
            wild = binary("eq", unary("abs", found), const(math.inf, FLOAT32))
            return where(wild, const(0.0, FLOAT32), found) if guard else found

        tops = builder.reduction(shape, x.shape[1:], [(x.dtype, top)])[0]

        def total(at: Sequence[Expr], r: Sequence[Expr]) -> Node:
            off = binary("sub", x.load((*at, r[0])), tops.load(at))
            summed = unary("log", reduce_("sum", unary(function, off)))
            return binary("add", summed, tops.load(at))

        return [builder.reduction(shape, x.shape[1:], [(x.dtype, total)])[0]]

    return laid(body, {"x": (2, length)})


@pytest.mark.parametrize("length", [LENGTH, LENGTH + 3], ids=["even parts", "a shorter last one"])
@pytest.mark.parametrize("make", [rows, log_total], ids=["softmax", "logarithm of the sum"])
def test_parts_are_read_once(make: Callable[..., LoopGraph], length: int) -> None:
    graph = make(length=length)
    split = split_reductions(graph, GPU)
    check_same(graph, split, tolerance=1e-5)
    (parts,) = [op for op in split.ops if "sum" in text(op) and op.name.endswith("_part")]
    assert "exp(" in text(parts) and "buf1_part0[" in text(parts)
    assert "read once" in split.decisions[1].reason


def test_exponentials_are_not_stored() -> None:
    """Three kernels: of the parts, of what these gave, and of the results."""
    kernels = fuse(rows(), GPU).kernels
    assert [k.writes for k in kernels][::2] == [("buf1_part0", "buf3_part0"), ("buf4",)]
    assert kernels[2].reads == ("x", "buf1", "buf3")


SPECIAL = {
    "none is seen": lambda x: np.full_like(x, -math.inf),
    "one part is seen": lambda x: np.where(np.arange(x.size) < 5, x, -math.inf),
    "one is infinite": lambda x: np.where(np.arange(x.size) == 7, math.inf, x),
    "one is no number": lambda x: np.where(np.arange(x.size) == 7, math.nan, x),
    "far from zero": lambda x: x + 1000.0,
    "far apart": lambda x: x * 1000.0,
}


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("make", [rows, log_total], ids=["softmax", "logarithm of the sum"])
def test_rows_without_a_greatest_number(make: Callable[..., LoopGraph], case: str) -> None:
    graph = make()
    x = np.linspace(-3, 3, LENGTH, dtype=np.float32)
    arrays = {"x": np.stack([x, SPECIAL[case](x).astype(np.float32)])}
    with np.errstate(all="ignore"):
        (expected,) = interpret(graph, arrays, {}, {})
        (found,) = interpret(split_reductions(graph, GPU), arrays, {}, {})
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(
    "graph",
    [log_total(kind="min"), log_total(function="exp2")],
    ids=["of the least", "of another base"],
)
def test_other_sums_are_no_pair(graph: LoopGraph) -> None:
    assert find_tops(graph) == {}


def test_where_a_worker_loops_exponentials_stay() -> None:
    """On a CPU the second exponential costs more than a number that a cache holds."""
    split = split_reductions(rows(), replace(GPU, local_buffers=True))
    assert not any("read once" in d.reason for d in split.decisions)


def test_many_rows_are_not_cut() -> None:
    graph = rows(64, 4096)
    assert find_tops(graph).keys() == {"n0"}
    assert split_reductions(graph, GPU) is graph
