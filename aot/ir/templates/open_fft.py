"""Fourier transforms of a number of points that only a run knows.

A kernel finds factors and makes tables when it runs. Where a device has none, the same results come
from transforms of known lengths, which lowering adds as an operand (`otherwise`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from aot.errors import MissingOperator, UnsupportedOperators
from aot.ir.nests import LoopNest, View
from aot.ir.templates.base import Array, LoopOp, Support, TemplateCall
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import Expr, Symbol, integer, product, substitute

REASON = "the number of points of a Fourier transform is not known when the package is built"


@dataclass(frozen=True)
class OpenFft(TemplateCall):
    """re, im (outer, given, inner) -> output (outer, results * inner): transforms of n points.

    Attributes:
        re: The real parts: n of them, or n // 2 + 1 where `real` is "back".
        n: How many points there are.
        im: The imaginary parts; not given: zeros.
        otherwise: (outer, results * inner): the results, computed in another way.
        scale: A factor of all results.
        inverse: Whether it is the other direction, without its factor 1 / n.
        real: "" where numbers are complex, and results (n, inner, 2); "there" where they are real,
            and results the first n // 2 + 1 of as many; "whole" where all of these are stored;
            "back" where the first n // 2 + 1 are given, and results are real, (n, inner).
    """

    kind: ClassVar[str] = "open_fft"

    re: View
    n: Expr
    im: View | None = None
    otherwise: View | None = None
    scale: float = 1.0
    inverse: bool = False
    real: str = ""

    def at_sizes(self, sizes: Mapping[Symbol, int]) -> Self:
        """With the number of points as a number."""
        return replace(self, n=substitute(self.n, {s: integer(v) for s, v in sizes.items()}))

    def interpret(self, operands: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
        """By NumPy."""
        x = operands["re"].astype(np.complex128)
        if "im" in operands:
            x = x + 1j * operands["im"]
        n = int(self.n)
        if self.real == "back":
            back = np.fft.irfft(x, n=n, axis=1, norm="forward")
            return (self.scale * back).reshape(shape)
        made: Array = (
            np.fft.ifft(x, axis=1, norm="forward") if self.inverse else np.fft.fft(x, axis=1)
        )
        if self.real == "there":
            made = made[:, : n // 2 + 1]
        return (self.scale * np.stack([made.real, made.imag], -1)).reshape(shape)

    def flops(self) -> Expr:
        """Those of 2^12 points for as many: logarithms are no expressions of sizes."""
        outer, _, inner = (a.extent for a in self.re.axes)
        return product((outer, self.n, inner, integer(5 * 12)))

    def alone(self) -> Self:
        """Without what a device with a kernel does not need."""
        return self if self.otherwise is None else replace(self, otherwise=None)

    def expand(self, builder: NestBuilder, support: Support[Any] | None) -> list[LoopOp]:
        """The results that were computed in another way.

        Raises:
            UnsupportedOperators: There is no other way.
        """
        if self.otherwise is None:
            advice = "Give that dimension a max of at most 1048576, make it static, or give n="
            operator = self.origin.operator or self.kind
            raise UnsupportedOperators([MissingOperator(operator, (self.origin,), REASON, advice)])
        axes = self.output.axes
        symbols = (a.symbol for a in self.otherwise.axes)
        place = dict(zip(symbols, (a.symbol for a in axes), strict=True))
        store = self.stored(builder.load(self.otherwise, place), builder)
        return [LoopNest(self.name, axes, (), (store,), self.origin)]
