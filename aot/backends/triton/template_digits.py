"""Counts of one digit, and places of elements in its order with a fused epilogue that moves them.

A program takes a part of a row. The functions are those of `device/digits.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.digit_order import WARPS, digit_numbers, digit_order, register_types
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, places
from aot.backends.triton.kernel import EmittedKernel, line_grid
from aot.backends.triton.ops import conversion
from aot.backends.triton.text import index_text
from aot.backends.triton.tiling import WARP
from aot.ir.dtypes import INT32, INT64
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, Buffer
from aot.ir.scalar import Node, binary, const, index_value, load
from aot.ir.templates.builder import NestBuilder
from aot.ir.templates.digits import DIGITS, DigitCounts, DigitPlaces
from aot.symbolic import Expr, ceil_div, integer, product, substitute, var

PART = 1 << 12
"""Elements of a part: 8 of a thread, with which a multiprocessor holds two programs."""

_ELEMENT, _PART, _DIGIT = (var(n) for n in ("element", "part", "digit"))

_Call = DigitCounts | DigitPlaces


@dataclass(frozen=True)
class _Parts:
    """A kernel whose programs take a part of a row each."""

    kernel: TemplateKernel
    call: _Call
    context: KernelContext

    @property
    def row(self) -> Axis:
        """The rows."""
        return self.call.output.axes[0]

    @property
    def elements(self) -> Axis:
        """An axis over the elements of a row."""
        return Axis(_ELEMENT, self.call.x.axes[1].extent)

    @property
    def parts(self) -> Expr:
        """Of a row."""
        return ceil_div(self.elements.extent, integer(self.call.part))

    def take(self, body: Body, elements: Axis) -> None:
        """Makes rows and elements known to a hook."""
        body.take_dim(TileDim("m", (self.row,), 1, 0))
        body.take_dim(TileDim("n", (elements,), self.call.part, 1))

    def hooks(self, buffers: Mapping[str, Buffer]) -> Hooks:
        """With the digits of elements."""
        hooks = Hooks(self.context)
        with hooks.function("digit", "m", "n") as body:
            self.take(body, self.elements)
            builder = NestBuilder(dict(buffers), {})
            value = body.value(self.call.digit(builder, self.row.symbol, _ELEMENT))
            body.writer.line(f"return {body.spread(value, frozenset(('m', 'n')))}")
        return hooks

    def emit(
        self, hooks: Hooks, function: str, name: str, instructions: Callable[[int, int], str]
    ) -> EmittedKernel:
        """The launch of a function that has `instructions` as the argument `name`."""
        each, bits = self.call.part // (WARP * WARPS), self.call.part.bit_length() - 1
        where = places(self.context, self.parts)
        arguments = {
            "program": where["batch"],
            "part": where["program"],
            "elements": index_text(self.elements.extent, self.context.names),
            "PART": str(self.call.part),
            "BITS": str(bits),
            name: f'"""{instructions(each, bits)}"""',
            "TYPES": f'"{register_types(each)}"',
            "EACH": str(each),
        }
        grid = line_grid(product((self.row.extent, self.parts)))
        return hooks.emit(self.kernel, function, arguments, grid, {"num_warps": WARPS})


def _parts(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu, call: _Call) -> _Parts:
    context = make_context(kernel, graph, gpu)
    own = _Parts(kernel, call, context)
    known = {
        **context.ranges.extents,
        _ELEMENT: own.elements.extent,
        _PART: own.parts,
        _DIGIT: integer(DIGITS),
    }
    return replace(own, context=replace(context, ranges=context.ranges.with_extents(known)))


def emit_digit_counts(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel that counts digits, and its epilogue."""
    call = template_call(kernel, DigitCounts)
    own = _parts(kernel, graph, gpu, call)
    column, held = call.output.axes[1], own.context.buffers[call.output.buffer].dtype
    hooks = own.hooks(graph.buffers)
    with hooks.function("finish", "m", "n", "part", "count") as body:
        body.take_dim(TileDim("m", (own.row,), 1, 0))
        body.writer.line(f"n = n * ({index_text(own.parts, own.context.names)}) + part")
        body.take_dim(TileDim("n", (column,), call.part, 1, scattered=True))
        finish_tile(body, kernel, conversion("count", INT32, held), frozenset(("m", "n")))
    return own.emit(hooks, "digit_counts", "COUNTS", digit_numbers)


def emit_digits(
    kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu
) -> EmittedKernel:
    """The kernel of a digit's places and its epilogue."""
    call = template_call(kernel, DigitPlaces)
    own = _parts(kernel, graph, gpu, call)
    held = own.context.buffers[call.output.buffer].dtype
    hooks = own.hooks(graph.buffers)
    with hooks.function("ends", "m", "v", "part") as body:
        body.take_dim(TileDim("m", (own.row,), 1, 0))
        body.take_dim(TileDim("v", (Axis(_DIGIT, integer(DIGITS)),), DIGITS, 1))
        body.name_axis(_PART, "part", None)
        found = [body.value(end) for end in _ends(own, call)]
        texts = [body.spread(end, frozenset(("m", "v"))) for end in found]
        body.writer.line(f"return {texts[0]}, {texts[1]}")
    with hooks.function("finish", "m", "n", "place") as body:
        own.take(body, call.output.axes[1])
        finish_tile(body, kernel, conversion("place", held, held), frozenset(("m", "n")))
    return own.emit(hooks, "digit_places", "ORDER", digit_order)


def _ends(own: _Parts, call: DigitPlaces) -> tuple[Node, Node]:
    """How many elements come before those of a part with a digit, and up to the last of them."""
    view = call.ends
    row, place = view.axes
    number = product((_DIGIT, own.parts)) + _PART
    dtype = own.context.buffers[view.buffer].dtype

    def end(at: Expr, mask: Node | None) -> Node:
        mapping = {row.symbol: own.row.symbol, place.symbol: at}
        return load(view.buffer, dtype, [substitute(e, mapping) for e in view.index], mask=mask)

    later = binary("gt", index_value(number), const(0, INT64))
    return end(number - 1, later), end(number, None)
