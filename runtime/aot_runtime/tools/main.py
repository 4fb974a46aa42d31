"""`aot-runtime`: the commands about packages, where the compiler is not installed.

Exit codes: 0 done, 1 verification failed, 2 wrong usage, 3 the inputs, 4 the machine lacks
something, 5 a package or file, 70 our own bug, 130 interrupted. Errors go to stderr.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import NoReturn

import aot_runtime
from aot_runtime.tools.failures import end_by_interrupt, exit_code
from aot_runtime.version import VERSION

PROGRAM = "aot-runtime"


def prefix() -> Path:
    """Where the C and C++ interface is installed: include/, lib/, lib/cmake/, lib/pkgconfig/.

    For `CMAKE_PREFIX_PATH`; in a checkout that was not installed, the loader's own folder.
    """
    folders = [Path(folder) for folder in aot_runtime.__path__]
    return next((f for f in folders if (f / "include" / "aot" / "aot.hpp").exists()), folders[0])


def main() -> NoReturn:
    """The `aot-runtime` program."""
    end_by_interrupt()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"{PROGRAM}, version {VERSION}")
        sys.exit(0)
    if arguments == ["--prefix"]:
        print(prefix())
        sys.exit(0)
    # They bring NumPy along, a tenth of a second, which the answers above need not wait for.
    commands = importlib.import_module("aot_runtime.tools.commands")
    if not arguments or arguments[0] in {"-h", "--help"}:
        print(help_text())
        sys.exit(0)
    sys.exit(exit_code(arguments, lambda: commands.run_command(arguments, PROGRAM)))


def help_text() -> str:
    """What `aot-runtime --help` prints."""
    commands = importlib.import_module("aot_runtime.tools.commands").COMMANDS
    rows = [f"  {name:<9} {short}" for name, (short, _) in commands.items()]
    return "\n".join(
        (
            f"usage: {PROGRAM} COMMAND PACKAGE [options]",
            "",
            *rows,
            "",
            f"  {PROGRAM} COMMAND --help   the options of a command",
            f"  {PROGRAM} --version        the runtime's version",
            f"  {PROGRAM} --prefix         where its C and C++ interface is, for CMAKE_PREFIX_PATH",
        )
    )
