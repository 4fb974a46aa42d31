"""Containers and constants among a model's arguments and results, as torch.export looks at them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

CONSTANTS = (int, float, bool, str, type(None), enum.Enum)
"""What an argument may be beside a tensor: it is part of the package from then on."""


def named_leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """What a nested argument holds, each with how to name it: "cache['keys'][0]"."""
    for steps, leaf in pytree.tree_flatten_with_path(value)[0]:
        yield path + pytree.keystr(steps), leaf


def without_counterpart(
    names: Sequence[str], values: Sequence[Any]
) -> tuple[str, type[object]] | None:
    """The first argument that is neither a tensor nor a constant: how it is named, its type.

    Args:
        names: Of the arguments.
        values: The arguments, as many.
    """
    for name, value in zip(names, values, strict=False):
        for path, leaf in named_leaves(value, name):
            if not isinstance(leaf, (torch.Tensor, *CONSTANTS)):
                return path, type(leaf)
    return None


def register_dataclasses(value: Any) -> bool:
    """Lets torch look into the dataclasses of a nested value; gives whether one was new to it.

    A registration is for the process: torch has no other.
    """
    found = False
    while kinds := {type(leaf) for leaf in pytree.tree_leaves(value) if _is_dataclass(leaf)}:
        for kind in kinds:
            torch.export.register_dataclass(kind)
        found = True
    return found


def _is_dataclass(leaf: Any) -> bool:
    # Of a frozen or slotted one, too, torch sets the fields by the constructor.
    return dataclasses.is_dataclass(leaf) and not isinstance(leaf, (torch.Tensor, type))
