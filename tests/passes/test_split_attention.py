"""Attention in parts of its keys: when it is, and that results stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.dtypes import BOOL
from aot.ir.loops import LoopGraph, LoopNest, TemplateCall
from aot.ir.tensors import Dim
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.split_attention import split_attention
from aot.symbolic import dim
from tests.schedule.graphs import DEVICE, check_same, make_graph

SPLITS = replace(DEVICE, attention_parts=True, units=64)


def attention(builder: GraphBuilder, q: Tensor, k: Tensor, *mask: Tensor) -> Sequence[Tensor]:
    operands = {"q": q, "k": k, "v": k, **({"mask": mask[0]} if mask else {})}
    attrs = {"scale": 0.5, "causal": False}
    return [builder.template("attention", operands, q.shape, q.dtype, attrs)]


def causal(builder: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
    attrs = {"scale": 0.5, "causal": True}
    return [builder.template("attention", {"q": q, "k": k, "v": k}, q.shape, q.dtype, attrs)]


def parts(graph: LoopGraph) -> int:
    (call,) = [op for op in graph.ops if isinstance(op, TemplateCall)]
    return dict(call.attrs).get("parts", 1)


def test_the_parts_are_combined_to_the_same() -> None:
    shapes = {"q": (2, 4, 1, 8), "k": (2, 2, 600, 8), "m": (2, 4, 1, 600)}
    graph = make_graph(attention, shapes, dtypes={"m": BOOL})
    split = split_attention(graph, SPLITS)
    verify_loops(split)
    assert parts(split) == 5
    assert [type(op) for op in split.ops] == [TemplateCall, LoopNest, LoopNest]
    check_same(graph, split, tolerance=1e-4)


def test_parts_are_a_number_also_where_sizes_are_dynamic() -> None:
    keys = Dim("s0", 1, None, 600, (0, 1, 2, 0))
    graph = make_graph(attention, {"q": (1, 4, 1, 8), "k": (1, 2, dim("s0"), 8)}, {}, (keys,))
    split = split_attention(graph, SPLITS)
    assert parts(split) == 5
    for size in (1, 4, 600, 1000):
        check_same(graph, split, {"s0": size}, tolerance=1e-4)


@pytest.mark.parametrize(
    ("body", "q", "k"),
    [
        (attention, (1, 2, 1, 8), (1, 2, 500, 8)),
        (attention, (17, 1, 1, 8), (17, 1, 600, 8)),
        (attention, (1, 1, 600, 8), (1, 1, 600, 8)),
        (causal, (1, 1, 40, 8), (1, 1, 600, 8)),
    ],
    ids=("few keys", "many heads", "many queries", "few keys that are seen"),
)
def test_what_stays_whole(body, q: tuple[int, ...], k: tuple[int, ...]) -> None:
    graph = make_graph(body, {"q": q, "k": k})
    assert split_attention(graph, SPLITS) is graph


def test_devices_without_such_a_template_keep_it_whole() -> None:
    graph = make_graph(attention, {"q": (1, 2, 1, 8), "k": (1, 2, 600, 8)})
    assert split_attention(graph, replace(SPLITS, attention_parts=False)) is graph
