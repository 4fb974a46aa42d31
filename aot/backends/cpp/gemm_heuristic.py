"""Blocking of the CPU matrix templates, chosen when the package is built.

The plan is shared by all ISA levels, so these numbers are too; each level picks its register block
inside a tile by itself. Pure functions of shapes and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.cpp.pieces_heuristic import Pieces, product_pieces
from aot.ir.hints import LARGER

PANEL = 16
# Three panels a step is the register block of AVX-512; a multiple is good for every level.
_STEP = 3 * PANEL
_ROWS = 128
_TILE_COLUMNS = 256
_CHUNK_BYTES = 1024  # K per chunk, times the element size: three panels of it fit into L1
UNIT_MACS = 600_000
"""A unit should cost some 10 microseconds at least, or handing it out costs more than it saves."""
_UNIT_BYTES = 150_000
_UNITS = 32
# Vectors of columns that a direct kernel takes at most, and one (`kTurnedLd` in aot/tmpl/matmul.h).
_TURNED_ROW = 7 * PANEL
# Rows of halves that are few, also where their number varies, and elements that they have at most:
# `matmul_few_rows` in aot/tmpl/matmul_call.h.
_FEW_ROWS = 14
_FEW_VARYING = 12
_FEW_ELEMENTS = 1 << 16
# Packed columns that stay in the second level of cache while rows pass.
_PACKED_BYTES = 3 << 19


@dataclass(frozen=True)
class MatmulBlocking:
    """Template arguments of `aot::tmpl::matmul` and what the plan needs to launch it.

    `mb`, `nb`: rows and columns of a work unit. `mc`, `nc`: the most rows and columns of the tile
    that the epilogue gets; `nc` is a multiple of 16. `kb`: chunk of K. `grain`: units worth a
    thread of their own. `copy_a`: rows of A pass through scratch. `accumulator_bytes`: size of
    the type that is computed in; `narrow_a`, `narrow_b`: the operand is stored narrower than that.
    `strided_b`: B is a plain matrix, packed on the way. `packed`: elements of a tile's columns of
    it, where all rows of a unit use them. `turned`: elements for results that are computed turned.
    `pieces`: tiles of bfloat16 multiply where there are some; `b_across`: they cut B where it lies.
    `few`: elements of widened rows that are whole, of few by packed halves.
    """

    mb: int
    nb: int
    mc: int
    nc: int
    kb: int
    grain: int
    copy_a: bool
    accumulator_bytes: int
    narrow_a: bool
    narrow_b: bool
    strided_b: bool = False
    packed: int = 0
    turned: int = 0
    pieces: Pieces | None = None
    b_across: bool = False
    few: int = 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch a worker needs: the twin of `matmul_scratch` in aot/tmpl/matmul.h."""
        elements = self.mc * (self.nc + PANEL)
        if self.copy_a or self.narrow_a:
            elements += self.mc * (self.kb + PANEL)
        if self.narrow_b or self.strided_b:
            elements += 4 * PANEL * self.kb + self.packed
        elements += self.turned + self.few
        room = _round_up(elements * self.accumulator_bytes, 64)
        if self.pieces is None:
            return room
        return room + self.pieces.product_bytes(
            copies_rows=self.copy_a, packs_columns=self.strided_b and not self.b_across
        )

    def work(self, batch: int, m: int, n: int) -> int:
        """Work units of a launch: batch * ceil(n / nb) * ceil(m / mb)."""
        return batch * -(-n // self.nb) * -(-m // self.mb)


def matmul_blocking(
    m: int,
    n: int,
    k: int,
    *,
    m_max: int | None = None,
    accumulator_bytes: int = 4,
    a_bytes: int | None = None,
    b_bytes: int | None = None,
    a_contiguous: bool = True,
    b_packed: bool = True,
    k_fixed: bool = True,
    may_turn: bool = False,
    float16: bool = False,
    halves: bool = False,
    b_across: bool = False,
    n_varies: bool = False,
) -> MatmulBlocking:
    """Chooses the blocking of a matmul.

    `m`, `n`, `k` are the sizes, or the typical ones of dimensions that vary (any value stays
    correct). `m_max` is the greatest M when M varies (None: M is `m` always). `a_bytes` and
    `b_bytes` are the sizes of stored elements (default: of the accumulator). `a_contiguous` is
    false when A's k is strided; `b_packed` when B is a plain matrix. `k_fixed`: K does not vary.
    `may_turn`: a level may compute results turned (`matmul_may_turn` in aot/tmpl/matmul.h).
    `float16`: both operands are, which tiles of bfloat16 may multiply in pieces; `halves`: both are
    of float16 or of bfloat16; `b_across`: columns of B are neighbours in memory. `n_varies`: a run
    may have more columns, and has them in one unit where the typical ones are: each unit turns,
    packs and reads rows anew.
    """
    a_size = accumulator_bytes if a_bytes is None else a_bytes
    b_size = accumulator_bytes if b_bytes is None else b_bytes
    m, n, k = max(m, 1), max(n, 1), max(k, 1)
    mb = _tile_rows(m, m_max)
    if n_varies and _unit_columns(m, mb, n, k, b_size) >= n:
        n = max(n, min(LARGER * n, _TILE_COLUMNS))
    tiles = -(-n // _TILE_COLUMNS)
    nc = min(_round_up(-(-n // tiles), _STEP), _round_up(n, PANEL))
    nb = _unit_columns(m, mb, n, k, b_size)
    if not b_packed:
        nb = min(nb, nc)
    if may_turn and mb < m:
        mb = _round_up(mb, PANEL)  # vectors run along rows
    # Pairs of narrow elements need no more room than widened ones.
    whole = k_fixed and not b_packed and nc * k * accumulator_bytes <= _PACKED_BYTES
    packed = nc * (k if b_size == accumulator_bytes else _round_up(k, 2)) if whole else 0
    copied = k_fixed and (not a_contiguous or a_size < accumulator_bytes)
    few = _few_elements(m, k, varies=m_max is not None) if halves and b_packed and k_fixed else 0
    pieces = None
    if float16 and k_fixed:
        turns = not (b_packed or b_across)
        pieces = product_pieces(m, n, k, turns_rows=not a_contiguous, turns_columns=turns)
    return MatmulBlocking(
        mb=mb,
        nb=nb,
        mc=mb,
        nc=nc,
        kb=_chunk_depth(k, accumulator_bytes, copied=copied),
        grain=_grain(min(mb, m), nb, k, b_size),
        copy_a=not a_contiguous,
        accumulator_bytes=accumulator_bytes,
        narrow_a=a_size < accumulator_bytes,
        narrow_b=b_size < accumulator_bytes,
        strided_b=not b_packed,
        packed=packed,
        turned=nc * _TURNED_ROW if may_turn else 0,
        pieces=pieces,
        b_across=b_across,
        few=few,
    )


def _tile_rows(m: int, m_max: int | None) -> int:
    """Rows of a tile: as even parts of those that there are as may be."""
    return -(-m // -(-m // _ROWS)) if m_max is None else min(max(m_max, 1), _ROWS)


def _chunk_depth(k: int, accumulator_bytes: int, *, copied: bool) -> int:
    """Depth that is multiplied at once; rows that are copied whole are read as they lie."""
    depth = _CHUNK_BYTES // accumulator_bytes
    return max(depth, _round_up(k, 4)) if copied and k <= 2 * depth else depth


def _grain(rows: int, nb: int, k: int, b_size: int) -> int:
    """Units that are worth a thread. Few rows: reading B is the cost; many: multiplying."""
    by_macs = -(-UNIT_MACS // (rows * nb * k))
    by_bytes = -(-_UNIT_BYTES // (nb * k * b_size))
    return min(by_macs, by_bytes)


def _few_elements(m: int, k: int, *, varies: bool) -> int:
    """Of copies of few rows of halves: the twin of `matmul_few_rows` in aot/tmpl/matmul_call.h."""
    row = _round_up(k, PANEL) + PANEL
    most = _FEW_ELEMENTS // row
    if varies:
        return min(_FEW_VARYING, most) * row
    return m * row if m <= min(_FEW_ROWS, most) else 0


def _unit_columns(m: int, mb: int, n: int, k: int, b_size: int) -> int:
    """Columns of a unit: enough units for many threads, none of them trivial."""
    row_tiles = -(-m // mb)
    wanted = max(1, -(-_UNITS // row_tiles))
    nb = _round_up(-(-n // wanted), _STEP)
    while nb < n and mb * nb * k < UNIT_MACS and nb * k * b_size < _UNIT_BYTES:
        nb += _STEP
    return min(nb, _round_up(n, PANEL))


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
