"""Sizes and times with the units that suit them."""

from __future__ import annotations


def format_bytes(count: float) -> str:
    """`count` with a decimal unit and three digits: "1.84 MB".

    Raises:
        AssertionError: Never, as the last unit always returns.
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError("unreachable: the last unit always returns")


def format_seconds(seconds: float) -> str:
    """A time with the unit that suits it: "12.3 µs"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"
