"""The resizing study: one photograph-sized image through every kind of interpolation."""

import torch
import torch.nn.functional as F
from torch import nn


class Resize(nn.Module):
    """A float image and a byte image in; resized images by kind out."""

    def __init__(self, height: int = 256, width: int = 256) -> None:
        super().__init__()
        self.size = (height, width)

    def forward(self, image: torch.Tensor, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        size = self.size
        return {
            "nearest": F.interpolate(image, size=size, mode="nearest"),
            "nearest_exact": F.interpolate(image, size=size, mode="nearest-exact"),
            "bilinear": F.interpolate(image, size=size, mode="bilinear"),
            "bilinear_aligned": F.interpolate(
                image, size=size, mode="bilinear", align_corners=True
            ),
            "bilinear_antialias": F.interpolate(image, size=size, mode="bilinear", antialias=True),
            "bicubic": F.interpolate(image, size=size, mode="bicubic"),
            "bicubic_antialias": F.interpolate(image, size=size, mode="bicubic", antialias=True),
            "twice": F.interpolate(image, scale_factor=2.0, mode="bilinear"),
            "pixels_bilinear_antialias": F.interpolate(
                pixels, size=size, mode="bilinear", antialias=True
            ),
            "pixels_bicubic_antialias": F.interpolate(
                pixels, size=size, mode="bicubic", antialias=True
            ),
        }


model = Resize()


def example_inputs() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(1)
    image = torch.rand((1, 3, 500, 400), generator=generator)
    pixels = torch.randint(0, 256, (1, 3, 500, 400), dtype=torch.uint8, generator=generator)
    return image, pixels
