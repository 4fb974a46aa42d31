"""Where a piece of the program comes from in the user's model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Model file and line, the ATen operator, and the source text of that line (may be empty)."""

    file: str
    line: int
    operator: str
    code: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.operator}" if self.file else self.operator


NO_ORIGIN = Origin("", 0, "")
