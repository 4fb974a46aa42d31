"""Keeps compiled kernels between builds: a file each, named by the hash of all it comes from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aot.backends.base import KernelSource
from aot.backends.kept import keep
from aot.backends.triton.toolchain import SHARED_LIMIT, Triton
from aot.backends.triton.workers import PROGRAM
from aot.ir.images import KernelImage

_NUMBERS = ("threads", "shared", "scratch", "scratch_alignment")


def source_key(source: KernelSource, arch: str, triton: Triton) -> str:
    """Equal keys mean equal machine code: a hash of source, options, architecture and compiler."""
    digest = hashlib.sha256()
    for part in (
        triton.key(),
        _program_digest(),
        arch,
        str(SHARED_LIMIT[arch]),
        source.name,
        source.text,
        json.dumps(source.signature),
        json.dumps(sorted(source.options)),
        str(source.faults),
        str(source.waits),
    ):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def _program_digest() -> str:
    return hashlib.sha256(PROGRAM.read_bytes()).hexdigest()


@dataclass(frozen=True)
class ImageCache:
    """Kernels by key in a folder; with folder None, nothing is ever found.

    A file is a line of JSON (the image's fields and its data's SHA-256), then the data.
    """

    folder: Path | None

    def get(self, key: str, source: KernelSource) -> KernelImage | None:
        """The kernel kept under the key; None where there is none, or a damaged one."""
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        head, _, data = path.read_bytes().partition(b"\n")
        try:
            fields = json.loads(head)
        except ValueError:
            return None
        if fields.get("sha256") != hashlib.sha256(data).hexdigest():
            return None
        numbers = {name: int(fields[name]) for name in _NUMBERS}
        return KernelImage(
            source.name,
            fields["symbol"],
            data,
            faults=source.faults,
            waits=source.waits,
            **numbers,
        )

    def put(self, key: str, image: KernelImage) -> None:
        """Keeps a kernel.

        Raises:
            ToolchainError: The file cannot be written.
        """
        path = self._path(key)
        if path is None:
            return
        fields: dict[str, object] = {name: getattr(image, name) for name in _NUMBERS}
        fields |= {"symbol": image.symbol, "sha256": hashlib.sha256(image.data).hexdigest()}
        keep(path, json.dumps(fields).encode() + b"\n" + image.data)

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / "triton" / key[:2] / f"{key}.kernel"
