"""Views by strides, which look at the memory that a tensor is a view of, not at the tensor."""

from __future__ import annotations

from typing import Any

import torch

STRIDED = frozenset({"aten.as_strided.default", "aten.as_strided_copy.default"})
"""Operators that read a tensor's memory: (tensor, sizes, strides, offset)."""

_OFFSET = "storage_offset"


def of_memory(node: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operator of `STRIDED`, of the tensor whose own memory it reads.

    `x[1:].as_strided(…, 0)` begins where x does, and `x[:, :2].as_strided(…)` reads x's other
    columns. The offset counts from where the memory begins; left out, it is the argument's.
    """
    given, size, stride, *offset = node.args
    named = dict(node.kwargs)
    base = given
    while isinstance(base, torch.fx.Node) and _is_view(base):
        base = base.args[0]
    if base is given or not isinstance(base, torch.fx.Node) or not _begins_memory(base):
        return node.args, named
    start = named.pop(_OFFSET, offset[0] if offset else None)
    return (base, size, stride, _offset_of(given) if start is None else start), named


def _offset_of(node: Any) -> Any:
    return node.meta["val"].storage_offset()


def _begins_memory(node: torch.fx.Node) -> bool:
    offset = _offset_of(node)
    return isinstance(offset, int) and offset == 0


def _is_view(node: torch.fx.Node) -> bool:
    """Whether the result is the first argument's memory, read as the same type."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or len(schema.returns) != 1 or not schema.arguments or not node.args:
        return False
    given, result = schema.arguments[0].alias_info, schema.returns[0].alias_info
    if given is None or result is None or given.is_write:
        return False
    of, made = (getattr(n, "meta", {}).get("val") for n in (node.args[0], node))
    if not isinstance(of, torch.Tensor) or not isinstance(made, torch.Tensor):
        return False
    return of.dtype == made.dtype
