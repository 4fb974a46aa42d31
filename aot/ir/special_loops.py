"""Functions of two operands whose loops depend on the data, for the interpreter; in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
RecurrenceStep = Callable[[float, float, float, float], float]

_MOST_DEGREE = 2.0**31
_LARGE = 200.0
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def _elementwise(function: Callable[[float, float], float]) -> Callable[[Array, Array], Array]:
    mapped = np.frompyfunc(function, 2, 1)

    def apply(a: Array, b: Array) -> Array:
        wide = mapped(np.asarray(a, np.float64), np.asarray(b, np.float64))
        return np.asarray(wide, np.float64).astype(a.dtype)

    return apply


def _density(a: float, x: float) -> float:
    """x**a exp(-x) / gamma(a + 1); Stirling's series (DLMF 5.11.1) from a = 10 on."""
    if a < 10.0:
        return math.exp(a * math.log(x) - x - math.lgamma(a + 1.0))
    u, inverse = (x - a) / a, 1.0 / a**2
    tail = 0.0
    for c in (1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        tail = c + inverse * tail
    if u <= -1.0:
        return 0.0
    return math.exp(-a * (u - math.log1p(u)) - tail / a) / math.sqrt(2.0 * math.pi * a)


def _area(a: float, x: float) -> tuple[float, bool]:
    """P or Q, and whether it is Q, for large a: the density summed by Gauss and Legendre's rule."""
    upper = x > a
    root = math.sqrt(a)
    end = max(a + 12.0 * root, x + 8.0 * root) if upper else max(0.0, min(a, x) - 12.0 * root)
    middle, half = (end + x) / 2.0, abs(end - x) / 2.0
    points = (middle + half * _POINTS).tolist()
    values = [_density(a, t) * a / t if t > 0.0 else 0.0 for t in points]
    return half * float(np.dot(_WEIGHTS, values)), upper


def _series(a: float, x: float) -> float:
    """P by its power series, DLMF 8.11.4."""
    term = total = 1.0
    n = a
    while term > total * 1e-17:
        n += 1.0
        term *= x / n
        total += term
    return _density(a, x) * total


def _fraction(a: float, x: float) -> float:
    """Q by its continued fraction, DLMF 8.9.2, in W. Lentz's way."""
    b = x + 1.0 - a
    c, d = 1e300, 1.0 / b
    value = d
    for k in range(1, 10000):
        step = -k * (k - a)
        b += 2.0
        d = 1.0 / ((step * d + b) or 1e-300)
        c = (b + step / c) or 1e-300
        value *= c * d
        if abs(c * d - 1.0) < 5e-16:
            break
    return _density(a, x) * a * value


def _incomplete(*, upper: bool) -> Callable[[float, float], float]:
    def value(a: float, x: float) -> float:
        if not (a > 0.0 and x > 0.0) or math.isinf(a) or math.isinf(x):
            return math.nan
        if a > _LARGE:
            found, is_upper = _area(a, x)
        elif x < a + 1.0:
            found, is_upper = _series(a, x), False
        else:
            found, is_upper = _fraction(a, x), True
        return found if is_upper == upper else 1.0 - found

    return value


def _polynomial(
    first: Callable[[float], float], step: RecurrenceStep
) -> Callable[[float, float], float]:
    """p(n) of p(0) = 1, p(1) = first(x), p(k + 1) = step(x, k, p(k), p(k - 1)); DLMF 18.9."""

    def value(x: float, n: float) -> float:
        if not n < _MOST_DEGREE:
            return math.nan
        if n < 1.0:
            return 1.0
        before, last, k = 1.0, first(x), 1.0
        while k < n and not math.isnan(last):
            before, last, k = last, step(x, k, last, before), k + 1.0
        return last

    return value


igamma = _elementwise(_incomplete(upper=False))
igammac = _elementwise(_incomplete(upper=True))


def _chebyshev(first: Callable[[float], float]) -> Callable[[Array, Array], Array]:
    """Chebyshev's polynomials differ in the one of degree 1 only, DLMF 18.9.1."""
    return _elementwise(_polynomial(first, lambda x, k, p, q: 2 * x * p - q))


chebyshev_t = _chebyshev(lambda x: x)
chebyshev_u = _chebyshev(lambda x: 2 * x)
chebyshev_v = _chebyshev(lambda x: 2 * x - 1)
chebyshev_w = _chebyshev(lambda x: 2 * x + 1)
hermite_h = _elementwise(_polynomial(lambda x: 2 * x, lambda x, k, p, q: 2 * (x * p - k * q)))
hermite_he = _elementwise(_polynomial(lambda x: x, lambda x, k, p, q: x * p - k * q))
laguerre_l = _elementwise(
    _polynomial(lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1))
)
legendre_p = _elementwise(
    _polynomial(lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))
)
