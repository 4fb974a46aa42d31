"""Inlining: which producers end in their readers, which stay stored, and that values stay."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.nn import functional as F

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.scalar import Access, Node, binary, const, index_value, loads, unary
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.inline import inline_producers
from aot.symbolic import Expr, FloorDiv, Maximum, Modulo, as_expr
from tests.lowering.lowered import lowered
from tests.passes.parts import nests
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    binary_op,
    check_same,
    concatenate,
    make_graph,
    reduce_op,
    unary_op,
)


def test_single_use_chain_becomes_one_nest() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        for op in ("exp", "tanh", "sin", "abs"):
            x = unary_op(op, x)
        return [x]

    graph = make_graph(body, {"x": (S0, 5)}, dims=(BATCH,))
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == 1
    for size in (0, 1, 3):
        check_same(graph, inlined, {"s0": size})


@pytest.mark.parametrize(
    ("op", "stored"), [("exp", True), ("erf", True), ("neg", False), ("abs", False)]
)
def test_dear_functions_with_two_users_are_stored(op: str, stored: bool) -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op(op, x)
        return [unary_op("sin", y), reduce_op("sum", y, 0)]

    graph = make_graph(body, {"x": (64, 64)})
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == (3 if stored else 2)
    check_same(graph, inlined, tolerance=1e-4)


def test_reductions_are_never_repeated() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [binary_op("sub", x, reduce_op("sum", x, 1, keep=True))]

    inlined = inline_producers(make_graph(body, {"x": (8, 8)}), DEVICE)
    assert len(inlined.ops) == 2


def test_results_of_the_model_stay_stored() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op("neg", x)
        return [y, unary_op("exp", y)]

    graph = make_graph(body, {"x": (8,)})
    inlined = inline_producers(graph, DEVICE)
    assert len(inlined.ops) == 2
    check_same(graph, inlined)


def test_value_of_a_nest_with_more_results_is_not_repeated() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def dear(at):
            return unary("exp", x.load(at))

        first, second = builder.pointwise_many(
            x.shape, [(FLOAT32, dear), (FLOAT32, lambda at: unary("neg", dear(at)))]
        )
        return [second, unary_op("sin", first)]

    assert len(inline_producers(make_graph(body, {"x": (64,)}), DEVICE).ops) == 2


def test_concatenation_reads_its_pieces_under_guards() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [concatenate(unary_op("neg", x), unary_op("exp", y), 1)]

    graph = make_graph(body, {"x": (4, 3), "y": (4, 5)})
    inlined = inline_producers(graph, DEVICE)
    (nest,) = nests(inlined)
    assert all(isinstance(n.attr, Access) and n.attr.masked for n in loads(nest.roots))
    check_same(graph, inlined)


def test_gather_at_known_positions_needs_no_check() -> None:
    def body(builder: GraphBuilder, w: Tensor) -> Sequence[Tensor]:
        ids = builder.pointwise((as_expr(6),), INT64, lambda at: index_value(at[0] + 2))
        picked = [as_expr(6), w.shape[1]]
        return [
            builder.pointwise(
                picked,
                FLOAT32,
                lambda at: w.load((builder.indirect(ids.load(at[:1]), w.shape[0]), at[1])),
            )
        ]

    graph = make_graph(body, {"w": (10, 4)})
    inlined = inline_producers(graph, DEVICE)
    (nest,) = nests(inlined)
    (read,) = loads(nest.roots)
    assert not read.args
    check_same(graph, inlined)


def test_places_are_computed_once_whatever_the_guards_of_what_lies_there() -> None:
    """Two elements of a producer, read under two masks at places that a third tensor gives."""

    def body(builder: GraphBuilder, x: Tensor, ids: Tensor) -> Sequence[Tensor]:
        doubled = unary_op("neg", x)

        def value(at: tuple[Expr, ...]) -> Node:
            place = builder.indirect(ids.load(at), x.shape[0])
            masks = [binary("lt", ids.load(at), const(k, INT64)) for k in (3, 5)]
            low, high = (doubled.load((place, as_expr(k)), m) for k, m in enumerate(masks))
            return binary("add", low, high)

        return [builder.pointwise(ids.shape, FLOAT32, value)]

    graph = make_graph(body, {"x": (9, 2), "ids": (6,)}, dtypes={"ids": INT64})
    (nest,) = nests(inline_producers(graph, DEVICE))
    (read,) = (n for n in loads(nest.roots) if n.attr.buffer == "ids")
    assert not read.attr.masked


def _mirrored(builder: GraphBuilder, x: Tensor) -> Tensor:
    """Two more elements before and behind x, by reflection."""
    last = x.shape[0] - 1

    def point(at):
        k = Maximum(at[0] - 2, 2 - at[0])
        return x.load((last - Maximum(last - k, k - last),))

    return builder.pointwise((x.shape[0] + 4,), FLOAT32, point)


def test_bent_views_that_windows_read_are_stored() -> None:
    def windows(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        padded = _mirrored(builder, x)
        shape = (as_expr(20), as_expr(5))
        return [builder.pointwise(shape, FLOAT32, lambda at: padded.load((at[0] + at[1],)))]

    def once(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("neg", _mirrored(builder, x))]

    for body, count in ((windows, 2), (once, 1)):
        graph = make_graph(body, {"x": (20,)})
        inlined = inline_producers(graph, DEVICE)
        assert len(inlined.ops) == count
        check_same(graph, inlined)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_scores_of_relative_positions_are_read_where_they_lie(dynamic: bool) -> None:
    """Padded, viewed as one column more and sliced (Dai et al. 2019): a shift by the row's number.

    What a mask moves is no epilogue of the product, so nothing of it is stored.
    """

    def scores(q: torch.Tensor, k: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        t = q.shape[2]
        shifted = q @ (w * torch.arange(t - 1, -t, -1))
        b, h, t, n = shifted.shape
        shifted = F.pad(shifted, (1, 0)).view(b, h, n + 1, t)[:, :, 1:].view(b, h, t, n)
        return (q @ k + shifted[..., :t]).relu()

    n = torch.export.Dim("n", min=4, max=64)
    q, k, w = torch.randn(2, 3, 8, 4), torch.randn(2, 3, 4, 8), torch.randn(2, 3, 4, 1)
    dims = {"dynamic_shapes": (({2: n}, {3: n}, None),)} if dynamic else {}
    graph = inline_producers(lowered(scores, q, k, w, **dims), DEVICE)
    _, nest = nests(graph)  # the first are the places, an operand
    accesses = [node.attr for node in loads(nest.roots)]
    assert len(accesses) == 2
    for access in accesses:
        assert isinstance(access, Access) and not access.masked
        assert not any(e.has(FloorDiv, Modulo) for e in access.index)
