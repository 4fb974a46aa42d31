"""Which rows run together: those of like lengths, since what pads a short row is computed too."""

from __future__ import annotations

from collections.abc import Sequence

RUN_TOKENS = 32
"""What a run costs besides its tokens, in tokens: padding up to that is cheaper than another run.
Of a MiniLM on two cores; it only decides speed."""


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
