"""Differences between neighbours, whatever the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def gradient(
    x: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> Any:
    """As torch.gradient, which takes every size of x for a constant.

    One tensor of x's shape for each dimension: half the difference of both neighbours, at the ends
    the estimate of first or second order. Of x without dynamic sizes, and with coordinates in
    place of distances, torch's own.
    """
    if not any(isinstance(size, torch.SymInt) for size in x.shape):
        return NotImplemented
    axes = range(x.dim()) if dim is None else (dim,) if isinstance(dim, int) else dim
    distances = spacing if isinstance(spacing, Sequence) else [spacing] * len(axes)
    if any(isinstance(d, Tensor) for d in distances) or len(distances) != len(axes):
        return NotImplemented
    if edge_order not in (1, 2):
        return NotImplemented
    return tuple(
        _along(x, axis % x.dim(), edge_order) / (1.0 if d is None else d)
        for axis, d in zip(axes, distances, strict=True)
    )


def _along(x: Tensor, axis: int, order: int) -> Tensor:
    """Differences for neighbours 1 apart."""
    size = x.shape[axis]
    message = f"gradient wants {order + 1} elements along {axis} at least"
    _untyped._check(size > order, lambda: message)

    def part(start: int, count: int | torch.SymInt = 1) -> Tensor:
        return x.narrow(axis, start if start >= 0 else size + start, count)

    center = (part(2, size - 2) - part(0, size - 2)) / 2
    if order == 1:
        ends = part(1) - part(0), part(-1) - part(-2)
    else:
        ends = (
            -1.5 * part(0) + 2 * part(1) - 0.5 * part(2),
            0.5 * part(-3) - 2 * part(-2) + 1.5 * part(-1),
        )
    return torch.cat([ends[0].to(center.dtype), center, ends[1].to(center.dtype)], axis)
