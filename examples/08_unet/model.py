"""A U-Net with group norm and skip connections for images of 128 by 128."""

import torch
import torch.nn.functional as F
from torch import nn


def double(inputs: int, outputs: int) -> nn.Sequential:
    """Two convolutions, each with group norm and SiLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, 1, 1),
        nn.GroupNorm(8, outputs),
        nn.SiLU(),
        nn.Conv2d(outputs, outputs, 3, 1, 1),
        nn.GroupNorm(8, outputs),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """Two levels down, two levels up."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.down1, self.down2 = double(3, width), double(width, 2 * width)
        self.middle = double(2 * width, 4 * width)
        self.up2, self.up1 = double(6 * width, 2 * width), double(3 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        a = self.down1(image)
        b = self.down2(F.max_pool2d(a, 2))
        middle = F.interpolate(self.middle(F.max_pool2d(b, 2)), scale_factor=2.0, mode="nearest")
        y = F.interpolate(self.up2(torch.cat((middle, b), 1)), scale_factor=2.0, mode="nearest")
        return self.out(self.up1(torch.cat((y, a), 1)))


def model() -> nn.Module:
    torch.manual_seed(0)
    return UNet().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 3, 128, 128),)
