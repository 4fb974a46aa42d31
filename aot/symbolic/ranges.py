"""What is known about the symbols of an index expression, and simplification by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import sympy

from aot.symbolic.functions import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Symbol,
    expand,
    floor_term,
    is_multiple,
    terms,
)
from aot.symbolic.shapes import product

Interval = tuple[Expr, Expr]


@lru_cache(maxsize=1 << 10)  # as `expand`: layers that are alike have loops that are
def _found(
    extents: tuple[tuple[Symbol, Expr], ...],
    dims: tuple[tuple[Symbol, tuple[int, int | None]], ...],
) -> dict[object, Expr]:
    """What has been found with this knowledge, by what was asked; for whoever has the same."""
    return {}


@dataclass(frozen=True)
class Ranges:
    """Knowledge about symbols.

    `extents`: loop variable -> extent; the variable runs over [0, extent).
    `dims`: size symbol -> (least, greatest or None for unbounded) values.
    Symbols in neither are integers of unknown sign.
    """

    extents: Mapping[Symbol, Expr] = field(default_factory=dict)
    dims: Mapping[Symbol, tuple[int, int | None]] = field(default_factory=dict)

    @cached_property
    def _known(self) -> dict[object, Expr]:
        return _found(tuple(self.extents.items()), tuple(self.dims.items()))

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
            return self._bounds_of_floor(expr) or self._sum_bounds(expr)
        if isinstance(expr, sympy.Mul):
            return self._product_bounds(expr)
        if isinstance(expr, Modulo):
            return sympy.S.Zero, expand(expr.args[1] - 1)
        if isinstance(expr, FloorDiv):
            inner = self.bounds(expr.args[0])
            if inner is None:
                return None
            return self._floordiv(inner[0], expr.args[1]), self._floordiv(inner[1], expr.args[1])
        if isinstance(expr, (Minimum, Maximum)):
            parts = [self.bounds(t) for t in expr.args]
            known = [p for p in parts if p is not None]
            if len(known) != len(parts):
                return None
            return expr.func(*[p[0] for p in known]), expr.func(*[p[1] for p in known])
        return None

    def _sum_bounds(self, expr: Expr) -> Interval | None:
        """Bounds of a sum: those of its terms, those of one variable's terms together."""
        least: list[Expr] = []
        most: list[Expr] = []
        for variable, added in self._by_variable(expr):
            whole = self._multiple_bounds(variable, added)
            found = [whole] if whole is not None else [self.bounds(t) for t in added]
            for bound in found:
                if bound is None:
                    return None
                least.append(bound[0])
                most.append(bound[1])
        return sympy.Add(*least), sympy.Add(*most)

    def _by_variable(self, expr: Expr) -> list[tuple[Symbol | None, Sequence[Expr]]]:
        """What a sum adds: the terms of each loop variable, then (None) those of none or several.

        Without dims a variable has one term: nothing is to be put together.
        """
        if not self.dims:
            return [(None, expr.args)]
        shared: dict[Symbol | None, list[Expr]] = {}
        for term in expr.args:
            variables = [s for s in term.free_symbols if s in self.extents]
            shared.setdefault(variables[0] if len(variables) == 1 else None, []).append(term)
        return list(shared.items())

    def _multiple_bounds(self, variable: Symbol | None, added: Sequence[Expr]) -> Interval | None:
        """Bounds of (2*n - 1) * i, given as 2*i*n and -i: a variable times a size of known sign."""
        if variable is None or len(added) == 1:
            return None
        size = sympy.Add(*[t / variable for t in added])
        if any(s not in self.dims for s in size.free_symbols):
            return None
        end = expand(size * (self.extents[variable] - 1))
        if self.nonnegative(size):
            return sympy.S.Zero, end
        return (end, sympy.S.Zero) if self.nonnegative(-size) else None

    def _bounds_of_floor(self, expr: Expr) -> Interval | None:
        """Bounds of r + x // c where r and x share variables: those of (c*r + x) // c."""
        term = floor_term(expr)
        if term is None:
            return None
        x, c = term.args
        rest = expr - term
        if not any(s in self.extents for s in rest.free_symbols & x.free_symbols):
            return None
        found = self.bounds(expand(c * rest + x))
        return found and (self._floordiv(found[0], c), self._floordiv(found[1], c))

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
        if isinstance(a, Minimum):
            return any(self.less(part, b) for part in a.args)
        inner = self.bounds(a)
        return inner is not None and self.nonnegative(expand(b - inner[1] - 1))

    def at_most(self, a: Expr, b: Expr) -> bool:
        """True when a <= b provably."""
        return self.less(a, b + 1)

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression with the divisions and remainders that the ranges decide removed."""
        if expr.is_Integer or expr.is_Symbol:
            return expr
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._simplify(expr)
        return known

    def offset(self, index: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
        """The position in elements of `index` where dimensions have these strides, simplified."""
        asked = tuple(index), tuple(strides)
        known = self._known.get(asked)
        if known is None:
            moved = sympy.Add(*map(product, zip(*asked, strict=True)))
            known = self._known[asked] = self.simplify(moved)
        return known

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
        return self._recombine(rebuilt) if isinstance(rebuilt, sympy.Add) else rebuilt

    def _recombine(self, expr: Expr) -> Expr:
        """m*c*FloorDiv(x, c) + m*Modulo(x, c) -> m*x."""
        for term in expr.args:
            coefficient, rest = term.as_coeff_Mul()
            factors = list(rest.args) if isinstance(rest, sympy.Mul) else [rest]
            for factor in factors:
                if not isinstance(factor, Modulo):
                    continue
                scale = coefficient * sympy.Mul(*[f for f in factors if f is not factor])
                found = self._whole(expr, factor, scale)
                if found is not None:
                    partner, whole = found
                    merged = expand(expr - term - partner + scale * whole)
                    return self._recombine(merged) if isinstance(merged, sympy.Add) else merged
        return expr

    def _whole(self, expr: Expr, low: Expr, scale: Expr) -> tuple[Expr, Expr] | None:
        """(part of the sum, w): this part and scale * low are scale * w; `low` is x % c.

        The part is scale*c*(x // c), w being x; or scale*c*((x // c + r) % d), w being the
        remainder of x + c*r by c*d, where the ranges decide it.
        """
        x, c = low.args
        quotient = FloorDiv(x, c)
        partner = expand(scale * c * quotient)
        if _contains(expr, partner):
            return partner, x
        for high in expr.atoms(Modulo):
            inner, d = high.args
            partner = expand(scale * c * high)
            if floor_term(inner) == quotient and _contains(expr, partner):
                whole = self._modulo(expand(x + c * (inner - quotient)), expand(c * d))
                if not isinstance(whole, Modulo):
                    return partner, whole
        return None

    def _in_range(self, a: Expr, b: Expr) -> bool:
        return self.nonnegative(a) and self.less(a, b)

    def _floordiv(self, a: Expr, b: Expr) -> Expr:
        plain: Expr = FloorDiv(a, b)
        if not isinstance(plain, FloorDiv):
            return self.simplify(plain) if plain != a else plain
        a, b = plain.args
        if self._in_range(a, b):
            return sympy.S.Zero
        if self.less(a, sympy.S.Zero) and self._in_range(a + b, b):
            return sympy.S.NegativeOne
        near = self._split_near(a, b)
        if near is not None:
            return near[0]
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
        if self.less(a, sympy.S.Zero) and self._in_range(a + b, b):
            return a + b
        near = self._split_near(a, b)
        if near is not None:
            return near[1]
        split = self._split_low_part(a, b)
        if split is not None:
            high, low, factor = split
            inner = self._modulo(expand(high / factor), b / factor)
            return expand(factor * inner) + low
        return Modulo(a, b)

    def _split_near(self, a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
        """(q, r): a = q*b + r and 0 <= r < b, q of the multiples nearest to the coefficients of a.

        (1023*i + j + 512) // 1024 is i where i and j are below 512: skewed rows, as shifts of
        relative positions read them. What is no quarter of b from a multiple stays: (i + 1) // 2
        of an i below 2 is i, but tells more as it is.
        """
        if not b.is_Integer:
            return None
        quotient: list[Expr] = []
        for term in terms(a):
            coefficient, rest = term.as_coeff_Mul()
            nearest = (2 * coefficient + b) // (2 * b)
            if rest != 1 and 4 * abs(coefficient - nearest * b) <= b:
                quotient.append(nearest * rest)
        whole = sympy.Add(*quotient)
        if whole == 0:
            return None
        left = expand(a - whole * b)
        return (whole, left) if self._in_range(left, b) else None

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


def _contains(expr: Expr, part: Expr) -> bool:
    """Whether a sum adds all that a part of it does."""
    return all(t in expr.args for t in terms(part))


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
