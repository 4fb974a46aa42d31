"""Reads a package as data, for `inspect` and tests. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from aot_runtime.format.container import (
    OLD_VERSION,
    WEIGHT_GROUPS,
    WEIGHTS_METADATA,
    EntryInfo,
    Header,
    WeightsFile,
    decode_header,
    encode_header,
    encode_weights_header,
    rows_sha256,
)
from aot_runtime.format.errors import CorruptPackage, PackageReadError
from aot_runtime.format.manifest import Manifest, decode_manifest
from aot_runtime.format.plan import Plan
from aot_runtime.format.plan_json import decode_plan


class PackageFile:
    """An open package; a context manager that unmaps the file at the end.

    Args:
        path: The file.

    Attributes:
        path: The file.
        nbytes: Its size, with that of its file of weights if it has one.
        entries: Name to place, in file order, pads included.
        plan: The execution plan.
        manifest: The digests of all entries; None in packages of format 1.0.
        header: What the package's header says.

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
            self.header = header
            self._places = {
                e.name: (self._files[0], header.start + e.begin) for e in header.entries
            }
            self.entries = {info.name: info for info in header.entries}
            if "plan" not in self.entries:
                raise CorruptPackage("the package has no entry named plan")
            if header.plan_sha256 and self.sha256("plan") != header.plan_sha256:
                raise CorruptPackage("the plan is not as it was written", where="entry plan")
            self.manifest = self._read_manifest()
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

    def _read_manifest(self) -> Manifest | None:
        """The manifest, which is what the header says, and says what the header must be.

        Raises:
            CorruptPackage: It is missing or damaged, or does not fit the header.
        """
        header = self.header
        if not header.manifest_sha256:
            if header.version != OLD_VERSION:
                raise CorruptPackage(f"a package of format {header.version} without a manifest")
            return None
        if "manifest" not in self.entries:
            raise CorruptPackage("the package has no entry named manifest")
        if self.sha256("manifest") != header.manifest_sha256:
            raise CorruptPackage("the manifest is not as it was written", where="entry manifest")
        manifest = decode_manifest(bytes(self.data("manifest")))
        wanted = encode_header(
            header.entries,
            header.plan_sha256,
            header.weights,
            header.manifest_sha256,
            header.signatures,
            header.version,
        )
        told = (manifest.version, manifest.plan_sha256, manifest.rows_sha256, manifest.weights)
        rows = rows_sha256(header.entries)
        if header.text != wanted or told != (
            *(header.version, header.plan_sha256, rows),
            header.weights,
        ):
            raise CorruptPackage("the header is not the one that its manifest describes")
        return manifest

    def _add_weights(self, path: Path, expected: WeightsFile) -> None:
        """The entries of the file of weights beside the package.

        Raises:
            CorruptPackage: It is damaged, or of another package.
        """
        self._files.append(_mapped(path, "the weights that the package keeps in a file beside it"))
        try:
            header = decode_header(self._files[-1], WEIGHTS_METADATA)
        except CorruptPackage as error:
            error.where = path.name + (f", {error.where}" if error.where else "")
            raise
        if header.weights is None or header.weights.sha256 != expected.sha256:
            raise CorruptPackage("these are the weights of another package", where=path.name)
        if self.manifest is not None:
            wanted = encode_weights_header(header.entries, expected.sha256, self.manifest.version)
            rows = rows_sha256(header.entries)
            if header.text != wanted or rows != self.manifest.weights_rows_sha256:
                raise CorruptPackage(
                    "the header is not the one that the manifest describes", where=path.name
                )
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

    def damaged(self, *, weights: bool = True) -> Iterator[EntryInfo]:
        """Entries whose bytes are not those that were written (reads the whole file).

        Args:
            weights: Look at the weights too.
        """
        expected = {name: sha256 for name, sha256 in self.plan.entries if name in self.entries}
        if self.manifest is not None:
            self._compare_rows(self.manifest)
            expected |= {name: digest.sha256 for name, digest in self.manifest.digests().items()}
        if not weights:
            expected = {n: sha for n, sha in expected.items() if not n.startswith(WEIGHT_GROUPS)}
        with ThreadPoolExecutor() as pool:  # hashing lets other threads run
            found = pool.map(self.sha256, expected)
            for name, sha256 in zip(expected, found, strict=True):
                if sha256 != expected[name]:
                    yield self.entries[name]
        for name, info in self.entries.items():
            if name.startswith("pad/") and any(self.data(name)):
                yield info

    def _compare_rows(self, manifest: Manifest) -> None:
        """The manifest's rows are those of the headers, all of them.

        Raises:
            CorruptPackage: They are not.
        """
        said = {row.name: (row.dtype, row.shape) for row in manifest.rows}
        here = {
            name: (info.dtype, info.shape)
            for name, info in self.entries.items()
            if name != "manifest" and not name.startswith("pad/")
        }
        if said != here:
            raise CorruptPackage("the manifest has other entries than the header")

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


def _mapped(path: Path, what: str = "the package") -> memoryview:
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError as error:
        raise CorruptPackage("the file is empty", where=path) from error
    except OSError as error:
        raise PackageReadError(
            f"cannot read {what}: {error.strerror or error}", where=path
        ) from error
