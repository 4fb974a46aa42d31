"""Tiles and blocking of the template of Winograd's convolutions, chosen when a package is built."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from aot.backends.cpp.conv_heuristic import ConvShape
from aot.backends.cpp.gemm_heuristic import PANEL
from aot.backends.cpp.packing import FILTERS

# What the transforms of an element cost along a line, by its stride, in products of a vector's lane
# (most inputs of stride 2 stay what they are), and from how many rows of products on these take
# longer than reading the weight from memory.
_TRANSFORM = {1: 8, 2: 4}
_READ = 20
# A tile must take this part of the time of a smaller one, whose weight is smaller, at most.
_LEAST_GAIN = 0.9
_LEAST_CHANNELS = 32
_LEAST_WIDE_CHANNELS = 512
WINOGRAD_TILES = ((2, 2), (4, 2), (4, 4))
"""Tiles of outputs, down and across."""
# Tiles of a block, and their products: transformed channels stay in L2 beside what is multiplied.
_TILES = 32
_TILE_PRODUCTS = 1152
_UNIT_MACS = 600_000


@dataclass(frozen=True)
class WinogradBlocking:
    """Template arguments of `aot::tmpl::winograd` and what the plan needs to launch it.

    `tile`: outputs of a tile, down and across; `rows`, `columns`: the most tiles of a block, down
    and across; `nb`: channels of a unit; `grain` as in `ConvBlocking`.
    """

    shape: ConvShape
    tile: tuple[int, int]
    rows: int
    columns: int
    nb: int
    grain: int

    @property
    def matrices(self) -> int:
        """Products that take the place of a tile's sums."""
        return products(self.shape, self.tile)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch: the twin of `winograd_scratch` in aot/tmpl/winograd.h."""
        tiles, ld = self.rows * self.columns, self.nb + PANEL
        matrices = tiles * self.shape.ic + PANEL + tiles * ld + PANEL
        outputs = prod(self.tile) * self.columns * ld
        return (self.matrices * matrices + outputs + self.shape.ic) * 4

    def work(self, images: int, oh: int, ow: int) -> int:
        """Work units of a launch: blocks of tiles times runs of channels."""
        down, across = images * -(-oh // self.tile[0]), -(-ow // self.tile[1])
        blocks = -(-down // self.rows) * -(-across // self.columns)
        return blocks * -(-self.shape.oc // self.nb)


def winograd_tile(shape: ConvShape, images: int, oh: int, ow: int) -> tuple[int, int] | None:
    """The tile whose transforms save most, for typical sizes, in float32; None: none does.

    A tile's time is that of its products, or of reading the weights if that is longer, and of the
    transforms.
    """
    kind = (shape.groups, shape.kernel, shape.stride[0], shape.dilation, shape.padding[0])
    channels = shape.oc >= _LEAST_CHANNELS and shape.ic % PANEL == 0
    if kind != (1, (1, 3, 3), 1, (1, 1, 1), 0) or not set(shape.stride) <= {1, 2} or not channels:
        return None
    best: tuple[int, int] | None = None
    time = 9.0 * max(_READ, images * oh * ow)
    for tile in WINOGRAD_TILES:
        tiles = images * -(-oh // tile[0]) * -(-ow // tile[1])
        count = products(shape, tile)
        cost = sum(_TRANSFORM[step] for step in shape.stride[1:])
        transforms = count * cost * tiles * (1 / shape.ic + 1 / shape.oc)
        took = max(_READ * weights(shape, tile), count * tiles) + transforms
        if shape.ic >= least_channels(shape, tile) and took <= _LEAST_GAIN * time:
            best, time = tile, took
    return best


def least_channels(shape: ConvShape, tile: tuple[int, int]) -> int:
    """The fewest channels that a tile may sum.

    Its sums are few and rounded early, and 4 outputs of a line amplify that, of stride 2 less: so
    the error stays within 3 times eager's, also where only 3 % of the inputs are no zeros
    (tests/backends/cpp/tmpl/test_winograd.py).
    """
    wide = tile == (4, 4) and shape.stride[1:] != (2, 2)
    return _LEAST_WIDE_CHANNELS if wide else _LEAST_CHANNELS


def winograd_blocking(
    shape: ConvShape, tile: tuple[int, int], images: int, oh: int, ow: int
) -> WinogradBlocking:
    """Chooses the blocking for so many images of `oh` rows of `ow` outputs, or typical ones."""
    down, across = max(1, images * -(-oh // tile[0])), max(1, -(-ow // tile[1]))
    most = min(_TILES, _TILE_PRODUCTS // products(shape, tile))
    columns = -(-across // -(-across // most))
    rows = max(1, most // columns)
    rows = -(-down // -(-down // rows))
    nb = 3 * PANEL if shape.oc % (3 * PANEL) == 0 else min(4 * PANEL, -(-shape.oc // PANEL) * PANEL)
    macs = products(shape, tile) * rows * columns * shape.ic * nb
    return WinogradBlocking(shape, tile, rows, columns, nb, max(1, _UNIT_MACS // macs))


def products(shape: ConvShape, tile: tuple[int, int]) -> int:
    """Products of a tile: those of a line down times those of a line across."""
    return prod(len(FILTERS[size][step].products) for size, step in _lines(shape, tile))


def weights(shape: ConvShape, tile: tuple[int, int]) -> int:
    """Matrices of the transformed weight, some of which several products read."""
    return prod(len(FILTERS[size][step].rows) for size, step in _lines(shape, tile))


def _lines(shape: ConvShape, tile: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Outputs and stride of either dimension."""
    return tuple(zip(tile, shape.stride[1:], strict=True))
