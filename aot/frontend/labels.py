"""The user's names for dynamic sizes, for messages: `batch` instead of `s0`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from aot.frontend.capture import Captured


def dim_labels(captured: Captured) -> dict[tuple[int, int], str]:
    """(tensor input's position, axis) -> the name of the Dim that the user gave there."""
    args, kwargs = captured.example
    shapes = captured.dynamic_shapes
    named = dict(zip(captured.parameter_names, args, strict=False))
    named.update(kwargs)
    specs: dict[str, Any] = {}
    if isinstance(shapes, Mapping):
        specs = {str(k): v for k, v in shapes.items()}
    elif isinstance(shapes, (tuple, list)):
        specs = dict(zip(named, shapes, strict=False))
    labels: dict[tuple[int, int], str] = {}
    position = 0
    for name, value in named.items():
        position = _walk(value, _spec_of(name, specs), position, labels)
    return labels


def _spec_of(name: str, specs: Mapping[str, Any]) -> Any:
    """The parameter's part; `args_1` is the second of the catch-all parameter `args`."""
    base, _, number = name.rpartition("_")
    group = specs.get(base)
    if name not in specs and isinstance(group, (tuple, list)) and number.isdigit():
        return group[int(number)] if int(number) < len(group) else None
    return specs.get(name)


def _walk(value: Any, spec: Any, position: int, labels: dict[tuple[int, int], str]) -> int:
    """Labels below one argument; the position of the next tensor input."""
    if isinstance(value, torch.Tensor):
        items = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        for axis, wanted in items:
            if _label(wanted):
                labels[(position, int(axis))] = _label(wanted)
        return position + 1
    steps: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        steps = list(value.items())
    elif isinstance(value, (tuple, list)):
        steps = list(enumerate(value))
    for step, child in steps:
        has = isinstance(spec, Mapping) and step in spec
        has = has or (isinstance(spec, (tuple, list)) and step < len(spec))
        position = _walk(child, spec[step] if has else None, position, labels)
    return position


def _label(wanted: Any) -> str:
    if isinstance(wanted, str):
        return wanted
    name = getattr(wanted, "__name__", "")
    return name if isinstance(name, str) else ""
