"""Resizing of bytes along two axes: a call of aot/tmpl/resample_bytes.h."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import Strided, strided, template_type
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
from aot.errors import InternalError
from aot.ir.dtypes import UINT8
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import View
from aot.ir.templates.resample_bytes import Images, ResampleBytes
from aot.symbolic import Expr, FloorDiv, Modulo, ceil_div, integer, product

_ROWS, _MOST_LANES = 16, 4
"""kByteRows and ByteRoom::kMost in aot/tmpl/resample_bytes.h."""

_OWN_PIXELS = (1, 3, 4)
"""Elements of a pixel that the template has vectors for."""

_UNIT_FLOPS = 1 << 18
"""That are worth a thread: a vector of products is a few of them."""


@dataclass(frozen=True)
class _Resize:
    """A kernel with a call, and what its text is made from."""

    call: ResampleBytes
    graph: KernelGraph
    context: KernelContext

    def place(self, view: View) -> Strided:
        """A view's strides."""
        return strided(self.call, view, self.graph.buffers, self.context.ranges)

    @cached_property
    def images(self) -> Images:
        """How the images lie in memory.

        Raises:
            InternalError: Not as the template reads them; the layout pass should have copied them.
        """
        found = self.call.images(self.place(self.call.x).strides)
        if found is None:
            raise InternalError(f"{self.call.name} reads images whose pixels lie apart")
        return found

    @property
    def counts(self) -> tuple[Expr, Expr]:
        """Images: their number along the outer one of the axes that tell them apart, and the rest.

        Where fewer axes do, it is 1.
        """
        extents = [self.call.x.axes[k].extent for k in self.images.others]
        outer, planes = (integer(1), integer(1), *extents)[-2:]
        return outer, planes

    @property
    def row_elements(self) -> Expr:
        """Elements of a row of results."""
        return self.call.output.axes[self.call.inner].extent * self.images.pixel

    def space(self) -> TileSpace:
        """Rows of all images; columns are the elements of their pixels."""
        call, images = self.call, self.images
        axes, (outer, planes) = call.output.axes, self.counts
        height = axes[call.axis].extent
        picture = FloorDiv(ROW, height)
        index = {axes[call.axis].symbol: Modulo(ROW, height)}
        index[axes[call.inner].symbol] = FloorDiv(COLUMN, integer(images.pixel))
        if images.inside is not None:
            index[axes[images.inside].symbol] = Modulo(COLUMN, integer(images.pixel))
        coordinates = (FloorDiv(picture, planes), Modulo(picture, planes))
        told = coordinates[2 - len(images.others) :]
        index |= {axes[k].symbol: at for k, at in zip(images.others, told, strict=True)}
        rows = product((outer, planes, height))
        return tile_space(rows, self.row_elements, index, aligned=False)

    def scratch(self) -> Expr:
        """ByteRoom::bytes of aot/tmpl/resample_bytes.h."""
        call, pixel = self.call, self.images.pixel
        out, size = (v.axes[call.inner].extent for v in (call.output, call.x))
        taps, inner = (v.axes[1].extent for v in (call.weights, call.inner_weights))
        line = _lines(out * pixel + 64)
        parts = (
            _lines(out * 8),
            _lines(out * ceil_div(inner, integer(8)) * 16),
            _lines(ceil_div(taps, integer(2)) * 24),
            (taps + _MOST_LANES + 1 + _ROWS) * line,
            _MOST_LANES * _lines(size * pixel + 64),
        )
        return sum(parts, integer(0)).expand()


def _lines(count: Expr) -> Expr:
    """Bytes up to a multiple of 64."""
    return ceil_div(count, integer(64)) * 64


def emit_resample_bytes(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template resizes bytes."""
    call = template_call(kernel, ResampleBytes)
    plain = _Resize(call, graph, make_context(kernel, graph))
    space = plain.space()
    t = _Resize(call, graph, tile_context(plain.context, space, UINT8))
    body, sizes = open_template(kernel, graph, t.context)
    emit_epilogue(body, epilogue_nests(kernel, space, t.context), space, UINT8)
    weights = template_type(graph.buffers[call.weights.buffer].dtype)
    body.writer.line(f"aot::tmpl::ResampleBytesArgs<{weights}> call{{}};")
    for name, value in _fields(t):
        body.writer.line(f"call.{name} = {value};")
    pixel = t.images.pixel if t.images.pixel in _OWN_PIXELS else 0
    body.writer.line(
        f"aot::tmpl::resample_bytes<{pixel}>(call, begin, end, args->scratch, "
        "[&](auto... at) { epilogue(at...); });"
    )
    height = ceil_div(call.output.axes[call.axis].extent, integer(_ROWS))
    units = product((*t.counts, height))
    return EmittedKernel(
        body.writer.text(),
        argument_buffers(kernel),
        sizes,
        units,
        t.scratch(),
        headers=("aot/tmpl/resample_bytes.h",),
        grain=_grain(call, graph, units),
    )


def _fields(t: _Resize) -> list[tuple[str, str]]:
    """The template's arguments."""
    call, x = t.call, t.place(t.call.x)

    def text(expr: Expr) -> str:
        return index_text(expr, t.context.names)

    steps = [x.strides[k] for k in t.images.others]
    outer_step, plane_step = (integer(0), integer(0), *steps)[-2:]
    outer, planes = t.counts
    found = [
        ("x", f"{t.context.pointers[call.x.buffer]} + ({text(x.offset)})"),
        ("outer", text(outer)),
        ("planes", text(planes)),
        ("outer_step", text(outer_step)),
        ("plane_step", text(plane_step)),
        ("row_step", text(x.strides[call.axis])),
        ("pixel", str(t.images.pixel)),
    ]
    for name, axis, views in (
        ("rows", call.axis, (call.starts, call.weights, call.bits)),
        ("columns", call.inner, (call.inner_starts, call.inner_weights, call.inner_bits)),
    ):
        starts, weights, bits = (_element(t, view) for view in views)
        sizes = (call.output.axes[axis], views[1].axes[1], call.x.axes[axis])
        extents = ", ".join(text(a.extent) for a in sizes)
        found.append((name, f"{{{starts}, {weights}, {extents}, *({bits})}}"))
    return found


def _element(t: _Resize, view: View) -> str:
    """The address of a table's first element."""
    offset = index_text(t.place(view).offset, t.context.names)
    return f"{t.context.pointers[view.buffer]} + ({offset})"


def _grain(call: ResampleBytes, graph: KernelGraph, units: Expr) -> int:
    """Work units that are worth a thread, at the sizes of the example."""
    hints = hints_of(graph.dims)
    count = max(1, hints.value(units))
    return max(1, _UNIT_FLOPS * count // max(1, hints.value(call.flops())))
