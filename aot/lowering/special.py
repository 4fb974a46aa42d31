"""Special functions of one operand as scalar expressions, some of them evaluated in float64.

Series are Chebyshev's, from `special_tables`; which function of which variable each one is, and
where the formula comes from, stands in tools/chebyshev.py. DLMF is the NIST Digital Library of
Mathematical Functions. Eager evaluates in the operand's type; what it gives at poles and
infinities is kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from aot.ir.dtypes import FLOAT64
from aot.ir.scalar import Node, cast, unary
from aot.lowering import exprs as e
from aot.lowering import special_tables as tables
from aot.lowering.exprs import UnaryBody
from aot.lowering.pointwise import promote_float, unary_rows

_NEAR = 8.0
"""Up to here J and Y are series in x**2, beyond it Hankel's expansion."""

_NEAR_K = 2.0
_AIRY_WAVE, _AIRY_DECAY = 18.0 ** (2.0 / 3.0), 1.5 ** (2.0 / 3.0)
_HALF_ROOT = math.sqrt(0.5)


_LEFT_OUT = 2.0**-27
"""What the terms that float32 leaves out of a series add up to at most, of its greatest term."""


def clenshaw(coefficients: Sequence[float], u: Node) -> Node:
    """The sum of c[k] T_k(u) for u in [-1, 1], by Clenshaw's recurrence."""
    if u.dtype != FLOAT64:
        coefficients = _shortened(coefficients)
    first, *middle, next_to_last, highest = coefficients
    twice = e.add(u, u)
    before = e.lift(highest, u)
    last = e.add(e.mul(twice, before), next_to_last)
    for c in reversed(middle):
        last, before = e.add(e.sub(e.mul(twice, last), before), c), last
    return e.add(e.sub(e.mul(u, last), before), first)


def clenshaw_from_left(coefficients: Sequence[float], w: Node) -> Node:
    """The sum of c[k] T_k(w - 1), as accurate as w where w is small.

    C. Reinsch's form of the recurrence: sums of neighbours take the place of every other term.
    """
    if w.dtype != FLOAT64:
        coefficients = _shortened(coefficients)
    first, *rest, highest = coefficients
    twice = e.add(w, w)
    last = both = e.lift(highest, w)
    for c in reversed(rest):
        both = e.add(e.mul(twice, last), e.sub(c, both))
        last = e.sub(both, last)
    return e.add(e.mul(w, last), e.sub(first, both))


def _shortened(coefficients: Sequence[float]) -> Sequence[float]:
    """The terms of a series of which float32 has digits."""
    least, left = _LEFT_OUT * max(map(abs, coefficients)), 0.0
    for count in range(len(coefficients), 0, -1):
        left += abs(coefficients[count - 1])
        if left > least:
            return coefficients[:count]
    return coefficients


def in_double(body: UnaryBody) -> UnaryBody:
    """`body` evaluated in float64; the result in the operand's type."""
    return lambda x: cast(body(cast(x, FLOAT64)), x.dtype)


def _cos(x: Node) -> Node:
    return unary("cos", x)


def _hankel(order: int, x: Node) -> tuple[Node, Node]:
    """J and Y for x > 8: sqrt(2/(pi x)) times P and Q turned by the phase, DLMF 10.17.3."""
    root = e.rsqrt(x)
    t = e.mul(e.mul(root, root), _NEAR)
    u = e.sub(e.mul(e.mul(2.0, t), t), 1.0)
    p = clenshaw(tables.HANKEL0_COS if order == 0 else tables.HANKEL1_COS, u)
    q = e.mul(t, clenshaw(tables.HANKEL0_SIN if order == 0 else tables.HANKEL1_SIN, u))
    s, c = e.sin(x), _cos(x)
    # cos and sin of x - pi/4 or x - 3 pi/4, times sqrt(2)
    plus, minus = e.add(s, c), e.sub(s, c)
    cosine, sine = (plus, minus) if order == 0 else (minus, e.neg(plus))
    scale = e.mul(root, math.sqrt(1.0 / math.pi))
    j = e.mul(scale, e.sub(e.mul(p, cosine), e.mul(q, sine)))
    return j, e.mul(scale, e.add(e.mul(p, sine), e.mul(q, cosine)))


def _near(coefficients: Sequence[float], x: Node) -> Node:
    """A series in x**2 up to _NEAR."""
    return clenshaw_from_left(coefficients, e.mul(e.mul(x, x), 2.0 / _NEAR**2))


def _near_j(order: int, x: Node) -> Node:
    return _near(tables.J0_NEAR, x) if order == 0 else e.mul(x, _near(tables.J1_NEAR, x))


def bessel_j(order: int) -> UnaryBody:
    """The Bessel function J of order 0 or 1."""

    def body(x: Node) -> Node:
        a = e.absolute(x)
        far = _hankel(order, a)[0]
        if order == 1:
            far = e.select(e.lt(x, 0.0), e.neg(far), far)
        return e.select(e.gt(a, _NEAR), far, _near_j(order, x))

    return body


def bessel_y(order: int) -> UnaryBody:
    """The Bessel function Y of order 0 or 1; -inf at 0, NaN below."""

    def body(x: Node) -> Node:
        singular = e.mul(e.log(x), _near_j(order, x))
        if order == 0:
            regular = _near(tables.Y0_NEAR, x)
        else:
            regular = e.mul(x, _near(tables.Y1_NEAR, x))
            singular = e.sub(singular, e.div(1.0, x))
        near = e.add(regular, e.mul(singular, 2.0 / math.pi))
        value = e.select(e.gt(x, _NEAR), _hankel(order, x)[1], near)
        return _at_pole(x, value, -math.inf)

    return body


def _at_pole(x: Node, value: Node, pole: float) -> Node:
    """`value` for positive x, `pole` at 0, NaN below and for NaN."""
    defined = e.select(e.gt(x, 0.0), value, math.nan)
    return e.select(e.eq(x, 0.0), pole, defined)


def _sum(series: Sequence[float], factor: float, other: Sequence[float]) -> Sequence[float]:
    return [a + factor * b for a, b in zip_longest(series, other, fillvalue=0.0)]


_K0_NEAR = _sum(tables.K0_NEAR, -math.log(_NEAR_K), tables.I0_NEAR)
_K1_NEAR = _sum(tables.K1_NEAR, math.log(_NEAR_K), tables.I1_NEAR)
"""With log(x / 2) in place of log(x), the terms do not cancel where x is near 2."""


def bessel_k(order: int, *, scaled: bool) -> UnaryBody:
    """The modified Bessel function K of order 0 or 1, times exp(x) if `scaled`; inf at 0."""

    def body(x: Node) -> Node:
        u = e.sub(e.mul(e.mul(x, x), 2.0 / _NEAR_K**2), 1.0)
        log_half = e.log(e.mul(x, 1.0 / _NEAR_K))
        if order == 0:
            singular = e.mul(log_half, clenshaw(tables.I0_NEAR, u))
            near = e.sub(clenshaw(_K0_NEAR, u), singular)
        else:
            logarithm = e.mul(log_half, clenshaw(tables.I1_NEAR, u))
            near = e.mul(x, e.add(clenshaw(_K1_NEAR, u), logarithm))
            near = e.add(near, e.div(1.0, x))
        root = e.rsqrt(x)
        v = e.sub(e.mul(e.mul(root, root), 2.0 * _NEAR_K), 1.0)
        series = clenshaw(tables.K0_FAR if order == 0 else tables.K1_FAR, v)
        far = e.mul(series, root)
        if scaled:
            near = e.mul(near, e.exp(x))
        else:
            far = e.mul(far, e.exp(e.neg(x)))
        return _at_pole(x, e.select(e.gt(x, _NEAR_K), far, near), math.inf)

    return body


def spherical_bessel_j0(x: Node) -> Node:
    """sin(x) / x, 1 at 0 and 0 at infinity."""
    value = e.select(e.eq(x, 0.0), 1.0, e.div(e.sin(x), x))
    return e.select(e.isinf(x), 0.0, value)


def airy_ai(x: Node) -> Node:
    """Airy's function Ai (DLMF 9.7.5, 9.7.9 far out); NaN at infinities, as eager has it."""
    a = e.absolute(x)
    zeta = e.mul(e.mul(a, e.sqrt(a)), 2.0 / 3.0)
    root = e.sqrt(e.sqrt(a))
    inverse = e.div(1.0, zeta)
    decay = e.mul(
        clenshaw(tables.AIRY_FAR, e.sub(e.mul(2.0, inverse), 1.0)),
        e.div(e.exp(e.neg(zeta)), e.mul(root, 2.0 * math.sqrt(math.pi))),
    )
    wave = e.div(_airy_wave(zeta, inverse), e.mul(root, math.sqrt(math.pi)))
    width = 2.0 / (_AIRY_WAVE + _AIRY_DECAY)
    u = e.sub(e.mul(e.add(x, _AIRY_WAVE), width), 1.0)
    near = clenshaw(tables.AIRY_NEAR, u)
    value = e.select(e.gt(x, _AIRY_DECAY), decay, e.select(e.lt(x, -_AIRY_WAVE), wave, near))
    return e.select(e.isinf(x), math.nan, value)


def _airy_wave(zeta: Node, inverse: Node) -> Node:
    """cos(zeta - pi/4) P + sin(zeta - pi/4) Q."""
    least = 2.0 / 3.0 * _AIRY_WAVE**1.5
    u = e.sub(e.mul(e.mul(inverse, inverse), 2.0 * least**2), 1.0)
    s, c = e.sin(zeta), _cos(zeta)
    cosine = e.mul(e.add(c, s), clenshaw(tables.AIRY_COS, u))
    sine = e.mul(e.mul(e.sub(s, c), inverse), clenshaw(tables.AIRY_SIN, u))
    return e.mul(e.add(cosine, sine), _HALF_ROOT)


def erfcx(x: Node) -> Node:
    """exp(x**2) erfc(x)."""
    right = _right_erfcx(e.absolute(x))
    left = e.sub(e.mul(2.0, e.exp(e.mul(x, x))), right)
    return e.select(e.lt(x, 0.0), left, right)


def _right_erfcx(a: Node) -> Node:
    """As `erfcx`, for a >= 0."""
    t = e.sub(1.0, e.div(7.5, e.add(a, 3.75)))
    return e.div(clenshaw(tables.ERFCX, t), e.add(e.mul(2.0, a), 1.0))


def log_ndtr(x: Node) -> Node:
    """The logarithm of the normal distribution function, without underflow far to the left."""
    z = e.mul(x, _HALF_ROOT)
    left = e.sub(e.log(e.mul(_right_erfcx(e.absolute(z)), 0.5)), e.mul(z, z))
    right = e.log1p(e.mul(unary("erfc", z), -0.5))
    return e.select(e.lt(x, -1.0), left, right)


_TAIL = math.exp(-2.0)
_TAIL_LOW, _TAIL_HIGH = 0.0256, 0.55


def ndtri(p: Node) -> Node:
    """The normal quantile: through erfinv in the middle.

    NaN outside of [0, 1], infinite at its ends.
    """
    less = e.minimum(p, e.sub(1.0, p))
    middle = e.mul(unary("erfinv", e.sub(e.mul(2.0, p), 1.0)), math.sqrt(2.0))
    value = e.select(e.lt(less, _TAIL), _quantile_tail(p), middle)
    # -inf and inf at the ends, NaN beyond them.
    ends = e.select(e.eq(p, 0.0), -math.inf, e.select(e.eq(p, 1.0), math.inf, e.lift(math.nan, p)))
    return e.select(e.gt(less, 0.0), value, ends)


def _quantile_tail(p: Node) -> Node:
    """The normal quantile far from 1/2: a series, and in float64 a step of Halley's."""
    less = e.minimum(p, e.sub(1.0, p))
    r = e.sqrt(e.mul(-2.0, e.log(less)))
    middle_of, width = (_TAIL_LOW + _TAIL_HIGH) / 2, (_TAIL_HIGH - _TAIL_LOW) / 2
    inverse = e.div(1.0, r)
    u = e.mul(e.sub(inverse, middle_of), 1.0 / width)
    left = e.sub(e.mul(e.add(clenshaw(tables.QUANTILE_TAIL, u), e.log(r)), inverse), r)
    if p.dtype == FLOAT64:
        left = _improved_quantile(left, less, r)
    return e.select(e.gt(p, 0.5), e.neg(left), left)


def _improved_quantile(guess: Node, less: Node, r: Node) -> Node:
    """`guess` after a step towards the quantile of `less`, which is exp(-r**2 / 2)."""
    miss = e.sub(e.mul(unary("erfc", e.mul(guess, -_HALF_ROOT)), 0.5), less)
    density = e.mul(e.exp(e.mul(e.mul(guess, guess), 0.5)), math.sqrt(2.0 * math.pi))
    step = e.mul(miss, density)
    step = e.div(step, e.add(1.0, e.mul(e.mul(guess, step), 0.5)))
    # Where the density underflows the guess has to do.
    return e.select(e.lt(r, 37.6), e.sub(guess, step), guess)


ONE_OPERAND: dict[str, UnaryBody] = {
    "bessel_j0": bessel_j(0),
    "bessel_j1": bessel_j(1),
    "bessel_y0": bessel_y(0),
    "bessel_y1": bessel_y(1),
    "modified_bessel_k0": bessel_k(0, scaled=False),
    "modified_bessel_k1": bessel_k(1, scaled=False),
    "scaled_modified_bessel_k0": bessel_k(0, scaled=True),
    "scaled_modified_bessel_k1": bessel_k(1, scaled=True),
    "spherical_bessel_j0": spherical_bessel_j0,
    # These lose digits: to a cancelled wave, and to the exponential of a square.
    "airy_ai": in_double(airy_ai),
    "erfcx": in_double(erfcx),
    "log_ndtr": log_ndtr,
    "ndtri": ndtri,
}
unary_rows(ONE_OPERAND, promote_float, "aten.special_")


def _bessel_i(op: str) -> UnaryBody:
    """The scalar operation, NaN at infinities as eager has it."""
    return lambda x: e.select(e.isinf(x), math.nan, unary(op, x))


unary_rows(
    {f"modified_bessel_{op}": _bessel_i(op) for op in ("i0", "i1")},
    promote_float,
    "aten.special_",
)
