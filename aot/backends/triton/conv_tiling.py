"""Block sizes of convolutions: how many positions, channels and depth a program takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.gpu import Gpu
from aot.backends.triton.tiling import WARP
from aot.backends.triton.tuning import Problem, as_config
from aot.ir.dtypes import DType
from aot.symbolic import Expr, is_int, power_above, product

_RESERVED = 4096
"""Shared memory left to barriers and to what the compiler adds."""

_FILL = 1500
"""Cycles until the first block of a program has come, and after the last one until it ends."""

_CYCLES = 1700
"""Cycles in a microsecond."""

_STEP = 120
"""Cycles that a step takes at least when nothing else runs on the multiprocessor."""

_TURN = 300
"""Cycles that a step takes beside its products: steps of 16 of the depth took twice as long in all
as steps of 64 (512 channels of 27 taps on an H200: 1472 us, 787), whatever else is on the
multiprocessor (208 channels of 25 taps, four programs on each: 260 us, 132)."""

_LONG_STEP, _LEAST_STAGES, _BESIDE, _WARPS = 64, 3, 3, 16
"""Halves of a step from which others of so many programs on a multiprocessor hide what it takes
beside its products, where there are more to come: 103684 x 64 of 11200 took 391 us on an H200 by
128 x 64 and three blocks in flight, of which three programs fit, 432 with four, of which two do,
and 541 with five; eight groups of 43218 x 64 of 576 76, 87 and 121. Of two programs (32768 x 64 of
12312: 243 us, by 256 x 64 alone 195) it is not so, nor of more outputs than a block has (12544 x
411 of 3384 by 128 x 128: 128 us, with five in flight and one program 113, by 128 x 64 and three
159). Blocks in flight at least; warps."""

_MORE_BYTES = 1.35
"""Times `_FAR_BYTES` that come to such programs, which wait for blocks in turn."""

_LATENCY = 800
"""Cycles from the request of a block until it is there."""

_NEAR_BYTES = 64
_FAR_BYTES = 28
"""Bytes a cycle from the second-level cache to one multiprocessor: alone, and if all read."""


_ALONE = (640, 0.2)
"""The same of exact float32, 32 deep: cycles, and for each result. Three products wait for each
other, and these for halves of digits that go back to shared memory (289 x 304 of 6800: 64 x 64 took
1440, 64 x 32 1040, 32 x 32 1060)."""

_EXACT_STAGES = 3
"""Of exact float32: with fewer blocks in flight a multiprocessor holds more programs (84050 x 40 of
216: 42 us, with four blocks 45, with five 48)."""

_GATHERED = 1.04
"""What flat blocks of halves take beside others (14400 x 488 of 4536: 152 us in 71 steps, others
147 in 72)."""

_SHOWN = 0.5
"""Of the begin and the end of programs, where a multiprocessor has one at a time of halves: what
hides neither. 250632 x 256 of 224 took 230 us on an H200 by 128 x 256, 150 by two programs of 128 x
128; 1728 x 13824 of 160 263 and 158, 78732 x 64 of 3456 132 by 128 x 64 and 116 by 256 x 64."""

_SHOWN_ROUNDED = 0.9
"""The same of TF32, of tiles whose sums leave no room for another program: 133128 x 416 of 192 took
331 us by 256 x 128, 222 by 128 x 128, 8192 x 256 of 13824, a tile a program, 274 and 203."""

_ASYNC_ROWS = 64

_PAIRED_SUMS = 96
"""Of a thread, up to which registers leave room for another program."""

_MOST_HELD = 160
"""Of 255 registers: blocks of 256 x 128 in steps of 64 pairs, each with an address of its own, kept
1096 bytes of a thread in memory (89042 x 83 of 625 halves: 238 us, eager 92)."""

_ROUNDED = 16
"""Elements of a block of the input that registers round to TF32 in a cycle, with their way there:
the products of all but a single step wait for that. 8192 x 64 of 9072 in two parts: 128 x 64 in
steps of 64 pairs took 76 us, in steps of 32 90, and 256 x 64 in four parts 93; 67 where nothing is
rounded. Meanwhile another program on the multiprocessor multiplies, and hides a turn besides: four
groups of 39200 x 46 of 1600 took 367 us by 128 x 64 in steps of 64, of which one fits, in steps of
32 258, of 16 254; 256 x 64 327 in steps of 32, alone, 247 in steps of 16."""

_DEEP, _DEEP_ROUNDED = 128, 192
"""Sides of blocks together: deep steps leave larger ones no room for blocks in flight."""

PARTS = (2, 3, 4, 6, 8)
"""That input channels may be cut into."""

_PART_BYTES = 16
"""That channels of a part are multiples of."""

_WORTH = 0.85
"""Of the whole's time, which parts must not take: the model errs by so much."""

_MEMORY, _LAUNCH = 3e6, 3.0
"""Bytes that memory moves in a microsecond; microseconds of the launch that adds up parts."""


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
    are few, and lie apart. `rounded`: float32 is rounded to TF32; `ready`: the input is so in
    memory.
    """

    rows: int
    columns: int
    groups: int
    taps: int
    channels: int
    dtype: DType
    last: bool
    rounded: bool = False
    ready: bool = False


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


_TF32 = tuple((rows, columns, warps, rate // 2) for rows, columns, warps, rate in _HALF)
_READY = tuple((r, c, 8 if (r, c) == (128, 64) else warps, rate) for r, c, warps, rate in _TF32)
"""Of TF32 that is rounded in memory. Twice the warps share what a step's copies cost: 40328 x 64 of
3312 took 173 us by 128 x 64 with four warps, 157 with eight, and 151 with one block in flight less,
where a multiprocessor holds two programs; 33856 x 1024 of 256 took 108 us by 128 x 128 with five
blocks in flight, 92 with three."""

_DIGITS = (
    (128, 128, 8, 165),
    (64, 64, 4, 210),
    (128, 32, 4, 130),
    (64, 32, 4, 210),
    (32, 64, 4, 160),
    (128, 16, 4, 90),
    (32, 32, 4, 130),
    (64, 16, 4, 210),
    (32, 16, 4, 100),
    (16, 32, 4, 45),
    (16, 16, 2, 30),
)
"""Of float32 as products of halves of its digits, beside `_TURN`: fitted to 70 times of eight
convolutions on an H200. 128 x 64 took more than twice as long as 64 x 64."""

_DIGITS_APART = (
    (64, 32, 2, 100),
    (32, 32, 2, 110),
    (64, 16, 2, 90),
    (32, 16, 2, 90),
    (16, 16, 2, 30),
)
"""Of channels that do not fill vectors: with two warps both halves stay in registers (32768 x 29
of 489: 36 us, with four warps 116)."""

_DOUBLE = (
    (128, 64, 8, 60),
    (64, 64, 4, 90),
    (64, 32, 4, 75),
    (32, 64, 4, 75),
    (32, 32, 4, 60),
    (64, 16, 4, 45),
    (32, 16, 4, 35),
    (16, 32, 4, 35),
    (16, 16, 2, 20),
)
"""Three fifths of what tensor cores do at most; 86528 x 128 of 128 took 98 us by 128 x 64, 71 by 64
x 64."""


@dataclass(frozen=True)
class _Blocks:
    """What there is for a type: (rows, columns, warps, multiplications a cycle), and depths."""

    tiles: tuple[tuple[int, int, int, int], ...]
    depths: tuple[int, ...]


def _blocks(size: ConvSize, gpu: Gpu) -> _Blocks:
    if size.dtype.itemsize == 2:
        return _Blocks(_HALF, (128, 64, 32, 16))
    if size.dtype.itemsize == 8:
        return _Blocks(_DOUBLE, (16,))
    if size.rounded:
        return _Blocks(_READY if size.ready else _TF32, (64, 32, 16))
    if not gpu.splits_floats:
        return _Blocks(_SINGLE, (32, 16))
    tiles = _DIGITS if not size.last or _fills_vectors(size) else _DIGITS_APART
    # Tensor cores that read registers alone have both halves of the digits there: more spills.
    return _Blocks(tiles, (32, 16) if gpu.async_dots else (16,))


def _fills_vectors(size: ConvSize) -> bool:
    """True where each pixel's channels are whole vectors."""
    return size.last and size.channels * size.dtype.itemsize % 16 == 0


def conv_tile(size: ConvSize, gpu: Gpu) -> ConvTile:
    """The block that was measured to be the fastest, else the one that should finish first."""
    measured = gpu.tuning.choose(
        problem(size), gpu.arch, lambda: [as_config(tile) for tile in _ranked(size, gpu)]
    )
    if measured is not None:
        sizes = {key: value for key, value in measured.items() if key != "flat"}
        tile = ConvTile(**sizes, flat=bool(measured["flat"]))
        if (size.last or tile.flat) and _fits(tile, size, gpu) >= tile.stages:
            return tile
    return _ranked(size, gpu)[0]


def _ranked(size: ConvSize, gpu: Gpu) -> list[ConvTile]:
    """The tiles that are worth a try, those first that should finish first."""

    def key(tile: ConvTile) -> tuple[float, bool, int]:
        # Asynchronous products, which begin at 64 rows, wait for less than the model says.
        return microseconds(size, tile, gpu), tile.rows < _ASYNC_ROWS, tile.rows

    return sorted(candidates(size, gpu), key=key)


def channel_parts(size: ConvSize, gpu: Gpu) -> int:
    """Parts of the input channels whose sums, added up, should be there sooner than the whole's."""

    def best(size: ConvSize) -> float:
        return min(microseconds(size, tile, gpu) for tile in candidates(size, gpu))

    found = {1: best(size) * _WORTH}
    for parts in PARTS:
        if size.channels * size.dtype.itemsize % (parts * _PART_BYTES) == 0:
            cut = replace(size, groups=parts, channels=size.channels // parts)
            moved = 2 * parts * size.rows * size.columns * max(4, size.dtype.itemsize)
            found[parts] = best(cut) + moved / _MEMORY + _LAUNCH
    return min(found, key=lambda parts: (found[parts], parts))


def problem(size: ConvSize) -> Problem:
    """What the tuning database knows of a convolution."""
    sizes = (size.rows, size.columns, size.groups, size.taps, size.channels, 1 + size.last)
    return Problem("conv", sizes, size.dtype.name)


def candidates(size: ConvSize, gpu: Gpu) -> Iterator[ConvTile]:
    """The tiles that are worth a try."""
    least = max(16, power_above(size.columns))
    blocks = _blocks(size, gpu)
    for rows, columns, warps, _ in blocks.tiles:
        if columns > least or rows > max(16, 2 * power_above(size.rows)):
            continue
        for depth in blocks.depths:
            if depth * size.dtype.itemsize == 256 and rows + columns > _deep(size):
                continue
            for flat in (False, True) if size.last else (True,):
                tile = ConvTile(rows, columns, depth, warps, 2, flat)
                if _held(tile, size) > _MOST_HELD:
                    continue
                fit = _fits(tile, size, gpu)
                most = _EXACT_STAGES if _is_exact(size, gpu) else 5
                if size.ready and warps == 8 and fit >= 2 * _LEAST_STAGES:
                    most = min(most, fit // 2)  # so that two programs fit
                if fit >= 2:
                    most = max(2, min(most, fit, steps(size, tile) + 1))
                    for stages in _stages(tile, size, fit, most):
                        yield replace(tile, stages=stages)


def _stages(tile: ConvTile, size: ConvSize, fit: int, most: int) -> Iterator[int]:
    """Blocks in flight that are worth a try: as many as there may be, and fewer for more programs.

    These compute while another one waits, begins or stores.
    """
    yield most
    if _hides_steps(tile, size):
        fewer = fit // _BESIDE
        many = _BESIDE * tile.warps <= _WARPS
        yield from [fewer] if many and _LEAST_STAGES <= fewer < most else []


def _hides_steps(tile: ConvTile, size: ConvSize) -> bool:
    """Whether other programs hide what a step takes beside its products."""
    half = size.dtype.itemsize == 2
    return half and tile.depth >= _LONG_STEP and size.columns <= tile.columns


def _deep(size: ConvSize) -> int:
    """Rows and columns up to which steps of 256 bytes are worth a try."""
    return _DEEP_ROUNDED if size.rounded and not size.ready else _DEEP


def _held(tile: ConvTile, size: ConvSize) -> int:
    """Registers of a thread that hold sums, and addresses of what it copies one by one."""
    gathered = tile.flat and size.last and not _fills_vectors(size)
    return tile.rows * (tile.columns + 2 * tile.depth * gathered) // (tile.warps * WARP)


def _is_exact(size: ConvSize, gpu: Gpu) -> bool:
    """True of float32 whose products are those of halves of its digits."""
    return size.dtype.itemsize == 4 and gpu.splits_floats and not size.rounded


def _fits(tile: ConvTile, size: ConvSize, gpu: Gpu) -> int:
    """Blocks in flight that shared memory holds."""
    each = (tile.rows + tile.columns) * tile.depth * size.dtype.itemsize
    room = gpu.shared_bytes - _RESERVED
    if _is_exact(size, gpu):
        room -= 2 * tile.columns * tile.depth * size.dtype.itemsize  # both halves of the digits
    return room // each


def steps(size: ConvSize, tile: ConvTile) -> int:
    """Turns of the loop over the depth."""
    if tile.flat:
        return -(-size.taps * size.channels // tile.depth)
    return size.taps * -(-size.channels // tile.depth)


def microseconds(size: ConvSize, tile: ConvTile, gpu: Gpu) -> float:
    """What the convolution should take with a tile."""
    rate = next(
        r
        for rows, columns, _, r in _blocks(size, gpu).tiles
        if (rows, columns) == (tile.rows, tile.columns)
    )
    programs = size.groups * -(-size.rows // tile.rows) * -(-size.columns // tile.columns)
    share = -(-programs // gpu.multiprocessors)
    turns = steps(size, tile)
    multiply = tile.rows * tile.columns * tile.depth / rate
    rounding = size.rounded and not size.ready and turns > 1
    read = (tile.rows + tile.columns) * tile.depth * size.dtype.itemsize
    held = tile.stages * read
    if rounding:
        multiply += tile.rows * tile.depth / _ROUNDED
        held += tile.columns * tile.depth * size.dtype.itemsize - read  # the weight, once more
    bandwidth = min(
        _NEAR_BYTES, _FAR_BYTES * gpu.multiprocessors / min(programs, gpu.multiprocessors)
    )
    # Every pair of tap and channel has an address and a mask of its own in a flat block.
    each = 64 if _fills_vectors(size) else 16
    gather = tile.rows * tile.depth / each if tile.flat else 0
    resident = max(1, min(16 // tile.warps, gpu.shared_bytes // held))
    gathered = _GATHERED if tile.flat and size.dtype.itemsize == 2 else 1.0
    beside = min(resident, share)
    turn: float = 0 if rounding and beside > 1 else _TURN
    if _hides_steps(tile, size) and share > beside >= _BESIDE:
        turn, bandwidth = _TURN / beside, bandwidth * _MORE_BYTES
    busy = gathered * share * turns * max(multiply + turn, read / bandwidth, gather)
    alone = max(_STEP, _LATENCY / (tile.stages - 1))
    if _is_exact(size, gpu):
        least, result = _ALONE
        alone = least + result * tile.rows * tile.columns
    waiting = -(-share // resident) * turns * alone
    stored = tile.rows * tile.columns * 2 * size.dtype.itemsize / bandwidth
    shown = 0.0
    sums = tile.rows * tile.columns // (tile.warps * WARP)
    part = _SHOWN if size.dtype.itemsize == 2 else _SHOWN_ROUNDED * size.rounded
    if part and (sums > _PAIRED_SUMS or (resident == 1 and (rounding or not size.rounded))):
        begun = min(turns, tile.stages - 1) * read / bandwidth
        shown = part * (share - 1) * (_FILL + begun + stored)
    return (max(busy, waiting) + share * stored + shown + _FILL) / _CYCLES


_NARROW_CODE = 1024
"""Multiplications of a thread up to which taps are written out."""

_NARROW_PAIRS = 1 << 15
"""Of loads and multiplications written out: Triton compares each with each (8 s for these)."""


def taps_at_once(taps: Sequence[Expr], inputs: int, outputs: int, points: int) -> int:
    """Taps that are written out one after another: all, whole rows of the kernel, or one.

    `inputs`, `outputs`: channels of a program. `points`: of a thread, which share what is written.
    """

    def may(count: int) -> bool:
        loads, products = count * inputs, count * inputs * outputs
        return products * points <= _NARROW_CODE and loads * products <= _NARROW_PAIRS

    runs = [product(taps[k:]) for k in range(len(taps))]
    return next((int(n) for n in runs if is_int(n) and may(int(n))), 1)
