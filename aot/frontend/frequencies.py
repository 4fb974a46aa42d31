"""`torch.fft.fftfreq` and `rfftfreq`, and transforms, of a number of points that is open.

torch's operators of these take the number of points, and the distance of samples, for constants.
The steps are those of torch's own kernels, so that each result is rounded as eager's is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

_WHOLE = ("fft", "ifft", "rfft", "ihfft")
"""Transforms whose lines are as long as they are told to be."""

_HALVES = ("irfft", "hfft")
"""Those whose lines are the first half of what they stand for."""

_OPEN = torch.SymInt | torch.SymFloat


def _frequencies(n: Any, d: Any = 1.0, *, halved: bool = False, **kinds: Any) -> Any:
    """As torch.fft.fftfreq, or rfftfreq where `halved`; NotImplemented where torch's own serves."""
    if not isinstance(n, _OPEN) and not isinstance(d, _OPEN):
        return NotImplemented
    factor = 1.0 / (n * d)
    if halved:
        return torch.arange(n // 2 + 1, **_floating(kinds)) * factor
    places: Tensor = torch.arange(n, **_floating(kinds))
    return torch.where(places < (n + 1) // 2, places, places - n) * factor


def _floating(kinds: dict[str, Any]) -> dict[str, Any]:
    """Of whole numbers, `arange` would make whole ones."""
    return {**kinds, "dtype": kinds.get("dtype") or torch.get_default_dtype()}


fftfreq = _frequencies
rfftfreq = partial(_frequencies, halved=True)


def _of_length(transform: Callable[..., Any], line: Callable[[Any], Any]) -> Callable[..., Any]:
    """A transform of lines that are cut or filled to a length which only a run knows.

    torch asks which of both it is. With that many zeros behind it, a line is cut in either case.
    """

    def transformed(x: Tensor, n: Any = None, dim: int = -1, norm: str | None = None) -> Any:
        if not isinstance(n, torch.SymInt) or not free_unbacked_symbols(n) or not x.dim():
            return NotImplemented
        points = line(n)
        shape: list[Any] = list(x.shape)
        shape[dim] = points
        lines = torch.cat([x, x.new_zeros(shape)], dim)[_along(x, dim, points)]
        return transform(lines, *([n] if points is not n else [None]), dim, norm)

    return transformed


def _along(x: Tensor, dim: int, points: Any) -> tuple[slice, ...]:
    whole = [slice(None)] * x.dim()
    whole[dim] = slice(0, points)
    return tuple(whole)


_fft: Any = torch.fft
OF_LENGTHS: Mapping[Any, Callable[..., Any]] = {
    **{getattr(_fft, k): _of_length(getattr(_fft, k), lambda n: n) for k in _WHOLE},
    **{getattr(_fft, k): _of_length(getattr(_fft, k), lambda n: n // 2 + 1) for k in _HALVES},
}
"""Transforms of one dimension that take a length -> ours, for one that a run knows."""
