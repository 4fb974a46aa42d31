"""What right results share where a model has several: signs, phases and orders taken out."""

from __future__ import annotations

from typing import Any

import numpy as np

from aot_runtime.format.golden_sets import ELEMENTS, Shared
from aot_runtime.format.pairs import is_complex

Array = np.ndarray[Any, Any]

_DIRECTIONS = np.exp(1j * np.pi * np.arange(4) / 4)
"""Where complex numbers are looked at from: in each the order is one of real numbers, so that two
sets that lie close together are close in order, too, as they are not where ties decide."""


def shared_part(array: Array, shared: Shared) -> Array:
    """What is to be compared of an output, as near between two outputs as the outputs are.

    Args:
        array: The output, of any type that is no text.
        shared: What right ones share.

    Returns:
        The array itself for all elements; else float64 of another shape.
    """
    if shared.kind == ELEMENTS:
        return array
    wide = array.astype(np.complex128 if is_complex(array.dtype) else np.float64)
    if shared.kind == "finite":
        return np.isfinite(wide).astype(np.float64)
    if shared.kind == "norms":
        return np.asarray(np.linalg.norm(wide, axis=shared.axis))
    if shared.kind in ("magnitudes", "sorted magnitudes"):
        wide = np.abs(wide)
    if shared.kind == "magnitudes":
        return wide
    if np.iscomplexobj(wide):
        wide = np.stack([(wide * turn).real for turn in _DIRECTIONS])
    return np.sort(wide, axis=shared.axis)
