"""Sizes 0 and 1, which torch.export takes no dynamic size for: what it traced, tried at them.

Many models ask whether a size is 1, and do then what they do else, as in `is_causal = n > 1`.
So where the user's code would be answered otherwise at such a size, the program runs there beside
the module, on a part of the example: where both give the same, the decision does not matter.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.errors import AotError
from aot.frontend.capture import Captured
from aot.frontend.golden import run_eager
from aot.frontend.labels import InputAxis
from aot.frontend.open_dims import enlarged


def runs_alike(captured: Captured, axes: Collection[InputAxis], size: int) -> bool:
    """Whether the program gives what the module gives, where these axes have that size.

    Both run on the first elements of the example, the first of them again where it has fewer. Where
    one of them fails, they do not.

    Args:
        captured: The model; its buffers keep their values.
        axes: All that stand for one dynamic size.
        size: What it shall be.
    """
    args, kwargs = _cut((captured.example[0], dict(captured.example[1])), axes, size)
    program = replace(captured, module=captured.program.module(check_guards=False))
    found = []
    for model in (captured, program):
        with torch.random.fork_rng(devices=[]):
            try:
                found.append(run_eager(model, args, kwargs).outputs)
            except AotError:
                return False
    return len(found[0]) == len(found[1]) and all(map(_alike, *found))


def _cut(example: Any, axes: Collection[InputAxis], size: int) -> Any:
    leaves, structure = pytree.tree_flatten(example)
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    for position, axis in axes:
        place = places[position]
        tensor = leaves[place]
        fewer = tensor.shape[axis] < size
        leaves[place] = (
            enlarged(tensor, axis, size) if fewer else tensor.narrow(axis, 0, size).clone()
        )
    return pytree.tree_unflatten(leaves, structure)


def _alike(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    # bfloat16 and the like are no floats to NumPy; both sides are eager's, in the same type.
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    return bool(np.allclose(a.astype(wide), b.astype(wide), 1e-2, 1e-5, equal_nan=True))
