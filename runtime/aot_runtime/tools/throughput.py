"""`bench --sessions`: how many runs a second several sessions of one package do together."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from aot_runtime.tools.loaded import LoadedModel

ROUNDS = 9
ROUND_SECONDS = 0.3


@dataclass(frozen=True)
class Throughput:
    """Runs a second: medians of rounds that alternate between one session and all.

    Attributes:
        sessions: How many ran at the same time, each in a thread of its own.
        threads: What each of them could use for its kernels.
        alone: Runs a second of one, with nothing beside it.
        together: Runs a second of all.
    """

    sessions: int
    threads: int
    alone: float
    together: float

    @property
    def times_one(self) -> float:
        """What all do together, over what one does alone."""
        return self.together / self.alone


def measure_throughput(
    model: LoadedModel, inputs: Sequence[Any], sessions: int, threads: int, isa: str | None = None
) -> Throughput:
    """Run `sessions` sessions of a package, each with `threads` threads of its own.

    Args:
        model: The package; its own session is not used.
        inputs: One array for each input.
        sessions: How many run at the same time.
        threads: What each may use for its kernels.
        isa: Level to force; None takes the best.
    """
    own = [model.model.session(isa=isa, num_threads=threads) for _ in range(sessions)]
    models = [replace(model, model=session) for session in own]
    alone, together = [], []
    with ThreadPoolExecutor(sessions) as pool:
        for _ in range(ROUNDS + 1):  # the first warms up
            alone.append(_round(models[:1], inputs, pool))
            together.append(_round(models, inputs, pool))
    return Throughput(sessions, threads, median(alone[1:]), median(together[1:]))


def _round(models: Sequence[LoadedModel], inputs: Sequence[Any], pool: ThreadPoolExecutor) -> float:
    """Runs a second of these sessions, for `ROUND_SECONDS`."""
    for model in models:
        model.model.reset()  # here: what fails before the barrier leaves the others waiting there
    start = threading.Barrier(len(models))

    def work(model: LoadedModel) -> float:
        start.wait()
        begin = now = time.perf_counter()
        runs = 0
        while now - begin < ROUND_SECONDS:
            model.run(inputs)
            runs += 1
            now = time.perf_counter()
        return runs / (now - begin)

    return sum(pool.map(work, models))
