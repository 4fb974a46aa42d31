"""Entries are hashed and written in turn, their data made in the caller's thread."""

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aot_runtime.format.manifest import BLOCK_BYTES, digest_of

from aot.errors import InternalError
from aot.link.data_file import data_file
from aot.link.entry import Entry, bytes_entry
from aot.link.write_data import LANES, write_entries


def written(path: Path, places: list[tuple[int, Entry]]):
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        with data_file(descriptor) as file:
            return write_entries(file, places)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 11])
def test_each_entry_is_where_it_belongs_with_its_digest(tmp_path: Path, count: int) -> None:
    sizes = [5, 0, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 4096, 1, 7 << 20, 2, 0, 9, 100_000][:count]
    texts = [hashlib.shake_128(bytes([k])).digest(size) for k, size in enumerate(sizes)]
    places = [sum(sizes[:k]) + 100 * k for k in range(count)]
    entries = [bytes_entry(f"files/{k}", text) for k, text in enumerate(texts)]
    digests = written(tmp_path / "p", list(zip(places, entries, strict=True)))
    data = (tmp_path / "p").read_bytes()
    for place, entry, text in zip(places, entries, texts, strict=True):
        assert data[place : place + len(text)] == text
        assert digests[entry.name] == digest_of(memoryview(text))


def test_entries_are_asked_in_turn_by_one_thread(tmp_path: Path) -> None:
    asked: list[tuple[int, int]] = []
    threads = set()

    def parts(name: int) -> Iterator[bytes]:
        for part in range(3):
            asked.append((name, part))
            threads.add(threading.get_ident())
            yield bytes(4)

    entries = [Entry(f"weights/{k}", "uint8", (12,), lambda k=k: parts(k)) for k in range(3)]
    written(tmp_path / "p", [(16 * k, entry) for k, entry in enumerate(entries)])
    assert LANES == 2 and asked[:6] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    assert asked[6:] == [(2, 0), (2, 1), (2, 2)]
    assert threads == {threading.get_ident()}


def test_an_entry_of_another_length_is_our_error(tmp_path: Path) -> None:
    long = Entry("weights/w", "float32", (2,), lambda: (bytes(4), bytes(8)))
    with pytest.raises(InternalError, match="weights/w gave 12 bytes"):
        written(tmp_path / "p", [(0, bytes_entry("files/a", b"a")), (8, long)])
