"""The file that a package is written to: bytes go to their places, from where they lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from aot.link.entry import Chunk

_TOGETHER = 2 << 20  # a large page: what the system is given at once, at a multiple of it
_PIECES = 1024  # the least `IOV_MAX` of the systems that we write packages on
_SETTLED = 512 << 20  # a disk takes that many bytes while the next are made


class DataFile:
    """A file descriptor, which stays its owner's; writes are complete or raise OSError.

    One thread at a time may write.
    """

    def __init__(self, descriptor: int, side: ThreadPoolExecutor) -> None:
        """Of an empty file; `side` is a thread for waiting on the disk."""
        self.descriptor = descriptor
        self._side = side
        self._settling: Future[None] | None = None
        self._new = 0

    def write_at(self, offset: int, data: Chunk) -> None:
        """Puts all of the data at its place."""
        self.put(offset, [memoryview(data)])

    def from_place(self, offset: int) -> Stretch:
        """What comes one after the other from there on."""
        return Stretch(self, offset)

    def put(self, offset: int, pieces: list[memoryview]) -> None:
        """Puts pieces at their place, one after the other; it takes the list apart."""
        first = 0
        while first < len(pieces):
            done = os.pwritev(self.descriptor, pieces[first : first + _PIECES], offset)
            offset += done
            self._new += done
            while first < len(pieces) and done >= len(pieces[first]):
                done -= len(pieces[first])
                first += 1
            if done:
                pieces[first] = pieces[first][done:]
        if self._new >= _SETTLED and (self._settling is None or self._settling.done()):
            self.settle()
            self._new = 0
            self._settling = self._side.submit(os.fdatasync, self.descriptor)

    def settle(self) -> None:
        """Raises what the disk has said of what was written some time ago, if it did."""
        if self._settling is not None:
            self._settling.result()


class Stretch:
    """Bytes of a file that follow each other.

    The system gets long pieces: it keeps in pages that lie together what came together, and whoever
    maps the package then misses fewer translations of addresses (4 % of a large model's time).
    Joining them in a buffer first took three times as long as the writing (pages of a large buffer
    are the system's, each time), and kept Python from other threads.
    """

    def __init__(self, file: DataFile, offset: int) -> None:
        self._file = file
        self._begin = offset
        self._end = offset
        self._waiting: list[memoryview] = []

    def write(self, data: Chunk) -> None:
        """Appends all of the data, which nobody may change until `close` has returned."""
        view = memoryview(data)
        while view:
            piece = view[: _TOGETHER - self._end % _TOGETHER]
            view = view[len(piece) :]
            self._waiting.append(piece)
            self._end += len(piece)
            if self._end % _TOGETHER == 0:
                self._flush()

    def close(self, last: Chunk) -> None:
        """Appends the last of the data, and hands all to the system."""
        self.write(last)
        self._flush()

    def _flush(self) -> None:
        waiting, begin = self._waiting, self._begin
        self._waiting, self._begin = [], self._end
        self._file.put(begin, waiting)


@contextmanager
def data_file(descriptor: int) -> Iterator[DataFile]:
    """The file of a descriptor that is open for writing; at the end all is on the disk.

    Raises:
        OSError: What the disk says, in the body or at its end.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="disk") as side:
        file = DataFile(descriptor, side)
        yield file
        file.settle()
        os.fsync(descriptor)
