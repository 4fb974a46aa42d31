"""Files that a package carries beside the model: a tokenizer, labels, a licence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from aot_runtime.format.container import FILES_GROUP, MAX_FILE_NAME_BYTES, file_name_fault

from aot.errors import UsageError
from aot.link.entry import Entry, bytes_entry


def file_entries(files: Sequence[tuple[str, Path]]) -> tuple[Entry, ...]:
    """The entries of these files, read now.

    Raises:
        UsageError: A name is no name of a file or is given twice, or a file cannot be read.
    """
    names = [name for name, _ in files]
    for name in names:
        fault = file_name_fault(name)
        if fault is not None:
            raise UsageError(
                f"a package cannot carry a file called {name!r}: {fault}",
                advice="Names are like tokenizer.json or pooling/config.json, of at most "
                f"{MAX_FILE_NAME_BYTES} bytes.",
            )
        if names.count(name) > 1:
            raise UsageError(f"two files are called {name}", advice="Give one another name.")
    return tuple(bytes_entry(FILES_GROUP + name, _read(name, path)) for name, path in files)


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the file for {name}: {error.strerror or error}",
            where=path,
            advice="Give --file NAME=PATH with the path of a file that may be read.",
        ) from error
