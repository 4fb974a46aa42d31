"""Writes what entries give: hashed on the way, several entries in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aot_runtime.format.container import entry_bytes
from aot_runtime.format.manifest import Digest, Hasher

from aot.errors import InternalError
from aot.link.data_file import DataFile, Stretch
from aot.link.entry import Entry
from aot.link.takers import AHEAD_BYTES, Takers, takers

_WRITE_BYTES = 2 << 20  # hashed and written while still in the cache; also how often ^C is heard

LANES = 2
"""Entries that are open at a time. The digest of an entry is one chain (SHA-256: 1.3 to 1.8 GB a
second), which took two thirds of the time in which a model of 16 GB was written."""


@dataclass(frozen=True)
class _Open:
    """An entry that is being written: its pieces, and what becomes of them."""

    pieces: Iterator[memoryview]
    stretch: Stretch
    hasher: Hasher


def write_entries(file: DataFile, places: Sequence[tuple[int, Entry]]) -> dict[str, Digest]:
    """Writes each entry at its place (bytes from the file's begin).

    Returns:
        The entries' digests.

    Raises:
        InternalError: An entry has given another number of bytes than its shape says.
        OSError: What the system says to writing.
    """
    hashers: dict[str, Hasher] = {}
    with takers(1 + 2 * LANES) as side:

        def opened() -> Iterator[_Open]:
            for begin, entry in places:
                hasher = hashers[entry.name] = Hasher()
                yield _Open(_pieces(entry, side), file.from_place(begin), hasher)

        coming = opened()
        lanes = [next(coming, None) for _ in range(LANES)]
        while any(lanes):
            for lane, at in enumerate(lanes):
                if at is None:
                    continue
                piece = next(at.pieces, None)
                if piece is None:
                    side.give(memoryview(b""), (0, at.stretch.close))
                    lanes[lane] = next(coming, None)
                else:
                    whole = (1 + lane, at.hasher.update_whole)
                    blocks = (1 + LANES + lane, at.hasher.update_blocks)
                    side.give(piece, (0, at.stretch.write), whole, blocks)
        side.finish()
    return {name: hasher.digest() for name, hasher in hashers.items()}


def _pieces(entry: Entry, side: Takers) -> Iterator[memoryview]:
    """The entry's bytes, in pieces."""
    written = 0
    for chunk in entry.data():
        view = memoryview(chunk)
        # An empty view cannot be cast (its strides are zero), and has nothing to write.
        flat = view.cast("B") if view.nbytes else memoryview(b"")
        for start in range(0, len(flat), _WRITE_BYTES):
            yield flat[start : start + _WRITE_BYTES]
        written += len(flat)
        if len(flat) > AHEAD_BYTES:
            side.finish()  # its last piece keeps all of it
    wanted = entry_bytes(entry.dtype, entry.shape)
    if written != wanted:
        raise InternalError(
            f"entry {entry.name} gave {written} bytes; {entry.dtype} of shape "
            f"{list(entry.shape)} needs {wanted}"
        )
