"""Derives the Chebyshev series of aot/lowering/special_tables.py.

A function that is smooth on an interval is interpolated at Chebyshev points in mpmath; what lies
below float64's precision is dropped (C. Clenshaw, "Chebyshev series for mathematical functions",
1962). Run `python tools/chebyshev.py > aot/lowering/special_tables.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import mpmath as mp

mp.mp.dps = 60
Function = Callable[[mp.mpf], mp.mpf]
Fit = tuple[Function, str, str]
"""A function and the interval of its argument."""

_POINTS = 80
_DROPPED = mp.mpf("2e-17")
"""Of the largest coefficient."""

_LINE = 3


def series(target: Function, low: str, high: str, dropped: mp.mpf = _DROPPED) -> list[float]:
    """Coefficients c of sum c[k] T_k(u), u in [-1, 1] over [low, high]; c[0] already halved.

    Raises:
        ValueError: The points do not resolve the function on [low, high].
    """
    lo, hi = mp.mpf(low), mp.mpf(high)
    nodes = [mp.cos(mp.pi * (j + mp.mpf(1) / 2) / _POINTS) for j in range(_POINTS)]
    values = [target((lo + hi) / 2 + (hi - lo) / 2 * u) for u in nodes]
    found = []
    for k in range(_POINTS):
        angles = [mp.cos(mp.pi * k * (j + mp.mpf(1) / 2) / _POINTS) for j in range(_POINTS)]
        found.append(2 * mp.fdot(values, angles) / _POINTS)
    found[0] /= 2
    bound = dropped * max(abs(c) for c in found)
    last = max(k for k, c in enumerate(found) if abs(c) > bound)
    if last > _POINTS - 8:
        raise ValueError(f"{_POINTS} points do not resolve the function on [{low}, {high}]")
    return [float(c) for c in found[: last + 1]]


def hankel(order: int, *, sine: bool) -> Function:
    """P (or 8/x of Q) of Hankel's expansion as a function of (8/x)**2, DLMF 10.17.3."""

    def value(v: mp.mpf) -> mp.mpf:
        x = 8 / mp.sqrt(v)
        phase = x - (2 * order + 1) * mp.pi / 4
        c, s = mp.cos(phase), mp.sin(phase)
        j, y = mp.besselj(order, x), mp.bessely(order, x)
        scale = mp.sqrt(mp.pi * x / 2)
        return scale * (y * c - j * s) * x / 8 if sine else scale * (j * c + y * s)

    return value


def in_square(f: Function, power: int = 0) -> Function:
    """f(x) / x**power as a function of x**2."""
    return lambda s: f(mp.sqrt(s)) / mp.sqrt(s) ** power


def regular_y(order: int) -> Function:
    """Y without its logarithm and pole, DLMF 10.8.1."""

    def value(x: mp.mpf) -> mp.mpf:
        singular = mp.log(x) * mp.besselj(order, x) - (1 / x if order else 0)
        return mp.bessely(order, x) - 2 / mp.pi * singular

    return value


def regular_k(order: int) -> Function:
    """K without its logarithm and pole, DLMF 10.31.1."""

    def value(x: mp.mpf) -> mp.mpf:
        logarithm = mp.log(x) * mp.besseli(order, x)
        return mp.besselk(1, x) - logarithm - 1 / x if order else mp.besselk(0, x) + logarithm

    return value


def decayed_k(order: int) -> Function:
    """exp(x) sqrt(x) K(x) as a function of 2/x."""

    def value(v: mp.mpf) -> mp.mpf:
        x = 2 / v
        return mp.exp(x) * mp.sqrt(x) * mp.besselk(order, x)

    return value


_AIRY_WAVE = mp.mpf(12)
"""The zeta = 2/3 |x|**(3/2) from which on Airy's function is written as a wave."""


def airy_decayed(v: mp.mpf) -> mp.mpf:
    """2 sqrt(pi) x**(1/4) exp(zeta) Ai(x) as a function of 1/zeta, DLMF 9.7.5."""
    zeta = 1 / v
    x = (3 * zeta / 2) ** (mp.mpf(2) / 3)
    return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(zeta) * mp.airyai(x)


def airy_wave(*, sine: bool) -> Function:
    """The factors of Ai(-x)'s cosine and (times zeta) sine as functions of 1/zeta**2, DLMF 9.7.9.

    Through Bessel functions of order 1/3 (DLMF 9.6.6, 9.6.8), which mpmath knows far out.
    """
    third = mp.mpf(1) / 3

    def value(v: mp.mpf) -> mp.mpf:
        zeta = 1 / mp.sqrt(v)
        scale = mp.sqrt(mp.pi * zeta / 6)
        c, s = mp.cos(zeta - mp.pi / 4), mp.sin(zeta - mp.pi / 4)
        plus, minus = mp.besselj(third, zeta), mp.besselj(-third, zeta)
        a, b = scale * (plus + minus), scale * mp.sqrt(3) * (minus - plus)
        return (a * s + b * c) * zeta if sine else a * c - b * s

    return value


def scaled_erfc(t: mp.mpf) -> mp.mpf:
    """(1 + 2 x) exp(x**2) erfc(x) for x = 3.75 (1 + t) / (1 - t).

    M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x", 1981.
    """
    x = mp.mpf("3.75") * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def normal_quantile(p: mp.mpf) -> mp.mpf:
    """The x at which the normal distribution function is p <= 1/2."""
    r = mp.sqrt(-2 * mp.log(p))
    x = -mp.sqrt(max(r * r - mp.log(2 * mp.pi) - 2 * mp.log(r + mp.mpf("0.1")), mp.mpf("0.01")))
    for _ in range(60):
        step = (mp.erfc(-x / mp.sqrt(2)) / 2 - p) * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
        step /= 1 + x * step / 2
        x -= step
        if abs(step) < mp.mpf(10) ** -50:
            break
    return x


def quantile_tail(v: mp.mpf) -> mp.mpf:
    """r (r + x) - log(r) for the quantile x of p = exp(-r**2 / 2), as a function of 1/r."""
    r = 1 / v
    return r * (r + normal_quantile(mp.exp(-r * r / 2))) - mp.log(r)


def fits() -> Mapping[str, Fit]:
    """Every series, by its name in the table."""
    found: dict[str, Fit] = {}
    for order in (0, 1):
        j = lambda x, order=order: mp.besselj(order, x)  # noqa: E731
        i = lambda x, order=order: mp.besseli(order, x)  # noqa: E731
        found[f"J{order}_NEAR"] = (in_square(j, order), "0", "64")
        found[f"Y{order}_NEAR"] = (in_square(regular_y(order), order), "0", "64")
        found[f"HANKEL{order}_COS"] = (hankel(order, sine=False), "0", "1")
        found[f"HANKEL{order}_SIN"] = (hankel(order, sine=True), "0", "1")
        found[f"I{order}_NEAR"] = (in_square(i, order), "0", "4")
        found[f"K{order}_NEAR"] = (in_square(regular_k(order), order), "0", "4")
        found[f"K{order}_FAR"] = (decayed_k(order), "0", "1")
    wave, decay = (mp.nstr((1.5 * z) ** (mp.mpf(2) / 3), 40) for z in (_AIRY_WAVE, 1))
    found["AIRY_NEAR"] = (mp.airyai, f"-{wave}", decay)
    found["AIRY_FAR"] = (airy_decayed, "0", "1")
    found["AIRY_COS"] = (airy_wave(sine=False), "0", mp.nstr(1 / _AIRY_WAVE**2, 40))
    found["AIRY_SIN"] = (airy_wave(sine=True), "0", mp.nstr(1 / _AIRY_WAVE**2, 40))
    found["ERFCX"] = (scaled_erfc, "-1", "1")
    return found


def rows(name: str, coefficients: list[float]) -> list[str]:
    """A series as a tuple in Python."""
    texts = [repr(c) + "," for c in coefficients]
    lines = [texts[k : k + _LINE] for k in range(0, len(texts), _LINE)]
    return [f"{name} = (", *("    " + " ".join(line) for line in lines), ")"]


HEADER = '''"""Chebyshev series of special functions; generated by `python tools/chebyshev.py`.

What each one is a series of, and of which variable, is said there.
"""

# fmt: off'''


def main() -> None:
    """Prints the module."""
    lines = [HEADER]
    for name, (target, low, high) in fits().items():
        lines += rows(name, series(target, low, high))
    # One step of Halley's method follows this one, which triples its digits.
    lines += rows("QUANTILE_TAIL", series(quantile_tail, "0.0256", "0.55", mp.mpf("3e-7")))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
