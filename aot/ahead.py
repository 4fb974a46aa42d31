"""A process that is forked ahead of its work, and waits to be told of it.

What it imported is there, and what it shares with the process that it was forked of it has a copy
of: neither is waited for when the work comes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LENGTH = 8
_DESCRIPTORS = 8
"""Bytes that say how long a message is; the most descriptors that come with one."""

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14; older ones refuse it


@dataclass(frozen=True)
class Told:
    """What the fork is told: bytes, and descriptors of open files, which are its own."""

    data: bytes
    descriptors: tuple[int, ...]


@dataclass(frozen=True)
class Waiting:
    """The fork, as the process knows it that it was forked of."""

    process: int
    way: socket.socket

    def tell(self, data: bytes = b"", descriptors: Sequence[int] = ()) -> None:
        """Lets it begin; nothing can be told it later.

        Raises:
            OSError: It has ended.
        """
        with self.way:
            send(self.way, data, descriptors)


def fork_ahead() -> Waiting | Told:
    """Forks. In the fork this returns when it is told; it ends when its parent does before that."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process:
        theirs.close()
        return Waiting(process, ours)
    ours.close()
    # Interrupts are for who is at work.
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in _INTERRUPTS]
    told = None
    with suppress(OSError), theirs:
        _copy_what_is_shared()
        told = receive(theirs)
    if told is None:
        os._exit(0)
    for number, handler in before:
        signal.signal(number, handler)
    return told


_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


def send(way: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Sends a message. Raises OSError where nobody reads."""
    # With descriptors goes what is surely sent at once.
    socket.send_fds(way, [len(data).to_bytes(_LENGTH, "little")], list(descriptors))
    if data:  # else who reads has all, and may be done
        way.sendall(data)


def receive(way: socket.socket) -> Told | None:
    """The next message; None where the other side ends before one is whole. Raises OSError."""
    head, descriptors, _, _ = socket.recv_fds(way, _LENGTH, _DESCRIPTORS)
    length = _exactly(way, _LENGTH - len(head))
    if not head or length is None:
        return None
    data = _exactly(way, int.from_bytes(head + length, "little"))
    return None if data is None else Told(data, tuple(descriptors))


def _exactly(way: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        parts.append(way.recv(count))
        if not parts[-1]:
            return None
        count -= len(parts[-1])
    return b"".join(parts)


def _copy_what_is_shared() -> None:
    """Writes to each page that is here, so that the system copies it now and not at first use."""
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with suppress(OSError), Path("/proc/self/smaps").open(encoding="ascii") as maps:
        span = ""
        for line in maps:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):
                span = name if rest.startswith("rw-p") else ""
            elif span and name == "Rss:":
                begin, end = (int(at, 16) for at in span.split("-"))
                # Of a place that is mostly empty, that would make memory of what is not used.
                if int(rest.split()[0]) << 11 >= end - begin:
                    advise(begin, end - begin, _POPULATE_WRITE)
