"""Attention: what it means and costs; when it is in parts of its keys, and that these agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from aot.ir.dtypes import BOOL
from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.ir.origin import NO_ORIGIN
from aot.ir.templates import Attention, AttentionSupport, KeyParts, TemplateCall
from aot.ir.tensors import Dim
from aot.ir.verify import verify_loops
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.split_templates import split_templates
from aot.symbolic import dim
from tests.ir.templates.views import view
from tests.schedule.graphs import DEVICE, attention, check_same, make_graph

PARTS = KeyParts(query_tile=16, least_keys=128, block=64, fewest=6, many_keys=512)
SPLITS = replace(DEVICE, templates=(AttentionSupport(Attention, parts=PARTS),), units=64)


def plain(builder: GraphBuilder, q: Tensor, k: Tensor, *mask: Tensor) -> Sequence[Tensor]:
    return [attention(q, k, k, *mask)]


def causal(builder: GraphBuilder, q: Tensor, k: Tensor) -> Sequence[Tensor]:
    return [attention(q, k, k, causal=True)]


def parts(graph: LoopGraph) -> int:
    (call,) = [op for op in graph.ops if isinstance(op, TemplateCall)]
    return dict(call.attributes).get("parts", 1)


@pytest.mark.parametrize("masked", ["", "float", "bool", "causal"])
def test_its_meaning_is_that_of_torch(masked: str) -> None:
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 3)
    mask = {"float": torch.randn(2, 4, 5, 5), "bool": torch.rand(2, 4, 5, 5) > 0.3}.get(masked)
    expected = F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, is_causal=masked == "causal", scale=0.3, enable_gqa=True
    )
    operands = {"q": q.numpy(), "k": k.numpy(), "v": v.numpy()}
    operands |= {} if mask is None else {"mask": mask.numpy()}
    views = (view(*x.shape) for x in (q, k, v))
    call = Attention("t", view(*expected.shape), NO_ORIGIN, *views, 0.3, masked == "causal")
    np.testing.assert_allclose(call.interpret(operands, expected.shape), expected, atol=1e-5)
    # More parts than keys: some of them are empty.
    for parts in (1, 2, 7):
        shape = (parts, 2, 4, 5, 3 + 2)
        sums = replace(call, parts=parts).interpret(operands, shape)
        assert sums.shape == shape
        top = sums[..., 3:4].max(axis=0)  # -inf where a row sees nothing
        factor = np.exp(sums[..., 3:4] - np.where(np.isinf(top), 0.0, top))
        total = (factor * sums[..., 4:]).sum(axis=0)
        combined = (factor * sums[..., :3]).sum(axis=0) / np.where(total == 0.0, 1.0, total)
        np.testing.assert_allclose(combined, expected, atol=1e-5)


def test_its_operations_are_those_of_both_products() -> None:
    q, k, v = view(1, 2, 10, 4), view(1, 2, 7, 4), view(1, 2, 7, 5)
    call = Attention("a", view(1, 2, 10, 5), NO_ORIGIN, q, k, v, 1.0, causal=False)
    assert int(call.flops()) == 2 * 2 * 10 * 7 * (4 + 5)


def test_the_parts_are_combined_to_the_same() -> None:
    shapes = {"q": (2, 4, 1, 8), "k": (2, 2, 600, 8), "m": (2, 4, 1, 600)}
    graph = make_graph(plain, shapes, dtypes={"m": BOOL})
    split = split_templates(graph, SPLITS)
    verify_loops(split)
    assert parts(split) == 5
    assert [type(op) for op in split.ops] == [Attention, LoopNest, LoopNest]
    check_same(graph, split, tolerance=1e-4)


def test_parts_are_a_number_also_where_sizes_are_dynamic() -> None:
    keys = Dim("s0", 1, None, 600, (0, 1, 2, 0))
    graph = make_graph(plain, {"q": (1, 4, 1, 8), "k": (1, 2, dim("s0"), 8)}, {}, (keys,))
    split = split_templates(graph, SPLITS)
    assert parts(split) == 5
    for size in (1, 4, 600, 1000):
        check_same(graph, split, {"s0": size}, tolerance=1e-4)


@pytest.mark.parametrize(
    ("body", "q", "k"),
    [
        (plain, (1, 2, 1, 8), (1, 2, 500, 8)),
        (plain, (17, 1, 1, 8), (17, 1, 600, 8)),
        (plain, (1, 1, 600, 8), (1, 1, 600, 8)),
        (causal, (1, 1, 40, 8), (1, 1, 600, 8)),
    ],
    ids=("few keys", "many heads", "many queries", "few keys that are seen"),
)
def test_what_stays_whole(body, q: tuple[int, ...], k: tuple[int, ...]) -> None:
    graph = make_graph(body, {"q": q, "k": k})
    assert split_templates(graph, SPLITS) is graph


def test_devices_without_such_a_template_keep_it_whole() -> None:
    graph = make_graph(plain, {"q": (1, 2, 1, 8), "k": (1, 2, 600, 8)})
    assert split_templates(graph, replace(DEVICE, units=64)) is graph
