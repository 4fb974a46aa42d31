"""Whether products are worth computing in pieces of bfloat16, and by how much at a time.

The template is aot/tmpl/pieces.h; where a machine has no tiles of bfloat16, kernels multiply as
they do without.
"""

from __future__ import annotations

from dataclasses import dataclass

PANEL = 16
# As in PieceSizes: k's, bytes of a piece of one step of a panel or of rows, rows of a strip.
_STEP = 32
_PIECE = 1 << 10
STRIP = 32
"""Rows that are multiplied at once."""
FLOAT16_PIECES = 2
# Products a cycle of a core: of vectors, and by the number of pieces. Cycles to cut an element into
# pieces: of rows, of rows whose runs are joined before, and of weights, which come from far.
_VECTORS = 30
_TILES = {3: 80, FLOAT16_PIECES: 60}
_CUT = {3: 0.95, FLOAT16_PIECES: 0.6}
_CUT_JOINED = 1.5
_CUT_WEIGHT = {3: 1.0, FLOAT16_PIECES: 0.6}
# Of float16: rows that are transposed a strip at a time, of which each k is a line in a page of its
# own, must be near.
_NEAR_ELEMENTS = 1 << 19
# To transpose an element before; for vectors, to widen one; to begin a strip of rows;
# and the part of the vectors' time that is worth it.
_TURN = 0.7
_WIDEN = 0.55
_STRIP_CYCLES = 350
_WORTH_OF_FLOAT16 = 0.93
# A fifth must be won: the rest is the model's error.
_WORTH = 0.8
# The most channels of a tile of results, and pieces of B that stay in the second level of cache: of
# all k's, where many rows use them, or of a chunk of them beside the results of all rows.
_COLUMNS = 512
_WHOLE_BYTES = 3 << 19
_CHUNK_BYTES = 1 << 19
_ROWS = 256


@dataclass(frozen=True)
class Pieces:
    """Template arguments: columns, k's and rows at a time (PN, PK, PM), of products with `k`.

    Rows count where `depth` is not all of `k`, else they are taken by strips. `pieces` are those of
    an element.
    """

    columns: int
    depth: int
    rows: int
    k: int
    pieces: int = 3

    @property
    def values(self) -> dict[str, int]:
        """Of a template's configuration."""
        return {"PN": self.columns, "PK": self.depth, "PM": self.rows}

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch beside the results: the twin of `PieceSizes::scratch`."""
        panels = -(-self.columns // (2 * PANEL)) * 2
        steps = -(-min(self.depth, self.k) // _STEP)
        line = -(-self.k // _STEP) * _STEP * 4
        marks = -(-self.rows // 64) * 64 + -(-panels // 64) * 64
        return (4 + panels) * steps * self.pieces * _PIECE + line + marks

    def product_bytes(self, *, copies_rows: bool, packs_columns: bool) -> int:
        """Bytes of scratch of a product: the twin of `PieceRoom` in aot/tmpl/matmul_call.h."""
        rows = STRIP if self.depth >= self.k else self.rows
        floats = rows * (self.columns + PANEL)
        if copies_rows:
            floats += 2 * STRIP * (-(-self.k // PANEL) * PANEL + PANEL)
        if packs_columns:
            floats += self.columns * self.k
        return 2 * STRIP * 8 + floats * 4 + self.scratch_bytes


def pieces_blocking(rows: int, columns: int, taps: int, run: int) -> Pieces | None:
    """How to compute so many rows (or typically as many) by columns of taps * run k's.

    None: not in pieces.
    """
    k, joined = taps * run, taps > 1 and run % _STEP != 0
    found = _whole(columns, k, 3)
    if not joined and (found is None or rows <= _ROWS):
        found = _by_chunks(rows, columns, k, 3)
    if found is None or rows < STRIP:
        return None
    took = _cycles(found, rows, columns, _CUT_JOINED if joined else _CUT[3])
    wide = -(-columns // PANEL) * PANEL
    return found if took <= _WORTH * rows * wide * k / _VECTORS else None


def product_pieces(
    rows: int, columns: int, k: int, *, turns_rows: bool, turns_columns: bool
) -> Pieces | None:
    """How to compute a matrix product of float16, of so many rows or typically as many.

    `turns_rows`, `turns_columns`: k's of A lie apart, or those of B beside each other, so that they
    are transposed before.

    None: not in pieces.
    """
    found = _whole(columns, k, FLOAT16_PIECES)
    if not turns_rows and (found is None or rows <= _ROWS):
        found = _by_chunks(rows, columns, k, FLOAT16_PIECES)
    if found is None or rows < PANEL or (turns_rows and rows * k > _NEAR_ELEMENTS):
        return None
    before = _TURN * (turns_rows * rows + turns_columns * columns) * k
    took = _cycles(found, rows, columns, _CUT[FLOAT16_PIECES]) + before
    took += -(-rows // STRIP) * _STRIP_CYCLES
    wide = -(-columns // PANEL) * PANEL
    vectors = rows * wide * k / _VECTORS + _WIDEN * (rows + columns) * k + before
    return found if took <= _WORTH_OF_FLOAT16 * vectors else None


def _cycles(found: Pieces, rows: int, columns: int, cut: float) -> float:
    """What products and cutting take, that of an element of rows `cut`."""
    blocks = 1 if found.depth >= found.k else -(-rows // found.rows)
    times, deep = -(-columns // found.columns), -(-found.k // _STEP) * _STEP
    cutting = rows * deep * times * cut + columns * found.k * blocks * _CUT_WEIGHT[found.pieces]
    return rows * -(-columns // PANEL) * PANEL * deep / _TILES[found.pieces] + cutting


def _whole(columns: int, k: int, pieces: int) -> Pieces | None:
    """All of k at once, by as many columns as fit; None where these are few."""
    most = _WHOLE_BYTES // (-(-k // _STEP) * pieces * _PIECE) * PANEL
    if most < min(4 * PANEL, columns):
        return None
    wide = _even_columns(columns, min(most, _COLUMNS))
    return Pieces(wide, -(-k // _STEP) * _STEP, STRIP, k, pieces)


def _by_chunks(rows: int, columns: int, k: int, pieces: int) -> Pieces:
    """Chunks of k one after the other, while the results of many rows stay."""
    wide = _even_columns(columns, _COLUMNS)
    most = max(1, _CHUNK_BYTES // (wide // PANEL * pieces * _PIECE))
    steps = -(-k // _STEP)
    depth = -(-steps // -(-steps // most)) * _STEP
    return Pieces(wide, depth, -(-rows // -(-rows // _ROWS)), k, pieces)


def _even_columns(columns: int, most: int) -> int:
    """At most so many columns, whole pairs of panels, in groups of nearly one size."""
    pair = 2 * PANEL
    groups = -(-columns // (most // pair * pair or pair))
    each = -(-columns // groups)
    return min(-(-each // pair) * pair, -(-columns // PANEL) * PANEL)


def piece_lines(pieces: Pieces) -> list[str]:
    """Of a template's configuration: that, and by how much at a time."""
    return [
        "  static constexpr bool PIECES = true;",
        *(f"  static constexpr int64_t {name} = {n};" for name, n in pieces.values.items()),
    ]
