"""Running sums, products and extrema along the rows of a matrix, with a fused epilogue.

A program takes a block of rows and walks its columns in blocks; each block is scanned as a tree,
from the results of the one before. Of long rows a program may walk a part alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import finish_tile, open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.ops import conversion
from aot.backends.triton.template_resample_outer import Shifted
from aot.backends.triton.text import index_text, value_type
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import INT64, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    const,
    index_value,
    load,
    loads,
    substitute_index,
)
from aot.ir.templates.scan import Scan
from aot.symbolic import (
    Expr,
    ceil_div,
    coefficient_of,
    integer,
    is_int,
    power_above,
    product,
    substitute,
    var,
)

_FUNCTIONS = {
    "sum": "plus",
    "prod": "times",
    "max": "max_nan",
    "min": "min_nan",
    "logaddexp": "log_plus",
}
"""How two results become one: device functions."""

_SCANNED, _REDUCED = "tl.associative_scan(values, 1, {})", "tl.reduce(values, 1, {})"
_RUNNING, _TOTAL = {"logaddexp": "log_running(values)"}, {"logaddexp": "log_total(values)"}
"""Texts of the running results and the last ones of rows, where others than of the function."""

_BYTES = 32768
"""Of the values of a block of rows and columns: 32 of float32 for each thread."""

_LOG_BYTES = 8192
"""The same of logarithms: two numbers a value, and functions, take four times the registers."""

_THREAD_BYTES = 32
"""Of values for each thread, at least."""

LONGEST = 1 << 15
"""Elements of a row that one program scans in less time than three launches take: four blocks."""

_WHICH = var("part")

_ACROSS = 32
"""Rows of a block where neighbouring elements of memory belong to different rows."""


WORD = 4
"""Bytes that a thread reads at least, where each has whole rows."""

TURN = 16
"""Elements of a row that it loads before it uses them."""

DOWN_WARPS = 2
"""Of such threads, for each of a device's units, from which on these are busy."""


@dataclass(frozen=True)
class ScanTile:
    """Rows and columns of a block, and warps. `looped`: a row may have several blocks.

    `turn`: elements of rows that a thread loads before it uses them, and has alone; 0: threads
    share rows.
    """

    rows: int
    columns: int
    warps: int
    looped: bool
    turn: int = 0


def emit_scan(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a scan template and its epilogue."""
    call = template_call(kernel, Scan)
    context = make_context(kernel, graph, gpu)
    row, column = call.output.axes
    element = _scanned(kernel, call, context)
    tile = _tile_of(call, context, element, hints, gpu)
    rows = TileDim("m", (row,), tile.rows, 0)
    columns = TileDim("n", (column,), tile.columns, 1)
    if tile.turn and not (is_int(column.extent) and int(column.extent) % tile.turn == 0):
        columns = Shifted("n", (column,), tile.columns, 1)
    if call.part is not None:
        extents = {**context.ranges.extents, _WHICH: ceil_div(column.extent, integer(call.part))}
        context = replace(context, ranges=context.ranges.with_extents(extents))
    hooks = Hooks(context)
    with hooks.function("load", "m", "n") as body:
        body.take_dim(rows)
        body.take_dim(columns)
        value = body.value(element)
        body.writer.line(f"return {body.spread(value, frozenset(('m', 'n')))}")
    # Triton does not take functions that are arguments for these.
    combine = _FUNCTIONS[call.combine]
    with hooks.function("running", "values") as body:
        body.writer.line(f"return {_RUNNING.get(call.combine, _SCANNED).format(combine)}")
    with hooks.function("total", "values") as body:
        body.writer.line(f"return {_TOTAL.get(call.combine, _REDUCED).format(combine)}")
    with hooks.function("finish", "m", "n", "scanned") as body:
        body.take_dim(rows)
        body.take_dim(columns)
        wanted = context.buffers[call.output.buffer].dtype
        result = "scanned"
        if not wanted.is_float or wanted != wanted.compute:
            result = conversion("scanned", _accumulated(element.dtype), wanted)
        finish_tile(body, kernel, result, frozenset(("m", "n")))
    arguments = {
        "program": program_id(context),
        "end": index_text(column.extent, context.names),
        "combine": combine,
        "KIND": value_type(_accumulated(element.dtype)),
        "NEUTRAL": _neutral(call.combine, element.dtype),
        "ROWS": str(tile.rows),
        "COLUMNS": str(tile.columns),
        "LOOPED": str(tile.looped),
    }
    programs, function = ceil_div(row.extent, tile.rows), "scan_rows"
    if tile.turn:
        arguments = {k: v for k, v in arguments.items() if k not in ("COLUMNS", "LOOPED")}
        arguments["TURN"], function = str(tile.turn), "scan_down"
    if call.part is not None:
        parts = ceil_div(column.extent, integer(call.part))
        _start_from_before(call, hooks, context, rows, parts)
        where = places(context, parts)
        arguments = {**arguments, "program": where["batch"], "part": where["program"]}
        arguments = {k: v for k, v in arguments.items() if k not in ("end", "LOOPED")}
        arguments["PART"] = str(call.part)
        programs, function = product((programs, parts)), "scan_part"
    return hooks.emit(kernel, function, arguments, line_grid(programs), {"num_warps": tile.warps})


def _scanned(kernel: TemplateKernel, call: Scan, context: KernelContext) -> Node:
    """What is scanned, at the axes of the result."""
    view, x = call.x, context.buffers[call.x.buffer]
    own = (axis.symbol for axis in view.axes)
    mapping = dict(zip(own, (axis.symbol for axis in call.output.axes), strict=True))
    element = load(x.name, x.dtype, tuple(substitute(e, mapping) for e in view.index))
    for nest in kernel.prologue:
        (element,) = substitute_index((nest.stores[0].value,), mapping)
    return element


def _tile_of(call: Scan, context: KernelContext, element: Node, hints: Hints, gpu: Gpu) -> ScanTile:
    """The blocks of a call that scans `element`."""
    row, column = call.output.axes
    x = context.buffers[call.x.buffer].dtype
    across = _walks_rows(context, element, row, column)
    size = 4 if x.is_float and x.compute.itemsize == 4 else 8
    most = (_LOG_BYTES if call.combine == "logaddexp" else _BYTES) // size
    ends = context.most_points((column,), hints)
    tile = scan_tile(row, column, hints, gpu.units, across=across, size=size, most=most, ends=ends)
    if across and call.part is None and call.combine != "logaddexp":
        tile = down_tile(row, hints, gpu.units, x.itemsize) or tile
    return tile if call.part is None else replace(tile, columns=min(tile.columns, call.part))


def _start_from_before(
    call: Scan, hooks: Hooks, context: KernelContext, rows: TileDim, parts: Expr
) -> None:
    """Writes the function that loads the results at the end of the part before."""
    view = call.before
    assert view is not None
    row, part = view.axes
    mapping = {row.symbol: rows.axes[0].symbol, part.symbol: _WHICH - 1}
    later = binary("gt", index_value(_WHICH), const(0, INT64))
    index = tuple(substitute(e, mapping) for e in view.index)
    result = load(view.buffer, context.buffers[view.buffer].dtype, index, mask=later)
    with hooks.function("before", "m", "part") as body:
        body.take_dim(rows)
        open_batch(body, (Axis(_WHICH, parts),), "part")
        body.writer.line(f"return {body.spread(body.value(result), frozenset(('m',)))}")


def _walks_rows(context: KernelContext, element: Node, row: Axis, column: Axis) -> bool:
    """True when what is read is contiguous from row to row, not along a row."""
    offsets = [
        context.offset(n.attr.buffer, n.attr.index)
        for n in loads((element,))
        if isinstance(n.attr, Access) and not n.attr.binds
    ]
    if any(coefficient_of(o, column.symbol) == 1 for o in offsets):
        return False
    return any(coefficient_of(o, row.symbol) == 1 for o in offsets)


def scan_tile(
    row: Axis,
    column: Axis,
    hints: Hints,
    units: int,
    *,
    across: bool,
    size: int,
    most: int,
    ends: int | None,
) -> ScanTile:
    """The blocks of a scan.

    `across`: neighbours in memory belong to different rows. `size`: bytes of an accumulated value.
    `most`: values of a block. `ends`: elements of a row at most; None where that is not known.
    """
    rows = max(1, hints.value(row.extent))
    columns = max(1, hints.value(column.extent) if ends is None else ends)
    short = max(1, most // power_above(columns))
    high = _ACROSS if across else min(short, power_above(max(1, rows // units)))
    high = min(high, power_above(rows))
    wide = min(power_above(columns), most // high)
    looped = ends is None or columns > wide
    warps = max(1, min(8, high * wide * size // (WARP * _THREAD_BYTES)))
    return ScanTile(high, wide, warps, looped)


def down_tile(row: Axis, hints: Hints, units: int, size: int) -> ScanTile | None:
    """The tile where each thread has whole rows; None where these are too few for that.

    `size`: bytes of an element, of which a warp reads a line at once.
    """
    rows = WARP * max(1, WORD // size)
    if hints.value(row.extent) < DOWN_WARPS * units * rows:
        return None
    return ScanTile(rows, 1, 1, looped=True, turn=TURN)


def _neutral(combine: str, dtype: DType) -> str:
    """The number that changes no other."""
    if combine in ("sum", "prod"):
        return "1" if combine == "prod" else "0"
    if dtype.is_float:
        return "float('inf')" if combine == "min" else "float('-inf')"
    return str(2**63 - 1 if combine == "min" else -(2**63))


def _accumulated(dtype: DType) -> DType:
    """What results are computed in: float32 for halves, 64 bits for integers, which then wrap."""
    return dtype.compute if dtype.is_float else INT64
