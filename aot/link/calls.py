"""Calls of custom operators, from flow to plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from aot_runtime.format.plan import CallStep, Expr, OperatorArgument, TensorOperand

from aot.ir import flow
from aot.ir.tensors import ValueRef, names_in
from aot.symbolic import as_expr, encode


def call_step(
    call: flow.CustomCall, operand: Callable[[str], TensorOperand], origin: int
) -> CallStep:
    """The step of a call. `operand`: a buffer by its name."""
    changed = frozenset(call.changed)

    def values(kind: str, value: Any) -> Iterator[TensorOperand | Expr | float | bool | str]:
        items = value if isinstance(value, tuple) else () if value is None else (value,)
        for item in items:
            if isinstance(item, ValueRef):
                yield operand(item.name)
            else:
                yield encode(as_expr(item)) if kind.startswith("int") else item

    arguments = tuple(
        OperatorArgument(
            name, kind, tuple(values(kind, value)), not changed.isdisjoint(names_in(value))
        )
        for name, kind, value in call.arguments
    )
    return CallStep(call.name, arguments, tuple(operand(r) for r in call.results), origin)


def operands_of(step: CallStep) -> tuple[TensorOperand, ...]:
    """The tensors that a call reads, in the order of its arguments."""
    values = (value for argument in step.arguments for value in argument.values)
    return tuple(value for value in values if isinstance(value, TensorOperand))


def exprs_of(step: CallStep) -> tuple[Expr, ...]:
    """Every expression in a call: shapes and integers."""
    shapes = [e for operand in (*operands_of(step), *step.results) for e in operand.shape]
    integers = [
        value
        for argument in step.arguments
        if argument.kind in ("int", "int[]")
        for value in argument.values
        if not isinstance(value, TensorOperand | float)
    ]
    return (*shapes, *integers)


def call_problems(step: CallStep) -> Iterator[str]:
    """What is wrong with a call apart from its buffers and expressions, as ends of sentences."""
    if not step.operator:
        yield "calls an operator without a name"
    for argument in step.arguments:
        if not argument.kind.endswith("[]") and len(argument.values) != (argument.kind != "none"):
            yield f"has {len(argument.values)} values for its argument {argument.name}"
        if argument.changed and not argument.kind.startswith("tensor"):
            yield f"changes its argument {argument.name}, which is no tensor"
    written = [result.buffer for result in step.results]
    if len(set(written)) != len(written):
        yield "writes two results to one buffer"
    if set(written).intersection(operand.buffer for operand in operands_of(step)):
        yield "writes a result to a buffer that it reads"
