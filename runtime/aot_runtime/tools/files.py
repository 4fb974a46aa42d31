"""Files that reports write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aot_runtime.format.errors import PackageWriteError


@contextmanager
def writing(what: str, path: Path, option: str) -> Iterator[None]:
    """A block that writes a file or folder.

    Args:
        what: What is written, as a message names it.
        path: The file.
        option: The option that chose it.

    Raises:
        PackageWriteError: The operating system refuses.
    """
    try:
        yield
    except OSError as error:
        raise PackageWriteError(
            f"{what} cannot be written: {error.strerror or error}",
            where=error.filename or path,
            advice=f"Choose another path with {option}.",
        ) from error
