"""What torch.export traced, tried at sizes at which the user's code would be answered otherwise.

Sizes 0 and 1 are such, which torch takes no dynamic size for: many models ask whether a size is 1,
and do then what they do else, as in `is_causal = n > 1`. Remainders are others: `if n % 4` is asked
before a sequence is filled up, and a whole block of padding more changes nothing. There the program
runs beside the module, on a part of the example: where both give the same, the decision does not
matter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from aot.errors import AotError
from aot.frontend.asked_ranges import is_met
from aot.frontend.capture import Captured
from aot.frontend.golden import run_eager
from aot.frontend.labels import InputAxis
from aot.frontend.open_dims import TRACED, enlarged
from aot.frontend.sizes import holds
from aot.ir.tensors import SizeRelation
from aot.symbolic import Expr, Modulo, Ranges, Symbol, is_int

_TURNS = 2
"""Sizes of one remainder that are tried."""

_MOST_TRIED = 8
"""Sizes above what torch skips that are tried of one decision."""

_LONGEST = 64
"""The greatest divisor of which remainders are tried."""


def sizes_to_try(
    relations: Sequence[SizeRelation],
    symbol: Symbol,
    traced: Ranges,
    bounds: tuple[int, int | None],
) -> list[int] | None:
    """The sizes that tell whether a decision matters: those at which it goes otherwise.

    None where too many do. Of remainders, whose sizes have no end, the least few are tried.

    Args:
        relations: What the decision was, on one size.
        symbol: That size.
        traced: The sizes that torch takes for possible.
        bounds: The least and the greatest size there is.
    """

    def is_broken(size: int) -> bool:
        return not all(is_met(r, {symbol: size}) for r in relations)

    small = [size for size in range(bounds[0], TRACED) if is_broken(size)]
    if all(holds(r, traced) for r in relations):
        return small
    period = lcm(*(_period(side, symbol) for r in relations for side in (r.left, r.right)))
    if not 0 < period <= _LONGEST:
        return None
    first = max(bounds[0], TRACED)
    end = first + _TURNS * period
    last = end if bounds[1] is None else min(end, bounds[1] + 1)
    found = [size for size in range(first, last) if is_broken(size)]
    return small + found if len(found) <= _MOST_TRIED else None


def _period(side: Expr, symbol: Symbol) -> int:
    """After how many sizes an expression has its values again; 0 where it has not."""
    if symbol not in side.free_symbols:
        return 1
    if isinstance(side, Modulo) and is_int(side.args[0] - symbol) and is_int(side.args[1]):
        return int(side.args[1])
    return lcm(*(_period(part, symbol) for part in side.args)) if side.args else 0


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
