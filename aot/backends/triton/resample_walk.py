"""Walks down an image: what programs of resizing templates share.

A program makes some rows of some columns of the result, one row after the other, and keeps in
registers what the next rows need of the input rows that it has come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.context import KernelContext, TileDim, Value
from aot.backends.triton.dot import open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import program_id
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.short_tile import Accesses, is_one_axis
from aot.backends.triton.text import index_text
from aot.backends.triton.tiling import WARP
from aot.ir.hints import Hints
from aot.ir.kernels import TemplateKernel
from aot.ir.nests import Axis, View
from aot.ir.scalar import Node, clamp_index, load
from aot.ir.templates.base import TemplateCall
from aot.ir.templates.resample import Resample, index_at
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import (
    Expr,
    Symbol,
    ceil_div,
    coefficient_of,
    power_above,
    product,
    var,
)

MOST_WINDOWS = 4
"""Windows that a program sums at the same time."""

THREAD_COLUMNS = 4
"""Columns of a thread: what is known of a row is read once for all of them. With two bicubic
resizing of 4 x 3 x 1000^2 to 1500^2 took 78 us on an H200 for 83, channels last, but 79 for 67
channels first; antialiased of 2345 x 2456 to 1234 x 1345, channels last, 147 for 124."""

MOST_ROWS, LEAST_ROWS = 16, 4
"""Rows of a program: each has to make anew the sums that it begins with. Programs are one warp, and
with 16 rows they end at about the same time: of 20 resizings of group A 18 took 0.91 to 1.0 of
the time of four warps and 32 rows, two (2000^2 to 1000^2) 1.05."""

BUSY_POINTS = WARP * THREAD_COLUMNS * 4
"""Results per unit of the device from which programs with fewer rows would not pay."""


@dataclass(frozen=True)
class ResampleWalk:
    """What a kernel's programs do.

    `planes`: axes with one program each at least. `row`: the output axis that a program walks.
    `columns`: the others in the order of memory, flattened; `wide` of them a program, which is one
    warp, and `high` rows.
    `taken`: variables of axes that an axis of the columns has taken in; they stand for 0.
    """

    planes: tuple[Axis, ...]
    row: Axis
    columns: tuple[Axis, ...]
    wide: int
    high: int
    taken: tuple[Symbol, ...] = ()

    def merged(self, touched: Accesses) -> ResampleWalk:
        """Columns of several axes as one axis, where nothing in the kernel tells them apart."""
        columns, taken = list(self.columns), list(self.taken)
        while len(columns) > 1 and is_one_axis(touched, columns[-2], columns[-1]):
            outer, inner = columns.pop(-2), columns.pop()
            taken.append(outer.symbol)
            columns.append(Axis(inner.symbol, outer.extent * inner.extent))
        return replace(self, columns=tuple(columns), taken=tuple(taken))

    @property
    def programs(self) -> Expr:
        """How many there are."""
        across, down = self._blocks()
        return product((*(a.extent for a in self.planes), across, down))

    def open(self, body: ShortBody, *, apart: bool) -> None:
        """Writes a program's columns `y`, and its rows: from `first` to `last`.

        `apart`: reads of neighbouring columns are no neighbours; columns beyond the end then repeat
        the last one, and others are masked.
        """
        context, line = body.context, body.writer.line
        across, down = (index_text(e, context.names) for e in self._blocks())
        line(f"program = {program_id(context)}")
        open_batch(body, self.planes, f"program // ({across}) // ({down})")
        columns = TileDim("y", self.columns, self.wide, 1, flat=True)
        start = f"program % ({across}) * {self.wide}"
        for symbol in self.taken:
            body.name_axis(symbol, "0", None)
        if apart:
            body.open_clamped(columns, start, apart=True)
        else:
            body.open_dim(columns, start)
        line(f"first = program // ({across}) % ({down}) * {self.high}")
        line(
            f"last = tl.minimum(first + {self.high}, {index_text(self.row.extent, context.names)})"
        )

    def _blocks(self) -> tuple[Expr, Expr]:
        points = product([a.extent for a in self.columns])
        return ceil_div(points, self.wide), ceil_div(self.row.extent, self.high)


def operand_at(body: ShortBody, view: View, index: Sequence[Expr]) -> Node:
    """An element of an operand, by the axes of its view."""
    return load(view.buffer, body.context.buffers[view.buffer].dtype, index_at(view, index))


def outer_start(body: ShortBody, call: Resample | Resample2, output: Expr) -> Node:
    """Where the taps of an output begin along `axis`, such that all lie in the data."""
    return _start(body, call.x.axes[call.axis], call.starts, call.weights, output)


def inner_start(body: ShortBody, call: Resample2, output: Expr) -> Node:
    """The same along `inner`."""
    return _start(body, call.x.axes[call.inner], call.inner_starts, call.inner_weights, output)


def _start(body: ShortBody, axis: Axis, starts: View, weights: View, output: Expr) -> Node:
    begin, last = operand_at(body, starts, (output,)), axis.extent - weights.axes[1].extent
    return clamp_index(begin, last, narrow=not body.context.wide)


def name_output(body: ShortBody, row: Axis, name: str, base: str, behind: int) -> Symbol:
    """Names the output so far behind another along `row`, or the last one."""
    last = f"{index_text(row.extent, body.context.names)} - 1"
    text = f"tl.minimum({base} + {behind}, {last})" if behind else base
    body.writer.line(f"{name} = {text}")
    body.name_axis(var(name), name, None)
    return var(name)


def open_windows(call: Resample | Resample2, hints: Hints) -> int:
    """How many windows along `axis` most input rows lie in; a row of more is read again."""
    size = hints.value(call.x.axes[call.axis].extent)
    out = hints.value(call.output.axes[call.axis].extent)
    taps = int(call.weights.axes[1].extent)
    return max(1, min(MOST_WINDOWS, taps * out // max(1, size)))


def read_begin(
    body: ShortBody, call: Resample | Resample2, k: int, output: Symbol, before: str
) -> None:
    """Writes where window k begins, that of an output; not before another, where one is named.

    The table says so, too; whatever it holds, rows are then rows of the windows that are added.
    """
    text = as_index(body, body.value(outer_start(body, call, output)))
    body.writer.line(f"begin{k} = {f'tl.maximum({text}, {before})' if before else text}")


def as_index(body: ShortBody, value: Value) -> str:
    """The text of a value as an index."""
    return value.text if body.context.wide else f"{value.text}.to(tl.int32)"


def plan_walk(
    kernel: TemplateKernel,
    call: Resample | Resample2,
    context: KernelContext,
    hints: Hints,
    gpu: Gpu,
    inner: int | None = None,
    thread_columns: int = THREAD_COLUMNS,
    most_rows: int = MOST_ROWS,
) -> ResampleWalk:
    """The walk along the call's `axis`. `inner`: the axis that is resized with it, if any."""
    axes = list(call.output.axes)
    row = axes[call.axis]
    steps = _steps(kernel, call, context, hints)
    others = sorted((a for a in axes if a is not row), key=lambda a: -steps[a.symbol])
    # Columns are the axis resized with it and all that memory has within; more where those are few.
    cut = len(others) - 1 if inner is None else others.index(axes[inner])
    while cut > 0 and hints.volume(others[cut:]) < WARP * THREAD_COLUMNS:
        cut -= 1
    planes, columns = tuple(others[:cut]), tuple(others[cut:])
    width = max(1, hints.volume(columns))
    wide = min(WARP * thread_columns, max(WARP, power_above(width)))
    rows = max(1, hints.value(row.extent))
    strips = max(1, hints.volume(planes)) * -(-width // wide)
    return ResampleWalk(planes, row, columns, wide, rows_each(strips * wide, rows, gpu, most_rows))


def rows_each(
    columns: int, rows: int, gpu: Gpu, most: int = MOST_ROWS, busy: int = BUSY_POINTS
) -> int:
    """Rows of a program, `most` at most; few where the device would be idle otherwise.

    `columns`: of all programs side by side. `busy`: see BUSY_POINTS.
    """
    high = most
    while high > LEAST_ROWS and columns * -(-rows // high) < gpu.units * busy:
        high //= 2
    return high


def _steps(
    kernel: TemplateKernel, call: TemplateCall, context: KernelContext, hints: Hints
) -> dict[Symbol, int]:
    """Elements between neighbours along each output axis, in what the kernel writes first."""
    view = call.output
    places = [(s.buffer, s.index) for t in kernel.stages for n in t.nests for s in n.stores]
    written = [p for p in (*places, (view.buffer, view.index)) if p[0] in context.pointers]
    offset = context.offset(*written[0])
    found: dict[Symbol, int] = {}
    for k, axis in enumerate(view.axes):
        step = coefficient_of(offset, axis.symbol)
        # Row-major where it is no plain multiple.
        far = hints.volume(view.axes[k + 1 :])
        found[axis.symbol] = far if step is None else hints.value(step)
    return found
