"""Several takers of the same bytes, each in a thread of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

Take = Callable[[memoryview], None]

AHEAD_BYTES = 16 << 20
"""How much may be given that is not taken yet: what is kept in memory for it."""


class Takers:
    """Gives pieces to takers, to each in the order in which they come.

    Hashing and writing let other threads use Python meanwhile, so a piece is hashed, written and
    followed by the next at the same time.
    """

    def __init__(self, threads: list[ThreadPoolExecutor]) -> None:
        self._threads = threads
        self._given: deque[tuple[int, list[Future[None]]]] = deque()
        self._ahead = 0

    def give(self, piece: memoryview, *takes: tuple[int, Take]) -> None:
        """Hands a piece to takers (by number) and says to each what it is to do with it.

        Waits while too much is ahead.

        Raises:
            OSError: What a taker of an earlier piece has raised; any other error as well.
        """
        while self._given and self._ahead > max(AHEAD_BYTES - piece.nbytes, 0):
            self._settle_oldest()
        taken = [self._threads[number].submit(take, piece) for number, take in takes]
        self._given.append((piece.nbytes, taken))
        self._ahead += piece.nbytes

    def finish(self) -> None:
        """Waits until all is taken, pieces of no bytes too. Raises as `give`."""
        while self._given:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        nbytes, taken = self._given.popleft()
        for each in taken:
            each.result()
        self._ahead -= nbytes


@contextmanager
def takers(count: int) -> Iterator[Takers]:
    """So many takers. What is not taken at the end, after an error, is never taken."""
    threads = [ThreadPoolExecutor(1, thread_name_prefix="package") for _ in range(count)]
    try:
        yield Takers(threads)
    finally:
        for thread in threads:
            thread.shutdown(wait=True, cancel_futures=True)
