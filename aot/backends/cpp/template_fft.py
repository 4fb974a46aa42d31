"""Fourier transforms: a call of aot/tmpl/fft.h, which writes results where they belong."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import Strided, strided, strides_of, template_type
from aot.backends.cpp.text import Writer, index_text
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.ir.dtypes import FLOAT32, FLOAT64, DType
from aot.ir.hints import Hints, hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer, View
from aot.ir.scalar import Access, substitute_index
from aot.ir.templates.fft import Fft, radices
from aot.ir.templates.open_fft import OpenFft
from aot.ir.templates.real_fft import RealFft
from aot.symbolic import Expr, ceil_div, integer, is_int, product, substitute, var

COLUMNS, ROWS = 64, 16
"""kFftColumns and kFftRows in aot/tmpl/fft.h."""

VECTOR = 64
"""Bytes of the widest vector."""

_WIDEST = 8
"""Points of the widest small transform of a power of two."""

_UNIT_FLOPS = 1 << 16
"""That are worth a thread."""


def copied_to(kernel: TemplateKernel) -> View | None:
    """Where the results go, over the call's axes, if they go there as they are and nowhere else."""
    output = kernel.template.output
    nests = [nest for stage in kernel.stages for nest in stage.nests]
    if output.buffer not in kernel.local:
        return None if nests else output
    if len(nests) != 1 or len(nests[0].stores) != 1:
        return None
    (nest,), (store,) = nests, nests[0].stores
    names = {a.symbol: b.symbol for a, b in zip(nest.axes, output.axes, strict=True)}
    (value,) = substitute_index((store.value,), names)
    access = value.attr
    if not isinstance(access, Access) or access.masked or store.binds or store.conflicts:
        return None
    if store.base or (access.buffer, access.index) != (output.buffer, tuple(output.index)):
        return None
    return View(store.buffer, output.axes, tuple(substitute(e, names) for e in store.index))


def turned_to(
    view: View, inner: Expr, parts: int, buffers: Mapping[str, Buffer], context: KernelContext
) -> Strided | None:
    """The strides of results of neighbouring transforms, if those of each are neighbours in memory.

    They are along outer, the results of a transform, inner, and the parts of a result.
    """
    row, column = view.axes
    count = ceil_div(column.extent, product((inner, integer(parts))))
    extents = (("turned_k", count), ("turned_lane", inner), ("turned_part", integer(parts)))
    k, lane, part = (Axis(var(name), extent) for name, extent in extents)
    place = ((k.symbol * inner + lane.symbol) * parts + part.symbol).expand()
    axes = (row, k, lane, part)
    ranges = context.ranges.with_extents(
        {**context.ranges.extents, **{a.symbol: a.extent for a in axes}}
    )
    index = tuple(ranges.simplify(substitute(e, {column.symbol: place})) for e in view.index)
    found = strides_of(View(view.buffer, axes, index), buffers, ranges)
    if found is None or not is_int(found.strides[1], parts):
        return None
    return found if parts == 1 or is_int(found.strides[3], 1) else None


def takes_fft(call: Fft | OpenFft, buffers: Mapping[str, Buffer], hints: Hints) -> str:
    """Why there is no kernel for a call; "" where there is."""
    dtype = buffers[call.re.buffer].dtype
    return "" if dtype in (FLOAT32, FLOAT64) else f"its kernels take no {dtype}"


@dataclass(frozen=True)
class RowsOfResults:
    """A kernel whose call gives rows of numbers, and what its text is made from."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: Any
    context: KernelContext
    dtype: DType

    @property
    @abstractmethod
    def units(self) -> Expr:
        """How many work units there are."""

    @abstractmethod
    def tile_bytes(self) -> Expr:
        """Of the rows of results that an epilogue reads."""

    @cached_property
    def destination(self) -> Strided | None:
        """Where rows of results are written at once; None: an epilogue does more than to store."""
        view = copied_to(self.kernel)
        if view is None:
            return None
        place = strides_of(view, self.graph.buffers, self.context.ranges)
        return place if place is not None and is_int(place.strides[1], 1) else None

    @property
    def grain(self) -> int:
        """Work units that are worth a thread, at the sizes of the example."""
        hints = hints_of(self.graph.dims)
        units = max(1, hints.value(self.units))
        return max(1, _UNIT_FLOPS * units // max(1, hints.value(self.call.flops())))

    def place(self, view: View) -> Strided:
        """A view's strides."""
        return strided(self.call, view, self.graph.buffers, self.context.ranges)

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)

    def pointer(self, view: View) -> str:
        """The address of a view's first element."""
        address = f"{self.context.pointers[view.buffer]} + ({self.text(self.place(view).offset)})"
        return f"reinterpret_cast<const {template_type(self.dtype)}*>({address})"


@dataclass(frozen=True)
class _Fft(RowsOfResults):
    """A kernel with a call of a known length."""

    call: Fft

    @property
    def shape(self) -> str:
        """The name of the FftShape."""
        if self.call.others is not None:
            return "SPLIT"
        return "ROWS" if is_int(self.call.re.axes[2].extent, 1) else "LANES"

    @property
    def real(self) -> str:
        """The name of the FftReal."""
        if not isinstance(self.call, RealFft):
            return "NONE"
        return "BACK" if self.call.inverse else "THERE"

    @property
    def points(self) -> int:
        """Complex numbers of a transform, as many as there are of any kind."""
        n1, n2 = self.call.sizes
        whole = isinstance(self.call, RealFft) and self.call.is_whole
        return n1 * n2 + (n1 * n2 if self.real == "THERE" and whole else 1)

    @cached_property
    def turned(self) -> Strided | None:
        """Where results of neighbouring transforms are written at once, each a row of its own.

        Strides are along outer, the results of a transform, inner, and both parts of a result.
        """
        view = copied_to(self.kernel)
        if view is None or self.shape != "LANES" or self.destination is not None:
            return None
        inner = self.call.re.axes[2].extent
        if not all(is_int(e) for e in (inner, view.axes[1].extent)):
            return None
        parts = 1 if self.real == "BACK" else 2
        return turned_to(view, inner, parts, self.graph.buffers, self.context)

    @property
    def is_written(self) -> bool:
        """Whether the template writes results where they belong; else an epilogue does."""
        return self.destination is not None or self.turned is not None

    @property
    def units(self) -> Expr:
        """How many work units there are."""
        outer, _, inner = (a.extent for a in self.call.re.axes)
        if self.shape == "ROWS":
            return ceil_div(outer, integer(ROWS))
        return product((outer, ceil_div(inner, integer(COLUMNS)))) if self.is_written else outer

    @property
    def given(self) -> str:
        """The name of the FftLanes: of neighbours along `inner`, or of points where there is one.

        Short rows are turned from pairs, or anyhow.
        """
        call, axis = self.call, 2 if self.shape == "LANES" else 1
        re = self.place(call.re)
        if call.im is None:
            return "PLAIN" if is_int(re.strides[axis], 1) else "STRIDED"
        im = self.place(call.im)
        if is_int(re.strides[axis], 1) and is_int(im.strides[axis], 1):
            return "PLAIN"
        beside = call.re.buffer == call.im.buffer and is_int((im.offset - re.offset).expand(), 1)
        same = beside and re.strides == im.strides
        return "PAIRS" if same and is_int(re.strides[axis], 2) else "STRIDED"

    def fields(self) -> dict[str, str]:
        """The arguments of the template."""
        call = self.call
        outer, _, inner = (a.extent for a in call.re.axes)
        found = {"re": self.pointer(call.re)}
        found["im"] = "nullptr" if call.im is None else self.pointer(call.im)
        for role, view in (("re", call.re), ("im", call.im or call.re)):
            names = (f"{role}_outer", f"{role}_step", f"{role}_inner")
            found |= dict(zip(names, map(self.text, self.place(view).strides), strict=True))
        found |= {"outer": self.text(outer), "inner": self.text(inner)}
        found["roots"] = self.pointer(call.roots)
        if call.others is not None and call.fine is not None and call.coarse is not None:
            found["others"] = self.pointer(call.others)
            for name, view in (("fine", call.fine), ("coarse", call.coarse)):
                found |= {name: self.pointer(view), f"{name}_rows": f"{view.axes[1].extent}"}
        if isinstance(call, RealFft) and call.turns is not None:
            found["turns"] = self.pointer(call.turns)
            if call.leaps is not None:
                found["leaps"] = self.pointer(call.leaps)
        if self.turned is not None:
            found["apart"] = self.text(self.turned.strides[2])
        found["scale"] = f"{template_type(self.dtype)}({call.scale!r})"
        return found

    def config(self) -> str:
        """What the template is compiled for."""
        n1, n2 = self.call.sizes
        block = self.call.block if isinstance(self.call, RealFft) else None
        coarse = self.call.coarse is not None and not is_int(self.call.coarse.axes[1].extent, 1)
        lines = [
            f"struct {NAME}_config : aot::tmpl::FftConfig {{",
            f"  using A = {template_type(self.dtype)};",
            f"  static constexpr auto SHAPE = aot::tmpl::FftShape::{self.shape};",
            f"  using First = aot::tmpl::Radices<{_listed(n1)}>;",
            f"  using Second = aot::tmpl::Radices<{_listed(n2)}>;",
            f"  static constexpr int64_t N1 = {n1}, N2 = {n2};",
            f"  static constexpr auto GIVEN = aot::tmpl::FftLanes::{self.given};",
            f"  static constexpr auto REAL = aot::tmpl::FftReal::{self.real};",
            f"  static constexpr int64_t COUNT = {self.points if self.real == 'THERE' else 0};",
            f"  static constexpr int64_t BLOCK = {block or 0};",
            f"  static constexpr bool INVERSE = {str(self.call.inverse).lower()};",
            f"  static constexpr bool COARSE = {str(coarse).lower()};",
            f"  static constexpr bool WHOLE = {str(not self.is_written).lower()};",
            f"  static constexpr bool TURNED = {str(self.turned is not None).lower()};",
            "};",
        ]
        return "\n".join(["namespace {", *lines, "}", ""])

    def scratch(self) -> Expr:
        """Bytes of scratch: buffers of points, a vector's each, and rows of results."""
        n1, n2 = self.call.sizes
        held = max(n1, n2) if self.shape == "SPLIT" else self.points
        bytes_ = integer(VECTOR + (2 * max(n1, n2) + held) * 2 * VECTOR)
        if self.shape == "SPLIT":
            rows = 1 if self.real == "NONE" else 2
            bytes_ += rows * (2 * n1 * n2 * self.dtype.itemsize + 2 * VECTOR)
        return (bytes_ + (0 if self.is_written else self.tile_bytes())).expand()

    def tile_bytes(self) -> Expr:
        """Of the rows of results that an epilogue reads."""
        rows = ROWS if self.shape == "ROWS" else 1
        return product((self.call.output.axes[1].extent, integer(rows * self.dtype.itemsize)))


def _listed(n: int) -> str:
    return ", ".join(map(str, radices(n, _WIDEST)))


def emit_fft(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a Fourier transform."""
    call = template_call(kernel, Fft)
    row, column = call.output.axes
    dtype = graph.buffers[call.re.buffer].dtype
    axes = {row.symbol: ROW, column.symbol: COLUMN}
    space = tile_space(row.extent, column.extent, axes, aligned=False)
    context = tile_context(make_context(kernel, graph), space, dtype)
    t = _Fft(kernel, graph, call, context, dtype)
    body, sizes = open_template(kernel, graph, context)
    writer = body.writer
    if not t.is_written:
        emit_epilogue(body, epilogue_nests(kernel, space, context), space, dtype, EPILOGUE)
    writer.line(f"aot::tmpl::FftArgs<{NAME}_config> call{{}};")
    for name, value in t.fields().items():
        writer.line(f"call.{name} = {value};")
    group = f"{ROWS}" if t.shape == "ROWS" else ""
    write_rows(t, t.destination or t.turned, "fft", group, writer)
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        t.units,
        t.scratch(),
        head=t.config(),
        headers=("aot/tmpl/fft.h",),
        grain=t.grain,
    )


EPILOGUE = (
    "const auto {name} = [=](int64_t m0, int64_t m1, int64_t n0, int64_t n1, "
    "const {element}* tile, int64_t ld)"
)


def write_rows(
    t: RowsOfResults, place: Strided | None, function: str, group: str, writer: Writer
) -> None:
    """The call of a template, with where its rows of results go.

    `place`: their strides; None where an epilogue reads them, from a tile of `group` rows, or of
    one if that is "".
    """
    element, room = template_type(t.dtype), "args->scratch"
    if place is not None:
        view = copied_to(t.kernel) or t.call.output
        address = f"{t.context.pointers[view.buffer]} + ({t.text(place.offset)})"
        writer.line(f"auto* const out = reinterpret_cast<{element}*>({address});")
        step = t.text(place.strides[0])
        writer.line(f"const auto at = [=](int64_t k) {{ return out + k * ({step}); }};")
        writer.line("const auto done = [](int64_t) {};")
    else:
        width = t.text(t.call.output.axes[1].extent)
        row = f" + k % {group} * ({width})" if group else ""
        writer.line(f"auto* const tile = static_cast<{element}*>(args->scratch);")
        writer.line(f"const auto at = [=](int64_t k) {{ return tile{row}; }};")
        with writer.block("const auto done = [&](int64_t k)", "};"):
            writer.line(f"epilogue(k, k + 1, 0, {width}, at(k), {width});")
        room = f"static_cast<char*>(args->scratch) + ({t.text(t.tile_bytes())})"
    rows = "aot::tmpl::FftRows<decltype(at), decltype(done)>{at, done}"
    writer.line(f"aot::tmpl::{function}(call, begin, end, {room}, {rows});")
