"""Complex arrays as graphs of reals hold them: real arrays with a last dimension of 2."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_pairs(array: Array) -> Array:
    """A complex array's parts in a new last dimension; another array as it is."""
    if array.dtype.kind != "c":
        return array
    dense = np.ascontiguousarray(array)
    return dense.reshape(-1).view(dense.real.dtype).reshape(*array.shape, 2)


def from_pairs(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array of a type whose parts `in_pairs` has given; one of another type as it is."""
    if dtype.kind != "c":
        return array
    return np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(array.shape[:-1])
