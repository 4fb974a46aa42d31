"""Example inputs and reference outputs as arrays, in the order of the graph's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.frontend.capture import Captured, eval_mode
from aot.frontend.weights import to_array

Array = np.ndarray


@dataclass(frozen=True)
class Example:
    """One set of inputs with what eager PyTorch computes for it."""

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]


def examples(captured: Captured) -> tuple[Example, ...]:
    """The example inputs and the extra inputs, each with eager's outputs."""
    args, kwargs = captured.example
    sets = ((args, kwargs), *((extra, kwargs) for extra in captured.extra_inputs))
    return tuple(_run(captured, a, k) for a, k in sets)


def _run(captured: Captured, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Example:
    inputs = flat_arrays((args, dict(kwargs)))
    with eval_mode(captured.module), torch.no_grad():
        result = captured.module(*args, **kwargs)
    return Example(inputs, flat_arrays(result))


def flat_arrays(nested: Any) -> tuple[Array, ...]:
    """The tensors in nested containers, in the order of the graph's inputs or outputs."""
    leaves, _ = pytree.tree_flatten(nested)
    return tuple(to_array(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
