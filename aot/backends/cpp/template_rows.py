"""Templates that work along the rows of a matrix: scans and sorts, with a fused epilogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import Strided, strided, template_type
from aot.backends.cpp.text import index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    TileSpace,
    along_rows,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.ir.dtypes import BOOL, UINT8, DType
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.templates.argsort import Argsort
from aot.ir.templates.scan import Scan
from aot.symbolic import Expr, Maximum, Minimum, as_expr, ceil_div, integer, is_int, product

_SCAN_ROWS, _SCAN_COLUMNS, _LANE_COLUMNS = 4, 1024, 16
"""kScanRows, kScanColumns and kScanLaneColumns in aot/tmpl/scan.h."""

_SHORT_ROWS = 1024
"""Elements of short rows that are scanned before the first of them is read again."""

_KNOWN_COLUMNS = 16
"""Of a longer row the loop over its columns takes no time beside what it does."""

_LANES = (64, 256)
"""Neighbouring rows of a work unit: least, and where there are units enough."""

_UNITS = 16
"""Enough units."""

_FEW_LANES = 4
"""Fewer neighbouring rows are scanned one by one."""

_LINE, _PITCH, _COPIED_BYTES = 64, 64, 5 << 20
"""Bytes of a cache line; `sort_pitch` in aot/tmpl/sort.h; and of rows that are copied together."""


@dataclass(frozen=True)
class _Rows:
    """A kernel over the rows of x, taken apart."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: Scan | Argsort
    context: KernelContext
    space: TileSpace
    x: Strided
    x_dtype: DType
    out_dtype: DType

    def fields(self) -> dict[str, str]:
        """The arguments that every row template takes."""
        view = self.call.x
        pointer = f"{self.context.pointers[view.buffer]} + ({self.text(self.x.offset)})"
        return {
            "x": f"reinterpret_cast<const {_element(self.x_dtype)}*>({pointer})",
            "row": self.text(self.x.strides[0]),
            "col": self.text(self.x.strides[1]),
            "m": self.text(view.axes[0].extent),
            "n": self.text(view.axes[1].extent),
        }

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)


def emit_scan(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a scan."""
    call = template_call(kernel, Scan)
    t = _take_apart(kernel, graph, call)
    config = {"aot::tmpl::Combine COMBINE": f"aot::tmpl::Combine::{call.combine}"}
    rows, columns = (a.extent for a in t.call.x.axes)
    function, prefix = ("places", "Places") if call.places else ("scan", "Scan")
    turned = _side_by_side(t)
    if turned is not None:
        lanes = _LANES[is_int(rows) and int(rows) >= _UNITS * _LANES[1]]
        config["int64_t LANES"] = str(lanes)
        room = integer(lanes * _LANE_COLUMNS * t.out_dtype.compute.itemsize)
        return _finish(turned, function, prefix, config, {}, (ceil_div(rows, lanes), room))
    padded = product((ceil_div(columns, 16), integer(16)))
    held = Minimum(padded, integer(_SCAN_COLUMNS))
    together = _SCAN_ROWS
    if is_int(padded) and 0 < int(padded) < _SHORT_ROWS // _SCAN_ROWS:
        together = _SHORT_ROWS // int(padded)
        config["int64_t ROWS"] = str(together)
        if int(columns) <= _KNOWN_COLUMNS:
            config["int64_t COLUMNS"] = str(columns)
    scratch = product((held, integer(together * t.out_dtype.compute.itemsize)))
    return _finish(t, function, prefix, config, {}, (ceil_div(rows, together), scratch))


def emit_argsort(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is an argsort."""
    call = template_call(kernel, Argsort)
    t = _take_apart(kernel, graph, call)
    config = {"bool DESCENDING": "true" if call.descending else "false"}
    rows, columns = (a.extent for a in t.call.x.axes)
    scratch = sort_room(columns, call.kept) * 32 + call.kept * 8
    extra = {"k": t.text(call.kept)}
    group = _copied_rows(t)
    if group > 1:
        config |= {"int64_t GROUP": str(group), "int64_t N": str(columns)}
        pitch = -(-int(columns) // _PITCH) * _PITCH + _PITCH
        scratch += product((ceil_div(call.kept, 16), integer(128))) - call.kept * 8
        scratch += group * pitch * t.x_dtype.itemsize
    if call.skipped is not None:
        extra["first"] = t.text(call.skipped)
    return _finish(t, "argsort", "Sort", config, extra, (rows, scratch))


def _side_by_side(t: _Rows) -> _Rows | None:
    """The kernel with tiles turned, where rows are neighbours in memory and in all its results."""
    rows, columns = t.x.strides
    few = is_int(t.space.rows.extent) and int(t.space.rows.extent) < _FEW_LANES
    if few or rows != 1 or columns == 1:
        return None
    space = replace(t.space, turned=True)
    context = tile_context(t.context, space, t.out_dtype.compute)
    if not along_rows(epilogue_nests(t.kernel, space, context), context):
        return None
    return replace(t, space=space, context=context)


def _copied_rows(t: _Rows) -> int:
    """Rows of a selection that are copied together, as they lie side by side; 1: they are not."""
    (rows, columns), (row, column) = (a.extent for a in t.call.x.axes), t.x.strides
    assert isinstance(t.call, Argsort)
    if t.call.skipped is None or row != 1 or column == 1 or not is_int(rows) or not is_int(columns):
        return 1
    size = max(int(columns), 1) * t.x_dtype.itemsize
    return min(_LINE // t.x_dtype.itemsize, int(rows), _COPIED_BYTES // size)


def sort_room(n: Expr, k: Expr) -> Expr:
    """Items that a sort of the first k of n holds at once; `sort_room` in aot/tmpl/sort.h."""
    return Minimum(as_expr(n), Maximum(4 * as_expr(k), integer(64)))


def _element(dtype: DType) -> str:
    return template_type(UINT8 if dtype == BOOL else dtype)


def _take_apart(kernel: TemplateKernel, graph: KernelGraph, call: Scan | Argsort) -> _Rows:
    view = call.x
    row, column = call.output.axes
    x_dtype = graph.buffers[view.buffer].dtype
    out_dtype = graph.buffers[call.output.buffer].dtype
    space = tile_space(row.extent, column.extent, {row.symbol: ROW, column.symbol: COLUMN})
    context = tile_context(make_context(kernel, graph), space, out_dtype.compute)
    x = strided(call, view, graph.buffers, context.ranges)
    return _Rows(kernel, graph, call, context, space, x, x_dtype, out_dtype)


def _finish(
    t: _Rows,
    function: str,
    prefix: str,
    config: Mapping[str, str],
    extra: Mapping[str, str],
    launch: tuple[Expr, Expr],
) -> EmittedKernel:
    body, sizes = open_template(t.kernel, t.graph, t.context)
    writer = body.writer
    nests = epilogue_nests(t.kernel, t.space, t.context)
    emit_epilogue(body, nests, t.space, t.out_dtype.compute)
    writer.line(f"aot::tmpl::{prefix}Args<{NAME}_config> call;")
    for name, value in {**t.fields(), **extra}.items():
        writer.line(f"call.{name} = {value};")
    writer.line(f"aot::tmpl::{function}(call, begin, end, args->scratch, epilogue);")
    head = [
        "namespace {",
        f"struct {NAME}_config : aot::tmpl::{prefix}Config {{",
        f"  using A = {_element(t.x_dtype)};",
        *(f"  static constexpr {name} = {value};" for name, value in config.items()),
        "};",
        "}",
        "",
    ]
    work, scratch = launch
    return EmittedKernel(
        writer.text(),
        argument_buffers(t.kernel),
        sizes,
        work,
        scratch,
        head="\n".join(head),
        headers=(f"aot/tmpl/{prefix.lower()}.h",),
        grain=1,
    )
