"""Kernel headers that g++ has read once: kept beside compiled kernels, one file for each ISA level.

Reading the headers, the compiler's own intrinsics above all, takes longer than compiling most
kernels. What comes out is the same with and without: nothing here may change a byte of a package,
and nothing here may make a build fail.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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

_MAKING = "making-"
"""How folders begin whose file is being made."""

_TRIES = 100
"""Times, 10 ms apart, that a folder is removed."""

KEPT = 6
"""Files, of about 35 MB, that a cache holds: three levels before a change of headers and after."""


def start(compiler: str, archs: Sequence[str], cache: Path, jobs: int) -> list[threading.Thread]:
    """Makes what is missing beside the caller, with one process fewer than `jobs`.

    Nobody need wait: who wants a file before it is there waits for that file, or does without. What
    is being made when the process ends is not made.
    """
    free = threading.Semaphore(max(1, jobs - 1))
    headers = headers_digest(include_directories())
    # The level whose kernels take longest is compiled first.
    begun = [
        threading.Thread(target=_begin, args=(free, compiler, arch, cache, headers), daemon=True)
        for arch in reversed(archs)
    ]
    for thread in begun:
        thread.start()
    return begun


def _begin(free: threading.Semaphore, compiler: str, arch: str, cache: Path, headers: str) -> None:
    with free:
        try:
            toolchain = find_toolchain(compiler)
        except ToolchainError:
            return  # told where kernels are compiled
        header_flags(toolchain, arch, cache, headers)


@contextmanager
def flags_at_hand(
    toolchain: Toolchain, arch: str, cache: Path, headers: str = ""
) -> Iterator[tuple[str, ...]]:
    """The flags of `header_flags` where the file is there, else none; nobody begins it within.

    For few units, which have read the headers themselves before the file is made.
    """
    headers = headers or headers_digest(include_directories())
    folder = _folder(toolchain, arch, cache, headers)
    if not toolchain.precompiles or _made(folder).is_file():
        yield header_flags(toolchain, arch, cache, headers)
        return
    with ExitStack() as held:
        with suppress(OSError):  # as in `header_flags`; one that is being made goes on
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(_locked(folder, wait=False))
        yield ()


def header_flags(
    toolchain: Toolchain, arch: str, cache: Path, headers: str = ""
) -> tuple[str, ...]:
    """Flags, ahead of every other `-I`, by which a unit has all headers without reading them.

    Makes the file when it is missing, and waits while another build makes it. Empty when there can
    be none: the compiler precompiles in another way, or the cache cannot be written.

    Args:
        toolchain: The compiler.
        arch: The level.
        cache: Where files are kept.
        headers: The digest of all headers, which takes longer than all else here: whoever asks
            for several levels finds it once. "": it is found here.
    """
    if not toolchain.precompiles:
        return ()
    folder = _folder(toolchain, arch, cache, headers or headers_digest(include_directories()))
    made = _made(folder)
    if not made.is_file():
        try:
            made.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder):
                if not made.is_file():
                    _make(toolchain, arch, made)
                    _drop_oldest(folder.parent)
        except OSError:  # full, or only to be read: units read the headers themselves
            return ()
    # Should the file be dropped meanwhile, g++ finds the header itself in the folders that follow.
    return (f"-I{folder}", "-include", EVERY) if made.is_file() else ()


def _folder(toolchain: Toolchain, arch: str, cache: Path, headers: str) -> Path:
    return cache / "cpp" / "headers" / _key(toolchain, arch, headers)


def _made(folder: Path) -> Path:
    return folder / f"{EVERY}.gch"


def _key(toolchain: Toolchain, arch: str, headers: str) -> str:
    parts = (
        toolchain.key(),
        headers,
        *toolchain.command,
        *toolchain.compile_flags(arch),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _locked(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Alone among the threads and processes that ask for this file; the system ends it with them.

    Raises:
        OSError: The lock cannot be written; without `wait`, another has it.
    """
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _make(toolchain: Toolchain, arch: str, made: Path) -> None:
    """Writes the file; others see it whole or not at all, and not when the compiler fails.

    Raises:
        OSError: It cannot be written.
    """
    folders = include_directories()
    source = next(d / EVERY for d in folders if (d / EVERY).is_file())
    includes = [f"-I{d}" for d in folders]
    for left in made.parent.glob(f"{_MAKING}*"):  # by a process that was killed: we are alone here
        shutil.rmtree(left, ignore_errors=True)
    with _UNTIL_EXIT.folder(made.parent) as folder:
        target = folder / made.name
        flags = [*toolchain.compile_flags(arch), *includes, "-x", "c++-header"]
        command = [*toolchain.command, *flags, str(source), "-o", str(target)]
        if _UNTIL_EXIT.run(command, folder) == 0:
            target.replace(made)


class _UntilExit:
    """Folders, and compilers that write there, which all go when this process ends.

    The threads of `start` do not keep the process. So what they begin is known here from the
    moment on that it exists, and once the process is ending they begin nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = False
        self._folders: dict[Path, subprocess.Popen[bytes] | None] = {}
        atexit.register(self._end)

    @contextmanager
    def folder(self, parent: Path) -> Iterator[Path]:
        """A new folder, until the block ends.

        Raises:
            OSError: It cannot be made.
        """
        with self._lock:
            self._go_on()
            made = Path(tempfile.mkdtemp(prefix=_MAKING, dir=parent))
            self._folders[made] = None
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
            with self._lock:
                self._folders.pop(made, None)

    def run(self, command: Sequence[str], folder: Path) -> int:
        """The exit status of a compiler that writes into a folder from here.

        Raises:
            OSError: It cannot be started.
        """
        unread = subprocess.DEVNULL
        with self._lock:
            self._go_on()
            compiler = subprocess.Popen(
                command, stdout=unread, stderr=unread, start_new_session=True
            )
            self._folders[folder] = compiler
        return compiler.wait()

    def _go_on(self) -> None:
        if self._ended:
            raise InterruptedError("the process is ending")

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            for folder, compiler in self._folders.items():
                if compiler is not None:
                    with suppress(ProcessLookupError):
                        os.killpg(compiler.pid, signal.SIGKILL)  # the driver has children
                    compiler.wait()
                _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder that compilers wrote into.

    The children of one that was killed may be in the system a moment longer, making a file.
    """
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.01)


_UNTIL_EXIT = _UntilExit()


def _drop_oldest(folder: Path) -> None:
    """Leaves the `KEPT` files made last."""
    found = [(path.stat().st_mtime_ns, path) for path in folder.glob(f"*/{EVERY}.gch")]
    for _, path in sorted(found)[:-KEPT]:
        shutil.rmtree(folder / path.relative_to(folder).parts[0], ignore_errors=True)
