"""Recurrences: a call of aot/tmpl/recurrence.h with a fused epilogue."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import (
    SHARED_TABLES,
    fixed,
    pack_weight,
    shared_tables,
    strided,
    template_type,
)
from aot.backends.cpp.packing import PANEL, packed_matmul_shape
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TileSpace,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.ir.dtypes import INT64, DType
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Buffer, DerivedWeight, View
from aot.ir.templates.recurrence import GATES, Recurrence, Spread
from aot.symbolic import Expr, ceil_div, integer, is_int, product

_EPILOGUE = (
    "const auto {name} = [=](int64_t step, int64_t m0, int64_t m1, const {element}* tile, "
    "int64_t ld)"
)
_SHARED_EPILOGUE = (
    "const auto {name} = [=](int64_t step, int64_t m0, int64_t m1, int64_t n0, int64_t n1, "
    "const {element}* tile, int64_t ld)"
)

_ROWS, _MANY_ROWS = 16, 32
"""Elements of the batch that a work unit takes: many where the weight is beyond `_CACHED`."""

_SHARE_UNITS, _MARKS_APART = 32, 8
"""kShareUnits and kApart in aot/tmpl/recurrence.h."""

_CACHED = 1 << 19
"""Bytes of a weight that a core's second-level cache gives to every step of every work unit."""


@dataclass(frozen=True)
class SharedSteps(Spread):
    """Where threads share out each step: the batch alone would leave them idle."""

    def marks(self, call: Recurrence, dtype: DType) -> tuple[DType, Expr]:
        """A mark for each share and a counter, a cache line each, and the states behind them."""
        batch = call.x.axes[1].extent
        marks = (_shares(call, self.rows) + 1) * _MARKS_APART
        states = product((integer(3), batch, call.units))
        return INT64, marks + ceil_div(states, INT64.itemsize // dtype.itemsize)


SHARED = SharedSteps(
    least_elements=1 << 16, most_depth=4096, rows=_ROWS, most_batch=_ROWS, whole=PANEL
)
"""Of smaller matrices a step takes little longer than to tell other threads that it is over."""


def _shares(call: Recurrence, rows: int) -> Expr:
    """Of one step: blocks of the batch times blocks of the units."""
    blocks = ceil_div(call.x.axes[1].extent, integer(rows))
    return product((blocks, ceil_div(call.units, integer(_SHARE_UNITS))))


@dataclass(frozen=True)
class _Recurrence:
    """One recurrence kernel, taken apart."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: Recurrence
    context: KernelContext
    space: TileSpace
    dtype: DType

    @property
    def rows(self) -> int:
        """Elements of the batch of a work unit."""
        sizes = [a.extent for a in self.call.weight.axes]
        if self.call.marks is not None or not all(is_int(s) for s in sizes):
            return _ROWS
        return _ROWS if int(product(sizes)) * self.dtype.itemsize <= _CACHED else _MANY_ROWS

    @property
    def scratch(self) -> Expr:
        """Bytes; the twin of the places that `Recurrence` of recurrence.h takes."""
        call, units = self.call, self.call.units
        gates = units * GATES[call.cell]
        elements = self.rows * (_padded(gates) + 3 * _padded(units))
        if self.kernel.packed is None:
            elements += call.size * _padded(gates)
        if call.projection is not None:
            elements += units * _padded(call.size)
        return product((elements, integer(self.dtype.itemsize)))

    @property
    def tables(self) -> tuple[str, ...]:
        """Whose micro-kernels it shares: none, if its batch is a constant."""
        return shared_tables(self.dtype, heights_known=is_int(self.space.rows.extent))

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)


def emit_recurrence(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a recurrence."""
    t = _take_apart(kernel, graph)
    body, sizes = open_template(kernel, graph, t.context)
    writer = body.writer
    nests = epilogue_nests(kernel, t.space, t.context)
    shared = t.call.marks is not None
    if shared:
        emit_epilogue(body, nests, t.space, t.dtype, _SHARED_EPILOGUE)
    else:
        columns = f"const int64_t n0 = 0, n1 = {t.text(t.space.columns.extent)};"
        emit_epilogue(body, nests, t.space, t.dtype, _EPILOGUE, (columns,))
    writer.line(f"aot::tmpl::RecurrenceArgs<{NAME}_config> call;")
    for name, value in _fields(t).items():
        writer.line(f"call.{name} = {value};")
    function = "shared_recurrence" if shared else "recurrence"
    writer.line(f"aot::tmpl::{function}(call, begin, end, args->scratch, epilogue);")
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        _shares(t.call, t.rows) if shared else ceil_div(t.space.rows.extent, t.rows),
        t.scratch,
        head=_config(t),
        headers=("aot/tmpl/recurrence.h",),
        grain=1,
        tables=t.tables,
    )


def pack_recurrence(kernel: TemplateKernel, graph: KernelGraph) -> tuple[Buffer, DerivedWeight]:
    """The buffer for the packed form of a weight, and how it is computed."""
    view = template_call(kernel, Recurrence).weight
    depth, columns = (int(a.extent) for a in view.axes)
    shape = packed_matmul_shape(depth, columns, graph.buffers[view.buffer].dtype.numpy)
    return pack_weight(graph.buffers[view.buffer], view, "pack_matmul", shape)


def _padded(size: Expr) -> Expr:
    return product((ceil_div(size, PANEL), integer(PANEL)))


def _take_apart(kernel: TemplateKernel, graph: KernelGraph) -> _Recurrence:
    call = template_call(kernel, Recurrence)
    step, row, column = call.output.axes
    axes = {step.symbol: step.symbol, row.symbol: ROW, column.symbol: COLUMN}
    space = tile_space(row.extent, column.extent, axes)
    dtype = graph.buffers[call.x.buffer].dtype
    context = tile_context(make_context(kernel, graph), space, dtype)
    known = {**context.ranges.extents, step.symbol: step.extent}
    context = replace(
        context,
        names={**context.names, step.symbol: "step"},
        ranges=context.ranges.with_extents(known),
    )
    return _Recurrence(kernel, graph, call, context, space, dtype)


def _config(t: _Recurrence) -> str:
    call = t.call
    flags = {
        "BACKWARDS": call.backwards,
        "ENDS": call.ends,
        "PACKED": t.kernel.packed is not None,
        "PROJECTED": call.projection is not None,
        "BIAS": call.bias is not None,
    }
    lines = [
        f"struct {NAME}_config : aot::tmpl::RecurrenceConfig {{",
        f"  using A = {template_type(t.dtype)};",
        f"  static constexpr aot::tmpl::Cell CELL = aot::tmpl::Cell::{call.cell};",
        f"  static constexpr int64_t ROWS = {t.rows};",
        f"  static constexpr int64_t BATCH = {fixed(t.space.rows.extent)};",
        f"  static constexpr int64_t UNITS = {fixed(call.units)};",
        *(f"  static constexpr bool {n} = {str(flag).lower()};" for n, flag in flags.items()),
        *[SHARED_TABLES] * len(t.tables),
        "};",
    ]
    return "\n".join(["namespace {", *lines, "}", ""])


def _fields(t: _Recurrence) -> dict[str, str]:
    """The arguments: places and strides of the operands, and sizes."""
    call = t.call
    at, (step, row, _) = _place(t, call.x)
    fields = {"x": at, "x_step": step, "x_row": row}
    for role in ("weight", "hidden", "state", "projection"):
        view: View | None = getattr(call, role)
        if view is not None:
            at, strides = _place(t, view)
            fields[role] = f"{{{', '.join((at, *strides))}}}"
    if call.bias is not None:
        fields["bias"], _ = _place(t, call.bias)
    if call.marks is not None:
        marks = t.context.pointers[call.marks.buffer]
        fields["marks"] = f"const_cast<int64_t*>({marks})"
    sizes = {"steps": call.steps, "units": call.units, "size": call.size}
    fields |= {name: t.text(size) for name, size in sizes.items()}
    return {**fields, "batch": t.text(t.space.rows.extent)}


def _place(t: _Recurrence, view: View) -> tuple[str, list[str]]:
    """Where an operand begins, and its strides; a packed one has no use for these."""
    kind, name = template_type(t.dtype), t.kernel.argument(view.buffer)
    pointer = t.context.pointers[name]
    if name != view.buffer:
        return f"reinterpret_cast<const {kind}*>({pointer})", ["0" for _ in view.axes]
    found = strided(t.call, view, t.graph.buffers, t.context.ranges)
    place = f"{pointer} + ({t.text(found.offset)})"
    return f"reinterpret_cast<const {kind}*>({place})", [t.text(s) for s in found.strides]
