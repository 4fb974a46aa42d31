"""`aot-package`, which tells in one line what is missing where not all of it is installed."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

from aot.version import COMPILER

NEEDED = ("click", "jinja2", "ml_dtypes", "rich", "safetensors", "sympy", "torch")
"""Packages of others that the compiler imports."""

TOOLCHAIN = 4
"""The exit code that docs/errors.md gives a machine that lacks something."""


def main() -> NoReturn:
    """The `aot-package` program."""
    if sys.argv[1:] == ["--version"]:
        print(f"{COMPILER.replace(' ', ', version ')}")
        sys.exit(0)
    try:
        cli = importlib.import_module("aot.cli")
        sys.exit(cli.main())
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
    main()
