"""What is known about the symbols of an index expression, and simplification by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy

from aot.symbolic.functions import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Symbol,
    expand,
    is_multiple,
    terms,
)

Interval = tuple[Expr, Expr]


@dataclass(frozen=True)
class Ranges:
    """Knowledge about symbols.

    `extents`: loop variable -> extent; the variable runs over [0, extent).
    `dims`: size symbol -> (least, greatest or None for unbounded) values.
    Symbols in neither are integers of unknown sign.
    """

    extents: Mapping[Symbol, Expr] = field(default_factory=dict)
    dims: Mapping[Symbol, tuple[int, int | None]] = field(default_factory=dict)
    _cache: dict[Expr, Expr] = field(default_factory=dict, compare=False, repr=False)

    def with_extents(self, extents: Mapping[Symbol, Expr]) -> Ranges:
        """The same dims with other loop variables."""
        return Ranges(dict(extents), self.dims)

    def bounds(self, expr: Expr) -> Interval | None:
        """Inclusive lower and upper bound as expressions over dims; None when unknown."""
        if expr.is_Integer or expr in self.dims:
            return expr, expr
        if expr in self.extents:
            return sympy.S.Zero, self.extents[expr] - 1
        if isinstance(expr, sympy.Add):
            parts = [self.bounds(t) for t in expr.args]
            if any(p is None for p in parts):
                return None
            known = [p for p in parts if p is not None]
            return sympy.Add(*[p[0] for p in known]), sympy.Add(*[p[1] for p in known])
        if isinstance(expr, sympy.Mul):
            return self._product_bounds(expr)
        if isinstance(expr, Modulo):
            return sympy.S.Zero, expand(expr.args[1] - 1)
        if isinstance(expr, FloorDiv):
            inner = self.bounds(expr.args[0])
            if inner is None:
                return None
            return FloorDiv(inner[0], expr.args[1]), FloorDiv(inner[1], expr.args[1])
        if isinstance(expr, (Minimum, Maximum)):
            parts = [self.bounds(t) for t in expr.args]
            known = [p for p in parts if p is not None]
            if len(known) != len(parts):
                return None
            return expr.func(*[p[0] for p in known]), expr.func(*[p[1] for p in known])
        return None

    def greatest(self, size: Expr) -> int | None:
        """What a size never exceeds, whatever its dims are; None when that is not known."""
        most = [(s, self.dims.get(s, (0, None))[1]) for s in size.free_symbols]
        variables = {s: sympy.Integer(n + 1) for s, n in most if n is not None}
        found = Ranges(variables).bounds(expand(size)) if len(variables) == len(most) else None
        return int(found[1]) if found is not None and found[1].is_Integer else None

    def _product_bounds(self, expr: Expr) -> Interval | None:
        coefficient, rest = expr.as_coeff_Mul()
        low: Expr = sympy.S.One
        high: Expr = sympy.S.One
        for factor in rest.args if isinstance(rest, sympy.Mul) else (rest,):
            inner = self.bounds(factor.base if isinstance(factor, sympy.Pow) else factor)
            if inner is None or not self.nonnegative(inner[0]):
                return None
            power = factor.exp if isinstance(factor, sympy.Pow) else 1
            low, high = low * inner[0] ** power, high * inner[1] ** power
        low, high = expand(coefficient * low), expand(coefficient * high)
        return (low, high) if coefficient > 0 else (high, low)

    def nonnegative(self, expr: Expr) -> bool:
        """True when `expr`, over dims and loop variables, is provably at least 0."""
        if expr.is_Integer:
            return bool(expr >= 0)
        if any(s in self.extents for s in expr.free_symbols):
            inner = self.bounds(expand(expr))
            return inner is not None and self.nonnegative(inner[0])
        return self._nonnegative_over_dims(expr)

    def _nonnegative_over_dims(self, expr: Expr) -> bool:
        """Shifts dims to their minimum: a polynomial without negative terms is not negative."""
        if isinstance(expr, Maximum):
            return any(self.nonnegative(a) for a in expr.args)
        if isinstance(expr, Minimum):
            return all(self.nonnegative(a) for a in expr.args)
        shift = {}
        for symbol in expr.free_symbols:
            if symbol not in self.dims:
                return False
            low, high = self.dims[symbol]
            shift[symbol] = sympy.Integer(low) if low == high else symbol + low
        shifted = expand(expr.xreplace(shift))
        return all(self._nonnegative_term(t) for t in terms(shifted))

    def _nonnegative_term(self, term: Expr) -> bool:
        coefficient, rest = term.as_coeff_Mul()
        if coefficient < 0:
            return False
        for factor in rest.args if isinstance(rest, sympy.Mul) else (rest,):
            base = factor.base if isinstance(factor, sympy.Pow) else factor
            if base.is_Integer or base.is_Symbol or isinstance(base, Modulo):
                continue
            if isinstance(base, FloorDiv) and self._nonnegative_over_dims(base.args[0]):
                continue
            if isinstance(base, (Minimum, Maximum)) and self._nonnegative_over_dims(base):
                continue
            return False
        return True

    def less(self, a: Expr, b: Expr) -> bool:
        """True when a < b provably."""
        inner = self.bounds(a)
        return inner is not None and self.nonnegative(expand(b - inner[1] - 1))

    def at_most(self, a: Expr, b: Expr) -> bool:
        """True when a <= b provably."""
        return self.less(a, b + 1)

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression with the divisions and remainders that the ranges decide removed."""
        if expr.is_Integer or expr.is_Symbol:
            return expr
        cached = self._cache.get(expr)
        if cached is None:
            cached = self._cache[expr] = self._simplify(expr)
        return cached

    def _simplify(self, expr: Expr) -> Expr:
        args = [self.simplify(a) for a in expr.args]
        if isinstance(expr, FloorDiv):
            return self._floordiv(args[0], args[1])
        if isinstance(expr, Modulo):
            return self._modulo(args[0], args[1])
        if isinstance(expr, (Minimum, Maximum)):
            return self._extremum(expr.func, args)
        rebuilt = expr.func(*args) if list(expr.args) != args else expr
        if isinstance(rebuilt, (sympy.Mul, sympy.Pow)):
            rebuilt = expand(rebuilt)
        return _recombine(rebuilt) if isinstance(rebuilt, sympy.Add) else rebuilt

    def _in_range(self, a: Expr, b: Expr) -> bool:
        return self.nonnegative(a) and self.less(a, b)

    def _floordiv(self, a: Expr, b: Expr) -> Expr:
        plain: Expr = FloorDiv(a, b)
        if not isinstance(plain, FloorDiv):
            return self.simplify(plain) if plain != a else plain
        a, b = plain.args
        if self._in_range(a, b):
            return sympy.S.Zero
        split = self._split_low_part(a, b)
        if split is not None:
            high, _, factor = split
            return self._floordiv(expand(high / factor), b / factor)
        return FloorDiv(a, b)

    def _modulo(self, a: Expr, b: Expr) -> Expr:
        plain: Expr = Modulo(a, b)
        if not isinstance(plain, Modulo):
            return self.simplify(plain)
        a, b = plain.args
        if self._in_range(a, b):
            return a
        split = self._split_low_part(a, b)
        if split is not None:
            high, low, factor = split
            inner = self._modulo(expand(high / factor), b / factor)
            return expand(factor * inner) + low
        return Modulo(a, b)

    def _split_low_part(self, a: Expr, b: Expr) -> tuple[Expr, Expr, Expr] | None:
        """(high, low, g): a = high + low, g divides high and b, and 0 <= low < g."""
        added = terms(a)
        if len(added) < 2:
            return None
        for factor in _candidate_factors(added, b):
            high = [t for t in added if is_multiple(t, factor)]
            low = sympy.Add(*[t for t in added if not is_multiple(t, factor)])
            if high and low != 0 and self._in_range(low, factor):
                return sympy.Add(*high), low, factor
        return None

    def _extremum(self, func: type[Expr], args: list[Expr]) -> Expr:
        kept: list[Expr] = []
        for i, a in enumerate(args):
            others = kept + args[i + 1 :]
            dominated = any(
                self.at_most(b, a) if func is Minimum else self.at_most(a, b) for b in others
            )
            if not dominated:
                kept.append(a)
        return func(*kept)


def _candidate_factors(terms: tuple[Expr, ...], b: Expr) -> list[Expr]:
    """Factors of `b` that some term shares, greatest first."""
    found: list[Expr] = []
    for term in terms:
        coefficient, rest = term.as_coeff_Mul()
        shared = sympy.gcd(abs(coefficient), b.as_coeff_Mul()[0]) if b.is_Integer else None
        if b.is_Integer:
            candidate: Expr = sympy.Integer(shared)
        else:
            factors = rest.args if isinstance(rest, sympy.Mul) else (rest,)
            number = sympy.gcd(abs(coefficient), b.as_coeff_Mul()[0])
            candidate = sympy.Mul(number, *(f for f in factors if is_multiple(b, f)))
        if candidate != 1 and candidate not in found and is_multiple(b, candidate):
            found.append(candidate)
    return found


def _recombine(expr: Expr) -> Expr:
    """m*c*FloorDiv(x, c) + m*Modulo(x, c) -> m*x."""
    for term in expr.args:
        coefficient, rest = term.as_coeff_Mul()
        factors = list(rest.args) if isinstance(rest, sympy.Mul) else [rest]
        for factor in factors:
            if not isinstance(factor, Modulo):
                continue
            scale = coefficient * sympy.Mul(*[f for f in factors if f is not factor])
            x, c = factor.args
            partner = expand(scale * c * FloorDiv(x, c))
            if partner in expr.args:
                merged = expand(expr - term - partner + scale * x)
                return _recombine(merged) if isinstance(merged, sympy.Add) else merged
    return expr
