"""Triton text: types, literals, index expressions, and a writer that indents."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aot.ir.dtypes import DType
from aot.symbolic import Add, Expr, FloorDiv, Maximum, Minimum, Modulo, Pow, Symbol

_ELEMENT = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "i1",
}
_VALUE = {
    "float64": "tl.float64",
    "float32": "tl.float32",
    "float16": "tl.float32",
    "bfloat16": "tl.float32",
    "int64": "tl.int64",
    "int32": "tl.int32",
    "int16": "tl.int16",
    "int8": "tl.int8",
    "uint8": "tl.uint8",
    "bool": "tl.int1",
}
_MEMORY = {**_VALUE, "float16": "tl.float16", "bfloat16": "tl.bfloat16"}


def pointer_type(dtype: DType) -> str:
    """A pointer parameter's type in a kernel's signature."""
    return f"*{_ELEMENT[dtype.name]}"


def value_type(dtype: DType) -> str:
    """The type of a value of this dtype in registers: half types are float32."""
    return _VALUE[dtype.name]


def memory_type(dtype: DType) -> str:
    """The type of an element in memory."""
    return _MEMORY[dtype.name]


def literal(value: float | int | bool, dtype: DType) -> str:
    """An expression that has exactly the value that the dtype can hold."""
    if dtype.name == "bool":
        return f"tl.full([], {int(bool(value))}, tl.int1)"
    if not dtype.is_float:
        return f"tl.full([], {_wrapped(int(value), dtype)}, {value_type(dtype)})"
    number = float(value)
    if dtype.name != "float64" and math.isfinite(number):
        number = _to_float32(number)
    text = repr(number) if math.isfinite(number) else f"float({str(number)!r})"
    return f"tl.full([], {text}, {value_type(dtype)})"


def _to_float32(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _wrapped(value: int, dtype: DType) -> int:
    bits = 8 * dtype.itemsize
    wrapped = value % (1 << bits)
    return wrapped - (1 << bits) if dtype.kind == "i" and wrapped >= 1 << (bits - 1) else wrapped


def index_text(expr: Expr, names: Mapping[Symbol, str]) -> str:
    """An integer expression; sums and products are ordered by their text.

    Raises KeyError for a symbol without a name.
    """
    return _infix(expr, names, tight=False)


def _infix(expr: Expr, names: Mapping[Symbol, str], *, tight: bool) -> str:
    if expr.is_Integer:
        return f"({int(expr)})" if tight and int(expr) < 0 else str(int(expr))
    if expr.is_Symbol:
        return names[expr]
    if isinstance(expr, Pow):
        return "*".join([_infix(expr.base, names, tight=True)] * int(expr.exp))
    if isinstance(expr, (FloorDiv, Modulo)):
        quotient = isinstance(expr, FloorDiv)
        if may_be_negative(expr.args[0]):
            # Triton's division rounds towards zero, ours down.
            a, b = (_infix(x, names, tight=False) for x in expr.args)
            return f"floor_{'div' if quotient else 'mod'}({a}, {b})"
        a, b = (_infix(x, names, tight=True) for x in expr.args)
        return f"({a} {'//' if quotient else '%'} {b})"
    if isinstance(expr, (Minimum, Maximum)):
        function = "tl.minimum" if isinstance(expr, Minimum) else "tl.maximum"
        parts = sorted(_infix(a, names, tight=False) for a in expr.args)
        text = parts[0]
        for part in parts[1:]:
            text = f"{function}({text}, {part})"
        return text
    parts = sorted(_infix(a, names, tight=True) for a in expr.args)
    if isinstance(expr, Add):
        joined = " + ".join(parts)
        return f"({joined})" if tight else joined
    return " * ".join(parts)


def may_be_negative(expr: Expr) -> bool:
    """False when no term of `expr` is subtracted; symbols, quotients and remainders are not."""
    terms = expr.args if isinstance(expr, Add) else (expr,)
    return any(not t.as_coeff_Mul()[0] >= 0 or _inner_negative(t) for t in terms)


def _inner_negative(term: Expr) -> bool:
    if isinstance(term, Modulo) or term.is_Symbol or term.is_Integer:
        return False
    if isinstance(term, FloorDiv):
        return may_be_negative(term.args[0])
    return any(may_be_negative(a) for a in term.args)


class Writer:
    """Collects lines of Python with indentation."""

    def __init__(self, depth: int = 1) -> None:
        self._lines: list[str] = []
        self._depth = depth

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and what is written inside, one level deeper."""
        self.line(f"{head}:")
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        """All lines, each ended."""
        return "".join(line + "\n" for line in self._lines)
