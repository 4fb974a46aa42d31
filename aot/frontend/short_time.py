"""Signals put together from their short spectra, of a length that torch takes for a constant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_untyped: Any = torch
"""torch, for functions of it that have no types."""


_LEAST = 1e-11
"""Of a sum of squared windows by which torch divides."""


def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """As torch.istft of an open length, which torch takes for a constant.

    Windowed pieces are added where they lie, and divided by the sum of the squared windows, which
    must not be 0 where the length asks for an element. What it asks for behind the last piece is 0.
    """
    if not isinstance(length, torch.SymInt) or return_complex or onesided is False:
        return NotImplemented
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    part = x.dtype.to_real()
    if window is None:
        window = torch.ones(width, dtype=part, device=x.device)
    if window.is_complex() or not 0 < hop <= width <= n_fft or window.shape[0] != width:
        return NotImplemented
    left = (n_fft - width) // 2
    window = torch.nn.functional.pad(window.to(part), (left, n_fft - width - left))
    spectra = x.transpose(-1, -2)
    pieces = torch.fft.irfft(spectra, n_fft, norm="ortho" if normalized else "backward") * window
    count: Any = pieces.shape[-2]
    whole = n_fft + hop * (count - 1)
    weights = (window * window).expand(count, n_fft)
    signal, weight = (
        _untyped.ops.aten.unfold_backward(p, [*p.shape[:-2], whole], p.dim() - 2, n_fft, hop)
        for p in (pieces, weights)
    )
    first = n_fft // 2 if center else 0
    more: Any = (0, length)
    asked = torch.nn.functional.pad(weight[first:], more, value=1.0)[:length]
    known = asked.abs().min() > _LEAST
    _untyped.ops.aten._assert_async.msg(known, "window overlap add min: 0")
    return torch.nn.functional.pad((signal / weight)[..., first:], more)[..., :length]
