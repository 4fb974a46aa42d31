"""Fourier transforms by digits: how points lie in a program's tile, and small transforms as text.

The number of a point is a number of digits, a factor of the length each. A pass transforms one
digit: its points are tensors of their own, whose statements are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aot.symbolic import power_above

Line = Callable[[str], None]
Names = tuple[str, str]
"""Of the real and the imaginary part."""


@dataclass(frozen=True)
class Digit:
    """A digit of a tile's position: its place there, how many values, and what it counts."""

    size: int
    weight: int


def number_text(position: str, digits: Sequence[Digit]) -> tuple[str, str]:
    """The number that a position means, and a test whether it means one ("" if all do).

    `digits`: the most significant of the position first.
    """
    terms, tests, place, plain = [], [], 1, True
    for digit in reversed(digits):
        room = power_above(digit.size)
        text = position if place == 1 else f"{position} // {place}"
        text = f"({text}) % {room}"
        if digit.size > 1:
            terms.append(text if digit.weight == 1 else f"({text}) * {digit.weight}")
        plain = plain and digit.size == room and digit.weight == place
        if digit.size < room:
            tests.append(f"(({text}) < {digit.size})")
        place *= room
    if plain:  # as it is, Triton sees which are neighbours
        return position, ""
    return " + ".join(terms) or f"{position} * 0", " & ".join(tests)


class Transforms:
    """Writes transforms of a few numbers, each of which has names of its own."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._count = 0

    def fresh(self, re: str, im: str) -> Names:
        """Names for a number."""
        self._count += 1
        names = f"y{self._count}", f"z{self._count}"
        self._line(f"{names[0]} = {re}")
        self._line(f"{names[1]} = {im}")
        return names

    def transform(self, x: Sequence[Names]) -> list[Names]:
        """The transform of as many numbers."""
        n = len(x)
        if n == 1:
            return list(x)
        if n == 2:
            return [self._sum(x[0], x[1], "+"), self._sum(x[0], x[1], "-")]
        first = 4 if n % 4 == 0 and n > 4 else next(p for p in range(2, n + 1) if n % p == 0)
        if first == n:
            return self._prime(x)
        second = n // first
        inner = [self.transform(x[j::second]) for j in range(second)]
        found: list[Names] = []
        for k in range(first):
            turned = [self._turned(inner[j][k], j * k, n) for j in range(second)]
            found += self.transform(turned)
        # found[k * second + q] is that of number k + first * q.
        return [found[p % first * second + p // first] for p in range(n)]

    def _sum(self, a: Names, b: Names, sign: str) -> Names:
        return self.fresh(f"{a[0]} {sign} {b[0]}", f"{a[1]} {sign} {b[1]}")

    def _turned(self, x: Names, power: int, n: int) -> Names:
        """Times exp(-2 pi i power / n)."""
        power, (re, im) = power % n, x
        if power == 0:
            return x
        if 4 * power == n:
            return self.fresh(im, f"-{re}")
        if 2 * power == n:
            return self.fresh(f"-{re}", f"-{im}")
        cos, sin = _root(power, n)
        if 8 * power == n:
            return self.fresh(f"({re} + {im}) * {cos!r}", f"({im} - {re}) * {cos!r}")
        if 8 * power == 3 * n:
            return self.fresh(f"({im} - {re}) * {-cos!r}", f"({re} + {im}) * {cos!r}")
        return self.fresh(f"{re} * {cos!r} - {im} * {sin!r}", f"{re} * {sin!r} + {im} * {cos!r}")

    def _prime(self, x: Sequence[Names]) -> list[Names]:
        """Sums and differences of x[j] and x[n - j] share their products."""
        n, half = len(x), len(x) // 2
        pairs = [(x[j], x[n - j]) for j in range(1, half + 1)]
        sums = [self._sum(a, b, "+") for a, b in pairs]
        differences = [self._sum(a, b, "-") for a, b in pairs]
        total = [" + ".join((x[0][c], *(s[c] for s in sums))) for c in range(2)]
        found = {0: self.fresh(total[0], total[1])}
        for k in range(1, half + 1):
            roots = [_root(j * k % n, n) for j in range(1, half + 1)]
            even = [_products(sums, [r[0] for r in roots], c) for c in range(2)]
            odd = [_products(differences, [-r[1] for r in roots], c) for c in range(2)]
            e = self.fresh(*(f"{x[0][c]} + {even[c]}" for c in range(2)))
            o = self.fresh(odd[0], odd[1])
            found[k] = self.fresh(f"{e[0]} + {o[1]}", f"{e[1]} - {o[0]}")
            found[n - k] = self.fresh(f"{e[0]} - {o[1]}", f"{e[1]} + {o[0]}")
        return [found[k] for k in range(n)]


def _products(x: Sequence[Names], factors: Sequence[float], part: int) -> str:
    """The sum of a part of numbers times factors."""
    return " + ".join(f"{y[part]} * {f!r}" for y, f in zip(x, factors, strict=True))


def _root(power: int, n: int) -> tuple[float, float]:
    """Cosine and sine of -2 pi power / n, from an angle of at most an eighth of a turn."""
    quarter = (8 * power + n) // (2 * n)
    angle = math.pi / 2 * (4 * power - quarter * n) / n
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = ((cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos))[quarter % 4]
    return x, -y
