"""`aot-package`, which tells in one line what is missing where not all of it is installed."""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import NoReturn

from aot import garbage
from aot.torch_library import load_ahead
from aot.version import COMPILER

NEEDED = ("click", "jinja2", "ml_dtypes", "rich", "safetensors", "sympy", "torch")
"""Packages of others that the compiler imports."""

TOOLCHAIN = 4
"""The exit code that docs/errors.md gives a machine that lacks something."""

INTERRUPTED = 130
"""And that of an interrupt."""


def program() -> NoReturn:
    """The `aot-package` program, as a process of its own: see `_leave`."""
    status = [1]  # of what ends with an exception
    atexit.register(_leave, status)  # the first to be registered is the last to be called
    with garbage.kept_for_good():
        load_ahead(sys.argv[1:])
    try:
        main()
    except SystemExit as end:
        status[0] = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def _leave(status: list[int]) -> None:
    """Ends the process without taking its objects apart, when all else that is to end has.

    That takes a third of a second with torch, and triton reports then what it has not freed.
    """
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        status[0] = 120  # as Python's own end says it
    os._exit(status[0])


def main() -> NoReturn:
    """The command line."""
    if sys.argv[1:] == ["--version"]:
        print(f"{COMPILER.replace(' ', ', version ')}")
        sys.exit(0)
    try:
        with garbage.kept_for_good():
            kept_code = importlib.import_module("aot.kept_code")
            with kept_code.methods_kept("command"):
                cli = importlib.import_module("aot.cli")
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
