"""Families of parts of networks: graphs, experts, recommenders, recurrences, attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Family, Problem, Tensor, table

FEATURES = 16
EXPERTS = 16
CHOSEN = 2
HIDDEN = 64


def _gcn(n: int, d: Draw) -> Problem:
    """n edges, n / 8 nodes: gathers, transforms, scatters."""
    nodes = n // 8

    def layer(x: Tensor, w: Tensor, source: Tensor, target: Tensor) -> Tensor:
        degree = torch.zeros(nodes, device=x.device).index_add(
            0, target, torch.ones(n, device=x.device)
        )
        norm = (degree + 1).rsqrt()
        messages = (x @ w)[source] * (norm[source] * norm[target])[:, None]
        return F.relu(torch.zeros_like(x).index_add(0, target, messages))

    ends = (d.places(nodes, n), d.places(nodes, n))
    return layer, d.floats(nodes, FEATURES), d.floats(FEATURES, FEATURES), *ends


def _gat(n: int, d: Draw) -> Problem:
    """As `_gcn`, with a softmax over each node's edges."""
    nodes = n // 8

    def layer(x: Tensor, w: Tensor, a: Tensor, source: Tensor, target: Tensor) -> Tensor:
        h = x @ w
        score = F.leaky_relu(h[source] @ a[0] + h[target] @ a[1], 0.2)
        top = torch.full((nodes,), -9e9, device=x.device).scatter_reduce(0, target, score, "amax")
        share = (score - top[target]).exp()
        total = torch.zeros(nodes, device=x.device).scatter_add(0, target, share)
        weighed = h[source] * (share / total[target])[:, None]
        return torch.zeros_like(h).index_add(0, target, weighed)

    weights = (d.floats(FEATURES, FEATURES), d.floats(2, FEATURES))
    return layer, d.floats(nodes, FEATURES), *weights, d.places(nodes, n), d.places(nodes, n)


def _experts(n: int, d: Draw) -> Problem:
    """n tokens: each goes to CHOSEN of EXPERTS, sorted by expert, and comes back weighed."""

    def dispatch(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
        weight, expert = torch.topk((x @ gate).softmax(-1), CHOSEN)
        order = expert.reshape(-1).argsort(stable=True)
        token = order // CHOSEN
        rows = x[token] * w[expert.reshape(-1)[order]]
        rows = rows * weight.reshape(-1)[order][:, None]
        return torch.zeros_like(x).index_add(0, token, rows)

    return dispatch, d.floats(n, HIDDEN), d.floats(HIDDEN, EXPERTS), d.floats(EXPERTS, HIDDEN)


def _recommender(n: int, d: Draw) -> Problem:
    """n lookups in 4 tables by bags of 20, joined."""
    tables = [d.floats(n // 8, FEATURES) for _ in range(4)]
    count = max(n // 80, 1)
    starts = torch.arange(count, device=d.device) * 20

    def run(starts: Tensor, *rest: Tensor) -> Tensor:
        pairs = zip(rest[:4], rest[4:], strict=True)
        return torch.cat([F.embedding_bag(i, w, starts, mode="sum") for w, i in pairs], 1)

    return run, starts, *tables, *(d.places(n // 8, count * 20) for _ in range(4))


def _recurrent(name: str, gates: int) -> Callable[[int, Draw], Problem]:
    """One layer over n steps, batch 4."""
    function = getattr(torch, name)

    def problem(n: int, d: Draw) -> Problem:
        shapes = ((gates * HIDDEN, FEATURES), (gates * HIDDEN, HIDDEN), (gates * HIDDEN,))
        weights = [d.floats(*s, low=-0.1, high=0.1) for s in (*shapes, shapes[-1])]

        def run(x: Tensor, h: Tensor, *weights: Tensor) -> Any:
            state = (h, h) if name == "lstm" else h
            return function(x, state, list(weights), True, 1, 0.0, False, False, False)

        return run, d.floats(n, 4, FEATURES), d.floats(1, 4, HIDDEN), *weights

    return problem


def _attention(n: int, d: Draw) -> Problem:
    return F.scaled_dot_product_attention, *(d.floats(1, 2, n, 32) for _ in range(3))


GATHERS = {
    "graph convolution, n edges": _gcn,
    "graph attention, n edges": _gat,
    "recommender, 4 tables": _recommender,
}
EXPERT_TOKENS = {"mixture of experts, n tokens": _experts}
RECURRENT = {
    "LSTM, n steps": _recurrent("lstm", 4),
    "GRU, n steps": _recurrent("gru", 3),
    "RNN, n steps": _recurrent("rnn_tanh", 1),
}
SQUARE = {
    "mm": lambda n, d: (torch.mm, d.floats(n, n), d.floats(n, n)),
    "bmm": lambda n, d: (torch.bmm, d.floats(2, n, n), d.floats(2, n, n)),
}

FAMILIES: tuple[Family, ...] = (
    *table(GATHERS, top=2**20),
    *table(EXPERT_TOKENS, top=2**16, least=2**8),
    *table(RECURRENT, top=128, least=2, work=1.0, device_times=1),
    *table(SQUARE, top=2**10, least=2**8, work=3.0, device_times=8),
    *table({"attention, n keys": _attention}, top=2**11, least=2**8, work=2.0, device_times=8),
)
