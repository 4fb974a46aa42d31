"""Fourier transforms of 2 h real numbers, and back, by those of h complex ones (`Fft`).

Even numbers are real parts and odd ones imaginary parts of h points; what their transform holds of
either is taken apart afterwards, or put together before the way back (Cooley, Lewis and Welch, The
fast Fourier transform algorithm: programming considerations in the calculation of sine, cosine and
Laplace transforms, 1970).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from aot.ir.nests import Axis, LoopNest, Store, View
from aot.ir.scalar import Node, binary, const, index_value, unary, where
from aot.ir.templates.base import Array, LoopOp, Support
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.fft import Fft, Numbers, product_of
from aot.symbolic import Expr, FloorDiv, Modulo, integer, product

MaskedPoints = Callable[[Expr, Node | None], Numbers]
"""points(k, mask): both parts of a complex number."""


def unfolded(
    points: MaskedPoints, roots: MaskedPoints, k: Expr, half: int, *, whole: bool
) -> Numbers:
    """X[k] of 2 h real numbers, from points Z of h complex ones and roots exp(-2 pi i k / 2 h).

    Args:
        points: Z.
        roots: For 0 < k < h.
        k: From 0 to h, or to 2 h - 1 where `whole`.
        half: h.
        whole: Whether conjugates are asked for, too.
    """
    here, first = index_value(k), points(integer(0), None)
    at_zero = binary("eq", here, index_value(integer(0)))
    edge = where(at_zero, binary("add", *first), binary("sub", *first))
    inner = binary(
        "and",
        binary("gt", here, index_value(integer(0))),
        binary("lt", here, index_value(integer(half))),
    )
    re, im = _between(points, roots, k, half, inner)
    zero = const(0.0, edge.dtype)
    re, im = where(inner, re, edge), where(inner, im, zero)
    if whole:
        upper = binary("gt", here, index_value(integer(half)))
        far = _between(points, roots, 2 * half - k, half, upper)
        re, im = where(upper, far[0], re), where(upper, unary("neg", far[1]), im)
    return re, im


def _between(points: MaskedPoints, roots: MaskedPoints, k: Expr, half: int, known: Node) -> Numbers:
    """X[k] for 0 < k < h."""
    here, there = points(k, known), points(half - k, known)
    by = const(0.5, here[0].dtype)

    def halved(sign: str, a: Node, b: Node) -> Node:
        return binary("mul", binary(sign, a, b), by)

    even = halved("add", here[0], there[0]), halved("sub", here[1], there[1])
    odd = halved("add", here[1], there[1]), halved("sub", there[0], here[0])
    turned = product_of(roots(k, known), odd)
    return binary("add", even[0], turned[0]), binary("add", even[1], turned[1])


def folded(points: MaskedPoints, roots: MaskedPoints, k: Expr, half: int) -> Numbers:
    """The point k < h whose inverse transform has the numbers 2 k and 2 k + 1 of 2 h.

    Args:
        points: X from 0 to h, the first and the last of which are real.
        roots: exp(-2 pi i k / 2 h).
        k: Which.
        half: h.
    """
    here, there = points(k, None), points(half - k, None)
    even = binary("add", here[0], there[0]), binary("sub", here[1], there[1])
    odd = binary("sub", here[0], there[0]), binary("add", here[1], there[1])
    re, im = roots(k, None)
    turned = product_of(odd, (re, unary("neg", im)))
    return binary("sub", even[0], turned[1]), binary("add", even[1], turned[0])


def without_imaginary(value: Node, k: Expr, half: int) -> Node:
    """The imaginary part of point k: those of the first and the last one do not count."""
    here = index_value(k)
    edge = binary(
        "or",
        binary("eq", here, index_value(integer(0))),
        binary("eq", here, index_value(integer(half))),
    )
    return where(edge, const(0.0, value.dtype), value)


@dataclass(frozen=True)
class RealFft(Fft):
    """A transform of 2 h real numbers, or back to them where `inverse`; h = n1 n2.

    There: re, im (outer, h, inner) are even and odd numbers; a row of the output are results as
    (h + 1, inner, 2), or all of them, (2 h, inner, 2).
    Back: re, im (outer, h + 1, inner) are the first results of a transform, of whose first and last
    one the imaginary parts do not count; a row of the output are real numbers, (2 h, inner).

    Attributes:
        turns: (h + 1, 2): powers of w = exp(-2 pi i / 2 h). It is always given, as is `im`.
        leaps: (c, 2): powers of w^b, where `turns` has few: w^k is turns[k % b] leaps[k // b].
        block: b.
    """

    kind: ClassVar[str] = "real_fft"

    turns: View | None = None
    leaps: View | None = None
    block: int | None = None

    @property
    def half(self) -> int:
        """How many complex numbers there are."""
        n1, n2 = self.sizes
        return n1 * n2

    @property
    def is_whole(self) -> bool:
        """Whether results that are conjugates of others are stored, too."""
        each = 1 if self.inverse else 2
        width = product((integer(2 * self.half * each), self.re.axes[2].extent))
        return bool(self.output.axes[1].extent == width)

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """By NumPy."""
        re, im = (operands[role].astype(np.float64) for role in ("re", "im"))
        n = 2 * self.half
        if self.inverse:
            made = np.fft.irfft(re + 1j * im, n=n, axis=1, norm="forward")
            return (self.scale * made).reshape(shape)
        given = np.stack([re, im], 2).reshape(len(re), n, -1)
        found = self.scale * (np.fft.fft if self.is_whole else np.fft.rfft)(given, axis=1)
        return np.stack([found.real, found.imag], -1).reshape(shape)

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """A call for the complex numbers, and a nest after it, or before."""
        return self._back(builder) if self.inverse else self._there(builder)

    def _complex(self, name: str, output: View, re: View, im: View) -> Fft:
        own = {f.name: getattr(self, f.name) for f in fields(Fft)}
        return Fft(**{**own, "name": name, "output": output, "re": re, "im": im})

    def _pairs(self, builder: NestBuilder) -> View:
        """Rows for the results of the complex numbers."""
        row, place = self.output.axes
        width = product((integer(2 * self.half), self.re.axes[2].extent))
        dtype = builder.dtype(self.output.buffer)
        name = builder.temp(f"{self.name}_pairs", dtype, (row.extent, width))
        return View(name, (row, Axis(place.symbol, width)), (row.symbol, place.symbol))

    def _roots(self, builder: NestBuilder) -> MaskedPoints:
        turns, leaps, block = self.turns, self.leaps, self.block
        assert turns is not None

        def of(table: View, k: Expr, mask: Node | None) -> Numbers:
            power, part = (a.symbol for a in table.axes)
            re, im = (builder.load(table, {power: k, part: integer(c)}, mask) for c in range(2))
            return re, im

        def roots(k: Expr, mask: Node | None) -> Numbers:
            if leaps is None or block is None:
                return of(turns, k, mask)
            near = of(turns, Modulo(k, integer(block)), mask)
            return product_of(of(leaps, FloorDiv(k, integer(block)), mask), near)

        return roots

    def _there(self, builder: NestBuilder) -> list[LoopOp]:
        pairs, inner = self._pairs(builder), self.re.axes[2].extent
        assert self.im is not None
        call = self._complex(f"{self.name}_pairs", pairs, self.re, self.im)
        row, place = self.output.axes
        number, part = FloorDiv(place.symbol, integer(2)), Modulo(place.symbol, integer(2))
        k, lane = FloorDiv(number, inner), Modulo(number, inner)

        def points(at: Expr, mask: Node | None) -> Numbers:
            first = (at * inner + lane) * 2
            re, im = (builder.load(pairs, {place.symbol: first + c}, mask) for c in range(2))
            return re, im

        re, im = unfolded(points, self._roots(builder), k, self.half, whole=self.is_whole)
        is_real = binary("eq", index_value(part), index_value(integer(0)))
        store = self.stored(where(is_real, re, im), builder)
        return [call, LoopNest(self.name, (row, place), (), (store,), self.origin)]

    def _back(self, builder: NestBuilder) -> list[LoopOp]:
        dtype, given = builder.dtype(self.output.buffer), (self.re, self.im)
        outer, row, inner = self.re.axes
        axes = (outer, Axis(row.symbol, integer(self.half)), inner)
        names = [f"{self.name}_{part}" for part in ("re", "im")]
        for name in names:
            builder.temp(name, dtype, tuple(a.extent for a in axes))

        def points(at: Expr, mask: Node | None) -> Numbers:
            here = []
            for view in given:
                assert view is not None
                place = dict(zip((a.symbol for a in view.axes), _point(axes, at), strict=True))
                here.append(builder.load(view, place, mask))
            return here[0], without_imaginary(here[1], at, self.half)

        values = folded(points, self._roots(builder), row.symbol, self.half)
        at = tuple(a.symbol for a in axes)
        stores = tuple(Store(n, at, v) for n, v in zip(names, values, strict=True))
        nest = LoopNest(f"{self.name}_points", axes, (), stores, self.origin)
        views = [View(name, axes, at) for name in names]
        if inner.extent == 1:
            return [nest, self._complex(self.name, self.output, *views)]
        pairs = self._pairs(builder)
        call = self._complex(f"{self.name}_pairs", pairs, *views)
        column = self.output.axes[1].symbol
        number, lane = FloorDiv(column, inner.extent), Modulo(column, inner.extent)
        first = FloorDiv(number, integer(2)) * inner.extent + lane
        value = builder.load(pairs, {column: first * 2 + Modulo(number, integer(2))})
        last = LoopNest(
            self.name, self.output.axes, (), (self.stored(value, builder),), self.origin
        )
        return [nest, call, last]


def _point(axes: tuple[Axis, ...], at: Expr) -> tuple[Expr, ...]:
    return axes[0].symbol, at, axes[2].symbol
