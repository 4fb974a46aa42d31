"""Does a package compute what the model means? The rule and the means to apply it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.frontend.source import ModelSource, read_model_file

Array = np.ndarray[Any, Any]

FACTOR = 3.0
"""Our error may be this many times eager's own error in the model's dtype."""

FLOOR = {"float64": 2.0**-50, "float32": 2.0**-21, "float16": 2.0**-9, "bfloat16": 2.0**-6}
"""An error below this part of the output's magnitude is never too much: a few roundings."""


@dataclass(frozen=True)
class Reference:
    """One input set: inputs as arrays, eager's outputs in its own dtype and in float64."""

    inputs: tuple[Array, ...]
    eager: tuple[Array, ...]
    exact: tuple[Array, ...]


def references(path: Path) -> tuple[Reference, ...]:
    """The example inputs and extra inputs of a model file, with what eager computes for them."""
    source = read_model_file(path)
    precise = copy.deepcopy(source.module).double().eval()
    sets = (source.args, *source.extra_inputs)
    return tuple(_reference(source, precise, inputs) for inputs in sets)


def _reference(source: ModelSource, precise: torch.nn.Module, inputs: Sequence[Any]) -> Reference:
    widened = pytree.tree_map_only(torch.Tensor, widen, tuple(inputs))
    with torch.no_grad():
        eager = source.module.eval()(*inputs)
        with default_double():
            exact = precise(*widened)
    return Reference(arrays_of(inputs), arrays_of(eager), arrays_of(exact))


@contextlib.contextmanager
def default_double() -> Iterator[None]:
    # Constants that a model makes as it runs (masks, tables) shall be precise too.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def arrays_of(nested: Any) -> tuple[Array, ...]:
    leaves = pytree.tree_leaves(nested)
    return tuple(leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor))


def complaint(ours: Array, eager: Array, exact: Array) -> str:
    """What is wrong with an output, "" when nothing is.

    Integers and bools must equal eager's. The error of floats is the greatest distance to float64;
    NaN and infinities must be where eager has them.
    """
    if ours.shape != eager.shape or ours.dtype != eager.dtype:
        return f"{ours.dtype}{list(ours.shape)} instead of {eager.dtype}{list(eager.shape)}"
    if eager.dtype.kind not in "fV":
        different = int((ours != eager).sum())
        return f"{different} of {eager.size} elements differ" if different else ""
    special = ~np.isfinite(eager)
    if not np.array_equal(ours[special], eager[special], equal_nan=True):
        return "NaN or infinity in other places than eager"
    if not (~special).any():
        return ""
    values = [a[~special].astype(np.float64) for a in (ours, eager, exact)]
    error, own = (float(np.abs(values[k] - values[2]).max()) for k in (0, 1))
    scale = float(np.abs(values[2]).max())
    allowed = max(FACTOR * own, FLOOR[eager.dtype.name] * scale)
    return (
        "" if error <= allowed else f"error {error:.3g}, eager's is {own:.3g} (scale {scale:.3g})"
    )
