"""torch's sizes in our index algebra, also those that are scaled and moved: `int(0.3 * n + 0.5)`.

A number of torch's that is rounded to a whole one becomes a floor division by fractions of small
terms. Where the factor is no such fraction exactly, every size in range is tried: floats round.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from aot.symbolic import Expr, FloorDiv, Maximum, Minimum, Modulo, Ranges, from_foreign, integer

TRIED = 1 << 16
"""Sizes that are tried one by one, at most."""

_EXACT = 1 << 20
"""The greatest denominator of numbers that are exact, and so are their products with sizes."""

_APART = 1 << 16
"""The greatest denominator of a sum that floats round no further than to its own whole number."""

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
    return from_foreign(foreign, lambda part: _special(part, greatest))


def masked(number: Expr, mask: int) -> Expr:
    """`number & mask`, of a mask that keeps the last digits or all but these.

    Raises ValueError for another mask.
    """
    unit = mask + 1 if mask >= 0 else -mask
    if unit & (unit - 1):
        raise ValueError(f"{number} & {mask} keeps neither the last digits nor all before them")
    rest = Modulo(number, integer(unit))
    return rest if mask >= 0 else number - rest


def _special(foreign: Any, greatest: Ceiling) -> Expr | None:
    """What is no arithmetic of whole numbers but has such a form; None of all else."""
    if type(foreign).__name__ == "BitwiseFn_bitwise_and":
        mask, number = sorted(foreign.args, key=lambda part: not part.is_Integer)
        return masked(translate(number, greatest), int(mask)) if mask.is_Integer else None
    return _truncated(foreign, greatest)


_ROUNDED: dict[str, Callable[[float | Fraction], int]] = {
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
}


def _truncated(foreign: Any, greatest: Ceiling) -> Expr | None:
    """A size that a scale factor made, as a floor division."""
    if type(foreign).__name__ not in _ROUNDED:
        return None
    found = _taken_apart(foreign.args[0])
    if found is None:
        return None
    steps, inner = found
    bounds = (lambda: greatest(-inner), lambda: greatest(inner))
    return _rounded(type(foreign).__name__, steps, translate(inner, greatest), bounds, str(foreign))


_Bounds = tuple[Callable[[], int | None], Callable[[], int | None]]
"""Ask for these: minus the least and the greatest of a whole number; None where that is not known.
"""


def _rounded(kind: str, steps: Sequence[_Step], inner: Expr, bounds: _Bounds, text: str) -> Expr:
    """A whole number after these steps, rounded as torch's class of that name does it.

    Raises:
        ValueError: That is no fraction of it, or it may be too great to see that.
    """
    scale, offset = _exactly(steps)
    never_negative = _sizes(inner).nonnegative(inner)
    if not _is_exact(steps, scale, offset):
        scale, offset = (f.limit_denominator(_SMALL) for f in (scale, offset))
        _try_all(kind, steps, (scale, offset), (never_negative, *bounds), text)
    unit = math.lcm(scale.denominator, offset.denominator)
    number = int(scale * unit) * inner + int(offset * unit)
    if kind == "FloorToInt":
        return FloorDiv(number, integer(unit))
    up = -FloorDiv(-number, integer(unit))
    if kind == "CeilToInt":
        return up
    down = FloorDiv(number, integer(unit))
    if never_negative and scale >= 0 and offset >= 0:
        return down
    # Towards 0: `int((n - 9) / 2)` of a size that may be below 9.
    return Maximum(down, integer(0)) + Minimum(up, integer(0))


def _exactly(steps: Sequence[_Step]) -> tuple[Fraction, Fraction]:
    """The factor of what the steps begin with, and what is added to that."""
    scale, offset = Fraction(1), Fraction(0)
    for step in reversed(steps):
        scale, offset = step.after(scale), step.after(offset, moved=True)
    return scale, offset


def _is_exact(steps: Sequence[_Step], scale: Fraction, offset: Fraction) -> bool:
    """Whether floats round as the fractions do, whatever the size is, below 2^32."""
    if any(Fraction(s.number).denominator > _EXACT for s in steps):
        return False
    # One step that rounds keeps its distance from the next whole number. Powers of two never do,
    # and sums beside it no further than that distance.
    rounding = [s for s in steps if s.kind != "+" and not s.is_exact]
    if len(rounding) == len(steps) == 1:
        return True
    apart = math.lcm(scale.denominator, offset.denominator) <= _APART
    return len(rounding) <= 1 and apart and abs(offset) <= _EXACT


def _sizes(inner: Expr) -> Ranges:
    """What is known of the sizes in an expression without their ranges: none is negative.

    A number that a run reads (torch calls it u0) may be.
    """
    sizes = [s for s in inner.free_symbols if str(s)[0] not in "uz"]
    return Ranges({}, dict.fromkeys(sizes, (0, None)))


def _try_all(
    kind: str,
    steps: Sequence[_Step],
    exactly: tuple[Fraction, Fraction],
    bounds: tuple[bool, Callable[[], int | None], Callable[[], int | None]],
    text: str,
) -> None:
    """Raises ValueError where floats round otherwise than these fractions at some size."""
    never_negative, below, above = bounds
    under, most = 0 if never_negative else below(), above()
    if under is None or most is None or under + most > TRIED:
        raise ValueError(
            f"the size {text} is not a simple fraction of an input size: give that one a "
            f"greatest size of at most {TRIED}, Dim(…, max=…)"
        )
    scale, offset = exactly
    for n in range(-under, most + 1):
        if _ROUNDED[kind](_value(n, steps)) != _ROUNDED[kind](scale * n + offset):
            raise ValueError(f"the size {text} is no fraction of an input size at {n}")


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
    unknown = (lambda: None, lambda: None)
    return _rounded(kind, found[0], size_of(found[1]), unknown, ast.unparse(node))


def _steps_of(node: ast.expr) -> tuple[list[_Step], ast.expr] | None:
    """As `_taken_apart`, of a text."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.sym_float":
        return [], node.args[0]
    kind = _OPERATORS.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if kind is None or not isinstance(node, ast.BinOp):
        return None
    numbers = [_number_in(side) for side in (node.left, node.right)]
    place = 1 if kind in "/-" or numbers[1] is not None else 0
    number, rest = numbers[place], (node.right, node.left)[place]
    if number is None or (not number and kind == "/"):
        return None
    found = _steps_of(rest)
    if found is None and kind == "/" and isinstance(number, int):
        found = [], rest
    step = _Step(-number, "+") if kind == "-" else _Step(number, kind)
    return None if found is None else ([step, *found[0]], found[1])


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Div: "/",
    ast.Mult: "*",
    ast.Add: "+",
    ast.Sub: "-",
}


def _number_in(node: ast.expr) -> int | float | None:
    """A number as it is written, also with a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number_in(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) else None


@dataclass(frozen=True)
class _Step:
    """What is done to a number: multiplied ("*"), divided ("/") or added to ("+")."""

    number: float
    kind: str

    @property
    def is_exact(self) -> bool:
        """True of a power of two, by which floats are multiplied and divided exactly."""
        return bool(self.number) and abs(math.frexp(self.number)[0]) == 0.5

    def after(self, value: Fraction, *, moved: bool = False) -> Fraction:
        """What it makes of a factor or, with `moved`, of what is added."""
        own = Fraction(self.number)
        if self.kind == "+":
            return value + own if moved else value
        return value / own if self.kind == "/" else value * own


def _value(n: int, steps: Sequence[_Step]) -> float:
    """What is rounded, of a whole number: the last step is done first."""
    value = float(n)
    for step in reversed(steps):
        if step.kind == "+":
            value += step.number
        else:
            value = value / step.number if step.kind == "/" else value * step.number
    return value


def _taken_apart(number: Any) -> tuple[list[_Step], Any] | None:
    """What is done to a whole number, last things first, and that; None for anything else."""
    kind = type(number).__name__
    if kind == "ToFloat":
        return [], number.args[0]
    if kind == "IntTrueDiv" and number.args[1].is_Integer:
        return [_Step(int(number.args[1]), "/")], number.args[0]
    if kind == "FloatTrueDiv" and number.args[1].is_number:
        rest, step = number.args[0], _Step(float(number.args[1]), "/")
    elif kind in ("Mul", "Add") and len(number.args) == 2 and number.args[0].is_number:
        rest = number.args[1]
        step = _Step(float(number.args[0]), "*" if kind == "Mul" else "+")
    else:
        return None
    found = _taken_apart(rest)
    return None if found is None else ([step, *found[0]], found[1])
