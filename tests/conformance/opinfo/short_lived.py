"""A worker that dies and hangs, for the test of the pool; spawned processes import it by name."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

from tests.conformance.opinfo.outcome import OK, Outcome


def dies_on_two_and_hangs_on_three(pipe: Connection, executor: str) -> None:
    """Answers cases 0, 1 and 4 of every task."""
    while True:
        task = pipe.recv()
        numbers = task.only or tuple(("op", "float32", n) for n in range(5))
        pipe.send(list(numbers))
        for op, dtype, number in numbers:
            if number == 2:
                os._exit(3)
            if number == 3:
                time.sleep(600)
            pipe.send(Outcome(op, dtype, number, OK))
        pipe.send(None)
