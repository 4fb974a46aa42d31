"""Which rows run together: those of like lengths, since what pads a short row is computed too."""

from __future__ import annotations

import threading
from collections.abc import Sequence

RUN_TOKENS = 32
"""What a run costs besides its tokens, in tokens: padding up to that is cheaper than another run.
A guess, until runs have been seen (`RunCost`); it only decides speed."""

MOST_RUN_TOKENS = 512
SEEN_RUNS = 32
KEPT = 0.995
SPREAD = 0.05


class RunCost:
    """What a run costs besides its tokens, learned from the times of runs.

    A run of n tokens, padding included, takes about `a + b n`; `a / b` is the padding that costs as
    much as another run. The least squares are of `time / n` over `1 / n`, so that errors are of the
    time's size, and old runs fade. A machine that is slower as a whole gives the same quotient.

    Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        # Faded sums over the runs: 1, x, y, x x, x y with x = 1 / n and y = time / n.
        self._sums = [0.0] * 5
        self._tokens = float(RUN_TOKENS)

    def saw(self, tokens: int, seconds: float) -> None:
        """A run of so many tokens took so long."""
        x, y = 1 / tokens, seconds / tokens
        with self._lock:
            self._runs += 1
            new = (1.0, x, y, x * x, x * y)
            self._sums = [KEPT * old + at for old, at in zip(self._sums, new, strict=True)]
            count, sx, sy, sxx, sxy = self._sums
            variance = sxx / count - (sx / count) ** 2
            # Runs of one size tell nothing, and leave what is known.
            if self._runs < SEEN_RUNS or variance < SPREAD * (sx / count) ** 2:
                return
            a = (sxy / count - sx * sy / count**2) / variance
            b = (sy - a * sx) / count
            self._tokens = min(max(a / b, 0.0), MOST_RUN_TOKENS) if b > 0 else MOST_RUN_TOKENS

    @property
    def tokens(self) -> int:
        """Of padding, that cost as much as a run."""
        return round(self._tokens)


def groups(lengths: Sequence[int], most: int, spare: int = RUN_TOKENS) -> list[list[int]]:
    """Positions of the rows of each run, the longest rows first.

    Args:
        lengths: Of the rows, in tokens.
        most: Rows of one run.
        spare: Tokens of padding that one run may have.
    """
    made: list[list[int]] = []
    longest = padding = 0
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        padding += longest - lengths[position]
        if not made or len(made[-1]) == most or padding > spare:
            made.append([])
            longest, padding = lengths[position], 0
        made[-1].append(position)
    return made


def companions(lengths: Sequence[int], most: int, spare: int = RUN_TOKENS) -> list[int]:
    """Positions of the rows that run with the first one, which goes first, in order.

    Args:
        lengths: Of the rows that wait, in the order in which they came.
        most: Rows of one run.
        spare: As for `groups`.
    """
    first = lengths[0]
    longest, chosen = first, [0]
    nearest = sorted(range(1, len(lengths)), key=lambda i: abs(lengths[i] - first))
    total = first
    for position in nearest:
        if len(chosen) == most:
            break
        length = lengths[position]
        reached = max(longest, length)
        if reached * (len(chosen) + 1) - total - length > spare:
            break
        chosen.append(position)
        longest, total = reached, total + length
    return sorted(chosen)
