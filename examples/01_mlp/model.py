"""A multilayer perceptron with a dynamic batch: the smallest complete model file."""

import torch
from torch import nn
from torch.export import Dim


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.GELU(),
        nn.Linear(256, 10),
        nn.Softmax(dim=-1),
    ).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(8, 64),)


def extra_inputs() -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(2)
    return [(torch.randn(n, 64),) for n in (2, 33)]


dynamic_shapes = ({0: Dim("batch", min=1, max=4096)},)
