"""Running sums and products along the rows of a matrix, with a fused epilogue.

A program takes a block of rows and walks its columns in blocks; each block is scanned as a tree,
from the results of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.ops import conversion
from aot.backends.triton.text import Writer, index_text, value_type
from aot.backends.triton.tiling import THREAD_POINTS, WARP, power_above
from aot.errors import InternalError
from aot.ir.dtypes import INT64, DType
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis
from aot.ir.scalar import Node, load
from aot.symbolic import ceil_div, coefficient_of, is_int, substitute

_POINTS = 4096
"""Points of a block of rows and columns."""

_ACROSS = 32
"""Rows of a block where neighbouring elements of memory belong to different rows."""


@dataclass(frozen=True)
class ScanTile:
    """Rows and columns of a block, and warps. `looped`: a row may have several blocks."""

    rows: int
    columns: int
    warps: int
    looped: bool


def emit_scan(kernel: Kernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a scan template and its epilogue."""
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    context = make_context(kernel, graph)
    row, column = call.output.axes
    view = call.operand("x")
    mapping = {view.axes[0].symbol: row.symbol, view.axes[1].symbol: column.symbol}
    index = tuple(substitute(e, mapping) for e in view.index)
    x = graph.buffers[view.buffer]
    across = coefficient_of(context.offset(view.buffer, index), row.symbol) == 1
    tile = scan_tile(row, column, hints, gpu.units, across=across)
    body = Body(context, Writer(), 2)
    line = body.writer.line
    body.open_dim(TileDim("m", (row,), tile.rows, 0), f"{program_id(context)} * {tile.rows}")
    columns = TileDim("n", (column,), tile.columns, 1)
    element = load(x.name, x.dtype, index)
    if not tile.looped:
        body.open_dim(columns, "0")
        _block(body, kernel, element, "")
    else:
        kind = _kind(x.dtype)
        neutral = int(call.attr("combine") == "prod")
        line(f"carry = tl.full([{tile.rows}, 1], {neutral}, {kind})")
        end = index_text(column.extent, context.names)
        with body.loop(f"for start in range(0, {end}, {tile.columns})"):
            body.open_dim(columns, "start")
            _block(body, kernel, element, "carry")
            last = f"tl.where(n == start + {tile.columns - 1}, scanned, 0)"
            line(f"carry = tl.sum({last}, 1)[:, None].to({kind})")
    programs = ceil_div(row.extent, tile.rows)
    return finish(kernel, body, line_grid(programs), {"num_warps": tile.warps})


def scan_tile(row: Axis, column: Axis, hints: Hints, units: int, *, across: bool) -> ScanTile:
    """The blocks of a scan. `across`: neighbours in memory belong to different rows."""
    rows, columns = max(1, hints.value(row.extent)), max(1, hints.value(column.extent))
    short = max(1, _POINTS // power_above(columns))
    high = _ACROSS if across else min(short, power_above(max(1, rows // units)))
    high = min(high, power_above(rows))
    wide = min(power_above(columns), _POINTS // high)
    looped = not (is_int(column.extent) and columns <= wide)
    warps = max(1, min(8, high * wide // (WARP * THREAD_POINTS)))
    return ScanTile(high, wide, warps, looped)


def _kind(dtype: DType) -> str:
    """The type that accumulates: float32 for halves, 64 bits for integers, which then wrap."""
    return value_type(dtype) if dtype.is_float else "tl.int64"


def _block(body: Body, kernel: Kernel, element: Node, carry: str) -> None:
    """Scans the present block and evaluates the epilogue on it; what lies beyond comes last."""
    call = kernel.template
    assert call is not None
    line = body.writer.line
    is_product = call.attr("combine") == "prod"
    value = body.value(element)
    text = body.spread(value, frozenset(("m", "n")))
    line(
        f"scanned = tl.{'cumprod' if is_product else 'cumsum'}({text}.to({_kind(value.dtype)}), 1)"
    )
    if carry:
        line(f"scanned = {carry} {'*' if is_product else '+'} scanned")
    wanted = body.context.buffers[call.output.buffer].dtype
    result = "scanned"
    if not wanted.is_float or wanted != wanted.compute:
        line(f"result = {conversion('scanned', _accumulated(value.dtype), wanted)}")
        result = "result"
    finish_tile(body, kernel, result, frozenset(("m", "n")))


def _accumulated(dtype: DType) -> DType:
    return dtype.compute if dtype.is_float else INT64
