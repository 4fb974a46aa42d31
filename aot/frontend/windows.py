"""The windows of signal processing that a model makes itself, from operators that have a lowering.

Formulas and rounding as in torch's documentation of `torch.bartlett_window` and the others; the
length is a number of the program, since torch's own operators take no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def _steps(length: int, dtype: torch.dtype | None, device: Any) -> torch.Tensor:
    """0, 1, …: counted in float32 at least, since those of 16 bits miss whole numbers."""
    kind = torch.get_default_dtype() if dtype is None else dtype
    counted = torch.float64 if kind == torch.float64 else torch.float32
    return torch.arange(length, dtype=counted, device=device)


def _hamming(steps: torch.Tensor, last: int, alpha: float = 0.54, beta: float = 0.46) -> Any:
    return alpha - beta * torch.cos(steps * (2 * math.pi / last))


def _hann(steps: torch.Tensor, last: int) -> Any:
    return _hamming(steps, last, 0.5, 0.5)


def _blackman(steps: torch.Tensor, last: int) -> Any:
    angles = steps * (math.pi / last)
    return 0.08 * torch.cos(4 * angles) - 0.5 * torch.cos(2 * angles) + 0.42


def _bartlett(steps: torch.Tensor, last: int) -> Any:
    return 1 - torch.abs(steps * (2 / last) - 1)


def _kaiser(steps: torch.Tensor, last: int, beta: float = 12.0) -> Any:
    places = steps * (2 / last) - 1
    # The sum of the rounded steps may pass 1 at the end.
    within = torch.sqrt(torch.clamp(1 - places * places, min=0))
    return torch.special.i0(beta * within) / torch.special.i0(steps.new_full((), beta))


def _window(
    shape: Callable[..., Any],
    length: int,
    periodic: bool = True,
    *numbers: float,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """A window of `length` points; a periodic one is the next longer without its last point.

    `shape` gives the values at the steps, of which the last has a number; `numbers` are what it
    takes beside, such as Kaiser's beta.
    """
    del layout, pin_memory  # of dense tensors on a package's device there is one sort
    kind = torch.get_default_dtype() if dtype is None else dtype
    if length <= 1:
        return torch.ones((length,), dtype=kind, device=device)
    last = length if periodic else length - 1
    values: torch.Tensor = shape(_steps(length, dtype, device), last, *numbers)
    return values.to(kind)


_SHAPES = {
    "bartlett_window": (_bartlett, ("default", "periodic")),
    "blackman_window": (_blackman, ("default", "periodic")),
    "hamming_window": (
        _hamming,
        ("default", "periodic", "periodic_alpha", "periodic_alpha_beta"),
    ),
    "hann_window": (_hann, ("default", "periodic")),
    "kaiser_window": (_kaiser, ("default", "periodic", "beta")),
}
"""Operator -> its shape, and its overloads: more of the arguments from left to right."""

WINDOWS: dict[Any, Callable[..., torch.Tensor]] = {
    getattr(getattr(torch.ops.aten, name), overload): partial(_window, shape)
    for name, (shape, overloads) in _SHAPES.items()
    for overload in overloads
}
"""Operators that make a window, and what they are made of."""
