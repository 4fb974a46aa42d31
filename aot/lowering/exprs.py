"""Short names for scalar expressions; Python numbers take the type of the other operand."""

from __future__ import annotations

from collections.abc import Callable

from aot.ir import scalar
from aot.ir.dtypes import BOOL
from aot.ir.scalar import Node, const

NodeLike = Node | bool | int | float
UnaryBody = Callable[[Node], Node]
BinaryBody = Callable[[Node, Node], Node]
"""Scalar expressions of one and of two operands; `Binary` takes numbers for nodes too."""

Binary = Callable[[NodeLike, NodeLike], Node]


def lift(value: NodeLike, like: Node) -> Node:
    """A number as a constant of `like`'s type; a node as it is."""
    return value if isinstance(value, Node) else const(value, like.dtype)


def _pair(a: NodeLike, b: NodeLike) -> tuple[Node, Node]:
    if isinstance(a, Node):
        return a, lift(b, a)
    if isinstance(b, Node):
        return lift(a, b), b
    raise ValueError("one operand must be a node")


def _binary(op: str) -> Binary:
    def build(a: NodeLike, b: NodeLike) -> Node:
        return scalar.binary(op, *_pair(a, b))

    return build


def _unary(op: str) -> UnaryBody:
    def build(x: Node) -> Node:
        return scalar.unary(op, x)

    return build


add, sub, mul, div = _binary("add"), _binary("sub"), _binary("mul"), _binary("div")
minimum, maximum = _binary("minimum"), _binary("maximum")
fmod, power, copysign = _binary("fmod"), _binary("pow"), _binary("copysign")
eq, ne, lt = _binary("eq"), _binary("ne"), _binary("lt")
le, gt, ge = _binary("le"), _binary("gt"), _binary("ge")
floordiv, mod, gcd = _binary("floordiv"), _binary("mod"), _binary("gcd")
shl, shr = _binary("shl"), _binary("shr")
and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")

neg, absolute, exp, expm1 = _unary("neg"), _unary("abs"), _unary("exp"), _unary("expm1")
log, log1p, log2, sqrt = _unary("log"), _unary("log1p"), _unary("log2"), _unary("sqrt")
rsqrt, tanh, erf, sigmoid = _unary("rsqrt"), _unary("tanh"), _unary("erf"), _unary("sigmoid")
sin, cos = _unary("sin"), _unary("cos")
floor, trunc, exp2 = _unary("floor"), _unary("trunc"), _unary("exp2")
isnan, isinf, signbit, not_ = _unary("isnan"), _unary("isinf"), _unary("signbit"), _unary("not")
reciprocal = _unary("reciprocal")


def select(condition: Node, a: NodeLike, b: NodeLike) -> Node:
    """a where condition, else b."""
    return scalar.where(condition, *_pair(a, b))


def clamp(x: Node, low: NodeLike | None, high: NodeLike | None) -> Node:
    """x within [low, high]; NaN stays NaN; `high` wins where the bounds cross."""
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


def fma(a: Node, b: NodeLike, c: NodeLike) -> Node:
    """a * b + c in one rounding for floats."""
    return scalar.make("fma", a.dtype, a, lift(b, a), lift(c, a))


def is_finite(x: Node) -> Node:
    """False for infinities and NaN; integers are finite."""
    return not_(or_(isnan(x), isinf(x))) if x.dtype.is_float else const(True, BOOL)


def truth(x: Node) -> Node:
    """x != 0."""
    return scalar.cast(x, BOOL)
