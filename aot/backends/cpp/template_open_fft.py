"""Fourier transforms of a number of points that only a run knows: a call of aot/tmpl/fft_open.h."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import Strided, template_type
from aot.backends.cpp.template_fft import (
    COLUMNS,
    EPILOGUE,
    ROWS,
    VECTOR,
    RowsOfResults,
    copied_to,
    turned_to,
    write_rows,
)
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.templates.open_fft import OpenFft
from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    as_expr,
    ceil_div,
    integer,
    is_int,
    product,
)

_LANES = 1 << 13
"""kOpenLanes in aot/tmpl/fft_open.h."""

_TABLED, _FINE = 1 << 16, 32
"""kUnsplitTable and kFineRows in aot/tmpl/fft_plan.h."""

_GROUPED = 1024
"""Points of the rows of a work unit: open_group in fft_open.h."""


@dataclass(frozen=True)
class _OpenFft(RowsOfResults):
    """A kernel with a call of an open length."""

    call: OpenFft

    @property
    def is_rows(self) -> bool:
        """Whether transforms have no neighbours."""
        return is_int(self.call.re.axes[2].extent, 1)

    @cached_property
    def turned(self) -> Strided | None:
        """Where results of neighbouring transforms are written at once, each a row of its own."""
        view = copied_to(self.kernel)
        if view is None or self.is_rows or self.destination is not None:
            return None
        inner, parts = self.call.re.axes[2].extent, 1 if self.call.real == "back" else 2
        return turned_to(view, inner, parts, self.graph.buffers, self.context)

    @property
    def is_written(self) -> bool:
        """Whether the template writes results where they belong; else an epilogue does."""
        return self.destination is not None or self.turned is not None

    @property
    def group(self) -> Expr:
        """Rows of a work unit."""
        each = FloorDiv(integer(_GROUPED), as_expr(Maximum(self.call.n, integer(1))))
        return as_expr(Maximum(integer(1), Minimum(integer(ROWS), each)))

    @property
    def units(self) -> Expr:
        """How many work units there are."""
        outer, _, inner = (a.extent for a in self.call.re.axes)
        if self.is_rows:
            return ceil_div(outer, self.group)
        if not self.is_written:
            return outer
        return product((outer, ceil_div(inner, integer(COLUMNS))))

    def fields(self) -> dict[str, str]:
        """The arguments of the template."""
        call = self.call
        outer, _, inner = (a.extent for a in call.re.axes)
        found = {"re": self.pointer(call.re)}
        found["im"] = "nullptr" if call.im is None else self.pointer(call.im)
        for role, view in (("re", call.re), ("im", call.im or call.re)):
            names = (f"{role}_outer", f"{role}_step", f"{role}_inner")
            found |= dict(zip(names, map(self.text, self.place(view).strides), strict=True))
        found |= {"outer": self.text(outer), "n": self.text(call.n), "inner": self.text(inner)}
        if self.turned is not None:
            found["apart"] = self.text(self.turned.strides[2])
        found["scale"] = f"{template_type(self.dtype)}({call.scale!r})"
        return found

    def config(self) -> str:
        """What the template is compiled for."""
        real = {"": "NONE", "back": "BACK"}.get(self.call.real, "THERE")
        flags = {
            "INVERSE": self.call.inverse,
            "ROWS": self.is_rows,
            "WHOLE": not self.is_written,
            "TURNED": self.turned is not None,
            "ALL": self.call.real == "whole",
        }
        lines = [
            f"struct {NAME}_config : aot::tmpl::OpenFftConfig {{",
            f"  using A = {template_type(self.dtype)};",
            f"  static constexpr auto REAL = aot::tmpl::FftReal::{real};",
            *(f"  static constexpr bool {k} = {str(v).lower()};" for k, v in flags.items()),
            "};",
        ]
        return "\n".join(["namespace {", *lines, "}", ""])

    def scratch(self) -> Expr:
        """Bytes of scratch; transforms by a chirp have at most 5/2 n points, and some.

        Lengths with small factors alone, of which a run knows, take a third of it.
        """
        n, itemsize = self.call.n, self.dtype.itemsize
        size = FloorDiv(5 * n, integer(2)) + 64
        # The greater of two steps has at most 13 times the root of all points.
        step = as_expr(Minimum(size, integer(2752) + FloorDiv(size, integer(64))))
        # Factors between two steps: one table for each point, or a fine and a coarse one.
        fine = as_expr(Minimum(FloorDiv(size, integer(_TABLED)), 1)) * step * 2 * _FINE
        tables = 2 * as_expr(Minimum(size, _TABLED)) + FloorDiv(size, integer(_FINE // 2)) + fine
        # A row: its points, turned, results; the chirp and its response.
        row = itemsize * (6 * size + 4 * n + tables + 6 * step + 4096)
        side = step if self.is_rows else Maximum(step, Minimum(size, integer(_LANES)))
        held = 3 * 2 * VECTOR * as_expr(side)
        if not self.is_rows:
            held += 2 * VECTOR * (n + 1)  # results of neighbours that are computed one by one
        powers = 64 * (1024 + FloorDiv(n, integer(64)))
        return (row + held + powers + 64 * VECTOR + self.tile_bytes()).expand()

    def tile_bytes(self) -> Expr:
        """Of the rows of results that an epilogue reads."""
        if self.is_written:
            return integer(0)
        rows = self.group if self.is_rows else integer(1)
        return product((self.call.output.axes[1].extent, rows, integer(self.dtype.itemsize)))


def emit_open_fft(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a transform of a length that a run knows."""
    call = template_call(kernel, OpenFft)
    row, column = call.output.axes
    dtype = graph.buffers[call.re.buffer].dtype
    axes = {row.symbol: ROW, column.symbol: COLUMN}
    space = tile_space(row.extent, column.extent, axes, aligned=False)
    context = tile_context(make_context(kernel, graph), space, dtype)
    t = _OpenFft(kernel, graph, call, context, dtype)
    body, sizes = open_template(kernel, graph, context)
    writer = body.writer
    if not t.is_written:
        emit_epilogue(body, epilogue_nests(kernel, space, context), space, dtype, EPILOGUE)
    writer.line(f"aot::tmpl::OpenFftArgs<{NAME}_config> call{{}};")
    for name, value in t.fields().items():
        writer.line(f"call.{name} = {value};")
    group = f"({t.text(t.group)})" if t.is_rows else ""
    write_rows(t, t.destination or t.turned, "fft_open", group, writer)
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        t.units,
        t.scratch(),
        head=t.config(),
        headers=("aot/tmpl/fft_open.h",),
        grain=t.grain,
    )
