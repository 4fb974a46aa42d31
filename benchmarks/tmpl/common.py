"""What the template benchmarks share: compiling, aligned arrays, interleaved timing."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from aot.backends.cpp.toolchain import find_toolchain

ROOT = Path(__file__).parents[2]
CACHE = Path(tempfile.gettempdir()) / "aot-bench-tmpl"

PEAK = """
#include "aot/tmpl/simd.h"
using namespace aot::tmpl;
using S = Simd<float>;
extern "C" __attribute__((visibility("default"))) float peak(int64_t n) {
  S::V a[12];
  AOT_UNROLL for (int i = 0; i < 12; ++i) a[i] = S::set1(float(i));
  S::V x = S::set1(1.0001f), y = S::set1(0.5f);
  for (int64_t k = 0; k < n; ++k) {
    AOT_UNROLL for (int i = 0; i < 12; ++i) a[i] = S::fma(a[i], x, y);
    asm volatile("" : "+v"(x), "+v"(y));
  }
  S::V s = a[0];
  AOT_UNROLL for (int i = 1; i < 12; ++i) s += a[i];
  return s[0];
}
extern "C" __attribute__((visibility("default"))) int64_t peak_flops() { return 24 * S::kLanes; }
"""

BIAS_RELU = """
struct BiasRelu {{
  float* c;
  const float* bias;
  void operator()(int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const float* tile,
                  int64_t ld) const {{
    for (int64_t m = m0; m < m1; ++m) {{
      const float* t = tile + (m - m0) * ld - n0;
      for (int64_t n = n0; n < n1; n += S::kLanes) {{
        S::store(c + m * {oc} + n, S::max(S::zero(), S::load(t + n) + S::load(bias + n)));
      }}
    }}
  }}
}};
"""
"""What a convolution of {oc} channels becomes, of sources that are formatted."""


def build(source: str, level: str) -> ctypes.CDLL:
    """Compiles a shared object at an ISA level, as kernel libraries are; cached by content."""
    headers = sorted((ROOT / "aot/backends/cpp/include/aot/tmpl").glob("*.h"))
    text = source + level + "".join(h.read_text() for h in headers)
    CACHE.mkdir(exist_ok=True)
    stem = CACHE / hashlib.sha256(text.encode()).hexdigest()[:20]
    library = stem.with_suffix(".so")
    if not library.exists():
        stem.with_suffix(".cc").write_text(source)
        tools = find_toolchain()
        command = [*tools.command, *tools.compile_flags(level), "-shared"]
        command += [f"-I{ROOT}/aot/backends/cpp/include", str(stem.with_suffix(".cc"))]
        subprocess.run([*command, "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def aligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A C-contiguous copy at a multiple of 64 bytes."""
    raw = np.zeros(values.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    out[...] = values
    return out


def call(function: Any, *arguments: Any) -> None:
    """Calls a C function: arrays become addresses, integers int64_t, floats double."""
    kinds = {np.ndarray: lambda a: ctypes.c_void_p(a.ctypes.data), float: ctypes.c_double}
    function(*[kinds.get(type(a), ctypes.c_int64)(a) for a in arguments])


def interleaved(
    contenders: Sequence[Callable[[], object]], repeats: int, rounds: int = 15
) -> list[float]:
    """Least seconds of CPU time a call, contenders taking turns.

    The least, because on a shared machine everything else measures the neighbours.
    """
    times: list[list[float]] = [[] for _ in contenders]
    for run in contenders:
        run()
    for _ in range(rounds):
        for run, taken in zip(contenders, times, strict=True):
            start = time.thread_time()
            for _ in range(repeats):
                run()
            taken.append((time.thread_time() - start) / repeats)
    return [min(t) for t in times]


def peak_contender(level: str) -> tuple[Callable[[], object], float]:
    """A run of multiply-adds in registers, and how many floating-point operations it does."""
    library, n = build(PEAK, level), 100_000
    library.peak.restype = ctypes.c_float
    return (lambda: library.peak(ctypes.c_int64(n))), float(n * library.peak_flops())


def report(label: str, flops: float, seconds: Sequence[float], peak: float) -> None:
    """Prints ours, torch, their ratio, and ours against the multiply-add peak of the moment."""
    ours, torch = seconds[:2]
    print(
        f"{label:34s} ours {ours * 1e6:9.1f} us {flops / ours / 1e9:6.1f} GF "
        f"torch {torch * 1e6:9.1f} us {flops / torch / 1e9:6.1f} GF "
        f"torch/ours {torch / ours:5.2f} of peak {flops / ours / peak:5.2f}",
        flush=True,
    )
