"""Convolutions that are plain matrix products: of a single tap, over pixels that lie in a row.

Pixels of an image with channels innermost are the rows of one matrix, if every place sees itself
alone. It is multiplied as any other (`template_matmul`): descriptors copy blocks of pixels,
programs stay, and a block's results are stored while others are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from aot.backends.triton.context import TileDim
from aot.backends.triton.conv_walk import VECTOR, Convolution, ConvOperand
from aot.backends.triton.dot import finish_tile, precision, sums_type
from aot.backends.triton.dot_tiling import DotTile, Size, dot_tile, is_few, line_step
from aot.backends.triton.gluon import stores_vectors, takes_epilogue
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.hooks import Hooks
from aot.backends.triton.kernel import GLUON, TRITON, EmittedKernel, line_grid
from aot.backends.triton.template_matmul import GROUP, LEAST_COPIED, Copied, by_copies, by_groups
from aot.ir.hints import Hints, is_dear
from aot.ir.nests import Axis
from aot.symbolic import Expr, Minimum, ceil_div, integer, is_int, is_multiple, product

_CHANNEL = 1
"""Which of the result's axes has the channels."""


@dataclass(frozen=True)
class ConvMatrices:
    """Pixels by channels, outputs by channels, and the tile of their product.

    `turned`: results are stored with channels apart, and so pixels are the product's columns.
    """

    pixels: Copied
    weight: Copied
    tile: DotTile
    turned: bool = False

    @property
    def sides(self) -> tuple[Copied, Copied]:
        """Both operands, in the order in which they are multiplied."""
        return (self.weight, self.pixels) if self.turned else (self.pixels, self.weight)


def conv_matrices(conv: Convolution, hints: Hints, gpu: Gpu) -> ConvMatrices | None:
    """The matrices of a convolution that is multiplied so; None where it is not.

    Nor is it where blocks are so few that programs start sooner without descriptors.
    """
    if not (gpu.async_dots and gpu.copies_blocks) or conv.dtype.itemsize != 2:
        return None
    kernel, context = conv.kernel, conv.context
    plain = not kernel.prologue and not context.wide and is_pixelwise(conv)
    turned = not stores_vectors(kernel, context, _CHANNEL, 1)
    if not plain or (turned and not _stores_places(conv)):
        return None
    pixels, weight = _pixels(conv), _weight(conv)
    if pixels is None or weight is None:
        return None
    first, second = (weight, pixels) if turned else (pixels, weight)
    extents = hints.value(pixels.rows), hints.value(conv.outputs)
    lines = tuple(line_step(int(m.stride) * conv.dtype.itemsize) for m in (first, second))
    size = Size(
        *(extents[::-1] if turned else extents),
        hints.value(conv.inputs),
        1,
        conv.dtype,
        second.flipped,
        (lines[0], lines[1]),
        grouped=takes_epilogue(kernel) and stores_vectors(kernel, context, _CHANNEL),
    )
    dear = is_dear(n for s in kernel.stages for nest in s.nests for n in nest.roots)
    tile = dot_tile(size, gpu, dear=dear)
    blocks = -(-size.rows // tile.rows) * -(-size.columns // tile.columns)
    few = tile.rows < LEAST_COPIED or (not tile.groups and is_few(tile, blocks, gpu))
    return None if few else ConvMatrices(pixels, weight, tile, turned)


def _stores_places(conv: Convolution) -> bool:
    """Whether channels of results lie apart, and places as neighbours, lines of which are vectors.

    Of other lines no thread knows that it has neighbours: 256 channels of 8 x 177 x 177 took 995 us
    on an H200, 174 as other convolutions do.
    """
    line = conv.positions[-1].extent
    if not is_int(line) or int(line) % VECTOR:
        return False
    stored = [conv.context.buffers[name].strides for name in conv.kernel.writes]
    return all(s and len(s) > 2 and s[1] != 1 == s[-1] for s in stored)


def is_pixelwise(conv: Convolution) -> bool:
    """Whether each place sees itself alone, in all channels."""
    still = all(step == 1 for step in conv.stride) and not any(conv.padding)
    return conv.groups == 1 and not conv.call.phases and still and product(conv.taps) == 1


def _pixels(conv: Convolution) -> Copied | None:
    """All images' pixels as one matrix, a row each; None where they do not lie so."""
    batch, channel, *places = conv.x.strides
    axes = [a for a in zip(conv.positions, (batch, *places), strict=True) if a[0].extent != 1]
    if channel != 1 or not axes:
        return None
    step = axes[-1][1]
    for (_, outer), (axis, inner) in pairwise(axes):
        if outer != product((inner, axis.extent)):
            return None
    rows = product([axis.extent for axis in conv.positions])
    return _matrix(conv.x, rows, conv.inputs, step)


def _weight(conv: Convolution) -> Copied | None:
    """Outputs by channels, either of which may be contiguous."""
    output, channel = conv.w.strides[:2]
    if channel == 1:
        return _matrix(conv.w, conv.outputs, conv.inputs, output)
    if output == 1:
        return _matrix(conv.w, conv.inputs, conv.outputs, channel, flipped=True)
    return None


def _matrix(
    source: ConvOperand, rows: Expr, columns: Expr, step: Expr, *, flipped: bool = False
) -> Copied | None:
    """What a descriptor copies, where rows start at multiples of a vector."""
    known = is_int(step) and int(step) > 0 and is_int(columns)
    whole = all(is_multiple(e, VECTOR) for e in (step, source.start))
    if not known or not whole:
        return None
    nowhere = integer(0), integer(0)
    return Copied(source.buffer, rows, columns, step, source.start, flipped, nowhere)


def emit_matrices(conv: Convolution, found: ConvMatrices, gpu: Gpu) -> EmittedKernel:
    """The kernel of a convolution that is a product of matrices."""
    tile, copied, turned = found.tile, found.sides, found.turned
    extents = (found.pixels.rows, conv.outputs)
    rows, columns = extents[::-1] if turned else extents
    down, across = ceil_div(rows, tile.rows), ceil_div(columns, tile.columns)
    hooks = Hooks(conv.context, GLUON if tile.groups else TRITON)
    widths = ("m.shape[0]", "n.shape[1]") if tile.groups else ("", "")
    with hooks.function("finish", "batch", "m", "n", "acc") as body:
        axes = conv.positions, (Axis(conv.channel.symbol, conv.outputs),)
        down_axes, across_axes = axes[::-1] if turned else axes
        body.take_dim(TileDim("m", down_axes, tile.rows, 0, width=widths[0]))
        body.take_dim(TileDim("n", across_axes, tile.columns, 1, width=widths[1]))
        finish_tile(body, conv.kernel, "acc", frozenset(("m", "n")))
    seats = gpu.multiprocessors * tile.resident
    arguments = {
        **{"down": conv.text(down), "across": conv.text(across), "depth": conv.text(conv.inputs)},
        **{"ROWS": str(tile.rows), "COLUMNS": str(tile.columns), "DEPTH": str(tile.depth)},
        **{"GROUP": str(GROUP), "batches": "1", "origins": "None"},
    }
    arguments |= by_copies(conv.context, tile, copied, seats)
    if tile.groups:
        arguments |= by_groups(conv.context, tile, copied)
        arguments |= {"PARTS": "0", "STORED": '"columns"', "sums": "None", "marks": "None"}
    else:
        sums = sums_type(conv.dtype)
        arguments |= {"PRECISION": precision(conv.dtype), "SUMS": sums}
        arguments |= {"PLANES": "False", "TRIANGLE": "None"}
    grid = line_grid(Minimum(product((down, across)), integer(seats)))
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    function = "matmul_by_groups" if tile.groups else "matmul_by_copies"
    return hooks.emit(conv.kernel, function, arguments, grid, options, early=False)
