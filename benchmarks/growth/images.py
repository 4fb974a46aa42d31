"""Families of pooling, resizing, folding and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.growth.family import Draw, Family, Problem, Tensor, table

CHANNELS = 4


def _side(n: int, channels: int = CHANNELS) -> int:
    """Of a square image of n elements: even."""
    return max(2 * round((n / channels) ** 0.5 / 2), 8)


def _image(function: Callable[[Tensor], Any]) -> Callable[[int, Draw], Problem]:
    """One image of CHANNELS channels, n elements in all."""

    def problem(n: int, d: Draw) -> Problem:
        return function, d.floats(1, CHANNELS, _side(n), _side(n))

    return problem


def _half(x: Tensor) -> tuple[int, int]:
    return x.shape[2] // 2, x.shape[3] // 2


def _resized(mode: str, **settings: Any) -> Callable[[Tensor], Any]:
    def run(x: Tensor) -> Tensor:
        size = (3 * x.shape[2] // 2, 3 * x.shape[3] // 2)
        return F.interpolate(x, size=size, mode=mode, **settings)

    return run


IMAGES: dict[str, Callable[[Tensor], Any]] = {
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d with indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "adaptive_avg_pool2d to 1": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_avg_pool2d to 7": lambda x: F.adaptive_avg_pool2d(x, 7),
    "adaptive_avg_pool2d to half": lambda x: F.adaptive_avg_pool2d(x, _half(x)),
    "adaptive_avg_pool2d to thirds": lambda x: F.adaptive_avg_pool2d(
        x, (2 * x.shape[2] // 3 + 1, 2 * x.shape[3] // 3 + 1)
    ),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, _half(x)),
    "lp_pool2d": lambda x: F.lp_pool2d(x, 2.0, 3, 2),
    "interpolate nearest": _resized("nearest"),
    "interpolate bilinear": _resized("bilinear"),
    "interpolate bicubic": _resized("bicubic"),
    "interpolate antialiased": lambda x: F.interpolate(
        x, size=_half(x), mode="bilinear", antialias=True
    ),
    "interpolate area": lambda x: F.interpolate(x, size=_half(x), mode="area"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "im2col": lambda x: F.unfold(x, 3, padding=1),
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
}


def _unpool(n: int, d: Draw) -> Problem:
    side = _side(n) // 2
    corners = torch.arange(side, device=d.device) * 2
    at = (corners[:, None] * 2 * side + corners).expand(1, CHANNELS, side, side).contiguous()
    return lambda x, i: F.max_unpool2d(x, i, 2), d.floats(1, CHANNELS, side, side), at


def _fold(n: int, d: Draw) -> Problem:
    side = _side(n, 9)
    blocks = d.floats(1, 9, side * side)
    return lambda x: F.fold(x, (side, side), 3, padding=1), blocks


def _grid(mode: str, padding: str) -> Callable[[int, Draw], Problem]:
    def problem(n: int, d: Draw) -> Problem:
        side = _side(n)
        return (
            lambda x, g: F.grid_sample(x, g, mode, padding, False),
            d.floats(1, CHANNELS, side, side),
            d.floats(1, side, side, 2, low=-1.1, high=1.1),
        )

    return problem


def _affine(n: int, d: Draw) -> Problem:
    side = _side(n)
    return lambda t: F.affine_grid(t, [1, 3, side, side], align_corners=False), d.floats(1, 2, 3)


def _line(function: Callable[..., Any], *weight: int) -> Callable[[int, Draw], Problem]:
    """A signal of n / 8 steps with 8 channels, and weights."""
    return lambda n, d: (function, d.floats(1, 8, n // 8), d.floats(*weight))


def _plane(function: Callable[..., Any], *weight: int) -> Callable[[int, Draw], Problem]:
    return lambda n, d: (function, d.floats(1, 8, _side(n, 8), _side(n, 8)), d.floats(*weight))


POSITIONS = {
    "max_unpool2d": _unpool,
    "fold": _fold,
    "grid_sample bilinear": _grid("bilinear", "zeros"),
    "grid_sample nearest": _grid("nearest", "border"),
    "grid_sample bicubic": _grid("bicubic", "reflection"),
    "affine_grid": _affine,
}
CONVOLUTIONS = {
    "conv1d": _line(lambda x, w: F.conv1d(x, w, padding=1), 8, 8, 3),
    "conv1d, depthwise": _line(lambda x, w: F.conv1d(x, w, padding=3, groups=8), 8, 1, 7),
    "conv1d, one channel": lambda n, d: (F.conv1d, d.floats(1, 1, n), d.floats(1, 1, 16)),
    "conv_transpose1d": _line(lambda x, w: F.conv_transpose1d(x, w, None, 2), 8, 8, 4),
    "conv_transpose1d, depthwise": _line(
        lambda x, w: F.conv_transpose1d(x, w, None, 2, groups=8), 8, 1, 4
    ),
    "conv2d": _plane(lambda x, w: F.conv2d(x, w, padding=1), 8, 8, 3, 3),
    "conv2d, depthwise": _plane(lambda x, w: F.conv2d(x, w, padding=1, groups=8), 8, 1, 3, 3),
    "conv2d, long rows of few channels": lambda n, d: (
        lambda x, w: F.conv2d(x, w, padding=1),
        d.floats(1, 2, 8, n // 16),
        d.floats(2, 2, 3, 3),
    ),
    "conv_transpose2d": _plane(lambda x, w: F.conv_transpose2d(x, w, None, 2), 8, 8, 2, 2),
    "conv_transpose2d, overlapping": _plane(
        lambda x, w: F.conv_transpose2d(x, w, None, 2, 1), 8, 8, 4, 4
    ),
    "conv3d": lambda n, d: (
        lambda x, w: F.conv3d(x, w, padding=1),
        d.floats(1, 4, 8, 8, n // 256),
        d.floats(4, 4, 3, 3, 3),
    ),
}

FAMILIES: tuple[Family, ...] = (
    *table({k: _image(f) for k, f in IMAGES.items()}, top=2**22),
    *table(POSITIONS, top=2**20),
    *table(CONVOLUTIONS, top=2**20),
)
