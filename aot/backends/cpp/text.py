"""C++ text: types, literals, index expressions, and a writer that indents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aot.backends.text import Lines, Spelling, exact_float, wrapped_integer
from aot.ir.dtypes import BOOL, FLOAT8S, DType
from aot.symbolic import Expr, Symbol

_LANE = {
    "float64": "double",
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    **{dtype.name: "float" for dtype in FLOAT8S},
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint64": "uint64_t",
    "uint32": "uint32_t",
    "uint16": "uint16_t",
    "uint8": "uint8_t",
    "bool": "bool",
}
_MEMORY = {
    **{**_LANE, "float16": "aot::f16", "bfloat16": "aot::bf16"},
    **{dtype.name: f"aot::f8{dtype.name.removeprefix('float8_')}" for dtype in FLOAT8S},
}


def lane_type(dtype: DType) -> str:
    """The C++ type of a lane that holds a value of this dtype."""
    return _LANE[dtype.name]


def memory_type(dtype: DType) -> str:
    """The C++ type of an element in memory."""
    return _MEMORY[dtype.name]


def is_half(dtype: DType) -> bool:
    """True for the types that are float32 in registers."""
    return dtype != dtype.compute


def value_type(dtype: DType, lanes: str, compared: str = "") -> str:
    """The C++ type of a value: a Mask for bool, else a Vec.

    `compared`: the lane type whose comparisons give the mask, where that makes a difference.
    """
    if dtype == BOOL:
        return f"aot::MaskOf<{compared}, {lanes}>" if compared else f"aot::Mask<{lanes}>"
    return f"aot::Vec<{lane_type(dtype)}, {lanes}>"


def literal(value: float | int | bool, dtype: DType) -> str:
    """A C++ literal that has exactly the value that the dtype's lane can hold."""
    if dtype == BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return _integer_literal(int(value), dtype)
    number = exact_float(float(value), dtype)
    suffix = "" if dtype.name == "float64" else "f"
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    return number.hex() + suffix


def _integer_literal(value: int, dtype: DType) -> str:
    wrapped = wrapped_integer(value, dtype)
    if wrapped == -(1 << 63):
        return "INT64_MIN"
    if dtype.kind == "u" and wrapped >= 1 << 63:
        return f"{wrapped}ULL"
    return f"{wrapped}LL" if abs(wrapped) >= 1 << 31 else str(wrapped)


def _integer(value: int) -> str:
    return str(value) if abs(value) < 1 << 31 else f"{value}LL"


def _multiply(factors: list[str]) -> str:
    return "*".join(f"int64_t{{{f}}}" if f.isdigit() else f for f in factors)


_SPELLING = Spelling(_integer, "/", "aot::floor_", "aot::imin", "aot::imax", _multiply)


def index_text(expr: Expr, names: Mapping[Symbol, str]) -> str:
    """A C++ expression of type int64_t; see Spelling.text."""
    return _SPELLING.text(expr, names)


class Writer(Lines):
    """Collects lines of C++ with indentation."""

    def __init__(self, depth: int = 0) -> None:
        super().__init__(depth, "  ")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {`, what is written inside, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        with self.deeper():
            yield
        self.line(tail)
