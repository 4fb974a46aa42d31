"""Resizing along two axes at once where outputs have many taps: the outer axis first.

A program walks down the columns of the image that some outputs read (`WindowsAhead`).
Then its threads need sums of each other: a row of sums goes through memory of the program's own,
the workspace, which stays in the caches, so that no image is written in between.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.dot import finish_tile, open_batch
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.ops import conversion
from aot.backends.triton.resample_ahead import WindowsAhead
from aot.backends.triton.resample_walk import (
    as_index,
    inner_start,
    operand_at,
    rows_each,
)
from aot.backends.triton.short_reduction import ShortBody
from aot.backends.triton.text import Writer, index_text
from aot.backends.triton.tiling import WARP
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer
from aot.ir.scalar import Node
from aot.ir.templates.resample2 import Resample2
from aot.symbolic import (
    Expr,
    ceil_div,
    coefficient_of,
    integer,
    power_above,
    product,
    row_major_strides,
    var,
)

THREAD_COLUMNS = 4
"""Inputs of a row for one thread: one vector."""

SHARED_PART = 3.5
"""A program reads so many times what a window is wide, at least: neighbours read windows at their
borders both. Otherwise programs are small, as they wait for memory most of the time."""

MOST_ROWS = 16
"""Rows of a program: with 32 2000^2 to 224^2 took 83 us on an H200 for 88, but 2830^2 173, 148."""

BUSY_POINTS = WARP * THREAD_COLUMNS * 3
"""Inputs of a row per unit of the device, as in a walk along one axis."""

MOST_INSIDE = 4
"""Elements of a pixel in memory (channels) that a program takes together."""

ALIGNED = 4
"""Inputs begin at multiples of so many, for reads of vectors."""

ROWS_KEPT = 2
"""Rows of sums in the workspace: one is written while another may still be read."""

_COLUMN = var("column")
"""The place in an input row, in elements."""


class Shifted(TileDim):
    """A dimension whose tile begins anywhere, and so may always end beyond the last point."""

    @property
    def is_exact(self) -> bool:
        """Never: a mask is needed."""
        return False


@dataclass(frozen=True)
class Strips:
    """What a kernel's programs do.

    `planes`: axes with one program each at least. `row`, `inner`: the output axes that are resized.
    `inside`: those whose elements are neighbours within a pixel. `wide`: inputs of a row that a
    program sums; `each`: outputs along `inner` that it makes from them, in `lanes`, as a rule all
    in one walk. `high`: rows that it makes.
    """

    planes: tuple[Axis, ...]
    row: Axis
    inner: Axis
    inside: tuple[Axis, ...]
    wide: int
    each: int
    lanes: int
    high: int

    @property
    def pixel(self) -> int:
        """Elements inside."""
        return int(product([a.extent for a in self.inside]))

    @property
    def across(self) -> Expr:
        """Programs side by side."""
        return ceil_div(self.inner.extent, self.each)

    @property
    def down(self) -> Expr:
        """Programs one below the other."""
        return ceil_div(self.row.extent, self.high)

    @property
    def programs(self) -> Expr:
        """How many there are."""
        return product((*(a.extent for a in self.planes), self.across, self.down))


def workspace(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> Buffer | None:
    """What the programs of a resample2 kernel share out between them, where they need it."""
    if template_call(kernel, Resample2).first != "outer":
        return None
    strips = _plan(kernel, make_context(kernel, graph, gpu), hints, gpu)
    dtype = graph.buffers[template_call(kernel, Resample2).weights.buffer].dtype
    shape = (strips.programs, integer(ROWS_KEPT * strips.wide))
    return Buffer(f"{kernel.name}_workspace", dtype, shape, row_major_strides(shape), "temp")


def emit_resample_outer(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a resample2 call whose outer axis comes first, and its epilogue."""
    context = make_context(kernel, graph, gpu)
    strips = _plan(kernel, context, hints, gpu)
    body = ShortBody(context, Writer())
    _Strip(body, kernel, strips, hints).emit()
    options = {"num_warps": max(1, strips.wide // (WARP * THREAD_COLUMNS)), "num_stages": 1}
    return finish(kernel, body, line_grid(strips.programs), options)


def _plan(kernel: TemplateKernel, context: KernelContext, hints: Hints, gpu: Gpu) -> Strips:
    call = template_call(kernel, Resample2)
    row, inner = (call.output.axes[at] for at in (call.axis, call.inner))
    inside = _inside(call, context)
    planes = tuple(a for a in call.output.axes if a not in (row, inner, *inside))
    pixel = int(product([a.extent for a in inside]))
    taps = int(call.inner_weights.axes[1].extent)
    size = max(1, hints.value(call.x.axes[call.inner].extent))
    out = max(1, hints.value(inner.extent))
    wide = power_above(max(WARP * THREAD_COLUMNS, int(SHARED_PART * (taps + ALIGNED) * pixel)))
    fitting = (wide // pixel - taps - ALIGNED) * out // size
    count = -(-out // max(1, fitting))
    each = -(-out // count)
    columns = max(1, hints.volume(planes)) * count * wide
    high = rows_each(columns, max(1, hints.value(row.extent)), gpu, MOST_ROWS, BUSY_POINTS)
    lanes = power_above(each * pixel)
    return Strips(planes, row, inner, inside, wide, each, lanes, high)


def _inside(call: Resample2, context: KernelContext) -> tuple[Axis, ...]:
    """The axes within the inner one where they are short and pixels lie side by side in x."""
    x = call.x
    offset = context.offset(x.buffer, x.index)
    steps = [coefficient_of(offset, a.symbol) for a in x.axes]
    pixel = steps[call.inner]
    if pixel is None or not pixel.is_Integer or not 1 < int(pixel) <= MOST_INSIDE:
        return ()
    within = {
        axis: int(step)
        for step, axis in zip(steps, call.output.axes, strict=True)
        if step is not None and step.is_Integer and 0 < int(step) < int(pixel)
    }
    axes = sorted(within, key=lambda axis: -within[axis])
    extents = [axis.extent for axis in axes]
    dense = row_major_strides(extents) == tuple(integer(within[axis]) for axis in axes)
    return tuple(axes) if dense and product(extents) == pixel else ()


class _Strip:
    """Writes what a program does. Use once: `emit`.

    `outputs`: the first output of a walk; `begin`: the first input that it sums.
    """

    def __init__(
        self, body: ShortBody, kernel: TemplateKernel, strips: Strips, hints: Hints
    ) -> None:
        self._body, self._kernel, self._strips = body, kernel, strips
        self._call = template_call(kernel, Resample2)
        self._line = body.writer.line
        x = self._call.x
        self._size = x.axes[self._call.inner].extent
        # What lies within a pixel of x lies side by side: all of a row is one axis, `column`.
        *outer, last = (a.symbol for a in (strips.inner, *strips.inside))
        columns = {**dict.fromkeys(outer, integer(0)), last: _COLUMN}
        self._taps = int(self._call.inner_weights.axes[1].extent)
        self._windows = WindowsAhead(
            body, self._call, strips.wide, hints, THREAD_COLUMNS, columns, self._taps
        )

    def emit(self) -> None:
        body, strips, line = self._body, self._strips, self._line
        names = body.context.names
        across, down = (index_text(e, names) for e in (strips.across, strips.down))
        line(f"program = {program_id(body.context)}")
        open_batch(body, strips.planes, f"program // ({across}) // ({down})")
        line(f"outputs = program % ({across}) * {strips.each}")
        extent = index_text(strips.inner.extent, names)
        line(f"outputs_end = tl.minimum(outputs + {strips.each}, {extent})")
        line(f"first = program // ({across}) % ({down}) * {strips.high}")
        line(f"last = tl.minimum(first + {strips.high}, {index_text(strips.row.extent, names)})")
        space = body.context.pointers[self._kernel.workspace]
        line(f"own = {space} + program * {ROWS_KEPT * strips.wide}")
        body.wait()
        # As a rule once; outputs whose windows lie further apart than most take another walk.
        with body.loop("while outputs < outputs_end"):
            self._open_columns()
            self._open_outputs()
            self._weigh()
            self._windows.emit(self._finish)
            line(f"outputs += tl.sum(z_in.to(tl.int32)){self._by_pixel('//')}")
            line("tl.debug_barrier()")

    def _by_pixel(self, sign: str) -> str:
        """What turns pixels into elements ("*"), or back ("//")."""
        pixel = self._strips.pixel
        return f" {sign} {pixel}" if pixel > 1 else ""

    def _open_columns(self) -> None:
        """The inputs `y`, from the first that the outputs read."""
        body, strips = self._body, self._strips
        body.name_axis(var("outputs"), "outputs", None)
        start = body.value(inner_start(body, self._call, var("outputs")))
        self._line(f"begin = {as_index(body, start)} // {ALIGNED} * {ALIGNED}")
        row = Axis(_COLUMN, self._size * strips.pixel)
        body.open_dim(Shifted("y", (row,), strips.wide, 1), f"begin{self._by_pixel('*')}")

    def _open_outputs(self) -> None:
        """The outputs `z` whose inputs all are among `y`, which are read as far as these need."""
        body, strips, line = self._body, self._strips, self._line
        dim = Shifted("z", (strips.inner, *strips.inside), strips.lanes, 1, flat=True)
        each = self._by_pixel("*")
        body.open_dim(dim, f"outputs{each}")
        line(f"z_in = z < outputs_end{each}")
        start = inner_start(body, self._call, strips.inner.symbol)
        line(f"from_begin = {as_index(body, body.value(start))} - begin")
        # Outputs before the first one's inputs are never there, unless the table is a wrong one.
        line("z_in = z_in & (from_begin >= 0)")
        line(f"z_in = z_in & (from_begin + {self._taps} <= {strips.wide // strips.pixel})")
        line("last_begin = tl.max(tl.where(z_in, from_begin, 0))")
        beyond = self._taps + ALIGNED - 1  # masks that are equal within a vector
        line(f"wanted = (last_begin + {beyond}) // {ALIGNED} * {ALIGNED}")
        line(f"y_in = y_in & (y < (begin + wanted){each})")

    def _weigh(self) -> None:
        """Weights of the inner axis are read before the rows."""
        for tap in range(self._taps):
            self._body.value(self._weight(tap))

    def _weight(self, tap: int) -> Node:
        at = (self._strips.inner.symbol, integer(tap))
        return operand_at(self._body, self._call.inner_weights, at)

    def _finish(self, sums: str) -> None:
        """An output row, when the sums of its columns are there."""
        body, strips, line = self._body, self._strips, self._line
        line(f"kept = own + at % {ROWS_KEPT} * {strips.wide}")
        line(f"tl.store(kept + tl.arange(0, {strips.wide})[None, :], {sums})")
        line("tl.debug_barrier()")
        within = f" + z % {strips.pixel}" if strips.pixel > 1 else ""
        line(f"mine = kept + from_begin{self._by_pixel('*')}{within}")
        for tap in range(self._taps):
            value = f"tl.load(mine + {tap * strips.pixel}, mask=z_in, other=0)"
            term = f"{value} * {body.value(self._weight(tap)).text}"
            line(f"total = total + {term}" if tap else f"total = {term}")
        dtype = self._windows.sums
        wanted = body.context.buffers[self._call.output.buffer].dtype
        finish_tile(body, self._kernel, conversion("total", dtype, wanted), frozenset(("z",)))
