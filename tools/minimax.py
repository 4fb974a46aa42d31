"""Derives the polynomials of aot/backends/cpp/include/aot/vec/math_*.h.

Remez exchange in mpmath for P(x) or P(x)/Q(x) with Q(0) = 1, minimising the largest weighted error.
Run `python tools/minimax.py NAME...` to print the coefficients that the headers quote (lowest
degree first), `python tools/minimax.py` for all of them.

Sources of the method: E. Remez (1934) for the exchange; W. Cody and W. Waite, "Software Manual for
the Elementary Functions" (1980), for the argument reductions that the intervals below come from;
coefficients are rounded to the target format one at a time, lowest degree first, and the
remaining ones are fitted again, as in N. Brisebarre and S. Chevillard (2007), so that rounding a
coefficient is compensated by those after it.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp

mp.mp.prec = 160
Function = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True)
class Fit:
    """One approximation: `target` on [lo, hi] by P of degree `num` over Q of degree `den`.

    `weight(x)` multiplies the error (1/target for a relative one); `fixed` are leading coefficients
    of P that are given, not fitted; `bits` is 24 or 53, the precision of the coefficients.
    """

    target: Function
    lo: str
    hi: str
    num: int
    den: int
    weight: Function
    fixed: tuple[str, ...] = ()
    bits: int = 24
    cluster: int = 1  # the first guess of the points is denser near lo: lo + (hi - lo) * t**cluster


def round_to(value: mp.mpf, bits: int) -> mp.mpf:
    """Rounds to the nearest float32 (bits = 24) or float64 (bits = 53)."""
    code = "f" if bits == 24 else "d"
    return mp.mpf(struct.unpack(code, struct.pack(code, float(value)))[0])


def error_at(fit: Fit, p: list[mp.mpf], q: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    """The weighted error of P/Q at x."""
    value = mp.polyval(p[::-1], x) / mp.polyval(q[::-1], x)
    return (value - fit.target(x)) * fit.weight(x)


def solve(
    fit: Fit, fixed: list[mp.mpf], points: list[mp.mpf]
) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """Coefficients whose error alternates with one size on `points`: (P, Q, that size)."""
    free = fit.num + 1 - len(fixed)
    size = free + fit.den + 1
    level = mp.mpf(0)
    for _ in range(1 if fit.den == 0 else 12):
        a, b = mp.matrix(size, size), mp.matrix(size, 1)
        for i, x in enumerate(points):
            f = fit.target(x) + (-1) ** i * level / fit.weight(x)
            for j in range(free):
                a[i, j] = x ** (j + len(fixed))
            for j in range(fit.den):
                a[i, free + j] = -f * x ** (j + 1)
            a[i, size - 1] = -((-1) ** i) / fit.weight(x)
            b[i] = fit.target(x) - sum(c * x**k for k, c in enumerate(fixed))
        c = mp.lu_solve(a, b)
        level = c[size - 1]
    return fixed + list(c[:free]), [mp.mpf(1), *c[free : free + fit.den]], level


def extrema(fit: Fit, p: list[mp.mpf], q: list[mp.mpf], count: int) -> list[mp.mpf]:
    """`count` points of alternating sign where the error is largest."""
    lo, hi = mp.mpf(fit.lo), mp.mpf(fit.hi)
    steps = 60 * count
    nodes = [(1 - mp.cos(mp.pi * k / steps)) / 2 for k in range(steps + 1)]
    grid = [lo + (hi - lo) * t**fit.cluster for t in nodes]
    peaks: list[tuple[mp.mpf, mp.mpf]] = []
    for x in grid:
        e = error_at(fit, p, q, x)
        if e == 0:
            continue
        if peaks and mp.sign(peaks[-1][1]) == mp.sign(e):
            if abs(e) > abs(peaks[-1][1]):
                peaks[-1] = (x, e)
        else:
            peaks.append((x, e))
    while len(peaks) > count:
        peaks.pop(0 if abs(peaks[0][1]) < abs(peaks[-1][1]) else -1)
    return [x for x, _ in peaks]


def remez(fit: Fit, fixed: list[mp.mpf]) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """Minimax (P, Q, error) with the first coefficients of P held at `fixed`."""
    lo, hi = mp.mpf(fit.lo), mp.mpf(fit.hi)
    count = fit.num + 1 - len(fixed) + fit.den + 1
    nodes = [(1 - mp.cos(mp.pi * (k + 0.5) / count)) / 2 for k in range(count)]
    points = [lo + (hi - lo) * t**fit.cluster for t in nodes]
    p, q, level = solve(fit, fixed, points)
    for _ in range(8):
        better = extrema(fit, p, q, count)
        if len(better) < count:
            break
        points = better
        p, q, level = solve(fit, fixed, points)
    return p, q, abs(level)


def rounded(fit: Fit) -> tuple[list[mp.mpf], list[mp.mpf], mp.mpf]:
    """(P, Q, largest error) with every coefficient representable."""
    fixed = [mp.mpf(c) for c in fit.fixed]
    p, q, _ = remez(fit, fixed)
    if fit.den == 0:
        for k in range(len(fixed), fit.num):
            fixed.append(round_to(p[k], fit.bits))
            p, q, _ = remez(fit, fixed)
    p = [round_to(c, fit.bits) for c in p]
    q = [round_to(c, fit.bits) for c in q]
    lo, hi = mp.mpf(fit.lo), mp.mpf(fit.hi)
    worst = max(abs(error_at(fit, p, q, lo + (hi - lo) * k / 997)) for k in range(1, 997))
    return p, q, worst


def ratio(f: Function, at_zero: mp.mpf | int) -> Function:
    """f(x)/x continued to x = 0."""
    return lambda x: f(x) / x if x != 0 else mp.mpf(at_zero)


def in_square(f: Function, at_zero: mp.mpf) -> Function:
    """The even function f(x)/x as a function of x squared."""
    return lambda s: f(mp.sqrt(s)) / mp.sqrt(s) if s != 0 else at_zero


TWO_OVER_SQRT_PI = 2 / mp.sqrt(mp.pi)


def relative(f: Function) -> Function:
    """The weight that makes the error relative."""
    return lambda x: 1 / f(x)


def _named() -> dict[str, Fit]:
    tanh = in_square(mp.tanh, mp.mpf(1))
    erf = in_square(mp.erf, TWO_OVER_SQRT_PI)
    log_tail = lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if f != 0 else mp.mpf(1) / 3  # noqa: E731
    fits = {
        "log": Fit(
            log_tail, "-0.25", "0.5", 8, 0, lambda f: f**3 / mp.log1p(f) if f else mp.mpf(0)
        ),
        "exp": Fit(mp.exp, "-0.3466", "0.3466", 6, 0, lambda x: mp.exp(-x), ("1", "1")),
        "exp5": Fit(mp.exp, "-0.3466", "0.3466", 5, 0, lambda x: mp.exp(-x), ("1", "1")),
        "tanh": Fit(tanh, "0", "81.5", 6, 3, relative(tanh), cluster=3),
        "tanh64": Fit(tanh, "0", "81.5", 5, 4, relative(tanh), cluster=3),
        "erf": Fit(erf, "0", "15.6", 6, 4, relative(erf), cluster=3),
    }
    return fits


def main(names: list[str]) -> None:
    """Prints the named fits (all when none is named)."""
    fits = _named()
    for name in names or sorted(fits):
        fit = fits[name]
        p, q, worst = rounded(fit)
        suffix = "f" if fit.bits == 24 else ""
        print(f"{name}: error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}")
        for letter, coefficients in (("P", p), ("Q", q if fit.den else [])):
            for k, c in enumerate(coefficients):
                print(f"  {letter}{k} {float(c).hex()}{suffix}  {mp.nstr(c, 17)}")


if __name__ == "__main__":
    main(sys.argv[1:])
