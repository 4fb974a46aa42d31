"""Block sizes of attention kernels."""

from __future__ import annotations

from dataclasses import dataclass

from aot.backends.triton.tiling import power_above
from aot.ir.dtypes import DType

HEAD_SIZE = 256
"""Greatest size of a query or a value."""

PROGRAMS = 96
"""Programs that make use of most of a GPU; blocks get smaller rather than there being fewer."""

PACKED_QUERIES = 16
"""Queries of a head up to which a tile holds those of all heads that share keys and values."""


@dataclass(frozen=True)
class AttentionTile:
    """Queries and keys of a block; warps, and blocks of keys loaded ahead of their use.

    `packed`: the rows of a tile are the queries of all heads that share keys and values.
    """

    rows: int
    keys: int
    warps: int
    stages: int
    packed: bool = False


_HALF = {
    64: AttentionTile(128, 128, 8, 3),
    128: AttentionTile(128, 64, 8, 3),
    256: AttentionTile(64, 32, 4, 3),
}
_SINGLE = {
    64: AttentionTile(64, 32, 8, 2),
    128: AttentionTile(32, 32, 8, 2),
    256: AttentionTile(16, 32, 8, 2),
}


def attention_tile(heads: int, queries: int, keys: int, depth: int, dtype: DType) -> AttentionTile:
    """The blocks for `heads` heads in all, with that many queries and keys each.

    `depth`: the greater one of the sizes of a key and a value.
    """
    table = _HALF if dtype.itemsize == 2 else _SINGLE
    tile = next(t for size, t in table.items() if depth <= size)
    most = power_above(max(16, keys))
    if queries <= PACKED_QUERIES:
        block = min(most, max(32, 64 * 128 // power_above(depth)))
        return AttentionTile(16, block, 4, tile.stages, packed=True)
    rows = tile.rows
    while rows > 16 and (rows >= 2 * queries or heads * -(-queries // rows) < PROGRAMS):
        rows //= 2
    warps = tile.warps if rows == tile.rows else max(4, tile.warps * rows // tile.rows)
    return AttentionTile(rows, min(tile.keys, most), warps, tile.stages)
