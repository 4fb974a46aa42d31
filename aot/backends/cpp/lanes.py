"""How an index expression behaves across the lanes of one vector."""

from __future__ import annotations

from dataclasses import dataclass

from aot.symbolic import (
    Add,
    Expr,
    FloorDiv,
    Modulo,
    Mul,
    Symbol,
    factor_without,
    factors,
    integer,
    number_and_rest,
    terms,
)


@dataclass(frozen=True)
class VectorAxis:
    """The vectorised loop variable.

    At the head of every vector it is a multiple of `alignment`, which every vector's lane count
    divides (when the lanes are not masked off).
    """

    symbol: Symbol
    alignment: int


def lane_step(expr: Expr, axis: VectorAxis) -> Expr | None:
    """s when `expr` at lane l is `expr` at lane 0 plus l * s, within every vector; None if not so.

    Divisions count as constant, and remainders as their dividend, where a vector cannot cross a
    multiple of the divisor.
    """
    if axis.symbol not in expr.free_symbols:
        return integer(0)
    if expr == axis.symbol:
        return integer(1)
    if isinstance(expr, Add):
        steps = [lane_step(a, axis) for a in expr.args]
        return None if any(s is None for s in steps) else Add(*steps)
    if isinstance(expr, Mul):
        varying = [a for a in expr.args if axis.symbol in a.free_symbols]
        if len(varying) != 1:
            return None
        inner = lane_step(varying[0], axis)
        return None if inner is None else inner * factor_without(expr, axis.symbol)
    if isinstance(expr, (FloorDiv, Modulo)):
        dividend, divisor = expr.args
        if not _stays_within(dividend, divisor, axis):
            return None
        return integer(0) if isinstance(expr, FloorDiv) else lane_step(dividend, axis)
    return None


def _stays_within(dividend: Expr, divisor: Expr, axis: VectorAxis) -> bool:
    """True when no vector crosses a multiple of the divisor: dividend = lane + c*v' + aligned."""
    if not divisor.is_Integer:
        return False
    step = lane_step(dividend, axis)
    if step is None or not step.is_Integer:
        return False
    if step == 0:
        return True
    if step != 1 or int(divisor) % axis.alignment:
        return False
    return is_multiple(dividend, axis)


def is_multiple(expr: Expr, axis: VectorAxis) -> bool:
    """True when `expr` is a multiple of the alignment at the head of every vector, provably."""
    for term in terms(expr):
        coefficient, rest = number_and_rest(term)
        if int(coefficient) % axis.alignment == 0 if coefficient.is_Integer else False:
            continue
        if axis.symbol in factors(rest):
            continue
        if isinstance(rest, Modulo) and _aligned_modulo(rest, axis):
            continue
        return False
    return True


def _aligned_modulo(expr: Expr, axis: VectorAxis) -> bool:
    dividend, divisor = expr.args
    divides = divisor.is_Integer and int(divisor) % axis.alignment == 0
    return bool(divides) and is_multiple(dividend, axis)
