"""Keeps the code that Python compiles for dataclasses from one command to the next.

A dataclass writes its methods as text and has them compiled, every time its module is imported. Of
importing torch and the compiler, with more than a thousand of them, that was a sixth.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import marshal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType
from typing import Any
from unittest import mock

from aot import options
from aot.backends.kept import keep
from aot.errors import ToolchainError

Codes = dict[str, CodeType]


@contextmanager
def methods_kept(part: str) -> Iterator[None]:
    """Within, a text of a dataclass that an earlier command has compiled is not compiled again.

    A text compiles to the same code wherever it stands, so it alone is the key. Each `part` of a
    command has a file of what it needed last; a place that cannot be read or written keeps nothing.
    """
    cache = options.default_cache_dir(options.environment())
    place = cache / "python" / f"{sys.implementation.cache_tag}-{_MAGIC}.{part}"
    kept, used = _read(place), Codes()

    def run(text: str, names: dict[str, Any] | None = None, made: Any = None) -> None:
        code = kept.get(text) or compile(text, "<string>", "exec", dont_inherit=True)
        used[text] = code
        exec(code, names, made)

    # The module's own name comes before the builtin, of which it is the only use there.
    with mock.patch.object(dataclasses, "exec", run, create=True):
        yield
    if not kept.keys() >= used.keys():
        with suppress(ToolchainError):
            keep(place, marshal.dumps(used))


_MAGIC = importlib.util.MAGIC_NUMBER.hex()
"""What changes with the meaning of compiled code, as in the heads of Python's own files of it."""


def _read(place: Path) -> Mapping[str, CodeType]:
    try:
        found = marshal.loads(place.read_bytes())
    except (OSError, EOFError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
