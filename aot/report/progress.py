"""Progress of a build: one live line on a terminal, one plain line a stage in a log."""

from __future__ import annotations

from types import TracebackType

from aot_runtime.tools.units import format_seconds
from rich.console import Console
from rich.status import Status

from aot.options import STAGES


class Progress:
    """An observer that shows the stages; a context manager that clears the live line at the end.

    Args:
        console: Where to; a terminal gets a live line, anything else plain lines.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("starting", console=console) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def stage_begin(self, name: str) -> None:
        """Show the stage's name and number."""
        if self._status is not None:
            self._status.update(f"{_counter(name)} {name}")

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Print the stage with its time."""
        line = f"{_counter(name)} {name:<12} {format_seconds(seconds)}"
        self._console.print(line, markup=False, highlight=False)

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Show the pass and its program beside the stage."""
        if self._status is not None:
            self._status.update(f"{_counter('passes')} passes: {name}, {target}")


def _counter(name: str) -> str:
    number = STAGES.index(name) + 1 if name in STAGES else len(STAGES)
    return f"[{number:2}/{len(STAGES)}]"
