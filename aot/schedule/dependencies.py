"""Dependencies between kernels: who reads whose results, and in what order they must run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Who touches what. Positions are those of the operations in the sequence analysed.

    `readers`: of each buffer. `producers`: per operation, those it must follow (data, and the order
    of writes to one buffer).
    """

    readers: dict[str, tuple[int, ...]]
    producers: tuple[frozenset[int], ...]


def analyse(touched: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]) -> Usage:
    """Usage of a sequence of (buffers read, buffers written), in execution order."""
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    producers: list[frozenset[int]] = []
    for position, (read, written) in enumerate(touched):
        needs: set[int] = set()
        for name in (*read, *written):
            needs.update(writers.get(name, ()))
        for name in written:  # a second writer (scatter) also follows the readers so far
            needs.update(readers.get(name, ()))
        for name in read:
            readers.setdefault(name, []).append(position)
        for name in written:
            writers.setdefault(name, []).append(position)
        producers.append(frozenset(needs - {position}))
    return Usage({name: tuple(found) for name, found in readers.items()}, tuple(producers))
