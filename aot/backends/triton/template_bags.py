"""Reductions over bags, with a fused epilogue.

A program takes a block of bags and of columns, and walks to the end of its longest bag. Rows of one
element are reduced many points at a time: there the points are neighbours in memory, or alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aot.backends.triton.context import TileDim, make_context
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.ops import conversion
from aot.backends.triton.text import index_text, value_type
from aot.backends.triton.tiling import WARP
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, neutral_of
from aot.ir.scalar import const, where
from aot.ir.templates.bags import Bags
from aot.ir.templates.builder import NestBuilder
from aot.symbolic import ceil_div, is_int, power_above, product, var

_FUNCTIONS = {"sum": "plus", "prod": "times", "max": "max_nan", "min": "min_nan"}
"""How two results become one: device functions."""

_THREAD_BYTES = 16
"""Of a point's row that a thread reads at once."""

_WARPS = 4

_COLUMNS = 256
"""Of a block, at most."""

_VALUES = 32
"""Elements for each thread that are read before the first of them is used."""

_STEP = 8
"""Points that are read ahead, at least: fewer where bags are shorter."""

_SPREAD = 1024
"""Points of all bags of a block that are read at once where rows have one element."""


@dataclass(frozen=True)
class BagsTile:
    """What a program takes.

    `points`: of each bag at once, in order or, where `spread`, as a tree.
    """

    bags: int
    columns: int
    points: int
    warps: int
    spread: bool


def bags_tile(call: Bags, size: int, hints: Hints, units: int) -> BagsTile:
    """The blocks of a call whose rows have elements of so many bytes."""
    bag, column = call.output.axes
    bags, width = max(1, hints.value(bag.extent)), max(1, hints.value(column.extent))
    length = power_above(max(1, hints.value(call.points) // bags))
    if is_int(column.extent, 1):
        points = min(_SPREAD, length)
        high = min(_SPREAD // points, power_above(max(1, bags // units)))
        return BagsTile(high, 1, points, max(1, min(_WARPS, high * points // WARP)), spread=True)
    columns = min(power_above(width), _COLUMNS)
    thread = max(1, _THREAD_BYTES // size)
    programs = bags * -(-width // columns)
    high = min(max(1, _WARPS * WARP * thread // columns), power_above(max(1, programs // units)))
    warps = max(1, min(_WARPS, high * columns // (WARP * thread)))
    points = max(_STEP, _VALUES * WARP * warps // (high * columns))
    return BagsTile(high, columns, min(points, _VALUES, length), warps, spread=False)


def emit_bags(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a reduction over bags and its epilogue."""
    call = template_call(kernel, Bags)
    context = make_context(kernel, graph, gpu)
    bag, column = call.output.axes
    source = graph.buffers[call.x.buffer].dtype
    kind = call.accumulated(source)
    tile = bags_tile(call, source.itemsize, hints, gpu.units)
    hooks = Hooks(context)
    rows, columns = (
        TileDim("m", (bag,), tile.bags, 0),
        TileDim("n", (column,), tile.columns, 1),
    )
    with hooks.function("bounds", "m") as body:
        body.take_dim(rows)
        found = (body.value(v).text for v in call.bounds(_builder(graph), bag.symbol))
        texts = (f"{text}.to({context.index_type})" for text in found)
        body.writer.line(f"return {', '.join(texts)}")
    _write_load(hooks, call, graph, tile)
    combine = _FUNCTIONS[call.combine]
    if tile.spread:
        # Triton does not take functions that are arguments for this.
        with hooks.function("total", "values") as body:
            body.writer.line(f"return tl.reduce(values, 1, {combine})")
    with hooks.function("finish", "m", "n", "reduced") as body:
        body.take_dim(rows)
        body.take_dim(columns)
        wanted = context.buffers[call.output.buffer].dtype
        result = "reduced" if wanted == kind else conversion("reduced", kind, wanted)
        finish_tile(body, kernel, result, frozenset(("m", "n")))
    across = ceil_div(column.extent, tile.columns)
    arguments = {
        "program": program_id(context),
        "points": index_text(call.points, context.names),
        "combine": combine,
        "KIND": value_type(kind),
        "NEUTRAL": _number(neutral_of(call.combine, kind)),
        "BAGS": str(tile.bags),
    }
    if tile.spread:
        arguments["POINTS"] = str(tile.points)
    else:
        arguments["across"] = index_text(across, context.names)
        arguments |= {"COLUMNS": str(tile.columns), "STEP": str(tile.points)}
    grid = line_grid(product((ceil_div(bag.extent, tile.bags), across)))
    name = "spread_bags" if tile.spread else "walk_bags"
    return hooks.emit(kernel, name, arguments, grid, {"num_warps": tile.warps})


def _write_load(hooks: Hooks, call: Bags, graph: KernelGraph, tile: BagsTile) -> None:
    """The hook that reads elements: those that do not count change no result."""
    point, column = Axis(var("p"), call.points), Axis(var("n"), call.x.axes[1].extent)
    block = tile.bags * tile.points if tile.spread else tile.bags
    with hooks.function("load", "p", "n") as body:
        body.take_dim(TileDim("p", (point,), block, 0, scattered=True))
        body.take_dim(TileDim("n", (column,), tile.columns, 1))
        value, counts = call.element(_builder(graph), point.symbol, column.symbol)
        if counts is not None:
            nothing = neutral_of(call.combine, value.dtype)
            value = where(counts, value, const(nothing, value.dtype))
        body.writer.line(f"return {body.spread(body.value(value), frozenset(('p', 'n')))}")


def _number(value: float) -> str:
    """A number as a constant of the text."""
    return f"float('{value}')" if math.isinf(value) else str(value)


def _builder(graph: KernelGraph) -> NestBuilder:
    """What a call's values are made with; no nest comes of it."""
    return NestBuilder(dict(graph.buffers), {})
