"""Where a piece of the program comes from in the user's model."""

from __future__ import annotations

from aot.errors import Origin

NO_ORIGIN = Origin()

__all__ = ["NO_ORIGIN", "Origin"]
