"""`aot-package`, which tells in one line what is missing where only the runtime is installed."""

from __future__ import annotations

import importlib
import sys
from typing import NoReturn

from aot.version import COMPILER

NEEDED = {
    "click": "tools",
    "rich": "tools",
    "jinja2": "tools",
    "sympy": "tools",
    "ml_dtypes": "tools",
    "torch": "compile",
    "safetensors": "compile",
}
"""Packages of others -> the extra of this project that brings them."""

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
        extra = NEEDED.get(error.name or "")
        if extra is None:
            raise
        print(
            f"error[TOOLCHAIN_MISSING]: this command needs {error.name}, which is not installed\n"
            f"  what to do: pip install 'aot-package[compile]' to package models, "
            "'aot-package[tools]' to inspect, run, verify and time packages without torch.",
            file=sys.stderr,
        )
        sys.exit(TOOLCHAIN)


if __name__ == "__main__":
    main()
