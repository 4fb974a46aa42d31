"""Attention of all head sizes: causal, masked, with grouped heads, of many lengths."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.shapes.case import SHORT, Case, Numbers, Tensor
from tests.calls import Calls

HEADS = (32, 40, 48, 64, 64, 72, 80, 96, 128, 128, 160, 192, 256)


def attention(d: Numbers) -> Case:
    """Queries of a text's tokens, or of its last one."""
    dtype = d.dtype()
    head = d.whole(33, 127) if d.chance(0.15) else d.pick(*HEADS)
    groups, kv_heads = d.pick(1, 1, 2, 4, 8), d.pick(1, 2, 4, 8)
    keys = d.extent(16, d.scale.extent)
    kind = d.pick("", "", "causal", "causal", "mask", "bias")
    queries = keys if kind == "causal" or d.chance(0.6) else d.pick(1, 1, d.extent(1, keys))
    batch = d.pick(1, 1, 2, 4, 8)
    heads = kv_heads * groups

    def work(batch: int, queries: int, keys: int) -> float:
        return 4.0 * batch * heads * queries * keys * head

    same = queries == keys
    batch, queries, keys = d.fit((batch, queries, keys), work, d.work(dtype))
    queries = keys if same else queries
    # The comparison in float64 wants all scores at once.
    while batch * heads * max(queries * keys, keys * head) > d.scale.elements * 8:
        keys = keys // 2 | (keys & 1)
        queries = keys if same else queries
    turned = d.chance(0.5)

    def function(q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        if turned:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(
            q, k, v, *mask, is_causal=kind == "causal", enable_gqa=groups > 1
        )

    def operand(count: int, length: int) -> Tensor:
        return torch.randn(batch, *((length, count) if turned else (count, length)), head)

    def make() -> tuple[nn.Module, tuple[Tensor, ...]]:
        masks = {
            "mask": lambda: (torch.rand(queries, keys) < 0.8).index_fill(1, torch.tensor([0]), 1),
            "bias": lambda: torch.randn(batch, 1, queries, keys),
        }
        mask = (masks[kind](),) if kind in masks else ()
        inputs = (operand(heads, queries), operand(kv_heads, keys), operand(kv_heads, keys))
        return Calls(function), (*inputs, *mask)

    words = ["attention", SHORT[dtype], f"batch {batch} heads {heads}/{kv_heads}"]
    words += [f"queries {queries} keys {keys} head {head}", kind, "tokens first" * turned]
    text = " ".join(w for w in words if w)
    names = ("keys" if same else "queries", "keys", "keys")
    free = tuple(("batch", n, "", "") if turned else ("batch", "", n, "") for n in names)
    masks = {"mask": ((names[0], "keys"),), "bias": (("batch", "", names[0], "keys"),)}
    return Case(text, dtype, work(batch, queries, keys), make, free + masks.get(kind, ()))
