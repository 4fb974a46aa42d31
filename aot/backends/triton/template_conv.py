"""Convolutions as implicit matrix products; by threads where outputs are few, or groups tiny.

Rows of the product are output positions of all images, columns the output channels of one group,
and the depth is every pair of tap and input channel. The functions are those of `device/conv.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.body import Body
from aot.backends.triton.context import TileDim
from aot.backends.triton.conv_tiling import ConvSize, ConvTile, conv_tile, taps_at_once
from aot.backends.triton.conv_walk import VECTOR, Convolution, ConvWalk, take_apart
from aot.backends.triton.dot import finish_tile, precision, sums_type
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks, in_tuple
from aot.backends.triton.kernel import EmittedKernel, line_grid, program_id
from aot.backends.triton.template_conv_boxes import conv_boxes, emit_boxes
from aot.backends.triton.template_conv_matrix import conv_matrices, emit_matrices
from aot.backends.triton.tiling import WARP
from aot.ir.hints import Hints
from aot.ir.kernel_facts import template_call
from aot.ir.kernels import KernelGraph, TemplateKernel
from aot.ir.nests import Axis
from aot.ir.templates.conv import Conv, Narrow
from aot.symbolic import Expr, ceil_div, integer, is_int, power_above, product, var

TINY_GROUP = 8
"""Products of a group's input and output channels up to which tensor cores are not worth it."""

UNROLLED = 64
"""Multiplications a point up to which a direct convolution has no loop."""

_FEW = Narrow(
    inputs=8,
    outputs=8,
    outputs_of_steps=8,
    products=TINY_GROUP + 1,
    few=VECTOR,
    few_outputs=16,
    group_outputs=6,
    multiple=VECTOR,
    multiple_outputs=0,
    deep=256,
)
NARROW = {
    "float32": replace(
        _FEW, outputs=32, few=2 * VECTOR, group_outputs=8, multiple_outputs=4, deep=1024
    ),
    "float16": _FEW,
    "bfloat16": _FEW,
}
"""Up to where each thread sums by itself. Tensor cores take halves from 16 outputs on; with steps,
every program that shares an input's rows reads more lines of it than it has use for. Of a group's
few outputs tensor cores' blocks are mostly empty, and what they gather, element by element unless
channels fill vectors, is used so few times. Deep ones are worth zeros that fill them: on an H200 50
channels of 49 taps to 4 took 295 us by threads, 124 with zeros (halves), 83 of 49 to 6 709 and 83,
43 of 25 to 4 226 and 79, 26 of 27 to 4 221 and 67, 11 of 25 to 4 220 and 138, in float32 54 of 27
to 6 253 and 222, but 15 of 25 to 8 433 and 552."""

_NARROW_OUTPUTS, _GROUP_OUTPUTS = 8, 16
"""Outputs whose sums fit into a thread's registers, of one group and of several: there what is
read again is more than these outputs'."""

_NARROW_POINTS, _GROUP_POINTS = 512, 1024
_NARROW_LEAST, _SHARED_POINTS = 128, 512
_NARROW_SUMS = 80
"""Of a thread."""

_NARROW_INPUTS = 8
"""Channels of a group that are written out."""

_NARROW_WARPS = 4

_DIRECT_COLUMNS = 64
_STRIP, _MOST_TAPS = 4, 11
"""Places of one strip, which share what their taps see, and along these taps at most."""

_DIRECT_POINTS = {True: 2048, False: 1024}
_PLACE_POINTS = 512
"""Of a tile whose neighbours are channels: where these fill vectors, and else; and of places.
Code is repeated for each of a thread's, and what taps see of all of them is loaded at a time: with
2048 places 49 taps of float64 took 20 times eager's time on an H200."""
_CROSSED_COLUMNS = 16
"""Channels of a tile whose input has them apart, and whose result has them together."""


def emit_conv(kernel: TemplateKernel, graph: KernelGraph, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """The kernel of a convolution and its epilogue; of float32, rounded if so at the hints."""
    call = template_call(kernel, Conv)
    conv = take_apart(replace(kernel, template=call.at_hints(hints)), graph, gpu)
    if conv.call.is_narrow(NARROW.get(conv.dtype.name, Narrow())):
        return _emit_narrow(conv, hints, gpu)
    if conv.call.is_direct(TINY_GROUP):
        return _emit_direct(conv, hints, gpu)
    matrices = conv_matrices(conv, hints, gpu)
    if matrices is not None:
        return emit_matrices(conv, matrices, gpu)
    size = ConvSize(
        rows=hints.volume(conv.positions),
        columns=hints.value(conv.outputs),
        groups=conv.groups,
        taps=hints.value(product(conv.taps)),
        channels=hints.value(conv.inputs),
        dtype=conv.dtype,
        last=conv.last,
        rounded=conv.call.precision is not None,
        ready="x" in conv.call.prepared,
    )
    boxes = conv_boxes(conv, size, hints, gpu)
    if boxes is not None:
        return emit_boxes(conv, boxes, gpu)
    return _emit_product(conv, conv_tile(size, gpu), gpu)


def _write_load(body: Body, pointer: str, address: str, masks: Sequence[str]) -> None:
    """Returns what lies there, and 0 where a mask says so."""
    masked = f", mask={' & '.join(masks)}, other=0" if masks else ""
    body.writer.line(f"return tl.load({pointer} + ({address}){masked})")


def _emit_product(conv: Convolution, tile: ConvTile, gpu: Gpu) -> EmittedKernel:
    down = ceil_div(product([a.extent for a in conv.positions]), tile.rows)
    across = ceil_div(conv.outputs, tile.columns)
    blocks = ceil_div(conv.inputs, tile.depth)
    # Counted by one number, programs of a group would be below a constant, and the assembler then
    # packs their arithmetic in pairs of 16 bits: 128 x 64 of float32 read outside of its operands.
    arguments = {
        "program": program_id(conv.context),
        "group": _group(conv),
        "across": conv.text(across),
        "end": conv.text(conv.depth if tile.flat else product((*conv.taps, blocks))),
        "ROWS": str(tile.rows),
        "COLUMNS": str(tile.columns),
        "STEP": str(tile.depth if tile.flat else 1),
        "PRECISION": precision(conv.dtype, split=gpu.splits_floats, rounded=conv.call.precision),
        "SUMS": sums_type(conv.dtype),
        "X_ROUNDED": str("x" in conv.call.prepared),
        "W_ROUNDED": str("w" in conv.call.prepared),
    }
    grid = (product((down, across)), integer(conv.groups), integer(1))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    hooks = _product_hooks(conv, tile)
    return hooks.emit(conv.kernel, "conv_product", arguments, grid, options, early=False)


def _group(conv: Convolution) -> str:
    """The text of the number of a program's group."""
    if conv.groups == 1:
        return "0"
    return "tl.program_id(1)" + (".to(tl.int64)" if conv.context.wide else "")


def _product_hooks(conv: Convolution, tile: ConvTile) -> Hooks:
    hooks = Hooks(conv.context)
    rows = TileDim("m", conv.positions, tile.rows, 0)
    with hooks.function("rows", "group", "m") as body:
        body.take_dim(rows)
        walk = ConvWalk(body, conv, _name_group(body, conv))
        walk.rows()
        if not tile.flat:
            _add_lanes(walk, "x_at", "k[None, :]", conv.x.strides[1], tile)
        body.writer.line(f"return {in_tuple(walk.seen)}")
    with hooks.function("columns", "group", "n") as body:
        _take_channels(body, conv, tile, through=True)
        walk = ConvWalk(body, conv, integer(0))
        walk.columns("n")
        if not tile.flat:
            _add_lanes(walk, "w_at", "k[:, None]", conv.w.strides[1], tile)
        body.writer.line("return w_at")
    name_step = _name_pairs if tile.flat else _name_tap
    pointers = conv.context.pointers
    with hooks.function("load_x", "m", "x", "start") as body:
        body.take_dim(rows)
        walk = ConvWalk(body, conv, integer(0))
        body.writer.line(f"{in_tuple(walk.seen)} = x")
        rest = name_step(walk, tile, "[None, :]")
        masks = [*walk.inside(), *body.masks(("m",)), *rest]
        address = f"x_at + ({walk.text(walk.x_step())})"
        _write_load(body, pointers[conv.x.buffer], address, masks)
    with hooks.function("load_w", "n", "w", "start") as body:
        _take_channels(body, conv, tile)
        walk = ConvWalk(body, conv, integer(0))
        rest = name_step(walk, tile, "[:, None]")
        step, run = walk.text(walk.w_step()), walk.weight_run() if tile.flat else None
        if run is not None:
            step = f"k[:, None] * ({conv.text(run)})"
        _write_load(body, pointers[conv.w.buffer], f"w + ({step})", [*body.masks(("n",)), *rest])
    with hooks.function("finish", "group", "m", "n", "acc") as body:
        body.take_dim(rows)
        _take_channels(body, conv, tile, through=True)
        finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    return hooks


def _name_group(body: Body, conv: Convolution) -> Expr:
    """The group's number."""
    if conv.groups == 1:
        return integer(0)
    group = var("group")
    body.name_axis(group, "group", None)
    return group


def _take_channels(body: Body, conv: Convolution, tile: ConvTile, *, through: bool = False) -> None:
    """A dimension of one group's channels; `through`: the index then counts through all groups."""
    axes = (Axis(conv.channel.symbol, conv.outputs),)
    body.take_dim(TileDim("n", axes, tile.columns, 1))
    phases = _phases_together(conv)
    if phases > 1:
        whole = ceil_div(conv.outputs, phases)
        body.writer.line(f"n = n % {phases} * ({conv.text(whole)}) + n // {phases}")
    if through and conv.groups > 1:
        body.writer.line(f"n = n + group * ({conv.text(conv.outputs)})")


def _phases_together(conv: Convolution) -> int:
    """Phases of a transposed convolution that are neighbours among a tile's columns; 1: none.

    They are where what is stored has channels further apart than places: a channel's phases lie
    side by side there, and go to memory in whole sectors together. Weights have to lie so that each
    output is read by itself.
    """
    phases = conv.call.phases or 1
    stored = [conv.context.buffers[name].strides for name in conv.kernel.writes]
    apart = all(strides and len(strides) > 1 and strides[1] != 1 for strides in stored)
    return phases if apart and conv.w.strides[0] != 1 else 1


def _add_lanes(walk: ConvWalk, address: str, lanes: str, stride: Expr, tile: ConvTile) -> None:
    """Adds to an address what the channels of a step's lanes make of it."""
    line, channel = walk.body.writer.line, walk.input.symbol
    wide = ".to(tl.int64)" if walk.conv.context.wide else ""
    line(f"k = tl.arange(0, {tile.depth}){wide}")
    walk.body.name_axis(channel, lanes, "k")
    line(f"{address} = {address} + {walk.text(product((channel, stride)))}")


def _name_tap(walk: ConvWalk, tile: ConvTile, lanes: str) -> list[str]:
    """Names a step's tap and channel, and returns masks: `start` counts through channel blocks."""
    body, conv = walk.body, walk.conv
    line = body.writer.line
    blocks, taps = ceil_div(conv.inputs, tile.depth), product(conv.taps)
    number = "(start + tl.full([], 0, tl.int64))" if conv.context.wide else "start"
    across = conv.text(blocks)
    walk.decode(number if blocks == 1 else f"({number} // ({across}))", walk.taps)
    first = number if taps == 1 else f"{number} % ({across})"
    line("first = 0" if blocks == 1 else f"first = {first} * {tile.depth}")
    body.name_axis(walk.input.symbol, "first", None)
    if is_int(conv.inputs) and int(conv.inputs) % tile.depth == 0:
        return []
    line(f"k_in = first + tl.arange(0, {tile.depth}) < {conv.text(conv.inputs)}")
    return [f"k_in{lanes}"]


def _name_pairs(walk: ConvWalk, tile: ConvTile, lanes: str) -> list[str]:
    """The same where a step takes the next pairs of tap and channel, so that padding is least."""
    conv, line = walk.conv, walk.body.writer.line
    wide = ".to(tl.int64)" if conv.context.wide else ""
    line(f"k = start + tl.arange(0, {tile.depth}){wide}")
    walk.decode("k", walk.depth)
    walk.name(walk.depth, lanes, "k")
    if is_int(conv.depth) and int(conv.depth) % tile.depth == 0:
        return []
    line(f"k_in = k < {conv.text(conv.depth)}")
    return [f"k_in{lanes}"]


def _emit_direct(conv: Convolution, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """A tile of strips of positions by channels; each point adds up the taps of its channels."""
    strip = _strip(conv, hints)
    conv = replace(conv, beyond=strip.axis if strip.ends_early(conv) else None)
    rows, columns = _direct_tile(conv, strip, hints, gpu)
    inputs, along = int(conv.inputs), 1 if strip.axis is None else int(conv.taps[strip.axis])
    others = product([t for k, t in enumerate(conv.taps) if k != strip.axis])
    across = ceil_div(conv.channel.extent, columns)
    arguments = {
        "program": program_id(conv.context),
        "across": conv.text(across),
        "others": conv.text(others),
        "ROWS": str(rows),
        "COLUMNS": str(columns),
        "CHANNELS": str(inputs),
        "STRIP": str(strip.length),
        "STEP": str(1 if strip.axis is None else conv.stride[strip.axis]),
        "TAPS": str(along),
        "UNROLLED": str(is_int(others) and int(others * along) * inputs <= UNROLLED),
        "SUMS": sums_type(conv.dtype),
    }
    down = ceil_div(product([a.extent for a in strip.axes(conv)]), rows)
    grid = line_grid(product((down, across)))
    hooks = _direct_hooks(conv, strip, rows, columns)
    return hooks.emit(conv.kernel, "conv_direct", arguments, grid, {"num_warps": 4}, early=False)


@dataclass(frozen=True)
class _Strip:
    """So many places along a spatial axis that a thread computes together; None: along none."""

    axis: int | None
    length: int

    def axes(self, conv: Convolution) -> tuple[Axis, ...]:
        """The positions, strips in the place of that axis."""
        batch, *places = conv.positions
        if self.axis is not None:
            own = places[self.axis]
            places[self.axis] = Axis(own.symbol, ceil_div(own.extent, self.length))
        return (batch, *places)

    def name(self, body: Body, conv: Convolution, place: str) -> str:
        """Names a place of the strip that the axis's variable counts; returns its text."""
        if self.axis is None or self.length == 1:
            return ""
        own = conv.positions[1 + self.axis]
        text = f"({body.index(own.symbol, {})[0]} * {self.length} + {place})"
        body.name_axis(own.symbol, text, "m")
        return text

    def ends_early(self, conv: Convolution) -> bool:
        """True where the last strip of a line may have places beyond its end."""
        if self.axis is None or self.length == 1:
            return False
        extent = conv.positions[1 + self.axis].extent
        return not is_int(extent) or int(extent) % self.length != 0


def _strip(conv: Convolution, hints: Hints) -> _Strip:
    """Along the last axis but one: places along the last one are neighbours in memory.

    Taps have to be known, and be neighbours, for what they see to be shared.
    """
    rank = len(conv.taps)
    axis = max(0, rank - 2)
    taps = conv.taps[axis]
    if not is_int(taps) or not 1 < int(taps) <= _MOST_TAPS:
        return _Strip(None, 1)
    apart = rank == 1 and conv.x.strides[1] != 1
    length = 1 if apart or conv.dilation[axis] != 1 else _STRIP
    while length > hints.value(conv.positions[1 + axis].extent):
        length //= 2
    return _Strip(axis, max(1, length))


def _direct_hooks(conv: Convolution, strip: _Strip, rows: int, columns: int) -> Hooks:
    cut = strip.ends_early(conv)
    strips = TileDim("m", strip.axes(conv), rows, 0, scattered=cut)
    channels = TileDim("n", (conv.channel,), columns, 1)
    hooks = Hooks(conv.context)
    group, pointers = var("group"), conv.context.pointers
    with hooks.function("window", "m", "n") as body:
        body.take_dim(strips)
        body.take_dim(channels)
        strip.name(body, conv, "0")
        outputs = conv.text(conv.outputs)
        body.writer.line("group = n" if conv.outputs == 1 else f"group = n // ({outputs})")
        body.name_axis(group, "group", "n")
        walk = ConvWalk(body, conv, group)
        walk.rows()
        walk.columns()
        body.writer.line(f"return {in_tuple((*walk.seen, 'w_at'))}")
    for name, operand in (("load_x", conv.x), ("load_w", conv.w)):
        with hooks.function(name, "m", "n", "seen", "place", "other", "c") as body:
            body.take_dim(strips)
            body.take_dim(channels)
            walk = ConvWalk(body, conv, group)
            body.writer.line(f"{in_tuple((*walk.seen, 'w_at'))} = seen")
            walk.decode("other", [t for k, t in enumerate(walk.taps) if k != strip.axis])
            if strip.axis is not None:
                body.name_axis(walk.taps[strip.axis].symbol, "place", None)
            body.name_axis(walk.input.symbol, "c", None)
            masks = [*walk.inside(), *body.masks(("m", "n"))]
            if operand is conv.x:
                address = f"x_at + ({walk.text(walk.x_step())})"
            else:
                address, masks = f"w_at + ({walk.text(walk.w_step())})", body.masks(("n",))
            _write_load(body, pointers[operand.buffer], address, masks)
    with hooks.function("finish", "m", "n", "place", "acc") as body:
        body.take_dim(strips)
        body.take_dim(channels)
        at = strip.name(body, conv, "place")
        if cut and strip.axis is not None:
            end = conv.text(conv.positions[1 + strip.axis].extent)
            body.writer.line(f"m_in = m_in & ({at} < {end})")
        finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    return hooks


def _direct_tile(conv: Convolution, strip: _Strip, hints: Hints, gpu: Gpu) -> tuple[int, int]:
    channels = hints.value(conv.channel.extent)
    points = hints.volume(strip.axes(conv))
    columns = min(_most_columns(conv), power_above(channels))
    most = _PLACE_POINTS if conv.x.strides[1] != 1 else _DIRECT_POINTS[channels % VECTOR == 0]
    rows = max(1, min(most // strip.length // columns, power_above(points)))
    across = -(-channels // columns)
    while rows > 8 and -(-points // rows) * across < gpu.units:
        rows //= 2
    return rows, columns


def _most_columns(conv: Convolution) -> int:
    """Channels of a tile: as many as are read together, or stored together.

    Where channels lie apart in both, neighbours are places of one channel.
    """
    if conv.x.strides[1] == 1:
        return _DIRECT_COLUMNS
    stored = [conv.context.buffers[name].strides for name in conv.kernel.writes]
    last = any(strides and len(strides) > 1 and strides[1] == 1 for strides in stored)
    return _CROSSED_COLUMNS if last else 1


def _emit_narrow(conv: Convolution, hints: Hints, gpu: Gpu) -> EmittedKernel:
    """All channels of some positions in a program; a thread's sums of all of them in registers."""
    inputs, taps = int(conv.inputs), product(conv.taps)
    most = _NARROW_OUTPUTS if conv.groups == 1 else _GROUP_OUTPUTS
    outputs = _most_at_once(int(conv.outputs), most)
    across = int(conv.outputs) // outputs
    rows = _narrow_rows(conv, outputs, across, hints, gpu)
    channels = inputs if conv.groups == 1 else _most_at_once(inputs, _NARROW_INPUTS)
    at_once = taps_at_once(conv.taps, inputs, outputs, rows // (WARP * _NARROW_WARPS))
    arguments = {
        "program": program_id(conv.context),
        "group": _group(conv),
        "across": str(across),
        "taps": conv.text(taps),
        "channels": str(inputs),
        "ROWS": str(rows),
        "CHANNELS": str(channels),
        "OUTPUTS": str(outputs),
        "UNROLLED": str(at_once == taps),
        "TAPS": str(at_once),
    }
    down = ceil_div(product([a.extent for a in conv.positions]), rows)
    grid = (product((down, integer(across))), integer(conv.groups), integer(1))
    hooks = _narrow_hooks(conv, rows)
    options = {"num_warps": _NARROW_WARPS}
    return hooks.emit(conv.kernel, "conv_narrow", arguments, grid, options, early=False)


def _narrow_rows(conv: Convolution, outputs: int, across: int, hints: Hints, gpu: Gpu) -> int:
    """Positions of a program: several of a thread share each weight that it reads.

    Of groups that is worth idle programs, unless a multiprocessor would have none: 32768 positions
    in four groups of 55 channels and 4 outputs took 181 us on an H200 with four of a thread, 228
    with two and 337 with one.
    """
    rows = _NARROW_POINTS if conv.groups == 1 else _GROUP_POINTS
    points = hints.volume(conv.positions)
    while rows > _NARROW_LEAST:
        shared = conv.groups > 1 and rows <= _SHARED_POINTS
        programs = -(-points // rows) * across * conv.groups
        few = programs < (gpu.multiprocessors if shared else gpu.units)
        if not few and rows * outputs <= _NARROW_SUMS * WARP * _NARROW_WARPS:
            break
        rows //= 2
    return rows


def _most_at_once(count: int, most: int) -> int:
    """Outputs or channels of a step: a divisor of them all."""
    return next(n for n in range(most, 0, -1) if count % n == 0)


def _narrow_hooks(conv: Convolution, rows: int) -> Hooks:
    dim = TileDim("m", conv.positions, rows, 0)
    hooks, pointers = Hooks(conv.context), conv.context.pointers
    outputs = conv.text(conv.outputs)
    channel = "n" if conv.groups == 1 else f"(n + group * ({outputs}))"
    with hooks.function("window", "group", "m") as body:
        body.take_dim(dim)
        walk = ConvWalk(body, conv, _name_group(body, conv))
        walk.rows()
        body.writer.line(f"return {in_tuple(walk.seen)}")
    with hooks.function("load_x", "m", "seen", "tap", "c") as body:
        body.take_dim(dim)
        walk = ConvWalk(body, conv, integer(0))
        body.writer.line(f"{in_tuple(walk.seen)} = seen")
        _name_step(walk)
        address = f"x_at + ({walk.text(walk.x_step())})"
        _write_load(body, pointers[conv.x.buffer], address, [*walk.inside(), *body.masks(("m",))])
    with hooks.function("load_w", "group", "tap", "c", "n") as body:
        walk = ConvWalk(body, conv, integer(0))
        body.name_axis(conv.channel.symbol, channel, None)
        walk.columns()
        _name_step(walk)
        _write_load(body, pointers[conv.w.buffer], f"w_at + ({walk.text(walk.w_step())})", ())
    with hooks.function("finish", "group", "m", "n", "acc") as body:
        body.take_dim(dim)
        body.name_axis(conv.channel.symbol, channel, None)
        finish_tile(body, conv.kernel, "acc", frozenset(("m",)))
    return hooks


def _name_step(walk: ConvWalk) -> None:
    """Names the tap and the channel that a function is given."""
    walk.decode("tap", walk.taps)
    walk.body.name_axis(walk.input.symbol, "c", None)
