"""Progress of a build in a notebook: one line in the cell, which the next one replaces."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from aot_runtime.tools.units import format_seconds

from aot.options import STAGES
from aot.report.observers import Observer, Silent


def notebook() -> Any | None:
    """IPython, where this process is a notebook's; it is not imported for that."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return ipython if hasattr(shell, "kernel") else None


def progress() -> Observer:
    """What shows a build in a notebook, and nothing elsewhere."""
    found = notebook()
    return Silent() if found is None else NotebookProgress(found.display)


class NotebookProgress:
    """An observer that keeps one line of a cell's output up to date.

    Args:
        display: The module `IPython.display`.
    """

    def __init__(self, display: Any) -> None:
        self._html = display.HTML
        self._place = display.display(self._html(""), display_id=True)
        self._seconds = 0.0

    def _show(self, text: str, done: int) -> None:
        bar = f'<progress value="{done}" max="{len(STAGES)}"></progress>'
        self._place.update(self._html(f"{bar} {escape(text)}"))

    def stage_begin(self, name: str) -> None:
        """Show the stage."""
        self._show(name, STAGES.index("lower" if name == "tune" else name))

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Count it; after the last, show how long all took."""
        self._seconds += seconds
        if name == STAGES[-1]:
            self._show(f"packaged in {format_seconds(self._seconds)}", len(STAGES))

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Show the pass and its program."""
        self._show(f"passes: {name}, {target}", STAGES.index("passes"))
