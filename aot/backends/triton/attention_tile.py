"""Block sizes of attention kernels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from aot.backends.triton.gpu import Gpu
from aot.backends.triton.tiling import WARP
from aot.backends.triton.tuning import Problem, as_config
from aot.ir.dtypes import DType
from aot.symbolic import power_above

HEAD_SIZE = 256
"""Greatest size of a query or a value."""

LEAST_COLUMNS = 16
"""Columns of the narrowest block that tensor cores take."""

_LEAST_ROWS = 16
"""Rows of the lowest tile."""

PACKED_QUERIES = 16
"""Queries of a head up to which a tile holds those of all heads that share keys and values."""


@dataclass(frozen=True)
class AttentionSize:
    """What decides between tiles: how many heads in all, and the sizes of each.

    `depth`: the greater one of the sizes of a key and a value. `copied`: the device's descriptors
    can copy keys and values, its tensor cores work by themselves, and no mask but a causal one is
    between. `masked`: bytes of a mask's number for each score; 0 without. `loose`: its rows begin
    at places from which no vector is loaded.
    """

    heads: int
    queries: int
    keys: int
    depth: int
    dtype: DType
    causal: bool
    copied: bool = False
    masked: int = 0
    loose: bool = False


@dataclass(frozen=True)
class AttentionTile:
    """Queries and keys of a block; warps, and blocks of keys loaded ahead of their use.

    `packed`: the rows of a tile are the queries of all heads that share keys and values. `groups`:
    of `warps` warps each, which multiply while one more copies; 0 for a program that does both.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    packed: bool = False
    groups: int = 0


_GROUP_ROWS = 64
"""Queries of a group of warps."""

LEAST_GROUP_DEPTH = 33
"""Smallest size of a head that groups of warps were measured with."""

_BY_GROUPS = {
    40: (1024, AttentionTile(3 * _GROUP_ROWS, 128, 4, 2, groups=3)),
    48: (1536, AttentionTile(3 * _GROUP_ROWS, 128, 4, 2, groups=3)),
    64: (3072, AttentionTile(3 * _GROUP_ROWS, 128, 4, 2, groups=3)),
    96: (1408, AttentionTile(2 * _GROUP_ROWS, 128, 4, 2, groups=2)),
    128: (1024, AttentionTile(2 * _GROUP_ROWS, 128, 4, 2, groups=2)),
    160: (512, AttentionTile(2 * _GROUP_ROWS, 128, 4, 2, groups=2)),
    192: (768, AttentionTile(2 * _GROUP_ROWS, 64, 4, 2, groups=2)),
    256: (128, AttentionTile(2 * _GROUP_ROWS, 64, 4, 2, groups=2)),
}
"""By the greatest size of a head: keys that a query sees on average from which the tile is faster.

A multiprocessor has one such program at a time, and nothing hides its beginning and end: about 7
microseconds. Of `_HALF`'s time on an H200 it took, at so many keys on average (causal: half as many
again): 40 columns 0.79 (1916), 0.70 (3020, causal), 0.8 (4096 and more); 88 columns 1.04 (863,
causal; in pairs 0.89); 93 columns 0.82 (2672, causal); 128 columns 0.96 (924, causal; in pairs
0.91), 0.84 (3629); 160 columns 0.69 (2016, causal; in pairs 0.61), 0.72 (991, causal), 0.73 (1164,
causal), of which blocks of 64 keys took 1.05 to 1.09; 192 columns 0.95 (1008, causal; in pairs
0.86, of 720 0.83, of 512 0.91), with two blocks in flight 0.92 to 0.99 of three; 256 columns 0.77
(512, causal; in pairs 0.74), of 256 keys in pairs 0.74 and of 163 0.64: of these a multiprocessor
holds one program in any case; 64 columns 0.99 (2048, causal), 0.85 (6120).
"""

_CAUSAL = {40: 2560, 48: 5120, 96: 768, 128: 640}
"""The same under a causal mask, by the greatest size of a head, where that is another number: since
one warp describes keys and values while groups load queries, beginnings take less. Of `_HALF`'s
time: 96 columns 0.81 (1195 keys, in pairs), 0.84 (1739), 0.87 (2112), 0.97 (1024, in pairs); 128
columns 0.88 (1024, in pairs), 0.96 (827, in pairs). Without a mask not: 80 columns 1.13 (1024), 96
1.05. 48 columns 1.36 (1380, in pairs), 1.2 (2048), 1.1 (4096), without a mask 1.18 (1024) and 0.98
(2048); 40 columns 1.08 (2048, causal), 0.98 (4096), without a mask 0.84 (2048)."""

_PAIR = AttentionTile(2 * _GROUP_ROWS, 128, 4, 2, groups=2)
_HEIGHTS = {
    64: (_PAIR, 1.24, AttentionTile(3 * _GROUP_ROWS, 128, 4, 2, groups=3)),
    96: (_PAIR, 1.1, AttentionTile(3 * _GROUP_ROWS, 64, 4, 3, groups=3)),
    128: (_PAIR, 1.0, AttentionTile(3 * _GROUP_ROWS, 64, 4, 2, groups=3)),
}
"""By the greatest size of a head without a causal mask: tiles of two groups and of three, and what
a row of the former takes beside one of the latter. The one with which multiprocessors end first:
of 80 columns (4888 keys, 8 heads) three took 162 us on an H200, two in pairs 217, `_HALF` 251; of
96 (2392 keys, 32 heads), in 4 turns where two take 5, 189 and 163; of 72 (2048 keys, 128 heads) 422
and 469, with two blocks in flight 463; of 64 (16384 keys, one head), 86 tiles, 190, and 128 of two
157; of 128 (5704 keys, 4 heads), in one turn where two take two, 107 and 139."""

_SOONER = {160: 0.6, 192: 0.33, 256: 0.6}
"""Of these keys, by the greatest size of a head, where programs take two tiles one after the other:
a beginning less."""

_EVEN_PAIRS = ((97, 128), (161, 192))
"""Sizes of heads of which programs take two tiles without a causal mask, too, where these are as
many: 0.91 of a tile each (192 columns, 3191 keys, 32 heads), 0.89 of the small tile (400 keys, 256
heads), 0.95 of a tile each (128 columns, 1024 keys, 256 heads)."""

_EVEN_PAIR_WAVES = 0.75
"""Of the multiprocessors' time that such pairs must fill."""

_FULL_WAVES = 0.9
"""Of the multiprocessors' time that programs must fill for that, all of them equally long."""

_BUSY_WAVES, _LOW_ROWS = 0.75, 64
"""Time of a row by groups, beside that of low tiles without them, and the rows of these; causal
tiles, longest first, fill multiprocessors from one and a half waves on. Where all begin at once,
and would be as few otherwise, the longest one decides, and takes less by groups: 0.61 (72 columns,
8192 keys, causal, 2 heads)."""

_HALVES = 1.3
"""Time of two tiles of half the rows and keys on a multiprocessor, beside that of one alone there
(192 columns). 8 heads of 2072 queries took 109 us on an H200 by 136 tiles, 76 by 264 of 64 x 32."""

_LOOSE_EACH, _LOOSE_BYTES = 16, 4
"""Scores of a thread, at most, where each has a number of such bytes to be loaded by an address of
its own: 32 heads of 128, 2429 keys and a bias took 7.6 ms on an H200 by 128 x 64, 3.4 by 16 x 64; 4
heads, 3086 keys 926 us, 643. Of rows of vectors 16 x 64 took 1.15 to 1.7 of it, also of flags."""

_EVEN_WAVES, _CAUSAL_WAVES = 0.7, 4
"""The same of large tiles of float32 without a causal mask: of 40 columns, 8 heads and 2812 keys
176 tiles of 128 by 64 took 1.09 of 32 by 64. And how many tiles a multiprocessor must have under a
causal one: 64 columns, 64 heads and 2048 keys took 0.86 of 32 by 64."""

_HALF = {
    64: AttentionTile(64, 64, 4, 3),
    96: AttentionTile(128, 64, 4, 3),
    128: AttentionTile(64, 64, 4, 3),
    160: AttentionTile(64, 64, 4, 3),
    192: AttentionTile(128, 64, 8, 3),
    256: AttentionTile(64, 64, 4, 3),
}
"""Small enough that a multiprocessor holds two: one multiplies while the other computes powers.

Measured on an H200. Of 128 columns 128 by 64, alone on a multiprocessor, took 0.96 to 1.06 of 64 by
64 without a mask (2048 to 8192 keys), and 1.0 to 1.05 of it under a causal one, in pairs; of 256
columns 64 by 64 took 0.79 to 0.87 of 64 by 32. Of 80 and 96 columns four warps for 128 rows took
0.79 and 0.83 of eight; of 192 columns 128 rows took 0.73 to 0.84 of 64, alone on a multiprocessor.
"""

_MASKED = {
    32: AttentionTile(128, 64, 8, 3),
    96: AttentionTile(64, 32, 4, 3),
    128: AttentionTile(128, 64, 8, 3),
    160: AttentionTile(64, 64, 4, 3),
    192: AttentionTile(128, 64, 8, 3),
    256: AttentionTile(128, 32, 8, 3),
}
_FLAGGED = {64: AttentionTile(64, 32, 4, 3), 96: AttentionTile(128, 64, 4, 3)}
"""The same under a mask, whose blocks a program waits for, too; `_FLAGGED`: of flags, where that is
another one.

On an H200, of the best of 18 tiles at each of 14 places: under numbers 64 by 32 took 1.01 to 1.06
for 40 to 96 columns, where 128 by 64 took 1.0 to 1.35 by four warps, 1.09 to 1.29 by eight, and 64
by 64 1.0 to 1.24; for 32 columns 1.2 of 128 by 64 by eight. Under flags it took 1.0 to 1.09 up to
64 columns, 1.1 for 96 (1.13 for 80) of 128 by 64 by four warps. For 104 and 128 columns 128 by 64
by eight warps took 1.0 to 1.07, 64 by 32 1.0 to 1.19; for 256 128 by 32 by eight 1.0, 64 by 64
1.39."""

_WIDE = 128
"""Columns of a head that is one block and not more than registers hold."""

_NUMBER_BYTES = 2
"""Of a mask's number, at least."""

_BY_TWO, _TWO = AttentionTile(64, 64, 4, 2), 1.08
"""What may end sooner than `_MASKED` of 97 to 128 columns, and two of it at a time beside one of
that: 16 heads of 1200 queries under flags took 55 us on an H200, 71 by 160 tiles of 128 by 64."""

_HALF_IN_STEP = {
    64: AttentionTile(128, 64, 8, 3),
    128: AttentionTile(128, 64, 8, 3),
    256: AttentionTile(64, 32, 8, 2),
}
"""Where registers hold what tensor cores multiply."""

_SINGLE = {
    64: AttentionTile(64, 32, 8, 2),
    128: AttentionTile(32, 32, 8, 2),
    256: AttentionTile(16, 32, 8, 2),
}

_SPLIT = {
    96: AttentionTile(128, 64, 8, 2),
    128: AttentionTile(128, 64, 8, 1),
    160: AttentionTile(16, 64, 4, 2),
    192: AttentionTile(32, 32, 4, 2),
    256: AttentionTile(32, 64, 8, 2),
}
_SPLIT_LOW = {
    64: AttentionTile(32, 64, 4, 2),
    96: AttentionTile(128, 64, 8, 2),
    128: AttentionTile(16, 64, 4, 2),
}
_SPLIT_IN_STEP = {
    64: AttentionTile(64, 32, 4, 2),
    128: AttentionTile(32, 32, 8, 2),
    256: AttentionTile(16, 32, 8, 2),
}
"""Of float32 as products of halves of its digits: the largest whose digits stay in registers.

`_SPLIT_LOW`: where large tiles would be few, or causal ones unequal. On an H200, of the best of 16
tiles at each of 15 places: 128 by 64 by eight warps took 1.04 to 1.09 up to 64 columns, where 32 by
64 took 1.0 and 1.21, but 1.89 where it is 23 programs; of 72 to 96 columns 1.0 to 1.05, 64 by 64
1.04 to 1.68 and 64 by 32 1.11 to 1.48, also where no vector loads a mask's numbers (2770 and 2586
keys); of 128 columns 16 by 64 1.02 to 1.08 and 128 by 64 1.04 to 1.33 (1368 to 9552 keys, one
causal), 32 by 64 1.0, of which 160 bytes a thread lie in memory, but 1.43 to 1.75 of these two
under masks (512 to 4096 keys, flags and numbers); of 192 columns 32 by 32 took 1.0 (4208 keys, 16
heads; 4096, causal, 32 heads), 32 by 64 by eight warps 1.32 and 1.14. Of 160 columns 32 by 32 took
3.1 of 16 by 64 (5261 keys, causal, 16 heads), 3.4 (3428 keys, 32 heads), 1.9 (4788 keys, a mask).
Of 256 columns in two pieces 32 by 64, with one block in flight, took 0.46 of 16 by 32 in one (4096
keys, 32 heads); 32 by 32 0.48 (with two in flight 0.58), 16 by 64 0.53, 64 by 32 0.75; in one piece
32 by 32 0.73. Where queries end within a tile, its mask is what registers no longer hold: then 32
by 64 by four warps took 1.9 of it by eight (256 columns, 5156 keys, causal, 16 heads), without one
1.08 (8192 keys) and 1.26 (2433 keys, 64 heads).
"""

_LEAST_SPLIT = 64
"""Rows of float32's heads in two pieces that few programs keep, too: of 72 to 96 columns half of
them, 32 by 64, took 2.2 to 3.6 of the best tile's time, 64 by 64 1.04 to 1.68."""

_SINGLE_KEYS = 64
"""Most keys of a packed tile in single precision: registers hold what is multiplied."""


def attention_tile(size: AttentionSize, gpu: Gpu) -> AttentionTile:
    """The tile for a problem: the one that was the fastest when measured, else by rules."""
    measured = gpu.tuning.choose(
        problem(size), gpu.arch, lambda: [as_config(tile) for tile in _ranked(size, gpu)]
    )
    if measured is not None:
        found = {key: bool(n) if key == "packed" else n for key, n in measured.items()}
        return AttentionTile(**found)  # type: ignore[arg-type]
    return _by_rules(size, gpu)


def _ranked(size: AttentionSize, gpu: Gpu) -> list[AttentionTile]:
    """The tile by rules, and what is worth a measurement beside it, the nearest to it first."""
    chosen = _by_rules(size, gpu)

    def distance(tile: AttentionTile) -> float:
        pairs = ((tile.rows, chosen.rows), (tile.keys, chosen.keys), (tile.warps, chosen.warps))
        far = sum(abs(math.log2(a / b)) for a, b in pairs)
        return far + abs(tile.stages - chosen.stages) + (bool(tile.groups) != bool(chosen.groups))

    others = (tile for tile in candidates(size) if tile.packed == chosen.packed)
    return list(dict.fromkeys((chosen, *sorted(others, key=distance))))


def _by_rules(size: AttentionSize, gpu: Gpu) -> AttentionTile:
    if in_groups(size, gpu):
        return _of_groups(size, gpu)[1]
    tile = _of_depth(_table(size, gpu), size)
    if size.queries <= PACKED_QUERIES:
        block = max(32, 64 * 128 // power_above(size.depth))
        if size.dtype.itemsize > 2:
            block = min(block, _SINGLE_KEYS)
        return _fitted(AttentionTile(16, block, 4, tile.stages, packed=True), size)
    tile = _in_fewer_turns(_lower(tile, size, gpu), size, gpu)
    rows, least = tile.rows, _least_rows(size, gpu)
    while rows > _LEAST_ROWS and (
        rows >= 2 * size.queries or (rows > least and _programs(rows, size) < _least(gpu))
    ):
        rows //= 2
    warps = tile.warps if rows == tile.rows else max(4, tile.warps * rows // tile.rows)
    keys = 2 * tile.keys if rows <= 32 < tile.rows and size.depth <= 64 else tile.keys
    return _beside(_fitted(replace(tile, rows=rows, keys=keys, warps=warps), size), size, gpu)


def _beside(tile: AttentionTile, size: AttentionSize, gpu: Gpu) -> AttentionTile:
    """The tile with a block less in flight where a multiprocessor then holds two programs.

    A mask's blocks wait in shared memory, too: 4 x 16 heads of 128, 1948 keys and a bias took 458
    us on an H200 by 64 x 64 with three blocks in flight, 367 with two. Registers hold one program
    of eight warps in any case: of 96 and 104 columns 128 x 64 with two took 1.25 to 1.4 of three.
    """
    fewer = replace(tile, stages=tile.stages - 1)
    paired = _resident(size, tile, gpu) < PAIRED_PROGRAMS <= _resident(size, fewer, gpu)
    halves = size.dtype.itemsize == 2 and gpu.async_dots and tile.warps <= _WARPS
    return fewer if halves and size.masked and fewer.stages > 1 and paired else tile


def _in_fewer_turns(tile: AttentionTile, size: AttentionSize, gpu: Gpu) -> AttentionTile:
    """The tile, or one of half its rows where programs of these, two at a time, end sooner."""
    if size.causal or size.dtype.itemsize != 2 or size.queries <= tile.rows:
        return tile
    turns = -(-_programs(tile.rows, size) // gpu.multiprocessors)
    if size.masked:
        # The last one of a multiprocessor has it for itself.
        halves = -(-_programs(_BY_TWO.rows, size) // gpu.multiprocessors) / PAIRED_PROGRAMS
        wide = gpu.async_dots and max(_FLAGGED) < size.depth <= _WIDE
        return _BY_TWO if wide and _TWO * halves < turns else tile
    half = replace(tile, rows=tile.rows // 2, keys=tile.keys // 2, warps=max(4, tile.warps // 2))
    alone = _resident(size, tile, gpu) == 1 and _resident(size, half, gpu) >= PAIRED_PROGRAMS
    pairs = -(-_programs(half.rows, size) // (PAIRED_PROGRAMS * gpu.multiprocessors))
    return half if alone and _HALVES * pairs < turns else tile


def _lower(tile: AttentionTile, size: AttentionSize, gpu: Gpu) -> AttentionTile:
    """The tile, or one of fewer rows where that takes less: such ones are few, or unequally long.

    Or a thread has more addresses of a mask's numbers than fit beside scores and sums.
    """
    if not _in_digits(size, gpu):
        return tile
    low = next((t for depth, t in _SPLIT_LOW.items() if size.depth <= depth), tile)
    each = tile.rows * tile.keys // (WARP * tile.warps)
    crowded = size.loose and size.masked >= _LOOSE_BYTES and each > _LOOSE_EACH
    programs = _programs(tile.rows, size)
    equal = _filled(programs, gpu) >= _EVEN_WAVES and not size.causal
    return tile if (equal or _many(programs, size, gpu)) and not crowded else low


def _many(programs: int, size: AttentionSize, gpu: Gpu) -> bool:
    """Whether causal tiles are so many that long ones end while short ones fill the rest."""
    return size.causal and programs >= _CAUSAL_WAVES * gpu.multiprocessors


def _in_digits(size: AttentionSize, gpu: Gpu) -> bool:
    """Whether products are of halves of float32's digits, by tensor cores that work alone."""
    return size.dtype.itemsize == 4 and gpu.splits_floats and gpu.async_dots


def _least_rows(size: AttentionSize, gpu: Gpu) -> int:
    """Rows below which tiles do not get for want of programs."""
    pieces = _in_digits(size, gpu) and not is_whole(size.depth, size.dtype)
    return _LEAST_SPLIT if pieces and size.depth <= max(_FIRST_PIECES[4]) else _LEAST_ROWS


def in_groups(size: AttentionSize, gpu: Gpu) -> bool:
    """Whether groups of warps share the work of a tile."""
    if not size.copied or size.dtype.itemsize != 2 or size.depth < LEAST_GROUP_DEPTH:
        return False
    least, tile = _of_groups(size, gpu)
    if size.causal:
        least = _CAUSAL.get(_bound(_BY_GROUPS, size), least)
    seen = min(size.keys, size.queries) // 2 if size.causal else size.keys
    if in_pairs(size, tile, gpu):
        return seen >= _of_depth(_SOONER, size) * least
    programs = _programs(tile.rows, size)
    if size.causal:
        other = next(t for depth, t in _HALF.items() if size.depth <= depth)
        alone = _least(gpu) <= programs <= gpu.multiprocessors and other.rows >= tile.rows
        return seen >= least and (alone or 2 * programs >= 3 * gpu.multiprocessors)
    return seen >= least and _BUSY_WAVES * _in_turn(tile.rows, size, gpu) < _in_turn(
        _LOW_ROWS, size, gpu
    )


def _in_turn(rows: int, size: AttentionSize, gpu: Gpu) -> int:
    """Rows that a multiprocessor computes by tiles of so many, one after the other."""
    return -(-_programs(rows, size) // gpu.multiprocessors) * rows


def _filled(programs: int, gpu: Gpu) -> float:
    """The part of the multiprocessors' time that equally long programs fill, one at a time."""
    return programs / (-(-programs // gpu.multiprocessors) * gpu.multiprocessors)


def _of_groups(size: AttentionSize, gpu: Gpu) -> tuple[int, AttentionTile]:
    least, tile = _of_depth(_BY_GROUPS, size)
    if size.causal or size.depth > max(_HEIGHTS):
        return least, tile
    pair, price, high = _of_depth(_HEIGHTS, size)
    sooner = price * _in_turn(pair.rows, size, gpu) < _in_turn(high.rows, size, gpu)
    return least, pair if sooner else high


_Of = TypeVar("_Of")


def _of_depth(table: Mapping[int, _Of], size: AttentionSize) -> _Of:
    """What a table by the greatest size of a head has for a problem."""
    return table[_bound(table, size)]


def _bound(table: Mapping[int, object], size: AttentionSize) -> int:
    """The greatest size of a head of a problem's row of a table."""
    return next(depth for depth in table if size.depth <= depth)


def _table(size: AttentionSize, gpu: Gpu) -> dict[int, AttentionTile]:
    """The tile of many queries by the greatest size of a head."""
    if size.dtype.itemsize == 2:
        if not gpu.async_dots:
            return _HALF_IN_STEP
        flags = _FLAGGED if size.masked < _NUMBER_BYTES and size.depth <= max(_FLAGGED) else None
        return (flags or _MASKED) if size.masked else _HALF
    if gpu.splits_floats:
        return _SPLIT if gpu.async_dots else _SPLIT_IN_STEP
    return _SINGLE


PAIRED_PROGRAMS = 2
"""Programs of a multiprocessor that are worth pairs of tiles. One waits for itself between its two
tiles (192 columns on an H200: 1.1 to 1.3 of one tile a program); of many, some end while others
begin (64 columns: 1.04 to 1.1). Heads in two pieces have too much in registers for a loop around
them: 80 and 96 columns took 1.4 to 1.5. Of 128 columns pairs took 0.9 to 1.0, of 256 0.96 to 1.0.
"""

_WARPS = 4
"""Of the programs that `Gpu.units` counts."""


_FIRST_PIECES = {2: (32, 64, 128), 4: (64, 128)}
"""Columns of the first of two pieces, by the bytes of an element, where two were measured."""

_MOST_WHOLE = {2: 256, 4: 128}
"""Columns of the greatest single piece: registers hold both halves of float32's digits."""


def column_pieces(extent: int, dtype: DType) -> tuple[int, int]:
    """The columns of a head as tensor cores take them: a power of two, and those behind it, or 0.

    What is added up to a whole power of two would be multiplied for nothing.
    """
    whole = power_above(max(LEAST_COLUMNS, extent))
    first = whole // 2
    more = power_above(max(LEAST_COLUMNS, extent - first))
    worth = first + more < whole or whole > _MOST_WHOLE.get(dtype.itemsize, whole)
    fewer = first in _FIRST_PIECES.get(dtype.itemsize, ()) and worth
    return (first, more) if fewer else (whole, 0)


def is_whole(extent: int, dtype: DType) -> bool:
    """Whether a head's columns are one block."""
    return column_pieces(extent, dtype)[1] == 0


def in_pairs(size: AttentionSize, tile: AttentionTile, gpu: Gpu) -> bool:
    """Whether programs take a long and a short tile each: then all take equally long.

    Programs of neighbouring numbers share keys and values; the other order, longest tiles first,
    needs fewer of them to keep the device busy. Without a causal mask both tiles are as long.
    """
    tiles = -(-size.queries // tile.rows)
    programs = size.heads * -(-tiles // 2)
    if tiles == 1:
        return False
    if not size.causal:
        even = tile.groups == _PAIR.groups and any(a <= size.depth <= b for a, b in _EVEN_PAIRS)
        return even and _filled(programs, gpu) >= _EVEN_PAIR_WAVES
    if tile.groups:
        return _filled(programs, gpu) >= _FULL_WAVES
    if not is_whole(size.depth, size.dtype) or _resident(size, tile, gpu) != PAIRED_PROGRAMS:
        return False
    # Programs of more warps keep as many multiprocessors busy.
    return programs * tile.warps >= _WARPS * gpu.units


def _resident(size: AttentionSize, tile: AttentionTile, gpu: Gpu) -> int:
    """Programs of which a multiprocessor's shared memory holds the blocks."""
    blocks = tile.rows + 2 * tile.stages * tile.keys
    masks = tile.stages * tile.rows * tile.keys * size.masked
    return gpu.shared_bytes // (blocks * size.depth * size.dtype.itemsize + masks)


def problem(size: AttentionSize) -> Problem:
    """What the tuning database knows of a call."""
    kind = "attention causal" if size.causal else "attention"
    kind += " copied" if size.copied else ""
    return Problem(kind, (size.heads, size.queries, size.keys, size.depth), size.dtype.name)


def candidates(size: AttentionSize) -> Iterator[AttentionTile]:
    """Tiles worth a measurement."""
    packed = size.queries <= PACKED_QUERIES
    half = size.dtype.itemsize == 2
    heights = (16,) if packed else (64, 128) if half else (16, 32, 64, 128)
    for rows in heights:
        for keys in (32, 64, 128):
            warps = (2, 4, 8) if packed else (4, 8) if rows == 128 else (4,)
            for count in warps:
                for stages in (2, 3):
                    yield _fitted(AttentionTile(rows, keys, count, stages, packed), size)
    if size.copied and half and not packed:
        for groups, keys, stages in itertools.product((2, 3), (64, 128), (2, 3)):
            yield AttentionTile(_GROUP_ROWS * groups, keys, 4, stages, groups=groups)


def _fitted(tile: AttentionTile, size: AttentionSize) -> AttentionTile:
    """The tile with no more keys than there are."""
    return replace(tile, keys=min(tile.keys, power_above(max(16, size.keys))))


def _programs(rows: int, size: AttentionSize) -> int:
    return size.heads * -(-size.queries // rows)


def _least(gpu: Gpu) -> int:
    """Programs that make use of most of the device; blocks get smaller rather than fewer."""
    return 3 * gpu.multiprocessors // 4
