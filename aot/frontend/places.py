"""Where things are in the user's code: from torch's stack traces and from exceptions."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from unittest.mock import patch

import torch
from torch.fx.experimental import symbolic_shapes

from aot.errors import AotError
from aot.ir.origin import Origin

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n {4}([^\n]*))?')
_NOT_THE_USERS = (
    str(Path(torch.__file__).parent),
    str(Path(__file__).parents[1]),
)
_STANDARD = sysconfig.get_path("stdlib")
_INSTALLED = ("site-packages", "dist-packages")
"""Folders below it in which packages lie that are not the interpreter's."""


@dataclass(frozen=True)
class SourcePaths:
    """Turns absolute file names into ones that do not depend on where the model lies.

    `root`: the model file's directory; files below it, or below an entry of `search`, are named
    relative to that. Packages of one model built in two directories are then identical.
    """

    root: Path | None = None
    search: tuple[str, ...] = ()

    def short(self, file: str) -> str:
        """`file` relative to the longest known directory above it, else as it is."""
        known = [*([str(self.root)] if self.root else []), *self.search]
        above = [d for d in known if d and file.startswith(d.rstrip("/") + "/")]
        return file[len(max(above, key=len).rstrip("/")) + 1 :] if above else file

    def origin(self, stack_trace: str | None, operator: str, module: str = "") -> Origin:
        """The innermost frame of torch's stack trace that is not torch's own.

        `module` describes the submodule, for calls that torch's own containers make.
        """
        found: tuple[str, int, str] | None = None
        for file, line, code in _FRAME.findall(stack_trace or ""):
            if is_users(file):
                found = (file, int(line), code.strip())
        if found is None:
            return Origin("", 0, operator, module)
        return Origin(self.short(found[0]), found[1], operator, found[2])


def places_of(root: Path | None) -> SourcePaths:
    """Places for a model in directory `root`, with the interpreter's own search path."""
    return SourcePaths(root, tuple(p for p in sys.path if p))


def is_users(file: str) -> bool:
    """True for a source file that is neither torch's, nor the interpreter's, nor ours."""
    if file.startswith(("<", *_NOT_THE_USERS)) or not Path(file).is_absolute():
        return False
    below = file[len(_STANDARD) + 1 :] if file.startswith(f"{_STANDARD}/") else ""
    return not below or below.startswith(_INSTALLED)


@contextmanager
def unseen() -> Iterator[None]:
    """Inside of it, torch takes none of our functions for the user's code that calls them.

    It looks for the instruction that asks something of a size: what an `assert` asks of a number
    that is known only when the model runs, it leaves to the run.
    """
    known, ours = symbolic_shapes.uninteresting_files, _our_files()
    with patch.object(symbolic_shapes, "uninteresting_files", lambda: known() | ours):
        yield


@cache
def _our_files() -> frozenset[str]:
    return frozenset(str(file) for file in Path(__file__).parent.glob("*.py"))


def place_of_error(error: BaseException, root: Path | None = None) -> str:
    """The innermost frame ("file:line") of the user's code that the error passed; "" if none.

    Frames below `root` are preferred: an error deep in a library is about the model's own line.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 0}"
    named = [(f, int(n)) for f, n, _ in _FRAME.findall(str(error))]
    walked = [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
    frames = [f for f in (*walked, *named) if is_users(f[0])]
    own = [f for f in frames if root is not None and Path(f[0]).is_relative_to(root)]
    chosen = (own or frames)[-1:]
    return "".join(f"{file}:{line}" for file, line in chosen)


class UserCode:
    """A block that runs the user's code, or torch on the user's behalf.

    Such code may raise anything at all; `convert` makes one of our errors of it, with the
    original as its cause. Our own errors pass unchanged.
    """

    def __init__(self, convert: Callable[[BaseException], AotError]) -> None:
        self._convert = convert

    def __enter__(self) -> UserCode:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, (Exception, SystemExit)) and not isinstance(error, AotError):
            raise self._convert(error) from error


def failure_of(call: Callable[[], object]) -> BaseException | None:
    """What a call of the user's code raises; None when it works."""
    failures: list[BaseException] = []

    def keep(error: BaseException) -> AotError:
        failures.append(error)
        return AotError(str(error))

    try:
        with UserCode(keep):
            call()
    except AotError:
        return failures[0] if failures else None
    return None


def first_lines(error: BaseException, drop: Iterable[str] = ()) -> str:
    """The error's type and message without the paragraphs that begin with one of `drop`."""
    kept: list[str] = []
    for line in str(error).strip().splitlines():
        if line.startswith(tuple(drop)):
            break
        kept.append(line.rstrip())
    text = "\n".join(kept).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
