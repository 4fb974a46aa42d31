"""Keeps Python's search for circular garbage away from what lives as long as the process.

torch brings a million objects along. Searching them again and again while they are imported, and
once more at the end, took a quarter of the time of packaging a small model. The end itself stays as
Python has it: files that a model's module left open are closed, extensions take leave.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 100, 10)
"""New objects before a search, such searches before one of older objects, and of all."""


def search_seldom() -> None:
    """For a process that packages one model: tracing it makes objects by the hundred thousand."""
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def kept_for_good() -> Iterator[None]:
    """Nothing is searched for within, and what is there at the end never again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if enabled:
            gc.enable()
