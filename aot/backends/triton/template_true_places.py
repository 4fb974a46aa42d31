"""Where a tensor is true, with a fused epilogue: `device/true_places.py`.

A program walks a part of the elements and stores the rows of the true ones among them. What is
behind them is never touched: a false element has the row behind the last one, which is masked.
"""

from __future__ import annotations

from dataclasses import replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.text import index_text
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import INT64
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.scalar import binary, const, index_value, load
from aot.ir.templates.base import Parts
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.true_places import TruePlaces
from aot.symbolic import ceil_div, integer, power_above, substitute, var

COLUMNS = 2048
"""Elements of a block."""

_THREAD_POINTS = 16
"""Elements of a thread: flags of a byte that it loads at once."""

COMPACTED = Parts(longest=4 * COLUMNS, least=COLUMNS, room=16)
"""Four programs of a multiprocessor for each place of one: what they store comes in bursts."""

_NUMBER, _PART = var("number"), var("part")


def emit_true_places(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a template of true places and its epilogue."""
    call = template_call(kernel, TruePlaces)
    context = make_context(kernel, graph, gpu)
    row, column = call.output.axes
    length = call.count if call.part is None else integer(call.part)
    parts = integer(1) if call.part is None else ceil_div(call.count, length)
    known = {**context.ranges.extents, _NUMBER: call.count, _PART: parts}
    context = replace(context, ranges=context.ranges.with_extents(known))
    high = power_above(max(1, hints.value(column.extent)))
    hooks = Hooks(context)
    with hooks.function("load", "n") as body:
        body.take_dim(TileDim("n", (Axis(_NUMBER, call.count),), COLUMNS, 1))
        builder = NestBuilder(dict(graph.buffers), {})
        flag = body.value(call.is_true(builder, _NUMBER))
        body.writer.line(f"return {body.padded(flag, frozenset(('n',)))}")
    with hooks.function("before", "part") as body:
        body.writer.line(f"return {_before(call, body)}")
    with hooks.function("finish", "m", "n", "number") as body:
        body.take_dim(TileDim("m", (column,), high, 0))
        body.take_dim(TileDim("n", (row,), COLUMNS, 1, scattered=True))
        body.writer.line(f"found = {_index(call, body)}")
        dims = frozenset("mn" if len(call.x.axes) > 1 else "n")
        finish_tile(body, kernel, "found", dims)
    arguments = {
        "part": "0" if call.part is None else program_id(context),
        "length": index_text(length, context.names),
        "rows": index_text(row.extent, context.names),
        "COLUMNS": str(COLUMNS),
        "RANK": str(high),
    }
    options = {"num_warps": COLUMNS // (WARP * _THREAD_POINTS)}
    return hooks.emit(kernel, "true_places", arguments, line_grid(parts), options)


def _before(call: TruePlaces, body: Body) -> str:
    """How many true elements there are in the parts before."""
    view = call.before
    if view is None:
        return "0"
    own, part = view.axes
    body.name_axis(_PART, "part", None)
    mapping = {own.symbol: integer(0), part.symbol: _PART - 1}
    index = [substitute(e, mapping) for e in view.index]
    later = binary("gt", index_value(_PART), const(0, INT64))
    ends = load(view.buffer, body.context.buffers[view.buffer].dtype, index, mask=later)
    return body.value(ends).text


def _index(call: TruePlaces, body: Body) -> str:
    """What stands in each column of an element's row: its index along that axis of x."""
    body.name_axis(_NUMBER, "number", "n")
    simplify = body.context.ranges.simplify
    texts = [body.index(simplify(e), {})[0] for e in call.index(_NUMBER)]
    found = texts.pop()
    for k, text in reversed(list(enumerate(texts))):
        found = f"tl.where(m == {k}, {text}, {found})"
    return f"({found}).to(tl.int64)"
