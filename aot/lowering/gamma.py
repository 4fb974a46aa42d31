"""Relatives of the gamma function: zeta, polygamma, the incomplete gamma functions.

Formulas are those of the NIST Digital Library of Mathematical Functions (DLMF); what happens at
poles and infinities is eager's choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aot.ir.dtypes import FLOAT64
from aot.ir.scalar import Node, binary, cast, unary
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.exprs import BinaryBody
from aot.lowering.pointwise import binary_rows, elementwise, promote_float
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY

Power = Callable[[Node], Node]
"""A function x -> x ** -s."""

_LEAD = 9
"""Terms of zeta's sum that are added one by one, before Euler and Maclaurin's formula."""

_BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510),
    *(43867 / 798, -174611 / 330, 854513 / 138, -236364091 / 2730),
)


def _right_zeta(s: Node, q: Node, power: Power) -> Node:
    """The sum over k >= 0 of (q + k) ** -s for q > 0 by Euler and Maclaurin, DLMF 25.11.5."""
    total = power(q)
    for k in range(1, _LEAD):
        total = e.add(total, power(e.add(q, float(k))))
    w = e.add(q, float(_LEAD))
    last = power(w)
    total = e.add(total, e.mul(last, e.add(e.div(w, e.sub(s, 1.0)), 0.5)))
    inverse = e.div(1.0, w)
    factor = e.mul(e.mul(last, s), inverse)
    for k, b in enumerate(_BERNOULLI):
        total = e.add(total, e.mul(factor, b / math.factorial(2 * k + 2)))
        step = e.mul(e.add(s, 2.0 * k + 1.0), inverse)
        factor = e.mul(factor, e.mul(step, e.mul(e.add(s, 2.0 * k + 2.0), inverse)))
    return total


def _zeta_sum(s: Node, q: Node, power: Power) -> Node:
    """The sum over k >= 0 of (q + k) ** -s for a whole s, or q > 0.

    The terms with q + k < 0 are a difference of sums to the right of 0.
    """
    below = e.le(q, 0.0)
    size = e.absolute(q)
    part = e.sub(size, e.floor(size))
    right = _right_zeta(s, e.select(below, e.sub(1.0, part), q), power)
    mirrored = e.sub(_right_zeta(s, part, power), _right_zeta(s, e.add(size, 1.0), power))
    odd = e.ne(e.fmod(s, 2.0), 0.0)
    mirrored = e.select(odd, e.neg(mirrored), mirrored)
    return e.select(below, e.add(right, mirrored), right)


def zeta(s: Node, q: Node) -> Node:
    """Hurwitz' zeta function: the sum over k >= 0 of (q + k) ** -s.

    Infinite at s = 1 and at the poles q = 0, -1, …; NaN for s < 1, and for q < 0 with a broken s.
    Evaluated in float64.
    """
    if s.dtype != FLOAT64:
        return cast(_zeta(cast(s, FLOAT64), cast(q, FLOAT64), _quick_power), s.dtype)
    return _zeta(s, q, e.power)


def _quick_power(x: Node, exponent: Node) -> Node:
    """x ** exponent for x >= 0, with the digits that float32 has use for."""
    return e.exp(e.mul(exponent, e.log(x)))


def _zeta(s: Node, q: Node, power: BinaryBody) -> Node:
    value = _zeta_sum(s, q, lambda x: power(x, e.neg(s)))
    broken = e.and_(e.lt(q, 0.0), e.ne(s, e.floor(s)))
    value = e.select(e.or_(broken, e.isnan(e.add(s, q))), math.nan, value)
    pole = e.and_(e.le(q, 0.0), e.eq(q, e.floor(q)))
    value = e.select(pole, math.inf, value)
    value = e.select(e.eq(s, 1.0), math.inf, value)
    return e.select(e.lt(s, 1.0), math.nan, value)


def _inverse_power(exponent: int) -> Power:
    def power(x: Node) -> Node:
        base = e.div(1.0, x)
        result: Node | None = None
        left = exponent
        while left:
            if left & 1:
                result = base if result is None else e.mul(result, base)
            base, left = e.mul(base, base), left >> 1
        return result if result is not None else e.lift(1.0, x)

    return power


def trigamma(x: Node) -> Node:
    """The second derivative of log gamma, reflected for x < 1/2 (DLMF 5.15.6) as eager does it."""
    left = e.lt(x, 0.5)
    y = e.select(left, e.sub(1.0, x), x)
    value = _right_zeta(e.lift(2.0, x), y, _inverse_power(2))
    root = e.div(math.pi, e.sin(e.mul(x, math.pi)))
    return e.select(left, e.sub(e.mul(root, root), value), value)


def polygamma_body(n: int, x: Node) -> Node:
    """The n-th derivative of digamma: (-1)**(n + 1) n! zeta(n + 1, x), DLMF 5.15.1."""
    if n == 0:
        return unary("digamma", x)
    if n == 1:
        return trigamma(x)
    s = e.lift(float(n + 1), x)
    value = _zeta_sum(s, x, _inverse_power(n + 1))
    pole = e.and_(e.le(x, 0.0), e.eq(x, e.floor(x)))
    value = e.select(pole, math.inf, value)
    sign = 1.0 if n % 2 else -1.0
    return e.mul(value, sign * float(math.factorial(n)) if n < 171 else sign * math.inf)


@REGISTRY.row("aten.polygamma.default")
def polygamma(call: Call, n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    dtype = promote_float(x)

    def body(value: Node) -> Node:
        return cast(polygamma_body(n, cast(value, FLOAT64)), value.dtype)

    return elementwise(call, (x,), dtype, body)


def _incomplete(op: str, at_zero: float) -> Callable[[Node, Node], Node]:
    """`op` with its limits; `at_zero`: the value at x = 0, and at infinite a."""

    def body(a: Node, x: Node) -> Node:
        value = binary(op, a, x)
        value = e.select(e.isinf(x), 1.0 - at_zero, value)
        both = e.select(e.isinf(x), math.nan, e.lift(at_zero, x))
        value = e.select(e.isinf(a), both, value)
        value = e.select(e.eq(x, 0.0), at_zero, value)
        no_shape = e.select(e.gt(x, 0.0), 1.0 - at_zero, e.lift(math.nan, x))
        value = e.select(e.eq(a, 0.0), no_shape, value)
        return e.select(e.or_(e.lt(a, 0.0), e.lt(x, 0.0)), math.nan, value)

    return body


TWO_OPERANDS: dict[str, BinaryBody] = {
    "igamma": _incomplete("igamma", 0.0),
    "igammac": _incomplete("igammac", 1.0),
    "special_zeta": zeta,
}
"""Bodies in the operands' type: what they evaluate in float64 has its digits."""

_OVERLOADS = {
    "igamma": ("default",),
    "igammac": ("default",),
    "special_zeta": ("default", "self_scalar", "other_scalar"),
}
binary_rows(TWO_OPERANDS, promote_float, _OVERLOADS)
