"""Rows of many requests, run together by threads with a session each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from aot_runtime.errors import AotError

from .encoder import Encoder
from .grouping import RunCost, companions

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOOKED_AT = 256
"""Rows that wait, of which those for a run are chosen: to look at all of them would cost more."""


class Full(Exception):
    """More rows wait than may."""


class _Request:
    """Rows of one caller, whose future gets their vectors when the last has run."""

    def __init__(self, count: int, width: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[NDArray[np.float32]] = self.loop.create_future()
        self.vectors = np.empty((count, width), np.float32)
        self.open = count
        self.failed = False

    def done(self, error: Exception | None) -> None:
        """Tell the caller; of an error the first time."""
        if not self.failed:
            self.failed = error is not None
            self.loop.call_soon_threadsafe(self._tell, error)

    def _tell(self, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self.vectors)
        else:
            self.future.set_exception(error)


class _Row:
    """One row that waits."""

    def __init__(self, request: _Request, position: int, tokens: Sequence[int]) -> None:
        self.request = request
        self.position = position
        self.tokens = tokens


class Batches:
    """A queue of rows before the sessions of one encoder.

    A session that is free takes the row that waits longest, and those of like lengths with it; it
    never waits for others. How unlike they may be depends on what runs of this model cost. A run of
    several rows that fails is done again row by row, so that only the one at fault hears of it.

    Args:
        encoder: The model; each thread has a session of its own.
        sessions: How many threads.
        most_waiting: Rows that may wait.
    """

    def __init__(self, encoder: Encoder, sessions: int, most_waiting: int) -> None:
        self.encoder = encoder
        self._most_waiting = most_waiting
        self._waiting: list[_Row] = []
        self._changed = threading.Condition()
        self._closed = False
        self._cost = RunCost()
        workers = [encoder, *(encoder.session() for _ in range(sessions - 1))]
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), daemon=True) for worker in workers
        ]
        for thread in self._threads:
            thread.start()

    async def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """The vector of each row. A caller that is cancelled takes its rows along.

        Raises:
            Full: Too many rows wait.
            AotError: The model refuses a row.
        """
        request = _Request(len(rows), self.encoder.width)
        with self._changed:
            if self._waiting and len(self._waiting) + len(rows) > self._most_waiting:
                raise Full
            self._waiting += [_Row(request, i, row) for i, row in enumerate(rows)]
            self._changed.notify(len(rows))
        try:
            return await request.future
        finally:
            if request.future.cancelled() or request.failed:
                with self._changed:
                    self._waiting = [r for r in self._waiting if r.request is not request]

    def close(self) -> None:
        """End the threads once nothing waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self, encoder: Encoder) -> None:
        while rows := self._take():
            self._run(encoder, rows)

    def _take(self) -> list[_Row]:
        """The rows of the next run; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return []
            seen = self._waiting[:LOOKED_AT]
            lengths = [len(row.tokens) for row in seen]
            chosen = companions(lengths, self.encoder.most_rows, self._cost.tokens)
            taken = [seen[i] for i in chosen]
            left = set(range(len(seen))) - set(chosen)
            self._waiting[:LOOKED_AT] = [seen[i] for i in sorted(left)]
            return taken

    def _run(self, encoder: Encoder, rows: list[_Row]) -> None:
        begun = time.perf_counter()
        try:
            vectors = encoder.run([row.tokens for row in rows])
        except AotError as error:
            if len(rows) == 1:
                self._end(rows[0], error)
            else:
                for row in rows:
                    self._run(encoder, [row])
            return
        tokens = len(rows) * max(len(row.tokens) for row in rows)
        self._cost.saw(tokens, time.perf_counter() - begun)
        for row, vector in zip(rows, vectors, strict=True):
            row.request.vectors[row.position] = vector
            self._end(row, None)

    def _end(self, row: _Row, error: AotError | None) -> None:
        request = row.request
        with self._changed:
            request.open -= 1
            last = request.open == 0
        if error is not None or last:
            request.done(error)
