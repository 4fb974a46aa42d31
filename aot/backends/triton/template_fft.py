"""Fourier transforms, with a fused epilogue: a program holds some transforms in registers.

A pass transforms a digit of the points' numbers (`fft_digits.py`); between two passes, points
change places through shared memory. Where neighbours lie along `inner`, a program has a few of
them; else it has a few rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile, with_ranges
from aot.backends.triton.fft_passes import FftKernel, FftTile, Passes, fft_digits, is_row
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import NAME, EmittedKernel, line_grid, program_id
from aot.backends.triton.text import Writer, index_text
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer, View
from aot.ir.scalar import load
from aot.ir.templates.fft import Fft, padded
from aot.symbolic import (
    Symbol,
    ceil_div,
    coefficient_of,
    integer,
    power_above,
    product,
    substitute,
    var,
)

_MOST_BYTES = 1 << 16
"""Of a program's numbers."""

_LEAST_LANES = 32
"""Bytes of neighbours that a program reads at least: what memory moves at once."""

_LANES = 256
"""Bytes of neighbours that a program reads where there is room."""

_EACH, _EACH_FULL = 16, 32
"""Numbers of a thread, about: as a rule, and of programs of neighbours that have all the room.
There, a digit of 25 points in float64 alone takes 100 of the 128 registers that 16 warps leave."""

_WARPS = 16
"""Of the greatest programs."""

_POINT, _LANE, _PAIR = var("fft_point"), var("fft_lane"), var("fft_pair")


def takes_fft(call: Fft, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.re.buffer].dtype
    if dtype not in (FLOAT32, FLOAT64):
        return f"its kernels take no {dtype}"
    least = 1 if is_row(call) else _LEAST_LANES // (2 * dtype.itemsize)
    if padded(fft_digits(call)) * least * 2 * dtype.itemsize > _MOST_BYTES:
        return "its points do not fit into a program"
    return ""


def fft_tile(call: Fft, dtype: DType, hints: Hints, gpu: Gpu) -> FftTile:
    """What a program has of a call."""
    points = padded(fft_digits(call))
    number = 2 * dtype.itemsize
    outer, _, inner = (max(1, hints.value(a.extent)) for a in call.re.axes)
    if is_row(call):
        lanes, rows = 1, max(1, 1024 // points)
        rows = min(rows, power_above(max(1, outer // gpu.multiprocessors)))
    else:
        lanes = max(_LEAST_LANES // number, min(_LANES // number, _MOST_BYTES // number // points))
        lanes, rows = min(lanes, power_above(inner)), 1
    full = lanes > 1 and points * lanes * number == _MOST_BYTES
    each = WARP * (_EACH_FULL if full else _EACH)
    warps = max(1, min(_WARPS, points * lanes * rows // each))
    return FftTile(rows, lanes, points, warps)


def emit_fft(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a Fourier transform and its epilogue."""
    call = template_call(kernel, Fft)
    dtype = graph.buffers[call.re.buffer].dtype
    context = make_context(kernel, graph, gpu)
    outer, point, inner = call.re.axes
    pairs = product((inner.extent, integer(2)))
    axes = (Axis(_POINT, point.extent), Axis(_LANE, inner.extent), Axis(_PAIR, pairs))
    context = with_ranges(context, (*axes, *call.output.axes))
    t = FftKernel(kernel, call, context, dtype, fft_tile(call, dtype, hints, gpu))
    hooks = Hooks(context)
    if t.are_pairs:
        _write_pairs(hooks, t)
    else:
        for role in ("re", "im"):
            view: View | None = getattr(call, role)
            if view is not None:
                _write_load(hooks, t, view, f"load_{role}")
    _write_tables(hooks, t)
    _write_finish(hooks, t)
    writer = Writer()
    Passes(t, writer).write()
    names = [name for name in _HOOKS if name in hooks]
    program = program_id(context)
    if t.is_row:
        programs = ceil_div(outer.extent, t.tile.rows)
        place = {"first": f"{program} * {t.tile.rows}", "lane": "0"}
    else:
        blocks = ceil_div(inner.extent, t.tile.lanes)
        text = index_text(blocks, context.names)
        programs = product((outer.extent, blocks))
        place = {
            "first": f"{program} // ({text})",
            "lane": f"{program} % ({text}) * {t.tile.lanes}",
        }
    if call.fine is not None and call.others is None:  # neighbours of each column
        columns = int(call.fine.axes[2].extent)
        place["each"] = f"({index_text(inner.extent, context.names)}) // {columns}"
    given = ", ".join((*names, *place))
    head = f"@triton.jit\ndef {NAME}_transform(args, {given}):\n"
    emitted = hooks.emit(
        kernel, f"{NAME}_transform", place, line_grid(programs), {"num_warps": t.tile.warps}
    )
    return replace(emitted, function=f"{head}{writer.text()}\n\n{emitted.function}")


_HOOKS = (
    *("load_pairs", "load_re", "load_im"),
    *("load_roots", "load_others", "load_fine", "load_coarse", "finish"),
)


def _write_load(hooks: Hooks, t: FftKernel, view: View, name: str) -> None:
    """The hook that reads a part of points: of rows, or of neighbours of an element of outer."""
    outer, point, inner = view.axes
    with hooks.function(name, "first", "m", "n") as body:
        points = TileDim("n", (point,), t.tile.points, 1, scattered=True, width="n.shape[1]")
        if t.is_row:
            body.take_dim(TileDim("m", (outer,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(points)
            body.name_axis(inner.symbol, "0", None)
        else:
            body.name_axis(outer.symbol, "first", None)
            body.take_dim(replace(points, name="m", position=0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (inner,), t.tile.lanes, 1, width="n.shape[1]"))
        value = body.value(load(view.buffer, t.dtype, view.index))
        body.writer.line(f"return {body.padded(value, frozenset(('m', 'n')))}")


def _write_pairs(hooks: Hooks, t: FftKernel) -> None:
    """The hook that reads both parts of numbers, which are neighbours."""
    view = t.call.re
    outer, point, inner = view.axes
    with hooks.function("load_pairs", "first", "m", "n") as body:
        if t.is_row:
            pairs = Axis(_PAIR, integer(2 * t.points))
            body.take_dim(TileDim("m", (outer,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (pairs,), 1, 1, scattered=True, width="n.shape[1]"))
            body.name_axis(inner.symbol, "0", None)
            symbol = point.symbol
        else:
            pairs = Axis(_PAIR, t.context.ranges.extents[_PAIR])
            body.name_axis(outer.symbol, "first", None)
            body.take_dim(TileDim("m", (point,), 1, 0, scattered=True, width="m.shape[0]"))
            body.take_dim(TileDim("n", (pairs,), 2 * t.tile.lanes, 1, width="n.shape[1]"))
            symbol = inner.symbol
        body.name_axis(symbol, "(n // 2)", "n")
        offset = t.context.offset(view.buffer, view.index)
        beside = coefficient_of(offset, symbol) == 2
        text, _ = body.index(substitute(offset, {symbol: integer(0)}) if beside else offset, {})
        own = "n" if beside else "n % 2"
        both = ("m", "n")
        shape, masks = body.shape(both), " & ".join(body.masks(both))
        pointer = f"{t.context.pointers[view.buffer]} + tl.broadcast_to(({text}) + {own}, {shape})"
        masked = f", mask=tl.broadcast_to({masks}, {shape}), other=0" if masks else ""
        body.writer.line(f"return tl.load({pointer}{masked})")


def _write_tables(hooks: Hooks, t: FftKernel) -> None:
    """The hooks that read numbers of tables: of a power, or of a row and a column."""
    call = t.call
    for name, table in (("roots", call.roots), ("others", call.others)):
        if table is not None:
            power, part = (a.symbol for a in table.axes)
            _write_table(hooks, t, f"load_{name}", table, {power: "at", part: "part"})
    for name, table in (("fine", call.fine), ("coarse", call.coarse)):
        if table is not None:
            part, row, column = (a.symbol for a in table.axes)
            _write_table(
                hooks, t, f"load_{name}", table, {part: "part", row: "at", column: "column"}
            )


def _write_table(
    hooks: Hooks, t: FftKernel, name: str, table: View, names: Mapping[Symbol, str]
) -> None:
    own = [text for text in ("at", "column") if text in names.values()]
    with hooks.function(name, "part", *own) as body:
        for symbol, text in names.items():
            body.name_axis(symbol, text, None)
        text, _ = body.index(t.context.offset(table.buffer, table.index), {})
        body.writer.line(f"return tl.load({t.context.pointers[table.buffer]} + ({text}))")


def _write_finish(hooks: Hooks, t: FftKernel) -> None:
    """The hook that stores results: of rows, of neighbours, or one by one for an epilogue."""
    row, column = t.call.output.axes
    both = frozenset(("m", "n"))
    with hooks.function("finish", "first", "m", "n", "values") as body:
        if t.is_row:
            body.take_dim(TileDim("m", (row,), t.tile.rows, 0, width="m.shape[0]"))
            body.take_dim(TileDim("n", (column,), 1, 1, scattered=True, width="n.shape[1]"))
            finish_tile(body, t.kernel, "values", both)
            return
        pairs = index_text(t.context.ranges.extents[_PAIR], t.context.names)
        body.name_axis(row.symbol, "first", None)
        points = Axis(_POINT, integer(t.points))
        if any(stage.nests for stage in t.kernel.stages):
            body.writer.line(
                f"at = tl.where((m < {t.points}) & (n < {pairs}), m * ({pairs}) + n, "
                f"{t.points} * ({pairs}))"
            )
            body.writer.line("values = tl.reshape(values, [1, m.shape[0] * n.shape[1]])")
            body.writer.line("n = tl.reshape(at, [1, m.shape[0] * n.shape[1]])")
            body.take_dim(TileDim("n", (column,), 1, 1, scattered=True, width="n.shape[1]"))
            finish_tile(body, t.kernel, "values", frozenset(("n",)))
            return
        lanes = Axis(_PAIR, t.context.ranges.extents[_PAIR])
        body.take_dim(TileDim("m", (points,), 1, 0, scattered=True, width="m.shape[0]"))
        body.take_dim(TileDim("n", (lanes,), 2 * t.tile.lanes, 1, width="n.shape[1]"))
        body.writer.line(f"at = m * ({pairs}) + n")
        body.name_axis(column.symbol, "at", "n")
        finish_tile(body, t.kernel, "values", both)
