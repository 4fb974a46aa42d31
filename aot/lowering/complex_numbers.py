"""Functions of complex numbers as formulas in real scalar expressions.

Multiplication, division and absolute value are as in eager PyTorch: products are the plain formula
(an infinity may become NaN), quotients are scaled by the divisor's greater part (Smith), absolute
values do not overflow. Branch cuts are those of C99, with signed zeros telling the sides apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from aot.ir.scalar import Node, binary, unary
from aot.lowering import exprs as e
from aot.lowering.exprs import NodeLike


@dataclass(frozen=True)
class Complex:
    """A complex scalar; both parts are of one type."""

    re: Node
    im: Node


ComplexUnary = Callable[[Complex], Complex]


def scaled(z: Complex, by: NodeLike) -> Complex:
    """z times a real number."""
    return Complex(e.mul(z.re, by), e.mul(z.im, by))


def shifted(z: Complex, by: NodeLike) -> Complex:
    """z plus a real number."""
    return Complex(e.add(z.re, by), z.im)


def add(a: Complex, b: Complex) -> Complex:
    """The sum."""
    return Complex(e.add(a.re, b.re), e.add(a.im, b.im))


def sub(a: Complex, b: Complex) -> Complex:
    """The difference."""
    return Complex(e.sub(a.re, b.re), e.sub(a.im, b.im))


def neg(z: Complex) -> Complex:
    """Minus z."""
    return Complex(e.neg(z.re), e.neg(z.im))


def conj(z: Complex) -> Complex:
    """The conjugate."""
    return Complex(z.re, e.neg(z.im))


def times_i(z: Complex) -> Complex:
    """i times z."""
    return Complex(e.neg(z.im), z.re)


def over_i(z: Complex) -> Complex:
    """z divided by i."""
    return Complex(z.im, e.neg(z.re))


def mul(a: Complex, b: Complex) -> Complex:
    """The product."""
    return Complex(
        e.sub(e.mul(a.re, b.re), e.mul(a.im, b.im)), e.add(e.mul(a.re, b.im), e.mul(a.im, b.re))
    )


def select(condition: Node, a: Complex, b: Complex) -> Complex:
    """a where the condition holds, else b."""
    return Complex(e.select(condition, a.re, b.re), e.select(condition, a.im, b.im))


def div(a: Complex, b: Complex) -> Complex:
    """The quotient; by zero, that of each part."""
    upright = e.ge(e.absolute(b.re), e.absolute(b.im))
    great, small = e.select(upright, b.re, b.im), e.select(upright, b.im, b.re)
    ratio = e.div(small, great)
    scale = e.add(great, e.mul(small, ratio))
    # (a.re + i a.im) * (1 - i ratio), or the same with the roles of the divisor's parts exchanged.
    first, second = e.select(upright, a.re, a.im), e.select(upright, a.im, a.re)
    re = e.div(e.add(first, e.mul(second, ratio)), scale)
    turned = e.select(upright, e.sub(a.im, e.mul(a.re, ratio)), e.sub(e.mul(a.im, ratio), a.re))
    zero = e.and_(e.eq(great, 0.0), e.eq(small, 0.0))
    plain = e.absolute(b.re)
    by_zero = Complex(e.div(a.re, plain), e.div(a.im, plain))
    return select(zero, by_zero, Complex(re, e.div(turned, scale)))


def reciprocal(z: Complex) -> Complex:
    """1 / z."""
    return div(Complex(e.lift(1.0, z.re), e.lift(0.0, z.re)), z)


def absolute(z: Complex) -> Node:
    """The magnitude."""
    return binary("hypot", z.re, z.im)


def angle(z: Complex) -> Node:
    """The argument, in (-pi, pi]."""
    return binary("atan2", z.im, z.re)


def polar(magnitude: Node, phase: Node) -> Complex:
    """The number with that magnitude and argument."""
    return Complex(e.mul(magnitude, unary("cos", phase)), e.mul(magnitude, e.sin(phase)))


def sgn(z: Complex) -> Complex:
    """z / |z|, 0 for 0."""
    size = absolute(z)
    zero = Complex(e.lift(0.0, size), e.lift(0.0, size))
    return select(e.eq(size, 0.0), zero, Complex(e.div(z.re, size), e.div(z.im, size)))


def exp(z: Complex) -> Complex:
    """The exponential; on the real axis it has no imaginary part, even where it is infinite."""
    made = polar(e.exp(z.re), z.im)
    return Complex(made.re, e.select(e.eq(z.im, 0.0), z.im, made.im))


def expm1(z: Complex) -> Complex:
    """exp(z) - 1, exact near 0."""
    half = e.sin(e.mul(z.im, 0.5))
    less = e.mul(e.mul(half, half), 2.0)
    re = e.sub(e.mul(e.expm1(z.re), unary("cos", z.im)), less)
    return Complex(re, exp(z).im)


def log(z: Complex) -> Complex:
    """The logarithm."""
    return Complex(e.log(absolute(z)), angle(z))


def log1p(z: Complex) -> Complex:
    """log(1 + z), exact near 0."""
    moved = shifted(z, 1.0)
    near = e.add(e.mul(z.re, e.add(z.re, 2.0)), e.mul(z.im, z.im))
    small = e.lt(absolute(z), 0.5)
    re = e.select(small, e.mul(e.log1p(near), 0.5), e.log(absolute(moved)))
    return Complex(re, angle(moved))


def sqrt(z: Complex) -> Complex:
    """The square root in the right half-plane."""
    half = e.mul(e.add(e.mul(absolute(z), 0.5), e.mul(e.absolute(z.re), 0.5)), 1.0)
    root = e.sqrt(half)
    other = e.div(e.absolute(z.im), e.mul(root, 2.0))
    right = e.not_(e.lt(z.re, 0.0))
    found = Complex(e.select(right, root, other), e.copysign(e.select(right, other, root), z.im))
    zero = Complex(e.lift(0.0, z.re), z.im)
    found = select(e.and_(e.eq(z.re, 0.0), e.eq(z.im, 0.0)), zero, found)
    infinite = Complex(e.absolute(z.im), z.im)
    return select(e.isinf(z.im), infinite, found)


def rsqrt(z: Complex) -> Complex:
    """1 / sqrt(z)."""
    return reciprocal(sqrt(z))


def sinh(z: Complex) -> Complex:
    """The hyperbolic sine."""
    return Complex(
        e.mul(unary("sinh", z.re), unary("cos", z.im)), e.mul(unary("cosh", z.re), e.sin(z.im))
    )


def cosh(z: Complex) -> Complex:
    """The hyperbolic cosine."""
    return Complex(
        e.mul(unary("cosh", z.re), unary("cos", z.im)), e.mul(unary("sinh", z.re), e.sin(z.im))
    )


def tanh(z: Complex) -> Complex:
    """The hyperbolic tangent; far from the imaginary axis its limit, before anything overflows."""
    tangent, sine = unary("tan", z.im), unary("sinh", z.re)
    beta = e.add(e.mul(tangent, tangent), 1.0)
    squared = e.mul(sine, sine)
    rho, denominator = e.sqrt(e.add(squared, 1.0)), e.add(e.mul(beta, squared), 1.0)
    near = Complex(e.div(e.mul(e.mul(beta, rho), sine), denominator), e.div(tangent, denominator))
    decay = e.exp(e.mul(e.absolute(z.re), -2.0))
    swing = e.mul(e.sin(e.mul(z.im, 2.0)), e.mul(decay, 2.0))
    far = Complex(e.copysign(1.0, z.re), e.select(e.isinf(z.re), e.copysign(0.0, z.im), swing))
    return select(e.gt(e.absolute(z.re), 20.0), far, near)


def _turned(function: ComplexUnary) -> ComplexUnary:
    """sin of sinh and the like: function(i z) / i."""
    return lambda z: over_i(function(times_i(z)))


def cos(z: Complex) -> Complex:
    """The cosine."""
    return cosh(times_i(z))


def acos(z: Complex) -> Complex:
    """The inverse cosine (Kahan)."""
    minus, plus = sqrt(shifted(neg(z), 1.0)), sqrt(shifted(z, 1.0))
    re = e.mul(binary("atan2", minus.re, plus.re), 2.0)
    return Complex(re, unary("asinh", mul(conj(plus), minus).im))


def asin(z: Complex) -> Complex:
    """The inverse sine (Kahan)."""
    minus, plus = sqrt(shifted(neg(z), 1.0)), sqrt(shifted(z, 1.0))
    re = binary("atan2", z.re, mul(minus, plus).re)
    return Complex(re, unary("asinh", mul(conj(minus), plus).im))


def acosh(z: Complex) -> Complex:
    """The inverse hyperbolic cosine (Kahan)."""
    minus, plus = sqrt(shifted(z, -1.0)), sqrt(shifted(z, 1.0))
    im = e.mul(binary("atan2", minus.im, plus.re), 2.0)
    return Complex(unary("asinh", mul(conj(minus), plus).re), im)


def atanh(z: Complex) -> Complex:
    """The inverse hyperbolic tangent."""
    size = e.absolute(z.re)
    left, right = e.sub(e.lift(1.0, size), size), e.add(size, 1.0)
    square = e.mul(z.im, z.im)
    distance = e.add(e.mul(left, left), square)
    re = e.copysign(e.mul(e.log1p(e.div(e.mul(size, 4.0), distance)), 0.25), z.re)
    im = binary("atan2", e.mul(z.im, 2.0), e.sub(e.mul(left, right), square))
    return Complex(re, e.mul(im, 0.5))


def sigmoid(z: Complex) -> Complex:
    """1 / (1 + exp(-z))."""
    return reciprocal(shifted(exp(neg(z)), 1.0))


def silu(z: Complex) -> Complex:
    """z times its sigmoid."""
    return div(z, shifted(exp(neg(z)), 1.0))


def sinc(z: Complex) -> Complex:
    """sin(pi z) / (pi z), 1 at 0."""
    turned = scaled(z, math.pi)
    one = Complex(e.lift(1.0, z.re), e.lift(0.0, z.re))
    zero = e.and_(e.eq(z.re, 0.0), e.eq(z.im, 0.0))
    return select(zero, one, div(UNARY["sin"](turned), turned))


def power(a: Complex, b: Complex) -> Complex:
    """|a|^b.re exp(-b.im arg(a)), turned; 0 where a is 0 and b is not, 1 where b is 0.

    A power of the magnitude keeps digits that an exponential of a product loses.
    """
    zero, one = e.lift(0.0, a.re), e.lift(1.0, a.re)
    size, turn = absolute(a), angle(a)
    grown = e.mul(e.power(size, b.re), e.exp(e.neg(e.mul(b.im, turn))))
    made = polar(grown, e.fma(b.re, turn, e.mul(b.im, e.log(size))))
    nothing = e.and_(e.eq(a.re, 0.0), e.eq(a.im, 0.0))
    made = select(nothing, Complex(zero, zero), made)
    return select(e.and_(e.eq(b.re, 0.0), e.eq(b.im, 0.0)), Complex(one, zero), made)


def square(z: Complex) -> Complex:
    """z times z."""
    return mul(z, z)


POWERS: dict[float, ComplexUnary] = {
    0.0: lambda z: Complex(e.lift(1.0, z.re), e.lift(0.0, z.re)),
    1.0: lambda z: z,
    2.0: square,
    3.0: lambda z: mul(square(z), z),
    0.5: sqrt,
    -0.5: rsqrt,
    -1.0: reciprocal,
    -2.0: lambda z: reciprocal(square(z)),
}
"""Exponents whose powers are products and roots, as in eager."""


def _rescaled(function: ComplexUnary, by: float) -> ComplexUnary:
    return lambda z: scaled(function(z), by)


UNARY: dict[str, ComplexUnary] = {
    **{"exp": exp, "expm1": expm1, "exp2": lambda z: exp(scaled(z, math.log(2.0)))},
    **{"log": log, "log1p": log1p},
    **{"log2": _rescaled(log, 1 / math.log(2.0)), "log10": _rescaled(log, 1 / math.log(10.0))},
    **{"sqrt": sqrt, "rsqrt": rsqrt, "reciprocal": reciprocal, "square": square, "sgn": sgn},
    **{"sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": _turned(sinh), "cos": cos},
    **{"tan": _turned(tanh), "asin": asin, "acos": acos, "atan": _turned(atanh)},
    **{"asinh": _turned(asin), "acosh": acosh, "atanh": atanh},
    **{"arcsin": asin, "arccos": acos, "arctan": _turned(atanh)},
    **{"arcsinh": _turned(asin), "arccosh": acosh, "arctanh": atanh},
    **{"sigmoid": sigmoid, "silu": silu, "sinc": sinc, "special_sinc": sinc},
}
"""Functions of one complex number, by ATen's names."""
