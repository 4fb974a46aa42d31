"""Elementwise operators of one operand: a table row each."""

from __future__ import annotations

import math
from typing import Any

from aot.ir.dtypes import BOOL, INT32, INT64, DType
from aot.ir.scalar import Node, cast, const, make, unary
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.exprs import UnaryBody
from aot.lowering.pointwise import elementwise, narrow, promote, promote_float, unary_rows
from aot.lowering.promotion import TensorLike, element
from aot.lowering.registry import Call
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr

FLOAT_LIMITS = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
}


def _op(name: str) -> UnaryBody:
    return lambda x: unary(name, x)


_DIRECT_FLOAT = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos
atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid i0""".split()
_SPECIAL = """exp2 expm1 log1p erf erfc erfinv digamma i0 i0e i1 i1e""".split()


def sign(x: Node) -> Node:
    """-1, 0 or 1; NaN gives 0."""
    if x.dtype == BOOL:
        return x
    negative = e.select(e.lt(x, 0), e.lift(-1 if x.dtype.kind != "u" else 0, x), 0)
    return e.select(e.gt(x, 0), e.lift(1, x), negative)


def sinc(x: Node) -> Node:
    """sin(pi x) / (pi x), 1 at 0."""
    scaled = e.mul(x, math.pi)
    return e.select(e.eq(x, 0), 1.0, e.div(e.sin(scaled), scaled))


def _angle(x: Node) -> Node:
    return e.select(e.isnan(x), x, e.select(e.lt(x, 0), e.lift(math.pi, x), 0.0))


def _rounded(op: str) -> UnaryBody:
    return lambda x: unary(op, x) if x.dtype.is_float else x


def _float_test(op: str) -> UnaryBody:
    return lambda x: unary(op, x) if x.dtype.is_float else const(False, BOOL)


def _is_infinity(*, positive: bool) -> UnaryBody:
    value = math.inf if positive else -math.inf
    return lambda x: e.eq(x, value) if x.dtype.is_float else const(False, BOOL)


def _signbit(x: Node) -> Node:
    return e.signbit(x) if x.dtype.is_float else e.lt(x, 0)


def _bitwise_not(x: Node) -> Node:
    return e.not_(x) if x.dtype == BOOL else unary("bitnot", x)


FLOATING: dict[str, UnaryBody] = {
    **{name: _op(name) for name in _DIRECT_FLOAT},
    "arccos": _op("acos"),
    "arcsin": _op("asin"),
    "arctan": _op("atan"),
    "arccosh": _op("acosh"),
    "arcsinh": _op("asinh"),
    "arctanh": _op("atanh"),
    **{f"special_{name}": _op(name) for name in _SPECIAL},
    "special_expit": _op("sigmoid"),
    "special_gammaln": _op("lgamma"),
    "special_psi": _op("digamma"),
    "special_sinc": sinc,
    "sinc": sinc,
    "deg2rad": lambda x: e.mul(x, math.pi / 180.0),
    "rad2deg": lambda x: e.mul(x, 180.0 / math.pi),
    "angle": _angle,
}

SAME_TYPE: dict[str, UnaryBody] = {
    "abs": lambda x: x if x.dtype == BOOL else e.absolute(x),
    "absolute": lambda x: x if x.dtype == BOOL else e.absolute(x),
    "neg": e.neg,
    "negative": e.neg,
    "positive": lambda x: x,
    "square": lambda x: e.mul(x, x),
    "sign": sign,
    "sgn": sign,
    "ceil": _rounded("ceil"),
    "floor": _rounded("floor"),
    "round": _rounded("round"),
    "trunc": _rounded("trunc"),
    "fix": _rounded("trunc"),
    "frac": lambda x: e.sub(x, e.trunc(x)),
    "bitwise_not": _bitwise_not,
    "logical_not": lambda x: e.not_(e.truth(x)),
    "isnan": _float_test("isnan"),
    "isinf": _float_test("isinf"),
    "isposinf": _is_infinity(positive=True),
    "isneginf": _is_infinity(positive=False),
    "isfinite": e.is_finite,
    "signbit": _signbit,
    # Copies: eager promises new memory, which buffers of a loop graph give anyway.
    "clone": lambda x: x,
    "detach": lambda x: x,
    "alias": lambda x: x,
    "lift_fresh": lambda x: x,
    # Of real tensors; conjugates are views in eager.
    **{name: lambda x: x for name in "_conj conj_physical real resolve_conj resolve_neg".split()},
    "_neg_view": e.neg,
    "lift_fresh_copy": lambda x: x,
    "contiguous": lambda x: x,
}


@REGISTRY.row("aten.frexp.Tensor")
def frexp(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """(m, k) with x = m * 2**k and m in [0.5, 1); (x, 0) for zeros, infinities and NaN."""
    compute = x.dtype.compute
    whole, digits, bias = (INT64, 52, 1022) if compute.itemsize == 8 else (INT32, 23, 126)
    raised = digits + 2
    field = (1 << (8 * compute.itemsize - 1 - digits)) - 1

    def parts(at: tuple[Expr, ...]) -> tuple[Node, Node]:
        value = cast(x.load(at), compute)
        # The least floats have no exponent of their own.
        least = e.lt(e.absolute(value), 2.0 ** (1 - bias))
        normal = e.select(least, e.mul(value, 2.0**raised), value)
        bits = make("bitcast", whole, normal)
        exponent = e.sub(e.and_(e.shr(bits, digits), field), bias)
        exponent = e.sub(exponent, e.select(least, e.lift(raised, exponent), 0))
        scaled = e.or_(e.and_(bits, ~(field << digits)), bias << digits)
        odd = e.or_(e.eq(value, 0.0), e.not_(e.is_finite(value)))
        fraction = e.select(odd, value, make("bitcast", compute, scaled))
        return narrow(fraction, x.dtype), cast(e.select(odd, 0, exponent), INT32)

    outputs = [(x.dtype, lambda at: parts(at)[0]), (INT32, lambda at: parts(at)[1])]
    fractions, exponents = call.builder.pointwise_many(x.shape, outputs)
    return fractions, exponents


unary_rows(FLOATING, promote_float)
unary_rows(SAME_TYPE, promote)


@REGISTRY.row("aten.round.decimals")
def round_decimals(call: Call, x: Tensor, *, decimals: int) -> Tensor:
    """Rounds to `decimals` places, half to even, through a scaling by a power of ten."""
    scale = 10.0 ** abs(decimals)

    def body(v: Node) -> Node:
        up = e.mul(v, scale) if decimals >= 0 else e.div(v, scale)
        rounded = unary("round", up)
        return e.div(rounded, scale) if decimals >= 0 else e.mul(rounded, scale)

    return elementwise(call, (x,), x.dtype, body)


@REGISTRY.row(
    "aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.type_as.default"
)
def to_copy(call: Call, x: TensorLike, *_: Any, **__: Any) -> Tensor:
    """A cast to the result's type; torch.vmap casts also the numbers of operators."""
    result = call.result_type()

    def point(index: tuple[Any, ...]) -> Node:
        return element(call.builder, x, index, result.dtype)

    shape = x.shape if isinstance(x, Tensor) else ()
    return call.builder.pointwise(shape, result.dtype, point)


@REGISTRY.row("prims.convert_element_type.default")
def convert_element_type(call: Call, x: Tensor, dtype: DType) -> Tensor:
    """A cast to `dtype`."""
    return call.builder.pointwise(x.shape, dtype, lambda index: cast(x.load(index), dtype))


@REGISTRY.row("aten.logit.default", "aten.special_logit.default")
def logit(call: Call, x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x first clamped to [eps, 1 - eps] when eps is given."""

    def body(v: Node) -> Node:
        z = v if eps is None else e.clamp(v, float(eps), 1.0 - float(eps))
        return e.log(e.div(z, e.sub(1.0, z)))

    return elementwise(call, (x,), promote_float(x), body)


@REGISTRY.row("aten.nan_to_num.default")
def nan_to_num(
    call: Call,
    x: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Replaces NaN by `nan` (0) and infinities by the given or the largest finite values."""
    if not x.dtype.is_float:
        return elementwise(call, (x,), x.dtype, lambda v: v)
    limit = FLOAT_LIMITS[x.dtype.name]
    high = limit if posinf is None else float(posinf)
    low = -limit if neginf is None else float(neginf)

    def body(v: Node) -> Node:
        finite = e.select(e.eq(v, math.inf), high, e.select(e.eq(v, -math.inf), low, v))
        return e.select(e.isnan(v), float(nan or 0.0), finite)

    return elementwise(call, (x,), x.dtype, body)
