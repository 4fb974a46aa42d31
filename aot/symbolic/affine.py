"""Substitution and affine structure of index expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import sympy

from aot.symbolic.functions import Expr, Symbol, expand, terms


def substitute(expr: Expr, mapping: Mapping[Symbol, Expr]) -> Expr:
    """`expr` with symbols replaced, all at once."""
    if not mapping or expr.is_Integer:
        return expr
    replaced = expr.xreplace(dict(mapping))
    return expand(replaced) if replaced is not expr and _has_product_of_sum(replaced) else replaced


def _has_product_of_sum(expr: Expr) -> bool:
    if isinstance(expr, sympy.Mul):
        return any(isinstance(a, (sympy.Add, sympy.Pow)) for a in expr.args)
    return any(_has_product_of_sum(a) for a in expr.args)


def depends_on(expr: Expr, symbols: Sequence[Symbol]) -> bool:
    """True when one of `symbols` occurs in `expr`."""
    free = expr.free_symbols
    return any(s in free for s in symbols)


@lru_cache(maxsize=1 << 14)  # every loop of a kernel is tried on the same accesses
def coefficient_of(expr: Expr, symbol: Symbol) -> Expr | None:
    """C when `expr == c * symbol + rest` with neither part using `symbol` again; else None.

    0 when `symbol` does not occur. c may hold dims and other variables.
    """
    if symbol not in expr.free_symbols:
        return sympy.S.Zero
    coefficient: Expr = sympy.S.Zero
    for term in terms(expr):
        if symbol not in term.free_symbols:
            continue
        part = term / symbol
        if symbol in part.free_symbols:
            return None
        coefficient += part
    return coefficient


def affine_coefficients(
    expr: Expr, symbols: Sequence[Symbol]
) -> tuple[tuple[Expr, ...], Expr] | None:
    """(coefficients, offset) with `expr == sum(c * s) + offset`; None when not affine in `symbols`.

    Coefficients and offset are free of `symbols`; they may hold dims.
    """
    return _affine(expr, tuple(symbols))


@lru_cache(maxsize=1 << 14)  # as `expand`
def _affine(expr: Expr, symbols: tuple[Symbol, ...]) -> tuple[tuple[Expr, ...], Expr] | None:
    coefficients: list[Expr] = []
    rest = expr
    for symbol in symbols:
        c = coefficient_of(rest, symbol)
        if c is None or depends_on(c, symbols):
            return None
        coefficients.append(c)
        if c != 0:
            rest = expand(rest - c * symbol)
    return tuple(coefficients), rest
