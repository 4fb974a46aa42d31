import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from aot_runtime.embeddings.batches import Batches, Full
from aot_runtime.errors import InvalidArgument


class Fake:
    """An encoder whose vector is the sum of the tokens; 13 is refused; it waits to be let go."""

    width = 1
    most_rows = 4

    def __init__(self) -> None:
        self.go = threading.Event()
        self.taken = threading.Event()
        self.runs: list[list[int]] = []

    def session(self) -> "Fake":
        return self

    def run(self, rows: Sequence[Sequence[int]]) -> Any:
        self.taken.set()
        assert self.go.wait(60)
        self.runs.append([len(row) for row in rows])
        if any(13 in row for row in rows):
            raise InvalidArgument("13")
        return np.array([[sum(row)] for row in rows], np.float32)


async def taken(fake: Fake) -> None:
    """Returns when the first rows run."""
    while not fake.taken.is_set():
        await asyncio.sleep(0.005)


def batches(fake: Fake, most_waiting: int = 100) -> Batches:
    return Batches(fake, 1, most_waiting)  # type: ignore[arg-type]


def test_requests_run_together_by_length() -> None:
    async def ask() -> list[Any]:
        made = batches(fake)
        rows = [[[1]], [[2] * 90, [3]], [[4] * 91], [[5], [6]]]
        asked = [asyncio.ensure_future(made.embed(r)) for r in rows]
        await taken(fake)
        fake.go.set()
        got = await asyncio.gather(*asked)
        made.close()
        return got

    fake = Fake()
    got = asyncio.run(ask())
    assert [g.ravel().tolist() for g in got] == [[1], [180, 3], [364], [5, 6]]
    # The first was alone when it was taken; then those of its length, then the long ones.
    assert sorted(map(sorted, fake.runs)) == [[1], [1, 1, 1], [90, 91]] or len(fake.runs) == 2


def test_only_the_one_at_fault_hears_of_it() -> None:
    async def ask() -> list[Any]:
        made = batches(fake)
        first = asyncio.ensure_future(made.embed([[1]]))
        await taken(fake)
        asked = [asyncio.ensure_future(made.embed([[n]])) for n in (2, 13, 3)]
        await asyncio.sleep(0.1)
        fake.go.set()
        got = await asyncio.gather(first, *asked, return_exceptions=True)
        made.close()
        return got

    fake = Fake()
    one, two, wrong, three = asyncio.run(ask())
    assert [x.item() for x in (one, two, three)] == [1, 2, 3]
    assert isinstance(wrong, InvalidArgument)


def test_more_than_may_wait_are_refused_and_the_cancelled_make_room() -> None:
    async def ask() -> None:
        made = batches(fake, most_waiting=2)
        first = asyncio.ensure_future(made.embed([[1]]))
        await taken(fake)
        waiting = asyncio.ensure_future(made.embed([[2], [3]]))
        await asyncio.sleep(0.05)
        with pytest.raises(Full):
            await made.embed([[4]])
        waiting.cancel()
        await asyncio.sleep(0.05)
        last = asyncio.ensure_future(made.embed([[5], [6]]))
        await asyncio.sleep(0.05)
        fake.go.set()
        assert (await first).item() == 1 and (await last).ravel().tolist() == [5, 6]
        made.close()

    fake = Fake()
    asyncio.run(ask())
    assert fake.runs == [[1], [1, 1]]
