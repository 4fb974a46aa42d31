"""Values of the plan's expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

from aot_runtime.format.errors import CorruptPackage
from aot_runtime.format.plan import Expr

_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "min": min,
    "max": max,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """The number that the expression is.

    Args:
        expr: The expression.
        values: Names of dims to their values.

    Raises:
        CorruptPackage: It names what is no dim or operator, or divides by zero.
    """
    if isinstance(expr, int):
        return expr
    try:
        if isinstance(expr, str):
            return values[expr]
        operate = _OPERATIONS[str(expr[0])]
        return reduce(operate, (evaluate(operand, values) for operand in expr[1:]))
    except (LookupError, TypeError, ZeroDivisionError) as error:
        raise CorruptPackage(f"{expr!r} is no expression of the plan's dims") from error
