"""Tiles of rows: which outer axes programs have in blocks, what of a row a tile holds or walks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from aot.backends.triton.context import KernelContext, TileDim
from aot.backends.triton.online import is_online
from aot.backends.triton.tiling import THREAD_POINTS, WARP, memory_reads, roots_of
from aot.ir.hints import Hints, op_weight
from aot.ir.kernels import NestKernel, Stage
from aot.ir.nests import Axis
from aot.ir.scalar import Access, loads, postorder
from aot.symbolic import Expr, coefficient_of, is_multiple, power_above

PERSISTENT_POINTS = 16384
"""Points of a row that one tile may hold; longer rows are walked in a loop."""

LOOP_POINTS = 4096
"""Points of a row that one turn of such a loop takes; half as many of numbers of eight bytes: sums
of float64 took 0.8 of the time so on an H200."""

NEAR_ROWS = (1 << 16, 1 << 19)

NEAR_BYTES, NEAR_WARPS = 65536, 32
"""Bytes of rows, from and up to, that are walked again by programs which fill a multiprocessor
each, of so many bytes a turn: what so few rows have read is in the second-level cache still.
Softmax of 512 rows of 131,072 on an H200: 176 us, before 202, in bfloat16 85, before 108; layer
norms of 65,536 in bfloat16 74, before 116."""

TILE_POINTS = 4096
"""Points of a tile of several short rows."""

WHOLE_POINTS, ODD_POINTS = 1024, 2048
"""Points of a tile down columns of a matrix that is not cut into parts, of which there are enough
for all programs; and where these are read one by one, which wants more loads of a thread. Such
programs are long, and small ones are more even: on an H200 sums of 749 x 89552 float64 took 135 us
with 1024, 158 with 2048 and 151 with `TILE_POINTS`, argmax of 479 x 131072 bfloat16 38, 43 and 50,
of 751 x 86175 float16, at odd addresses, 128, 79 and 112. Parts read one by one are even as they
are: means of 1912 x 35090 float16 in four parts took 100, 102 and 50."""

PART_WAVES = 4
"""Programs of whole parts, for each of a device's units, from which on they are as small; fewer of
them are of `ODD_POINTS`. Parts of 40524 x 1656 bfloat16 took 38 us so on an H200 and 49 with
`TILE_POINTS`, of 1705 x 39356 44 and 49, of 20140 x 3332 float32 68 and 76."""

WORD_BYTES = 4
"""That a load of neighbours takes at least."""

ROW_THREAD_POINTS = {1024: 32}

LONG_THREAD_POINTS = 64
"""Points of rows of up to so many elements, and of longer ones, that a thread holds at most:
threads that hold more exchange less, and fewer warps wait for each other. On an H200 that took 0.3
to 0.7 of 8 points (argmax of 147 elements, softmax of 1011, norms of 1104 and 16,384, variance of
1208)."""

TURN_POINTS, WIDE_TURN_POINTS = 16, 4
"""The same, of tiles that are walked in turns, or down their columns; and of numbers of eight bytes
down columns of which there are many, where a thread's loads wait for each other. Norms of 751 x
86111 float64 took 270 us on an H200 with 16 and 130 with 4, of 970 x 65536 156 and 119, of 300 x
200001 222 and 115; of 1024 x 65536 124 and 129. Of halves 4 took 1.15 of the time."""

ROW_TURNS, OPEN_POINTS, OPEN_WARPS = 4, 4, 4
LEAST_TURN, MOST_TURN = 8, 1024
"""Rows whose length is not known: turns of the length that is expected, points of a thread where a
warp has several rows (a row of its own has twice as many), warps, and points of a turn. Softmax on
an H200 of 178481 x 376 float16 took 159 us in such turns of 32 and 160 of 128, by 4 points, and
more than 200 by 16; of 1016998 x 64 bfloat16 154 of 16, of 65536 x 1024 132 of 256, of 16384 x 5001
181 of 1024."""

ONLINE_POINTS, WAVE = 32, 8
"""The same, of the one walk of exponentials where so few programs a processor are all under way:
parts of 239 x 274,072 took 62 us on an H200 by 4 warps, 70 by 8; 4096 rows of 50,304 206, 200.
Down columns everywhere."""

PLACED_POINTS, WIDE_PLACED = 32, 2048
"""The same, of extremes whose places are wanted down columns that a tile holds, or of eight bytes,
and points of a turn of these: argmax down 64 x 1048576 float32 took 69 us on an H200 with 32 or 64,
168 with 16; `max` down 15287 x 4096 float64 155, and 191 with 16 of 4096. Of halves, walked in
turns, 16 are the best."""

ALIGNED_BYTES = 16
"""What rows along the last outer axis are a multiple of where they are vectors to the compiler."""

LEAST_ROWS, MOST_ROWS = 8, 1.5
"""Rows of a tile that are worth being counted along one axis, and the lanes that it may cost."""

WHOLE_COLUMNS, HELD_COLUMNS = 64, 256
"""Points of a column that a tile holds; and where it is reduced more than once."""

HELD_BYTES, HELD_THREAD_BYTES = 32768, 256
"""Of such a tile, and of a thread of it, as they are computed with: twice the threads took 1.1
(float32) and 1.7 (bfloat16) of the time on an H100, twice the tile in float64 1.3."""

HALVES_HELD, SECTOR_BYTES = 4, 32
"""So many of a thread's bytes where halves are read: variances of 65536 x 1024 bfloat16 took 45 us
on an H200 by one warp for 32 columns, 43 by two and 42 by two for 64, which are a line, 50 by four
for 32. Columns of a tile that come from memory together, at least."""

HELD_REGISTERS = 128
"""Of a thread, for what it has read of its rows."""

ROW_WEIGHT, DEAR_ROWS = 2500, 4096
"""Price of a thread's points of rows of so many elements, from which on half of them are enough:
others compute while it waits. GELU and norm of 8192 x 4096 bfloat16 took 59 us on an H200 by two
warps a row and 53 by four, of 16384 x 4096 float32 204 and 192, of 4096 x 16384 bfloat16 139 and
136 by twice the warps; of 60787 x 1104 138 and 143."""

LEAST_TILE_POINTS, LEAST_TILE_BYTES = 1024, 6144

MOST_TILE_LANES = 3072
"""Of a tile of short rows, and what its rows move, unless it has too many lanes then; of longer
ones a tile has two. A program takes 1.2 ns to start, however little it does: in that time an H200
moves 5 KB. Means of 419430 x 160 bfloat16 took 129 us with rows of 1024 points, 36 with these,
norms of 1337492 x 48 104 and 35, rms norms of 215092 x 312 132 and 74; with 4096 lanes logsumexp of
272800 x 246 took 108 us, 86 with 1024 points, 79 with these. Places of extremes take longer with
more rows (1032444 x 65: 158 us, 226), of float64 with two of them (118149 x 568: 157 us, 226)."""

BUSY_WARPS = 4
"""Of each of a device's units: where there are fewer, programs have more warps."""

MOST_OF_TILE = 0.8
"""Of a tile's lanes: with so few or fewer a row is two tiles, one after the other."""

LEAST_PIECE = 16
"""Points of the second one."""

UNEVEN_POINTS, UNEVEN_WARPS = 512, 4
"""Points of a tile of rows that are read element by element, and its warps where each has rows of
its own. Of what tiles of 2048 points by two warps took on an H200, masked softmax of 178481 x 376
float16 took 0.47 with 512 by two (144 us; by one 174, by four 152 with 1 row, 161 with 2), of
195083 x 344 bfloat16 0.48 (155 us); deviations of 1016998 x 64 bfloat16 0.53 by one (85 us);
softmax of 8388608 x 8 float32 0.50 by four (148 us; by two 187, 256 lanes more by eight 150)."""

ODD_ROW, ODD_REDUCED, ODD_SHORT = 2048, 4096, 64
"""Rows of a known length that begin within words are read element by element, many by each thread:
one warp, to which sums are its own, takes rows of so many lanes together where they are only
reduced, half as many where a row has `ODD_SHORT` or places are found. On an H200 max of 111346 x
563 float16 took 39 us so and 49 by four warps, std of 213044 x 315 bfloat16 45 and 91, argmax of
1000000 x 77 86 and 309, logsumexp of 700000 x 61 float16 83 and 136. Longer ones than `ODD_ROW`:
of an element a thread fewer than `ODD_THREAD_POINTS` do not pay."""

ODD_THREAD_POINTS = 32
"""Norm chains of 15997 x 4195 bfloat16 took 200 us by four warps, 258 by eight, of 6320 x 10147 228
by eight and 322 by sixteen."""

ODD_WRITTEN, ODD_BYTES, ODD_PIECES = 1024, 2650, 0.65
"""Lanes where such rows are written, too; what a program moves at least, as 1.25 ns pass from one
of a warp to the next; and the part of a row's lanes from which on these are one tile. Softmax of
789516 x 85 float16 took 125 us by one warp and 159 by four, log_softmax of 103085 x 651 94 and 125
(1 row: 130), of 1000000 x 53 bfloat16 146 and 215, layer norms of 1329867 x 49 178 and 282; of
400000 x 149 (160 of 256 lanes) 95 and 94."""

ODD_NEAR_BYTES = 16384
"""As `NEAR_BYTES`, of rows that begin within vectors: log_softmax of 1266 x 53003 bfloat16 took 81
us on an H200, 102 with twice and 216 with four times as many."""

WIDE_NUMBER, WARP_ROW, WARP_POINTS = 8, 256, 512
"""Bytes of a number of which a load has two, the longest row that a warp has to itself, and points
of such rows that it takes at once."""


@dataclass(frozen=True)
class Piece(TileDim):
    """A part of a row that a tile holds, from element `start` on."""

    start: int = 0

    @property
    def is_exact(self) -> bool:
        """True when it ends within the row."""
        return self.start + self.block <= int(self.points)


def pieces_of(dim: TileDim) -> tuple[Piece, ...]:
    """A whole row as a tile, or as two where one would have many lanes beyond its end."""
    sizes = _piece_sizes(int(dim.points), dim.block)
    starts = (0, sizes[0])
    names = (dim.name, f"{dim.name}_rest")
    return tuple(
        Piece(name, dim.axes, size, dim.position, start=start)
        for name, size, start in zip(names, sizes, starts, strict=False)
    )


def _piece_sizes(points: int, block: int) -> tuple[int, ...]:
    """Lanes of a tile, or of both, for a row of so many points that a tile of `block` holds."""
    wide = block // 2
    rest = max(LEAST_PIECE, power_above(points - wide))
    return (wide, rest) if wide + rest <= MOST_OF_TILE * block else (block,)


@dataclass(frozen=True)
class RowTile:
    """Tile of a kernel with inner loops.

    `rows`: the outer axes, but for those `apart`, at one point of which a program is. `columns`: a
    dimension for each inner iteration space, by its extents; `looped`: those that take several
    turns. `pieces`: by name, those that are several tiles. `near`: a later walk finds what earlier
    ones have read in caches, if these keep it.
    """

    rows: TileDim
    columns: Mapping[tuple[Expr, ...], TileDim]
    looped: frozenset[str]
    warps: int
    pieces: Mapping[str, tuple[Piece, ...]]
    apart: tuple[Axis, ...] = ()
    near: bool = False


def row_tile(kernel: NestKernel, context: KernelContext, hints: Hints, units: int) -> RowTile:
    """The tile of a kernel with inner loops or reductions."""
    spaces: dict[tuple[Expr, ...], Stage] = {}
    for stage in kernel.stages:
        spaces.setdefault(tuple(a.extent for a in stage.order), stage)
    rows = max(1, hints.volume(kernel.outer))
    longest = max(_points(s, context, hints) for s in spaces.values())
    across = any(rows_contiguous(kernel, s, context, kernel.outer) for s in spaces.values())
    ends = all(context.most_points(s.order, hints) is not None for s in spaces.values())
    if reads_again(kernel) and longest <= LOOP_POINTS and not (ends or across):
        return _open_tile(kernel, spaces, hints, units)
    held = across and len(kernel.stages) > 1 and WHOLE_COLUMNS < longest <= HELD_COLUMNS
    size, narrow = _widest_element(kernel), _narrowest_read(kernel, context)
    single = _finds_places(kernel) and narrow == 8
    block = _row_block(rows, longest, across, units, _moved(kernel, context), 1 + (not single))
    block = block if across else min(block, _most_rows(longest, size))
    if held:
        # Halves have whole lines beside each other; few columns are shared out to all.
        lanes = (2 if narrow <= 2 else 1) * HELD_BYTES // size // power_above(longest)
        few = max(SECTOR_BYTES // size, power_above(rows * 4 // units))
        block = min(block, lanes, few)
    wide = _own_rows(kernel, context, hints, block) if across else 0
    block = wide or block
    columns: dict[tuple[Expr, ...], TileDim] = {}
    looped: set[str] = set()
    near = not across and _is_near(kernel, context, longest)
    turn = _near_points(kernel, context) if near else LOOP_POINTS * 4 // size
    placed = across and not held and _finds_places(kernel)
    if across and not held:
        waves = rows // block / units
        turn = WIDE_PLACED if single else _across_points(kernel, context, hints, waves)
        if single and _crosses_lines(kernel, hints, block):
            block, turn = block // 2, turn // 2
    for extents, stage in spaces.items():
        dim, loops = _columns(
            f"r{len(columns)}", stage, context, hints, block, across and not held, turn
        )
        columns[extents] = dim
        if loops:
            looped.add(dim.name)
    whole = [d for d in columns.values() if d.name not in looped]
    pieces = {} if across or _finds_places(kernel) else _pieces_of_all(whole)
    widest = block * max(
        sum(p.block for p in pieces.get(d.name, ())) or d.block for d in columns.values()
    )
    each = TURN_POINTS if across or looped else _row_points(kernel, context, longest)
    if across and looped and narrow == 8 and turn < TILE_POINTS:
        each = WIDE_TURN_POINTS
    if looped and (across or rows <= WAVE * units) and is_online(kernel.stages):
        each = ONLINE_POINTS
    each = _held_points(kernel, context) if held else each
    each = PLACED_POINTS if placed and (not looped or single) else each
    warps = power_above(min(16, -(-widest // (WARP * each))))
    while warps * WARP * THREAD_POINTS < widest and warps * (rows // block) < BUSY_WARPS * units:
        warps *= 2
    warps = NEAR_WARPS if near else min(16, warps)
    dim = TileDim("x", kernel.outer[-1:] if wide else kernel.outer, block, 0)
    apart = kernel.outer[:-1] if wide else ()
    tile = RowTile(dim, columns, frozenset(looped), warps, pieces, apart, near)
    return tile if across or looped else _as_known(tile, kernel, context, rows, units)


def _as_known(
    tile: RowTile, kernel: NestKernel, context: KernelContext, rows: int, units: int
) -> RowTile:
    """The tile of rows that it holds: other ones where threads read by elements.

    That is where rows begin within words (`_odd_tile`), and where the compiler knows neither how
    long they are nor that they are whole vectors (`_uneven`).
    """
    if _begins_within(kernel, context, WORD_BYTES):
        return _odd_tile(tile, kernel, context, rows, units)
    even = all(e.free_symbols <= context.even for extents in tile.columns for e in extents)
    return tile if even or not reads_again(kernel) else _uneven(tile)


def _uneven(tile: RowTile) -> RowTile:
    """The tile where threads read one element after the other, many of them by few rows at once."""
    lanes = max(dim.block for dim in tile.columns.values())
    rows = replace(tile.rows, block=max(1, min(tile.rows.block, UNEVEN_POINTS // lanes)))
    if lanes <= WARP:
        return replace(tile, rows=rows, warps=UNEVEN_WARPS)
    alone = lanes <= UNEVEN_WARPS * WARP  # a row's sums stay within a warp
    return replace(tile, rows=rows, warps=1 if alone else min(8, -(-lanes * 2 // UNEVEN_POINTS)))


def _begins_within(kernel: NestKernel, context: KernelContext, size: int) -> bool:
    """Whether rows of a known length begin within `size` bytes, which hold several elements."""
    for access in memory_reads(kernel):
        own = context.buffers[access.buffer].dtype.itemsize
        if access.binds or own >= size:
            continue
        offset = context.offset(access.buffer, access.index)
        for stage in kernel.stages:
            inner = [a.symbol for a in stage.order if coefficient_of(offset, a.symbol) == 1]
            known = all(a.extent.is_Integer for a in stage.order)
            base = offset - sum(inner)
            if inner and known and base.free_symbols and not is_multiple(base, size // own):
                return True
    return False


def _odd_tile(
    tile: RowTile, kernel: NestKernel, context: KernelContext, rows: int, units: int
) -> RowTile:
    """The tile of such rows: of few warps, whose threads have many loads of their own.

    Itself where rows are too few for these to keep the device busy.
    """
    points = max(int(dim.points) for dim in tile.columns.values() if dim.points.is_Integer)
    block = power_above(points)
    lanes, busy = sum(_piece_sizes(points, block)), BUSY_WARPS * units
    if block > ODD_ROW:
        few = max(1, power_above(lanes // (WARP * ODD_THREAD_POINTS) + 1) // 2)
        return replace(tile, warps=min(tile.warps, few)) if rows * few >= busy else tile
    together, whole = _odd_rows(kernel, context, points)
    if not together or rows // together < busy:
        return tile
    pieces = {} if whole else tile.pieces
    return replace(tile, rows=replace(tile.rows, block=together), warps=1, pieces=pieces)


def _odd_rows(kernel: NestKernel, context: KernelContext, points: int) -> tuple[int, bool]:
    """How many such rows a warp takes together, 0: not one; and whether each is one tile."""
    block = power_above(points)
    lanes = sum(_piece_sizes(points, block))
    if not any(s.order and not n.reduction for s in kernel.stages for n in s.nests):
        long = block > ODD_SHORT
        most = ODD_REDUCED if long or lanes < block else ODD_REDUCED // 2
        if _finds_places(kernel):
            most = max(ODD_REDUCED // 2, 2 * block)
        return most // block, long
    if block == ODD_ROW or lanes <= ODD_PIECES * block:
        return 0, False
    together = max(2, ODD_WRITTEN // block)
    moved = together * points * _moved(kernel, context)
    return (2 * together if moved < ODD_BYTES else together), True


def _pieces_of_all(whole: Iterable[TileDim]) -> dict[str, tuple[Piece, ...]]:
    """By name, the tiles of those rows, of a known length, that are several."""
    found = {d.name: pieces_of(d) for d in whole if d.points.is_Integer}
    return {name: pieces for name, pieces in found.items() if len(pieces) > 1}


def _held_points(kernel: NestKernel, context: KernelContext) -> int:
    """Points of a thread, of columns that a tile holds."""
    own = {s.buffer for t in kernel.stages for n in t.nests for s in n.stores}
    read = [context.buffers[a.buffer].dtype for a in memory_reads(kernel) if a.buffer not in own]
    halves = all(dtype.itemsize <= 2 for dtype in read)
    return (HALVES_HELD if halves else 1) * HELD_THREAD_BYTES // _widest_element(kernel)


def reads_again(kernel: NestKernel) -> bool:
    """True where rows are walked, or held, for one stage after the other."""
    return sum(bool(stage.order) for stage in kernel.stages) > 1


def _open_tile(
    kernel: NestKernel, spaces: Mapping[tuple[Expr, ...], Stage], hints: Hints, units: int
) -> RowTile:
    """The tile of rows that are walked as their length is not known, which are not long.

    A turn is a part of the row that is expected, so that one does little in vain at others, too.
    """
    rows = max(1, hints.volume(kernel.outer))
    points = power_above(max(hints.volume(stage.order) for stage in spaces.values()))
    turn = max(LEAST_TURN, min(MOST_TURN, points // ROW_TURNS))
    alone = turn >= WARP * OPEN_POINTS
    block = 1 if alone else min(OPEN_WARPS * WARP * OPEN_POINTS // turn, power_above(rows))
    block = min(block, power_above(max(1, rows // units)))
    each = OPEN_POINTS * 2 if alone else OPEN_POINTS
    warps = max(1, min(OPEN_WARPS, block * turn // (WARP * each)))
    columns = {
        extents: TileDim(f"r{k}", stage.order, turn, 1)
        for k, (extents, stage) in enumerate(spaces.items())
    }
    looped = frozenset(dim.name for dim in columns.values())
    return RowTile(TileDim("x", kernel.outer, block, 0), columns, looped, warps, {})


def _points(stage: Stage, context: KernelContext, hints: Hints) -> int:
    """Points of a stage's inner loops: as many as there may be, else as at the hints."""
    most = context.most_points(stage.order, hints)
    return hints.volume(stage.order) if most is None else most


def _crosses_lines(kernel: NestKernel, hints: Hints, block: int) -> bool:
    """Whether tiles of parts of columns lie in two of these: half as many warps wait less.

    `max` down 14513 x 4624 float64 took 272 us on an H200 with blocks of 64, 171 with 32.
    """
    return len(kernel.outer) > 1 and hints.value(kernel.outer[-1].extent) % block != 0 < block // 32


def _across_points(kernel: NestKernel, context: KernelContext, hints: Hints, waves: float) -> int:
    """Points of a turn down columns; `waves`: programs for each unit, one keeps it busy."""
    size, width = _narrowest_read(kernel, context), hints.value(kernel.outer[-1].extent)
    if waves < 1:
        return TILE_POINTS
    if size == 4 and not is_online(kernel.stages) and not _finds_places(kernel):
        return ODD_POINTS
    if len(kernel.outer) == 1:
        return WHOLE_POINTS if width * size % WORD_BYTES == 0 else ODD_POINTS
    one_by_one = size < WORD_BYTES and width * size % (2 * WORD_BYTES) != 0
    if one_by_one or is_online(kernel.stages):
        return TILE_POINTS
    return WHOLE_POINTS if waves >= PART_WAVES else ODD_POINTS


def _is_near(kernel: NestKernel, context: KernelContext, longest: int) -> bool:
    """True where long rows, of single precision or less, are reduced and then read again."""
    *others, last = kernel.stages
    again = any(s.order for s in others) and any(not n.reduction for n in last.nests)
    if longest <= PERSISTENT_POINTS or not last.order or not again:
        return False
    found: dict[str, int] = {}
    for access in memory_reads(kernel):
        own = {s for e in access.index for s in e.free_symbols}
        if not access.binds and own & {a.symbol for a in kernel.outer}:
            found[access.buffer] = context.buffers[access.buffer].dtype.itemsize
    least, most = NEAR_ROWS
    narrow = _widest_element(kernel) <= 4
    return narrow and least <= longest * sum(found.values()) <= most


def _near_points(kernel: NestKernel, context: KernelContext) -> int:
    """Points of a turn over rows that are near: as many bytes of halves as of singles."""
    within = _begins_within(kernel, context, ALIGNED_BYTES)
    return (ODD_NEAR_BYTES if within else NEAR_BYTES) // max(
        2, *(context.buffers[a.buffer].dtype.itemsize for a in memory_reads(kernel))
    )


def _own_rows(kernel: NestKernel, context: KernelContext, hints: Hints, most: int) -> int:
    """Rows of a tile that counts along the last outer axis alone; 0: along all of them together.

    Where memory runs along that axis and its extent is odd, the compiler does not see neighbours
    among rows that are counted through all axes, and reads each by itself, across the tile.
    """
    if len(kernel.outer) < 2 or most < LEAST_ROWS:
        return 0
    extent = hints.value(kernel.outer[-1].extent)
    size = _narrowest_read(kernel, context)
    exact = kernel.outer[-1].extent.is_Integer and extent * size % ALIGNED_BYTES == 0
    if exact or not any(
        rows_contiguous(kernel, s, context, kernel.outer[-1:]) for s in kernel.stages
    ):
        return 0
    covered = {s: -(-extent // s) * s for s in (most, most // 2) if s >= LEAST_ROWS}
    least = min(covered.values())
    best = max(s for s, lanes in covered.items() if lanes * 8 <= least * 9)
    return best if covered[best] <= MOST_ROWS * extent else 0


def _widest_element(kernel: NestKernel) -> int:
    """Bytes of the widest numbers that are reduced."""
    sizes = (n.dtype.compute.itemsize for n in postorder(roots_of(kernel)) if n.op == "reduce")
    return max(4, max(sizes, default=4))


def _narrowest_read(kernel: NestKernel, context: KernelContext) -> int:
    """Bytes of the narrowest elements that are read."""
    return min((context.buffers[a.buffer].dtype.itemsize for a in memory_reads(kernel)), default=4)


def _finds_places(kernel: NestKernel) -> bool:
    nodes = postorder(roots_of(kernel))
    return any(n.op == "reduce" and n.attr in ("argmin", "argmax") for n in nodes)


def _row_points(kernel: NestKernel, context: KernelContext, longest: int) -> int:
    """Points of a thread: what it has read of its rows stays in registers until the last use."""
    outer, held = {a.symbol for a in kernel.outer}, 0
    for node in loads(roots_of(kernel)):
        access = node.attr
        assert isinstance(access, Access)
        free = {s for e in access.index for s in e.free_symbols}
        if access.buffer not in kernel.local and (access.binds or not free <= outer):
            each = context.buffers[access.buffer].dtype.compute.itemsize
            held += max(1, each // 4) * bool(access.binds or free & outer)
    found = (each for length, each in ROW_THREAD_POINTS.items() if longest <= length)
    points = next(found, LONG_THREAD_POINTS) * 4 // _widest_element(kernel)
    while points > THREAD_POINTS and points * held > HELD_REGISTERS:
        points //= 2
    dear = points * sum(map(op_weight, postorder(roots_of(kernel)))) > ROW_WEIGHT
    return points // 2 if dear and longest >= DEAR_ROWS else points


def rows_contiguous(
    kernel: NestKernel, stage: Stage, context: KernelContext, outer: Sequence[Axis]
) -> bool:
    """True when the stage's largest reads are contiguous along outer axes, not the inner."""
    if not outer or not stage.order:
        return False
    found = False
    for node in loads([r for n in stage.nests for r in n.roots]):
        access = node.attr
        assert isinstance(access, Access)
        if access.binds or access.buffer in kernel.local:
            continue
        offset = context.offset(access.buffer, access.index)
        if any(coefficient_of(offset, a.symbol) == 1 for a in stage.order):
            return False
        inner = any(a.symbol in offset.free_symbols for a in stage.order)
        found |= inner and any(coefficient_of(offset, a.symbol) == 1 for a in outer)
    return found


def _moved(kernel: NestKernel, context: KernelContext) -> int:
    """Bytes that a point of a row reads and writes; 0 where places of extremes are found."""
    if _finds_places(kernel):
        return 0
    outer = {a.symbol for a in kernel.outer}
    stores = [store for stage in kernel.stages for nest in stage.nests for store in nest.stores]
    places = [(a.buffer, a.index) for a in memory_reads(kernel)] + [
        (s.buffer, s.index) for s in stores
    ]
    found: dict[str, int] = {}
    for buffer, index in places:
        own = {s for e in index for s in e.free_symbols}
        if buffer not in kernel.local and own & outer and own - outer:
            found[buffer] = context.buffers[buffer].dtype.itemsize
    return sum(found.values())


def _row_block(rows: int, longest: int, across: bool, units: int, moved: int, least: int) -> int:
    if across:
        return min(64, power_above(rows), max(1, power_above(rows * 16 // units)))
    wide = power_above(longest)
    points = max(LEAST_TILE_POINTS, min(TILE_POINTS, least * wide))
    short = max(1, points // wide)
    lanes = sum(_piece_sizes(longest, wide))
    while 0 < short * longest * moved < LEAST_TILE_BYTES and 2 * short * lanes <= MOST_TILE_LANES:
        short *= 2
    return min(short, power_above(max(1, rows // units)), power_above(rows))


def _most_rows(longest: int, size: int) -> int:
    """Rows of a tile; of numbers of 8 bytes so few that one warp has a row to itself.

    Two warps with a row tell each other through shared memory what they reduced: softmax of rows of
    128 float64 took 345 us on an H200 by 8 rows and two warps, 263 by 4 rows and one, 302 by 2, 357
    by 8 and one.
    """
    alone = size == WIDE_NUMBER and WARP * 2 < longest <= WARP_ROW
    return max(1, WARP_POINTS // power_above(longest)) if alone else TILE_POINTS


def _columns(
    name: str,
    stage: Stage,
    context: KernelContext,
    hints: Hints,
    rows: int,
    across: bool,
    turn: int,
) -> tuple[TileDim, bool]:
    """The tile dimension of an inner iteration space, and whether it takes several turns."""
    points = max(1, _points(stage, context, hints))
    ends = context.most_points(stage.order, hints) is not None
    fits = ends and points * rows <= PERSISTENT_POINTS
    if fits and (not across or points <= WHOLE_COLUMNS):
        return TileDim(name, stage.order, power_above(points), 1), False
    block = turn // rows
    return TileDim(name, stage.order, max(16, min(block, power_above(points))), 1), True
