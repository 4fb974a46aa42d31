"""Blocks of matrix products: which tile should finish first.

The numbers of the model were fitted to measurements on an H200 (benchmarks/results/gpu_h200.md): a
turn of the depth loop costs latency, more for deeper blocks, and the tensor cores' time; a block
costs its epilogue. They rank tiles; nothing depends on their absolute truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from aot.backends.triton.dot_times import (
    COPY_TIMES,
    CROSSED,
    DOUBLE_GROUP_TIMES,
    GROUP_TIMES,
    LINE,
    LOW_TIMES,
    PLAIN_CROSSED,
    ROUNDED_GROUP_TIMES,
    THREE_GROUP_TIMES,
    TIMES,
    DotTimes,
)
from aot.backends.triton.gpu import Gpu
from aot.backends.triton.tuning import Config, Problem, as_config
from aot.ir.dtypes import DType

FEW_ROWS = 16
"""Rows up to which a product is bound by reading its second operand."""

_RESERVED = 2048
"""Shared memory left to barriers and to what the compiler adds."""


@dataclass(frozen=True)
class DotTile:
    """Block sizes of rows, columns and depth; warps, and loads in flight ahead of their use.

    `resident`: blocks of this kind that a multiprocessor holds at once. `groups`: of `warps` warps
    each, which have a part of the rows while one warp more copies; 0 for a program that does both.
    `shared`: parts of the depth at most that the last blocks are cut into for programs to share; 0.
    """

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    resident: int = 1
    groups: int = 0
    shared: int = 0

    @property
    def pieces(self) -> tuple[int, int]:
        """The columns as two powers of two, the second one perhaps 0."""
        first = 1 << self.columns.bit_length() - 1
        return first, self.columns - first


@dataclass(frozen=True)
class Size:
    """A product's rows, columns and depth at the hints, its batch, and its operands' type.

    `turned`: the second operand's depth is not contiguous. `lines`: bytes between neighbouring rows
    of either operand in memory, the lower powers of two that divide them (`line_step`).
    `copied`: descriptors can copy blocks of both. `grouped`: and groups of warps can compute what
    is fused behind. `single`: blocks of either operand are read element by element. `cut`: or are
    by plain loads, as a row ends within a vector, which these test. `marked`: there are zeros by
    which programs tell each other what they have left of blocks that they share.
    """

    rows: int
    columns: int
    depth: int
    batch: int
    dtype: DType
    turned: bool = False
    lines: tuple[int, int] = (LINE, LINE)
    copied: bool = True
    grouped: bool = False
    single: tuple[bool, bool] = (False, False)
    cut: bool = False
    marked: bool = False
    exchanged: bool = False


_HALF = (
    DotTile(128, 256, 64, 8, 3),
    DotTile(128, 128, 64, 8, 4),
    DotTile(64, 128, 64, 4, 4),
    DotTile(64, 64, 64, 4, 4),
    DotTile(64, 32, 128, 4, 4),
)
_SINGLE = (
    DotTile(128, 128, 16, 8, 3),
    DotTile(64, 128, 16, 8, 3),
    DotTile(64, 64, 32, 4, 3),
    DotTile(32, 64, 32, 4, 3),
    DotTile(32, 32, 32, 4, 3),
)
_SPLIT = (
    DotTile(128, 128, 32, 8, 3),
    DotTile(128, 64, 32, 4, 3, resident=2),
    DotTile(64, 128, 32, 4, 3, resident=2),
    DotTile(64, 64, 64, 4, 3, resident=2),
    DotTile(64, 64, 32, 4, 3, resident=2),
    DotTile(128, 32, 32, 4, 3, resident=2),
    DotTile(64, 32, 64, 4, 3, resident=2),
    DotTile(32, 64, 32, 2, 3, resident=4),
    DotTile(16, 64, 64, 4, 3, resident=2),
    DotTile(16, 32, 64, 4, 3, resident=2),
)
"""Of float32 as products of halves of its digits. 68 x 16064 by 16064 x 6270 took 713 us on an H200
by 16 x 64, by 32 x 64 with two warps 378, with four more than 440."""

_SPLIT_SINGLE = (
    DotTile(64, 32, 32, 2, 3, resident=4),
    DotTile(32, 64, 32, 2, 3, resident=4),
    DotTile(32, 128, 32, 4, 3, resident=2),
)
"""The same where blocks of a turned second operand are read element by element: asynchronous
products, of groups of four warps, would have them in one bank of shared memory (`Size.single`).
128 products of 101 x 1016 by 1016 x 273 took 242, 270 and 321 us on an H200, by 128 x 32 554."""

_SPLIT_LOW = tuple(tile for tile in _SPLIT if tile.rows < 64)
"""The same, not turned: 39 x 2481 by 2481 x 512, 32 times, took 160 us, by higher tiles 466."""

_DOUBLE = (
    DotTile(64, 64, 16, 4, 3, resident=4),
    DotTile(64, 32, 16, 4, 3, resident=4),
    DotTile(128, 32, 16, 4, 4, resident=2),
    DotTile(32, 64, 32, 4, 3, resident=3),
    DotTile(32, 32, 32, 4, 3, resident=2),
    DotTile(16, 64, 32, 4, 3, resident=2),
    DotTile(64, 16, 32, 4, 4, resident=2),
)

_DOUBLE_GROUPED = (
    DotTile(192, 64, 16, 4, 6, groups=3),
    DotTile(128, 64, 16, 4, 6, groups=2),
    DotTile(128, 128, 16, 4, 6, groups=2),
)
"""The same by groups of warps. Twice the depth of a step, or twice the rows of a group, took as
long or longer."""

_LEAST_DOUBLE_DEPTH = 160
"""Of products that they take: of fewer steps most of the time goes into results, which more warps
of more programs store faster (two of 17400 x 16 by 16 x 10011 and what is behind them: 4630 us,
2460 by programs; 32 of 512 x 128 by 128 x 2064: 249 us, 208; but 4096 x 185 (turned) by 185 x 2968
118, 123)."""

_ASYNC_ROWS = 64
"""Rows of the smallest asynchronous product."""

_HELD = 128
"""Registers of a lane that hold operands: half of all, the rest are for sums and addresses."""

_LANES = 32

_MOST_LOADED = 160
"""Registers of a thread with sums and what it loads of halves by single ones, which nothing copies
ahead of its use: 39 of 1355 x 1024 (turned) by 1024 x 105 took 100 us on an H200 by 64 x 128 (160),
124 by 64 x 64, 152 by 128 x 256 (224) and 175 by 128 x 128 (256)."""

_LOW_WARPS, _LOW_ROWS = 2, 128  # Of float32 that is multiplied in registers; of its products.

_NARROW = 64
"""Columns up to which a product reads more from shared memory than it gives in the time."""

_WARPS = 4
"""Of a program, by which `DotTimes.dear` is meant."""

ALIGNED = 16
"""Bytes that rows start at multiples of."""

_WIDE = DotTile(64, 256, 64, 4, 5)

_SHARED = (
    DotTile(128, 128, 64, 4, 3, resident=2),
    DotTile(128, 256, 64, 8, 4),
    DotTile(128, 128, 64, 4, 5),
    _WIDE,
    DotTile(64, 128, 64, 4, 4, resident=2),
    DotTile(128, 64, 64, 4, 4, resident=2),
    DotTile(64, 64, 64, 4, 6, resident=2),
    DotTile(64, 32, 128, 4, 4, resident=2),
)
"""Of halves, where tensor cores work beside other programs. Of two on a multiprocessor, one
computes its epilogue while the other multiplies."""

GROUP_DEPTH, _LEAST_BATCH_DEPTH = 64, 256
"""Of a step by groups of warps; of a batch, below which results take most of the time: 16 of 2408 x
152 by 152 x 1592 bfloat16 took 114 us on an H200, 82 by programs of 128 x 128."""

GROUP_REGISTERS = {2: 240, 3: 160}
"""Of a thread that multiplies, by the groups that do: a warp that copies needs 24."""

MOST_GROUPS = max(GROUP_REGISTERS)

LARGEST = DotTile(256, 192, GROUP_DEPTH, 4, 3, groups=2)
"""A thread of it has 192 sums of its 240 registers: no room for what is dear."""

GROUPED = (
    DotTile(128, 256, GROUP_DEPTH, 4, 4, groups=2),
    DotTile(256, 128, GROUP_DEPTH, 4, 4, groups=2),
    DotTile(192, 192, GROUP_DEPTH, 4, 4, groups=3),
    DotTile(192, 160, GROUP_DEPTH, 4, 4, groups=3),
    DotTile(192, 128, GROUP_DEPTH, 4, 4, groups=3),
    DotTile(128, 192, GROUP_DEPTH, 4, 4, groups=2),
    DotTile(128, 160, GROUP_DEPTH, 4, 5, groups=2),
    DotTile(128, 128, GROUP_DEPTH, 4, 5, groups=2),
    DotTile(128, 288, GROUP_DEPTH, 4, 4, groups=2),
    DotTile(128, 272, GROUP_DEPTH, 4, 4, groups=2),
    DotTile(192, 144, GROUP_DEPTH, 4, 4, groups=3),
    DotTile(192, 64, GROUP_DEPTH, 4, 6, groups=3),
    LARGEST,
)
"""Of halves, by groups of warps. The last one reads an eighth fewer lines for each result, which
decides where rows of operands begin within lines: 9 of 2016 x 3112 by 3112 x 2048 bfloat16 took 385
us on an H200, 437 to 453 by the others; in whole lines 8192 x 8192 by 8192 x 8192 1646 and 1405."""

MOST_TEAM, MOST_SHARES = 8, 4
"""Programs of a team, which has a line of blocks, and parts of one: each costs a read of sums."""

SHARED_OUT = tuple(replace(tile, shared=MOST_SHARES) for tile in GROUPED)
"""The same where the last blocks may be shared, so that how many there are matters less."""

FLAT = (
    DotTile(FEW_ROWS, 64, 128, 4, 4),
    DotTile(FEW_ROWS, 32, 128, 4, 5),
    DotTile(FEW_ROWS, 16, 256, 2, 4),
)


PLAIN = 256
"""Rows and columns of the blocks that few programs read by plain loads: these start sooner than
descriptors are made, 30 x 4096 by 4096 x 8192 halves in 20 us on an H200 (30). Larger ones have
too many addresses for that."""

_LOWEST = 1.35
"""Of what the model says of `_SPLIT`'s lowest tiles: 1278 x 2880 by 2880 x 188 took 62 us on an
H200 by 16 x 64 (46 by the model), 45 by 64 x 32 (46); 68 x 16064 by 16064 x 6270 713 (513)."""

_SHALLOW, _WAITING = 2, 1.3
"""Blocks in flight with which plain loads of float32 are waited for, and what that costs: 36303 x
2048 (turned) by 2048 x 64 took 266 us by 64 x 64 in steps of 64, two in flight, 184 in steps of 32,
213 by 64 x 32 in steps of 64."""

_HIDING = 4
"""Turns of a block that take as long as another one's epilogue. Of 12233 x 40 by 40 x 15304 halves,
128 by 256 took 0.77 of two blocks of 128 by 128 on an H200."""

_WORTH_EXCHANGE = 0.92
"""Of the time in the order of the operands, below which the other one is taken: 298 x 4096 by 4096
x 16384 took 77 us on an H200 by 128 x 160 in that one (0.86), by 64 x 256 in this one 87; 4279 x
4096 by 4096 x 5144 as long in both (0.95). One tile of 128 x 320 for all rows took 83 to 89."""

_ORDER = "exchanged"
"""Of a configuration: 1 where its tile is the exchanged product's."""

_LEAVING, _LEFT = 2.0, 2.5e-4
"""Microseconds until other programs have seen that sums have been left, and for each sum of a block
that one program leaves in memory and another one adds."""


def dot_tile(size: Size, gpu: Gpu, *, dear: bool) -> DotTile:
    """The tile for a product: the one that was the fastest when measured, else by the model.

    `dear`: its epilogue computes transcendental functions.
    """
    measured = _tuned(size, gpu, dear)
    if measured is not None:
        tile = {name: value for name, value in measured.items() if name != _ORDER}
        return fitted(DotTile(**tile), size, gpu)
    if size.rows <= FEW_ROWS:
        best = _flat_tile(size, gpu)
    else:
        best = min(tiles_of(size, gpu), key=lambda tile: microseconds(tile, size, gpu, dear=dear))
    return fitted(best, size, gpu)


def _tuned(size: Size, gpu: Gpu, dear: bool) -> Config | None:
    """What was the fastest when measured: a tile, and whether for the exchanged product."""
    given = replace(exchanged(size), exchanged=False) if size.exchanged else size
    sizes = (given.batch, given.rows, given.columns, given.depth, 1 + dear)
    problem = Problem("matmul", sizes, given.dtype.name)
    return gpu.tuning.choose(problem, gpu.arch, lambda: _candidates(given, gpu, dear))


def tiles_of(size: Size, gpu: Gpu) -> tuple[DotTile, ...]:
    """Tiles of more rows; programs share where tensor cores work beside other programs."""
    if size.dtype.itemsize == 2:
        if not gpu.async_dots:
            return _HALF
        if _by_groups(size):
            shared = SHARED_OUT if size.marked else ()
            few = tuple(t for t in shared if _team(t, size)[0] <= MOST_TEAM)
            return (*(() if size.exchanged else _SHARED), *GROUPED, *few)
        if size.copied:
            return _SHARED
        # Addresses of plain loads need registers beside the sums.
        plain = (t for t in _SHARED if t != _WIDE)
        return tuple(t for t in plain if not any(size.single) or _loaded(t, size) <= _MOST_LOADED)
    if size.dtype.itemsize == 8:
        groups = size.copied and size.grouped and gpu.copies_blocks and gpu.async_dots
        groups = groups and size.depth >= _LEAST_DOUBLE_DEPTH
        return (*_DOUBLE, *_DOUBLE_GROUPED) if groups else _DOUBLE
    if size.single[1] and not size.copied and gpu.splits_floats and gpu.async_dots:
        return _SPLIT_SINGLE if size.turned else _SPLIT_LOW
    if not gpu.splits_floats:
        return _SINGLE
    return tuple(t for t in _SPLIT if t.warps != _LOW_WARPS or size.rows <= _LOW_ROWS)


def _by_groups(size: Size) -> bool:
    """Whether groups of warps can take a product of halves, and have work."""
    deep = size.batch == 1 or size.depth >= _LEAST_BATCH_DEPTH
    return size.dtype.itemsize == 2 and size.copied and size.grouped and deep


def exchanged(size: Size) -> Size:
    """The transposed product, of the operands in the other order."""
    return replace(
        size,
        rows=size.columns,
        columns=size.rows,
        lines=size.lines[::-1],
        single=size.single[::-1],
        exchanged=True,
    )


def is_exchanged(size: Size, gpu: Gpu, *, dear: bool = False) -> bool:
    """Whether groups of warps should take rows as their tile's columns.

    There are more numbers of these: 298 rows are 320 columns of two tiles, and rows of 64 x 256 or
    128 x 192 would be 320 and 384.
    """
    if not _is_exchangeable(size, gpu):
        return False
    measured = _tuned(size, gpu, dear)
    if measured is not None:
        return bool(measured[_ORDER])
    other = least_microseconds(exchanged(size), gpu, dear=dear)
    return other < _WORTH_EXCHANGE * least_microseconds(size, gpu, dear=dear)


def least_microseconds(size: Size, gpu: Gpu, *, dear: bool = False) -> float:
    """What a product should take with the best of its tiles, in the order of `size`."""
    times = (microseconds(tile, size, gpu, dear=dear) for tile in tiles_of(size, gpu))
    return min(times, default=math.inf)


def group_tiles(dtype: DType) -> tuple[DotTile, ...]:
    """Tiles of groups of warps for convolutions, in steps of a line of operands of a type."""
    measured = (tile for tile in GROUPED if tile != LARGEST)
    return tuple(replace(tile, depth=LINE // dtype.itemsize) for tile in measured)


def _loaded(tile: DotTile, size: Size) -> int:
    """Registers of a thread that hold sums, and what it loads of a step element by element."""
    along = sum(w for w, s in zip((tile.rows, tile.columns), size.single, strict=True) if s)
    return (tile.rows * tile.columns + along * tile.depth) // (tile.warps * _LANES)


def _is_exchangeable(size: Size, gpu: Gpu) -> bool:
    return gpu.async_dots and _by_groups(size) and size.rows > FEW_ROWS


def _candidates(size: Size, gpu: Gpu, dear: bool) -> tuple[Config, ...]:
    """Tiles worth a measurement, those first that should finish first, in both orders.

    Each with its own number of blocks in flight; behind all of them with others.
    """
    if size.rows <= FEW_ROWS:
        flat = [tile for tile in FLAT if tile.columns <= size.columns] or [FLAT[-1]]
        tiles = [
            replace(t, depth=d, stages=s) for t in flat for d in (64, 128, 256) for s in (3, 5)
        ]
        return _configs((tile, size) for tile in tiles)
    orders = (size, exchanged(size)) if _is_exchangeable(size, gpu) else (size,)
    found = [(fitted(tile, given, gpu), given) for given in orders for tile in tiles_of(given, gpu)]
    found.sort(key=lambda pair: microseconds(pair[0], pair[1], gpu, dear=dear))
    others = [(fitted(replace(t, stages=s), g, gpu), g) for t, g in found for s in (2, 3, 4, 5)]
    return _configs((*found, *others))


def _configs(found: Iterable[tuple[DotTile, Size]]) -> tuple[Config, ...]:
    """As the tuning database keeps them, each once."""
    kept = dict.fromkeys((tile, size.exchanged) for tile, size in found)
    return tuple({**as_config(tile), _ORDER: int(order)} for tile, order in kept)


def fitted(tile: DotTile, size: Size, gpu: Gpu) -> DotTile:
    """The tile with no more depth than there is, and no more stages than shared memory holds.

    Few rows of float64 leave room for a second program: 16 x 8192 by 8192 x 8808 took 206 us on an
    H200 with four stages, of which one program fits, 153 with three.
    """
    depth = min(tile.depth, 1 << max(0, size.depth - 1).bit_length())
    if size.dtype.itemsize == 8 or _is_split(tile, size, gpu):
        depth = min(depth, _held_depth(tile))
    depth = max(16, depth)
    each = (tile.rows + tile.columns) * depth * size.dtype.itemsize
    room = gpu.shared_bytes // tile.resident - _RESERVED
    if size.dtype.itemsize == 4 and gpu.splits_floats:
        room -= 2 * tile.columns * depth * size.dtype.itemsize  # both halves of the digits
    stages = min(tile.stages, room // each)
    if tile.rows <= FEW_ROWS and size.dtype.itemsize == 8:
        # What is being loaded waits beside what is multiplied, so that one block fewer is held.
        stages = min(stages, 1 + (gpu.shared_bytes // 2 - _RESERVED) // each)
    return replace(tile, depth=depth, stages=max(1, stages))


def _is_split(tile: DotTile, size: Size, gpu: Gpu) -> bool:
    """Whether registers hold halves of digits; asynchronous products read shared memory."""
    asynchronous = gpu.async_dots and tile.rows >= _ASYNC_ROWS
    return size.dtype.itemsize == 4 and gpu.splits_floats and not asynchronous


def _held_depth(tile: DotTile) -> int:
    """The depth up to which operands of two registers an element stay in a warp's registers.

    Warps halve the block's longer side in turn, and each holds its rows and columns of all of the
    depth.
    """
    most = _HELD * _LANES // (2 * sum(_of_warp(tile)))
    return 1 << most.bit_length() - 1


def _of_warp(tile: DotTile) -> tuple[int, int]:
    """Rows and columns that a warp multiplies."""
    rows, columns, warps = tile.rows, tile.columns, tile.warps
    while warps > 1:
        rows, columns = (rows // 2, columns) if rows >= columns else (rows, columns // 2)
        warps //= 2
    return rows, columns


def _shared_elements(tile: DotTile, size: Size) -> int:
    """Of a step of the depth: what is written once and what warps read.

    A second operand whose depth is not contiguous is read with conflicts of two.
    """
    rows, columns = _of_warp(tile)
    return tile.rows + tile.columns + tile.warps * (rows + columns * (1 + size.turned))


def blocks_of(tile: DotTile, size: Size) -> int:
    """How many blocks of a tile's rows and columns the results of a product are."""
    return size.batch * -(-size.rows // tile.rows) * -(-size.columns // tile.columns)


def microseconds(tile: DotTile, size: Size, gpu: Gpu, *, dear: bool = False) -> float:
    """What a product should take with a tile."""
    if dear and tile.rows * tile.columns >= LARGEST.rows * LARGEST.columns:
        return math.inf
    whole, rest = divmod(blocks_of(tile, size), gpu.multiprocessors * tile.resident)
    last = -(-rest // gpu.multiprocessors)
    start = _prices(tile, size, gpu)[0].start
    wave = _wave_microseconds(tile, size, gpu, tile.resident, dear=dear)
    if tile.shared:
        short, lines = _team(tile, size)
        whole, rest = divmod(lines, gpu.multiprocessors // short)
        parts = min(tile.shared, gpu.multiprocessors // short // max(rest, 1))
        left = _LEAVING + (parts - 1) * _LEFT * tile.rows * tile.columns if parts > 1 else 0.0
        part = _wave_microseconds(
            tile, replace(size, depth=-(-size.depth // parts)), gpu, 1, dear=dear
        )
        return start + whole * wave + (part + left if rest else 0.0)
    return (
        start
        + whole * wave
        + (_wave_microseconds(tile, size, gpu, last, dear=dear) if last else 0.0)
    )


def _team(tile: DotTile, size: Size) -> tuple[int, int]:
    """Blocks along the shorter side, and lines of so many: `teams_of` of device/matmul_groups."""
    down, across = -(-size.rows // tile.rows), -(-size.columns // tile.columns)
    return min(down, across), size.batch * max(down, across)


def _wave_microseconds(tile: DotTile, size: Size, gpu: Gpu, sharing: int, *, dear: bool) -> float:
    """Time until each multiprocessor has finished `sharing` blocks.

    One's epilogue is hidden by the other's multiplications, unless these take few turns.
    """
    area, (t, crossed) = tile.rows * tile.columns, _prices(tile, size, gpu)
    begun = t.narrow if tile.columns <= _NARROW else t.narrow / 4
    each = (area + tile.rows * begun) / t.rate + t.turning * size.turned * tile.columns**2
    each = max(each, t.shared * _shared_elements(tile, size), _copying(tile, size, t, crossed))
    turn = t.turn + max(
        (t.deeper + sharing * each) * tile.depth, t.arrival / max(1, tile.stages - 1)
    )
    turns = -(-size.depth // tile.depth)
    seen = 1 + (sharing - 1) * max(0.0, 1 - turns / _HIDING)
    result = max(t.result, t.dear * _WARPS / tile.warps * dear)
    time = turns * turn + seen * (t.block + result * area) + sharing * t.stored * area
    if size.dtype.itemsize == 4 and gpu.splits_floats:
        time *= _LOWEST if tile.rows <= FEW_ROWS else 1.0
        waits = gpu.async_dots and not size.copied and fitted(tile, size, gpu).stages <= _SHALLOW
        time *= _WAITING if waits else 1.0
    return time


def _prices(tile: DotTile, size: Size, gpu: Gpu) -> tuple[DotTimes, Mapping[int, float]]:
    """What a block takes, and its rows by their distance, as its operands are read."""
    if tile.groups:
        halves = GROUP_TIMES if tile.groups < MOST_GROUPS else THREE_GROUP_TIMES
        each = {2: halves, 4: ROUNDED_GROUP_TIMES, 8: DOUBLE_GROUP_TIMES[tile.groups]}
        return each[size.dtype.itemsize], CROSSED
    copied = size.dtype.itemsize == 2 and size.copied and gpu.copies_blocks and gpu.async_dots
    if copied and not is_few(tile, blocks_of(tile, size), gpu):
        return COPY_TIMES, CROSSED
    if size.dtype.itemsize == 4 and gpu.splits_floats and tile.warps == _LOW_WARPS:
        return LOW_TIMES[any(size.single) or size.cut], PLAIN_CROSSED
    return TIMES[size.dtype.itemsize], PLAIN_CROSSED


def is_few(tile: DotTile, blocks: int, gpu: Gpu) -> bool:
    """Whether so many programs start sooner than descriptors would be made."""
    return blocks < gpu.multiprocessors and tile.rows + tile.columns <= PLAIN


def _copying(tile: DotTile, size: Size, t: DotTimes, crossed: Mapping[int, float]) -> float:
    """Microseconds in which the lines of a step of the depth arrive, of blocks on average."""
    rows, columns = _inside(size.rows, tile.rows), _inside(size.columns, tile.columns)
    lines = rows * crossed[size.lines[0]] + columns * crossed[size.lines[1]]
    outside = tile.rows + tile.columns - rows - columns
    return (lines / t.lines + outside * t.outside) * size.dtype.itemsize / LINE


def _inside(extent: int, block: int) -> float:
    """What blocks have of an extent, on average."""
    return extent / -(-extent // block)


def line_step(distance: int) -> int:
    """What counts of the bytes between rows: a power of two between 16 and `LINE`."""
    return max(ALIGNED, math.gcd(distance, LINE))


def _flat_tile(size: Size, gpu: Gpu) -> DotTile:
    """The widest tile that gives every multiprocessor a block."""
    busy = (t for t in FLAT if blocks_of(t, size) >= gpu.multiprocessors)
    return next(busy, FLAT[-1])
