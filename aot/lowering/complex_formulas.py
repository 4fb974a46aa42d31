"""Elementwise operators on complex tensors: one nest for both parts of the result.

Their rows are called "complex.aten.…". A complex operand is a pair of tensors, its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aot.ir.dtypes import FLOAT64, DType
from aot.ir.scalar import Node
from aot.lowering import complex_numbers as c
from aot.lowering import exprs as e
from aot.lowering.builder import Tensor
from aot.lowering.complex_numbers import Complex
from aot.lowering.complex_parts import FORMULA
from aot.lowering.pointwise import narrow
from aot.lowering.promotion import TensorLike, element, promote_float
from aot.lowering.registry import Call, Lowering, Results
from aot.lowering.rows import REGISTRY
from aot.symbolic import Expr

ComplexOperand = TensorLike | complex | tuple[Tensor, Tensor]
ComplexBody = Callable[..., Complex | Node]


def elementwise(
    call: Call, operands: Sequence[ComplexOperand], body: ComplexBody, compute: DType | None = None
) -> Results:
    """`body` of the operands' elements: both parts, or one real tensor.

    `compute`: the type of the arithmetic, if it is not that of the operands.
    """
    compute = compute or _computed(call, operands).compute
    shape = call.result_type().shape

    def point(index: tuple[Expr, ...]) -> tuple[Node, ...]:
        made = body(*(_element(call, operand, index, compute) for operand in operands))
        return (made.re, made.im) if isinstance(made, Complex) else (made,)

    def output(k: int) -> tuple[DType, Callable[[tuple[Expr, ...]], Node]]:
        dtype = call.result_type(k).dtype
        return dtype, lambda index: narrow(point(index)[k], dtype)

    made = call.builder.pointwise_many(shape, [output(k) for k in range(len(call.op.outputs))])
    return made if len(made) > 1 else made[0]


def _computed(call: Call, operands: Sequence[ComplexOperand]) -> DType:
    """The type of the parts: that of a complex result, else what the operands promote to."""
    if len(call.op.outputs) == 2:
        return call.result_type().dtype
    plain: list[TensorLike] = []
    for operand in operands:
        pair = operand if isinstance(operand, tuple) else (operand,)
        plain += [float(abs(x)) if isinstance(x, complex) else x for x in pair]
    return promote_float(*plain)


def _element(call: Call, operand: ComplexOperand, index: Sequence[Expr], dtype: DType) -> Complex:
    if isinstance(operand, complex):
        operand_parts: tuple[TensorLike, TensorLike] = (operand.real, operand.imag)
    elif isinstance(operand, tuple):
        operand_parts = operand
    else:
        operand_parts = (operand, 0.0)
    return Complex(*(element(call.builder, part, index, dtype) for part in operand_parts))


def _row(*overloads: str) -> Callable[[Lowering], Lowering]:
    return REGISTRY.row(*(f"{FORMULA}aten.{overload}" for overload in overloads))


def _unary(body: ComplexBody) -> Lowering:
    def lower(call: Call, z: ComplexOperand, **_: Any) -> Results:
        return elementwise(call, (z,), body)

    return lower


def _binary(body: ComplexBody) -> Lowering:
    def lower(call: Call, a: ComplexOperand, b: ComplexOperand) -> Results:
        return elementwise(call, (a, b), body)

    return lower


def _same(a: Complex, b: Complex) -> Node:
    return e.and_(e.eq(a.re, b.re), e.eq(a.im, b.im))


def _other(a: Complex, b: Complex) -> Node:
    return e.or_(e.ne(a.re, b.re), e.ne(a.im, b.im))


def _test(both: Callable[[Node, Node], Node], test: Callable[[Node], Node]) -> ComplexBody:
    return lambda z: both(test(z.re), test(z.im))


_TO_REAL: dict[str, ComplexBody] = {
    "abs": c.absolute,
    "absolute": c.absolute,
    "angle": c.angle,
    "isnan": _test(e.or_, e.isnan),
    "isinf": _test(e.or_, e.isinf),
    "isfinite": _test(e.and_, e.is_finite),
}

for _name, _body in {**c.UNARY, **_TO_REAL}.items():
    _row(f"{_name}.default")(_unary(_body))

_BINARY: dict[str, tuple[ComplexBody, str]] = {
    "mul": (c.mul, "Tensor Scalar"),
    "multiply": (c.mul, "Tensor Scalar"),
    "div": (c.div, "Tensor Scalar"),
    "divide": (c.div, "Tensor Scalar"),
    "true_divide": (c.div, "Tensor Scalar"),
    "eq": (_same, "Tensor Scalar"),
    "ne": (_other, "Tensor Scalar"),
}

for _name, (_body, _overloads) in _BINARY.items():
    _row(*(f"{_name}.{overload}" for overload in _overloads.split()))(_binary(_body))


@_row("add.Tensor", "add.Scalar")
def add(call: Call, a: ComplexOperand, b: ComplexOperand, alpha: Any = 1) -> Results:
    """Gives a + alpha * b."""
    return _sum(call, a, b, alpha, c.add)


@_row("sub.Tensor", "sub.Scalar", "subtract.Tensor", "subtract.Scalar")
def sub(call: Call, a: ComplexOperand, b: ComplexOperand, alpha: Any = 1) -> Results:
    """Gives a - alpha * b."""
    return _sum(call, a, b, alpha, c.sub)


@_row("rsub.Tensor", "rsub.Scalar")
def rsub(call: Call, a: ComplexOperand, b: ComplexOperand, alpha: Any = 1) -> Results:
    """Gives b - alpha * a."""
    return _sum(call, b, a, alpha, c.sub)


def _sum(
    call: Call, a: ComplexOperand, b: ComplexOperand, alpha: Any, join: ComplexBody
) -> Results:
    if alpha == 1:
        return elementwise(call, (a, b), join)
    return elementwise(call, (a, b, alpha), lambda x, y, by: join(x, c.mul(by, y)))


@_row("pow.Tensor_Tensor", "pow.Scalar")
def pow_(call: Call, a: ComplexOperand, b: ComplexOperand) -> Results:
    """a to the power of b; in float64, because the result's argument loses digits as it grows."""
    return elementwise(call, (a, b), c.power, FLOAT64)


@_row("pow.Tensor_Scalar")
def pow_scalar(call: Call, a: ComplexOperand, exponent: Any) -> Results:
    """a to the power of a number, by products and roots where there are some."""
    if isinstance(exponent, (int, float)) and float(exponent) in c.POWERS:
        return elementwise(call, (a,), c.POWERS[float(exponent)])
    return pow_(call, a, exponent)


@_row("polar.default")
def polar(call: Call, magnitude: ComplexOperand, phase: ComplexOperand) -> Results:
    """The numbers of these magnitudes and arguments."""
    return elementwise(call, (magnitude, phase), lambda r, t: c.polar(r.re, t.re))


@_row("lerp.Scalar", "lerp.Tensor")
def lerp(call: Call, a: ComplexOperand, b: ComplexOperand, weight: ComplexOperand) -> Results:
    """Gives a + weight * (b - a), counted from the nearer end."""

    def body(x: Complex, y: Complex, w: Complex) -> Complex:
        step = c.sub(y, x)
        far = c.sub(y, c.mul(step, c.sub(Complex(e.lift(1.0, w.re), e.lift(0.0, w.re)), w)))
        return c.select(e.lt(c.absolute(w), 0.5), c.add(x, c.mul(w, step)), far)

    return elementwise(call, (a, b, weight), body)
