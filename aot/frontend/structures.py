"""Containers and constants among a model's arguments and results, as torch.export looks at them."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

CONSTANTS = (int, float, bool, str, type(None), enum.Enum)
"""What an argument may be beside a tensor: it is part of the package from then on."""

SPELLED = (slice, complex, range, torch.dtype, torch.device, type(Ellipsis))
"""Constants that torch.export does not take, which are text in the package: what `str` gives."""


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
            if not isinstance(leaf, (torch.Tensor, *CONSTANTS, *SPELLED)):
                return path, type(leaf)
    return None


@contextmanager
def spelled_out(module: torch.nn.Module, example: Any) -> Iterator[Any]:
    """The example with text for constants that torch.export does not take.

    Until the end the module's forward is given the constants themselves, and such constants among
    its results are text, numbers that are complex tensors without dimensions.

    Args:
        module: The model.
        example: Its positional and keyword arguments.
    """
    kept = {
        pytree.keystr(path): leaf
        for path, leaf in pytree.tree_flatten_with_path(example)[0]
        if isinstance(leaf, SPELLED)
    }
    if isinstance(module, torch.jit.ScriptModule):  # which torch.export refuses
        yield example
        return
    forward = module.forward

    @functools.wraps(forward)
    def given(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _replaced((args, kwargs), kept)
        result = forward(*args, **kwargs)
        odd = any(isinstance(leaf, (*SPELLED, enum.Enum)) for leaf in pytree.tree_leaves(result))
        return pytree.tree_map(_text_of_result, result) if odd else result

    had = "forward" in vars(module)
    module.forward = given
    try:
        yield _replaced(example, {path: str(leaf) for path, leaf in kept.items()})
    finally:
        if had:
            module.forward = forward
        else:
            del module.forward


def _replaced(example: Any, by_path: Mapping[str, Any]) -> Any:
    if not by_path:
        return example
    return pytree.tree_map_with_path(
        lambda path, leaf: by_path.get(pytree.keystr(path), leaf), example
    )


def _text_of_result(leaf: Any) -> Any:
    if isinstance(leaf, complex):
        return torch.tensor(leaf, dtype=torch.complex128)
    if isinstance(leaf, enum.Enum):
        return leaf.name
    return str(leaf) if isinstance(leaf, SPELLED) else leaf


def name_parts(value: Any) -> None:
    """Lets torch name what is in objects of classes that were registered without names.

    A registration is for the process, as with dataclasses.
    """
    for kind in _kinds(pytree.tree_flatten(value)[1]):
        node = pytree.SUPPORTED_NODES.get(kind)
        if node is not None and node.flatten_with_keys_fn is None:
            pytree.SUPPORTED_NODES[kind] = node._replace(
                flatten_with_keys_fn=functools.partial(_numbered, node.flatten_fn)
            )


def _kinds(spec: Any) -> set[Any]:
    own = {spec.type} if spec.type is not None else set()
    return own.union(*(_kinds(child) for child in spec.children()))


def _numbered(flatten: Any, value: Any) -> Any:
    children, context = flatten(value)
    return [(pytree.SequenceKey(k), child) for k, child in enumerate(children)], context


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
