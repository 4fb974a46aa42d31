"""Functions whose loops depend on the data; every lane waits for the slowest of its tile.

The formulas are those of aot/vec/math_loops.h, which names their sources, or of what is named here.
Operands are float64; of the incomplete gamma functions also float32.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

from aot.backends.triton.device.integers import any_true, greatest_of


@triton.jit
def gamma_density(a, x):
    """x^a exp(-x) / gamma(a + 1); without loss for large a."""
    if a.dtype == tl.float32:
        # Stirling's formula for gamma(b + 1), b = a or four more. What cancels is in float64.
        near = a < 10.0
        b = tl.where(near, a + 4.0, a)
        part = tl.where(near, (a + 1.0) * (a + 2.0) * (a + 3.0) * (a + 4.0) / (b * b * b * b), 1.0)
        wide = b.to(tl.float64)
        power = a.to(tl.float64) * libdevice.log(x.to(tl.float64) / wide) + (wide - x)
        found = libdevice.exp(power.to(tl.float32) - stirling_tail(b)) * part
        found = found / tl.sqrt(6.283185307179586 * b)
    else:
        b = tl.maximum(a, 10.0)
        u = (x - b) / b
        shape = u - libdevice.log1p(u)
        large = libdevice.exp(-b * shape - stirling_tail(b)) / tl.sqrt(6.283185307179586 * b)
        small = libdevice.exp(a * libdevice.log(x) - x - libdevice.lgamma(a + 1.0))
        found = tl.where(a < 10.0, small, large)
    return found


@triton.jit
def stirling_tail(b):
    """The terms of log(gamma(b + 1)) in powers of 1 / b."""
    i = 1.0 / (b * b)
    return (1.0 / 12 - i * (1.0 / 360 - i * (1.0 / 1260 - i * (1.0 / 1680 - i / 1188)))) / b


@triton.jit
def gamma_term(b, x, width, point, weight):
    """A point of the quadrature of `gamma_tail`: the density there, relative to its greatest."""
    u = (x + width * point - b) / b
    inside = u > -1.0
    safe = tl.where(inside, u, 0.0)
    return tl.where(inside, weight * libdevice.exp(-b * (safe - libdevice.log1p(safe))), 0.0)


@triton.jit
def gamma_series(a, x):
    """The lower side's power series, relative to the density; each lane ends with its own term.

    Four terms share a division, and asking the lanes whether some goes on.
    """
    ENDS: tl.constexpr = 1e-8 if a.dtype == tl.float32 else 1e-17
    n = a + 0.0 * x
    term, total = 1.0 + 0.0 * n, 1.0 + 0.0 * n
    going = term > 0.0
    while any_true(going):
        last = n + 4.0
        two = (n + 3.0) * last
        three = (n + 2.0) * two
        part = term / ((n + 1.0) * three)
        total = tl.where(going, total + part * (x * (three + x * (two + x * (last + x)))), total)
        term = part * (x * x) * (x * x)
        going = going & (term > total * ENDS)
        n = last
    return total


@triton.jit
def gamma_fraction(a, x):
    """The upper side's continued fraction, relative to the density, for 1 + a <= x < 1e5.

    Its convergents by J. Wallis' recurrence (DLMF 1.12.2), four at a time; the denominators, which
    are positive here, are made 1 by the one division.
    """
    ENDS: tl.constexpr = 1.5e-7 if a.dtype == tl.float32 else 2e-15
    b = x + 1.0 - a
    value = 1.0 / b
    top, below = value, 1.0 + 0.0 * b
    top_before, below_before = 0.0 * b, value
    going = value == value
    k = tl.full([], 0.0, b.dtype)
    while any_true(going) & (k < 10000.0):
        for _ in tl.static_range(4):
            k += 1.0
            step = k * (a - k)
            b += 2.0
            top, top_before = b * top + step * top_before, top
            below, below_before = b * below + step * below_before, below
        scale = 1.0 / below
        top, top_before, below_before = top * scale, top_before * scale, below_before * scale
        below = 1.0 + 0.0 * b
        going = going & (tl.abs(top - value) >= ENDS * top)
        value = tl.where(going, top, value)
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
    value = 0.0 * s * t
    if any_true(large):
        center, end = tl.where(large, s, 300.0), tl.where(large, t, 300.0)
        value += gamma_tail(center.to(tl.float64), end.to(tl.float64)).to(value.dtype)
    if any_true(s <= 200.0):
        # Lanes of another side take operands that need no steps.
        right = is_upper & (s <= 200.0)
        s, t = tl.where(large, 1.0, s), tl.where(large, 1.0, t)
        near, far = 0.0 * s * t, 0.0 * s * t
        if any_true(right == 0):
            near += gamma_series(s, tl.where(right, 0.0, t))
        if any_true(right):
            far += gamma_fraction(tl.where(right, s, 1.0), tl.where(right, tl.minimum(t, 1e5), 2.0))
        small = gamma_density(s, t) * tl.where(right, s * far, near)
        value = tl.where(large, value, small)
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
    spread = tl.zeros_like(x) + tl.zeros_like(n)
    q, p = spread + 1.0, spread + first
    good = (n < 2147483648.0) & (x == x)
    degree = tl.where(good, n, 0.0).to(tl.int32)
    k = tl.full([], 1, tl.int32)
    most = greatest_of(degree)
    while k < most:
        later = step(x, k.to(x.dtype), p, q)
        q = tl.where(k < degree, p, q)
        p = tl.where(k < degree, later, p)
        k += 1
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
