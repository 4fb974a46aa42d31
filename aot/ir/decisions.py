"""Choices of the compiler, recorded for `explain`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """One choice of the compiler: what was considered (`subject`), the verdict, and why."""

    stage: str
    subject: tuple[str, ...]
    verdict: str
    reason: str
