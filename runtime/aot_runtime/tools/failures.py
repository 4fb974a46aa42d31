"""What ends a command: errors, interrupts, and files of the user's that fail.

This is the one module that may catch everything.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from aot_runtime.format.errors import AotError, InternalError, UsageError

INTERRUPTED = 130


def exit_code(arguments: Sequence[str], work: Callable[[], int | None]) -> int:
    """Do the work of a command, and give its exit code; prints what went wrong, never raises.

    Args:
        arguments: The command's, which say how errors are told: --json, --debug.
        work: Raises, or gives its exit code; None is 0.
    """
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        return work() or 0
    except SystemExit as error:  # argparse has printed why
        return error.code if isinstance(error.code, int) else 0
    except KeyboardInterrupt:
        print("interrupted; nothing was changed", file=sys.stderr)
        return INTERRUPTED
    except AotError as error:
        return _fail(error, as_json, debug)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); that is its right.
        sys.stderr.close()
        return 0
    except Exception as error:  # the last resort: our bug, told as such
        wrapped = InternalError(f"{type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return _fail(wrapped, as_json, debug)


def _fail(error: AotError, as_json: bool, debug: bool) -> int:
    """Print the error and give the exit code."""
    if debug:
        traceback.print_exception(error)
    if as_json:
        print(json.dumps({"error": error.to_json()}, ensure_ascii=False))
    print(f"error[{error.code}]: {error}", file=sys.stderr)
    return error.exit_code


def end_by_interrupt() -> None:
    """Let SIGTERM be an interrupt, so that half-written files are removed."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """End the command.

    Raises:
        KeyboardInterrupt: Always.
    """
    raise KeyboardInterrupt


def register(file: Path) -> None:
    """Run a file of the user's, which registers custom operators.

    Raises:
        UsageError: It raises when it is run.
    """
    try:
        runpy.run_path(str(file))
    except Exception as error:
        raise UsageError(
            "the file that registers operators fails",
            where=file,
            details=f"{type(error).__name__}: {error}",
            advice="Let it call aot_runtime.register_operator: docs/custom-operators.md.",
        ) from error
