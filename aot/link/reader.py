"""Reads a package as data, for `inspect` and tests. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from aot.errors import CorruptPackage, PackageReadError
from aot.link.container import WEIGHTS_METADATA, EntryInfo, Header, WeightsFile, decode_header
from aot.link.plan import Plan
from aot.link.plan_json import decode_plan


class PackageFile:
    """An open package; a context manager that unmaps the file at the end.

    Args:
        path: The file.

    Attributes:
        path: The file.
        nbytes: Its size, with that of its file of weights if it has one.
        entries: Name to place, in file order, pads included.
        plan: The execution plan.

    Raises:
        PackageReadError: The file is missing or may not be read.
        CorruptPackage: The file is damaged or no package.
        IncompatiblePackage: The file has a newer format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = [_mapped(path)]
        try:
            header = decode_header(self._files[0])
            self._places = {
                e.name: (self._files[0], header.start + e.begin) for e in header.entries
            }
            self.entries = {info.name: info for info in header.entries}
            if "plan" not in self.entries:
                raise CorruptPackage("the package has no entry named plan")
            if header.plan_sha256 and self.sha256("plan") != header.plan_sha256:
                raise CorruptPackage("the plan is not as it was written", where="entry plan")
            if header.weights is not None:
                self._add_weights(path.with_name(header.weights.name), header.weights)
            self.plan: Plan = decode_plan(self.data("plan"))
        except CorruptPackage as error:
            self.close()
            error.where = f"{path}" + (f", {error.where}" if error.where else "")
            raise
        except PackageReadError:
            self.close()
            raise
        self.nbytes = sum(len(data) for data in self._files)

    def _add_weights(self, path: Path, expected: WeightsFile) -> None:
        """The entries of the file of weights beside the package."""
        self._files.append(_mapped(path))
        header = decode_header(self._files[-1], WEIGHTS_METADATA)
        if header.weights is None or header.weights.sha256 != expected.sha256:
            raise CorruptPackage("these are the weights of another package", where=path.name)
        self._add(self._files[-1], header)

    def _add(self, data: memoryview, header: Header) -> None:
        for info in header.entries:
            if info.name in self.entries:
                raise CorruptPackage(f"entry {info.name} is in both files")
            self.entries[info.name] = info
            self._places[info.name] = (data, header.start + info.begin)

    def data(self, name: str) -> memoryview:
        """The bytes of an entry, without a copy; valid until `close`."""
        data, begin = self._places[name]
        return data[begin : begin + self.entries[name].nbytes]

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
        """Let go of the files; they are unmapped when the last view handed out is gone."""
        for data in self._files:
            data.release()

    def __enter__(self) -> PackageFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _mapped(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError as error:
        raise CorruptPackage("the file is empty", where=path) from error
    except OSError as error:
        raise PackageReadError(
            f"cannot read the package: {error.strerror or error}", where=path
        ) from error
