"""What an expression is made of, for those who walk one."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from aot.symbolic.functions import Expr, FloorDiv, Maximum, Minimum, Modulo, Symbol


def factors(expr: Expr) -> tuple[Expr, ...]:
    """What a product multiplies; the expression itself where it is none."""
    return expr.args if isinstance(expr, sympy.Mul) else (expr,)


def constant_and_rest(expr: Expr) -> tuple[Expr, Expr]:
    """(the constant term, 0 without one; the sum of the others)."""
    constant, rest = expr.as_coeff_Add()
    return constant, rest


def number_and_rest(term: Expr) -> tuple[Expr, Expr]:
    """(the numeric factor, 1 without one; the product of the others)."""
    number, rest = term.as_coeff_Mul()
    return number, rest


def factor_without(expr: Expr, symbol: Symbol) -> Expr:
    """The product of the factors that do not depend on a symbol."""
    apart: Expr = sympy.S.One
    for factor in factors(expr):
        if symbol not in factor.free_symbols:
            apart = apart * factor
    return apart


def quotients(expr: Expr) -> frozenset[FloorDiv]:
    """Every floor division inside of an expression."""
    return frozenset(expr.atoms(FloorDiv))


def remainders(expr: Expr) -> frozenset[Modulo]:
    """Every remainder inside of an expression."""
    return frozenset(expr.atoms(Modulo))


def extrema(expr: Expr) -> frozenset[Expr]:
    """Every minimum and maximum inside of an expression."""
    return frozenset(expr.atoms(Minimum, Maximum))


def divisors(expr: Expr, dividend: Expr) -> frozenset[Expr]:
    """By what an expression divides this dividend, for a quotient or for a remainder."""
    return frozenset(e.args[1] for e in expr.atoms(FloorDiv, Modulo) if e.args[0] == dividend)


def replace_parts(expr: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """`expr` with whole parts of it, such as `remainders`, replaced, all at once."""
    return expr.xreplace(dict(parts))
