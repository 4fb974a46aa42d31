"""The JSON form of calls of custom operators, as docs/format.md describes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from aot_runtime.format.json_value import JsonValue, expr_to_json
from aot_runtime.format.plan import CallStep, Expr, OperatorArgument, TensorOperand

KINDS = ("tensor", "int", "float", "bool", "string")
_NOT_FINITE = ("inf", "-inf", "nan")


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
