"""Calls of custom operators: from flow to plan, and their JSON form (docs/format.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aot.ir import flow
from aot.ir.tensors import ValueRef, names_in
from aot.link.json_value import JsonValue, expr_to_json
from aot.link.plan import CallStep, Expr, OperatorArgument, TensorOperand
from aot.symbolic import as_expr, encode

KINDS = ("tensor", "int", "float", "bool", "string")
_NOT_FINITE = ("inf", "-inf", "nan")


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


def call_to_json(step: CallStep) -> Mapping[str, Any]:
    """The step as a plain dict, without its origin."""
    return {
        "call": step.operator,
        "arguments": [
            {
                "name": argument.name,
                "kind": argument.kind,
                "values": [_value_out(value) for value in argument.values],
                **({"changed": True} if argument.changed else {}),
            }
            for argument in step.arguments
        ],
        "results": [_value_out(result) for result in step.results],
    }


def _value_out(value: TensorOperand | Expr | float | bool | str) -> Any:
    if isinstance(value, TensorOperand):
        return {"buffer": value.buffer, "shape": [expr_to_json(e) for e in value.shape]}
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return expr_to_json(value)


def call_from_json(v: JsonValue, origin: int) -> CallStep:
    """The step in a JSON value.

    Raises:
        CorruptPackage: A key is missing, or a value has the wrong type.
    """
    return CallStep(
        v["call"].text(),
        v["arguments"].each(_argument_in),
        v["results"].each(_tensor_in),
        origin,
    )


def _argument_in(v: JsonValue) -> OperatorArgument:
    lists = tuple(f"{kind}[]" for kind in KINDS)
    kind = v["kind"].one_of("none", *KINDS, *lists)
    read = _READERS.get(kind.removesuffix("[]"), JsonValue.text)
    changed = v.has("changed") and v["changed"].boolean()
    return OperatorArgument(v["name"].text(), kind, v["values"].each(read), changed)


def _tensor_in(v: JsonValue) -> TensorOperand:
    return TensorOperand(v["buffer"].integer(), v["shape"].each(JsonValue.expr))


def _float_in(v: JsonValue) -> float:
    return float(v.one_of(*_NOT_FINITE)) if isinstance(v.value, str) else v.number()


_READERS: Mapping[str, Callable[[JsonValue], Any]] = {
    "tensor": _tensor_in,
    "int": JsonValue.expr,
    "float": _float_in,
    "bool": JsonValue.boolean,
}
