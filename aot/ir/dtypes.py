"""Element types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type. `kind`: 'f' float, 'i' signed, 'u' unsigned, 'b' bool, 'c' complex."""

    name: str
    itemsize: int
    kind: str

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def is_float(self) -> bool:
        """True for the floating types."""
        return self.kind == "f"

    @property
    def is_integral(self) -> bool:
        """True for the signed and unsigned integers; not for bool."""
        return self.kind in "iu"

    @property
    def is_complex(self) -> bool:
        """True for the complex types, which tensor graphs alone know: see `part`."""
        return self.kind == "c"

    @property
    def part(self) -> DType:
        """The type of the real and of the imaginary part; of a type that is real, itself.

        A complex tensor in memory is one of this type, with a last dimension of 2.
        """
        return _PARTS.get(self, self)

    @property
    def compute(self) -> DType:
        """The type that arithmetic runs in: half types and float8 are widened to float32."""
        return FLOAT32 if self.is_float and self.itemsize < FLOAT32.itemsize else self

    @property
    def is_float8(self) -> bool:
        """True for the floats of 8 bits, which are for memory: eager computes little in them."""
        return self.is_float and self.itemsize == 1

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest value: infinities of floats, 0 and 1 of bool."""
        if self.is_float:
            return -math.inf, math.inf
        if self.kind == "i":
            return -(1 << (8 * self.itemsize - 1)), (1 << (8 * self.itemsize - 1)) - 1
        return 0, 1 if self.kind == "b" else (1 << (8 * self.itemsize)) - 1

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16, float8 and complex32 through ml_dtypes)."""
        return np.dtype(getattr(ml_dtypes, self.name, self.name))


FLOAT64 = DType("float64", 8, "f")
FLOAT32 = DType("float32", 4, "f")
FLOAT16 = DType("float16", 2, "f")
BFLOAT16 = DType("bfloat16", 2, "f")
INT64 = DType("int64", 8, "i")
INT32 = DType("int32", 4, "i")
INT16 = DType("int16", 2, "i")
INT8 = DType("int8", 1, "i")
UINT64 = DType("uint64", 8, "u")
UINT32 = DType("uint32", 4, "u")
UINT16 = DType("uint16", 2, "u")
UINT8 = DType("uint8", 1, "u")
BOOL = DType("bool", 1, "b")

COMPLEX128 = DType("complex128", 16, "c")
COMPLEX64 = DType("complex64", 8, "c")
COMPLEX32 = DType("complex32", 4, "c")
_PARTS = {COMPLEX128: FLOAT64, COMPLEX64: FLOAT32, COMPLEX32: FLOAT16}

FLOAT8_E4M3FN = DType("float8_e4m3fn", 1, "f")
FLOAT8_E4M3FNUZ = DType("float8_e4m3fnuz", 1, "f")
FLOAT8_E5M2 = DType("float8_e5m2", 1, "f")
FLOAT8_E5M2FNUZ = DType("float8_e5m2fnuz", 1, "f")
FLOAT8_E8M0FNU = DType("float8_e8m0fnu", 1, "f")

FLOAT8S = (FLOAT8_E4M3FN, FLOAT8_E4M3FNUZ, FLOAT8_E5M2, FLOAT8_E5M2FNUZ, FLOAT8_E8M0FNU)
FLOATS = (FLOAT64, FLOAT32, FLOAT16, BFLOAT16, *FLOAT8S)
INTEGERS = (INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16, UINT8)
ALL_DTYPES = (*FLOATS, *INTEGERS, BOOL)
"""The types of loops and kernels."""
COMPLEX_DTYPES = (COMPLEX128, COMPLEX64, COMPLEX32)
DTYPES = {d.name: d for d in (*ALL_DTYPES, *COMPLEX_DTYPES)}
"""All types that models have, by name."""
