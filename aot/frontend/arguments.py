"""Arguments of FX nodes as arguments of TensorOps, and calls that do nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from aot.errors import MissingOperator
from aot.frontend.sizes import SizeTranslator
from aot.frontend.weights import dtype_of
from aot.ir.origin import Origin
from aot.ir.tensors import TensorType, ValueRef

_SAME = ("alias", "detach", "detach_", "lift_fresh", "lift_fresh_copy", "clone", "contiguous")
ALIASES = frozenset(f"aten.{name}.default" for name in (*_SAME, "_to_copy"))
"""Operators whose result is their first argument, unless the type changes."""


def node_argument(argument: Any, values: Mapping[str, Any], sizes: SizeTranslator) -> Any:
    """An FX argument as a TensorOp's (`ir.tensors.Argument`).

    Raises:
        ValueError: It has no counterpart; the message says why.
    """
    if isinstance(argument, torch.fx.Node):
        value = values[argument.name]
        if isinstance(value, ValueError):
            raise value
        return value
    if isinstance(argument, (list, tuple)):
        return tuple(node_argument(a, values, sizes) for a in argument)
    if isinstance(argument, torch.dtype):
        dtype = dtype_of(argument)
        if dtype is None:
            raise ValueError(f"it uses the element type {argument}, which has no kernels")
        return dtype
    if isinstance(argument, torch.SymInt):
        return sizes.expr(argument)
    if argument is None or isinstance(argument, (bool, int, float, complex, str)):
        return argument
    if isinstance(argument, (torch.device, torch.layout, torch.memory_format)):
        return str(argument)
    raise ValueError(f"it has an argument of type {type(argument).__name__}")


def is_no_op(
    target: str, args: Sequence[Any], types: Mapping[str, TensorType], result: TensorType
) -> bool:
    """True when the call's result is its argument: same elements, type and layout."""
    source = args[0] if args else None
    if target not in ALIASES or not isinstance(source, ValueRef):
        return False
    return types.get(source.name) == result


def reject(operator: str, origin: Origin, reason: str) -> MissingOperator:
    """An operator call that cannot become a TensorOp."""
    return MissingOperator(operator, (origin,), reason)
