"""What the user asked of each input size: names for messages (`batch` instead of `s0`), ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from aot.frontend.structures import parts_of

InputAxis = tuple[int, int]
"""(tensor input's position, axis)."""


def wanted_sizes(
    example: tuple[Sequence[Any], Mapping[str, Any]], names: Sequence[str], shapes: Any
) -> dict[InputAxis, Any]:
    """What `dynamic_shapes` says of each axis that it names: a Dim, a hint, a number, None.

    Args:
        example: Positional and keyword inputs.
        names: Of forward's parameters, in the order of the inputs.
        shapes: As torch.export takes it.
    """
    args, kwargs = example
    named = dict(zip(names, args, strict=False))
    named.update(kwargs)
    specs: dict[str, Any] = {}
    if isinstance(shapes, Mapping):
        specs = {str(k): v for k, v in shapes.items()}
    elif isinstance(shapes, (tuple, list)):
        whole = named if len(shapes) >= len(named) else dict.fromkeys(map(_catch_all, named))
        specs = dict(zip(whole, shapes, strict=False))
    wanted: dict[InputAxis, Any] = {}
    position = 0
    for name, value in named.items():
        position = _walk(value, _spec_of(name, value, specs), position, wanted)
    return wanted


def label_of(wanted: Any) -> str:
    """The name that the user gave a size; "" for none."""
    if isinstance(wanted, str):
        return wanted
    name = getattr(wanted, "__name__", "")
    return name if isinstance(name, str) else ""


def _catch_all(name: str) -> str:
    """The catch-all parameter of an input; the name itself where it has none."""
    base, _, number = name.rpartition("_")
    return base if base and number.isdigit() else name


def _spec_of(name: str, value: Any, specs: Mapping[str, Any]) -> Any:
    """The parameter's part; `args_1` is the second of the catch-all parameter `args`."""
    base, number = _catch_all(name), name.rpartition("_")[2]
    group = specs.get(name, specs.get(base))
    if base == name or not isinstance(group, (tuple, list)):
        return specs.get(name)
    of_inputs = any(isinstance(item, Mapping) for item in group)
    if name in specs and not (of_inputs and isinstance(value, (torch.Tensor, Mapping))):
        return group
    return group[int(number)] if int(number) < len(group) else None


def _walk(value: Any, spec: Any, position: int, wanted: dict[InputAxis, Any]) -> int:
    """What is said below one argument; the position of the next tensor input."""
    if isinstance(value, torch.Tensor):
        items = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        wanted.update({(position, int(axis)): size for axis, size in items})
        return position + 1
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        steps = list(value.items())
    elif isinstance(value, (tuple, list)):
        steps = list(enumerate(value))
    else:
        steps = list(enumerate(child for _, child in parts_of(value) or ()))
    for step, child in steps:
        has = isinstance(spec, Mapping) and step in spec
        has = has or (isinstance(spec, (tuple, list)) and step < len(spec))
        position = _walk(child, spec[step] if has else None, position, wanted)
    return position
