"""Observers of the compiler's stages: they look, time and write; no pass ever prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aot.report.model import StageTime


class Observer(Protocol):
    """Is told of every stage. Values are immutable; an observer changes nothing."""

    def stage_begin(self, name: str) -> None:
        """The stage `name` (one of `options.STAGES`) begins."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """The stage ended with this value after this many seconds of wall time."""


@dataclass(frozen=True)
class Silent:
    """Looks at nothing."""

    def stage_begin(self, name: str) -> None:
        """Nothing."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Several:
    """Passes every event on to each of several observers, in order."""

    observers: Sequence[Observer]

    def stage_begin(self, name: str) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.stage_begin(name)

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.stage_end(name, value, seconds)


@dataclass
class Keep:
    """Keeps what each stage gave and how long it took."""

    values: dict[str, object] = field(default_factory=dict)
    timings: list[StageTime] = field(default_factory=list)

    def stage_begin(self, name: str) -> None:
        """Nothing."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Keep both."""
        self.values[name] = value
        self.timings.append(StageTime(name, seconds))


@dataclass
class Dump:
    """Writes each stage's value as text to `<folder>/<number>_<stage>.<suffix>`.

    Attributes:
        folder: Created when missing; files of the same names are replaced.
        to_text: The printer: file contents by suffix ("txt", "cc", …); empty for a value that has
            no text form.
        count: Stages seen so far, the number in the file names.
    """

    folder: Path
    to_text: Callable[[object], dict[str, str]]
    count: int = 0

    def stage_begin(self, name: str) -> None:
        """Count it, so that a stage that fails still has its number."""
        self.count += 1

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Write the files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for suffix, text in self.to_text(value).items():
            path = self.folder / f"{self.count:02}_{name}.{suffix}"
            path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Verify:
    """Checks the invariants of each stage's value.

    Attributes:
        check: Raises when the value breaks one.
    """

    check: Callable[[object], None]

    def stage_begin(self, name: str) -> None:
        """Nothing."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Check it."""
        self.check(value)
