"""Scalar operations in NumPy, where it has none of the name, and constants and conversions.

Values are arrays in the type that arithmetic runs in: half types are float32 arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aot.ir.dtypes import BOOL, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT8_E8M0FNU, DType

Array = np.ndarray[Any, Any]


def _is_float(x: Array) -> bool:
    return bool(np.issubdtype(x.dtype, np.floating))


def truncdiv(a: Array, b: Array) -> Array:
    """The quotient rounded towards zero; 0 for integers by zero."""
    if _is_float(a):
        return np.trunc(a / b)
    quotient = np.floor_divide(a, b)
    inexact = (a - quotient * b != 0) & ((a < 0) != (b < 0)) & (b != 0)
    return np.asarray(quotient + inexact, a.dtype)


def power(a: Array, b: Array) -> Array:
    """Powers; negative ones of integers as the quotient of 1, rounded towards zero."""
    if _is_float(a):
        return np.power(a, b)
    positive = np.power(a, np.maximum(b, 0))
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, unit, positive).astype(a.dtype)


def sign(x: Array) -> Array:
    """-1, 0 or 1; 0 for NaN."""
    return ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype)


def nearest(x: Array) -> Array:
    """To the nearest, ties to even; integers stay."""
    return np.rint(x) if _is_float(x) else x


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), through float64."""
    return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, rounded once."""
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x), through float64."""
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def gcd(a: Array, b: Array) -> Array:
    """Euclid's algorithm with remainders of the dividend's sign, as eager's."""
    a, b = np.broadcast_arrays(np.abs(a), np.abs(b))
    while (live := a != 0).any():
        rest = np.fmod(b, np.where(live, a, 1))
        a, b = np.where(live, rest, 0).astype(b.dtype), np.where(live, a, b).astype(b.dtype)
    return b


def reciprocal(x: Array) -> Array:
    """1 / x."""
    return (1.0 / x).astype(x.dtype)


def constant(value: Any, dtype: DType) -> Array:
    """A constant in its arithmetic type; integers wrap."""
    if dtype.is_integral:
        bits = np.asarray(value % (1 << 64), np.uint64)
        return bits.astype(dtype.numpy)
    return rounded(np.asarray(value, np.float64), dtype) if dtype.is_float else np.asarray(value)


def rounded(x: Array, dtype: DType) -> Array:
    """`x` rounded to a float type, as an array of its arithmetic type."""
    return in_memory(x, dtype).astype(dtype.compute.numpy)


def in_memory(x: Array, dtype: DType) -> Array:
    """Numbers as elements of a float type in memory: of float8 what torch makes of float32."""
    if not dtype.is_float8:
        return x.astype(dtype.numpy)
    with np.errstate(over="ignore", invalid="ignore"):
        single = x.astype(np.float32)
        if dtype == FLOAT8_E8M0FNU:
            return _powers(single)
        if dtype == FLOAT8_E4M3FN:  # which keeps the greatest number for what is beyond
            single = np.clip(single, -448, 448)
        narrow = single.astype(dtype.numpy)
    if dtype != FLOAT8_E5M2:
        return narrow
    # The one format with several NaNs: torch's has all bits.
    codes = np.where(np.isnan(single), 0x7F, 0).astype(np.uint8) | narrow.view(np.uint8)
    return codes.view(dtype.numpy)


def _powers(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.int32).reshape(x.shape) & 0x7FFFFFFF
    exponent = bits >> 23
    above = (bits & 0x400000 != 0) & ((bits & 0x3FFFFF != 0) | (exponent > 0))
    codes = np.where(above & (exponent < 0xFF), exponent + 1, exponent).astype(np.uint8)
    return codes.view(FLOAT8_E8M0FNU.numpy)


def convert(x: Array, dtype: DType) -> Array:
    """The `cast` operation."""
    if dtype == BOOL:
        return np.asarray(x != 0)
    return rounded(x, dtype) if dtype.is_float else x.astype(dtype.numpy)


def reinterpret(x: Array, from_: DType, to: DType) -> Array:
    """The `bitcast` operation."""
    held = in_memory(x, from_) if from_.is_float else x.astype(from_.numpy)
    bits = np.ascontiguousarray(held).view(to.numpy)
    return bits.reshape(x.shape).astype(to.compute.numpy)
