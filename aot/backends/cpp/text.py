"""C++ text: types, literals, index expressions, and a writer that indents."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT16, DType
from aot.symbolic import Add, Expr, FloorDiv, Maximum, Minimum, Modulo, Pow, Symbol

_LANE = {
    "float64": "double",
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
_MEMORY = {**_LANE, "float16": "aot::f16", "bfloat16": "aot::bf16", "bool": "bool"}


def lane_type(dtype: DType) -> str:
    """The C++ type of a lane that holds a value of this dtype."""
    return _LANE[dtype.name]


def memory_type(dtype: DType) -> str:
    """The C++ type of an element in memory."""
    return _MEMORY[dtype.name]


def is_half(dtype: DType) -> bool:
    """True for the types that are float32 in registers."""
    return dtype in (FLOAT16, BFLOAT16)


def value_type(dtype: DType, lanes: str) -> str:
    """The C++ type of a value: a Mask for bool, else a Vec."""
    if dtype == BOOL:
        return f"aot::Mask<{lanes}>"
    return f"aot::Vec<{lane_type(dtype)}, {lanes}>"


def literal(value: float | int | bool, dtype: DType) -> str:
    """A C++ literal that has exactly the value that the dtype's lane can hold."""
    if dtype == BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return _integer_literal(int(value), dtype)
    number = float(value)
    if dtype.name != "float64" and math.isfinite(number):
        number = _to_float32(number)
    suffix = "" if dtype.name == "float64" else "f"
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    return number.hex() + suffix


def _to_float32(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _integer_literal(value: int, dtype: DType) -> str:
    bits = 8 * dtype.itemsize
    wrapped = value % (1 << bits)
    if dtype.kind == "i" and wrapped >= 1 << (bits - 1):
        wrapped -= 1 << bits
    if wrapped == -(1 << 63):
        return "INT64_MIN"
    return f"{wrapped}LL" if abs(wrapped) >= 1 << 31 else str(wrapped)


def index_text(expr: Expr, names: Mapping[Symbol, str]) -> str:
    """A C++ expression of type int64_t. Symbols are non-negative.

    Sums and products are ordered by their text, so equal kernels give equal text whatever their
    symbols are called. Raises KeyError for a symbol without a name.
    """
    return _infix(expr, names, tight=False)


def _infix(expr: Expr, names: Mapping[Symbol, str], *, tight: bool) -> str:
    if expr.is_Integer:
        text = str(int(expr)) if abs(int(expr)) < 1 << 31 else f"{int(expr)}LL"
        return f"({text})" if tight and int(expr) < 0 else text
    if expr.is_Symbol:
        return names[expr]
    if isinstance(expr, Pow):
        return "*".join([_infix(expr.base, names, tight=True)] * int(expr.exp))
    if isinstance(expr, (FloorDiv, Modulo)):
        sign = "/" if isinstance(expr, FloorDiv) else "%"
        if _may_be_negative(expr.args[0]):
            # C's division rounds towards zero, ours down.
            a, b = (_infix(x, names, tight=False) for x in expr.args)
            return f"aot::floor_{'div' if sign == '/' else 'mod'}({a}, {b})"
        a, b = (_infix(x, names, tight=True) for x in expr.args)
        return f"({a} {sign} {b})"
    if isinstance(expr, (Minimum, Maximum)):
        function = "aot::imin" if isinstance(expr, Minimum) else "aot::imax"
        parts = sorted(_infix(a, names, tight=False) for a in expr.args)
        text = parts[0]
        for part in parts[1:]:
            text = f"{function}({text}, {part})"
        return text
    parts = sorted(_infix(a, names, tight=True) for a in expr.args)
    if isinstance(expr, Add):
        joined = " + ".join(parts)
        return f"({joined})" if tight else joined
    return "*".join(f"int64_t{{{p}}}" if p.isdigit() else p for p in parts)


def _may_be_negative(expr: Expr) -> bool:
    """False when no term of `expr` is subtracted; symbols, quotients and remainders are not."""
    terms = expr.args if isinstance(expr, Add) else (expr,)
    return any(not t.as_coeff_Mul()[0] >= 0 or _inner_negative(t) for t in terms)


def _inner_negative(term: Expr) -> bool:
    if isinstance(term, Modulo) or term.is_Symbol or term.is_Integer:
        return False
    if isinstance(term, FloorDiv):
        return _may_be_negative(term.args[0])
    return any(_may_be_negative(a) for a in term.args)


class Writer:
    """Collects lines of C++ with indentation."""

    def __init__(self, depth: int = 0) -> None:
        self._lines: list[str] = []
        self._depth = depth

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self._lines.append("  " * self._depth + text)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {`, what is written inside, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    def extend(self, other: Writer) -> None:
        """Appends another writer's lines as they are."""
        self._lines.extend(other._lines)

    def text(self) -> str:
        """All lines, each ended."""
        return "".join(line + "\n" for line in self._lines)
