"""What becomes of a routine's records: function objects of whole ones, and of each part of them.

A part that goes somewhere as it is, by rows or by columns, is put there by aot/linalg/place.h,
which turns it in registers; others run their nests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.operands import template_type
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TileSpace,
    cut_of,
    emit_epilogue,
    epilogue_nests,
    in_cut,
    on_part,
    tile_context,
    tile_space,
)
from aot.backends.cpp.values import Body, pointer_type
from aot.ir.dtypes import DType
from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.nests import LoopNest
from aot.ir.scalar import load
from aot.ir.templates.library import LibraryCall
from aot.symbolic import Expr, affine_coefficients, integer, is_int, product, substitute, var

_EPILOGUE = (
    "const auto {name} = [=](int64_t m0, int64_t m1, int64_t n0, int64_t n1, "
    "const {element}* tile, int64_t ld)"
)
_IN_LANES = "const auto in_lanes = [=](int64_t m0, const {element}* records)"
_PART, _ROWS, _COLUMNS = var("place_part"), var("place_row"), var("place_column")


def emit_record_epilogues(
    body: Body, kernel: TemplateKernel, call: LibraryCall, space: TileSpace, dtype: DType
) -> tuple[str, ...]:
    """Writes them; the names of those that `routine` in aot/linalg/routine.h is given."""
    axes = kernel.template.output.axes
    whole = tuple(stage for stage in kernel.stages if stage.inner == axes)
    parts = [stage for stage in kernel.stages if stage.inner != axes]
    nests = epilogue_nests(replace(kernel, stages=whole), space, body.context)
    if not parts:
        emit_epilogue(body, nests, space, dtype, _EPILOGUE)
        return ("epilogue",)
    calls = []
    if nests:
        calls.append("whole(m0, m1, n0, n1, tile, ld);")
        emit_epilogue(body, nests, space, dtype, _EPILOGUE.replace("{name}", "whole"))
    places = []
    for k, stage in enumerate(parts):
        name = f"part_{k}"
        place = _place_of(call, stage, body.context, dtype)
        if place is not None:
            body.writer.line(f"const {place[0]} {name}{{{place[1]}}};")
            places.append(name)
            calls.append(f"{name}.put(m0, m1, tile, ld);")
            continue
        count = _emit_part(body, kernel, stage, dtype, name)
        calls.append(f"{name}(m0, m1, 0, {index_text(count, body.context.names)}, tile, ld);")
    element = pointer_type(dtype)
    with body.scope(_EPILOGUE.format(name="epilogue", element=element), "};"):
        for text in calls:
            body.writer.line(text)
    if len(places) < len(calls):
        return ("epilogue",)
    with body.scope(_IN_LANES.format(element=element), "};"):
        for name in places:
            body.writer.line(f"{name}.put_lanes(m0, records);")
    return "epilogue", "in_lanes"


def _place_of(
    call: LibraryCall, stage: Stage, context: KernelContext, dtype: DType
) -> tuple[str, str] | None:
    """The C++ type and the fields of the place where a stage puts a part as it is; else None."""
    if len(stage.nests) != 1 or len(stage.nests[0].stores) != 1:
        return None
    (nest,) = stage.nests
    (store,) = nest.stores
    rows, flat = stage.inner
    own = context.buffers[store.buffer].dtype
    if store.conflicts or store.base or store.binds or own != dtype:
        return None
    for first, count, shape in _matrices(call):
        value = load(call.output.buffer, dtype, (rows.symbol, first + flat.symbol))
        if store.value != value or flat.extent != count * product(shape):
            continue
        strides = _strides(nest, context, count, shape)
        if strides is None:
            return None
        batch, part, row, column, start = strides
        if (count == 2 and part != 1) or count not in (row, column):
            return None
        pointer = f"{context.pointers[store.buffer]} + ({index_text(start, context.names)})"
        sizes = (batch, row, column, first, *shape)
        fields = ", ".join((pointer, *(index_text(x, context.names) for x in sizes)))
        return f"aot::linalg::Place<{template_type(dtype)}, {count}>", fields
    return None


def _matrices(call: LibraryCall) -> Sequence[tuple[Expr, int, tuple[Expr, ...]]]:
    """Matrices of a record: where each begins, how many parts its numbers have, and its shape."""
    before, found = integer(0), []
    for name, shape in call.routine.parts(call.sizes).items():
        if len(shape) == 2 and all(is_int(size) for size in shape):
            if name.endswith(".re"):
                found.append((before, 2, shape))
            elif not name.endswith(".im"):
                found.append((before, 1, shape))
        before = (before + product(shape)).expand()
    return found


def _strides(
    nest: LoopNest, context: KernelContext, count: int, shape: tuple[Expr, ...]
) -> tuple[Expr, ...] | None:
    """Of a batch, parts, rows and columns where a part is stored, and where it begins."""
    (store,), (rows, flat) = nest.stores, nest.axes
    part, row, column = _PART, _ROWS, _COLUMNS
    extents = {rows.symbol: rows.extent, part: integer(count), row: shape[0], column: shape[1]}
    ranges = context.ranges.with_extents(extents)
    at = (part * shape[0] + row) * shape[1] + column
    offset = context.offset(store.buffer, store.index)
    simple = ranges.simplify(substitute(offset, {flat.symbol: at}))
    found = affine_coefficients(simple, (rows.symbol, part, row, column))
    return None if found is None else (*found[0], found[1])


def _emit_part(body: Body, kernel: TemplateKernel, stage: Stage, dtype: DType, name: str) -> Expr:
    """The function object of a stage that reads a part of each record; how many columns it has."""
    rows, columns = stage.inner
    own, places = kernel.template.output.buffer, {rows.symbol: ROW, columns.symbol: COLUMN}
    space = tile_space(rows.extent, columns.extent, places, aligned=False)
    context = tile_context(body.context, space, dtype)
    nests = [on_part(nest, own, space, context) for nest in stage.nests]
    cut = cut_of(nests, space)
    if cut is not None and is_int(columns.extent) and int(columns.extent) % cut.size == 0:
        space = replace(space, cut=cut)
        context = tile_context(body.context, space, dtype)
        nests = [in_cut(nest, space, context) for nest in nests]
    inside = Body(context, body.writer)
    head = _EPILOGUE.replace("{name}", name)
    emit_epilogue(inside, nests, space, dtype, head, all_columns=True)
    return columns.extent
