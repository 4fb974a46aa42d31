"""Finds a C++ compiler and says how to call it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aot.errors import ToolchainMissing
from aot.options import compiler_paths

COMMON_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fdata-sections",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fno-ident",
    "-fno-stack-protector",
    "-w",
)
LINK_FLAGS = (
    "-shared",
    "-nostartfiles",
    "-nodefaultlibs",
    "-Wl,--build-id=none",
    "-Wl,-s",
    "-Wl,--gc-sections",
    "-Wl,-z,noexecstack",
    "-Wl,-z,defs",
    "-lm",
    "-lc",
)


CONTRACTS = ("dlpack.h", "kernel_abi.h", "operator_abi.h")
"""The runtime's headers that generated code may include."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler: the words of its command, what kind it is, and its version line.

    `family`: "gcc", "clang" or "zig".
    """

    command: tuple[str, ...]
    family: str
    version: str

    @property
    def precompiles(self) -> bool:
        """Whether headers are precompiled as g++ does it: a file for the header, used if valid."""
        return self.family == "gcc"

    @property
    def tells_symbols(self) -> bool:
        """Whether objects say what they call: those that the linker optimises do not."""
        return self.family == "gcc" and not any(w.startswith("-flto") for w in self.command)

    def arch_flags(self, arch: str) -> tuple[str, ...]:
        """Flags that choose an ISA level such as "x86-64-v3"."""
        if self.family == "zig":
            return ("-target", "x86_64-linux-gnu.2.17", f"-mcpu={arch.replace('-', '_', 2)}")
        return (f"-march={arch}", "-mtune=generic")

    def compile_flags(self, arch: str) -> tuple[str, ...]:
        """Flags for one translation unit."""
        if self.family == "gcc":
            # The headers force inlining everywhere; gcc's own budget would only warn or give up.
            # Without -mno-mmx, gcc under register pressure moves words through MMX registers, which
            # leaves the x87 unit unusable: the caller's next long double operation gives NaN.
            extra: tuple[str, ...] = ("-fno-semantic-interposition", "-mno-mmx")
        else:
            extra = ("-fno-sanitize=all",)
        return (*COMMON_FLAGS, *extra, *self.arch_flags(arch))

    def link_flags(self, arch: str) -> tuple[str, ...]:
        """Flags for the shared object."""
        if self.family == "gcc":
            return (*LINK_FLAGS, "-lgcc")
        return (*LINK_FLAGS, *(self.arch_flags(arch) if self.family == "zig" else ()))

    def key(self) -> str:
        """Identifies the compiler, and what it calls and looks into, in cache keys."""
        steered = (f"{name}={value}" for name, value in sorted(compiler_paths().items()))
        parts = (self.family, self.version, *self.command, *_programs(self.command), *steered)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find_toolchain(wish: str = "") -> Toolchain:
    """The compiler that `wish` names, else g++, clang++, or the ziglang package.

    Raises:
        ToolchainMissing: `wish` cannot be run, or nothing was found.
    """
    if wish:
        found = _probe(tuple(shlex.split(wish)))
        if found is None:
            raise ToolchainMissing(f"the C++ compiler {wish!r} cannot be run")
        return found
    for command in _candidates():
        found = _probe(command)
        if found is not None:
            return found
    raise ToolchainMissing("no C++ compiler was found (tried g++, clang++, python -m ziglang)")


def _candidates() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [(name,) for name in ("g++", "clang++") if shutil.which(name)]
    if importlib.util.find_spec("ziglang") is not None:
        found.append((sys.executable, "-m", "ziglang", "c++"))
    return found


@cache
def _probe(command: tuple[str, ...]) -> Toolchain | None:
    """What the command says of itself; None when it cannot be run."""
    try:
        ran = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if ran.returncode != 0 or not ran.stdout:
        return None
    first = ran.stdout.splitlines()[0]
    if "ziglang" in command or Path(command[0]).name == "zig":
        return Toolchain(command, "zig", first)
    return Toolchain(command, "clang" if "clang" in ran.stdout else "gcc", first)


def _programs(command: Sequence[str]) -> Iterator[str]:
    """Which files compile, assemble and link: a version is told by the first of them alone."""
    for name in (command[0], "as", "ld"):
        path = Path(os.path.realpath(shutil.which(name) or name))
        with suppress(OSError):
            found = path.stat()
            yield f"{path} {found.st_size} {found.st_mtime_ns}"


def include_directories() -> tuple[Path, ...]:
    """Where the kernel headers lie: with this package, and the contracts in a source checkout."""
    here = Path(__file__).resolve().parent / "include"
    if (here / "aot" / "kernel_abi.h").exists():
        return (here,)
    return (here, Path(__file__).resolve().parents[3] / "cpp" / "include")


def headers_digest(directories: Sequence[Path]) -> str:
    """A hash of every header that generated code may include."""
    digest = hashlib.sha256()
    own, *others = directories
    files = [(file, file.relative_to(own)) for file in sorted(own.rglob("*.h"))]
    files += [(d / "aot" / name, Path("aot") / name) for d in others for name in CONTRACTS]
    for file, name in files:
        text = file.read_bytes()
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()
