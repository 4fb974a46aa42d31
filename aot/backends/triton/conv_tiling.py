"""Block sizes of convolutions: how many positions, channels and depth a program takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aot.backends.triton.tiling import power_above
from aot.ir.dtypes import DType

MULTIPROCESSORS = 132
SHARED_BYTES = 96 * 1024
"""Shared memory that blocks in flight may take: less than every architecture has."""

_FILL = 1500
"""Cycles until the first block of a program has come, and after the last one until it ends."""

_STEP = 150
"""Cycles that a step takes at least when nothing else runs on the multiprocessor."""

_NEAR_BYTES = 64
_FAR_BYTES = 28
"""Bytes a cycle from the second-level cache to one multiprocessor: alone, and if all read."""


@dataclass(frozen=True)
class ConvTile:
    """`rows` positions by `columns` output channels; `depth` of a step; warps; loads in flight.

    `flat`: a step takes the next `depth` pairs of tap and channel; otherwise channels of one tap.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    flat: bool


@dataclass(frozen=True)
class ConvSize:
    """A convolution at the hints: positions and output channels, groups, taps, input channels.

    `columns` and `channels` are those of one group. `last`: channels are walked fastest; else they
    are few, and lie apart.
    """

    rows: int
    columns: int
    groups: int
    taps: int
    channels: int
    dtype: DType
    last: bool

    @property
    def is_half(self) -> bool:
        """True when tensor cores multiply."""
        return self.dtype.itemsize == 2


_HALF = (
    # rows, columns, warps, multiplications a cycle
    (128, 256, 8, 1300),
    (256, 128, 8, 1300),
    (128, 128, 8, 1200),
    (256, 64, 8, 1000),
    (128, 64, 4, 1000),
    (64, 128, 4, 1000),
    (64, 64, 4, 700),
    (128, 32, 4, 600),
    (64, 32, 4, 400),
    (32, 64, 4, 400),
    (128, 16, 4, 400),
    (32, 32, 4, 250),
    (16, 64, 4, 250),
    (64, 16, 4, 250),
    (16, 32, 4, 150),
    (32, 16, 4, 150),
    (16, 16, 2, 80),
)
_SINGLE = (
    (128, 128, 8, 80),
    (128, 64, 8, 75),
    (64, 64, 4, 70),
    (64, 32, 4, 60),
    (32, 64, 4, 60),
    (128, 16, 4, 50),
    (32, 32, 4, 45),
    (32, 16, 4, 35),
    (16, 32, 4, 35),
    (16, 16, 2, 25),
)


def conv_tile(size: ConvSize) -> ConvTile:
    """The block that should finish first."""
    return min(_candidates(size), key=lambda tile: (_cycles(size, tile), tile.rows))


def _candidates(size: ConvSize) -> Iterator[ConvTile]:
    least = max(16, power_above(size.columns))
    for rows, columns, warps, _ in _HALF if size.is_half else _SINGLE:
        if columns > least or rows > max(16, 2 * power_above(size.rows)):
            continue
        for depth in (128, 64, 32, 16) if size.is_half else (32, 16):
            if depth == 128 and rows + columns > 128:
                continue
            for flat in (False, True) if size.last else (True,):
                stages = _stages(rows, columns, depth, size.dtype)
                if stages:
                    yield ConvTile(rows, columns, depth, warps, stages, flat)


def _stages(rows: int, columns: int, depth: int, dtype: DType) -> int:
    """Loads in flight that fit, at most five; 0 when not even two do."""
    fit = SHARED_BYTES // ((rows + columns) * depth * dtype.itemsize)
    return min(5, fit) if fit >= 2 else 0


def steps(size: ConvSize, tile: ConvTile) -> int:
    """Turns of the loop over the depth."""
    if tile.flat:
        return -(-size.taps * size.channels // tile.depth)
    return size.taps * -(-size.channels // tile.depth)


def _cycles(size: ConvSize, tile: ConvTile) -> float:
    rate = next(
        r
        for rows, columns, _, r in (_HALF if size.is_half else _SINGLE)
        if (rows, columns) == (tile.rows, tile.columns)
    )
    programs = size.groups * -(-size.rows // tile.rows) * -(-size.columns // tile.columns)
    share = -(-programs // MULTIPROCESSORS)
    turns = steps(size, tile)
    multiply = tile.rows * tile.columns * tile.depth / rate
    read = (tile.rows + tile.columns) * tile.depth * size.dtype.itemsize
    bandwidth = min(_NEAR_BYTES, _FAR_BYTES * MULTIPROCESSORS / min(programs, MULTIPROCESSORS))
    # Every pair of tap and channel has an address and a mask of its own in a flat block.
    vectors = size.last and size.channels % 8 == 0
    gather = tile.rows * tile.depth / (64 if vectors else 16) if tile.flat else 0
    resident = max(1, 2 * SHARED_BYTES // (tile.stages * read))
    busy = share * turns * max(multiply, read / bandwidth, gather)
    waiting = -(-share // resident) * turns * _STEP
    stored = share * tile.rows * tile.columns * 2 * size.dtype.itemsize / bandwidth
    return max(busy, waiting) + stored + _FILL
