"""Operands of template calls: their strides, and weights that are packed for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from aot.backends.cpp.packing import PANEL, RECIPES, pack_matmul_weight
from aot.backends.cpp.packing_nests import packing_nest
from aot.backends.cpp.text import Writer, index_text
from aot.errors import InternalError
from aot.ir.dtypes import DType
from aot.ir.interpreter_access import Array
from aot.ir.interpreter_templates import look
from aot.ir.kernels import TemplateKernel
from aot.ir.loops import reads
from aot.ir.nests import Axis, Buffer, DerivedWeight, View
from aot.ir.templates.base import TemplateCall
from aot.ir.weights import Recipe
from aot.symbolic import (
    Add,
    Expr,
    Ranges,
    Symbol,
    affine_coefficients,
    expand,
    integer,
    is_int,
    row_major_strides,
)

_TEMPLATE_TYPES = {"bfloat16": "aot::tmpl::Bf16", "float16": "aot::tmpl::F16"}
_C_TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint64": "uint64_t",
    "uint32": "uint32_t",
    "uint16": "uint16_t",
    "uint8": "uint8_t",
}


def template_type(dtype: DType) -> str:
    """The element type as the templates name it."""
    return _TEMPLATE_TYPES.get(dtype.name) or _C_TYPES[dtype.name]


@dataclass(frozen=True)
class Strided:
    """A view as strides: elements between neighbours along each axis, from element `offset`."""

    strides: tuple[Expr, ...]
    offset: Expr


def strides_of(view: View, buffers: Mapping[str, Buffer], r: Ranges) -> Strided | None:
    """The view's strides; None where it is no strided one.

    Raises:
        InternalError: The layout pass gave its buffer no strides.
    """
    buffer = buffers[view.buffer]
    if buffer.strides is None:
        raise InternalError(f"{buffer.name} reached the code generator without strides")
    ranges = r.with_extents({a.symbol: a.extent for a in view.axes})
    terms = [i * s for i, s in zip(view.index, buffer.strides, strict=True)]
    offset = ranges.simplify(expand(Add(*terms)))
    found = affine_coefficients(offset, [a.symbol for a in view.axes])
    return None if found is None else Strided(*found)


def strided(call: TemplateCall, view: View, buffers: Mapping[str, Buffer], r: Ranges) -> Strided:
    """The view's strides.

    Raises:
        InternalError: The view is not a strided one; the layout pass should have copied it.
    """
    found = strides_of(view, buffers, r)
    if found is None:
        raise InternalError(f"{call.name} reads {view.buffer} at {view.index}, without strides")
    return found


def not_private(kernel: TemplateKernel, view: View) -> str:
    """Why the kernel cannot read the weight in `view` in a form that is made beforehand.

    "" where it can: the sizes are known, and the kernel reads the weight through this view alone.
    """
    if not all(is_int(axis.extent) for axis in view.axes):
        return "its sizes are not known when the package is built"
    if [v.buffer for _, v in kernel.template.operands].count(view.buffer) != 1:
        return "it is two operands"
    if view.buffer in (b for s in kernel.stages for n in s.nests for b in reads(n)):
        return "the epilogue reads it too"
    return ""


def greatest(size: Expr, ranges: Ranges) -> int:
    """The greatest value of a dynamic size; a large number when it is unbounded."""
    found = ranges.greatest(size)
    return 1 << 30 if found is None else found


def fixed(size: Expr) -> int:
    """A size as templates have it among their constants: -1 where it is known when they run."""
    return int(size) if is_int(size) else -1


SHARED_TABLES = "  static constexpr bool SHARED = true;"
"""A template's configuration whose micro-kernels of all heights are those of `shared_tables`."""


def shared_tables(compute: DType, *, heights_known: bool) -> tuple[str, ...]:
    """What a kernel's `tables` are: none where a template compiles the heights that it cuts."""
    return () if heights_known else (template_type(compute),)


def outer_coordinates(
    writer: Writer, position: str, axes: Sequence[Axis], names: Mapping[Symbol, str]
) -> None:
    """Writes the coordinates of a row-major linear position as variables."""
    rest = position
    for axis in reversed(axes):
        name, extent = names[axis.symbol], index_text(axis.extent, names)
        if axis == axes[0]:
            writer.line(f"const int64_t {name} = {rest};")
            return
        writer.line(
            f"const int64_t {name} = {rest} % ({extent}), above_{name} = {rest} / ({extent});"
        )
        rest = f"above_{name}"


def pack_weight(
    buffer: Buffer,
    view: View,
    recipe: str,
    shape: Sequence[int],
    params: tuple[tuple[str, int], ...] = (),
) -> tuple[Buffer, DerivedWeight]:
    """A buffer for the packed form of a weight seen through `view`, and how to compute it.

    The name depends on the weight, the view and the recipe alone, so equal uses share it.
    """
    sizes = tuple(integer(n) for n in shape)
    seen = "_".join(str(a.extent) for a in view.axes)
    order = "".join(_position(view.axes, e) for e in view.index)
    name = f"{buffer.fqn or buffer.name}.{recipe}.{seen}.{order}"
    name += "".join(f".{value}" for _, value in params)
    packed = Buffer(name, buffer.dtype, sizes, row_major_strides(sizes), "weight", name)
    source = buffer.fqn or buffer.name
    nest = packing_nest(name, (buffer.name, buffer.dtype), view, recipe, shape, dict(params))
    return packed, DerivedWeight(name, recipe, (source,), (("view", view), *params), (nest,))


def _position(axes: Sequence[Axis], index: Expr) -> str:
    for k, axis in enumerate(axes):
        if index == axis.symbol:
            return str(k)
    return f"({index})".replace(" ", "")


def packing_recipes() -> dict[str, Recipe]:
    """The recipes of `pack_weight`; they take the source, and the view as `view`."""
    return {
        name: Recipe(partial(_pack_seen, pack), partial(_parts_seen, pack))
        for name, pack in RECIPES.items()
    }


def _pack_seen(pack: Callable[..., Array], source: Array, *, view: View, **params: Any) -> Array:
    """Packs what `view` shows of the source; a batch of matrices is packed one by one."""
    array = look(view, {view.buffer: source}, {})
    if pack is pack_matmul_weight and array.ndim > 2:
        flat = array.reshape(-1, *array.shape[-2:])
        return np.stack([pack(matrix, **params) for matrix in flat])
    return np.ascontiguousarray(pack(array, **params))


def _parts_seen(
    pack: Callable[..., Array], source: Array, *, view: View, **params: Any
) -> Iterator[Array]:
    """Panels of a matrix's columns; anything else is one part."""
    array = look(view, {view.buffer: source}, {})
    if pack is not pack_matmul_weight or array.ndim != 2:
        yield _pack_seen(pack, source, view=view, **params)
        return
    wide = max(1, _PART_BYTES // max(1, PANEL * array.shape[0] * array.itemsize)) * PANEL
    for first in range(0, array.shape[1], wide):
        yield pack(array[:, first : first + wide])


_PART_BYTES = 1 << 20
"""Of a packed matrix at a time: memory that is used again, and in the cache when it is hashed."""
