"""Places of elements in the order of one digit, with a fused epilogue that moves them.

A program takes a part of a row. The functions are those of `device/digits.py`.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile, open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import EmittedKernel, line_grid
from aot.backends.triton.ops import conversion
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import INT32, INT64
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.scalar import binary, const, index_value, load
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.digits import DIGITS, DigitPlaces
from aot.symbolic import ceil_div, integer, product, substitute, var

_COLUMNS = 1024
"""Elements of a block."""

_THREAD_POINTS = 8
"""Elements of a thread: it holds four numbers of 64 bits for each."""

_PART, _DIGIT = var("part"), var("digit")


def emit_digits(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a digit's places and its epilogue."""
    call = template_call(kernel, DigitPlaces)
    context = make_context(kernel, graph, gpu)
    row, column = call.output.axes
    parts = ceil_div(column.extent, integer(call.part))
    known = {**context.ranges.extents, _PART: parts, _DIGIT: integer(DIGITS)}
    context = replace(context, ranges=context.ranges.with_extents(known))
    rows, columns = TileDim("m", (row,), 1, 0), TileDim("n", (column,), _COLUMNS, 1)

    def take(body: Body) -> None:
        body.take_dim(rows)
        body.take_dim(columns)

    hooks = Hooks(context)
    with hooks.function("digit", "m", "n") as body:
        take(body)
        builder = NestBuilder(dict(graph.buffers), {})
        value = body.value(call.digit(builder, row.symbol, column.symbol))
        body.writer.line(f"return {body.spread(value, frozenset(('m', 'n')))}")
    view = call.ends
    own, place = view.axes
    number = product((_DIGIT, parts)) + _PART
    mapping = {own.symbol: row.symbol, place.symbol: number - 1}
    index = tuple(substitute(e, mapping) for e in view.index)
    later = binary("gt", index_value(number), const(0, INT64))
    before = load(view.buffer, context.buffers[view.buffer].dtype, index, mask=later)
    with hooks.function("end", "m", "n", "value", "part") as body:
        take(body)
        open_batch(body, (Axis(_PART, parts),), "part")
        body.name_axis(_DIGIT, "value", "n")
        found = body.value(before)
        body.writer.line(f"return {body.spread(found, frozenset(('m', 'n')))}")
    with hooks.function("finish", "m", "n", "place") as body:
        take(body)
        held = context.buffers[call.output.buffer].dtype
        finish_tile(body, kernel, conversion("place", INT32, held), frozenset(("m", "n")))
    where = places(context, parts)
    arguments = {
        "program": where["batch"],
        "part": where["program"],
        "PART": str(call.part),
        "COLUMNS": str(_COLUMNS),
    }
    grid = line_grid(product((row.extent, parts)))
    options = {"num_warps": _COLUMNS // (WARP * _THREAD_POINTS)}
    return hooks.emit(kernel, "digit_places", arguments, grid, options)
