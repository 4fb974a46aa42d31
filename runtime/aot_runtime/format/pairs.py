"""Complex arrays as graphs of reals hold them: real arrays with a last dimension of 2."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


COMPLEX32 = "complex32"
"""A complex type that ml_dtypes has, of which NumPy knows no parts."""


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Whether elements of the type are pairs."""
    return dtype.kind == "c" or dtype.name == COMPLEX32


def in_pairs(array: Array) -> Array:
    """A complex array's parts in a new last dimension; another array as it is."""
    if not is_complex(array.dtype):
        return array
    part = f"f{array.dtype.itemsize // 2}"
    return np.ascontiguousarray(array).reshape(-1).view(part).reshape(*array.shape, 2)


def from_pairs(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array of a type whose parts `in_pairs` has given; one of another type as it is."""
    if not is_complex(dtype):
        return array
    return np.ascontiguousarray(array).reshape(-1).view(dtype).reshape(array.shape[:-1])
