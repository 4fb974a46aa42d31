"""Messages of the runtime in Python's `logging`: the logger "aot_runtime".

As libraries should be, it is silent until the program asks:

>>> logging.basicConfig(level=logging.DEBUG)
>>> logging.getLogger("aot_runtime").setLevel(logging.INFO)

Messages of a call appear when it returns, in the thread that made it.
"""

from __future__ import annotations

import logging

from . import _native

LOGGER = logging.getLogger("aot_runtime")
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING)
"""Python's levels by those of `aot_log_level`."""


def emit(level: int, message: str) -> None:
    """Logs a message of the library; an unknown level is a warning."""
    LOGGER.log(LEVELS[level] if level < len(LEVELS) else logging.WARNING, "%s", message)


def connect() -> None:
    """Sends the library's messages to the logger from now on."""
    LOGGER.addHandler(logging.NullHandler())
    _native.set_log_sink(emit)
