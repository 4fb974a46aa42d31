"""Models that are large in one way each, for `benchmarks.scale.run`.

Weights of two gigabytes, a hundred layers, a thousand small operators, three hundred inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn import functional

from benchmarks.packaging import layers

Case = tuple[nn.Module, tuple[torch.Tensor, ...]]
"""A model and inputs of it."""


class DecoderLayer(nn.Module):
    """Attention with a causal mask, then a gated product, both with a norm ahead."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.parts = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(4)])
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer of a batch of sequences."""
        b, s, d = x.shape
        y = self.norms[0](x)
        q, k, v = (
            part(y).view(b, s, self.heads, d // self.heads).transpose(1, 2)
            for part in self.parts[:3]
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.parts[3](mixed.transpose(1, 2).reshape(b, s, d))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """So many layers between the vectors of tokens and the scores of the next ones."""

    def __init__(self, count: int, width: int, hidden: int, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        made = [DecoderLayer(width, hidden, heads=width // 128) for _ in range(count)]
        self.layers, self.norm = nn.Sequential(*made), nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of every word after every token."""
        scores: torch.Tensor = self.head(self.norm(self.layers(self.words(tokens))))
        return scores


class Small(nn.Module):
    """So many operators on rows of 24, of which few can share a kernel with the next."""

    def __init__(self, count: int) -> None:
        super().__init__()
        made = [nn.Linear(24, 24, bias=False) for _ in range(count // 4)]
        self.products = nn.ModuleList(made)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Product, softmax, a sum along rows and what is left of it, again and again."""
        for product in self.products:
            x = product(x).softmax(-1).cumsum(-1)
            x = x - x.mean(0, keepdim=True)
        return x


class Features(nn.Module):
    """A recommender: each input is a feature with a layer of its own, all meet in two layers."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.own = nn.ModuleList([nn.Linear(4 + k % 5, width) for k in range(count)])
        self.mixed, self.score = nn.Linear(count * width, 64), nn.Linear(64, 1)

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        """A score of each row."""
        parts = [own(x).relu() for own, x in zip(self.own, features, strict=True)]
        score: torch.Tensor = self.score(self.mixed(torch.cat(parts, -1)).relu())
        return score


def weights() -> Case:
    """1.0 billion bfloat16 weights: 2.1 GB."""
    with torch.device("meta"):
        model = Decoder(16, width=2048, hidden=7168, words=32000)
    model = model.to(torch.bfloat16).to_empty(device="cpu")
    with torch.no_grad():
        for each in model.parameters():
            # Weights of the order that training leaves, so that sums stay within the type.
            each.normal_(std=0.02) if each.dim() > 1 else each.fill_(1)
    return model, (torch.randint(0, 32000, (1, 8)),)


def deep() -> Case:
    """A hundred transformer layers of width 256."""
    return layers.layers(100, ""), (torch.randn(1, 8, layers.WIDTH),)


def small() -> Case:
    """A thousand operators on 8 rows of 24."""
    return Small(1000), (torch.randn(8, 24),)


def many_inputs() -> Case:
    """Three hundred features of 4 to 8 numbers."""
    return Features(300, 8), tuple(torch.randn(16, 4 + k % 5) for k in range(300))


CASES: Mapping[str, Callable[[], Case]] = {
    "weights of 2 GB": weights,
    "100 layers": deep,
    "1,000 operators": small,
    "300 inputs": many_inputs,
}


def make(name: str) -> Case:
    """The model of that name, with the same weights and inputs each time."""
    torch.manual_seed(0)
    model, inputs = CASES[name]()
    return model.eval(), inputs
