"""Triton text: types, literals, index expressions, and a writer that indents."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from aot.backends.text import Lines, Spelling, exact_float, wrapped_integer
from aot.ir.dtypes import FLOAT8S, FLOAT32, FLOAT64, DType
from aot.symbolic import Expr, Symbol

_ELEMENT = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    **{dtype.name: "u8" for dtype in FLOAT8S},
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "i1",
}
_VALUE = {
    "float64": "tl.float64",
    "float32": "tl.float32",
    "float16": "tl.float32",
    "bfloat16": "tl.float32",
    **{dtype.name: "tl.float32" for dtype in FLOAT8S},
    "int64": "tl.int64",
    "int32": "tl.int32",
    "int16": "tl.int16",
    "int8": "tl.int8",
    "uint64": "tl.uint64",
    "uint32": "tl.uint32",
    "uint16": "tl.uint16",
    "uint8": "tl.uint8",
    "bool": "tl.int1",
}
_MEMORY = {
    **{**_VALUE, "float16": "tl.float16", "bfloat16": "tl.bfloat16"},
    **{dtype.name: "tl.uint8" for dtype in FLOAT8S},
}


def joined(names: Sequence[str]) -> str:
    """One tensor of 2^n, their number in its n last dimensions, of two each."""
    if len(names) == 1:
        return names[0]
    return f"tl.join({joined(names[0::2])}, {joined(names[1::2])})"


def taken_apart(line: Callable[[str], None], name: str, count: int) -> list[str]:
    """The tensors of which `name` is `joined`, in order; `line` takes the statements."""
    if count == 1:
        return [name]
    line(f"{name}e, {name}o = tl.split({name})")
    even, odd = (taken_apart(line, f"{name}{side}", count // 2) for side in "eo")
    return [side[k] for k in range(count // 2) for side in (even, odd)]


def pointer_type(dtype: DType) -> str:
    """A pointer parameter's type in a kernel's signature."""
    return f"*{_ELEMENT[dtype.name]}"


def value_type(dtype: DType) -> str:
    """The type of a value of this dtype in registers: half types and float8 are float32."""
    return _VALUE[dtype.name]


def memory_type(dtype: DType) -> str:
    """The type of an element in memory; float8 is bytes, which device functions convert."""
    return _MEMORY[dtype.name]


def literal(value: float | int | bool, dtype: DType, *, gluon: bool = False) -> str:
    """An expression that has exactly the value that the dtype can hold.

    `gluon`: in a function that Gluon calls, whose `full` wants a layout; what is cast there has
    been rounded to float32 before, so that float64 is given by its bits.
    """
    if dtype.name == "bool":
        text, kind = str(int(bool(value))), "tl.int1"
    elif dtype.is_float:
        number, kind = exact_float(float(value), dtype), value_type(dtype)
        text = repr(number) if math.isfinite(number) else f"float({str(number)!r})"
        if gluon and dtype == FLOAT64 and number != exact_float(number, FLOAT32):
            (bits,) = struct.unpack("<q", struct.pack("<d", number))
            return f"tl.cast({bits}, tl.int64).to(tl.float64, bitcast=True)"
    else:
        text, kind = str(wrapped_integer(int(value), dtype)), value_type(dtype)
    return f"tl.cast({text}, {kind})" if gluon else f"tl.full([], {text}, {kind})"


_SPELLING = Spelling(str, "//", "floor_", "tl.minimum", "tl.maximum", " * ".join)


def index_text(expr: Expr, names: Mapping[Symbol, str]) -> str:
    """An integer expression of Triton; see Spelling.text."""
    return _SPELLING.text(expr, names)


class Writer(Lines):
    """Collects lines of Python with indentation."""

    def __init__(self, depth: int = 1) -> None:
        super().__init__(depth, "    ")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and what is written inside, one level deeper."""
        self.line(f"{head}:")
        with self.deeper():
            yield
