"""Discrete Fourier transforms along one axis, of lengths without large prime factors.

A transform of n = r1 r2 ... points is a pass for each factor, each of n / r small transforms; the
passes leave points in order (Stockham's form). A long row is n1 x n2: transforms of n1 points n2
apart, factors, and transforms of n2 points (Gentleman and Sande, Fast Fourier transforms for fun
and profit, 1966; Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992).
Roots of unity come in tables, which are made in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from aot.ir.dtypes import DType
from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import (
    Node,
    binary,
    const,
    index_value,
    load,
    reduce_,
    substitute_index,
    where,
)
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, FloorDiv, Modulo, integer, power_above, product, substitute, var

GREATEST_PRIME = 31
"""Of the lengths that are transformed by factors."""

WIDEST = 16
"""Points of the widest small transform that is a power of two."""

_WIDEST_ODD = 27
"""The greatest product of odd primes that is one digit."""

_B, _P, _K, _Q, _C, _I, _J = (var(f"i{d}") for d in range(7))

Numbers = tuple[Node, Node]
Points = Callable[[Expr, Expr], Numbers]
"""points(position, column): the real and the imaginary part of a point of a column."""


def radices(n: int, widest: int) -> tuple[int, ...]:
    """Factors of n, a pass each: powers of two up to `widest`, then odd primes.

    The two factors of a power of two that is left over are made alike: 16 = 4 x 4, not 8 x 2.
    """
    twos = (n & -n).bit_length() - 1
    odd, primes = n >> twos, []
    factor = 3
    while factor * factor <= odd:
        while odd % factor == 0:
            primes.append(factor)
            odd //= factor
        factor += 2
    if odd > 1:
        primes.append(odd)
    most = widest.bit_length() - 1
    passes = -(-twos // most)
    bits = [twos // passes + (k < twos % passes) for k in range(passes)]
    return (*(1 << b for b in bits), *reversed(primes))


def digits_of(n: int, widest: int) -> tuple[int, ...]:
    """Factors of n, a pass each; odd primes together where padding to powers of two stays alike."""
    found: list[int] = []
    for radix in radices(n, widest):
        last = found[-1] if found else 2
        both = last * radix
        alike = power_above(both) <= power_above(last) * power_above(radix)
        if last % 2 and radix % 2 and both <= _WIDEST_ODD and alike:
            found[-1] = both
        else:
            found.append(radix)
    return tuple(found) or (1,)


def padded(digits: Sequence[int]) -> int:
    """Points of a tile: each digit has room for a power of two."""
    return math.prod(map(power_above, digits))


@dataclass(frozen=True)
class Fft(TemplateCall):
    """re, im (outer, n, inner) -> output (outer, n * inner * 2): X[k] = scale sum of x[j] w^(jk).

    A row of the output are the results of an element of outer as (n, inner, 2), parts last.
    w = exp(-2 pi i / n), its conjugate if `inverse`. Tables hold powers of exp(-2 pi i / n).

    Attributes:
        re: The real parts.
        roots: (n1, 2): powers of w for transforms of n1 points, n1 = n where there is no `others`.
        scale: A factor of all results.
        inverse: Whether it is the other direction, without its factor 1 / n.
        im: The imaginary parts; not given: zeros.
        others: (n2, 2): for those of n2 points; n = n1 n2. Only where `inner` is 1.
        fine: (2, b, n2): parts of w^(i j) for i < b.
        coarse: (2, n1 / b, n2): parts of w^(i b j). Both without `others`: the call is the first
            step of n1 n2 points. Neighbours are columns, `inner` / n2 of them each, and the result
            of point i in column j is multiplied by w^(i j), a power of exp(-2 pi i / (n1 n2)).
    """

    kind: ClassVar[str] = "fft"

    re: View
    roots: View
    scale: float = 1.0
    inverse: bool = False
    im: View | None = None
    others: View | None = None
    fine: View | None = None
    coarse: View | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """How many points there are, as a product of two numbers."""
        first = int(self.roots.axes[0].extent)
        return first, 1 if self.others is None else int(self.others.axes[0].extent)

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """By NumPy."""
        x = operands["re"].astype(np.complex128)
        if "im" in operands:
            x = x + 1j * operands["im"]
        made = np.fft.ifft(x, axis=1, norm="forward") if self.inverse else np.fft.fft(x, axis=1)
        made = self.scale * made
        if self.fine is not None and self.others is None:
            made = made * self._factors(operands, made.shape)
        return np.stack([made.real, made.imag], -1).reshape(shape)

    def _factors(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """Those of a first step, over (n, inner)."""
        tables = (operands[role][0] + 1j * operands[role][1] for role in ("fine", "coarse"))
        fine, coarse = (np.conj(x) if self.inverse else x for x in tables)
        row = np.arange(shape[1])[:, None]
        column = np.arange(shape[2])[None, :] // (shape[2] // fine.shape[1])
        factors: Array = fine[row % len(fine), column] * coarse[row // len(fine), column]
        return factors

    def flops(self) -> Expr:
        """5 n log2(n) for each row, as everyone counts."""
        n = self.re.axes[1].extent
        each = integer(5 * int(n).bit_length())
        return product((*(a.extent for a in self.re.axes), each))

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """Two steps where the device has a template for each, else a nest for each pass."""
        if support is not None and min(sides := self._sides()) > 1:
            return self._two_steps(builder, sides)
        made = _Nests(self, builder)
        return [*made.passes(), made.last()]

    def _sides(self) -> tuple[int, int]:
        """The number of points as a product of two that are as alike as can be."""
        if self.others is not None:
            return self.sizes
        n = self.sizes[0]
        first = next(k for k in range(math.isqrt(n), 0, -1) if n % k == 0)
        return first, n // first

    def _two_steps(self, builder: NestBuilder, sides: tuple[int, int]) -> list[LoopOp]:
        """Transforms of n1 points n2 apart, times factors, then those of n2 points.

        In between, numbers lie as (outer, n1, n2, inner, 2).
        """
        (n1, n2), (outer, _, inner) = sides, self.re.axes
        lanes, others = Axis(inner.symbol, n2 * inner.extent), n1 * inner.extent
        rows = Axis(self.re.axes[1].symbol, integer(n1))

        def column(view: View) -> View:
            """The operand as n1 points of n2 columns."""
            _, p, i = (a.symbol for a in view.axes)
            place = {p: p * n2 + FloorDiv(i, inner.extent), i: Modulo(i, inner.extent)}
            index = tuple(substitute(e, place) for e in view.index)
            axes = (view.axes[0], Axis(p, integer(n1)), Axis(i, lanes.extent))
            return View(view.buffer, axes, index)

        dtype = builder.dtype(self.output.buffer)
        row, place = self.output.axes
        width = product((integer(2 * n1), lanes.extent))
        name = f"{self.name}_columns"
        temp = builder.temp(name, dtype, (row.extent, width))
        step = replace(
            self,
            name=name,
            output=View(temp, (row, Axis(place.symbol, width)), (row.symbol, place.symbol)),
            re=column(self.re),
            im=None if self.im is None else column(self.im),
            roots=self._every(n2, n1),
            others=None,
            fine=self.fine or self._powers(n1, n2),
            coarse=self.coarse or self._powers(1, n2),
            scale=1.0,
        )
        across = Axis(lanes.symbol, others)
        middle = Axis(rows.symbol, integer(n2))
        at = FloorDiv(across.symbol, inner.extent) * n2 + middle.symbol
        pair = (at * inner.extent + Modulo(across.symbol, inner.extent)) * 2
        parts = [
            View(temp, (outer, middle, across), (outer.symbol, pair + part)) for part in range(2)
        ]
        last = replace(
            self,
            re=parts[0],
            im=parts[1],
            roots=self.others or self._every(n1, n2),
            others=None,
            fine=None,
            coarse=None,
        )
        return [step, last]

    def _every(self, step: int, count: int) -> View:
        """Every so many powers of the table."""
        if self.others is not None:
            return self.roots
        power, part = self.roots.axes
        place = {power.symbol: power.symbol * step}
        index = tuple(substitute(e, place) for e in self.roots.index)
        return View(self.roots.buffer, (Axis(power.symbol, integer(count)), part), index)

    def _powers(self, rows: int, columns: int) -> View:
        """(2, rows, columns): powers of the table, of row times column."""
        n = self.sizes[0]
        axes = (Axis(_C, integer(2)), Axis(_K, integer(rows)), Axis(_J, integer(columns)))
        power, part = (a.symbol for a in self.roots.axes)
        place = {power: Modulo(_K * _J, integer(n)), part: _C}
        index = tuple(substitute(e, place) for e in self.roots.index)
        return View(self.roots.buffer, axes, index)


class _Nests:
    """The nests of one call. Values lie as (outer, points, columns, inner), parts apart."""

    def __init__(self, call: Fft, builder: NestBuilder) -> None:
        self.call = call
        self.builder = builder
        self.dtype: DType = builder.dtype(call.re.buffer).compute
        self.outer, _, self.inner = (a.extent for a in call.re.axes)
        self.points: Points = self._given
        self.columns = call.sizes[1]
        self.ops: list[LoopOp] = []

    def passes(self) -> list[LoopOp]:
        """Those that transform."""
        n1, n2 = self.call.sizes
        self._transform(n1, self.call.roots)
        if self.call.others is not None:
            self._turn()
            rows = self.points
            self.points, self.columns = lambda at, column: rows(column, at), n1
            self._transform(n2, self.call.others)
        return self.ops

    def last(self) -> LoopNest:
        """Both parts as the output wants them."""
        axes = self.call.output.axes
        outer, column = (a.symbol for a in axes)
        pair, part = FloorDiv(column, integer(2)), Modulo(column, integer(2))
        point, inner = FloorDiv(pair, self.inner), Modulo(pair, self.inner)
        columns = integer(self.columns)
        re, im = self.points(FloorDiv(point, columns), Modulo(point, columns))
        if self.call.inverse:
            re, im = im, re
        is_real = binary("eq", index_value(part), index_value(integer(0)))
        value = where(is_real, re, im)
        if self.call.scale != 1.0:
            value = binary("mul", value, const(self.call.scale, self.dtype))
        names = {_B: outer, _I: inner}
        value = substitute_index((value,), names)[0]
        store = self.call.stored(value, self.builder)
        return LoopNest(self.call.name, axes, (), (store,), self.call.origin)

    def _given(self, at: Expr, column: Expr) -> Numbers:
        """The operands; the inverse is the transform with both parts exchanged."""
        call, position = self.call, at * self.columns + column
        parts = []
        for view in (call.re, call.im):
            if view is None:
                parts.append(const(0.0, self.dtype))
            else:
                symbols = (a.symbol for a in view.axes)
                place = dict(zip(symbols, (_B, position, _I), strict=True))
                parts.append(self.builder.load(view, place))
        re, im = parts
        return (im, re) if call.inverse else (re, im)

    def _table(self, view: View, *at: Expr) -> Node:
        symbols = (a.symbol for a in view.axes)
        return self.builder.load(view, dict(zip(symbols, at, strict=True)))

    def _transform(self, n: int, roots: View) -> None:
        """Passes over columns of n points."""
        left, stride = n, 1
        for radix in radices(n, WIDEST):
            left //= radix
            turned = _J * left + _P
            power = Modulo(_K * turned * stride, integer(n))
            root = [self._table(roots, power, integer(c)) for c in range(2)]
            point = self.points(_Q + stride * turned, _C)
            parts = [reduce_("sum", x) for x in product_of(point, (root[0], root[1]))]
            axes = self._axes((_P, left), (_K, radix), (_Q, stride))
            place = _Q + stride * (radix * _P + _K)
            over = (Axis(_J, integer(radix)),)
            self._store(n, parts, axes, over, place)
            stride *= radix

    def _turn(self) -> None:
        """The factors between the transforms of both sizes."""
        call, (n1, _) = self.call, self.call.sizes
        assert call.fine is not None and call.coarse is not None
        block = call.fine.axes[1].extent
        value = self.points(_P, _C)
        for table, row in ((call.fine, Modulo(_P, block)), (call.coarse, FloorDiv(_P, block))):
            re, im = (self._table(table, integer(c), row, _C) for c in range(2))
            value = product_of(value, (re, im))
        self._store(n1, list(value), self._axes((_P, n1)), (), _P)

    def _axes(self, *inside: tuple[Any, int]) -> tuple[Axis, ...]:
        own = tuple(Axis(symbol, integer(size)) for symbol, size in inside)
        return (
            Axis(_B, self.outer),
            *own,
            Axis(_C, integer(self.columns)),
            Axis(_I, self.inner),
        )

    def _store(
        self,
        n: int,
        parts: list[Node],
        axes: tuple[Axis, ...],
        over: tuple[Axis, ...],
        place: Expr,
    ) -> None:
        """A nest that stores both parts, which are the points from now on."""
        name = f"{self.call.name}_{len(self.ops)}"
        shape = (self.outer, integer(n), integer(self.columns), self.inner)
        names = [self.builder.temp(f"{name}_{part}", self.dtype, shape) for part in ("re", "im")]
        stores = tuple(
            Store(buffer, (_B, place, _C, _I), value)
            for buffer, value in zip(names, parts, strict=True)
        )
        self.ops.append(LoopNest(name, axes, over, stores, self.call.origin))
        dtype = self.dtype

        def points(at: Expr, column: Expr) -> Numbers:
            re, im = (load(buffer, dtype, (_B, at, column, _I)) for buffer in names)
            return re, im

        self.points = points


def product_of(a: Numbers, b: Numbers) -> Numbers:
    """Of two complex numbers."""

    def of(p: Node, q: Node, sign: str, r: Node, s: Node) -> Node:
        return binary(sign, binary("mul", p, q), binary("mul", r, s))

    return of(a[0], b[0], "sub", a[1], b[1]), of(a[0], b[1], "add", a[1], b[0])
