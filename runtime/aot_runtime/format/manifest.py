"""The manifest: digests of every byte of a package's files (docs/format.md, "Manifest").

Every entry has the SHA-256 of its bytes, the number that any other tool computes of them. Entries
above a block have one for each block besides, so that a reader checks them with many threads, or
as they are used. Both are computed in one pass while the package is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aot_runtime.format.container import (
    FROM_SAFETENSORS,
    NO_HASH,
    TO_SAFETENSORS,
    EntryInfo,
    WeightsFile,
    entry_bytes,
)
from aot_runtime.format.errors import CorruptPackage

BLOCK_BYTES = 4 << 20
"""Of a block that has a digest of its own; some milliseconds of hashing."""


@dataclass(frozen=True)
class Digest:
    """What an entry's bytes hash to.

    Attributes:
        sha256: Of all of them, in hex.
        blocks: Of each block, where there are more bytes than a block's.
    """

    sha256: str
    blocks: tuple[str, ...] = ()


class Hasher:
    """Computes a `Digest` of bytes that come in pieces.

    Those of the whole and of the blocks may be updated by a thread each.
    """

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._block = hashlib.sha256()
        self._room = BLOCK_BYTES
        self._blocks: list[str] = []

    def update(self, data: memoryview) -> None:
        """Take the next bytes."""
        self.update_whole(data)
        self.update_blocks(data)

    def update_whole(self, data: memoryview) -> None:
        """Take the next bytes for the digest of all."""
        self._whole.update(data)

    def update_blocks(self, data: memoryview) -> None:
        """Take the next bytes for the digests of the blocks."""
        while data:
            if not self._room:
                self._end_block()
            piece = data[: self._room]
            self._block.update(piece)
            self._room -= len(piece)
            data = data[len(piece) :]

    def _end_block(self) -> None:
        self._blocks.append(self._block.hexdigest())
        self._block = hashlib.sha256()
        self._room = BLOCK_BYTES

    def digest(self) -> Digest:
        """Of all that was taken."""
        last = (self._block.hexdigest(),) if self._blocks else ()
        return Digest(self._whole.hexdigest(), (*self._blocks, *last))


def digest_of(data: memoryview) -> Digest:
    """The digest of bytes that are there as a whole."""
    hasher = Hasher()
    hasher.update(data)
    return hasher.digest()


def unknown_digest(nbytes: int) -> Digest:
    """As long in the manifest as the right one will be."""
    blocks = -(-nbytes // BLOCK_BYTES) if nbytes > BLOCK_BYTES else 0
    return Digest(NO_HASH, (NO_HASH,) * blocks)


@dataclass(frozen=True)
class ManifestRow:
    """One entry: what its row of the header says, and its digest."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: Digest


@dataclass(frozen=True)
class Manifest:
    """What a manifest says.

    Attributes:
        version: The format's version.
        plan_sha256: The hash of the plan, as the header has it.
        rows_sha256: The hash of the header's rows (`container.rows_sha256`).
        weights: The file that holds the weights, if not the package.
        weights_rows_sha256: The hash of the rows of that file's header, else "".
        rows: The entries of both files in their order, without fillers and the manifest itself.
    """

    version: str
    plan_sha256: str
    rows_sha256: str
    weights: WeightsFile | None
    weights_rows_sha256: str
    rows: tuple[ManifestRow, ...]

    def digests(self) -> dict[str, Digest]:
        """Of every entry of both files by its name."""
        return {row.name: row.digest for row in self.rows}


def rows_of(layout: Sequence[EntryInfo], digests: Mapping[str, Digest]) -> tuple[ManifestRow, ...]:
    """The rows of a file's entries; fillers, and what has no digest, are left out."""
    return tuple(
        ManifestRow(info.name, info.dtype, info.shape, digests[info.name])
        for info in layout
        if info.name in digests
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest's text, which is as long for digests that are not known yet.

    It begins with what a reader of the header knows to expect, so that the two are compared without
    a look at the rest.
    """
    table: dict[str, Any] = {
        "format": manifest.version,
        "plan_sha256": manifest.plan_sha256,
        "rows_sha256": manifest.rows_sha256,
    }
    if manifest.weights is not None:
        table["weights_file"] = manifest.weights.name
        table["weights_sha256"] = manifest.weights.sha256
        table["weights_rows_sha256"] = manifest.weights_rows_sha256
    table["block_bytes"] = BLOCK_BYTES
    table["entries"] = [_row_json(row) for row in manifest.rows]
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def _row_json(row: ManifestRow) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": row.name,
        "dtype": TO_SAFETENSORS[row.dtype],
        "shape": list(row.shape),
        "sha256": row.digest.sha256,
    }
    if row.digest.blocks:
        made["blocks"] = list(row.digest.blocks)
    return made


def decode_manifest(text: bytes) -> Manifest:
    """What a manifest's text says.

    Raises:
        CorruptPackage: It is malformed.
    """
    try:
        table = json.loads(text.decode("utf-8"))
        weights = None
        if "weights_file" in table:
            weights = WeightsFile(str(table["weights_file"]), str(table["weights_sha256"]))
        if table["block_bytes"] != BLOCK_BYTES:
            raise ValueError(f"blocks have {table['block_bytes']} bytes, not {BLOCK_BYTES}")
        return Manifest(
            str(table["format"]),
            str(table["plan_sha256"]),
            str(table["rows_sha256"]),
            weights,
            str(table.get("weights_rows_sha256", "")),
            tuple(_row(row) for row in table["entries"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptPackage(
            f"the manifest is malformed: {error}", where="entry manifest"
        ) from error


def _row(row: Mapping[str, Any]) -> ManifestRow:
    dtype, shape = FROM_SAFETENSORS[row["dtype"]], tuple(int(size) for size in row["shape"])
    digest = Digest(str(row["sha256"]), tuple(map(str, row.get("blocks", ()))))
    if len(digest.blocks) != len(unknown_digest(entry_bytes(dtype, shape)).blocks):
        raise ValueError(f"entry {row['name']} has {len(digest.blocks)} blocks")
    return ManifestRow(str(row["name"]), dtype, shape, digest)
