"""The user's own module as a call without arguments, for comparing times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.errors import InputMismatch
from aot.frontend.capture import Captured
from aot.frontend.derivatives import differentiating


def eager_call(
    captured: Captured, inputs: Sequence[np.ndarray[Any, Any]], threads: int
) -> Callable[[], object]:
    """A function that runs the module once on these inputs, for inference.

    Args:
        captured: The model.
        inputs: One array for each tensor of the example, in its order.
        threads: Threads that torch may use from now on.

    Raises:
        InputMismatch: Another number of inputs than the example has tensors.
    """
    args, kwargs = arguments_of(captured, inputs)
    module = captured.module.eval()
    torch.set_num_threads(threads)

    def call() -> object:
        with torch.inference_mode():
            return module(*args, **kwargs)

    def differentiated() -> object:
        with torch.no_grad(), differentiating(module):
            return module(*args, **kwargs)

    return differentiated if captured.derivatives else call


def arguments_of(
    captured: Captured, inputs: Sequence[np.ndarray[Any, Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example's positional and keyword arguments with these arrays in place of its tensors.

    Raises:
        InputMismatch: Another number of inputs than the example has tensors.
    """
    leaves, structure = pytree.tree_flatten((captured.example[0], dict(captured.example[1])))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if len(places) != len(inputs):
        raise InputMismatch(
            f"the model's example has {len(places)} tensors, the package {len(inputs)} inputs",
            advice="Compare a package with the model file that it was made from.",
        )
    for place, array in zip(places, inputs, strict=True):
        leaves[place] = to_tensor(array)
    args, kwargs = pytree.tree_unflatten(leaves, structure)
    return args, kwargs


def to_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """The array as a tensor, sharing its memory."""
    name = array.dtype.name
    if not hasattr(ml_dtypes, name):
        return torch.from_numpy(array)
    bits = {1: np.uint8, 2: np.int16, 4: np.int32}[array.itemsize]
    tensor: torch.Tensor = torch.from_numpy(array.view(bits)).view(getattr(torch, name))
    return tensor
