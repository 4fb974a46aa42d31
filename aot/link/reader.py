"""Reads a package as data, for `inspect` and tests. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from aot.errors import CorruptPackage, PackageReadError
from aot.link.container import EntryInfo, decode_header
from aot.link.plan import Plan
from aot.link.plan_json import decode_plan


class PackageFile:
    """An open package; a context manager that unmaps the file at the end.

    Args:
        path: The file.

    Attributes:
        path: The file.
        nbytes: Its size.
        entries: Name to place, in file order, pads included.
        plan: The execution plan.

    Raises:
        PackageReadError: The file is missing or may not be read.
        CorruptPackage: The file is damaged or no package.
        IncompatiblePackage: The file has a newer format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except ValueError as error:
            raise CorruptPackage("the file is empty", where=path) from error
        except OSError as error:
            raise PackageReadError(
                f"cannot read the package: {error.strerror or error}", where=path
            ) from error
        self.nbytes = len(self._data)
        try:
            header = decode_header(self._data)
            self._start = header.start
            self.entries = {info.name: info for info in header.entries}
            if "plan" not in self.entries:
                raise CorruptPackage("the package has no entry named plan")
            if header.plan_sha256 and self.sha256("plan") != header.plan_sha256:
                raise CorruptPackage("the plan is not as it was written", where="entry plan")
            self.plan: Plan = decode_plan(self.data("plan"))
        except CorruptPackage as error:
            self.close()
            error.where = f"{path}" + (f", {error.where}" if error.where else "")
            raise

    def data(self, name: str) -> memoryview:
        """The bytes of an entry, without a copy; valid until `close`."""
        info = self.entries[name]
        return self._data[self._start + info.begin : self._start + info.end]

    def sha256(self, name: str) -> str:
        """The hash of an entry's bytes, in hex."""
        return hashlib.sha256(self.data(name)).hexdigest()

    def damaged(self) -> Iterator[EntryInfo]:
        """Entries whose bytes are not those that were written (reads the whole file)."""
        expected = dict(self.plan.entries)
        for name, info in self.entries.items():
            if name in expected and self.sha256(name) != expected[name]:
                yield info

    def close(self) -> None:
        """Let go of the file; it is unmapped when the last view that was handed out is gone."""
        self._data.release()

    def __enter__(self) -> PackageFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
