"""Elementwise operators of two and three operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aot.ir.dtypes import BOOL, FLOAT64
from aot.ir.scalar import Node, binary, cast, where
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.exprs import BinaryBody
from aot.lowering.pointwise import (
    binary_rows,
    elementwise,
    promote,
    promote_float,
    same_type,
)
from aot.lowering.promotion import TensorLike, element
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY


def _op(name: str) -> BinaryBody:
    return lambda a, b: binary(name, a, b)


def _for_bool(on_bool: str, otherwise: BinaryBody) -> BinaryBody:
    """Arithmetic on bool is logic."""
    return lambda a, b: binary(on_bool, a, b) if a.dtype == BOOL else otherwise(a, b)


def float_remainder(a: Node, b: Node) -> Node:
    """a modulo b with the sign of b, for floats."""
    rest = e.fmod(a, b)
    crosses = e.and_(e.ne(rest, 0.0), e.xor(e.lt(b, 0.0), e.lt(rest, 0.0)))
    return e.select(crosses, e.add(rest, b), rest)


def float_floor_divide(a: Node, b: Node) -> Node:
    """floor(a / b) without the rounding of the quotient, as Python and PyTorch do it."""
    rest = e.fmod(a, b)
    exact = e.div(e.sub(a, rest), b)
    crosses = e.and_(e.ne(rest, 0.0), e.xor(e.lt(b, 0.0), e.lt(rest, 0.0)))
    quotient = e.select(crosses, e.sub(exact, 1.0), exact)
    floored = e.floor(quotient)
    nearest = e.select(e.gt(e.sub(quotient, floored), 0.5), e.add(floored, 1.0), floored)
    plain = e.div(a, b)
    signed = e.select(e.ne(quotient, 0.0), nearest, e.copysign(0.0, plain))
    return e.select(e.eq(b, 0.0), plain, signed)


def floor_divide(a: Node, b: Node) -> Node:
    """The quotient rounded towards minus infinity."""
    return float_floor_divide(a, b) if a.dtype.is_float else binary("floordiv", a, b)


def trunc_divide(a: Node, b: Node) -> Node:
    """The quotient rounded towards zero."""
    return e.trunc(e.div(a, b)) if a.dtype.is_float else binary("truncdiv", a, b)


def remainder(a: Node, b: Node) -> Node:
    """The remainder with the divisor's sign."""
    return float_remainder(a, b) if a.dtype.is_float else binary("mod", a, b)


def _shift(op: str) -> BinaryBody:
    def build(a: Node, b: Node) -> Node:
        bits = 8 * a.dtype.itemsize
        inside = e.and_(e.ge(b, 0), e.lt(b, bits))
        safe = e.select(inside, b, 0)
        beyond = e.lift(0, a) if op == "shl" else binary("shr", a, e.lift(bits - 1, a))
        return where(inside, binary(op, a, safe), beyond)

    return build


def xlogy(a: Node, b: Node) -> Node:
    """a * log(b), 0 where a is 0 unless b is NaN."""
    product = e.select(e.eq(a, 0.0), 0.0, e.mul(a, e.log(b)))
    return e.select(e.isnan(b), b, product)


def _xlog1py(a: Node, b: Node) -> Node:
    product = e.select(e.eq(a, 0.0), 0.0, e.mul(a, e.log1p(b)))
    return e.select(e.isnan(b), b, product)


def logaddexp(a: Node, b: Node) -> Node:
    """log(exp(a) + exp(b)), stable; equal infinities give themselves."""
    difference = e.neg(e.absolute(e.sub(a, b)))
    total = e.add(e.maximum(a, b), e.log1p(e.exp(difference)))
    return e.select(e.and_(e.isinf(a), e.eq(a, b)), a, total)


def _logaddexp2(a: Node, b: Node) -> Node:
    difference = e.neg(e.absolute(e.sub(a, b)))
    tail = e.mul(e.log1p(e.exp2(difference)), 1.0 / math.log(2.0))
    return e.select(e.and_(e.isinf(a), e.eq(a, b)), a, e.add(e.maximum(a, b), tail))


def _heaviside(a: Node, b: Node) -> Node:
    step = cast(e.gt(a, 0), a.dtype)
    return e.select(e.eq(a, 0), b, step)


def _logical(op: str) -> BinaryBody:
    return lambda a, b: binary(op, e.truth(a), e.truth(b))


def _power(a: Node, b: Node) -> Node:
    if b.op == "const" and not isinstance(b.attr, bool):
        special = constant_power(a, float(b.attr))  # type: ignore[arg-type]
        if special is not None:
            return special
    return binary("pow", a, b)


def constant_power(x: Node, exponent: float) -> Node | None:
    """x ** exponent by multiplications and roots where eager does so, else None."""
    if exponent == 2.0:
        return e.mul(x, x)
    if exponent == 3.0:
        return e.mul(e.mul(x, x), x)
    if not x.dtype.is_float:
        return None
    forms: dict[float, Callable[[], Node]] = {
        0.0: lambda: e.lift(1.0, x),
        1.0: lambda: x,
        0.5: lambda: e.sqrt(x),
        -0.5: lambda: e.rsqrt(x),
        -1.0: lambda: e.reciprocal(x),
        -2.0: lambda: e.reciprocal(e.mul(x, x)),
    }
    return forms[exponent]() if exponent in forms else None


def _lcm(a: Node, b: Node) -> Node:
    divisor = e.gcd(a, b)
    none = e.eq(divisor, 0)
    part = _op("truncdiv")(a, e.select(none, 1, divisor))
    if a.dtype.itemsize < 4:  # Eager's product of narrow integers is wide.
        multiple = e.mul(e.absolute(part), e.absolute(b))
    else:
        multiple = e.absolute(e.mul(part, b))
    return e.select(none, 0, multiple)


SAME_TYPE: dict[str, BinaryBody] = {
    "mul": _for_bool("and", e.mul),
    "multiply": _for_bool("and", e.mul),
    "maximum": _for_bool("or", e.maximum),
    "minimum": _for_bool("and", e.minimum),
    "fmax": lambda a, b: binary("fmax" if a.dtype.is_float else "maximum", a, b),
    "fmin": lambda a, b: binary("fmin" if a.dtype.is_float else "minimum", a, b),
    "remainder": remainder,
    "fmod": e.fmod,
    "floor_divide": floor_divide,
    "pow": _power,
    "bitwise_and": _op("and"),
    "bitwise_or": _op("or"),
    "bitwise_xor": _op("xor"),
    "__and__": _op("and"),
    "__or__": _op("or"),
    "__xor__": _op("xor"),
    "bitwise_left_shift": _shift("shl"),
    "bitwise_right_shift": _shift("shr"),
    "__lshift__": _shift("shl"),
    "__rshift__": _shift("shr"),
    "heaviside": _heaviside,
    "hypot": _op("hypot"),
    "nextafter": _op("nextafter"),
    "eq": e.eq,
    "ne": e.ne,
    "lt": e.lt,
    "le": e.le,
    "gt": e.gt,
    "ge": e.ge,
    "not_equal": e.ne,
    "less": e.lt,
    "less_equal": e.le,
    "greater": e.gt,
    "greater_equal": e.ge,
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "gcd": e.gcd,
    "lcm": _lcm,
    "logaddexp": logaddexp,
    "logaddexp2": _logaddexp2,
}

FLOATING: dict[str, BinaryBody] = {
    "true_divide": e.div,
    "atan2": _op("atan2"),
    "arctan2": _op("atan2"),
    "copysign": e.copysign,
    "xlogy": xlogy,
    "special_xlogy": xlogy,
    "special_xlog1py": _xlog1py,
    "ldexp": lambda a, b: e.mul(a, e.exp2(b)),
}

_DEFAULT = """maximum minimum fmax fmin heaviside hypot nextafter logical_and logical_or
logical_xor gcd lcm logaddexp logaddexp2 atan2 arctan2""".split()
_POWER = ("Scalar", "Tensor_Scalar", "Tensor_Tensor")
_BITWISE = ("Tensor", "Scalar", "Scalar_Tensor")
_SHIFT = ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
_SPECIAL = ("default", "self_scalar", "other_scalar")

OVERLOADS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_DEFAULT, ("default",)),
    **dict.fromkeys(("pow", "float_power"), _POWER),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor", "remainder"), _BITWISE),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), _SHIFT),
    **dict.fromkeys(("special_xlogy", "special_xlog1py"), _SPECIAL),
    "floor_divide": ("default", "Scalar"),
    "xlogy": ("Tensor", "Scalar_Self", "Scalar_Other"),
    "ldexp": ("Tensor",),
}
"""Overloads of the operators that do not have just Tensor and Scalar."""

binary_rows(SAME_TYPE, promote, OVERLOADS)
binary_rows(FLOATING, promote_float, OVERLOADS)
binary_rows({"float_power": _op("pow")}, same_type(FLOAT64), OVERLOADS)


@REGISTRY.row("aten.add.Tensor", "aten.add.Scalar")
def add(call: Call, a: TensorLike, b: TensorLike, alpha: Any = 1) -> Tensor:
    """a + alpha * b; `or` for bool."""

    def body(x: Node, y: Node) -> Node:
        if x.dtype == BOOL:
            return e.or_(x, y) if alpha else x
        return e.add(x, y if alpha == 1 else e.mul(y, alpha))

    return elementwise(call, (a, b), promote(a, b), body)


def _subtract(call: Call, a: TensorLike, b: TensorLike, alpha: Any) -> Tensor:
    def body(x: Node, y: Node) -> Node:
        return e.sub(x, y if alpha == 1 else e.mul(y, alpha))

    return elementwise(call, (a, b), promote(a, b), body)


@REGISTRY.row("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor")
def sub(call: Call, a: TensorLike, b: TensorLike, alpha: Any = 1) -> Tensor:
    """a - alpha * b."""
    return _subtract(call, a, b, alpha)


@REGISTRY.row("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(call: Call, a: TensorLike, b: TensorLike, alpha: Any = 1) -> Tensor:
    """b - alpha * a."""
    return _subtract(call, b, a, alpha)


@REGISTRY.row(
    "aten.div.Tensor",
    "aten.div.Scalar",
    "aten.div.Tensor_mode",
    "aten.div.Scalar_mode",
    "aten.divide.Tensor",
    "aten.divide.Tensor_mode",
)
def div(call: Call, a: TensorLike, b: TensorLike, rounding_mode: str | None = None) -> Tensor:
    """The true quotient, or rounded ("floor", "trunc")."""
    if rounding_mode is None:
        return elementwise(call, (a, b), promote_float(a, b), e.div)
    bodies = {"floor": floor_divide, "trunc": trunc_divide}
    return elementwise(call, (a, b), promote(a, b), bodies[rounding_mode])


@REGISTRY.row(
    "aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"
)
def where_(call: Call, condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where condition, else b."""

    def body(c: Node, x: Node, y: Node) -> Node:
        return e.select(e.truth(c), x, y)

    return _conditional(call, condition, a, b, body)


def _conditional(
    call: Call,
    condition: TensorLike,
    a: TensorLike,
    b: TensorLike,
    body: Callable[..., Node],
) -> Tensor:
    """As `elementwise`, the first operand being taken as bool."""
    result, builder = call.result_type(), call.builder
    from_ = (condition, a, b)

    def point(index: tuple[Any, ...]) -> Node:
        types = (BOOL, result.dtype, result.dtype)
        nodes = [element(builder, o, index, t) for o, t in zip(from_, types, strict=True)]
        return body(*nodes)

    return builder.pointwise(result.shape, result.dtype, point)


@REGISTRY.row("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(call: Call, x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """`value` where mask, else x."""
    return _conditional(call, mask, value, x, e.select)


@REGISTRY.row("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
def clamp(
    call: Call,
    x: Tensor,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
) -> Tensor:
    """x limited to [min, max]; NaN in any operand gives NaN."""
    compute = promote(x, min, max)
    bounds = [b for b in (min, max) if b is not None]

    def body(v: Node, *limits: Node) -> Node:
        rest = list(limits)
        low = rest.pop(0) if min is not None else None
        return e.clamp(v, low, rest.pop(0) if max is not None else None)

    return elementwise(call, (x, *bounds), compute, body)


@REGISTRY.row("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(call: Call, x: Tensor, low: TensorLike) -> Tensor:
    """max(x, low)."""
    return elementwise(call, (x, low), promote(x, low), e.maximum)


@REGISTRY.row("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(call: Call, x: Tensor, high: TensorLike) -> Tensor:
    """min(x, high)."""
    return elementwise(call, (x, high), promote(x, high), e.minimum)


@REGISTRY.row("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(call: Call, a: Tensor, b: Tensor, weight: TensorLike) -> Tensor:
    """a + weight * (b - a), taken from the nearer end."""

    def body(x: Node, y: Node, w: Node) -> Node:
        span = e.sub(y, x)
        near = e.add(x, e.mul(w, span))
        far = e.sub(y, e.mul(span, e.sub(1.0, w)))
        return e.select(e.lt(e.absolute(w), 0.5), near, far)

    return elementwise(call, (a, b, weight), promote(a, b), body)


@REGISTRY.row("aten.addcmul.default")
def addcmul(call: Call, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """x + value * a * b."""

    def body(v: Node, y: Node, z: Node) -> Node:
        scaled = y if value == 1 else e.mul(y, value)
        return e.add(v, e.mul(scaled, z))

    return elementwise(call, (x, a, b), promote(x, a, b), body)


@REGISTRY.row("aten.addcdiv.default")
def addcdiv(call: Call, x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """x + value * a / b."""

    def body(v: Node, y: Node, z: Node) -> Node:
        scaled = y if value == 1 else e.mul(y, value)
        return e.add(v, e.div(scaled, z))

    return elementwise(call, (x, a, b), promote(x, a, b), body)
