"""Two layers of LSTM over 64 steps, then a classifier on every step."""

import torch
from torch import nn


class Tagger(nn.Module):
    """Class scores of every step, and the final state."""

    def __init__(self, inputs: int = 256, width: int = 256, classes: int = 20) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        steps, state = self.lstm(x)
        return self.head(steps), state


def model() -> nn.Module:
    torch.manual_seed(0)
    return Tagger().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 64, 256),)
