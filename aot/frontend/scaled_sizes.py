"""torch's sizes in our index algebra, also those that a factor scales: `int(0.3 * n)`.

A number of torch's that is rounded to a whole one becomes a floor division by a fraction of small
terms. Where the factor is no such fraction exactly, every size in range is tried: floats round.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from aot.symbolic import Expr, FloorDiv, from_foreign, integer

TRIED = 1 << 16
"""Sizes that are tried one by one, at most."""

_EXACT = 1 << 20
"""The greatest denominator of numbers that are exact, and so are their products with sizes."""

_SMALL = 1000
"""Denominators of the fractions that factors are taken for."""

Ceiling = Callable[[Any], int | None]
"""What an expression of torch's never exceeds; None where that is not known."""


def translate(foreign: Any, greatest: Ceiling = lambda _: None) -> Expr:
    """An expression of torch in ours.

    Args:
        foreign: The expression.
        greatest: What parts of it never exceed.

    Raises:
        ValueError: It is no arithmetic of whole numbers.
    """
    return from_foreign(foreign, lambda part: _truncated(part, greatest))


_ROUNDED: dict[str, tuple[int, Callable[[float], int]]] = {
    "TruncToInt": (1, math.trunc),
    "FloorToInt": (1, math.floor),
    "CeilToInt": (-1, math.ceil),
}
"""Roundings of a number that is not negative: that of its negative, where it is -1, is down."""


def _truncated(foreign: Any, greatest: Ceiling) -> Expr | None:
    """A size that a scale factor made, as a floor division."""
    if type(foreign).__name__ not in _ROUNDED:
        return None
    found = _taken_apart(foreign.args[0])
    if found is None:
        return None
    steps, inner = found
    kind, most = type(foreign).__name__, greatest(inner)
    return _rounded(kind, steps, translate(inner, greatest), most, str(foreign))


def _rounded(kind: str, steps: Sequence[_Step], inner: Expr, most: int | None, text: str) -> Expr:
    """A whole number after these steps, rounded as torch's class of that name does it.

    Raises:
        ValueError: That is no fraction of it, or it may be too great to see that.
    """
    sign, rounded = _ROUNDED[kind]
    scale = Fraction(1)
    for step in steps:
        scale = step.scaled(scale)
    # One exact step keeps its distance from the next whole number, below 2^32.
    if len(steps) != 1 or Fraction(steps[0].number).denominator > _EXACT:
        scale = scale.limit_denominator(_SMALL)
        if most is None or most > TRIED:
            raise ValueError(
                f"the size {text} is not a simple fraction of an input size: give that one a "
                f"greatest size of at most {TRIED}, Dim(…, max=…)"
            )
        for n in range(most + 1):
            whole = sign * (sign * scale.numerator * n // scale.denominator)
            if rounded(_value(n, steps)) != whole:
                raise ValueError(f"the size {text} is no fraction of an input size at {n}")
    return sign * FloorDiv(sign * scale.numerator * inner, integer(scale.denominator))


_WRITTEN = {"math.trunc": "TruncToInt", "math.floor": "FloorToInt", "math.ceil": "CeilToInt"}
"""How torch's conditions write its classes."""


def read_rounded(node: ast.expr, size_of: Callable[[ast.expr], Expr]) -> Expr:
    """A rounded number that a condition of torch's has in its text.

    Args:
        node: What may be one.
        size_of: Reads the whole numbers in it; raises ValueError for anything else.

    Raises:
        ValueError: It is another call, or no fraction of a size whatever that is.
    """
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        raise ValueError(ast.unparse(node))
    kind, found = _WRITTEN.get(ast.unparse(node.func)), _steps_of(node.args[0])
    if kind is None or found is None:
        raise ValueError(ast.unparse(node))
    return _rounded(kind, found[0], size_of(found[1]), None, ast.unparse(node))


def _steps_of(node: ast.expr) -> tuple[list[_Step], ast.expr] | None:
    """As `_taken_apart`, of a text."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.sym_float":
        return [], node.args[0]
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div | ast.Mult):
        return None
    divides, sides = isinstance(node.op, ast.Div), (node.left, node.right)
    numbers = [s.value if isinstance(s, ast.Constant) else None for s in sides]
    place = 1 if divides or numbers[1] is not None else 0
    number, rest = numbers[place], sides[1 - place]
    if not isinstance(number, int | float) or not number:
        return None
    found = _steps_of(rest)
    if found is None and divides and isinstance(number, int):
        found = [], rest
    return None if found is None else ([_Step(number, divides), *found[0]], found[1])


@dataclass(frozen=True)
class _Step:
    """A factor or, with `divides`, a divisor."""

    number: float
    divides: bool

    def scaled(self, scale: Fraction) -> Fraction:
        """What it makes of a scale."""
        own = Fraction(self.number)
        return scale / own if self.divides else scale * own


def _value(n: int, steps: Sequence[_Step]) -> float:
    """What is rounded, of a whole number: the last step is done first."""
    value = float(n)
    for step in reversed(steps):
        value = value / step.number if step.divides else value * step.number
    return value


def _taken_apart(number: Any) -> tuple[list[_Step], Any] | None:
    """What is done to a whole number, last things first, and that; None for anything else."""
    kind, steps = type(number).__name__, []
    if kind == "ToFloat":
        return [], number.args[0]
    if kind == "IntTrueDiv" and number.args[1].is_Integer:
        return [_Step(int(number.args[1]), divides=True)], number.args[0]
    if kind == "FloatTrueDiv" and number.args[1].is_number:
        rest, steps = number.args[0], [_Step(float(number.args[1]), divides=True)]
    elif kind == "Mul" and len(number.args) == 2 and any(a.is_number for a in number.args):
        first, second = number.args
        factor, rest = (first, second) if first.is_number else (second, first)
        steps = [_Step(float(factor), divides=False)]
    found = _taken_apart(rest) if steps else None
    return None if found is None else ([*steps, *found[0]], found[1])
