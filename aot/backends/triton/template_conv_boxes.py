"""Convolutions by groups of warps, whose input a warp copies by boxes of neighbouring positions.

Where a tap sees neighbours of what another position's tap sees (strides of one), a box of positions
sees a box of the input, and descriptors copy it, with zeros beyond the image's ends
(`device/conv_groups.py`). Else programs copy it by addresses (`template_conv`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aot.backends.triton.context import TileDim
from aot.backends.triton.conv_tiling import ConvSize, conv_tile, problem
from aot.backends.triton.conv_tiling import microseconds as by_programs
from aot.backends.triton.conv_walk import Convolution
from aot.backends.triton.dot import finish_tile
from aot.backends.triton.dot_tiling import (
    ALIGNED,
    GROUP_REGISTERS,
    DotTile,
    Size,
    group_tiles,
    line_step,
    microseconds,
)
from aot.backends.triton.dot_times import LINE
from aot.backends.triton.gluon import stores_vectors, takes_epilogue
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import GLUON, EmittedKernel, line_grid, program_id
from aot.backends.triton.template_matmul import GROUP
from aot.ir.hints import Hints, is_dear
from aot.ir.nests import Axis
from aot.symbolic import Expr, Minimum, ceil_div, integer, is_int, is_multiple, product

_WORTH, _WORTH_OF_FEW, _FEW_OUTPUTS = 0.72, 0.6, 64
"""Of the model's time by programs, below which groups of warps are taken, and of few outputs, of
which they wait for shared memory longer than it says. It knows groups better: by 0.58 to 0.71 they
took 0.59 to 0.95 on an H200 in ten convolutions, by 0.73 to 0.91 0.86 to 1.24 in eight others; of
64 outputs and fewer 0.91 (0.66), 1.02 (0.65), 1.58 (0.88) and 1.7 (0.91)."""

_ALIKE = 1.05
"""Of the least time, up to which the largest block is taken, which reads least: 25538 x 512 of 6912
took 331 and 352 us by 256 x 128 and 128 x 256, by 192 x 128, as fast by the model, 373."""

_CHANNEL = 1
"""Which of the result's axes has the channels."""

_IMAGES = 2
"""Axes of places that a box has."""


@dataclass(frozen=True)
class ConvBoxes:
    """The tile of a convolution by groups of warps, and the lines and pixels of a group's box."""

    tile: DotTile
    box: tuple[int, int]


def conv_boxes(conv: Convolution, size: ConvSize, hints: Hints, gpu: Gpu) -> ConvBoxes | None:
    """How groups of warps compute a convolution; None where they cannot, or programs are faster."""
    if not (gpu.async_dots and gpu.copies_blocks) or not _is_in_boxes(conv):
        return None
    if gpu.tuning.choose(problem(size), gpu.arch, lambda: ()) is not None:
        return None
    line = line_step(int(conv.inputs) * conv.dtype.itemsize)
    depth = LINE // conv.dtype.itemsize
    deep = int(product(conv.taps)) * -(-int(conv.inputs) // depth) * depth
    dear = is_dear(n for s in conv.kernel.stages for nest in s.nests for n in nest.roots)

    def time(found: ConvBoxes) -> float:
        rows = _boxes(conv, found.box, hints) * found.box[0] * found.box[1]
        moved = Size(rows, size.columns, deep, 1, conv.dtype, lines=(line, line), grouped=True)
        return microseconds(found.tile, moved, gpu, dear=dear)

    tiles = group_tiles(conv.dtype)
    found = [ConvBoxes(t, _box(conv, t.rows // t.groups, hints)) for t in tiles]
    least = min(map(time, found), default=math.inf)
    worth = _WORTH if size.columns > _FEW_OUTPUTS else _WORTH_OF_FEW
    if least >= worth * by_programs(size, conv_tile(size, gpu), gpu):
        return None
    alike = (boxes for boxes in found if time(boxes) <= _ALIKE * least)
    return min(alike, key=lambda boxes: (-boxes.tile.rows * boxes.tile.columns, time(boxes)))


def _is_in_boxes(conv: Convolution) -> bool:
    """Whether descriptors can copy boxes of the input, and tensor cores take what they copied."""
    call, kernel = conv.call, conv.kernel
    ready = conv.dtype.itemsize == 4 and call.precision is not None
    ready = ready and {"x", "w"} <= set(call.prepared)
    plain = conv.groups == 1 and not call.phases and not kernel.prologue and not conv.context.wide
    still = len(conv.stride) <= _IMAGES and all(step == 1 for step in conv.stride)
    if not (conv.dtype.itemsize == 2 or ready) or not plain or not still:
        return False
    return takes_epilogue(kernel) and _is_copied(conv)


def _is_copied(conv: Convolution) -> bool:
    """Whether pixels and taps start at multiples of a vector, with channels side by side."""
    each, x, w = ALIGNED // conv.dtype.itemsize, conv.x.strides, conv.w.strides
    outer = (x[0], *x[2:], w[0], conv.x.start, conv.w.start, conv.inputs)
    if not all(is_int(e) and int(e) >= 0 and is_multiple(e, each) for e in outer):
        return False
    if x[1] != 1 or w[1] != 1 or not all(is_int(e) for e in conv.taps):
        return False
    # Taps lie one behind the other.
    step, dense = conv.inputs, True
    for extent, own in zip(reversed(conv.taps), reversed(w[2:]), strict=True):
        dense &= extent == 1 or own == step
        step = product((step, extent))
    return dense


def _places(conv: Convolution) -> tuple[Expr, Expr]:
    """Lines and pixels of a result."""
    *lines, pixels = (axis.extent for axis in conv.positions[1:])
    return (lines[0] if lines else integer(1)), pixels


def _boxes(conv: Convolution, box: tuple[int, int], hints: Hints) -> int:
    lines, pixels = (hints.value(e) for e in _places(conv))
    images = hints.some([conv.positions[0]])
    return images * -(-lines // box[0]) * -(-pixels // box[1])


def _box(conv: Convolution, rows: int, hints: Hints) -> tuple[int, int]:
    """Lines and pixels of a box, the one that leaves least outside; of these the widest."""
    sizes = [(rows >> k, 1 << k) for k in range(rows.bit_length())]
    return min(sizes, key=lambda box: (_boxes(conv, box, hints), -box[1]))


def emit_boxes(conv: Convolution, found: ConvBoxes, gpu: Gpu) -> EmittedKernel:
    """The kernel of a convolution by groups of warps, and its epilogue."""
    tile, (high, wide) = found.tile, found.box
    lines, pixels = _places(conv)
    boxes = ceil_div(lines, high), ceil_div(pixels, wide)
    images = conv.positions[0].extent
    down = ceil_div(product((images, *boxes)), tile.groups)
    across = ceil_div(conv.outputs, tile.columns)
    hooks = Hooks(conv.context, GLUON)
    with hooks.function("finish", "batch", "m", "n", "acc") as body:
        line = body.writer.line
        inside, columns = f"m % {high * wide}", conv.text(boxes[1])
        line(f"box = m // {high * wide}")
        line(f"up = box // ({columns}) % ({conv.text(boxes[0])}) * {high} + {inside} // {wide}")
        line(f"along = box % ({columns}) * {wide} + {inside} % {wide}")
        line(f"image = box // ({conv.text(product(boxes))})")
        line(f"m = (image * ({conv.text(lines)}) + up) * ({conv.text(pixels)}) + along")
        every = conv.text(product((images, lines, pixels)))
        outside = f"(up >= {conv.text(lines)}) | (along >= {conv.text(pixels)})"
        line(f"m = tl.where({outside}, {every}, m)")
        places = "m.shape[0]"
        body.take_dim(TileDim("m", conv.positions, tile.rows, 0, scattered=True, width=places))
        channels = (Axis(conv.channel.symbol, conv.outputs),)
        body.take_dim(TileDim("n", channels, tile.columns, 1, width="n.shape[1]"))
        finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    arguments = {
        "program": program_id(conv.context),
        **_sources(conv),
        "boxes": f"({conv.text(boxes[0])}, {conv.text(boxes[1])})",
        **{"down": conv.text(down), "across": conv.text(across)},
        **_walk(conv),
        **{"BOX": str(found.box), "GROUPS": str(tile.groups), "ROWS": str(high * wide)},
        **{"COLUMNS": str(tile.pieces[0]), "MORE": str(tile.pieces[1])},
        **{"DEPTH": str(tile.depth), "STAGES": str(tile.stages), "GROUP": str(GROUP)},
        "SEATS": str(gpu.multiprocessors),
        "REGISTERS": str(GROUP_REGISTERS[tile.groups]),
        "STORED": repr(_stored(conv)),
    }
    grid = line_grid(Minimum(product((down, across)), integer(gpu.multiprocessors)))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    return hooks.emit(conv.kernel, "conv_by_groups", arguments, grid, options, early=False)


def _stored(conv: Convolution) -> str:
    """How results are stored, as `finish_block` has it: channels of a position as vectors or not.

    Or places, where channels lie apart.
    """
    if stores_vectors(conv.kernel, conv.context, _CHANNEL):
        return "columns"
    near = stores_vectors(conv.kernel, conv.context, _CHANNEL, 1)
    return "single columns" if near else "single rows"


def _sources(conv: Convolution) -> dict[str, str]:
    """The input and the weight as descriptors see them; of a line alone there is one."""
    x, w, pointers = conv.x, conv.w, conv.context.pointers
    sizes = [integer(1), *conv.sizes][-_IMAGES:]
    # A dimension of one element has any step that is a vector's.
    steps = [x.strides[0], *x.strides[2:]][-_IMAGES:]
    image = (conv.positions[0].extent, *sizes, x.strides[0], *steps)
    starts = [f"{pointers[o.buffer]} + {conv.text(o.start)}" for o in (x, w)]
    weight = (conv.outputs, w.strides[0])
    return {
        "image": f"({', '.join((starts[0], *map(conv.text, image)))})",
        "weight": f"({', '.join((starts[1], *map(conv.text, weight)))})",
    }


def _walk(conv: Convolution) -> dict[str, str]:
    """Taps, what lies between them, and the padding before the first, of lines and pixels."""
    rows = {"TAPS": (1, *map(int, conv.taps)), "APART": (1, *conv.dilation)}
    rows["BEFORE"] = (0, *conv.padding)
    found = {name: str(numbers[-_IMAGES:]) for name, numbers in rows.items()}
    return found | {"CHANNELS": str(int(conv.inputs))}
