"""What generated text of any language is made of: exact numbers, index expressions, lines."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from aot.ir.dtypes import DType
from aot.symbolic import (
    Add,
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Mul,
    Pow,
    Symbol,
    number_and_rest,
    terms,
)


def exact_float(number: float, dtype: DType) -> float:
    """The number as arithmetic in this type has it: half types compute in float32."""
    if dtype.name == "float64" or not math.isfinite(number):
        return number
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def wrapped_integer(value: int, dtype: DType) -> int:
    """The value that an integer type holds for `value`."""
    bits = 8 * dtype.itemsize
    wrapped = value % (1 << bits)
    return wrapped - (1 << bits) if dtype.kind == "i" and wrapped >= 1 << (bits - 1) else wrapped


@dataclass(frozen=True)
class Spelling:
    """How a language writes index expressions. Its own division rounds towards zero, ours down.

    `integer`: a literal. `divide`: the operator. `floor`: what the names of the functions begin
    with that round down; `div` and `mod` follow. `least`, `greatest`: functions of two operands.
    `multiply`: factors as a product.
    """

    integer: Callable[[int], str]
    divide: str
    floor: str
    least: str
    greatest: str
    multiply: Callable[[list[str]], str]

    def text(self, expr: Expr, names: Mapping[Symbol, str], *, tight: bool = False) -> str:
        """An integer expression; symbols are non-negative. `tight`: it becomes an operand.

        Sums and products are ordered by their text, so equal kernels give equal text whatever
        their symbols are called. Raises KeyError for a symbol without a name.
        """
        if expr.is_Integer:
            text = self.integer(int(expr))
            return f"({text})" if tight and int(expr) < 0 else text
        if expr.is_Symbol:
            return names[expr]
        if isinstance(expr, Pow):
            return "*".join([self.text(expr.base, names, tight=True)] * int(expr.exp))
        if isinstance(expr, (FloorDiv, Modulo)):
            return self._division(expr, names)
        if isinstance(expr, (Minimum, Maximum)):
            function = self.least if isinstance(expr, Minimum) else self.greatest
            parts = sorted(self.text(a, names) for a in expr.args)
            text = parts[0]
            for part in parts[1:]:
                text = f"{function}({text}, {part})"
            return text
        parts = sorted(self.text(a, names, tight=True) for a in expr.args)
        if isinstance(expr, Add):
            joined = " + ".join(parts)
            return f"({joined})" if tight else joined
        return self.multiply(parts)

    def _division(self, expr: Expr, names: Mapping[Symbol, str]) -> str:
        quotient = isinstance(expr, FloorDiv)
        if _may_be_negative(expr.args[0]):
            a, b = (self.text(x, names) for x in expr.args)
            return f"{self.floor}{'div' if quotient else 'mod'}({a}, {b})"
        a, b = (self.text(x, names, tight=True) for x in expr.args)
        if isinstance(expr.args[1], (Mul, Pow)):
            b = f"({b})"  # x / a*b would divide by a alone
        return f"({a} {self.divide if quotient else '%'} {b})"


def _may_be_negative(expr: Expr) -> bool:
    """False when no term of `expr` is subtracted; symbols, quotients and remainders are not."""
    return any(not number_and_rest(t)[0] >= 0 or _inner_negative(t) for t in terms(expr))


def _inner_negative(term: Expr) -> bool:
    if isinstance(term, Modulo) or term.is_Symbol or term.is_Integer:
        return False
    if isinstance(term, FloorDiv):
        return _may_be_negative(term.args[0])
    return any(_may_be_negative(a) for a in term.args)


class Lines:
    """Collects lines of text with indentation. `step`: what one level is indented by."""

    def __init__(self, depth: int, step: str) -> None:
        self._lines: list[str] = []
        self._depth = depth
        self._step = step

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self._lines.append(self._step * self._depth + text)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """What is written inside is one level deeper."""
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        """All lines, each ended."""
        return "".join(line + "\n" for line in self._lines)
