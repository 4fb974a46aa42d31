"""Derives the polynomials of aot/backends/cpp/include/aot/vec/math_*.h.

Remez exchange in mpmath for a polynomial that minimises the largest weighted error.
Run `python tools/minimax.py NAME...` to print the coefficients that the headers quote (lowest
degree first), `python tools/minimax.py` for all of them, and `python tools/minimax.py --tables` for
aot/vec/math_tables.h.

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
    """One approximation: `target` on [lo, hi] by a polynomial of degree `degree`.

    `weight(x)` >= 0 multiplies the error (1/target for a relative one); `fixed` are leading
    coefficients that are given, not fitted; `bits` is 24 or 53, the precision of the coefficients.
    """

    target: Function
    lo: str
    hi: str
    degree: int
    weight: Function
    fixed: tuple[str, ...] = ()
    bits: int = 24
    refit: bool = True  # fit the other coefficients again after rounding one


def round_to(value: mp.mpf, bits: int) -> mp.mpf:
    """Rounds to the nearest float32 (bits = 24) or float64 (bits = 53)."""
    code = "f" if bits == 24 else "d"
    return mp.mpf(struct.unpack(code, struct.pack(code, float(value)))[0])


def error_at(fit: Fit, p: list[mp.mpf], x: mp.mpf) -> mp.mpf:
    """The weighted error of the polynomial p at x."""
    return (mp.polyval(p[::-1], x) - fit.target(x)) * fit.weight(x)


def chebyshev(fit: Fit, count: int) -> list[mp.mpf]:
    """`count` points of [lo, hi], denser at the ends, none of them at 0."""
    lo, hi = mp.mpf(fit.lo), mp.mpf(fit.hi)
    return [lo + (hi - lo) * (1 - mp.cos(mp.pi * (k + 0.503) / count)) / 2 for k in range(count)]


def solve(fit: Fit, fixed: list[mp.mpf], points: list[mp.mpf]) -> list[mp.mpf]:
    """Coefficients whose weighted error alternates with one size on `points`."""
    size = len(points)
    a, b = mp.matrix(size, size), mp.matrix(size, 1)
    for i, x in enumerate(points):
        w = fit.weight(x)
        for j in range(size - 1):
            a[i, j] = w * x ** (j + len(fixed))
        a[i, size - 1] = (-1) ** i
        b[i] = w * (fit.target(x) - sum(c * x**k for k, c in enumerate(fixed)))
    return fixed + list(mp.lu_solve(a, b)[: size - 1])


def extrema(fit: Fit, p: list[mp.mpf], count: int) -> list[mp.mpf]:
    """`count` points where the error is largest, of alternating sign; fewer if there are fewer."""
    peaks: list[tuple[mp.mpf, mp.mpf]] = []
    for x in [mp.mpf(fit.lo), *chebyshev(fit, 40 * count), mp.mpf(fit.hi)]:
        e = error_at(fit, p, x)
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


def remez(fit: Fit, fixed: list[mp.mpf]) -> list[mp.mpf]:
    """The minimax polynomial with its first coefficients held at `fixed`."""
    count = fit.degree + 2 - len(fixed)
    p = solve(fit, fixed, chebyshev(fit, count))
    for _ in range(8):
        points = extrema(fit, p, count)
        if len(points) < count:
            break
        p = solve(fit, fixed, points)
    return p


def worst_error(fit: Fit, p: list[mp.mpf]) -> mp.mpf:
    """The largest weighted error, sampled densely."""
    return max(abs(error_at(fit, p, x)) for x in chebyshev(fit, 400))


def rounded(fit: Fit) -> tuple[list[mp.mpf], mp.mpf]:
    """The polynomial with every coefficient representable, and its largest error."""
    fixed = [mp.mpf(c) for c in fit.fixed]
    p = remez(fit, fixed)
    while len(fixed) <= fit.degree:
        fixed.append(round_to(p[len(fixed)], fit.bits))
        kept = fixed + p[len(fixed) :]
        fitted = remez(fit, fixed) if fit.refit and len(fixed) <= fit.degree else kept
        p = min(kept, fitted, key=lambda c: worst_error(fit, c))
    return p, worst_error(fit, p)


def ratio(f: Function, at_zero: mp.mpf | int) -> Function:
    """f(x)/x continued to x = 0."""
    return lambda x: f(x) / x if x != 0 else mp.mpf(at_zero)


TWO_OVER_SQRT_PI = 2 / mp.sqrt(mp.pi)


def tail(f: Function, lead: Callable[[mp.mpf], mp.mpf], power: int, at_zero: mp.mpf) -> Function:
    """(f(x) - lead(x)) / x**power, continued to x = 0."""
    return lambda x: (f(x) - lead(x)) / x**power if x != 0 else at_zero


def tail_weight(f: Function, power: int) -> Function:
    """Makes an error of `tail` relative to f."""
    return lambda x: abs(x**power / f(x)) if x != 0 else mp.mpf(0)


def even_tail(f: Function, at_zero: mp.mpf) -> Function:
    """(f(x) - x) / x**3 for an odd f, as a function of s = x * x."""

    def value(s: mp.mpf) -> mp.mpf:
        x = mp.sqrt(s)
        return (f(x) - x) / x**3 if s > mp.mpf("1e-12") else at_zero

    return value


def even_weight(f: Function) -> Function:
    """Makes an error of `even_tail` relative to f."""
    return lambda s: mp.sqrt(s) ** 3 / f(mp.sqrt(s)) if s != 0 else mp.mpf(0)


def erf_log(x: mp.mpf) -> mp.mpf:
    """-log(1 - erf(x)) / x."""
    return -mp.log(mp.erfc(x)) / x if x != 0 else TWO_OVER_SQRT_PI


def erf_log_weight(x: mp.mpf) -> mp.mpf:
    """Makes an error of `erf_log` relative to erf."""
    return x * mp.erfc(x) / mp.erf(x) if x != 0 else 1 / TWO_OVER_SQRT_PI


def log_quotient(s: mp.mpf) -> mp.mpf:
    """(log1p(f) - 2 z) / z**3 with z = f / (2 + f), as a function of s = z * z."""
    z = mp.sqrt(s)
    return (mp.log((1 + z) / (1 - z)) - 2 * z) / z**3 if s > mp.mpf("1e-12") else mp.mpf(2) / 3


def log_fifth(s: mp.mpf) -> mp.mpf:
    """(log1p(f) - 2 z - 2 z**3 / 3) / z**5 as `log_quotient`, whose next term it begins with."""
    near = mp.mpf(2) / 5 + 2 * s / 7
    return (log_quotient(s) - mp.mpf(2) / 3) / s if s > mp.mpf("1e-12") else near


def cos_tail(s: mp.mpf) -> mp.mpf:
    """(cos(x) - 1 + x*x/2) / x**4 as a function of s = x * x."""
    return (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2 if s > mp.mpf("1e-12") else mp.mpf(1) / 24


def erfinv_quotient(center: str, power: int) -> Function:
    """erfinv(x) / x as a function of t = w**(1 / power) - center, w = -log(1 - x * x)."""

    def value(t: mp.mpf) -> mp.mpf:
        w = (t + mp.mpf(center)) ** power
        x = mp.sqrt(-mp.expm1(-w))
        return mp.erfinv(x) / x if w > mp.mpf("1e-30") else 1 / TWO_OVER_SQRT_PI

    return value


def erfinv_fit(lo: str, hi: str, center: str, degree: int, power: int, bits: int) -> Fit:
    """A fit of `erfinv_quotient`, w**(1 / power) in [lo, hi]."""
    target = erfinv_quotient(center, power)
    low, high = (str(mp.mpf(end) - mp.mpf(center)) for end in (lo, hi))
    return Fit(target, low, high, degree, lambda t: 1 / target(t), bits=bits, refit=False)


def lgamma_quotient(t: mp.mpf) -> mp.mpf:
    """lgamma(2 + t) / t."""
    return mp.loggamma(2 + t) / t if t != 0 else mp.digamma(2)


def named_fits() -> dict[str, Fit]:
    """Every fit that the headers quote, by name."""
    ln2, third, half = mp.log(2), mp.mpf(1) / 3, mp.mpf(1) / 2
    exp2m1, expm1_2 = (lambda x: mp.expm1(x * ln2)), (lambda x: mp.expm1(2 * x))
    log_lead = tail(mp.log1p, lambda x: x - x * x / 2, 3, third)
    exp_tail = tail(mp.expm1, lambda x: x, 2, half)
    exp_weight = tail_weight(mp.expm1, 2)
    double_tail = tail(expm1_2, lambda x: 2 * x, 2, mp.mpf(2))
    r, q = "0.3466", "0.6169"  # ln2 / 2 and (pi / 4)**2, a little more
    odd, odd_weight = even_tail, even_weight
    return {
        "exp": Fit(mp.exp, f"-{r}", r, 6, lambda x: mp.exp(-x), ("1", "1")),
        "exp2": Fit(ratio(exp2m1, ln2), "-0.5", "0.5", 5, lambda x: abs(x) / mp.power(2, x)),
        "expm1": Fit(exp_tail, f"-{r}", r, 4, exp_weight),
        "exp16": Fit(exp_tail, "-0.0217", "0.0217", 1, lambda x: x * x, refit=False),
        "expm1_2": Fit(double_tail, "-0.1733", "0.1733", 4, tail_weight(expm1_2, 2)),
        "log": Fit(log_lead, "-0.25", "0.5", 7, tail_weight(mp.log1p, 3)),
        "erf": Fit(erf_log, "0", "3.95", 8, erf_log_weight),
        "erf64": Fit(erf_log, "0", "5.93", 22, erf_log_weight, bits=53, refit=False),
        "sin": Fit(odd(mp.sin, -half * third), "0", q, 3, odd_weight(mp.sin)),
        "cos": Fit(cos_tail, "0", q, 2, lambda s: s * s / mp.cos(mp.sqrt(s))),
        "asin": Fit(odd(mp.asin, half * third), "0", "0.25", 5, odd_weight(mp.asin)),
        "atan": Fit(odd(mp.atan, -third), "0", "1", 8, odd_weight(mp.atan)),
        "asin64": Fit(odd(mp.asin, half * third), "0", "0.25", 12, odd_weight(mp.asin), bits=53),
        "atan64": Fit(odd(mp.atan, -third), "0", "1", 20, odd_weight(mp.atan), bits=53),
        "sinh": Fit(odd(mp.sinh, half * third), "0", "1", 3, odd_weight(mp.sinh)),
        "erfinv": erfinv_fit("0", "5", "2.5", 9, 1, 24),
        "erfinv_tail": erfinv_fit("2.236", "4.1", "3.1", 8, 2, 24),
        "erfinv64": erfinv_fit("0", "6.25", "3.125", 22, 1, 53),
        "erfinv64_tail": erfinv_fit("2.5", "4", "3.25", 18, 2, 53),
        "erfinv64_far": erfinv_fit("4", "6.1", "5", 17, 2, 53),
        "lgamma64": Fit(
            lgamma_quotient,
            "-0.5",
            "0.5",
            20,
            lambda t: 1 / lgamma_quotient(t),
            bits=53,
            refit=False,
        ),
        "exp64": Fit(exp_tail, f"-{r}", r, 10, exp_weight, bits=53),
        "log64": Fit(log_quotient, "0", "0.0401", 8, lambda s: s / 2, bits=53),
        "log_two64": Fit(log_fifth, "0", "0.0401", 7, lambda s: s * s / 2, bits=53),
        "pow_log": Fit(log_lead, "-0.25", "0.5", 9, tail_weight(mp.log1p, 3), bits=53),
        "pow_exp": Fit(
            ratio(exp2m1, ln2), "-0.5", "0.5", 5, lambda x: abs(x) / mp.power(2, x), bits=53
        ),
    }


# ---- tables of polynomials, for machines that look up 32 floats in one instruction ----
TABLE_DEGREE = 5
HEADER = """// Generated by `python tools/minimax.py --tables`.
// Polynomials of degree 5 in x - center on 32 intervals, four to a power of two, the first one
// reaching down to 0. An interval's column is the low 5 bits of (the bits of its lower end) >> 21.
// Row 0 holds the centers, chosen so that the function's value there is close to a float32; row
// 1 + k holds the coefficients of degree k.
// Also 2^(i/16).
#ifndef AOT_VEC_MATH_TABLES_H_
#define AOT_VEC_MATH_TABLES_H_

namespace aot {
namespace detail {
"""
FOOTER = """
}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_MATH_TABLES_H_"""


def accurate_center(f: Function, middle: mp.mpf) -> mp.mpf:
    """A float32 near `middle` where f is nearly a float32 (S. Gal's accurate tables)."""
    step = mp.power(2, mp.floor(mp.log(middle, 2)) - 23)
    near = [round_to(middle, 24) + k * step for k in range(-150, 151)]
    return min(near, key=lambda c: abs(f(c) - round_to(f(c), 24)))


def piece(f: Function, lo: mp.mpf, hi: mp.mpf, slope: str) -> list[mp.mpf]:
    """The center and coefficients for [lo, hi]; lo = 0 stands for the interval around 0."""
    center = accurate_center(f, (lo + hi) / 2) if lo != 0 else mp.mpf(0)
    fit = Fit(
        target=lambda d: f(center + d),
        lo=str(lo - center),
        hi=str(hi - center),
        degree=TABLE_DEGREE,
        weight=lambda d: 1 / f(center + d) if center + d != 0 else mp.mpf(1),
    )
    # Away from the center every coefficient but the first is damped by |d| <= center / 8: plain
    # rounding is enough.
    fixed = [] if lo != 0 else [mp.mpf(0), mp.mpf(slope)]
    coefficients = [round_to(c, 24) for c in remez(fit, fixed)]
    worst = worst_error(fit, coefficients)
    print(
        f"[{mp.nstr(lo, 4)}, {mp.nstr(hi, 4)}]: 2^{mp.nstr(mp.log(worst, 2), 4)}", file=sys.stderr
    )
    return [center, *coefficients]


def table(f: Function, first_exponent: int, slope: str) -> list[list[mp.mpf]]:
    """Rows (center, degree 0, 1, ...) of 32 columns for [2**first, 2**(first + 8))."""
    columns: list[list[mp.mpf]] = [[] for _ in range(32)]
    for exponent in range(first_exponent, first_exponent + 8):
        for quarter in range(4):
            lo = mp.power(2, exponent) * (4 + quarter) / 4
            hi = mp.power(2, exponent) * (5 + quarter) / 4
            first = exponent == first_exponent and quarter == 0
            column = ((127 + exponent) & 7) * 4 + quarter
            columns[column] = piece(f, mp.mpf(0) if first else lo, hi, slope)
    return [list(row) for row in zip(*columns, strict=True)]


def array(name: str, rows: list[list[mp.mpf]]) -> str:
    """C++ text of a constant table."""
    size = f"[{len(rows)}][{len(rows[0])}]" if len(rows) > 1 else f"[{len(rows[0])}]"
    blocks = []
    for row in rows:
        words = [f"{float(v).hex()}f" for v in row]
        lines = [", ".join(words[k : k + 4]) for k in range(0, len(words), 4)]
        blocks.append("{" + ",\n ".join(lines) + "}" if len(rows) > 1 else ",\n".join(lines))
    body = ",\n".join(blocks)
    return f"alignas(64) constexpr float {name}{size} = {{\n{body}}};"


def print_tables() -> None:
    """Prints aot/vec/math_tables.h (to be formatted with clang-format)."""
    powers = [round_to(mp.power(2, mp.mpf(i) / 16), 24) for i in range(16)]
    print(HEADER)
    print(array("kPowerTable", [powers]))
    print(array("kTanhTable", table(mp.tanh, -4, "1")))
    slope = str(round_to(TWO_OVER_SQRT_PI, 24))
    print(array("kErfTable", table(mp.erf, -5, slope)))
    print(FOOTER)


def main(names: list[str]) -> None:
    """Prints the named fits (all when none is named), or the tables."""
    if names == ["--tables"]:
        print_tables()
        return
    fits = named_fits()
    for name in names or sorted(fits):
        coefficients, worst = rounded(fits[name])
        suffix = "f" if fits[name].bits == 24 else ""
        print(f"{name}: error {mp.nstr(worst, 3)} = 2^{mp.nstr(mp.log(worst, 2), 4)}")
        print("   ", ", ".join(f"{float(c).hex()}{suffix}" for c in coefficients))


if __name__ == "__main__":
    main(sys.argv[1:])
