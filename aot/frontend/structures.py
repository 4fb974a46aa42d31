"""Containers and constants among a model's arguments and results, as torch.export looks at them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
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


def parts_of(value: Any) -> list[tuple[Any, Any]] | None:
    """What an object of a registered class holds, each with its name or its number.

    None for what is no such object: a tensor, a number, a list, a dict.
    """
    node = pytree.SUPPORTED_NODES.get(type(value))
    if node is None or type(value) in pytree.BUILTIN_TYPES:
        return None
    if node.flatten_with_keys_fn is None:
        return list(enumerate(node.flatten_fn(value)[0]))
    return [(_name_of(key), child) for key, child in node.flatten_with_keys_fn(value)[0]]


def _name_of(key: Any) -> Any:
    """A key of torch's: of an attribute, a mapping or a sequence."""
    return next(getattr(key, kind) for kind in ("name", "key", "idx") if hasattr(key, kind))


def shapes_by_part(signature: inspect.Signature, example: Any, shapes: Any) -> Any:
    """The dynamic shapes, with a list for each object of a class: torch takes no other form.

    Those of an object may be an object of the same class, a dict by name, or None, as those of any
    container may where nothing is dynamic in it. Those of inputs that `*args` alone collects, as
    the forward of a wrapper does, may be given one by one.

    Args:
        signature: Of forward.
        example: Positional and keyword inputs.
        shapes: As the user wrote them.
    """
    args, kwargs = example
    given = signature.bind(*args, **kwargs).arguments
    if isinstance(shapes, Mapping):
        return {k: _by_part(given[k], s) if k in given else s for k, s in shapes.items()}
    if isinstance(shapes, (tuple, list)) and _are_collected(signature, given):
        whole = len(shapes) == 1 and isinstance(shapes[0], (tuple, list))
        if len(shapes) == len(args) and not (whole and len(shapes[0]) == len(args)):
            shapes = (tuple(shapes),)
    if isinstance(shapes, (tuple, list)) and len(shapes) == len(given):
        return type(shapes)(map(_by_part, given.values(), shapes))
    return shapes


def _are_collected(signature: inspect.Signature, given: Mapping[str, Any]) -> bool:
    """Whether all inputs are those of one catch-all parameter."""
    kinds = [signature.parameters[name].kind for name in given]
    return kinds == [inspect.Parameter.VAR_POSITIONAL]


def _by_part(value: Any, shapes: Any) -> Any:
    if shapes is None:
        return _nothing(value)
    parts = parts_of(value)
    if parts is not None:
        if isinstance(shapes, (tuple, list)):
            own: list[Any] = [*shapes]
        else:
            own = [_part_of(shapes, name) for name, _ in parts]
        if len(own) != len(parts):
            return shapes
        return [_by_part(child, s) for (_, child), s in zip(parts, own, strict=True)]
    if type(value) is dict and type(shapes) is dict:
        return {k: _by_part(value.get(k), s) for k, s in shapes.items()}
    both = isinstance(value, (tuple, list)) and type(shapes) in (tuple, list)
    if both and len(shapes) == len(value):
        return type(shapes)(map(_by_part, value, shapes))
    return shapes


def _nothing(value: Any) -> Any:
    """None for each tensor, as torch nests it."""
    parts = parts_of(value)
    if parts is not None:
        return [_nothing(child) for _, child in parts]
    if type(value) is dict:
        return {k: _nothing(v) for k, v in value.items()}
    return type(value)(map(_nothing, value)) if type(value) in (tuple, list) else None


def _part_of(shapes: Any, name: Any) -> Any:
    return shapes.get(name) if isinstance(shapes, Mapping) else getattr(shapes, str(name), None)


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
