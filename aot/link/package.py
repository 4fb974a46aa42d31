"""Writes a package: streamed, hashed on the way, and renamed into place when it is whole.

The plan and the manifest come first in the file but hold the hashes of what follows. A hash always
has 64 digits, so their sizes are known before their content: they are written last, over
placeholders of their own length, and so are documents that tell hashes. Data is read once and never
gathered, so packaging needs no second copy of the weights; what was read is hashed and written
while what follows is made.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aot_runtime.format.container import (
    FILES_GROUP,
    NO_HASH,
    VERSION,
    WEIGHT_GROUPS,
    WEIGHTS_PAD,
    EntryInfo,
    WeightsFile,
    encode_header,
    encode_weights_header,
    lay_out,
    rows_sha256,
)
from aot_runtime.format.manifest import (
    Digest,
    Manifest,
    digest_of,
    encode_manifest,
    rows_of,
    unknown_digest,
)
from aot_runtime.format.plan import KernelRef, Plan, Program, WeightProgram
from aot_runtime.format.plan_json import encode_plan

from aot.errors import InternalError, PackageWriteError
from aot.link.data_file import DataFile, data_file
from aot.link.entry import Entry, bytes_entry
from aot.link.plan_check import check_plan
from aot.link.write_data import write_entries

GROUPS = (
    "kernels/",
    "operators/",
    "provenance/",
    FILES_GROUP,
    "weights/",
    "packed/",
    "state/",
    "golden/",
)

_ADVICE = {
    errno.ENOSPC: "Free space on that disk, or choose another output path with -o.",
    errno.EDQUOT: "Free space within your quota, or choose another output path with -o.",
    errno.EFBIG: "The file system or `ulimit -f` limits file sizes; choose another place with -o.",
    errno.EACCES: "Choose a directory that you may write to with -o.",
    errno.EROFS: "The file system is read-only; choose another output path with -o.",
    errno.ENOENT: "Create the directory first, or choose another output path with -o.",
    errno.ENOTDIR: "A part of the path is a file; choose another output path with -o.",
    errno.EISDIR: "The output path is a directory; give a file name with -o.",
    errno.EINVAL: "Give a file name with -o.",
}


@dataclass(frozen=True)
class Document:
    """An entry whose text tells the hashes of other entries.

    Attributes:
        name: It begins with one of `GROUPS`.
        text: From the hashes of all entries but documents; as long whatever the hashes are.
    """

    name: str
    text: Callable[[Mapping[str, str]], bytes]


@dataclass(frozen=True)
class Written:
    """What was written: the plan with its hashes, the entries' places, and the file's size."""

    plan: Plan
    entries: tuple[EntryInfo, ...]
    nbytes: int


def write_package(
    path: Path,
    plan: Plan,
    entries: Sequence[Entry],
    weights_file: Path | None = None,
    documents: Sequence[Document] = (),
) -> Written:
    """Write the package, whole or not at all.

    Args:
        path: The file; an older one stays as it was until the new one is complete.
        plan: The plan; its hashes are filled in here.
        entries: Everything but the plan, the manifest, documents and pads, in any order.
        weights_file: Where the weights go, beside the package; None: into it. It is complete
            before the package is.
        documents: Entries with texts about the others.

    Returns:
        The plan as written, the layout of the package, and the size of all that was written.

    Raises:
        PackageWriteError: Disk full, no permission, no such directory, …
        InternalError: The plan is malformed, an entry is named twice or oddly, or its data has
            another length than its shape says.
    """
    digests = {entry.name: unknown_digest(entry.nbytes) for entry in entries}
    texts = _texts(documents, digests)
    ordered = sorted([*entries, *(bytes_entry(*text) for text in texts.items())], key=_rank)
    names = [entry.name for entry in ordered]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InternalError(f"entries are named twice: {', '.join(twice)}")
    draft = _with_hashes(plan, dict.fromkeys(names, NO_HASH))
    check_plan(draft, names)
    inside, weights, elsewhere = ordered, None, 0
    apart: tuple[EntryInfo, ...] = ()
    if weights_file is not None:
        inside = [e for e in ordered if not e.name.startswith(WEIGHT_GROUPS)]
        outside = [e for e in ordered if e.name.startswith(WEIGHT_GROUPS)]
        weights, apart, elsewhere = _write_weights(weights_file, outside, digests)
    unknown = {name: unknown_digest(len(text)) for name, text in texts.items()} | digests
    room = len(encode_plan(draft))
    unknown["plan"] = unknown_digest(room)
    described = [("plan", "uint8", (room,)), *_described(inside)]
    manifest = Manifest(
        VERSION,
        NO_HASH,
        NO_HASH,
        weights,
        rows_sha256(apart),
        (*rows_of(lay_out(described), unknown), *rows_of(apart, digests)),
    )
    described.insert(1, ("manifest", "uint8", (len(encode_manifest(manifest)),)))
    layout = lay_out(described)
    header = encode_header(layout, weights=weights, manifest_sha256=NO_HASH)
    with _replacing(path) as file:
        early = [e for e in inside if e.name not in texts]
        digests |= _write_data(file, len(header), layout, early)
        late_texts = _texts(documents, digests)
        digests |= {name: digest_of(memoryview(text)) for name, text in late_texts.items()}
        final = _with_hashes(plan, {name: digests[name].sha256 for name in names})
        late_texts["plan"] = encode_plan(final)
        digests["plan"] = digest_of(memoryview(late_texts["plan"]))
        plan_sha256 = digests["plan"].sha256
        manifest = replace(
            manifest,
            plan_sha256=plan_sha256,
            rows_sha256=rows_sha256(layout),
            rows=(*rows_of(layout, digests), *rows_of(apart, digests)),
        )
        late_texts["manifest"] = encode_manifest(manifest)
        _fill_in(file, layout, len(header), late_texts)
        manifest_sha256 = hashlib.sha256(late_texts["manifest"]).hexdigest()
        file.write_at(0, encode_header(layout, plan_sha256, weights, manifest_sha256))
    return Written(final, layout, len(header) + layout[-1].end + elsewhere)


def replace_header(path: Path, start: int, header: bytes) -> None:
    """Give a package another header, whole or not at all; its data is copied by the system.

    Args:
        path: The package.
        start: Where its data begins now.
        header: All that comes before the data from then on.

    Raises:
        PackageWriteError: Disk full, no permission, …
    """
    with path.open("rb") as old, _replacing(path) as file:
        os.fchmod(file.descriptor, stat.S_IMODE(os.fstat(old.fileno()).st_mode))
        file.write_at(0, header)
        os.lseek(file.descriptor, len(header), os.SEEK_SET)
        end = os.fstat(old.fileno()).st_size
        while start < end:
            start += os.sendfile(file.descriptor, old.fileno(), start, end - start)


def _texts(documents: Sequence[Document], digests: Mapping[str, Digest]) -> dict[str, bytes]:
    hashes = {name: digest.sha256 for name, digest in digests.items()}
    return {document.name: document.text(hashes) for document in documents}


def _fill_in(
    file: DataFile, layout: Sequence[EntryInfo], start: int, texts: Mapping[str, bytes]
) -> None:
    """Write texts over their placeholders.

    Raises:
        InternalError: A text is not as long as its placeholder.
    """
    for info in layout:
        if info.name not in texts:
            continue
        text = texts[info.name]
        if len(text) != info.nbytes:
            raise InternalError(f"{info.name} grew from {info.nbytes} to {len(text)} bytes")
        file.write_at(start + info.begin, text)


def _write_weights(
    path: Path, entries: Sequence[Entry], digests: dict[str, Digest]
) -> tuple[WeightsFile, tuple[EntryInfo, ...], int]:
    """Writes a file of weights; its name and hash, its layout, its size; the entries' digests."""
    layout = lay_out(_described(entries), WEIGHTS_PAD)
    header = encode_weights_header(layout)
    with _replacing(path) as file:
        made = _write_data(file, len(header), layout, entries)
        digests |= made
        text = "".join(f"{name} {digest.sha256}\n" for name, digest in sorted(made.items()))
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        file.write_at(0, encode_weights_header(layout, sha256))
    size = layout[-1].end if layout else 0
    return WeightsFile(path.name, sha256), layout, len(header) + size


def _described(entries: Sequence[Entry]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(e.name, e.dtype, tuple(e.shape)) for e in entries]


def _rank(entry: Entry) -> tuple[int, str]:
    for group, prefix in enumerate(GROUPS):
        if entry.name.startswith(prefix):
            return group, entry.name
    raise InternalError(f"entry {entry.name!r} is in none of the groups {', '.join(GROUPS)}")


def _with_hashes(plan: Plan, hashes: dict[str, str]) -> Plan:
    programs = tuple(_program_with_hashes(program, hashes) for program in plan.programs)
    return replace(plan, programs=programs, entries=tuple(hashes.items()))


def _program_with_hashes(program: Program, hashes: dict[str, str]) -> Program:
    return replace(
        program,
        libraries=tuple(
            replace(lib, sha256=hashes.get(lib.entry, "")) for lib in program.libraries
        ),
        operator_libraries=tuple(
            replace(lib, sha256=hashes.get(lib.entry, "")) for lib in program.operator_libraries
        ),
        kernels=tuple(_kernel_with_hash(kernel, hashes) for kernel in program.kernels),
        weights=_weights_with_hashes(program.weights, hashes),
    )


def _weights_with_hashes(
    weights: WeightProgram | None, hashes: dict[str, str]
) -> WeightProgram | None:
    if weights is None:
        return None
    routines = (replace(r, body=_program_with_hashes(r.body, hashes)) for r in weights.routines)
    return replace(weights, routines=tuple(routines))


def _kernel_with_hash(kernel: KernelRef, hashes: dict[str, str]) -> KernelRef:
    if kernel.code is None:
        return kernel
    return replace(kernel, code=replace(kernel.code, sha256=hashes.get(kernel.code.entry, "")))


def _write_data(
    file: DataFile, start: int, layout: Sequence[EntryInfo], entries: Iterable[Entry]
) -> dict[str, Digest]:
    """Writes entries that are there from the start on; the others' places become zeros."""
    places = {info.name: start + info.begin for info in layout}
    if layout:
        os.ftruncate(file.descriptor, start + layout[-1].end)
    return write_entries(file, [(places[entry.name], entry) for entry in entries])


def check_place(path: Path) -> None:
    """Say before anything is built what would be said after it: that no package can be put there.

    Raises:
        PackageWriteError: There is no such folder, it cannot be written to, or `path` is a folder
            or device.
    """
    with _refused(path):
        os.close(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY))
        _refuse_no_file(path)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """What the operating system refuses, as our error."""
    try:
        yield
    except OSError as error:
        raise PackageWriteError(
            f"cannot write the package: {error.strerror or error}",
            where=path,
            advice=_ADVICE.get(error.errno or 0, ""),
        ) from error


def _refuse_no_file(path: Path) -> None:
    """Folders, and what is no file either: a device or a pipe would be replaced by the package."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is a device, pipe or socket, which a file would replace")


@contextmanager
def _replacing(path: Path) -> Iterator[DataFile]:
    """A temporary file beside `path` that takes its name if, and only if, the body succeeds.

    Raises:
        PackageWriteError: The file cannot be written, or `path` is a folder.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    with _refused(path):
        _refuse_no_file(path)
        # Not tempfile: the package shall have the permissions that the user's umask gives.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666)
        complete = False
        try:
            try:
                with data_file(descriptor) as file:
                    yield file
            finally:
                os.close(descriptor)
            temporary.replace(path)
            complete = True
            _sync_directory(path.parent)
        finally:
            if not complete:
                temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the new name survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
