"""The CPU levels: their registers, and what schedules for them count on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Level:
    """An instruction set that kernels are compiled for.

    Attributes:
        name: As `--target cpu:NAME` has it.
        register_bytes: Of its widest vectors.
        lanes: Elements of 4 bytes that schedules count on. Levels that differ in it get programs
            of their own.

    All levels count on the widest one's lanes: one schedule serves them. With 8 at x86-64-v3,
    resizing of bytes with channels last takes 0.6 of the time, bicubic resizing of channels last
    twice as long, the geomean of 13 workloads that change is 1.06: other thresholds were found
    with 16.
    """

    name: str
    register_bytes: int
    lanes: int = 16


LEVELS = (Level("x86-64-v2", 16), Level("x86-64-v3", 32), Level("x86-64-v4", 64))
"""The narrowest first."""
