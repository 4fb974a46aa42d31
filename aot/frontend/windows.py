"""Windows of signals by their formulas, which torch keeps whole where a model makes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""


def _of_cosines(share: Tensor, *factors: float) -> Tensor:
    """Cosines of whole numbers of turns, each times its factor, of a share of the window."""
    found = torch.full_like(share, factors[0])
    for turns, factor in enumerate(factors[1:], 1):
        found = found + factor * torch.cos(2 * math.pi * turns * share)
    return found


def _hamming(share: Tensor, alpha: float = 0.54, beta: float = 0.46) -> Tensor:
    return _of_cosines(share, alpha, -beta)


def _blackman(share: Tensor) -> Tensor:
    return _of_cosines(share, 0.42, -0.5, 0.08)


def _bartlett(share: Tensor) -> Tensor:
    return 1 - (2 * share - 1).abs()


def _kaiser(share: Tensor, beta: float = 12.0) -> Tensor:
    whole = torch.full((), beta, dtype=share.dtype, device=share.device)
    inside = (1 - (2 * share - 1) ** 2).clamp(min=0).sqrt()
    found: Tensor = torch.special.i0(beta * inside) / torch.special.i0(whole)
    return found


_Shape = Callable[..., Tensor]
"""Values by shares of the window, from 0 to 1, and parameters."""


def _window(
    shape: _Shape,
    length: int,
    periodic: bool = True,
    *parameters: float,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_: Any,
) -> Tensor:
    """A window; a periodic one is the beginning of one that is longer by an element."""
    wanted = dtype or torch.get_default_dtype()
    if length <= 1:
        return torch.ones(length, dtype=wanted, device=device)
    last = length if periodic else length - 1
    places = torch.arange(length, dtype=torch.float64, device=device)
    return shape(places / last, *parameters).to(wanted)


_SHAPES: Mapping[str, _Shape] = {
    "hamming_window": _hamming,
    "blackman_window": _blackman,
    "bartlett_window": _bartlett,
    "kaiser_window": _kaiser,
}


def windows() -> dict[Any, Callable[..., Tensor]]:
    """Each of their overloads -> what it is."""
    found: dict[Any, Callable[..., Tensor]] = {}
    for name, shape in _SHAPES.items():
        packet = getattr(_untyped.ops.aten, name)
        for overload in packet.overloads():
            if not overload.endswith("out"):
                found[getattr(packet, overload)] = partial(_window, shape)
    return found
