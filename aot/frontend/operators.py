"""Custom operators of an exported program: calls of code that the runtime is given by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import torch

from aot.errors import MissingOperator
from aot.frontend.context import Context, NodeCall
from aot.ir.dtypes import DType
from aot.ir.origin import Origin
from aot.ir.tensors import OperatorCall, ValueRef
from aot.lowering.families import rows
from aot.symbolic import is_int, row_major_strides

_OURS = ("aten", "prims", "aot")
"""Namespaces whose operators we lower: a missing one is our gap, not the user's code."""

_AUTO_FUNCTIONALIZED = "auto_functionalized_v2"
_VIEW_KEYS = ("size", "stride", "storage_offset", "slice_dim", "slice_start", "slice_end")
"""What torch says of an argument that is a view of what is changed."""


def operator_name(node: torch.fx.Node) -> str | None:
    """The name of the operator that a node calls: "ns::name", "ns::name.overload"; None: of none.

    For an operator that changes its arguments, which torch wraps, that of the operator itself.
    """
    target: Any = node.target
    if str(target) == _AUTO_FUNCTIONALIZED:
        target = node.args[0]
    return str(target._name) if isinstance(target, torch._ops.OpOverload) else None


def is_given(name: str, operators: Sequence[str]) -> bool:
    """Whether a name is among those of `--operator`, which may hold wildcards."""
    return any(fnmatchcase(name, pattern) for pattern in operators)


def is_custom(name: str) -> bool:
    """Whether a name is neither of torch's own operators nor of a library's with a lowering."""
    space, _, rest = name.partition("::")
    overload = rest if "." in rest else f"{rest}.default"
    return space not in _OURS and f"{space}.{overload}" not in rows()


def without_code(name: str, origin: Origin) -> MissingOperator:
    """A call of a custom operator that nobody has said to give."""
    return MissingOperator(
        name,
        (origin,),
        "a custom operator, whose code is not in the model",
        f"Package with --operator {name} where the program that loads the package registers it, or "
        "with --operator-library and the shared library that holds it: docs/custom-operators.md.",
    )


def read_operator(context: Context, call: NodeCall) -> tuple[OperatorCall, tuple[Any, ...]]:
    """The call with all arguments of its schema, and the value of each of the node's results.

    Raises:
        ValueError: A package cannot hold the call; the message says why.
    """
    target: Any = call.node.target
    changes = not isinstance(target, torch._ops.OpOverload)
    if changes:
        target = call.node.args[0]
    if call.node.meta.get("unbacked_bindings"):
        raise ValueError("the sizes of its results depend on the values in its arguments")
    made = call.value if isinstance(call.value, (tuple, list)) else (call.value,)
    changed = _copies(context, call) if changes else ()
    # What torch adds for an operator that changes arguments: their new values, behind its results.
    own = [value for value in made[: len(made) - len(changed)] if value is not None]
    results = []
    for position, result in enumerate(own):
        type_ = context.type_of(result)
        results.append(call.name if len(own) == 1 else f"{call.name}.{position}")
        dense = replace(type_, strides=row_major_strides(type_.shape))
        context.ops.declare(results[-1], dense)
    places = _places(call.node, target._schema, [name for name, _ in changed]) if changes else {}
    arguments = tuple(
        (parameter.name, *places[parameter.name])
        if parameter.name in places
        else _argument(context, parameter, _given(call.node, position, parameter, changes))
        for position, parameter in enumerate(target._schema.arguments)
    )
    op = OperatorCall(target._name, arguments, tuple(results), call.origin, changed)
    absent = (None,) * (len(made) - len(changed) - len(own))
    refs = (*map(ValueRef, results), *absent, *(ValueRef(name) for name, _ in changed))
    return op, refs


def _copies(context: Context, call: NodeCall) -> tuple[tuple[str, str], ...]:
    """A name for the copy of each tensor that the operator changes, and the tensor."""
    copies = []
    for position, base in enumerate(context.argument(call.node.kwargs["_all_bases"])):
        name = f"{call.name}.changed{position}"
        type_ = context.ops.types[base.name]
        context.ops.declare(name, replace(type_, strides=row_major_strides(type_.shape)))
        copies.append((name, base.name))
    return tuple(copies)


def _places(
    node: torch.fx.Node, schema: torch.FunctionSchema, copies: Sequence[str]
) -> dict[str, tuple[str, Any]]:
    """Kind and value of each argument that the operator changes: the copies that torch names.

    Raises:
        ValueError: It changes a part of a tensor, or a list with None in it.
    """

    def copy(prefix: str) -> ValueRef | None:
        if any(f"_{prefix}_{key}" in node.kwargs for key in _VIEW_KEYS):
            raise ValueError(
                f"it changes a part of a tensor, its argument {prefix}; clone it first"
            )
        index = node.kwargs[f"_{prefix}_base_index"]
        return ValueRef(copies[index]) if isinstance(index, int) else None

    places: dict[str, tuple[str, Any]] = {}
    for parameter in schema.arguments:
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        length = node.kwargs.get(f"_{parameter.name}_length")
        if isinstance(length, int):
            items = tuple(copy(f"{parameter.name}_{k}") for k in range(length))
            if None in items:
                raise ValueError(f"its argument {parameter.name} is a list with None in it")
            places[parameter.name] = "tensor[]", items
        else:
            one = copy(parameter.name)
            places[parameter.name] = ("none", None) if one is None else ("tensor", one)
    return places


def _given(node: torch.fx.Node, position: int, parameter: torch.Argument, by_name: bool) -> Any:
    if position < len(node.args) and not parameter.kwarg_only and not by_name:
        return node.args[position]
    if parameter.name in node.kwargs:
        return node.kwargs[parameter.name]
    default = parameter.default_value
    return _DTYPES.get(default) if "ScalarType" in str(parameter.real_type) else default


_DTYPES: Mapping[Any, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}
"""The numbers by which schemas give element types as defaults."""


def _argument(context: Context, parameter: torch.Argument, given: Any) -> tuple[str, str, Any]:
    value = context.argument(given)
    if value is None:
        return parameter.name, "none", None
    declared = str(parameter.type).replace("Optional[", "").rstrip("]")
    try:
        if not isinstance(value, tuple):
            kind, plain = _scalar(declared, value)
            return parameter.name, kind, plain
        element = declared.removeprefix("List[")
        pairs = [_scalar(element, item) for item in value]
    except ValueError as error:
        raise ValueError(f"its argument {parameter.name} {error}") from error
    kinds = dict.fromkeys(kind for kind, _ in pairs) or {_KINDS.get(element, "string"): None}
    if len(kinds) > 1:
        raise ValueError(f"its argument {parameter.name} mixes {' and '.join(kinds)} in a list")
    return parameter.name, f"{next(iter(kinds))}[]", tuple(plain for _, plain in pairs)


_KINDS: Mapping[str, str] = {
    "Tensor": "tensor",
    "int": "int",
    "float": "float",
    "number": "float",
    "bool": "bool",
}
"""Of empty lists, by the schema's type; all else becomes strings."""


def _scalar(declared: str, value: Any) -> tuple[str, Any]:
    """The kind and the value of one element.

    Raises:
        ValueError: No operator can be given it; the message is the end of a sentence.
    """
    if isinstance(value, ValueRef):
        if declared != "Tensor":
            raise ValueError("is a number that tensors or sizes determine; make it a tensor")
        return "tensor", value
    if value is None:
        raise ValueError("is a list with None in it")
    if isinstance(value, tuple):
        raise ValueError("is a list of lists")
    if hasattr(value, "free_symbols") and not is_int(value):
        if declared == "float":
            raise ValueError("is a float that is a size; make it an int or a tensor")
        return "int", value
    if isinstance(value, DType):
        return "string", value.name
    if isinstance(value, str):
        return "string", value
    if declared == "float" or (declared != "bool" and isinstance(value, float)):
        return "float", float(value)
    if isinstance(value, bool):
        return "bool", value
    return "int", int(value)
