"""Bytes that a fusion saves."""

from __future__ import annotations

from collections.abc import Callable, Collection

from aot.schedule.groups import Group


def saved_bytes(size: Callable[[str], int], a: Group, b: Group, needed: Collection[str]) -> int:
    """Traffic that disappears when two groups share a kernel.

    `size`: bytes of a buffer. `needed`: buffers that are read outside both, or are outputs. A
    buffer that flows from `a` to `b` saves its read, and its write too unless it is needed; one
    that both read saves one read.
    """
    saved = 0
    written = set(a.writes)
    shared = set(a.reads)
    for name in b.reads:
        if name in written:
            saved += size(name) if name in needed else 2 * size(name)
        elif name in shared:
            saved += size(name)
    return saved
