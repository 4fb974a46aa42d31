"""The exponent of a growth: the slope of its logarithm over that of the size."""

from __future__ import annotations

import math
from collections.abc import Sequence

HALVING = 0.5
"""Weight of a size beside the next larger one."""


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The least-squares slope of log value over log size; None of fewer than two sizes.

    `points`: (size, value) by rising size. The largest sizes weigh most: what small ones cost
    besides (a launch, a call) is no growth.
    """
    if len(points) < 2:
        return None
    weights = [HALVING ** (len(points) - 1 - k) for k in range(len(points))]
    xs = [math.log(size) for size, _ in points]
    ys = [math.log(value) for _, value in points]
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, xs, strict=True)) / total
    mean_y = sum(w * y for w, y in zip(weights, ys, strict=True)) / total
    across = sum(w * (x - mean_x) * (y - mean_y) for w, x, y in zip(weights, xs, ys, strict=True))
    return across / sum(w * (x - mean_x) ** 2 for w, x in zip(weights, xs, strict=True))
