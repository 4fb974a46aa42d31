"""What models compute in eager, in their own dtype and in float64."""

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
