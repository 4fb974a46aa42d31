"""A convolution taken apart, and the addresses and masks of what its taps see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, make_context
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.text import index_text
from aot.errors import InternalError
from aot.ir.dtypes import DType
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis, View
from aot.ir.templates.conv import Conv, vector_of
from aot.ir.views import view_strides
from aot.symbolic import Expr, ceil_div, integer, product, row_major_strides, var

VECTOR = 8
"""Elements of half precision that one load of a thread reads: 16 bytes."""


@dataclass(frozen=True)
class ConvOperand:
    """A view as strides: one for each axis, and the place of its first element."""

    buffer: str
    strides: tuple[Expr, ...]
    start: Expr


@dataclass(frozen=True)
class Convolution:
    """One convolution, taken apart. `inputs` and `outputs`: channels of one group.

    `beyond`: a spatial axis along which positions beyond the output's end are asked for, too.
    """

    kernel: TemplateKernel
    call: Conv
    context: KernelContext
    x: ConvOperand
    w: ConvOperand
    dtype: DType
    groups: int
    inputs: Expr
    outputs: Expr
    taps: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    beyond: int | None = None

    @property
    def positions(self) -> tuple[Axis, ...]:
        """The output's axes that make the rows: images and places."""
        batch, _, *places = self.call.output.axes
        return (batch, *places)

    @property
    def channel(self) -> Axis:
        """The output's axis that makes the columns."""
        return self.call.output.axes[1]

    @property
    def last(self) -> bool:
        """True when channels are walked fastest."""
        places = vector_of(self.dtype, VECTOR)
        return self.call.channels_fastest(self.x.strides, VECTOR, places)

    @property
    def depth(self) -> Expr:
        """Pairs of tap and input channel."""
        return product((*self.taps, self.inputs))

    def text(self, expr: Expr) -> str:
        """A size in the kernel."""
        return index_text(expr, self.context.names)

    def is_padded(self, k: int) -> bool:
        """True when taps along that spatial dimension may lie outside of the input."""
        if self.padding[k] or k == self.beyond:
            return True
        out, size = self.call.output.axes[2 + k].extent, self.sizes[k]
        last = (out - 1) * self.stride[k] + (self.taps[k] - 1) * self.dilation[k] - size
        return bool(last.is_Integer) and int(last) >= 0


def take_apart(kernel: TemplateKernel, graph: KernelGraph, gpu: Gpu) -> Convolution:
    """The kernel's convolution. Raises InternalError when it has none."""
    call = template_call(kernel, Conv)
    context = make_context(kernel, graph, gpu)
    x, w = call.x, call.w
    return Convolution(
        kernel,
        call,
        context,
        _operand(context, call, x),
        _operand(context, call, w),
        graph.buffers[x.buffer].dtype,
        call.groups,
        w.axes[1].extent,
        ceil_div(w.axes[0].extent, call.groups),
        tuple(a.extent for a in w.axes[2:]),
        tuple(a.extent for a in x.axes[2:]),
        tuple(int(v) for v in call.stride),
        tuple(int(v) for v in call.padding),
        tuple(int(v) for v in call.dilation),
    )


def _operand(context: KernelContext, call: Conv, view: View) -> ConvOperand:
    buffer = context.buffers[view.buffer]
    found = view_strides(view, buffer.strides or (), context.ranges)
    if found is None:
        raise InternalError(f"{call.name} reads {view.buffer}, which has no strides")
    return ConvOperand(view.buffer, *found)


class ConvWalk:
    """Writes addresses of operands and masks of taps. `group`: text of the group's number."""

    def __init__(self, body: Body, conv: Convolution, group: Expr) -> None:
        self.body = body
        self.conv = conv
        self.group = group
        self.taps = tuple(Axis(var(f"t{k}"), size) for k, size in enumerate(conv.taps))
        self.input = Axis(var("c"), conv.inputs)
        self.depth = (*self.taps, self.input) if conv.last else (self.input, *self.taps)

    def text(self, expr: Expr) -> str:
        """An expression over the symbols that have names by now."""
        return self.body.index(expr, {})[0]

    @property
    def seen(self) -> tuple[str, ...]:
        """Names of what `rows` writes."""
        padded = (f"place{k}" for k in range(len(self.taps)) if self.conv.is_padded(k))
        return ("x_at", *padded)

    def rows(self) -> None:
        """Writes where each row's first tap lies: `x_at`, and `place…` of padded dimensions.

        `m` numbers the rows. Of a single row's place nothing moves: the address is of a tile all
        the same, as masks are.
        """
        conv, strides = self.conv, self.conv.x.strides
        batch, *places = conv.positions
        base: Expr = conv.x.start + product((batch.symbol, strides[0]))
        base = base + product((self.group, conv.inputs, strides[1]))
        for k, axis in enumerate(places):
            first = axis.symbol * conv.stride[k] - conv.padding[k]
            base = base + product((first, strides[2 + k]))
            if conv.is_padded(k):
                self.body.writer.line(f"place{k} = {self.text(first)}")
        single = all(axis.extent == 1 for axis in conv.positions)
        self.body.writer.line(f"x_at = {self.text(base)}" + (" + 0 * m" if single else ""))

    def columns(self, lanes: str = "") -> None:
        """Writes where each channel's weights lie: `w_at`; `lanes`: numbers of a tile's channels.

        A single channel's address is of a tile, too, as `rows` says.
        """
        conv = self.conv
        first = conv.w.start + product((conv.channel.symbol, conv.w.strides[0]))
        still = f" + 0 * {lanes}" if lanes and conv.outputs == 1 else ""
        self.body.writer.line(f"w_at = {self.text(first)}{still}")

    def x_step(self) -> Expr:
        """How far the present tap and channel lie from the row's first."""
        conv, strides = self.conv, self.conv.x.strides
        steps = [product((self.input.symbol, strides[1]))]
        for tap, stride, dilation in zip(self.taps, strides[2:], conv.dilation, strict=True):
            steps.append(product((tap.symbol, stride, integer(dilation))))
        return _sum(steps)

    def w_step(self) -> Expr:
        """The same in the weight."""
        strides = self.conv.w.strides
        pairs = zip((self.input, *self.taps), strides[1:], strict=True)
        return _sum([product((axis.symbol, stride)) for axis, stride in pairs])

    def weight_run(self) -> Expr | None:
        """The stride at which the whole depth is walked in the weight; None when there is none."""
        strides = dict(zip((self.input, *self.taps), self.conv.w.strides[1:], strict=True))
        moving = [a for a in self.depth if a.extent != 1]
        if not moving:
            return integer(0)
        unit = strides[moving[-1]]
        dense = row_major_strides([a.extent for a in moving])
        fits = all(product((d, unit)) == strides[a] for d, a in zip(dense, moving, strict=True))
        return unit if fits else None

    def inside(self) -> list[str]:
        """Conditions that the present tap of a row lies inside of the input."""
        conv = self.conv
        found = []
        for k, (tap, dilation) in enumerate(zip(self.taps, conv.dilation, strict=True)):
            if conv.is_padded(k):
                step = "" if tap.extent == 1 else f" + {self.text(tap.symbol * dilation)}"
                place = f"(place{k}{step})"
                found.append(f"({place} >= 0) & ({place} < {conv.text(conv.sizes[k])})")
        return found

    def decode(self, number: str, axes: Sequence[Axis]) -> None:
        """Writes the coordinates of a number that counts through `axes`, and names them."""
        rest = number
        moving = [a for a in axes if a.extent != 1]
        for axis in reversed(moving):
            size = self.conv.text(axis.extent)
            whole = axis == moving[0]
            self.body.writer.line(f"{axis.symbol} = {rest}" + ("" if whole else f" % ({size})"))
            rest = f"({rest} // ({size}))"
        self.name(axes)

    def name(self, axes: Sequence[Axis], suffix: str = "", dim: str | None = None) -> None:
        """Names decoded coordinates, seen along a dimension of the tile."""
        for axis in axes:
            text = "0" if axis.extent == 1 else f"{axis.symbol}{suffix}"
            self.body.name_axis(axis.symbol, text, dim)


def _sum(terms: Sequence[Expr]) -> Expr:
    total: Expr = integer(0)
    for term in terms:
        total = total + term
    return total
