"""Convolutions as implicit matrix products, and directly where groups are tiny.

Rows of the product are output positions of all images, columns the output channels of one group,
and the depth is every pair of tap and input channel. Nothing is unfolded in memory: a step reads
the block of the input that its taps see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.backends.triton.body import Body
from aot.backends.triton.context import KernelContext, TileDim, make_context
from aot.backends.triton.conv_tiling import ConvSize, ConvTile, conv_tile
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.template_matmul import finish_tile, precision
from aot.backends.triton.text import Writer, index_text
from aot.backends.triton.tiling import power_above
from aot.errors import InternalError
from aot.ir.dtypes import DType
from aot.ir.hints import Hints
from aot.ir.kernels import Kernel, KernelGraph
from aot.ir.loops import Axis, TemplateCall, View
from aot.passes.views import view_strides
from aot.symbolic import Expr, ceil_div, integer, is_int, product, row_major_strides, var

TINY_GROUP = 8
"""Products of a group's input and output channels up to which tensor cores are not worth it."""

UNROLLED = 64
"""Multiplications a point up to which a direct convolution has no loop."""

_DIRECT_COLUMNS = 64
_DIRECT_POINTS = 2048
_FULL = 132 * 4


@dataclass(frozen=True)
class _Operand:
    """A view as strides: one for each axis, and the place of its first element."""

    buffer: str
    strides: tuple[Expr, ...]
    start: Expr


@dataclass(frozen=True)
class _Convolution:
    """One convolution, taken apart. `inputs` and `outputs`: channels of one group."""

    kernel: Kernel
    call: TemplateCall
    context: KernelContext
    x: _Operand
    w: _Operand
    dtype: DType
    groups: int
    inputs: Expr
    outputs: Expr
    taps: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

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
    def depth(self) -> Expr:
        """Pairs of tap and input channel."""
        return product((*self.taps, self.inputs))

    def text(self, expr: Expr) -> str:
        """A size in the kernel."""
        return index_text(expr, self.context.names)

    def is_padded(self, k: int) -> bool:
        """True when taps along that spatial dimension may lie outside of the input."""
        if self.padding[k]:
            return True
        out, size = self.call.output.axes[2 + k].extent, self.sizes[k]
        last = (out - 1) * self.stride[k] + (self.taps[k] - 1) * self.dilation[k] - size
        return bool(last.is_Integer) and int(last) >= 0


def emit_conv(kernel: Kernel, graph: KernelGraph, hints: Hints, units: int) -> EmittedKernel:
    """The kernel of a convolution and its epilogue."""
    conv = _take_apart(kernel, graph)
    if _is_direct(conv):
        return _emit_direct(conv, hints)
    size = ConvSize(
        rows=hints.volume(conv.positions),
        columns=hints.value(conv.outputs),
        groups=conv.groups,
        taps=hints.value(product(conv.taps)),
        channels=hints.value(conv.inputs),
        dtype=conv.dtype,
        vectors=conv.x.strides[1] == 1,
    )
    return _emit_product(conv, conv_tile(size))


def _take_apart(kernel: Kernel, graph: KernelGraph) -> _Convolution:
    call = kernel.template
    if call is None:
        raise InternalError(f"{kernel.name} has no template")
    context = make_context(kernel, graph)
    x, w = call.operand("x"), call.operand("w")
    return _Convolution(
        kernel,
        call,
        context,
        _operand(context, call, x),
        _operand(context, call, w),
        graph.buffers[x.buffer].dtype,
        call.attr("groups"),
        w.axes[1].extent,
        ceil_div(w.axes[0].extent, call.attr("groups")),
        tuple(a.extent for a in w.axes[2:]),
        tuple(a.extent for a in x.axes[2:]),
        *(tuple(int(v) for v in call.attr(name)) for name in ("stride", "padding", "dilation")),
    )


def _operand(context: KernelContext, call: TemplateCall, view: View) -> _Operand:
    buffer = context.buffers[view.buffer]
    found = view_strides(view, buffer.strides or (), context.ranges)
    if found is None:
        raise InternalError(f"{call.name} reads {view.buffer}, which has no strides")
    return _Operand(view.buffer, *found)


def _is_direct(conv: _Convolution) -> bool:
    return (
        conv.groups > 1
        and is_int(conv.inputs)
        and is_int(conv.outputs)
        and int(conv.inputs) * int(conv.outputs) <= TINY_GROUP
    )


class _Walk:
    """Writes addresses of operands and masks of taps. `group`: text of the group's number."""

    def __init__(self, body: Body, conv: _Convolution, group: Expr) -> None:
        self.body = body
        self.conv = conv
        self.group = group
        self.taps = tuple(var(f"tap{k}") for k in range(len(conv.taps)))
        self.input = var("input")

    def text(self, expr: Expr) -> str:
        """An expression over the symbols that have names by now."""
        return self.body.index(expr, {})[0]

    def rows(self) -> None:
        """Writes where each row's first tap lies: `x_at`, and `place…` of padded dimensions."""
        conv, strides = self.conv, self.conv.x.strides
        batch, *places = conv.positions
        base: Expr = conv.x.start + product((batch.symbol, strides[0]))
        base = base + product((self.group, conv.inputs, strides[1]))
        for k, axis in enumerate(places):
            first = axis.symbol * conv.stride[k] - conv.padding[k]
            base = base + product((first, strides[2 + k]))
            if conv.is_padded(k):
                self.body.writer.line(f"place{k} = {self.text(first)}")
        self.body.writer.line(f"x_at = {self.text(base)}")

    def x_step(self) -> Expr:
        """How far the present tap and channel lie from the row's first."""
        conv, strides = self.conv, self.conv.x.strides
        steps = [product((self.input, strides[1]))]
        for tap, stride, dilation in zip(self.taps, strides[2:], conv.dilation, strict=True):
            steps.append(product((tap, stride, integer(dilation))))
        return _sum(steps)

    def w_step(self) -> Expr:
        """The same in the weight."""
        strides = self.conv.w.strides
        pairs = zip((self.input, *self.taps), strides[1:], strict=True)
        return _sum([product(pair) for pair in pairs])

    def inside(self) -> list[str]:
        """Conditions that the present tap of a row lies inside of the input."""
        conv = self.conv
        found = []
        for k, (tap, dilation) in enumerate(zip(self.taps, conv.dilation, strict=True)):
            if conv.is_padded(k):
                step = "" if conv.taps[k] == 1 else f" + {self.text(tap * dilation)}"
                place = f"(place{k}{step})"
                found.append(f"({place} >= 0) & ({place} < {conv.text(conv.sizes[k])})")
        return found

    def decode_taps(self, number: str) -> None:
        """Writes the taps' coordinates from the number of the tap, and gives them their names."""
        rest = number
        for k in range(len(self.taps) - 1, -1, -1):
            extent = self.conv.taps[k]
            if extent != 1:
                size = self.conv.text(extent)
                last = all(e == 1 for e in self.conv.taps[:k])
                self.body.writer.line(f"t{k} = {rest}" + ("" if last else f" % ({size})"))
                rest = f"({rest} // ({size}))"
        self.name_taps("", None)

    def name_taps(self, suffix: str, dim: str | None) -> None:
        """Names the decoded taps, seen along a dimension of the tile."""
        for k, extent in enumerate(self.conv.taps):
            self.body.name_axis(self.taps[k], "0" if extent == 1 else f"t{k}{suffix}", dim)

    def name_input(self, text: str, dim: str | None = None) -> None:
        """Gives the input channel a name."""
        self.body.name_axis(self.input, text, dim)


def _sum(terms: Sequence[Expr]) -> Expr:
    total: Expr = integer(0)
    for term in terms:
        total = total + term
    return total


def _load(pointer: str, address: str, masks: Sequence[str]) -> str:
    if not masks:
        return f"tl.load({pointer} + ({address}))"
    return f"tl.load({pointer} + ({address}), mask={' & '.join(masks)}, other=0)"


def _emit_product(conv: _Convolution, tile: ConvTile) -> EmittedKernel:
    body = Body(conv.context, Writer(), 2)
    group = _open_blocks(body, conv, tile)
    walk = _Walk(body, conv, group)
    walk.rows()
    outputs = conv.w.start + product((conv.channel.symbol, conv.w.strides[0]))
    body.writer.line(f"w_at = {walk.text(outputs)}")
    body.writer.line(f"acc = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)")
    if tile.flat:
        _walk_flat(walk, tile)
    else:
        _walk_taps(walk, tile)
    finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    down = ceil_div(product([a.extent for a in conv.positions]), tile.rows)
    across = ceil_div(conv.outputs, tile.columns)
    programs = product((integer(conv.groups), down, across))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    return finish(conv.kernel, body, line_grid(programs), options)


def _open_blocks(body: Body, conv: _Convolution, tile: ConvTile) -> Expr:
    """Writes the indices of the program's rows and columns; the group's number as an expression.

    Neighbouring programs share the rows, which are the larger operand.
    """
    line, context = body.writer.line, conv.context
    across = conv.text(ceil_div(conv.outputs, tile.columns))
    line(f"program = {program_id(context)}")
    group: Expr = integer(0)
    if conv.groups > 1:
        group = var("group")
        body.name_axis(group, "group", None)
        down = ceil_div(product([a.extent for a in conv.positions]), tile.rows)
        line(f"blocks = ({conv.text(down)}) * ({across})")
        line("group = program // blocks")
        line("program = program % blocks")
    body.open_dim(
        TileDim("m", conv.positions, tile.rows, 0), f"program // ({across}) * {tile.rows}"
    )
    wide = ".to(tl.int64)" if context.wide else ""
    line(
        f"own = program % ({across}) * {tile.columns} + tl.arange(0, {tile.columns})[None, :]{wide}"
    )
    # A dimension of one group's channels: the index counts through all groups, the mask does not.
    columns = TileDim("n", (Axis(conv.channel.symbol, conv.outputs),), tile.columns, 1)
    body.declare_dim(columns)
    if not columns.is_exact:
        line(f"n_in = own < {conv.text(conv.outputs)}")
    line("n = own" + (f" + group * ({conv.text(conv.outputs)})" if conv.groups > 1 else ""))
    body.name_axis(conv.channel.symbol, "n", "n")
    return group


def _walk_taps(walk: _Walk, tile: ConvTile) -> None:
    """Steps of channels of one tap; the taps are the outer loop, flattened with the inner one."""
    body, conv = walk.body, walk.conv
    line = body.writer.line
    depth = f"tl.arange(0, {tile.depth})" + (".to(tl.int64)" if conv.context.wide else "")
    line(f"k = {depth}")
    walk.name_input("k[None, :]", "ka")
    line(f"x_at = x_at + {walk.text(product((walk.input, conv.x.strides[1])))}")
    walk.name_input("k[:, None]", "kb")
    line(f"w_at = w_at + {walk.text(product((walk.input, conv.w.strides[1])))}")
    blocks = ceil_div(conv.inputs, tile.depth)
    taps = product(conv.taps)
    exact = is_int(conv.inputs) and int(conv.inputs) % tile.depth == 0
    with body.loop(f"for step in range(0, {conv.text(product((taps, blocks)))})"):
        number = "(step + tl.full([], 0, tl.int64))" if conv.context.wide else "step"
        across = conv.text(blocks)
        walk.decode_taps(number if blocks == 1 else f"({number} // ({across}))")
        first = number if taps == 1 else f"{number} % ({across})"
        line("first = 0" if blocks == 1 else f"first = {first} * {tile.depth}")
        walk.name_input("first")
        masks = [*walk.inside(), *body.masks(("m",))]
        whole = [] if exact else [f"first + k < {conv.text(conv.inputs)}"]
        if whole:
            line(f"k_in = {whole[0]}")
        left = [*masks, *(["k_in[None, :]"] if whole else [])]
        right = [*body.masks(("n",)), *(["k_in[:, None]"] if whole else [])]
        _multiply(walk, (walk.text(walk.x_step()), left), (walk.text(walk.w_step()), right), tile)


def _walk_flat(walk: _Walk, tile: ConvTile) -> None:
    """Steps of pairs of tap and channel, so that the depth is padded only once."""
    body, conv = walk.body, walk.conv
    line = body.writer.line
    depth = conv.depth
    wide = ".to(tl.int64)" if conv.context.wide else ""
    exact = is_int(depth) and int(depth) % tile.depth == 0
    with body.loop(f"for first in range(0, {conv.text(depth)}, {tile.depth})"):
        line(f"k = first + tl.arange(0, {tile.depth}){wide}")
        if not exact:
            line(f"k_in = k < {conv.text(depth)}")
        inputs = conv.text(conv.inputs)
        several = product(conv.taps) != 1
        if several and conv.inputs != 1:
            line(f"c = k % ({inputs})")
            line(f"tap = k // ({inputs})")
        channel = "0" if conv.inputs == 1 else "c" if several else "k"
        tap = "k" if conv.inputs == 1 else "tap"
        walk.decode_taps(tap)
        walk.name_taps("[None, :]", "ka")
        walk.name_input(channel if channel == "0" else f"{channel}[None, :]", "ka")
        left = [*walk.inside(), *body.masks(("m",)), *([] if exact else ["k_in[None, :]"])]
        x_step = walk.text(walk.x_step())
        right = [*body.masks(("n",)), *([] if exact else ["k_in[:, None]"])]
        if _is_run(conv):
            stride = conv.w.strides[1] if conv.inputs != 1 else _last_stride(conv)
            w_step = f"k[:, None] * ({conv.text(stride)})"
        else:
            walk.name_taps("[:, None]", "kb")
            walk.name_input(channel if channel == "0" else f"{channel}[:, None]", "kb")
            w_step = walk.text(walk.w_step())
        _multiply(walk, (x_step, left), (w_step, right), tile)


def _last_stride(conv: _Convolution) -> Expr:
    found = [s for s, e in zip(conv.w.strides[2:], conv.taps, strict=True) if e != 1]
    return found[-1] if found else integer(1)


def _is_run(conv: _Convolution) -> bool:
    """True when the weight's taps and channels lie in one run, so that one stride walks both."""
    extents = (*conv.taps, conv.inputs)
    strides = (*conv.w.strides[2:], conv.w.strides[1])
    moving = [(e, s) for e, s in zip(extents, strides, strict=True) if e != 1]
    if not moving:
        return True
    dense = row_major_strides([e for e, _ in moving])
    unit = moving[-1][1]
    return all(product((d, unit)) == s for d, (_, s) in zip(dense, moving, strict=True))


def _multiply(
    walk: _Walk, left: tuple[str, list[str]], right: tuple[str, list[str]], tile: ConvTile
) -> None:
    conv, line = walk.conv, walk.body.writer.line
    pointers = conv.context.pointers
    line(f"left = {_load(pointers[conv.x.buffer], f'x_at + ({left[0]})', left[1])}")
    line(f"right = {_load(pointers[conv.w.buffer], f'w_at + ({right[0]})', right[1])}")
    line(f"acc = tl.dot(left, right, acc{precision(conv.dtype)})")


def _emit_direct(conv: _Convolution, hints: Hints) -> EmittedKernel:
    """A tile of positions by channels; each point adds up the taps of its own channels."""
    body = Body(conv.context, Writer(), 2)
    line = body.writer.line
    rows, columns = _direct_tile(conv, hints)
    channels = TileDim("n", (conv.channel,), columns, 1)
    across = conv.text(ceil_div(conv.channel.extent, columns))
    line(f"program = {program_id(conv.context)}")
    body.open_dim(TileDim("m", conv.positions, rows, 0), f"program // ({across}) * {rows}")
    body.open_dim(channels, f"program % ({across}) * {columns}")
    group = var("group")
    outputs = conv.text(conv.outputs)
    line("group = n" if conv.outputs == 1 else f"group = n // ({outputs})")
    body.name_axis(group, "group", "n")
    walk = _Walk(body, conv, group)
    walk.rows()
    first = conv.w.start + product((conv.channel.symbol, conv.w.strides[0]))
    line(f"w_at = {walk.text(first)}")
    line(f"acc = tl.zeros([{rows}, {columns}], tl.float32)")
    taps, inputs = product(conv.taps), int(conv.inputs)
    unrolled = is_int(taps) and int(taps) * inputs <= UNROLLED
    kind = "tl.static_range" if unrolled else "range"
    with body.loop(f"for tap in {kind}(0, {conv.text(taps)})"):
        walk.decode_taps("tap")
        for c in range(inputs):
            walk.name_input(str(c))
            _add_tap(walk)
    finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    down = ceil_div(product([a.extent for a in conv.positions]), rows)
    programs = product((down, ceil_div(conv.channel.extent, columns)))
    return finish(conv.kernel, body, line_grid(programs), {"num_warps": 4})


def _direct_tile(conv: _Convolution, hints: Hints) -> tuple[int, int]:
    channels = hints.value(conv.channel.extent)
    points = hints.volume(conv.positions)
    columns = min(_DIRECT_COLUMNS, power_above(channels))
    rows = max(1, _DIRECT_POINTS // columns)
    across = -(-channels // columns)
    while rows > 8 and -(-points // rows) * across < _FULL:
        rows //= 2
    return rows, columns


def _add_tap(walk: _Walk) -> None:
    body, conv = walk.body, walk.conv
    line, pointers = body.writer.line, conv.context.pointers
    masks = [*walk.inside(), *body.masks(("m", "n"))]
    x = _load(pointers[conv.x.buffer], f"x_at + ({walk.text(walk.x_step())})", masks)
    w = _load(pointers[conv.w.buffer], f"w_at + ({walk.text(walk.w_step())})", body.masks(("n",)))
    line(f"left = {x}.to(tl.float32)")
    line(f"right = {w}.to(tl.float32)")
    line("acc = acc + left * right")
