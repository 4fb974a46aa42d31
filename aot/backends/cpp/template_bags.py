"""The template of reductions over bags, with a fused epilogue."""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.cpp.context import KernelContext
from aot.backends.cpp.kernel import NAME, EmittedKernel, make_context, open_template
from aot.backends.cpp.operands import Strided, strided
from aot.backends.cpp.text import index_text, memory_type
from aot.backends.cpp.tile import (
    COLUMN,
    ROW,
    emit_epilogue,
    epilogue_nests,
    tile_context,
    tile_space,
)
from aot.ir.hints import hints_of
from aot.ir.kernel_facts import argument_buffers, template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import View
from aot.ir.templates.bags import Bags
from aot.symbolic import Expr, ceil_div, integer, is_int, product

_BAG_TILE = 16
"""kBagTile in aot/tmpl/bags.h."""

_UNIT_ELEMENTS = 1 << 14
"""Elements to read that are worth a thread."""


@dataclass(frozen=True)
class _Bags:
    """A kernel with a call, and what its text is made from."""

    kernel: TemplateKernel
    graph: KernelGraph
    call: Bags
    context: KernelContext

    def text(self, expr: Expr) -> str:
        """A size or offset in C++."""
        return index_text(expr, self.context.names)

    def strided(self, view: View) -> Strided:
        """The view's strides."""
        return strided(self.call, view, self.graph.buffers, self.context.ranges)

    def element(self, view: View) -> str:
        """The C++ type of an operand's elements."""
        return memory_type(self.graph.buffers[view.buffer].dtype)

    def pointer(self, view: View) -> str:
        """The address of an operand's first element."""
        address = f"{self.context.pointers[view.buffer]} + ({self.text(self.strided(view).offset)})"
        return f"reinterpret_cast<const {self.element(view)}*>({address})"

    def fields(self) -> dict[str, str]:
        """The arguments of the template."""
        x, call = self.strided(self.call.x), self.call
        rows, columns = (self.text(a.extent) for a in call.x.axes)
        found = {"x": self.pointer(call.x)}
        found.update(zip(("row", "col"), map(self.text, x.strides), strict=True))
        found.update(count=rows, n=columns, points=self.text(call.points))
        vectors = {"begin": call.begins, "end": call.ends, "row": call.rows, "weight": call.weights}
        for name, view in vectors.items():
            if view is not None:
                found[f"{name}s"] = self.pointer(view)
                found[f"{name}_step"] = self.text(self.strided(view).strides[0])
        if call.skipped is not None:
            found["skipped"] = str(call.skipped)
        return found

    def config(self) -> list[str]:
        """What the template is compiled for."""
        call = self.call
        dense = is_int(self.strided(call.x).strides[1], 1) or is_int(call.x.axes[1].extent, 1)
        facts = {
            "DENSE": dense,
            "ROWS": call.rows is not None,
            "WEIGHTS": call.weights is not None,
            "SKIPS": call.skipped is not None,
        }
        return [
            f"  using A = {self.element(call.x)};",
            *([] if call.weights is None else [f"  using W = {self.element(call.weights)};"]),
            f"  static constexpr auto COMBINE = aot::tmpl::Combine::{call.combine};",
            *(f"  static constexpr bool {n} = {str(v).lower()};" for n, v in facts.items()),
        ]


def emit_bags(kernel: TemplateKernel, graph: KernelGraph) -> EmittedKernel:
    """The function of a kernel whose template is a reduction over bags."""
    call = template_call(kernel, Bags)
    bag, column = call.output.axes
    dtype = call.accumulated(graph.buffers[call.x.buffer].dtype)
    space = tile_space(bag.extent, column.extent, {bag.symbol: ROW, column.symbol: COLUMN})
    context = tile_context(make_context(kernel, graph), space, dtype)
    t = _Bags(kernel, graph, call, context)
    body, sizes = open_template(kernel, graph, context)
    writer = body.writer
    emit_epilogue(body, epilogue_nests(kernel, space, context), space, dtype)
    writer.line(f"aot::tmpl::BagsArgs<{NAME}_config> call;")
    for name, value in t.fields().items():
        writer.line(f"call.{name} = {value};")
    writer.line("aot::tmpl::bags(call, begin, end, args->scratch, epilogue);")
    head = [
        "namespace {",
        f"struct {NAME}_config : aot::tmpl::BagsConfig {{",
        *t.config(),
        "};",
        "}",
        "",
    ]
    padded = product((ceil_div(column.extent, integer(16)), integer(16)))
    return EmittedKernel(
        writer.text(),
        argument_buffers(kernel),
        sizes,
        bag.extent,
        product((padded, integer(_BAG_TILE * dtype.itemsize))),
        head="\n".join(head),
        headers=("aot/tmpl/bags.h",),
        grain=_grain(call, graph),
    )


def _grain(call: Bags, graph: KernelGraph) -> int:
    """Bags that are worth a thread, at the sizes of the example."""
    hints = hints_of(graph.dims)
    bags = max(1, hints.value(call.output.axes[0].extent))
    read = hints.value(call.points) * hints.value(call.x.axes[1].extent)
    return max(1, -(-_UNIT_ELEMENTS * bags // max(read, 1)))
