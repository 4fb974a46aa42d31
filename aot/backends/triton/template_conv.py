"""Convolutions as implicit matrix products, and directly where groups are tiny.

Rows of the product are output positions of all images, columns the output channels of one group,
and the depth is every pair of tap and input channel. Nothing is unfolded in memory: a step reads
the block of the input that its taps see.
"""

from __future__ import annotations

from collections.abc import Sequence

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim
from aot.backends.triton.conv_tiling import ConvSize, ConvTile, conv_tile
from aot.backends.triton.conv_walk import Convolution, Walk, take_apart
from aot.backends.triton.dot import finish_tile, precision
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.kernel import EmittedKernel, finish, line_grid, program_id
from aot.backends.triton.text import Writer
from aot.backends.triton.tiling import power_above
from aot.ir.hints import Hints
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.symbolic import Expr, ceil_div, integer, is_int, product, var

TINY_GROUP = 8
"""Products of a group's input and output channels up to which tensor cores are not worth it."""

UNROLLED = 64
"""Multiplications a point up to which a direct convolution has no loop."""

_DIRECT_COLUMNS = 64
_DIRECT_POINTS = 2048


def emit_conv(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a convolution and its epilogue."""
    conv = take_apart(kernel, graph, gpu)
    if _is_direct(conv):
        return _emit_direct(conv, hints, gpu)
    size = ConvSize(
        rows=hints.volume(conv.positions),
        columns=hints.value(conv.outputs),
        groups=conv.groups,
        taps=hints.value(product(conv.taps)),
        channels=hints.value(conv.inputs),
        dtype=conv.dtype,
        last=conv.last,
    )
    return _emit_product(conv, conv_tile(size, gpu))


def _is_direct(conv: Convolution) -> bool:
    return (
        conv.groups > 1
        and is_int(conv.inputs)
        and is_int(conv.outputs)
        and int(conv.inputs) * int(conv.outputs) <= TINY_GROUP
    )


def _load(pointer: str, address: str, masks: Sequence[str]) -> str:
    if not masks:
        return f"tl.load({pointer} + ({address}))"
    return f"tl.load({pointer} + ({address}), mask={' & '.join(masks)}, other=0)"


def _emit_product(conv: Convolution, tile: ConvTile) -> EmittedKernel:
    body = Body(conv.context, Writer(), 2)
    group = _open_blocks(body, conv, tile)
    walk = Walk(body, conv, group)
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
    return finish(conv.kernel, body, line_grid(programs), options, early=False)


def _open_blocks(body: Body, conv: Convolution, tile: ConvTile) -> Expr:
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


def _walk_taps(walk: Walk, tile: ConvTile) -> None:
    """Steps of channels of one tap; the loop over taps is flattened with the one over channels."""
    body, conv = walk.body, walk.conv
    line, channel = body.writer.line, walk.input.symbol
    wide = ".to(tl.int64)" if conv.context.wide else ""
    line(f"k = tl.arange(0, {tile.depth}){wide}")
    body.name_axis(channel, "k[None, :]", "ka")
    line(f"x_at = x_at + {walk.text(product((channel, conv.x.strides[1])))}")
    body.name_axis(channel, "k[:, None]", "kb")
    line(f"w_at = w_at + {walk.text(product((channel, conv.w.strides[1])))}")
    blocks = ceil_div(conv.inputs, tile.depth)
    taps = product(conv.taps)
    exact = is_int(conv.inputs) and int(conv.inputs) % tile.depth == 0
    with body.loop(f"for step in range(0, {conv.text(product((taps, blocks)))})"):
        number = "(step + tl.full([], 0, tl.int64))" if conv.context.wide else "step"
        across = conv.text(blocks)
        walk.decode(number if blocks == 1 else f"({number} // ({across}))", walk.taps)
        first = number if taps == 1 else f"{number} % ({across})"
        line("first = 0" if blocks == 1 else f"first = {first} * {tile.depth}")
        body.name_axis(channel, "first", None)
        if not exact:
            line(f"k_in = first + k < {conv.text(conv.inputs)}")
        _multiply(walk, walk.text(walk.x_step()), walk.text(walk.w_step()), exact)


def _walk_flat(walk: Walk, tile: ConvTile) -> None:
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
        walk.decode("k", walk.depth)
        run = walk.weight_run()
        if run is None:
            walk.name(walk.depth, "[:, None]", "kb")
            w_step = walk.text(walk.w_step())
        else:
            w_step = f"k[:, None] * ({conv.text(run)})"
        walk.name(walk.depth, "[None, :]", "ka")
        _multiply(walk, walk.text(walk.x_step()), w_step, exact)


def _multiply(walk: Walk, x_step: str, w_step: str, exact: bool) -> None:
    """Loads the blocks that lie these steps from the first, and adds their product."""
    conv, body = walk.conv, walk.body
    pointers = conv.context.pointers
    left = [*walk.inside(), *body.masks(("m",)), *([] if exact else ["k_in[None, :]"])]
    right = [*body.masks(("n",)), *([] if exact else ["k_in[:, None]"])]
    line = body.writer.line
    line(f"left = {_load(pointers[conv.x.buffer], f'x_at + ({x_step})', left)}")
    line(f"right = {_load(pointers[conv.w.buffer], f'w_at + ({w_step})', right)}")
    line(f"acc = tl.dot(left, right, acc, input_precision={precision(conv.dtype)})")


def _emit_direct(conv: Convolution, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """A tile of positions by channels; each point adds up the taps of its own channels."""
    body = Body(conv.context, Writer(), 2)
    line = body.writer.line
    rows, columns = _direct_tile(conv, hints, gpu)
    channels = TileDim("n", (conv.channel,), columns, 1)
    across = conv.text(ceil_div(conv.channel.extent, columns))
    line(f"program = {program_id(conv.context)}")
    body.open_dim(TileDim("m", conv.positions, rows, 0), f"program // ({across}) * {rows}")
    body.open_dim(channels, f"program % ({across}) * {columns}")
    group = var("group")
    outputs = conv.text(conv.outputs)
    line("group = n" if conv.outputs == 1 else f"group = n // ({outputs})")
    body.name_axis(group, "group", "n")
    walk = Walk(body, conv, group)
    walk.rows()
    first = conv.w.start + product((conv.channel.symbol, conv.w.strides[0]))
    line(f"w_at = {walk.text(first)}")
    line(f"acc = tl.zeros([{rows}, {columns}], tl.float32)")
    taps, inputs = product(conv.taps), int(conv.inputs)
    unrolled = is_int(taps) and int(taps) * inputs <= UNROLLED
    kind = "tl.static_range" if unrolled else "range"
    with body.loop(f"for tap in {kind}(0, {conv.text(taps)})"):
        walk.decode("tap", walk.taps)
        for c in range(inputs):
            body.name_axis(walk.input.symbol, str(c), None)
            _add_tap(walk)
    finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    down = ceil_div(product([a.extent for a in conv.positions]), rows)
    programs = product((down, ceil_div(conv.channel.extent, columns)))
    return finish(conv.kernel, body, line_grid(programs), {"num_warps": 4}, early=False)


def _direct_tile(conv: Convolution, hints: Hints, gpu: Gpu) -> tuple[int, int]:
    channels = hints.value(conv.channel.extent)
    points = hints.volume(conv.positions)
    columns = min(_DIRECT_COLUMNS, power_above(channels))
    rows = max(1, _DIRECT_POINTS // columns)
    across = -(-channels // columns)
    while rows > 8 and -(-points // rows) * across < gpu.units:
        rows //= 2
    return rows, columns


def _add_tap(walk: Walk) -> None:
    body, conv = walk.body, walk.conv
    line, pointers = body.writer.line, conv.context.pointers
    masks = [*walk.inside(), *body.masks(("m", "n"))]
    x = _load(pointers[conv.x.buffer], f"x_at + ({walk.text(walk.x_step())})", masks)
    w = _load(pointers[conv.w.buffer], f"w_at + ({walk.text(walk.w_step())})", body.masks(("n",)))
    line(f"left = {x}.to(tl.float32)")
    line(f"right = {w}.to(tl.float32)")
    line("acc = acc + left * right")
