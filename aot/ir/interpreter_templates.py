"""Template calls in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

import numpy as np

from aot.errors import InternalError
from aot.ir.interpreter_access import Array, Space
from aot.ir.nests import View
from aot.ir.templates.base import TemplateCall
from aot.symbolic import Symbol, dim, evaluate

SizeValues = Mapping[Symbol, int]


def _space(view: View, sizes: SizeValues) -> Space:
    box = tuple((0, int(evaluate(a.extent, sizes))) for a in view.axes)
    return Space(view.axes, box, sizes)


def look(view: View, arrays: Mapping[str, Array], sizes: SizeValues) -> Array:
    """The array that a view shows, in the buffer's own dtype."""
    space = _space(view, sizes)
    array = arrays[view.buffer]
    if 0 in space.shape:
        return np.zeros(space.shape, array.dtype)
    strided = space.strided(array, view.index, view.buffer)
    if strided is not None:
        return strided
    positions = [np.broadcast_to(space.value(e, {}), space.shape) for e in view.index]
    return np.asarray(array[tuple(positions)])


def run_template(
    call: TemplateCall, arrays: MutableMapping[str, Array], dims: Mapping[str, int]
) -> None:
    """Computes a template call in float64 (integers in int64) and stores its output.

    Raises:
        InternalError: The result does not have the output's shape.
    """
    sizes: dict[Symbol, int] = {dim(name): value for name, value in dims.items()}
    operands = {role: look(view, arrays, sizes) for role, view in call.operands}
    wide = {role: _widened(a) for role, a in operands.items()}
    space = _space(call.output, sizes)
    with np.errstate(all="ignore"):
        result = call.at_sizes(sizes).interpret(wide, space.shape)
    if result.shape != space.shape:
        raise InternalError(f"{call.name}: {result.shape} for an output of {space.shape}")
    if result.size == 0:
        return
    target = arrays[call.output.buffer]
    strided = space.strided(target, call.output.index, call.output.buffer)
    if strided is not None:
        with np.errstate(over="ignore"):  # what is too large is infinite
            strided[...] = result.astype(target.dtype)
        return
    positions = tuple(np.broadcast_to(space.value(e, {}), result.shape) for e in call.output.index)
    target[positions] = result.astype(target.dtype)


def _widened(a: Array) -> Array:
    if a.dtype == np.bool_:
        return a
    return a.astype(np.int64 if np.issubdtype(a.dtype, np.integer) else np.float64)
