"""A detector's last step: of boxes that overlap, the best one stays. A custom operator does it."""

import torch
from torch import Tensor, nn


@torch.library.custom_op("detect::suppress", mutates_args=())
def suppress(boxes: Tensor, scores: Tensor, threshold: float = 0.5) -> Tensor:
    """Which boxes (n, 4) stay: none that overlaps a better one by more than the threshold."""
    keep = torch.ones(len(boxes), dtype=torch.bool)
    area = (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(1)
    for best in scores.argsort(descending=True, stable=True):
        if keep[best]:
            low = torch.maximum(boxes[:, :2], boxes[best, :2])
            high = torch.minimum(boxes[:, 2:], boxes[best, 2:])
            common = (high - low).clamp(min=0).prod(1)
            keep &= ~((common > threshold * (area + area[best] - common)) & (scores < scores[best]))
    return keep


@suppress.register_fake
def _(boxes: Tensor, scores: Tensor, threshold: float = 0.5) -> Tensor:
    return torch.empty_like(scores, dtype=torch.bool)


class Detector(nn.Module):
    """Boxes and scores from features; suppressed ones get the score 0."""

    def __init__(self) -> None:
        super().__init__()
        self.corner, self.size, self.score = nn.Linear(16, 2), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        corner = self.corner(features)
        boxes = torch.cat([corner, corner + self.size(features).exp()], dim=1)
        scores = self.score(features).sigmoid().squeeze(1)
        return boxes, scores * torch.ops.detect.suppress(boxes, scores, 0.3)


torch.manual_seed(0)
model = Detector()
example_inputs = (torch.randn(40, 16),)
dynamic_shapes = ({0: torch.export.Dim("boxes", min=0, max=1000)},)
