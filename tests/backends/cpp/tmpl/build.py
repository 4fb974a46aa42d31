"""Compiles small shared objects around the matrix templates, one per ISA level, for the tests."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aot.backends.cpp.precompiled import header_flags
from aot.backends.cpp.toolchain import Toolchain, find_toolchain, headers_digest
from tests.once import PLACE, digest_of, made_once

INCLUDE = Path(__file__).parents[4] / "aot" / "backends" / "cpp" / "include"
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
EPILOGUE = """
#define EXPORT extern "C" __attribute__((visibility("default")))
// Bias, and a store to [n][c][pixel], so that every index is checked.
template <class T, bool TURNED = false>
struct Epilogue {
  T* c;
  const T* bias;
  int64_t pixels, channels;
  void operator()(int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const T* tile,
                  int64_t ld) const {
    for (int64_t m = m0; m < m1; ++m) {
      for (int64_t n = n0; n < n1; ++n) {
        const int64_t at = (m / pixels * channels + n) * pixels + m % pixels;
        c[at] = tile[TURNED ? (n - n0) * ld + m - m0 : (m - m0) * ld + n - n0] + bias[n];
      }
    }
  }
};
"""
"""Of convolutions, in C++: what they become, and what exports them."""


_EMULATE = "AOT_TMPL_EMULATE_BF16"


def emulated(unit: str) -> str:
    """What stands ahead of a source that shall do without the machine's units of bfloat16."""
    return f"#define {_EMULATE}\n#define AOT_TMPL_BF16_AT_MOST {unit}\n"


_NEEDS = {
    "x86-64-v2": ("sse4_2",),
    "x86-64-v3": ("avx2", "fma"),
    "x86-64-v4": ("avx512f", "avx512vl"),
}


@functools.cache
def levels() -> tuple[str, ...]:
    """The ISA levels that this machine can run."""
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return tuple(level for level in LEVELS if flags.issuperset(_NEEDS[level]))


@dataclass(frozen=True)
class Strict(Toolchain):
    """Compiles as kernel libraries are built, but with warnings, and all heights named.

    Hidden visibility matters here: the templates' tables differ between levels, and must not be
    shared by libraries of one process. A strip of a height that no template has named is computed
    slowly in packages; here it ends the test. How functions pass vectors of 64 bytes, where units
    of the widest level are emulated on others, concerns nobody: none is called from another unit.
    """

    def compile_flags(self, arch: str) -> tuple[str, ...]:
        flags = (flag for flag in super().compile_flags(arch) if flag != "-w")
        strict = ("-fno-gnu-unique", "-Wall", "-Wextra", "-Wno-psabi", "-Werror")
        return (*flags, *strict, "-DAOT_TMPL_ONLY_NAMED_HEIGHTS")


@functools.cache
def build(source: str, level: str, ahead: str = "") -> ctypes.CDLL:
    """Compiles C++ text at an ISA level and loads it; raises CalledProcessError with the errors.

    What no test runs is not to be compiled: a text holds the instantiations of one case.
    `ahead`: directives that the headers are to see, which then are not taken precompiled.
    """
    found = find_toolchain()
    tools = Strict(found.command, found.family, found.version)
    # An emulated unit is nothing that is shipped, and optimising it is four fifths of compiling it.
    unoptimised = ["-O0"] if _EMULATE in ahead else []
    flags = [*tools.compile_flags(level), *unoptimised, f"-I{INCLUDE}"]
    text = ahead + source

    def make(folder: Path) -> None:
        precompiled = () if ahead else header_flags(tools, level, PLACE)
        (folder / "t.cc").write_text(text)
        command = [*tools.command, *precompiled, *flags, "-shared", str(folder / "t.cc")]
        subprocess.run([*command, "-o", str(folder / "t.so")], check=True)

    digest = digest_of(tools.version, *tools.command, *flags, headers_digest((INCLUDE,)), text)
    return ctypes.CDLL(str(made_once(f"tmpl-{digest_of(text)}-{level}", digest, make) / "t.so"))


def aligned(shape: tuple[int, ...], dtype: Any, fill: float | None = None) -> np.ndarray:
    """An array at a multiple of 64 bytes; NaN (or 77 for integers) unless `fill` is given."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + 128, np.uint8)
    start = -raw.ctypes.data % 64
    array = raw[start : start + size].view(dtype).reshape(shape)
    array[...] = (np.nan if dtype.kind in "fV" else 77) if fill is None else fill
    return array


def as_aligned(values: np.ndarray) -> np.ndarray:
    """A C-contiguous copy at a multiple of 64 bytes."""
    copy = aligned(values.shape, values.dtype, 0)
    copy[...] = values
    return copy


def call(function: Any, *arguments: Any) -> None:
    """Calls a C function: arrays become addresses, integers int64_t, floats double."""
    converted: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            converted.append(ctypes.c_void_p(argument.ctypes.data))
        elif isinstance(argument, float):
            converted.append(ctypes.c_double(argument))
        else:
            converted.append(ctypes.c_int64(argument))
    function(*converted)
