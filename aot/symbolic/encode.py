"""Index expressions as text, C, plan JSON and numbers; and from torch's size expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import sympy

from aot.symbolic.functions import Expr, FloorDiv, Maximum, Minimum, Modulo, Symbol
from aot.symbolic.shapes import dim

Encoded: TypeAlias = "int | str | tuple[Encoded, ...] | list[Encoded]"

_PLAN_OPS: dict[type[Any], str] = {
    sympy.Add: "+",
    sympy.Mul: "*",
    FloorDiv: "//",
    Modulo: "%",
    Minimum: "min",
    Maximum: "max",
}


def encode(expr: Expr) -> Encoded:
    """The plan's form of a size expression (docs/format.md, "Expressions")."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return str(expr)
    if isinstance(expr, sympy.Pow):
        return ["*", *([encode(expr.base)] * int(expr.exp))]
    args = sorted(expr.args, key=sympy.default_sort_key) if expr.is_commutative else expr.args
    ordered = expr.args if isinstance(expr, (FloorDiv, Modulo)) else args
    return [_PLAN_OPS[type(expr)], *[encode(a) for a in ordered]]


def decode(encoded: Encoded) -> Expr:
    """The inverse of `encode`."""
    if isinstance(encoded, int):
        return sympy.Integer(encoded)
    if isinstance(encoded, str):
        return dim(encoded)
    build = {name: op for op, name in _PLAN_OPS.items()}[str(encoded[0])]
    return build(*[decode(e) for e in encoded[1:]])


def evaluate(expr: Expr, values: Mapping[Symbol, Any]) -> Any:
    """The number (or NumPy array of numbers) that `expr` has for the given symbols."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return values[expr]
    args = [evaluate(a, values) for a in expr.args]
    if isinstance(expr, FloorDiv):
        return args[0] // args[1]
    if isinstance(expr, Modulo):
        return args[0] % args[1]
    if isinstance(expr, sympy.Pow):
        return args[0] ** args[1]
    folds: dict[type[Any], Callable[[Any, Any], Any]] = {
        sympy.Add: lambda a, b: a + b,
        sympy.Mul: lambda a, b: a * b,
        Minimum: np.minimum,
        Maximum: np.maximum,
    }
    fold = folds[type(expr)]
    result = args[0]
    for a in args[1:]:
        result = fold(result, a)
    return result


def to_text(expr: Expr) -> str:
    """Deterministic text for dumps."""
    return _infix(expr, {FloorDiv: "//", Modulo: "%"}, str, "min", "max")


def to_c(expr: Expr, name: Callable[[Symbol], str] = str) -> str:
    """A C++ expression of type int64_t.

    Divisions truncate in C, so operands must be non-negative; the kernels' indices are.
    """
    return _infix(expr, {FloorDiv: "/", Modulo: "%"}, name, "aot::imin", "aot::imax")


def _infix(
    expr: Expr,
    division: Mapping[type[Any], str],
    name: Callable[[Symbol], str],
    minimum: str,
    maximum: str,
) -> str:
    def go(e: Expr, *, tight: bool) -> str:
        if e.is_Integer:
            return str(int(e)) if int(e) >= 0 or not tight else f"({int(e)})"
        if e.is_Symbol:
            return name(e)
        if isinstance(e, sympy.Pow):
            return "*".join([go(e.base, tight=True)] * int(e.exp))
        if isinstance(e, (FloorDiv, Modulo)):
            divisor = go(e.args[1], tight=True)
            if isinstance(e.args[1], (sympy.Mul, sympy.Pow)):
                divisor = f"({divisor})"  # x / a*b would divide by a alone
            return f"({go(e.args[0], tight=True)} {division[type(e)]} {divisor})"
        if isinstance(e, (Minimum, Maximum)):
            function = minimum if isinstance(e, Minimum) else maximum
            text = go(e.args[0], tight=False)
            for a in e.args[1:]:
                text = f"{function}({text}, {go(a, tight=False)})"
            return text
        args = sorted(e.args, key=sympy.default_sort_key, reverse=isinstance(e, sympy.Add))
        joined = (" + " if isinstance(e, sympy.Add) else "*").join(go(a, tight=True) for a in args)
        return f"({joined})" if tight and isinstance(e, sympy.Add) else joined

    return go(expr, tight=False)


_FOREIGN: dict[str, Callable[..., Expr]] = {
    "Add": sympy.Add,
    "Mul": sympy.Mul,
    "Pow": sympy.Pow,
    "FloorDiv": FloorDiv,
    "CleanDiv": FloorDiv,
    "IntTrueDiv": FloorDiv,
    "Mod": Modulo,
    "PythonMod": Modulo,
    "ModularIndexing": lambda x, d, m: Modulo(FloorDiv(x, d), m),
    "Min": Minimum,
    "Max": Maximum,
}


def from_foreign(expr: Any, special: Callable[[Any], Expr | None] = lambda _: None) -> Expr:
    """An expression of another sympy vocabulary (torch's) in ours.

    `special` is asked first at every node; its answer counts unless it is None.

    Raises:
        ValueError: A function in `expr` has no counterpart; the message names it.
    """
    if isinstance(expr, int):
        return sympy.Integer(expr)
    if expr.is_Integer:
        return sympy.Integer(int(expr))
    if expr.is_Symbol:
        return dim(str(expr))
    known = special(expr)
    if known is not None:
        return known
    build = _FOREIGN.get(type(expr).__name__)
    if build is None:
        raise ValueError(
            f"size expression {expr} uses {type(expr).__name__}, which has no integer form"
        )
    return build(*[from_foreign(a, special) for a in expr.args])
