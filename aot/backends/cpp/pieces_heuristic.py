"""Whether float32 products are worth computing in pieces of bfloat16, and by how much at a time.

The template is aot/tmpl/pieces.h; where a machine has no tiles of bfloat16, kernels multiply as
they do without.
"""

from __future__ import annotations

from dataclasses import dataclass

PANEL = 16
# As in PieceSizes: k's, bytes of the pieces of one step of a panel or of rows, rows of a strip.
_STEP = 32
_SET = 3 << 10
STRIP = 32
"""Rows that are multiplied at once."""
# Products a cycle of a core: of vectors, and of pieces. Cycles to cut an element into pieces: of
# rows, of rows whose runs are joined before, and of weights, which come from far.
_VECTORS = 30
_TILES = 80
_CUT = 0.95
_CUT_JOINED = 1.5
_CUT_WEIGHT = 1.0
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

    Rows count where `depth` is not all of `k`, else they are taken by strips.
    """

    columns: int
    depth: int
    rows: int
    k: int

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch beside the results: the twin of `PieceSizes::scratch`."""
        panels = -(-self.columns // (2 * PANEL)) * 2
        steps = -(-min(self.depth, self.k) // _STEP)
        line = -(-self.k // _STEP) * _STEP * 4
        marks = -(-self.rows // 64) * 64 + -(-panels // 64) * 64
        return (4 + panels) * steps * _SET + line + marks


def pieces_blocking(rows: int, columns: int, taps: int, run: int) -> Pieces | None:
    """How to compute so many rows (or typically as many) by columns of taps * run k's.

    None: not in pieces.
    """
    k = taps * run
    steps = -(-k // _STEP)
    found = _whole(columns, k)
    if run % _STEP == 0 and (found is None or rows <= _ROWS):
        found = _by_chunks(rows, columns, k)
    if found is None or rows < STRIP:
        return None
    blocks = 1 if found.depth >= k else -(-rows // found.rows)
    times = -(-columns // found.columns)
    row = steps * _STEP * times * (_CUT_JOINED if run % _STEP else _CUT)
    cut = rows * row + columns * k * blocks * _CUT_WEIGHT
    wide = -(-columns // PANEL) * PANEL
    took = rows * wide * steps * _STEP / _TILES + cut
    return found if took <= _WORTH * rows * wide * k / _VECTORS else None


def _whole(columns: int, k: int) -> Pieces | None:
    """All of k at once, by as many columns as fit; None where these are few."""
    most = _WHOLE_BYTES // (-(-k // _STEP) * _SET) * PANEL
    if most < min(4 * PANEL, columns):
        return None
    return Pieces(_even_columns(columns, min(most, _COLUMNS)), -(-k // _STEP) * _STEP, STRIP, k)


def _by_chunks(rows: int, columns: int, k: int) -> Pieces:
    """Chunks of k one after the other, while the results of many rows stay."""
    wide = _even_columns(columns, _COLUMNS)
    most = max(1, _CHUNK_BYTES // (wide // PANEL * _SET))
    steps = -(-k // _STEP)
    depth = -(-steps // -(-steps // most)) * _STEP
    return Pieces(wide, depth, -(-rows // -(-rows // _ROWS)), k)


def _even_columns(columns: int, most: int) -> int:
    """At most so many columns, whole pairs of panels, in groups of nearly one size."""
    pair = 2 * PANEL
    groups = -(-columns // (most // pair * pair or pair))
    each = -(-columns // groups)
    return min(-(-each // pair) * pair, -(-columns // PANEL) * PANEL)
