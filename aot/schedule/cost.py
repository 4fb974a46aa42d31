"""Bytes that a fusion saves."""

from __future__ import annotations

from collections.abc import Mapping

from aot.ir.hints import Hints
from aot.ir.nests import Buffer
from aot.ir.work import buffer_bytes
from aot.schedule.groups import Group


def saved_bytes(
    hints: Hints, buffers: Mapping[str, Buffer], a: Group, b: Group, needed: frozenset[str]
) -> int:
    """Traffic that disappears when two groups share a kernel.

    `needed`: buffers that are read outside both, or are outputs. A buffer that flows from `a` to
    `b` saves its read, and its write too unless it is needed; one that both read saves one read.
    """
    saved = 0
    written = set(a.writes)
    shared = set(a.reads)
    for name in b.reads:
        size = hints.value(buffer_bytes(buffers[name]))
        if name in written:
            saved += size if name in needed else 2 * size
        elif name in shared:
            saved += size
    return saved
