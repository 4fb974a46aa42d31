"""Messages of the runtime in Python's `logging`: the logger "aot_runtime".

As libraries should be, it is silent until the program asks:

>>> logging.basicConfig(level=logging.DEBUG)
>>> logging.getLogger("aot_runtime").setLevel(logging.INFO)

Messages of a call appear when it returns, in the thread that made it.
"""

from __future__ import annotations

import sys

from . import _native

NAME = "aot_runtime"
LEVELS = (10, 20, 30)
"""Python's levels DEBUG, INFO and WARNING by those of `aot_log_level`."""


def emit(level: int, message: str) -> None:
    """Logs a message of the library; an unknown level is a warning."""
    logging = sys.modules.get("logging")  # a program that has not imported it does not listen
    if logging is None:
        return
    logger = logging.getLogger(NAME)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logger.log(LEVELS[min(level, len(LEVELS) - 1)], "%s", message)


def connect() -> None:
    """Sends the library's messages to the logger from now on."""
    _native.set_log_sink(emit)
