"""Functions whose loops depend on the data; every lane waits for the slowest of its tile.

The formulas are those of aot/vec/math_loops.h, which names their sources. Operands are float64.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from aot.backends.triton.device.integers import any_true, greatest_of


@triton.jit
def gamma_density(a, x):
    """x^a exp(-x) / gamma(a + 1); without loss for large a."""
    b = tl.maximum(a, 10.0)
    u, i = (x - b) / b, 1.0 / (b * b)
    tail = (1.0 / 12 - i * (1.0 / 360 - i * (1.0 / 1260 - i * (1.0 / 1680 - i / 1188)))) / b
    shape = u - libdevice.log1p(u)
    large = libdevice.exp(-b * shape - tail) / tl.sqrt(6.283185307179586 * b)
    small = libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a + 1.0))
    return tl.where(a < 10.0, small, large)


@triton.jit
def gamma_term(b, x, width, point, weight):
    """A point of the quadrature of `gamma_tail`: the density there, relative to its greatest."""
    u = (x + width * point - b) / b
    inside = u > -1.0
    safe = tl.where(inside, u, 0.0)
    return tl.where(inside, weight * libdevice.exp(-b * (safe - libdevice.log1p(safe))), 0.0)


@triton.jit
def gamma_series(a, x):
    """The lower side's power series, relative to the density."""
    n = a + 0.0 * x
    term, total = tl.full([], 1.0, n.dtype) + 0.0 * n, tl.full([], 1.0, n.dtype) + 0.0 * n
    while any_true(term > total * 1e-17):
        n += 1.0
        term *= x / n
        total += term
    return total


@triton.jit
def gamma_fraction(a, x):
    """The upper side's continued fraction, relative to the density (Lentz)."""
    b = x + 1.0 - a
    d = 1.0 / b
    c = tl.full([], 1e300, b.dtype) + 0.0 * b
    value, change = d, d + 2.0
    k = tl.full([], 0.0, b.dtype)
    while any_true(tl.abs(change - 1.0) >= 5e-16) & (k < 10000.0):
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


@triton.jit
def gamma_tail(a, x):
    """The area under the density from x outwards on its shorter side, for large a."""
    b = a - 1.0 + 0.0 * x
    root = tl.sqrt(b)
    right = tl.maximum(b + 11.0 * root, x + 5.5 * root)
    left = tl.maximum(tl.minimum(b - 8.8 * root, x - 5.5 * root), 0.0)
    half = (tl.where(x > b, right, left) - x) * 0.5
    total = 0.0 * b
    # Gauss and Legendre's rule of 24 points: 1 + point, and weight.
    total += gamma_term(b, x, half, 0.004812780002978689, 0.01234122979998869)
    total += gamma_term(b, x, half, 0.025271444028690526, 0.02853138862893356)
    total += gamma_term(b, x, half, 0.0617254479972672, 0.04427743881741941)
    total += gamma_term(b, x, half, 0.11358447299559893, 0.05929858491543636)
    total += gamma_term(b, x, half, 0.17999801402609705, 0.07334648141108016)
    total += gamma_term(b, x, half, 0.25987580842144564, 0.0861901615319532)
    total += gamma_term(b, x, half, 0.35190634806302445, 0.09761865210411393)
    total += gamma_term(b, x, half, 0.45457852861116044, 0.10744427011596556)
    total += gamma_term(b, x, half, 0.5662064923739549, 0.11550566805372552)
    total += gamma_term(b, x, half, 0.6849573203038366, 0.1216704729278033)
    total += gamma_term(b, x, half, 0.8088811325263837, 0.12583745634682825)
    total += gamma_term(b, x, half, 0.9359431071373944, 0.12793819534675202)
    total += gamma_term(b, x, half, 1.0640568928626055, 0.12793819534675202)
    total += gamma_term(b, x, half, 1.1911188674736164, 0.12583745634682825)
    total += gamma_term(b, x, half, 1.3150426796961634, 0.1216704729278033)
    total += gamma_term(b, x, half, 1.433793507626045, 0.11550566805372552)
    total += gamma_term(b, x, half, 1.5454214713888397, 0.10744427011596556)
    total += gamma_term(b, x, half, 1.6480936519369755, 0.09761865210411393)
    total += gamma_term(b, x, half, 1.7401241915785544, 0.0861901615319532)
    total += gamma_term(b, x, half, 1.820001985973903, 0.07334648141108016)
    total += gamma_term(b, x, half, 1.886415527004401, 0.05929858491543636)
    total += gamma_term(b, x, half, 1.9382745520027327, 0.04427743881741941)
    total += gamma_term(b, x, half, 1.9747285559713095, 0.02853138862893356)
    total += gamma_term(b, x, half, 1.9951872199970213, 0.01234122979998869)
    i = 1.0 / (b * b)
    tail = (1.0 / 12 - (1.0 / 360 - i / 1260) * i) / b
    return total * tl.abs(half) * libdevice.exp(-tail) / tl.sqrt(6.283185307179586 * b)


@triton.jit
def gamma_sides(a, x):
    """(operands are in the domain, the side that is known is the upper one, its area)."""
    good = (a > 0) & (x > 0) & (a < float("inf")) & (x < float("inf"))
    s, t = tl.where(good, a, 1.0), tl.where(good, x, 1.0)
    large = s > 200.0
    is_upper = tl.where(large, t > s - 1.0, t >= s + 1.0)
    area = gamma_tail(tl.where(large, s, 300.0), tl.where(large, t, 300.0))
    s, t = tl.where(large, 1.0, s), tl.where(large, 1.0, t)
    density = gamma_density(s, t)
    # Lanes of the other side take operands that need no steps.
    series = density * gamma_series(s, tl.where(is_upper, 0.0, t))
    own, outside = tl.where(is_upper, s, 1.0), tl.where(is_upper, t, 2.0)
    fraction = density * s * gamma_fraction(own, outside)
    value = tl.where(large, area, tl.where(is_upper, fraction, series))
    return good, is_upper, value


@triton.jit
def igamma(a, x):
    """The regularised lower incomplete gamma function."""
    good, is_upper, value = gamma_sides(a, x)
    return tl.where(good, tl.where(is_upper, 1.0 - value, value), float("nan"))


@triton.jit
def igammac(a, x):
    """The regularised upper incomplete gamma function."""
    good, is_upper, value = gamma_sides(a, x)
    return tl.where(good, tl.where(is_upper, value, 1.0 - value), float("nan"))


@triton.jit
def by_recurrence(x, n, first, step):
    """The polynomial p(n) from p(0) = 1, p(1) = first and p(k + 1) = step(x, k, p(k), p(k - 1)).

    NaN for degrees from 2^31 on, whose loops would not end.
    """
    q = tl.full([], 1.0, x.dtype) + (n - n) + (x - x)
    p = first + (n - n)
    k = tl.full([], 1.0, x.dtype)
    most = greatest_of(tl.where((n < 2147483648.0) & (x == x), n, 0.0))
    while k < most:
        later = step(x, k, p, q)
        q = tl.where(k < n, p, q)
        p = tl.where(k < n, later, p)
        k += 1.0
    value = tl.where(n < 1.0, 1.0, p)
    return tl.where(n < 2147483648.0, value, float("nan"))


@triton.jit
def chebyshev_step(x, k, p, q):
    """The polynomial of degree k + 1 from those of k and k - 1, for all four kinds."""
    return 2.0 * x * p - q


@triton.jit
def chebyshev_t(x, n):
    """Chebyshev's polynomial of the first kind, of degree n."""
    return by_recurrence(x, n, x, chebyshev_step)


@triton.jit
def chebyshev_u(x, n):
    """Chebyshev's polynomial of the second kind, of degree n."""
    return by_recurrence(x, n, 2.0 * x, chebyshev_step)


@triton.jit
def chebyshev_v(x, n):
    """Chebyshev's polynomial of the third kind, of degree n."""
    return by_recurrence(x, n, 2.0 * x - 1.0, chebyshev_step)


@triton.jit
def chebyshev_w(x, n):
    """Chebyshev's polynomial of the fourth kind, of degree n."""
    return by_recurrence(x, n, 2.0 * x + 1.0, chebyshev_step)


@triton.jit
def hermite_h(x, n):
    """Hermite's polynomial of degree n, as physicists have it."""
    return by_recurrence(x, n, 2.0 * x, hermite_h_step)


@triton.jit
def hermite_h_step(x, k, p, q):
    """H(k + 1) from H(k) and H(k - 1)."""
    return 2.0 * (x * p - k * q)


@triton.jit
def hermite_he(x, n):
    """Hermite's polynomial of degree n, as statisticians have it."""
    return by_recurrence(x, n, x, hermite_he_step)


@triton.jit
def hermite_he_step(x, k, p, q):
    """He(k + 1) from He(k) and He(k - 1)."""
    return x * p - k * q


@triton.jit
def laguerre_l(x, n):
    """Laguerre's polynomial of degree n."""
    return by_recurrence(x, n, 1.0 - x, laguerre_l_step)


@triton.jit
def laguerre_l_step(x, k, p, q):
    """L(k + 1) from L(k) and L(k - 1)."""
    return ((2.0 * k + 1.0 - x) * p - k * q) / (k + 1.0)


@triton.jit
def legendre_p(x, n):
    """Legendre's polynomial of degree n."""
    return by_recurrence(x, n, x, legendre_p_step)


@triton.jit
def legendre_p_step(x, k, p, q):
    """P(k + 1) from P(k) and P(k - 1)."""
    return ((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0)
