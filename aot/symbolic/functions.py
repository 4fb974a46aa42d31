"""Integer functions of index expressions: floor division, remainder, minimum and maximum.

They replace sympy's own `floor`, `Mod`, `Min` and `Max`, which rewrite far more than index
arithmetic needs and cost milliseconds each. All arguments are integers; divisors are positive.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import TypeAlias

import sympy

Expr: TypeAlias = sympy.Expr
Symbol: TypeAlias = sympy.Symbol
# What polynomials are made of, for those who walk an expression: sums, products, powers.
Add, Mul, Pow = sympy.Add, sympy.Mul, sympy.Pow


@lru_cache(maxsize=1 << 14)  # the layers of a model ask for the same again and again
def expand(expr: Expr) -> Expr:
    """The expression as a sum of products."""
    return sympy.expand(expr)


def terms(expr: Expr) -> tuple[Expr, ...]:
    """What a sum adds; the expression itself where it is none."""
    return expr.args if isinstance(expr, sympy.Add) else (expr,)


def exact_quotient(dividend: Expr, divisor: Expr) -> Expr | None:
    """`dividend / divisor` when it is visibly a polynomial with integer coefficients, else None."""
    if dividend == divisor:
        return sympy.S.One
    if isinstance(dividend, sympy.Add):
        if isinstance(divisor, sympy.Add):
            quotient, rest = _split_by_sum(dividend, divisor)
            return quotient if rest == 0 else None
        quotients = [exact_quotient(term, divisor) for term in dividend.args]
        return None if any(q is None for q in quotients) else sympy.Add(*quotients)
    quotient = dividend / divisor
    # A number times a sum is a sum to sympy: (i + 1) / 2 is i/2 + 1/2.
    return quotient if all(map(_is_integral, terms(quotient))) else None


def is_multiple(expr: Expr, divisor: Expr | int) -> bool:
    """Whether an expression is visibly some whole number of times another one; 0 is."""
    return exact_quotient(expr, sympy.sympify(divisor)) is not None


def _is_integral(term: Expr) -> bool:
    """Whether a product has whole numbers and positive powers alone."""
    for factor in term.args if isinstance(term, sympy.Mul) else (term,):
        if factor.is_Rational and not factor.is_Integer:
            return False
        if isinstance(factor, sympy.Pow) and not (factor.exp.is_Integer and factor.exp > 0):
            return False
    return True


def split_multiples(expr: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """(q, r) with `expr == q * divisor + r`; q gathers the terms `divisor` visibly divides."""
    if isinstance(divisor, sympy.Add):
        return _split_by_sum(expr, divisor)
    quotient: list[Expr] = []
    rest: list[Expr] = []
    for term in terms(expr):
        exact = exact_quotient(term, divisor)
        if exact is None and term.is_Integer and divisor.is_Integer:
            whole, remainder = divmod(int(term), int(divisor))
            quotient.append(sympy.Integer(whole))
            rest.append(sympy.Integer(remainder))
        elif exact is None:
            rest.append(term)
        else:
            quotient.append(exact)
    return sympy.Add(*quotient), sympy.Add(*rest)


def _split_by_sum(expr: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """`split_multiples` by a sum: multiples all of whose terms but numbers stand in `expr`.

    2*i*n - i + k is i * (2*n - 1) + k; i*n + k has no multiple of 2*n - 1 in sight.
    """
    number, rest = expr.as_coeff_Add()
    left = dict.fromkeys(terms(rest))
    first = divisor.args[-1]  # no number, which would come first
    quotient: list[Expr] = []
    for term in terms(rest):
        exact = exact_quotient(term, first) if term in left else None
        if exact is None:
            continue
        own, multiple = expand(exact * divisor).as_coeff_Add()
        if all(part in left for part in terms(multiple)):
            quotient.append(exact)
            number -= own
            for part in terms(multiple):
                del left[part]
    return sympy.Add(*quotient), sympy.Add(number, *left)


def common_factor(exprs: tuple[Expr, ...]) -> int:
    """Greatest integer that divides the coefficient of every term of every expression."""
    coefficients = [abs(int(t.as_coeff_Mul()[0])) for e in exprs for t in terms(e)]
    return reduce(math.gcd, coefficients, 0) or 1


def floor_term(expr: Expr) -> Expr | None:
    """The quotient that a sum has as a term, if it has one alone; itself where it is a quotient."""
    found = [t for t in terms(expr) if isinstance(t, FloorDiv)]
    return found[0] if len(found) == 1 else None


class FloorDiv(sympy.Function):  # type: ignore[misc]
    """floor(a / b) for integers, b > 0."""

    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        """Simplifications that hold for all integers. By 0 (an empty dimension): 0."""
        if a == 0 or b == 0:
            return sympy.S.Zero
        if b == 1:
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        quotient, rest = split_multiples(a, b)
        if quotient != 0:
            return quotient + cls(rest, b)
        inner = floor_term(a)
        if inner is not None:  # (x // c + r) // b is (x + c*r) // (b*c)
            x, c = inner.args
            return cls(expand(x + c * (a - inner)), expand(c * b))
        factor = common_factor((a, b))
        if factor > 1:
            return cls(a / factor, b / factor)
        return None


class Modulo(sympy.Function):  # type: ignore[misc]
    """a - b * floor(a / b) for integers, b > 0: the remainder with the divisor's sign."""

    nargs = (2,)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: Expr, b: Expr) -> Expr | None:
        """Simplifications that hold for all integers. By 0 (an empty dimension): 0."""
        if b in (0, 1):
            return sympy.S.Zero
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) % int(b))
        quotient, rest = split_multiples(a, b)
        if quotient != 0:
            return cls(rest, b)
        if isinstance(a, cls) and exact_quotient(a.args[1], b) is not None:
            return cls(a.args[0], b)
        factor = common_factor((a, b))
        if factor > 1:
            return factor * cls(a / factor, b / factor)
        return None


class _Extremum(sympy.Function):  # type: ignore[misc]
    is_integer = True

    @classmethod
    def _pick(cls, values: list[int]) -> int:
        raise NotImplementedError

    @classmethod
    def eval(cls, *args: Expr) -> Expr | None:
        """Flattens, folds the integers into one and orders the rest."""
        flat = [x for a in args for x in (a.args if isinstance(a, cls) else (a,))]
        integers = [int(a) for a in flat if a.is_Integer]
        others = sorted({a for a in flat if not a.is_Integer}, key=sympy.default_sort_key)
        folded = ([sympy.Integer(cls._pick(integers))] if integers else []) + others
        if len(folded) == 1:
            return folded[0]
        return None if folded == list(args) else cls(*folded)


class Minimum(_Extremum):
    """Least of its integer arguments."""

    @classmethod
    def _pick(cls, values: list[int]) -> int:
        return min(values)


class Maximum(_Extremum):
    """Greatest of its integer arguments."""

    @classmethod
    def _pick(cls, values: list[int]) -> int:
        return max(values)


def when_there(expr: Expr) -> Expr:
    """A size where what it counts is there: each maximum of 0 and something is at least 1."""
    if expr.is_Integer or expr.is_Symbol:
        return expr
    args = [when_there(a) for a in expr.args]
    if isinstance(expr, Maximum):
        args = [sympy.Integer(1) if a == 0 else a for a in args]
    return expr.func(*args)


def at_least(size: Expr, limit: int) -> Expr:
    """1 where a size, which is not negative, is this much or more, else 0."""
    return Minimum(sympy.Integer(1), FloorDiv(size, sympy.Integer(limit)))


def below(size: Expr, limit: int) -> Expr:
    """1 where a size, which is not negative, is less than this, else 0."""
    return Maximum(sympy.Integer(0), 1 - FloorDiv(size, sympy.Integer(limit)))


def presence(expr: Expr) -> frozenset[Expr]:
    """The factors of a size that are 1 where what it counts is there, and 0 where nothing is."""
    parts = expr.args if isinstance(expr, sympy.Mul) else (expr,)
    return frozenset(p for p in parts if isinstance(p, Maximum) and _is_bounded(p))


def _is_bounded(most: Expr) -> bool:
    """Whether a maximum is of 0 and of what is at most 1."""
    rest = [a for a in most.args if a != 0]
    return len(rest) < len(most.args) and all(
        isinstance(a, Minimum) and any(b == 1 for b in a.args) for a in rest
    )
