"""Packages a model again whenever a file that went into it changes: `aot-package MODEL --watch`.

Half of what packaging a small change takes is importing torch and the compiler. Here that is done
once, in a process that runs no code of the model's: each build is a fork of it, so none finds what
another has left. The fork tells what it has read; the next begins when one of these files changes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from aot.ahead import Told, Waiting, fork_ahead

INTERVAL = 0.02
"""Seconds between two looks at the files."""

State = tuple[int, int] | None
"""Of a file: when it was changed, in nanoseconds, and its bytes. None: there is none."""


def watch(build: Callable[[], int], given: Iterable[Path], own: Iterable[Path]) -> NoReturn:
    """Builds, and builds again after each change, until interrupted.

    Args:
        build: Makes the package and gives the exit code; it tells of what goes wrong itself.
        given: Files that go into the package besides those that the process opens and imports.
        own: Files and folders that a build writes, whose changes are none.

    Raises:
        KeyboardInterrupt: This is how it ends.
    """
    kept, written = [path.resolve() for path in given], [path.resolve() for path in own]
    build_next = _Next(build)
    while True:
        before = {str(path): state_of(str(path)) for path in kept}
        before |= {p: s for p, s in build_next.read().items() if not _is_below(p, written)}
        build_next = _Next(build)
        print(f"watching {len(before)} files; interrupt to end", file=sys.stderr, flush=True)
        print(f"changed: {first_change(before)}", file=sys.stderr, flush=True)


def first_change(before: Mapping[str, State]) -> str:
    """The first file that is not as it was; waits for one."""
    while True:
        for path, state in before.items():
            if state_of(path) != state:
                return path
        time.sleep(INTERVAL)


def state_of(path: str) -> State:
    """What tells of a change of the file."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_below(path: str, places: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(place) for place in places)


class _Next:
    """The next build, in a process that is forked before there is anything to build."""

    def __init__(self, build: Callable[[], int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._reading, writing = os.pipe()
        self._fork = fork_ahead()
        if isinstance(self._fork, Told):
            os.close(self._reading)
            _build_and_leave(build, writing)
        os.close(writing)

    def read(self) -> Mapping[str, State]:
        """Has it built: what was read, and how that was; whatever became of the build.

        Raises:
            KeyboardInterrupt: We are to end; the build is ended with us.
        """
        assert isinstance(self._fork, Waiting)
        process, text = self._fork.process, ""
        try:
            with suppress(OSError):  # it has ended, as if it had been built
                self._fork.tell()
            with os.fdopen(self._reading, encoding="utf-8") as told:
                text = told.read()
            os.waitpid(process, 0)
        except KeyboardInterrupt:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGINT)
            os.waitpid(process, 0)
            raise
        return {path: tuple(state) for path, state in json.loads(text or "{}").items()}


def _build_and_leave(build: Callable[[], int], told: int) -> NoReturn:
    """The other process: never returns to what the first was doing."""
    code = 1
    try:
        reads = Reads(frozenset(sys.modules))
        sys.addaudithook(reads.hear)
        code = build()
        with os.fdopen(told, "w", encoding="utf-8") as out:
            json.dump(reads.files(), out)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


@dataclass
class Reads:
    """The files that this process opens to read, and those of the modules that it imports.

    `known`: modules that were imported before. What is Python's own, or was installed beside it, is
    not told. `opened`: how each was when it was opened.
    """

    known: frozenset[str]
    opened: dict[str, State] = field(default_factory=dict)
    began: int = field(default_factory=time.time_ns)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit hook of Python's."""
        if event == "open" and isinstance(args[0], str | bytes) and not args[2] & _WRITES:
            path = os.fsdecode(args[0])
            self.opened.setdefault(path, state_of(path))

    def files(self) -> Mapping[str, State]:
        """Those that are there, by name, and how they were when they were read."""
        modules = [m for name, m in list(sys.modules.items()) if name not in self.known]
        read = {str(f): self._imported(str(f)) for m in modules if (f := getattr(m, "__file__", 0))}
        found = {Path(path).absolute(): state for path, state in (read | self.opened).items()}
        return {
            str(path): state
            for path, state in sorted(found.items())
            if path.is_file() and not str(path).startswith(_SYSTEM) and path.suffix != ".pyc"
        }

    def _imported(self, path: str) -> State:
        """That of a module's source, which Python need not open: as changed if that was lately."""
        state = state_of(path)
        return state if state is None or state[0] < self.began else (0, 0)


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

_SYSTEM = tuple(
    f"{place}{os.sep}"
    for place in (
        sys.base_prefix,
        sys.prefix,
        str(Path(__file__).resolve().parent),
        *("/proc", "/sys", "/dev", "/etc", "/usr"),
    )
)
"""Where changes are of another compiler or another machine, not of the model."""
