"""A model of transformer layers for `benchmarks.packaging`, whose middle layer can be another.

What is changed of the middle layer is its hidden width, its activation or its weights;
or a layer is added there, or the inputs are longer, or nothing is.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

WIDTH, HEADS = 256, 8


class Layer(nn.Module):
    """Attention, then two products with an activation between, both with a norm ahead."""

    def __init__(self, hidden: int, activation: nn.Module) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.inputs, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer of one batch of sequences."""
        b, s, _ = x.shape
        parts = self.inputs(self.norms[0](x)).chunk(3, -1)
        q, k, v = (p.view(b, s, HEADS, WIDTH // HEADS).transpose(1, 2) for p in parts)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(b, s, WIDTH))
        return x + self.down(self.activation(self.up(self.norms[1](x))))


def layers(count: int, changed: str) -> nn.Module:
    """The whole model, with random weights."""
    torch.manual_seed(0)
    made = [Layer(4 * WIDTH, nn.GELU()) for _ in range(count)]
    if changed in {"activation", "width", "weights", "added"}:
        hidden = 3 * WIDTH if changed == "width" else 4 * WIDTH
        other = Layer(hidden, nn.SiLU() if changed == "activation" else nn.GELU())
        made[count // 2 : count // 2 + (changed != "added")] = [other]
    return nn.Sequential(*made).eval()


def inputs(changed: str = "") -> tuple[torch.Tensor]:
    """Two sequences of 64, or of 72."""
    return (torch.randn(2, 72 if changed == "example" else 64, WIDTH),)
