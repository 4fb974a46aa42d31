"""Products of great depth and few results as products of parts of the depth, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.backends.triton.dot_tiling import (
    ALIGNED,
    FEW_ROWS,
    FLAT,
    Size,
    blocks_of,
    exchanged,
    is_exchanged,
    least_microseconds,
    microseconds,
    tiles_of,
)
from aot.backends.triton.dot_times import LINE
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.tiling import WARP

_LONG_FLAT, _LEAST_FLAT = 8192, 2048  # Depths of few rows that are cut, and of their parts.

_PARTS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)
_PART = 64
"""Parts of a depth are multiples of it, else there are zeros behind them."""

_LEAST_PART = 256
"""Of a depth."""

_LAUNCH = 2.5
"""Microseconds of the launch that adds up parts, or of one that copies an operand."""

_BYTES = 2.5e6
"""Bytes in a microsecond that such a launch reads and writes."""

_STREAM = 4e6
"""Bytes in a microsecond that memory gives at most."""

_WORTH_SHARING = 0.85
"""Of the time without, below which blocks are shared out."""

_CUT_LINES = 1.2
"""Bytes that are read for each one where parts begin within lines: 8192 x 3408 by 3408 x 32 float64
took 70 us in three parts, of 71 lines, 80 in four and 84 in two."""

_LOAD, _BESIDE, _LEAST_LOAD = 0.043, 4, 0.013
"""Microseconds of each load of a thread in a step whose elements it reads one by one, the programs
of a multiprocessor that wait beside each other, and what a load takes whoever waits. 8 of 43 x 2976
by 2976 x 1855, both odd, took 194 us on an H200, with both copied 128, where they lie in four parts
81 and in eight 67."""

_WORTH_MERGING = 0.97
"""Of the time of products apart, below which one in their place is worth it."""

_AS_GOOD = 1.1
"""Of the least time, up to which parts that divide the depth are taken: others have zeros behind
them, in the weights of packages, too."""

_WORTH, _WORTH_OF_LONG, _SURE = 0.9, 0.95, 10
"""Of the time of a whole depth, below which its parts are worth their launches; of long ones, where
so many microseconds are saved besides."""


def depth_parts(size: Size, gpu: Gpu) -> int:
    """In how many parts of the depth a product takes least, with what adds them up."""
    if size.rows <= FEW_ROWS:
        return _flat_parts(size, gpu)
    several = sorted({*_PARTS, *(p for p in range(2, _PARTS[-1]) if size.depth % p == 0)})
    found = [(_in_parts(size, parts, gpu), parts) for parts in several if _is_long(size, parts)]
    whole = _in_parts(size, 1, gpu)
    time, parts = min(found, default=(whole, 1))
    even = [(t, p) for t, p in found if size.depth % (p * _PART) == 0 and t <= _AS_GOOD * time]
    time, parts = min(even, default=(time, parts))
    return parts if time < max(_WORTH * whole, _WORTH_OF_LONG * whole - _SURE) else 1


def parts_in_place(size: Size, each: int, gpu: Gpu) -> int:
    """The same of halves that are read where they lie, so many at once, which waits for loads.

    Parts divide the depth: copies with zeros behind it are what reading so saves.
    """
    if size.dtype.itemsize != 2 or size.rows <= FEW_ROWS:
        return 1
    loose = replace(size, copied=False, grouped=False, single=(each == 1, each == 1))
    tile = min(tiles_of(loose, gpu), key=lambda tile: microseconds(tile, loose, gpu))
    loads = (tile.rows + tile.columns) * tile.depth // (tile.warps * WARP * each)
    blocks = blocks_of(tile, size)

    def time(parts: int) -> float:
        share = -(-blocks * parts // gpu.multiprocessors)
        step = loads * max(_LOAD / min(share, _BESIDE), _LEAST_LOAD)
        turns = -(-size.depth // (parts * tile.depth))
        return share * turns * step + _adding(size, parts)

    most = min(_PARTS[-1], size.depth // _LEAST_PART)
    return min((p for p in range(1, most + 1) if size.depth % (p * each) == 0), key=time, default=1)


def shares_blocks(size: Size, gpu: Gpu) -> bool:
    """Whether sharing out blocks by steps of the depth is worth its launch, which clears marks."""
    if size.dtype.itemsize != 2 or size.rows <= FEW_ROWS or not gpu.async_dots:
        return False
    parts = depth_parts(size, gpu)
    shared = _in_parts(replace(size, marked=True), 1, gpu) + _LAUNCH
    return shared < _WORTH_SHARING * _in_parts(size, parts, gpu)


def merges(apart: Sequence[Size], gpu: Gpu) -> bool:
    """Whether one product by several weights takes less than one by each of them.

    Then a launch joins their results, which reads them all and writes as many as one has; the last
    product's epilogue reads the others'.
    """
    first = apart[0]
    if first.rows <= FEW_ROWS:
        return False
    columns = sum(size.columns for size in apart)
    more = first.rows * columns * first.dtype.itemsize
    joined = _whole(replace(first, columns=columns), gpu) + _LAUNCH + more / _BYTES
    return joined < _WORTH_MERGING * sum(_whole(size, gpu) for size in apart)


def _whole(size: Size, gpu: Gpu) -> float:
    """Microseconds of a product as it is cut best, which memory bounds."""
    read = size.depth * (size.rows + size.columns) * size.dtype.itemsize
    return max(_in_parts(size, depth_parts(size, gpu), gpu), read / _STREAM)


def _is_long(size: Size, parts: int) -> bool:
    return parts > 1 and size.depth >= parts * _LEAST_PART


def _flat_parts(size: Size, gpu: Gpu) -> int:
    """Of few rows, which wait for their second operand: as many parts as there is room for."""
    tiles = size.batch * -(-size.columns // FLAT[1].columns)
    most = min(gpu.units // tiles, size.depth // _LEAST_FLAT)
    if size.depth <= _LONG_FLAT or most < 2:
        return 1
    # Zeros behind the depth make it a multiple, where no number near the best divides it.
    return next((p for p in range(most, most // 2, -1) if size.depth % p == 0), most)


def _in_parts(size: Size, parts: int, gpu: Gpu) -> float:
    """Microseconds: copies with zeros behind an odd depth, the product, and the sums of parts."""
    each = -(-size.depth // parts)
    double = size.dtype.itemsize == 8  # which is read by single elements where it lies
    whole = (1 if double else _PART) if parts > 1 else ALIGNED // size.dtype.itemsize
    even = size.depth % parts == 0 and (double or each % whole == 0)
    # A copy has zeros behind an odd depth; descriptors copy no others.
    copied = size.copied and not (double and even and size.depth * 8 % ALIGNED)
    part = replace(size, batch=size.batch * parts, depth=each, copied=copied)
    time = least_microseconds(part, gpu)
    if is_exchanged(part, gpu):
        time = least_microseconds(exchanged(part), gpu)
    read: float = size.batch * size.depth * (size.rows + size.columns) * size.dtype.itemsize
    if parts > 1 and each * size.dtype.itemsize % LINE:
        read *= _CUT_LINES
    time = max(time, read / _STREAM)
    if not even:
        time += _LAUNCH + 2 * size.batch * size.rows * size.depth * size.dtype.itemsize / _BYTES
    return time + _adding(size, parts)


def _adding(size: Size, parts: int) -> float:
    """Microseconds of the launch that adds up the sums of parts."""
    if parts == 1:
        return 0.0
    results = size.batch * size.rows * size.columns
    return _LAUNCH + (2 * parts + 1) * results * size.dtype.compute.itemsize / _BYTES
