"""Gradients of distances, of samples of images, of greatest elements and of masked writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_aten: Any = torch.ops.aten


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """The derivative of |difference|'s norm of order p by each of its elements; 0 at 0."""
    if p == 0:
        return torch.zeros_like(difference)
    sign = difference.sign()
    if p == 1:
        return sign
    if math.isinf(p):
        return sign * (difference.abs() == distance)
    share = difference.abs() / torch.where(distance == 0, 1.0, distance)
    if p == 2:
        return torch.where(distance == 0, 0.0, sign * share)
    # A share of 0 to a negative power would be infinite, times a sign that is 0.
    apart = (distance != 0) & (difference != 0)
    return torch.where(apart, sign * torch.where(apart, share, 1.0) ** (p - 1), 0.0)


def _cdist(grad: Tensor, a: Tensor, b: Tensor, p: float, distances: Tensor) -> Tensor:
    """By the rows of a: how each distance grows, summed over the rows of b."""
    difference = a.unsqueeze(-2) - b.unsqueeze(-3)
    return (grad.unsqueeze(-1) * _slope(difference, distances.unsqueeze(-1), p)).sum(-2)


def _pdist(grad: Tensor, x: Tensor, p: float, distances: Tensor) -> Tensor:
    """As of cdist of x with itself: rows i < j share the distance at their pair's place."""
    rows = x.shape[0]
    if grad.shape[0] == 0:
        return torch.zeros_like(x)
    at = torch.arange(rows, device=x.device)
    low, high = torch.minimum(at[:, None], at), torch.maximum(at[:, None], at)
    pair = torch.div(low * (2 * rows - low - 1), 2, rounding_mode="floor") + high - low - 1
    pair = torch.where(low == high, 0, pair)
    given = torch.where(low == high, 0.0, grad[pair])
    difference = x.unsqueeze(-2) - x.unsqueeze(-3)
    return (given.unsqueeze(-1) * _slope(difference, distances[pair].unsqueeze(-1), p)).sum(-2)


def _at_greatest(rank: int) -> Callable[..., Tensor]:
    """Of a pool that tells where in the image each of its greatest elements lies."""

    def gradient(grad: Tensor, x: Tensor, *how: Any) -> Tensor:
        indices = how[-1]
        zeros = torch.zeros_like(x).flatten(-rank)
        found = zeros.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank))
        return found.reshape(x.shape)

    return gradient


def _masked_scatter(grad: Tensor, mask: Tensor, sizes: Sequence[Any]) -> Tensor:
    """By the source: its first elements are where the mask is true, in order."""
    true = mask.expand(grad.shape).reshape(-1)
    count = math.prod(sizes)
    place = torch.where(true, true.cumsum(0) - 1, count)
    zeros = grad.new_zeros((count + 1,))
    given = torch.where(true, grad.reshape(-1), 0.0)
    return zeros.index_add(0, place, given)[:count].reshape(list(sizes))


_NEAREST, _BORDER, _REFLECTION = 1, 1, 2
_CUBIC = 2


def _clipped(x: Tensor, slope: Tensor, size: Any) -> tuple[Tensor, Tensor]:
    inside = (x > 0) & (x < size - 1)
    return x.clamp(min=0).clamp(max=size - 1), torch.where(inside, slope, 0.0)


def _reflected(x: Tensor, slope: Tensor, size: Any, align: bool) -> tuple[Tensor, Tensor]:
    """x turned back at both ends, as often as it goes beyond one."""
    low, span = (0.0, size - 1) if align else (-0.5, size)
    beyond = x - low
    away = beyond.abs()
    # An image of one element, whose corners are its center, has no width to be turned back in.
    width = torch.full((), 1.0, dtype=x.dtype, device=x.device) * span
    safe = torch.where(width > 0, width, 1.0)
    turns = (away / safe).floor()
    rest = away - turns * safe
    back = turns % 2 == 1
    found = torch.where(back, span - rest, rest) + low
    sign = torch.where(beyond < 0, -slope, slope)
    sign = torch.where(back, -sign, sign)
    return torch.where(width > 0, found, 0.0), torch.where(width > 0, sign, 0.0)


def _coordinates(grid: Tensor, size: Any, padding: int, align: bool) -> tuple[Tensor, Tensor]:
    """Where in a line of `size` elements a sample lies, and how that follows the grid."""
    x = (grid + 1) / 2 * (size - 1) if align else ((grid + 1) * size - 1) / 2
    slope = torch.full_like(grid, 0.5) * ((size - 1) if align else size)
    if padding == _REFLECTION:
        x, slope = _reflected(x, slope, size, align)
    if padding in (_BORDER, _REFLECTION):
        x, slope = _clipped(x, slope, size)
    return x, slope


def _samples(
    grad: Tensor,
    image: Tensor,
    grid: Tensor,
    interpolation: int,
    padding: int,
    align_corners: bool,
    wanted: Sequence[bool],
) -> Any:
    """Those of grid_sample by the image and by the grid, linear or nearest.

    Corners of a sample that lie outside of the image count as zeros, and give it nothing.
    """
    rank, batch, channels = grid.shape[-1], image.shape[0], image.shape[1]
    if interpolation == _CUBIC:
        return NotImplemented
    sizes = image.shape[2:]
    lines = [  # the grid's last dimension counts from the innermost axis
        _coordinates(grid[..., rank - 1 - k], sizes[k], padding, align_corners) for k in range(rank)
    ]
    nearest = interpolation == _NEAREST
    low = [(x.round() if nearest else x.floor()) for x, _ in lines]
    rest = [x - first for (x, _), first in zip(lines, low, strict=True)]
    flat = image.reshape(batch, channels, -1)
    given = grad.reshape(batch, channels, -1)
    of_image = torch.zeros_like(flat)
    of_grid = [torch.zeros_like(x) for x, _ in lines]
    for corner in itertools.product((0, 1), repeat=0 if nearest else rank):
        bits = corner or (0,) * rank
        at = [first.long() + bit for first, bit in zip(low, bits, strict=True)]
        shares = [r if bit else 1 - r for r, bit in zip(rest, bits, strict=True)]
        shares = [torch.ones_like(r) for r in rest] if nearest else shares
        inside = torch.ones_like(low[0], dtype=torch.bool)
        place = torch.zeros_like(at[0])
        for index, size in zip(at, sizes, strict=True):
            inside = inside & (index >= 0) & (index < size)
            place = place * size + index.clamp(min=0).clamp(max=size - 1)
        where = place.reshape(batch, 1, -1).expand(given.shape)
        share = torch.where(inside, math.prod(shares[1:], start=shares[0]), 0.0)
        of_image = of_image.scatter_add(2, where, given * share.reshape(batch, 1, -1))
        if nearest:
            continue
        moved = (flat.gather(2, where) * given).sum(1).reshape(low[0].shape)
        moved = torch.where(inside, moved, 0.0)
        for k, bit in enumerate(bits):
            others = [s for j, s in enumerate(shares) if j != k]
            grown = math.prod(others[1:], start=others[0]) * moved
            of_grid[k] = of_grid[k] + grown if bit else of_grid[k] - grown
    slopes = [g * slope for g, (_, slope) in zip(of_grid, lines, strict=True)]
    by_grid = torch.stack(slopes[::-1], -1)
    return of_image.reshape(image.shape) if wanted[0] else None, by_grid


AT_POINTS: Mapping[Any, Callable[..., Any]] = {
    _aten._cdist_backward.default: _cdist,
    _aten._pdist_backward.default: _pdist,
    _aten.max_pool3d_with_indices_backward.default: _at_greatest(3),
    _aten.adaptive_max_pool2d_backward.default: _at_greatest(2),
    _aten.adaptive_max_pool3d_backward.default: _at_greatest(3),
    _aten.fractional_max_pool2d_backward.default: _at_greatest(2),
    _aten.fractional_max_pool3d_backward.default: _at_greatest(3),
    _aten.masked_scatter_backward.default: _masked_scatter,
    _aten.grid_sampler_2d_backward.default: _samples,
    _aten.grid_sampler_3d_backward.default: _samples,
}
"""The gradient's operator -> what makes it."""
