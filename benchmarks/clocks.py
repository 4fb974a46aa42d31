"""Seconds that calls take, on the host and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


def host_seconds(call: Callable[[], Any], count: int) -> float:
    """Seconds a call, of `count` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def device_seconds(call: Callable[[], Any], count: int) -> float:
    """Seconds a call between events around `count` enqueued calls."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(count):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / count
