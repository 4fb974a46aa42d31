"""Kernel headers that g++ has read once: kept beside compiled kernels, one file for each ISA level.

Reading the headers, the compiler's own intrinsics above all, takes longer than compiling most
kernels. What comes out is the same with and without: nothing here may change a byte of a package,
and nothing here may make a build fail.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from aot.backends.cpp.toolchain import (
    Toolchain,
    find_toolchain,
    headers_digest,
    include_directories,
)
from aot.errors import ToolchainError

EVERY = "aot/kernel/every.h"
"""The header that includes all others."""

KEPT = 6
"""Files, of about 35 MB, that a cache holds: three levels before a change of headers and after."""


def start(compiler: str, archs: Sequence[str], cache: Path, jobs: int) -> list[Future[None]]:
    """Makes what is missing beside the caller, with one process fewer than `jobs`.

    Nobody need wait: who wants a file before it is there waits for that file.
    """
    pool = ThreadPoolExecutor(max(1, jobs - 1), "precompile")
    # The level whose kernels take longest is compiled first.
    begun = [pool.submit(_begin, compiler, arch, cache) for arch in reversed(archs)]
    pool.shutdown(wait=False)
    return begun


def _begin(compiler: str, arch: str, cache: Path) -> None:
    try:
        toolchain = find_toolchain(compiler)
    except ToolchainError:
        return  # told where kernels are compiled
    header_flags(toolchain, arch, cache)


def header_flags(toolchain: Toolchain, arch: str, cache: Path) -> tuple[str, ...]:
    """Flags, ahead of every other `-I`, by which a unit has all headers without reading them.

    Makes the file when it is missing, and waits while another build makes it. Empty when there can
    be none: the compiler precompiles in another way, or the cache cannot be written.
    """
    if not toolchain.precompiles:
        return ()
    folder = cache / "cpp" / "headers" / _key(toolchain, arch)
    made = folder / f"{EVERY}.gch"
    if not made.is_file():
        try:
            made.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder / "lock"):
                if not made.is_file():
                    _make(toolchain, arch, made)
                    _drop_oldest(folder.parent)
        except OSError:  # full, or only to be read: units read the headers themselves
            return ()
    # Should the file be dropped meanwhile, g++ finds the header itself in the folders that follow.
    return (f"-I{folder}", "-include", EVERY) if made.is_file() else ()


def _key(toolchain: Toolchain, arch: str) -> str:
    parts = (
        toolchain.key(),
        headers_digest(include_directories()),
        *toolchain.command,
        *toolchain.compile_flags(arch),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone among the threads and processes that ask for this file; the system ends it with them.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(toolchain: Toolchain, arch: str, made: Path) -> None:
    """Writes the file; others see it whole or not at all, and not when the compiler fails.

    Raises:
        OSError: It cannot be written.
    """
    folders = include_directories()
    source = next(d / EVERY for d in folders if (d / EVERY).is_file())
    includes = [f"-I{d}" for d in folders]
    with tempfile.TemporaryDirectory(prefix="making-", dir=made.parent) as name:
        target = Path(name) / made.name
        flags = [*toolchain.compile_flags(arch), *includes, "-x", "c++-header"]
        command = [*toolchain.command, *flags, str(source), "-o", str(target)]
        ran = subprocess.run(command, capture_output=True, check=False)
        if ran.returncode == 0:
            target.replace(made)


def _drop_oldest(folder: Path) -> None:
    """Leaves the `KEPT` files made last."""
    found = [(path.stat().st_mtime_ns, path) for path in folder.glob(f"*/{EVERY}.gch")]
    for _, path in sorted(found)[:-KEPT]:
        shutil.rmtree(folder / path.relative_to(folder).parts[0], ignore_errors=True)
