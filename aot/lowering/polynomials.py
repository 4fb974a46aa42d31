"""Orthogonal polynomials of a degree that is data: rows of an element's and a degree's tensor.

All are three-term recurrences (DLMF 18.9), a scalar operation each. Chebyshev's have closed forms
as well (DLMF 18.5), which are for high degrees. All but Chebyshev's of low degrees are evaluated
in float64. Degrees are truncated to integers; below 0 the result is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aot.ir.dtypes import FLOAT64
from aot.ir.scalar import Node, binary, cast, unary
from aot.lowering import exprs as e
from aot.lowering.exprs import BinaryBody
from aot.lowering.pointwise import binary_rows, promote_float

_HERMITE_DEGREES = {4: 128.0, 8: 512.0}
"""Bytes of a type -> the degree beyond which eager gives NaN."""

_STEPS = {4: 64.0, 8: 6.0}
"""Bytes of a type -> the degree up to which a Chebyshev polynomial is computed step by step in
float64, whose roundings grow with the degree: of float64 as far as eager does it."""

_OWN_STEPS = 8.0
"""The degree up to which steps in float32 do for its digits: eager does so many, too."""


def _in_double(body: BinaryBody) -> BinaryBody:
    def build(x: Node, n: Node) -> Node:
        degree = cast(e.trunc(n), FLOAT64)
        value = body(cast(x, FLOAT64), degree)
        return cast(e.select(e.lt(degree, 0.0), 0.0, value), x.dtype)

    return build


def _is_odd(n: Node) -> Node:
    return e.ne(e.fmod(n, 2.0), 0.0)


def _ratio(over: str, under: str | None, angle: Callable[[Node], Node], half: float) -> BinaryBody:
    """over(angle(n) t) / under(half t) as a function of (t, n)."""

    def body(t: Node, n: Node) -> Node:
        value = unary(over, e.mul(angle(n), t))
        return value if under is None else e.div(value, unary(under, e.mul(t, half)))

    return body


def _next(n: Node) -> Node:
    return e.add(n, 1.0)


def _middle(n: Node) -> Node:
    return e.add(n, 0.5)


def _twice(n: Node) -> Node:
    return e.add(e.add(n, n), 1.0)


_INSIDE: dict[str, BinaryBody] = {
    "t": _ratio("cos", None, lambda n: n, 1.0),
    "u": _ratio("sin", "sin", _next, 1.0),
    "v": _ratio("cos", "cos", _middle, 0.5),
    "w": _ratio("sin", "sin", _middle, 0.5),
}
"""The polynomials at x = cos(t)."""


def _turned(n: Node, y: Node) -> Node:
    """cos(n pi/2 - y), exact where y is 0."""
    value = e.select(_is_odd(n), e.sin(y), unary("cos", y))
    return e.select(e.ge(e.sub(n, e.mul(4.0, e.floor(e.mul(n, 0.25)))), 2.0), e.neg(value), value)


_MIDDLE: dict[str, BinaryBody] = {
    "t": lambda t, n: _turned(n, e.mul(n, t)),
    "u": lambda t, n: e.div(_turned(n, e.mul(_next(n), t)), unary("cos", t)),
}
"""The polynomials that may be 0 at x = 0, at x = sin(t)."""

_OUTSIDE: dict[str, BinaryBody] = {
    "t": _ratio("cosh", None, lambda n: n, 1.0),
    "u": _ratio("sinh", "sinh", _next, 1.0),
    "v": _ratio("cosh", "cosh", _middle, 0.5),
    "w": _ratio("sinh", "sinh", _middle, 0.5),
}
"""The polynomials at x = cosh(t)."""

_AT_ONE: dict[str, Callable[[Node], Node]] = {
    "t": lambda n: e.lift(1.0, n),
    "u": _next,
    "v": lambda n: e.lift(1.0, n),
    "w": _twice,
}
_MIRRORED = {"t": "t", "u": "u", "v": "w", "w": "v"}
"""Kind -> the kind it becomes, but for the sign (-1)**n, when x changes its sign."""


def chebyshev(kind: str, steps: float) -> BinaryBody:
    """Chebyshev's polynomial of the first to fourth kind (t, u, v, w); by steps up to a degree."""
    closed = _closed_form(kind)

    def body(x: Node, n: Node) -> Node:
        few = e.le(n, steps)
        near = binary(f"chebyshev_{kind}", x, e.select(few, n, 0.0))
        return e.select(few, near, closed(x, n))

    return body


def _closed_form(kind: str) -> BinaryBody:
    """DLMF 18.5.1-18.5.4."""

    def body(x: Node, n: Node) -> Node:
        other = _MIRRORED[kind]
        size = e.absolute(x)
        inside = _INSIDE[kind](unary("acos", x), n)
        if kind in _MIDDLE:
            middle = _MIDDLE[kind](unary("asin", x), n)
            inside = e.select(e.lt(size, 0.5), middle, inside)
        t = unary("acosh", size)
        above, below = _OUTSIDE[kind](t, n), _OUTSIDE[other](t, n)
        at_one, at_minus_one = _AT_ONE[kind](n), _AT_ONE[other](n)
        right = e.select(e.eq(x, 1.0), at_one, above)
        left = e.select(e.eq(x, -1.0), at_minus_one, below)
        left = e.select(_is_odd(n), e.neg(left), left)
        return e.select(e.lt(size, 1.0), inside, e.select(e.lt(x, 0.0), left, right))

    return body


def _chebyshev_row(kind: str, *, shifted: bool = False) -> BinaryBody:
    def build(x: Node, n: Node) -> Node:
        body = chebyshev(kind, _STEPS[x.dtype.itemsize])
        value = _in_double(_shifted(body) if shifted else body)(x, n)
        if x.dtype == FLOAT64:
            return value
        degree = e.trunc(n)
        few = e.le(degree, _OWN_STEPS)
        steps = _recurrence(f"chebyshev_{kind}")
        near = (_shifted(steps) if shifted else steps)(x, e.select(few, degree, 0.0))
        return e.select(few, e.select(e.lt(degree, 0.0), 0.0, near), value)

    return build


def _shifted(body: BinaryBody) -> BinaryBody:
    return lambda x, n: body(e.sub(e.add(x, x), 1.0), n)


def _recurrence(op: str) -> BinaryBody:
    return lambda x, n: binary(op, x, n)


def _hermite(op: str) -> BinaryBody:
    """A Hermite polynomial; NaN for degrees that eager refuses in the operand's type."""

    def build(x: Node, n: Node) -> Node:
        most = _HERMITE_DEGREES[x.dtype.itemsize]
        value = _in_double(_recurrence(op))(x, n)
        return e.select(e.gt(n, most), math.nan, value)

    return build


POLYNOMIALS: dict[str, BinaryBody] = {
    **{f"chebyshev_polynomial_{kind}": _chebyshev_row(kind) for kind in "tuvw"},
    **{
        f"shifted_chebyshev_polynomial_{kind}": _chebyshev_row(kind, shifted=True)
        for kind in "tuvw"
    },
    "hermite_polynomial_h": _hermite("hermite_h"),
    "hermite_polynomial_he": _hermite("hermite_he"),
    "laguerre_polynomial_l": _in_double(_recurrence("laguerre_l")),
    "legendre_polynomial_p": _in_double(_recurrence("legendre_p")),
}
_ROWS = {f"special_{name}": body for name, body in POLYNOMIALS.items()}
binary_rows(_ROWS, promote_float, dict.fromkeys(_ROWS, ("default", "x_scalar", "n_scalar")))
