"""Special functions that NumPy lacks, for the interpreter: accurate in float64, slow, obvious."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats as a function of arrays; the result has the argument's dtype."""
    mapped = np.frompyfunc(function, 1, 1)

    def apply(x: Array) -> Array:
        return np.asarray(mapped(np.asarray(x, np.float64)), np.float64).astype(x.dtype)

    return apply


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0.0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _digamma(x: float) -> float:
    """By reflection for negative x, recurrence up to 10, then the asymptotic series."""
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == 0.0:
        return math.copysign(math.inf, -x)
    if x < 0.0:
        if x == math.floor(x):
            return math.nan
        # The distance to the nearest pole, which is exact and all that counts near it.
        return _digamma(1.0 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    if math.isinf(x):
        return x
    inverse = 1.0 / (x * x)
    coefficients = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
    series = 0.0
    for c in reversed(coefficients):
        series = inverse * (c + series)
    return shift + math.log(x) - 0.5 / x - series


def _erfinv(y: float) -> float:
    """Newton's method on erf (on erfc near the ends), from a logarithmic first guess."""
    if math.isnan(y) or abs(y) > 1.0:
        return math.nan
    if abs(y) == 1.0:
        return math.copysign(math.inf, y)
    a = 0.147
    tail = math.log1p(-y * y)
    half = 2.0 / (math.pi * a) + 0.5 * tail
    x = math.copysign(math.sqrt(max(math.sqrt(half * half - tail / a) - half, 0.0)), y)
    for _ in range(4):
        # Near 1, erf(x) - y cancels; erfc keeps the digits.
        miss = math.erf(x) - y if abs(y) < 0.5 else _far_miss(x, y)
        x -= miss * 0.5 * math.sqrt(math.pi) * math.exp(x * x)
    return x


def _far_miss(x: float, y: float) -> float:
    sign = math.copysign(1.0, y)
    return sign * ((1.0 - abs(y)) - math.erfc(abs(x)))


def _bessel(order: int, *, scaled: bool) -> Callable[[float], float]:
    """I0 or I1, times exp(-|x|) when `scaled`: power series up to 30, asymptotic beyond."""

    def value(x: float) -> float:
        size = abs(x)
        if math.isnan(x):
            return x
        if math.isinf(x):
            return 0.0 if scaled else (math.inf if order == 0 else x)
        sign = -1.0 if order == 1 and x < 0 else 1.0
        if size <= 30.0:
            term = total = (size / 2.0) ** order
            for k in range(1, 200):
                term *= (size / 2.0) ** 2 / (k * (k + order))
                total += term
                if term <= total * 1e-18:
                    break
            return sign * total * (math.exp(-size) if scaled else 1.0)
        term = total = 1.0
        for k in range(1, 30):
            factor = -(4.0 * order * order - (2 * k - 1) ** 2) / (k * 8.0 * size)
            if abs(factor) >= 1.0:
                break
            term *= factor
            total += term
        base = total / math.sqrt(2.0 * math.pi * size)
        if scaled:
            return sign * base
        return sign * base * math.exp(size) if size < 700.0 else sign * math.inf

    return value


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
erfinv = _elementwise(_erfinv)
lgamma = _elementwise(_lgamma)
digamma = _elementwise(_digamma)
i0 = _elementwise(_bessel(0, scaled=False))
i0e = _elementwise(_bessel(0, scaled=True))
i1 = _elementwise(_bessel(1, scaled=False))
i1e = _elementwise(_bessel(1, scaled=True))
