"""Observers of the compiler's stages: they look, time and write; no pass ever prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from aot_runtime.tools.files import writing

from aot.errors import InternalError
from aot.report.model import StageTime, as_file_name


class Observer(Protocol):
    """Is told of every stage and pass. Values are immutable; an observer changes nothing."""

    def stage_begin(self, name: str) -> None:
        """The stage `name` (one of `options.STAGES`) begins."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """The stage ended with this value after this many seconds of wall time."""

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """A pass of the stage that has begun gave this for the program of that target."""


@dataclass(frozen=True)
class Silent:
    """Looks at nothing."""

    def stage_begin(self, name: str) -> None:
        """Nothing."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Nothing."""

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
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

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Tell each."""
        for observer in self.observers:
            observer.pass_end(name, target, value, seconds)


@dataclass
class Keep:
    """Keeps what each stage gave, and how long it and its passes took."""

    values: dict[str, object] = field(default_factory=dict)
    timings: list[StageTime] = field(default_factory=list)
    passes: dict[str, float] = field(default_factory=dict)

    def stage_begin(self, name: str) -> None:
        """Nothing."""

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Keep both."""
        self.values[name] = value
        self.timings.append(StageTime(name, seconds, tuple(self.passes.items())))
        self.passes = {}

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Add the time to that of other programs."""
        self.passes[name] = self.passes.get(name, 0.0) + seconds


@dataclass
class Dump:
    """Writes each stage's value as text to `<folder>/<number>_<stage>.<suffix>`.

    What a pass of the stage gave is `<folder>/<number>_<stage>/<target>.<number>_<pass>.<suffix>`,
    or "(unchanged)".

    Attributes:
        folder: Created when missing; files of the same names are replaced.
        to_text: The printer: file contents by suffix ("txt", "cc", …); empty for a value that has
            no text form.
        count: Stages seen so far, the number in the file names.
        stage: The one that has begun.
        before: What the last one gave, as text.
        passes: Of each target, how many passes were seen and what the last one gave.
    """

    folder: Path
    to_text: Callable[[object], dict[str, str]]
    count: int = 0
    stage: str = ""
    before: dict[str, str] = field(default_factory=dict)
    passes: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)

    def stage_begin(self, name: str) -> None:
        """Count it, so that a stage that fails still has its number."""
        self.count += 1
        self.stage = f"{self.count:02}_{name}"
        self.passes = {}

    def stage_end(self, name: str, value: object, seconds: float) -> None:
        """Write the files."""
        self.before = self.to_text(value)
        self._write(self.folder, self.stage, self.before)

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Write the files of a pass."""
        count, before = self.passes.get(target, (0, self.before))
        texts = self.to_text(value)
        self.passes[target] = (count + 1, texts)
        file = f"{as_file_name(target)}.{count + 1:02}_{name}"
        same = {
            suffix: "(unchanged)\n" for suffix, text in texts.items() if text == before.get(suffix)
        }
        self._write(self.folder / self.stage, file, texts | same)

    @staticmethod
    def _write(folder: Path, name: str, texts: dict[str, str]) -> None:
        with writing("the stages", folder, "--dump"):
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, text in texts.items():
                (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8")


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
        self._check(value, f"after stage {name}")

    def pass_end(self, name: str, target: str, value: object, seconds: float) -> None:
        """Check it."""
        self._check(value, f"after pass {name} for {target}")

    def _check(self, value: object, when: str) -> None:
        try:
            self.check(value)
        except InternalError as error:
            what = f"{when}: {error.message}"
            raise InternalError(what, where=error.where or None, details=error.details) from error
