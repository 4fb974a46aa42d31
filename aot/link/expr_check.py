"""What is wrong with an expression of the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from aot_runtime.format.plan import EXPR_OPS, Expr


def expr_problems(what: str, expr: Expr, dims: Collection[str]) -> Iterator[str]:
    """What is wrong with an expression over the dims, as sentences that begin with `what`."""
    if isinstance(expr, bool):
        yield f"{what}: {expr!r} is no expression"
    elif isinstance(expr, int):
        if not -(2**63) <= expr < 2**63:
            yield f"{what}: {expr} does not fit 64 bits"
    elif isinstance(expr, str):
        if expr not in dims:
            yield f"{what}: {expr!r} is no dim"
    else:
        yield from _operation(what, expr, dims)


def _operation(what: str, expr: Sequence[Expr], dims: Collection[str]) -> Iterator[str]:
    op = expr[0] if expr else None
    if not isinstance(op, str) or op not in EXPR_OPS:
        yield f"{what}: {op!r} is no operator of expressions"
        return
    count = len(expr) - 1
    if count < 2 or (op in ("//", "%") and count != 2):
        yield f"{what}: {op!r} cannot have {count} operands"
    for operand in expr[1:]:
        yield from expr_problems(what, operand, dims)


def dims_of(expr: Expr) -> Iterator[str]:
    """Names of the dims in an expression."""
    if isinstance(expr, str):
        yield expr
    elif not isinstance(expr, int):
        for operand in expr[1:]:
            yield from dims_of(operand)
