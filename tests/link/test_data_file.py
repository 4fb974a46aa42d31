"""Bytes come to their places in long pieces, and what the disk says is heard."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from aot.link import data_file as module
from aot.link.data_file import data_file

PAGE = 2 << 20


@pytest.fixture
def descriptor(tmp_path: Path):
    opened = os.open(tmp_path / "data", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def test_stretches_are_written_side_by_side(descriptor: int, tmp_path: Path) -> None:
    with data_file(descriptor) as file:
        first, second = file.from_place(3), file.from_place(10)
        second.write(b"gh")
        first.write(b"abc")
        second.write(b"i")
        first.close(b"d")
        second.close(b"")
        file.write_at(0, b"xyz")
    assert (tmp_path / "data").read_bytes() == b"xyzabcd\0\0\0ghi"


def test_the_system_gets_whole_large_pages(
    descriptor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.pwritev, []

    def noted(to: int, data: Sequence[memoryview], offset: int) -> int:
        calls.append((offset, sum(map(len, data))))
        return real(to, data, offset)

    monkeypatch.setattr(os, "pwritev", noted)
    begin, piece = PAGE - 4096, bytes(range(256)) * 3000
    with data_file(descriptor) as file:
        stretch = file.from_place(begin)
        for _ in range(6):
            stretch.write(piece)
        stretch.close(b"end")
    assert calls[0] == (begin, 4096)
    assert calls[1:-1] == [(PAGE * (1 + k), PAGE) for k in range(len(calls) - 2)]
    assert sum(size for _, size in calls) == 6 * len(piece) + 3
    assert (tmp_path / "data").read_bytes()[begin:] == piece * 6 + b"end"


def test_a_disk_takes_what_is_there_while_more_comes(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(module, "_SETTLED", 1000)
    monkeypatch.setattr(os, "fdatasync", asked.append)
    with data_file(descriptor) as file:
        file.write_at(0, bytes(999))
        assert not asked
        file.write_at(999, bytes(1))
    assert asked == [descriptor]


def test_what_a_disk_says_later_is_an_error(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, "_SETTLED", 1000)
    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(OSError, match="Input/output error"), data_file(descriptor) as file:
        file.write_at(0, bytes(1000))
