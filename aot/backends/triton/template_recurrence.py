"""Recurrences, with a fused epilogue: `device/recurrence.py`.

Programs take few elements of the batch each while multiprocessors are idle: their steps wait for
memory and for each other, not for arithmetic. Where the matrix is large, a program takes one step
of a few units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import finish_tile, with_ranges
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.template_resample_outer import Shifted
from aot.backends.triton.text import index_text
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer, View
from aot.ir.scalar import load
from aot.ir.templates.recurrence import Recurrence, Spread
from aot.symbolic import (
    Expr,
    ceil_div,
    integer,
    power_above,
    product,
    row_major_strides,
    substitute,
    var,
)

_UNIT, _DEPTH, _GATE = var("unit"), var("depth"), var("gate")

DOT_ROWS = 16
"""Rows that products by instructions for matrices take; fewer are multiplied one by one."""

MOST_SUMMED = 4
"""Rows up to which products are summed one by one."""

_UNITS = 64
"""Units of a block, of a state and of the depth of products."""

_THREAD_PRODUCTS = 16
"""Products of a block for each thread, about."""

_PLACES = 4
"""Rows of the workspace for each element of the batch; see device/recurrence.py."""


SPREAD = Spread(least_elements=1 << 16, most_depth=1024, rows=MOST_SUMMED)
"""Steps are shared out from the size on at which the matrix leaves the first-level cache."""

_HELD_BYTES = 1 << 16
"""Of the matrix in the registers of a program that has one step."""


@dataclass(frozen=True)
class RecurrenceTile:
    """Elements of the batch of a program, units of a block and of the depth, warps."""

    rows: int
    units: int
    depth: int
    warps: int

    @property
    def dots(self) -> bool:
        """Whether products are by instructions for matrices."""
        return self.rows >= DOT_ROWS


@dataclass(frozen=True)
class _Recurrence:
    """One recurrence kernel, taken apart. `unit`, `depth`: axes of a state, and what is seen."""

    kernel: TemplateKernel
    call: Recurrence
    context: KernelContext
    tile: RecurrenceTile
    dtype: DType

    @property
    def rows(self) -> TileDim:
        """A program's elements of the batch."""
        return TileDim("m", (self.call.output.axes[1],), self.tile.rows, 0)

    @property
    def units(self) -> TileDim:
        """A block of a state."""
        return TileDim("n", (Axis(_UNIT, self.call.units),), self.tile.units, 1)

    def text(self, expr: Expr) -> str:
        """A size in the kernel's text."""
        return index_text(expr, self.context.names)


def recurrence_tile(call: Recurrence, hints: Hints, dtype: DType, gpu: Gpu) -> RecurrenceTile:
    """The blocks of a recurrence."""
    if call.marks is not None:
        return _spread_tile(call, dtype)
    batch = max(1, hints.value(call.output.axes[1].extent))
    each = power_above(-(-batch // gpu.multiprocessors))
    summed = each <= MOST_SUMMED or dtype.itemsize == 8
    rows = min(each, MOST_SUMMED) if summed else DOT_ROWS
    units = max(16, min(_UNITS, power_above(max(1, hints.value(call.units)))))
    if dtype.itemsize == 8:
        units = min(units, _UNITS // 2)
    warps = max(1, min(8, rows * units * units // (WARP * _THREAD_PRODUCTS)))
    return RecurrenceTile(rows, units, units, warps)


def _spread_tile(call: Recurrence, dtype: DType) -> RecurrenceTile:
    """The part of a step that a program has."""
    depth = power_above(int(call.size))
    units = max(1, _HELD_BYTES // (4 * dtype.itemsize * depth))
    return RecurrenceTile(SPREAD.rows, min(units, power_above(int(call.units))), depth, 8)


def recurrence_workspace(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> Buffer:
    """Where the programs of a recurrence keep their states."""
    call = template_call(kernel, Recurrence)
    dtype = graph.buffers[call.x.buffer].dtype
    tile = recurrence_tile(call, hints, dtype, gpu)
    programs = ceil_div(call.output.axes[1].extent, tile.rows)
    shape = (programs, integer(_PLACES * tile.rows), _padded(call.units, tile))
    return Buffer(f"{kernel.name}_workspace", dtype, shape, row_major_strides(shape), "temp")


def emit_recurrence(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a recurrence template and its epilogue."""
    r = _take_apart(kernel, graph, hints, gpu)
    call, (step, batch, column) = r.call, r.call.output.axes
    hooks = Hooks(r.context)
    _write_loads(hooks, r)
    with hooks.function("finish", "step", "m", "n", "values") as body:
        body.take_dim(r.rows)
        body.take_dim(TileDim("n", (column,), r.tile.units, 1))
        body.name_axis(step.symbol, "step", None)
        finish_tile(body, kernel, "values", frozenset(("m", "n")))
    absent = ("load_state", "load_bias", "load_projection")
    arguments = {
        **{name: "None" for name in absent if name not in hooks},
        "space": r.context.pointers[kernel.workspace],
        "steps": r.text(call.steps),
        "width": r.text(_padded(call.units, r.tile)),
        "CELL": f'"{call.cell}"',
        "BACKWARDS": str(call.backwards),
        "ENDS": str(call.ends),
        "ROWS": str(r.tile.rows),
        "UNITS": str(r.tile.units),
    }
    # No stages: what a step loads, the step before has stored.
    options = {"num_warps": r.tile.warps, "num_stages": 1}
    blocks = ceil_div(batch.extent, r.tile.rows)
    if call.marks is not None:
        across = ceil_div(call.units, r.tile.units)
        arguments |= {
            "marks": r.context.pointers[call.marks.buffer],
            "blocks": r.text(blocks),
            "across": r.text(across),
            "DEPTH": str(r.tile.depth),
        }
        del arguments["load_projection"]
        grid = line_grid(product((call.steps + 1, blocks, across)))
        return hooks.emit(kernel, "spread_recurrence", arguments, grid, options)
    arguments |= {
        "program": program_id(r.context),
        "units": r.text(call.units),
        "size": r.text(call.size),
        "columns": r.text(column.extent),
        "DOTS": str(r.tile.dots),
    }
    return hooks.emit(kernel, "recurrence", arguments, line_grid(blocks), options)


def _padded(units: Expr, tile: RecurrenceTile) -> Expr:
    return product((ceil_div(units, tile.units), integer(tile.units)))


def _take_apart(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> _Recurrence:
    call = template_call(kernel, Recurrence)
    dtype = graph.buffers[call.x.buffer].dtype
    context = make_context(kernel, graph, gpu)
    axes = (Axis(_UNIT, call.units), Axis(_DEPTH, call.size), Axis(_GATE, integer(4)))
    context = with_ranges(context, (*axes, *call.output.axes))
    return _Recurrence(kernel, call, context, recurrence_tile(call, hints, dtype, gpu), dtype)


def _write_loads(hooks: Hooks, r: _Recurrence) -> None:
    """Writes the functions that read blocks of operands."""
    call = r.call
    step, batch, _ = (a.symbol for a in call.output.axes)
    column = _GATE * call.units + _UNIT
    with hooks.function("load_x", "step", "gate", "m", "n") as body:
        body.take_dim(r.rows)
        body.take_dim(r.units)
        body.name_axis(step, "step", None)
        body.name_axis(_GATE, "gate", None)
        _return_block(body, r, call.x, (step, batch, column), ("m", "n"))
    for role, place in (("weight", column), ("projection", _DEPTH)):
        view: View | None = getattr(call, role)
        if view is not None:
            _write_matrix(hooks, r, view, f"load_{role}", place)
    for role, axis in (("hidden", Axis(_DEPTH, call.size)), ("state", Axis(_UNIT, call.units))):
        view = getattr(call, role)
        if view is not None:
            with hooks.function(f"load_{role}", "m", "n") as body:
                body.take_dim(r.rows)
                body.take_dim(Shifted("n", (axis,), r.tile.units, 1))
                _return_block(body, r, view, (batch, axis.symbol), ("m", "n"))
    if call.bias is not None:
        with hooks.function("load_bias", "n") as body:
            body.take_dim(r.units)
            _return_block(body, r, call.bias, (_UNIT,), ("n",))


def _write_matrix(hooks: Hooks, r: _Recurrence, view: View, name: str, column: Expr) -> None:
    """A matrix with blocks of the depth as rows: of what is seen, or of the state to project."""
    gated = name == "load_weight"
    axes = (Axis(_DEPTH, r.call.size), Axis(_UNIT, r.call.units))
    depth, across = axes if gated else axes[::-1]
    with hooks.function(name, "gate", "k", "n") as body:
        body.take_dim(TileDim("k", (depth,), r.tile.depth, 0))
        body.take_dim(TileDim("n", (across,), r.tile.units, 1))
        body.name_axis(_GATE, "gate", None)
        _return_block(body, r, view, (depth.symbol, column), ("k", "n"))


def _return_block(
    body: Body, r: _Recurrence, view: View, place: Sequence[Expr], dims: tuple[str, ...]
) -> None:
    at: Mapping[Expr, Expr] = {a.symbol: p for a, p in zip(view.axes, place, strict=True)}
    block = body.value(load(view.buffer, r.dtype, [substitute(e, at) for e in view.index]))
    body.writer.line(f"return {body.padded(block, frozenset(dims))}")
