"""The template of concatenations of many parts, with a fused epilogue."""

from __future__ import annotations

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import strided
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.backends.cpp.values import pointer_type
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import View
from aot.ir.templates.concat import Concat
from aot.symbolic import Minimum, ceil_div, integer, product

_TILE_ROWS, _TILE_COLUMNS = 16, 512
"""kConcatRows and kConcatColumns in aot/tmpl/concat.h."""

_UNIT_BYTES = 1 << 16
"""Bytes to copy that are worth a thread."""


def emit_concat(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a concatenation."""
    call = template_call(kernel, Concat)
    row, column = call.output.axes
    dtype = graph.buffers[call.output.buffer].dtype
    axes = {row.symbol: ROW, column.symbol: COLUMN}
    space = tile_space(row.extent, column.extent, axes, aligned=False)
    context = tile_context(make_context(kernel, graph), space, dtype)
    body, sizes = open_template(kernel, graph, context)
    writer = body.writer
    emit_epilogue(body, epilogue_nests(kernel, space, context), space, dtype)
    element = pointer_type(dtype)
    with writer.block(f"const aot::tmpl::ConcatPart<{element}> parts[] =", "};"):
        for view in call.parts:
            writer.line(f"{_part(call, view, graph, context)},")
    m, n = (index_text(a.extent, context.names) for a in call.output.axes)
    count = len(call.parts)
    writer.line(f"const aot::tmpl::ConcatArgs<{element}, {count}> call{{parts, {m}, {n}}};")
    writer.line("aot::tmpl::concat(call, begin, end, args->scratch, epilogue);")
    tiles = (ceil_div(row.extent, _TILE_ROWS), ceil_div(column.extent, _TILE_COLUMNS))
    padded = product((ceil_div(column.extent, integer(16)), integer(16)))
    line = Minimum(padded, integer(_TILE_COLUMNS))
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        product(tiles),
        product((line, integer(_TILE_ROWS * dtype.itemsize))),
        headers=("aot/tmpl/concat.h",),
        grain=_grain(call, graph, dtype.itemsize),
    )


def _part(call: Concat, view: View, graph: KernelGraph, context: KernelContext) -> str:
    """An initializer: where a part begins, its strides, and how wide it is."""
    found = strided(call, view, graph.buffers, context.ranges)
    numbers = (*found.strides, view.axes[1].extent)
    texts = [index_text(number, context.names) for number in numbers]
    begin = index_text(found.offset, context.names)
    return f"{{{context.pointers[view.buffer]} + ({begin}), {', '.join(texts)}}}"


def _grain(call: Concat, graph: KernelGraph, itemsize: int) -> int:
    """Tiles that are worth a thread, at the sizes of the example."""
    hints = hints_of(graph.dims)
    rows, columns = (hints.value(axis.extent) for axis in call.output.axes)
    tile = min(rows, _TILE_ROWS) * min(columns, _TILE_COLUMNS) * itemsize
    return max(1, _UNIT_BYTES // max(tile, 1))
