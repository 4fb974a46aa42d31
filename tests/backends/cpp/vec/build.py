"""Compiles test kernels that use aot/vec, one shared object per ISA level, and calls them."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from aot.backends.cpp.toolchain import find_toolchain, headers_digest
from tests.once import digest_of, made_once

INCLUDE = Path(__file__).parents[4] / "aot" / "backends" / "cpp" / "include"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
_LIBRARY, _ERRORS = "library.so", "errors.txt"
_NEEDS = {
    "x86-64-v2": {"sse4_2"},
    "x86-64-v3": {"avx2", "fma", "f16c"},
    "x86-64-v4": {"avx512f", "avx512vl", "avx512bw", "avx512dq"},
}


@functools.cache
def levels() -> tuple[str, ...]:
    """The ISA levels that this machine can run."""
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    return tuple(level for level in LEVELS if flags >= _NEEDS[level])


@functools.cache
def _compile(source: str, level: str) -> tuple[Path, str]:
    """The library's path and what the compiler complained of (nothing if all is well)."""
    tools, text = find_toolchain(), Path(__file__).parent / source
    command = [*tools.command, *(flag for flag in tools.compile_flags(level) if flag != "-w")]
    command += ["-Wall", "-Wextra", "-Werror", "-shared", f"-I{INCLUDE}", str(text)]

    def make(folder: Path) -> None:
        full = [*command, "-o", str(folder / _LIBRARY), "-lm"]
        ran = subprocess.run(full, capture_output=True, text=True, check=False)
        (folder / _ERRORS).write_text(ran.stderr if ran.returncode else "", encoding="utf-8")

    digest = digest_of(tools.version, *command, headers_digest((INCLUDE,)), text)
    made = made_once(f"vec-{text.stem}-{level}", digest, make)
    return made / _LIBRARY, (made / _ERRORS).read_text(encoding="utf-8")


@functools.cache
def _load(library: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(library))


def build(source: str, level: str) -> ctypes.CDLL:
    """The library made from a C++ file of this folder; warnings are errors.

    Compiles once, also when that fails: every test that needs the library then fails at once.
    """
    return _load(library_path(source, level))


def library_path(source: str, level: str) -> Path:
    """Where the library that `build` makes is."""
    library, errors = _compile(source, level)
    assert not errors, errors
    return library


def call(library: ctypes.CDLL, name: str, *arguments: Any) -> None:
    """Calls a C function: arrays become addresses, everything else int64_t."""
    converted: list[Any] = [
        ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a)
        for a in arguments
    ]
    getattr(library, name)(*converted)
