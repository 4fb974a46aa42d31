"""ResNet-50 for images of 224 by 224, written out, with random weights."""

import torch
import torch.nn.functional as F
from torch import nn


class ConvNorm(nn.Sequential):
    """Convolution without bias, then batch norm."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
        )


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = ConvNorm(inputs, width, 1)
        self.spatial = ConvNorm(width, width, 3, stride)
        self.expand = ConvNorm(width, outputs, 1)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.spatial(F.relu(self.reduce(x))))
        return F.relu(self.expand(y) + self.shortcut(x))


class ResNet50(nn.Module):
    """Stem, four stages of bottlenecks, average pool, classifier."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.stem = ConvNorm(3, 64, 7, 2)
        blocks, inputs = [], 64
        for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for k in range(depth):
                blocks.append(Bottleneck(inputs, width, stride if k == 0 else 1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.stem(image)), 3, 2, 1)
        x = F.adaptive_avg_pool2d(self.blocks(x), 1).flatten(1)
        return self.classifier(x)


def model() -> nn.Module:
    torch.manual_seed(0)
    net = ResNet50()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):  # as if trained: no layer is the identity
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.7, 1.3)
    for block in net.blocks:
        nn.init.constant_(block.expand[1].weight, 0.3)  # keeps sixteen residual sums in range
    return net.eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 3, 224, 224),)
