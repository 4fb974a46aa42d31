"""Symbols, and the arithmetic of shapes: products, strides, raveling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

import sympy

from aot.symbolic.functions import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Symbol,
    exact_quotient,
    expand,
)


@cache
def var(name: str) -> Symbol:
    """A loop variable: a non-negative integer."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


@cache
def dim(name: str) -> Symbol:
    """A dynamic size: a non-negative integer that inputs bind."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def integer(value: int) -> Expr:
    """An integer constant."""
    return sympy.Integer(value)


def power_above(number: int) -> int:
    """The least power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()


def as_expr(value: int | Expr) -> Expr:
    """A Python int or an expression, as an expression."""
    return sympy.Integer(value) if isinstance(value, int) else value


def is_int(expr: Expr, value: int | None = None) -> bool:
    """True when `expr` is an integer constant (equal to `value`, if given)."""
    return bool(expr.is_Integer) and (value is None or int(expr) == value)


def product(values: Sequence[Expr]) -> Expr:
    """Product of sizes; 1 for none."""
    return _product(tuple(values))


@lru_cache(maxsize=1 << 14)  # as `expand`
def _product(values: tuple[Expr, ...]) -> Expr:
    return expand(sympy.Mul(*values))


def ceil_div(a: Expr | int, b: Expr | int) -> Expr:
    """ceil(a / b), b > 0."""
    return FloorDiv(as_expr(a) + as_expr(b) - 1, as_expr(b))


def from_front(position: Expr, size: Expr) -> Expr:
    """A position along a dimension, counted from its end where it is negative, from its front."""
    is_negative = Minimum(Maximum(-position, integer(0)), integer(1))
    return position + size * is_negative


def row_major_strides(shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """Strides, in elements, of a C-contiguous array of that shape."""
    strides: list[Expr] = []
    running: Expr = sympy.S.One
    for size in reversed(shape):
        strides.append(running)
        running = expand(running * size)
    return tuple(reversed(strides))


def ravel(index: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The row-major linear position of `index` in `shape`."""
    strides = row_major_strides(shape)
    return expand(sympy.Add(*[i * s for i, s in zip(index, strides, strict=True)]))


def unravel(position: Expr, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The index in `shape` of a row-major linear position (the inverse of `ravel`)."""
    strides = row_major_strides(shape)
    index = []
    for k, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        quotient = FloorDiv(position, stride) if stride != 1 else position
        index.append(quotient if k == 0 else Modulo(quotient, size))
    return tuple(index)


def refine_shapes(a: Sequence[Expr], b: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """The coarsest shape that both `a` and `b` merge from, or None.

    (6, 4) and (2, 3, 4) refine to (2, 3, 4); (4, 6) and (6, 4) have no common refinement.
    Sizes of 1 are dropped. Works from the innermost dimension outwards.
    """
    left = [s for s in a if s != 1]
    right = [s for s in b if s != 1]
    refined: list[Expr] = []
    while left and right:
        x, y = left.pop(), right.pop()
        if x == y:
            refined.append(x)
            continue
        over = exact_quotient(x, y)
        under = exact_quotient(y, x)
        if over is not None:
            refined.append(y)
            left.append(over)
        elif under is not None:
            refined.append(x)
            right.append(under)
        else:
            return None
    if left or right:
        return None
    return tuple(reversed(refined))
