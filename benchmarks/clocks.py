"""Seconds that calls take, on the host and on a GPU, of two sides in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

ROUNDS = (3, 30)
"""Least and most calls, or batches of calls, of either side."""

MOST_BATCHED = 100
"""Calls of a batch."""

BATCH_SECONDS = 0.02
"""Of a batch between two events on a GPU: launches queue up, so their cost is hidden."""

REST = 0.01
"""Seconds after which idle threads of all libraries sleep."""

Call = Callable[[], Any]
Clock = Callable[[Call, int], float]
"""Seconds a call, of so many."""


def host_seconds(call: Call, count: int) -> float:
    """Seconds a call, of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def rested_seconds(call: Call, count: int) -> float:
    """As `host_seconds`, of a side with several threads: those of another one wait no more.

    Threads that have nothing to do spin for a while, on cores that the next call's threads need.
    """
    time.sleep(REST)
    call()
    return host_seconds(call, count)


def device_seconds(call: Call, count: int) -> float:
    """Seconds a call between events around `count` enqueued calls."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / count


def processor_seconds(call: Call, count: int) -> float:
    """Seconds a call that this process's processors worked: not while others had them."""
    start = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - start) / count


def in_turn(
    calls: Mapping[str, Call], clock: Clock, seconds: float, batch_seconds: float = 0.0
) -> dict[str, float]:
    """Median seconds of a call of each side, called in turn for about `seconds`.

    `batch_seconds`: calls that take less are timed so many together that they take about as long,
    which hides what a clock costs, and on a GPU what a launch does.
    """
    once = {who: clock(call, 1) for who, call in calls.items()}
    batch = {who: _batch(batch_seconds / max(s, 1e-6)) for who, s in once.items()}
    least, most = ROUNDS
    spent = sum(max(once[who], 1e-6) * batch[who] for who in calls)
    seen: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(min(max(int(seconds / spent), least), most)):
        for who, call in calls.items():
            seen[who].append(clock(call, batch[who]))
    return {who: statistics.median(found) for who, found in seen.items()}


def _batch(count: float) -> int:
    return max(1, min(MOST_BATCHED, int(count)))
