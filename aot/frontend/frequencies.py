"""`torch.fft.fftfreq` and `rfftfreq` of a number of points that is open.

torch's operators of these take the number of points, and the distance of samples, for constants.
The steps are those of torch's own kernels, so that each result is rounded as eager's is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

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
