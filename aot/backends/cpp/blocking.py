"""Long sums are added in blocks, so that their rounding error is that of one block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aot.ir.nests import Axis
from aot.symbolic import is_int

_BLOCK = 64
_SHORT = 128


@dataclass(frozen=True)
class Blocking:
    """The reduction loop that is split into blocks of `size` iterations, each summed by itself."""

    axis: Axis
    size: int


def choose_blocking(loops: Sequence[Axis], vector: Axis | None, lanes: int) -> Blocking | None:
    """Which reduction loop to split; None when the sum is short anyway.

    `loops`: the reduction's loops, outermost first; `vector` is stepped by `lanes` at least.
    """
    inside = 1
    for axis in reversed(loops):
        trips = None
        if is_int(axis.extent):
            trips = int(axis.extent)
            if axis == vector:
                trips = -(-trips // lanes)
        if trips is None or inside * trips > _SHORT:
            return Blocking(axis, max(1, _BLOCK // inside))
        inside *= max(trips, 1)
    return None
