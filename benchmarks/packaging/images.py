"""A convolutional network for `benchmarks.packaging`, no two of whose stages are alike.

What is changed of a block in the middle is its width, its activation or its weights; or a block is
added, or the image is larger, or nothing is.
"""

from __future__ import annotations

import torch
from torch import nn

WIDTHS = (32, 48, 64, 96, 128, 160, 192, 256)
"""Channels after each stage, half of which halve the image."""


class Block(nn.Module):
    """Two convolutions with an activation between, beside what goes in where that fits."""

    def __init__(self, inputs: int, inner: int, outputs: int, step: int, act: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, inner, 3, step, 1, bias=False)
        self.second = nn.Conv2d(inner, outputs, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(inner), nn.BatchNorm2d(outputs)])
        self.skip = nn.Conv2d(inputs, outputs, 1, step, bias=False)
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block of a batch of images."""
        inner = self.act(self.norms[0](self.first(x)))
        return self.act(self.norms[1](self.second(inner)) + self.skip(x))


def images(changed: str) -> nn.Module:
    """The whole model, with random weights."""
    torch.manual_seed(0)
    blocks = []
    for k, (inputs, outputs) in enumerate(zip((3, *WIDTHS), WIDTHS, strict=False)):
        middle = k == len(WIDTHS) // 2
        inner = outputs + (16 if middle and changed == "width" else 0)
        act = nn.SiLU() if middle and changed == "activation" else nn.ReLU()
        blocks.append(Block(inputs, inner, outputs, 1 + k % 2, act))
        if middle and changed == "weights":
            blocks[-1] = Block(inputs, inner, outputs, 1 + k % 2, act)
    if changed == "added":
        blocks.append(Block(WIDTHS[-1], WIDTHS[-1], WIDTHS[-1], 1, nn.ReLU()))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], 100))
    return nn.Sequential(*blocks, head).eval()


def inputs(changed: str = "") -> tuple[torch.Tensor]:
    """One image of 96 by 96 pixels, or of 112 by 112."""
    side = 112 if changed == "example" else 96
    return (torch.randn(1, 3, side, side),)
