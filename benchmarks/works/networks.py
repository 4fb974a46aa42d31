"""Four networks whose time is in gathers, scatters and steps, as their users write them.

Plain torch, nothing of ours, nothing that a library would have to be installed for. All sizes are
arguments, so tests run the same modules small.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

Tensor = torch.Tensor


class GraphConvolution(nn.Module):
    """GCN: the neighbours' transformed features, each weighed by the degrees of both ends."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        h = self.linear(x)
        ones = torch.ones_like(source, dtype=x.dtype)
        degree = torch.ones_like(x[:, 0]).index_add(0, target, ones)
        norm = degree.rsqrt()
        messages = h[source] * (norm[source] * norm[target])[:, None]
        own = h * (norm * norm)[:, None]
        return own.index_add(0, target, messages) + self.bias


class GraphAttention(nn.Module):
    """GAT: the neighbours' features, weighed by a softmax over each node's incoming edges."""

    def __init__(self, inputs: int, outputs: int, heads: int) -> None:
        super().__init__()
        self.shape = (heads, outputs // heads)
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.to_source = nn.Parameter(torch.randn(self.shape) / 4)
        self.to_target = nn.Parameter(torch.randn(self.shape) / 4)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        h = self.linear(x).view(-1, *self.shape)
        scores = (h * self.to_source).sum(-1)[source] + (h * self.to_target).sum(-1)[target]
        scores = F.leaky_relu(scores, 0.2)
        none = torch.zeros_like(h[:, :, 0])
        ends = target[:, None].expand_as(scores)
        top = none.scatter_reduce(0, ends, scores, "amax", include_self=False)
        shares = (scores - top[target]).exp()
        total = none.index_add(0, target, shares)
        shares = shares / (total[target] + 1e-16)
        messages = h[source] * shares[:, :, None]
        return torch.zeros_like(h).index_add(0, target, messages).flatten(1) + self.bias


class GraphNetwork(nn.Module):
    """A graph convolution, then graph attention, then the classes of all nodes."""

    def __init__(self, features: int = 64, heads: int = 4, classes: int = 16) -> None:
        super().__init__()
        self.convolution = GraphConvolution(features, features)
        self.attention = GraphAttention(features, features, heads)
        self.head = nn.Linear(features, classes)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        x = F.relu(self.convolution(x, source, target))
        x = F.elu(self.attention(x, source, target))
        return self.head(x)


class Recommender(nn.Module):
    """DLRM: bags of embeddings and a dense vector, their products in pairs, a click's chance."""

    def __init__(
        self,
        tables: int = 26,
        rows: int = 100_000,
        width: int = 64,
        dense: int = 13,
        bottom: Sequence[int] = (512, 256),
        top: Sequence[int] = (1024, 1024, 512, 256),
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode="sum", include_last_offset=True)
            for _ in range(tables)
        )
        self.bottom = _layers(dense, *bottom, width)
        pairs = torch.tril_indices(tables + 1, tables + 1, offset=-1)
        self.register_buffer("left", pairs[0])
        self.register_buffer("right", pairs[1])
        self.top = _layers(width + pairs.shape[1], *top, 1)

    def forward(self, dense: Tensor, starts: Tensor, *indices: Tensor) -> Tensor:
        x = F.relu(self.bottom(dense))
        bags = [
            table(found, start)
            for table, found, start in zip(self.tables, indices, starts, strict=True)
        ]
        joined = torch.stack([x, *bags], 1)
        products = torch.bmm(joined, joined.transpose(1, 2))[:, self.left, self.right]
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))[:, 0]


def _layers(*widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[nn.Module] = []
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        parts += [nn.ReLU()] * (k > 0) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*parts)


class _Experts(nn.Module):
    """The router and the experts' weights, which both mixtures share.

    The router computes in its own type, which stays wide where the experts are bfloat16.
    """

    def __init__(self, hidden: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(hidden, experts, bias=False)
        self.gate = nn.Parameter(torch.randn(experts, hidden, inner) * hidden**-0.5)
        self.up = nn.Parameter(torch.randn(experts, hidden, inner) * hidden**-0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, hidden) * inner**-0.5)

    def route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The weights and the numbers of each token's experts."""
        scores = self.router(x.to(self.router.weight.dtype)).softmax(-1)
        weights, numbers = torch.topk(scores, self.chosen)
        return (weights / weights.sum(-1, keepdim=True)).to(x.dtype), numbers


class MixtureOfExperts(_Experts):
    """Each expert takes so many tokens; what is too many for it is dropped (Switch, GShard).

    Tokens are sorted by expert, written to the expert's rows, and gathered from there.
    """

    def __init__(
        self,
        hidden: int = 512,
        inner: int = 256,
        experts: int = 64,
        chosen: int = 8,
        capacity: float = 1.25,
    ) -> None:
        super().__init__(hidden, inner, experts, chosen)
        self.capacity = capacity

    def forward(self, x: Tensor) -> Tensor:
        tokens, hidden = x.shape
        room = int(tokens * self.chosen * self.capacity) // self.experts
        weights, numbers = self.route(x)
        flat = numbers.flatten()
        order = flat.argsort(stable=True)
        sorted_ = flat[order]
        counts = flat.new_zeros(self.experts)
        counts = counts.index_add(0, flat, torch.ones_like(flat))
        starts = counts.cumsum(0) - counts
        place = torch.arange(flat.shape[0], device=x.device) - starts[sorted_]
        dropped = self.experts * room
        row = torch.where(place < room, sorted_ * room + place, dropped)
        token = order // self.chosen
        rows = x.new_zeros(dropped + 1, hidden).index_copy(0, row, x[token])
        each = rows[:dropped].view(self.experts, room, hidden)
        inner = F.silu(torch.bmm(each, self.gate)) * torch.bmm(each, self.up)
        done = torch.bmm(inner, self.down).view(dropped, hidden)
        back = done[row.clamp(max=dropped - 1)]
        scale = torch.where(row < dropped, weights.flatten()[order], 0.0)
        return torch.zeros_like(x).index_add(0, token, back * scale[:, None])


class LoopOfExperts(_Experts):
    """Expert by expert, each for the tokens that chose it: their number is known in the run."""

    def __init__(
        self, hidden: int = 512, inner: int = 256, experts: int = 64, chosen: int = 8
    ) -> None:
        super().__init__(hidden, inner, experts, chosen)

    def forward(self, x: Tensor) -> Tensor:
        weights, numbers = self.route(x)
        result = torch.zeros_like(x)
        for expert in range(self.experts):
            token, slot = torch.where(numbers == expert)
            rows = x[token]
            inner = F.silu(rows @ self.gate[expert]) * (rows @ self.up[expert])
            done = (inner @ self.down[expert]) * weights[token, slot][:, None]
            result = result.index_add(0, token, done)
        return result


class Recurrent(nn.Module):
    """An LSTM over as many steps as there are, and a score of each."""

    def __init__(self, inputs: int = 64, width: int = 256, classes: int = 16) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        steps, (last, _) = self.lstm(x)
        return self.head(steps), last
