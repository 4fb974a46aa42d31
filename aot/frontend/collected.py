"""torch's composite operators, read from its dispatcher once and not for each namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from unittest import mock

from torch._export import utils

_READ = "_materialize_cpp_cia_ops"
"""What makes Python's objects of all of the dispatcher's composite operators."""


@contextmanager
def collected_once() -> Iterator[None]:
    """Within, operators are only collected: none is declared between one namespace and the next.

    torch collects them by namespace, of which there are some thirty, and reads all of the
    dispatcher for each: a third of what a small model's decomposition takes.
    """
    read = getattr(utils, _READ, None)
    if read is None:  # of another version of torch, whose time is its own
        yield
        return
    with mock.patch.object(utils, _READ, cache(read)):
        yield
