"""`aot-package`, which tells in one line what is missing where not all of it is installed."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from aot import garbage
from aot.options import environment
from aot.torch_library import load_ahead
from aot.version import COMPILER

if TYPE_CHECKING:
    from aot.resident import Stay

NEEDED = ("click", "jinja2", "ml_dtypes", "rich", "safetensors", "sympy", "torch")
"""Packages of others that the compiler imports."""

TOOLCHAIN = 4
"""The exit code that docs/errors.md gives a machine that lacks something."""

INTERRUPTED = 130  # and that of an interrupt


def program() -> NoReturn:
    """The `aot-package` program, as a process of its own: see `_End`."""
    end = _End()
    atexit.register(end.leave)  # the first to be registered is the last to be called
    stay = None
    if "AOT_STAY" in environment():  # imported here: few ask for it
        stay = importlib.import_module("aot.resident").begun(sys.argv[1:])
    with garbage.kept_for_good():
        load_ahead(sys.argv[1:])
    try:
        main(stay, end)
    except SystemExit as error:
        end.status = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise


@dataclass
class _End:
    """How the process ends. `tell`: gives its exit code to the command that it worked for."""

    status: int = 1  # of what ends with an exception
    tell: Callable[[int], None] | None = None

    def leave(self) -> None:
        """Ends the process without taking its objects apart, when all else that is to end has.

        That takes a third of a second with torch, and triton reports then what it has not freed.
        """
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except OSError:
            self.status = 120  # as Python's own end says it
        if self.tell:
            self.tell(self.status)
        os._exit(self.status)


def main(stay: Stay | None = None, end: _End | None = None) -> NoReturn:
    """The command line. `stay`: what is to be left behind when all is imported."""
    if sys.argv[1:] == ["--version"]:
        print(f"{COMPILER.replace(' ', ', version ')}")
        sys.exit(0)
    try:
        with garbage.kept_for_good():
            kept_code = importlib.import_module("aot.kept_code")
            with kept_code.methods_kept("command"):
                cli = importlib.import_module("aot.cli")
        if stay is not None and end is not None:
            with suppress(cli.ToolchainMissing):  # told where it is needed
                cli.torch_side()
            end.tell = stay.leave_behind()
        sys.exit(cli.main())
    except KeyboardInterrupt:  # while it is imported; later the command line tells it
        print("interrupted; nothing was changed", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        print(
            f"error[TOOLCHAIN_MISSING]: the compiler needs {error.name}, which is not installed\n"
            "  what to do: pip install aot-package, which brings it; to inspect, run, verify and "
            "time packages without it, there is `aot-runtime`.",
            file=sys.stderr,
        )
        sys.exit(TOOLCHAIN)


if __name__ == "__main__":
    program()
