"""The table of scalar operations as C++ on Vec and Mask values."""

from __future__ import annotations

from collections.abc import Callable

from aot.backends.cpp.text import is_half, lane_type, memory_type
from aot.errors import InternalError
from aot.ir.dtypes import BOOL, DType

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LIMITS = {"minimum": "at_most", "maximum": "at_least"}
"""Functions in place of an operation where the second operand is a number other than zero."""
SHIFTS = {"shl": "shift_left", "shr": "shift_right"}
"""Functions of a vector and another one, or one count for all lanes."""
_RENAMED = {"floordiv": "div_floor", "truncdiv": "div_trunc", "mod": "remainder", **SHIFTS}
_BOOL: dict[str, Callable[..., str]] = {
    "not": lambda a: f"~{a}",
    "bitnot": lambda a: f"~{a}",
    "and": lambda a, b: f"{a} & {b}",
    "mul": lambda a, b: f"{a} & {b}",
    "minimum": lambda a, b: f"{a} & {b}",
    "or": lambda a, b: f"{a} | {b}",
    "add": lambda a, b: f"{a} | {b}",
    "maximum": lambda a, b: f"{a} | {b}",
    "xor": lambda a, b: f"{a} ^ {b}",
    "ne": lambda a, b: f"{a} ^ {b}",
    "sub": lambda a, b: f"{a} ^ {b}",
    "eq": lambda a, b: f"~({a} ^ {b})",
    "lt": lambda a, b: f"~{a} & {b}",
    "le": lambda a, b: f"~{a} | {b}",
    "gt": lambda a, b: f"{a} & ~{b}",
    "ge": lambda a, b: f"{a} | ~{b}",
    "abs": lambda a: a,
}


def operation(op: str, operand: DType, args: list[str], lanes: str) -> str:
    """The expression for an operation on operands of one dtype.

    Raises:
        InternalError: There is no such operation on this dtype.
    """
    if operand == BOOL:
        if op not in _BOOL:
            raise InternalError(f"the C++ backend has no {op} of bool operands")
        return _BOOL[op](*args)
    if op == "not":
        return f"~aot::to_mask({args[0]})"
    if op == "bitnot":
        return f"~{args[0]}"
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in COMPARISONS:
        return f"{args[0]} {COMPARISONS[op]} {args[1]}"
    if op == "div":
        sign = f"{args[0]} / {args[1]}"
        return sign if operand.is_float else f"aot::div_trunc({args[0]}, {args[1]})"
    if op == "neg":
        return f"-{args[0]}"
    return f"aot::{_RENAMED.get(op, op)}({', '.join(args)})"


def conversion(text: str, source: DType, target: DType) -> str:
    """`text`, a value of dtype `source`, as one of dtype `target`."""
    if target == BOOL:
        return text if source == BOOL else f"aot::to_mask({text})"
    if is_half(target):
        wide = text if lane_type(source) == "float" else f"aot::convert<float>({text})"
        return f"aot::round_to<{memory_type(target)}>({wide})"
    if source == BOOL:
        return f"aot::from_mask<{lane_type(target)}>({text})"
    if lane_type(source) == lane_type(target):
        return text
    return f"aot::convert<{lane_type(target)}>({text})"


def reinterpretation(text: str, source: DType, target: DType) -> str:
    """The bits of `text`, a value of dtype `source`, as a value of dtype `target`.

    Half types and float8 are float32 in registers; their bits are those of the element in memory.
    """
    bits = (
        f"aot::detail::Storage<{memory_type(source)}>::narrow({text})" if is_half(source) else text
    )
    if is_half(target):
        stored = f"aot::bitcast<uint{8 * target.itemsize}_t>({bits})"
        return f"aot::detail::Storage<{memory_type(target)}>::widen<float>({stored})"
    return f"aot::bitcast<{lane_type(target)}>({bits})"
