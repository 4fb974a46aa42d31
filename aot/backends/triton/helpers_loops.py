"""Device functions whose loops depend on the data; every lane waits for the slowest of its tile.

The formulas are those of aot/vec/math_loops.h, which names their sources.
"""

from __future__ import annotations

import numpy as np

_MOST_DEGREE = 2.0**31
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def _tail() -> str:
    """The area under the density from x outwards on its shorter side, for large a."""
    rule = zip(_POINTS.tolist(), _WEIGHTS.tolist(), strict=True)
    terms = "".join(f"    total += gamma_term(b, x, half, {1 + p!r}, {w!r})\n" for p, w in rule)
    return f"""
def gamma_tail(a, x):
    b = a - 1.0 + 0.0 * x
    root = tl.sqrt(b)
    right = tl.maximum(b + 11.0 * root, x + 5.5 * root)
    left = tl.maximum(tl.minimum(b - 8.8 * root, x - 5.5 * root), 0.0)
    half = (tl.where(x > b, right, left) - x) * 0.5
    total = 0.0 * b
{terms}    i = 1.0 / (b * b)
    tail = (1.0 / 12 - (1.0 / 360 - i / 1260) * i) / b
    return total * tl.abs(half) * libdevice.exp(-tail) / tl.sqrt(6.283185307179586 * b)
"""


def _polynomial(name: str, first: str, step: str) -> str:
    """p(n) from p(0) = 1, p(1) = first and p(k + 1) = step of x, k, p(k) = p and p(k - 1) = q."""
    return f"""
def {name}(x, n):
    q = tl.full([], 1.0, x.dtype) + (n - n) + (x - x)
    p = {first} + (n - n)
    k = tl.full([], 1.0, x.dtype)
    most = greatest_of(tl.where((n < {_MOST_DEGREE}) & (x == x), n, 0.0))
    while k < most:
        later = {step}
        q = tl.where(k < n, p, q)
        p = tl.where(k < n, later, p)
        k += 1.0
    value = tl.where(n < 1.0, 1.0, p)
    return tl.where(n < {_MOST_DEGREE}, value, float("nan"))
"""


def _incomplete(name: str, upper: bool) -> str:
    right, left = ("value", "1.0 - value") if upper else ("1.0 - value", "value")
    return f"""
def {name}(a, x):
    good = (a > 0) & (x > 0) & (a < float("inf")) & (x < float("inf"))
    s, t = tl.where(good, a, 1.0), tl.where(good, x, 1.0)
    large = s > 200.0
    is_upper = tl.where(large, t > s - 1.0, t >= s + 1.0)
    area = gamma_tail(tl.where(large, s, 300.0), tl.where(large, t, 300.0))
    s, t = tl.where(large, 1.0, s), tl.where(large, 1.0, t)
    density = gamma_density(s, t)
    series = density * gamma_series(s, tl.where(is_upper, s, t))
    fraction = density * s * gamma_fraction(s, tl.where(is_upper, t, s + 1.0))
    value = tl.where(large, area, tl.where(is_upper, fraction, series))
    return tl.where(good, tl.where(is_upper, {right}, {left}), float("nan"))
"""


LOOPS = {
    "gamma_density": """
def gamma_density(a, x):
    b = tl.maximum(a, 10.0)
    u, i = (x - b) / b, 1.0 / (b * b)
    tail = (1.0 / 12 - i * (1.0 / 360 - i * (1.0 / 1260 - i * (1.0 / 1680 - i / 1188)))) / b
    shape = u - libdevice.log1p(u)
    large = libdevice.exp(-b * shape - tail) / tl.sqrt(6.283185307179586 * b)
    small = libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a + 1.0))
    return tl.where(a < 10.0, small, large)
""",
    "gamma_term": """
def gamma_term(b, x, width, point, weight):
    u = (x + width * point - b) / b
    inside = u > -1.0
    safe = tl.where(inside, u, 0.0)
    return tl.where(inside, weight * libdevice.exp(-b * (safe - libdevice.log1p(safe))), 0.0)
""",
    "gamma_series": """
def gamma_series(a, x):
    n = a + 0.0 * x
    term, total = tl.full([], 1.0, n.dtype) + 0.0 * n, tl.full([], 1.0, n.dtype) + 0.0 * n
    while any_true(term > total * 1e-17):
        n += 1.0
        term *= x / n
        total += term
    return total
""",
    "gamma_fraction": """
def gamma_fraction(a, x):
    b = x + 1.0 - a
    d = 1.0 / b
    c = tl.full([], 1e300, b.dtype) + 0.0 * b
    value, change = d, d + 2.0
    k = tl.full([], 0.0, b.dtype)
    while any_true(tl.abs(change - 1.0) >= 1e-16) & (k < 10000.0):
        k += 1.0
        step = k * (a - k)
        b += 2.0
        d = step * d + b
        d = 1.0 / tl.where(d == 0, 1e-300, d)
        c = b + step / c
        c = tl.where(c == 0, 1e-300, c)
        change = c * d
        value *= change
    return value
""",
    "gamma_tail": _tail(),
    **{name: _incomplete(name, upper) for name, upper in (("igamma", False), ("igammac", True))},
    "hermite_h": _polynomial("hermite_h", "2.0 * x", "2.0 * (x * p - k * q)"),
    "hermite_he": _polynomial("hermite_he", "x", "x * p - k * q"),
    "laguerre_l": _polynomial(
        "laguerre_l", "1.0 - x", "((2.0 * k + 1.0 - x) * p - k * q) / (k + 1.0)"
    ),
    "legendre_p": _polynomial("legendre_p", "x", "((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0)"),
}
"""By name; they call each other. Operands are float64."""
