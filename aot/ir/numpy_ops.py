"""The meaning of every scalar operation in NumPy: the interpreter's table.

Values are arrays in the type that arithmetic runs in: half types are float32 arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aot.ir import special
from aot.ir import special_loops as loops
from aot.ir.dtypes import BOOL, DType

Array = np.ndarray[Any, Any]


def _is_float(x: Array) -> bool:
    return bool(np.issubdtype(x.dtype, np.floating))


def _truncdiv(a: Array, b: Array) -> Array:
    if _is_float(a):
        return np.trunc(a / b)
    quotient = np.floor_divide(a, b)
    inexact = (a - quotient * b != 0) & ((a < 0) != (b < 0)) & (b != 0)
    return np.asarray(quotient + inexact, a.dtype)


def _pow(a: Array, b: Array) -> Array:
    if _is_float(a):
        return np.power(a, b)
    positive = np.power(a, np.maximum(b, 0))
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, unit, positive).astype(a.dtype)


def _sign(x: Array) -> Array:
    return ((x > 0).astype(np.int8) - (x < 0).astype(np.int8)).astype(x.dtype)


def _round(x: Array) -> Array:
    return np.rint(x) if _is_float(x) else x


def _sigmoid(x: Array) -> Array:
    return (1.0 / (1.0 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


def _fma(a: Array, b: Array, c: Array) -> Array:
    if a.dtype == np.float32:
        return (a.astype(np.float64) * b + c).astype(np.float32)
    return a * b + c


def _rsqrt(x: Array) -> Array:
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def _gcd(a: Array, b: Array) -> Array:
    """Euclid's algorithm with remainders of the dividend's sign, as eager's."""
    a, b = np.broadcast_arrays(np.abs(a), np.abs(b))
    while (live := a != 0).any():
        rest = np.fmod(b, np.where(live, a, 1))
        a, b = np.where(live, rest, 0).astype(b.dtype), np.where(live, a, b).astype(b.dtype)
    return b


def _reciprocal(x: Array) -> Array:
    return (1.0 / x).astype(x.dtype)


OPERATIONS: dict[str, Callable[..., Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": _sign,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "i0": special.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "sigmoid": _sigmoid,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round,
    "bitnot": np.invert,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "signbit": np.signbit,
    "not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "truncdiv": _truncdiv,
    "mod": np.remainder,
    "fmod": np.fmod,
    "pow": _pow,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "igamma": loops.igamma,
    "igammac": loops.igammac,
    "hermite_h": loops.hermite_h,
    "hermite_he": loops.hermite_he,
    "laguerre_l": loops.laguerre_l,
    "legendre_p": loops.legendre_p,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "gcd": _gcd,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "fma": _fma,
}


def constant(value: Any, dtype: DType) -> Array:
    """A constant in its arithmetic type; integers wrap."""
    if dtype.is_integral:
        return np.asarray(value, np.int64).astype(dtype.numpy)
    return rounded(np.asarray(value, np.float64), dtype) if dtype.is_float else np.asarray(value)


def rounded(x: Array, dtype: DType) -> Array:
    """`x` rounded to a float type, as an array of its arithmetic type."""
    return x.astype(dtype.numpy).astype(dtype.compute.numpy)


def convert(x: Array, dtype: DType) -> Array:
    """The `cast` operation."""
    if dtype == BOOL:
        return np.asarray(x != 0)
    return rounded(x, dtype) if dtype.is_float else x.astype(dtype.numpy)


def reinterpret(x: Array, from_: DType, to: DType) -> Array:
    """The `bitcast` operation."""
    bits = np.ascontiguousarray(x.astype(from_.numpy)).view(to.numpy)
    return bits.reshape(x.shape).astype(to.compute.numpy)
