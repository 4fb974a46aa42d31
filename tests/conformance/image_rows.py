"""Rows of pooling and resizing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from tests.conformance.harness import Args, Row, ordinary

REAL = (torch.float32, torch.float64, torch.bfloat16)
BYTES = (torch.uint8,)


def _images(*shapes: tuple[int, ...]) -> Callable[[torch.dtype], Sequence[Args]]:
    def samples(dtype: torch.dtype) -> Sequence[Args]:
        high = 255.0 if dtype == torch.uint8 else 3.0
        return [(ordinary(dtype, *shape, low=-3.0, high=high),) for shape in shapes]

    return samples


IMAGE = _images((2, 3, 9, 10))
POOLING: dict[str, Callable[..., Any]] = {
    "max_pool2d": lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1)),
    "max_pool2d indices alone": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
    "max_pool2d indices": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max_pool2d dilated, ceil": lambda x: F.max_pool2d(
        x, (2, 3), (3, 1), (1, 0), 2, ceil_mode=True, return_indices=True
    ),
    "max_pool2d unbatched": lambda x: F.max_pool2d(x[0], 3, 2, 1, ceil_mode=True),
    "max_pool1d": lambda x: (
        F.max_pool1d(x[0], 3, 2, 1),
        *F.max_pool1d(x[0], 3, 2, 1, return_indices=True),
    ),
    "max_pool3d": lambda x: F.max_pool3d(x, (1, 2, 3), 2, (0, 1, 1), return_indices=True),
    "avg_pool2d": lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, divisor_override=3)),
    "avg_pool2d ceil": lambda x: (
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    ),
    "avg_pool1d": lambda x: F.avg_pool1d(x[0], 3, 2, 1, ceil_mode=True),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "adaptive_avg_pool": lambda x: (
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (4, 7)),
        F.adaptive_avg_pool2d(x, (3, None)),
        F.adaptive_avg_pool2d(x, (12, 7)),
        F.adaptive_avg_pool1d(x[0], 4),
        F.adaptive_avg_pool3d(x, (2, 4, 5)),
    ),
    "adaptive_max_pool": lambda x: (
        *F.adaptive_max_pool2d(x, (4, 7), return_indices=True),
        *F.adaptive_max_pool1d(x[0], 4, return_indices=True),
        *F.adaptive_max_pool3d(x, (2, 4, 5), return_indices=True),
    ),
}

SIZES = ((6, 5), (23, 40), (9, 31), (30, 10), (1, 7), (18, 20), (9, 10))


def _to_sizes(mode: str, **settings: Any) -> Callable[..., Any]:
    """The image resized to every one of SIZES."""
    return lambda x: [F.interpolate(x, size=s, mode=mode, **settings) for s in SIZES]


def _by_factors(mode: str, **settings: Any) -> Callable[..., Any]:
    factors = (2.0, 1.3, 0.4, 3.0)
    return lambda x: [F.interpolate(x, scale_factor=f, mode=mode, **settings) for f in factors]


def _resize_rows() -> list[Row]:
    rows: list[Row] = []
    channels = _images((2, 3, 9, 10), (1, 6, 9, 7))
    for mode, align, smooth in itertools.product(
        ("bilinear", "bicubic"), (False, True), (False, True)
    ):
        settings = {"align_corners": align, "antialias": smooth}
        name = f"{mode}{' aligned' if align else ''}{' antialiased' if smooth else ''}"
        dtypes = REAL[:2] if mode == "bilinear" else REAL[:1]
        rows.append(Row(name, _to_sizes(mode, **settings), IMAGE, dtypes))
        # Bytes go through eager's own fixed point and are equal to the last bit.
        rows.append(Row(f"{name} bytes", _to_sizes(mode, **settings), channels, BYTES))
    for mode in ("bilinear", "bicubic"):
        rows.append(Row(f"{mode} by a factor", _by_factors(mode), IMAGE))
        rows.append(Row(f"{mode} half", _to_sizes(mode), IMAGE, (torch.bfloat16,)))
    rows.append(Row("antialiased by a factor", _by_factors("bilinear", antialias=True), IMAGE))
    for mode in ("nearest", "nearest-exact"):
        kinds = (*REAL, torch.uint8)
        rows.append(Row(mode, _to_sizes(mode), IMAGE, kinds, against_eager=True))
        rows.append(Row(f"{mode} by a factor", _by_factors(mode), IMAGE, against_eager=True))
    return rows


def _lines(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        F.interpolate(x[0], size=31, mode="linear"),
        F.interpolate(x[0], size=6, mode="linear", align_corners=True),
        F.interpolate(x[0], size=48),
        F.interpolate(x[0], scale_factor=3.0),
    ]


def _volumes(x: torch.Tensor) -> list[torch.Tensor]:
    return [
        F.interpolate(x, size=(7, 3, 20), mode="trilinear"),
        F.interpolate(x, scale_factor=2.0, mode="trilinear", align_corners=True),
        F.interpolate(x, size=(7, 3, 20)),
        F.interpolate(x, scale_factor=2.0),
    ]


def _grids(dtype: torch.dtype) -> Sequence[Args]:
    """Images and places in them, some of them outside; few channels, and many."""
    return [
        (ordinary(dtype, 2, 3, 7, 6), ordinary(dtype, 2, 4, 5, 2, low=-1.4, high=1.4)),
        (ordinary(dtype, 1, 19, 9, 11), ordinary(dtype, 1, 6, 7, 2, low=-1.4, high=1.4)),
    ]


def _grid_rows() -> Iterator[Row]:
    for mode, padding, align in itertools.product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    ):

        def sampled(
            x: torch.Tensor, g: torch.Tensor, m: str = mode, p: str = padding, a: bool = align
        ) -> torch.Tensor:
            return F.grid_sample(x, g, m, p, a)

        name = f"grid_sample {mode} {padding}{' corners' if align else ''}"
        yield Row(name, sampled, _grids, (torch.float32,))


def _volume_grids(dtype: torch.dtype) -> Sequence[Args]:
    return [(ordinary(dtype, 1, 2, 4, 5, 6), ordinary(dtype, 1, 3, 2, 4, 3, low=-1.2, high=1.2))]


def _volume_samples(x: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
    return [F.grid_sample(x, grid, m, "reflection", False) for m in ("bilinear", "nearest")]


def _fractional(x: torch.Tensor) -> Any:
    rank = x.ndim - 2
    pool = F.fractional_max_pool2d if rank == 2 else F.fractional_max_pool3d
    steps = torch.arange(2 * 3 * rank, dtype=x.dtype).reshape(2, 3, rank)
    samples = (steps * 0.37).remainder(1.0)
    found = pool(x, 2, output_size=3, _random_samples=samples, return_indices=True)
    half = (0.5,) * rank
    one = pool(x[0], 2, output_ratio=half, _random_samples=samples[:1], return_indices=True)
    return *found, *one, pool(x, 3, output_size=1, _random_samples=samples)


ROWS = (
    Row("fractional_max_pool2d", _fractional, _images((2, 3, 7, 9)), REAL, True),
    Row("fractional_max_pool3d", _fractional, _images((2, 3, 5, 6, 7)), REAL[:1], True),
    *(Row(name, f, IMAGE, (torch.float32,)) for name, f in POOLING.items()),
    Row("max_pool2d half", POOLING["max_pool2d indices"], IMAGE, (torch.bfloat16,)),
    Row("avg_pool2d half", POOLING["avg_pool2d"], IMAGE, (torch.bfloat16,)),
    Row("max_pool2d integers", POOLING["max_pool2d"], IMAGE, (torch.int64, torch.uint8)),
    *_resize_rows(),
    *_grid_rows(),
    Row("grid_sample volumes", _volume_samples, _volume_grids, (torch.float32,)),
    Row("interpolate lines", _lines, IMAGE),
    Row("interpolate volumes", _volumes, _images((1, 2, 5, 6, 7))),
)
