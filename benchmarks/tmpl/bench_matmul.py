"""Matmul template against torch's linear, one thread.

python -m benchmarks.tmpl.bench_matmul [MxNxK …]
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from aot.backends.cpp.gemm_heuristic import matmul_blocking
from aot.backends.cpp.packing import pack_matmul_weight
from benchmarks.tmpl.common import aligned, build, call, interleaved, peak_contender, report

SOURCE = """
#include "aot/tmpl/matmul.h"
using namespace aot::tmpl;
using S = Simd<float>;
struct Cfg : MatmulConfig {{
  static constexpr int64_t N = {n}, K = {k};
  static constexpr int64_t MB = {mb}, NB = {nb}, MC = {mc}, NC = {nc}, KB = {kb};
}};
struct Bias {{
  float* c;
  const float* bias;
  int64_t ldc;
  void operator()(int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const float* tile,
                  int64_t ld) const {{
    for (int64_t m = m0; m < m1; ++m) {{
      const float* t = tile + (m - m0) * ld - n0;
      int64_t n = n0;
      for (; n + S::kLanes <= n1; n += S::kLanes) {{
        S::store(c + m * ldc + n, S::load(t + n) + S::load(bias + n));
      }}
      for (; n < n1; ++n) c[m * ldc + n] = t[n] + bias[n];
    }}
  }}
}};
extern "C" __attribute__((visibility("default"))) void run(
    const float* a, const float* b, const float* bias, float* c, int64_t m, int64_t begin,
    int64_t end, void* scratch, int64_t repeats) {{
  const MatmulArgs<Cfg> p{{a, 0, {k}, 1, b, 0, 0, 0, m, {n}, {k}}};
  for (int64_t i = 0; i < repeats; ++i) matmul<Cfg>(p, begin, end, scratch, Bias{{c, bias, {n}}});
}}
"""
SHAPES = [
    (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (512, 768, 768), (512, 3072, 768),
    (512, 768, 3072), (197, 2304, 768), (64, 2304, 768), (64, 50257, 768), (128, 1024, 1024),
    (128, 32000, 512), (16, 768, 768), (8, 768, 768), (4, 768, 768), (2, 768, 768), (1, 1024, 1024),
    (1, 2048, 512), (1, 768, 3072), (3136, 64, 64), (3136, 256, 64), (784, 512, 128),
    (3136, 64, 256), (8, 16, 16), (100, 10, 64),
]  # fmt: skip
COLD_BYTES = 50e6  # weights take turns from this much memory, as the layers of a network do


def bench(m: int, n: int, k: int, level: str) -> None:
    """Times one shape."""
    rng = np.random.default_rng(0)
    a = aligned(rng.standard_normal((m, k), dtype=np.float32))
    w = rng.standard_normal((k, n), dtype=np.float32)
    bias = rng.standard_normal(n, dtype=np.float32)
    copies = max(1, min(20, int(COLD_BYTES / w.nbytes))) if m <= 512 else 1
    packed = [aligned(pack_matmul_weight(w)) for _ in range(copies)]
    blocking = matmul_blocking(m, n, k)
    sizes = {f: getattr(blocking, f) for f in ("mb", "nb", "mc", "nc", "kb")}
    library = build(SOURCE.format(n=n, k=k, **sizes), level)
    c = aligned(np.zeros((m, n), np.float32))
    room = aligned(np.zeros(blocking.scratch_bytes, np.uint8))
    # Where a call from Python costs more than the work, the loop is inside.
    inner = 1000 if m * n * k < 1e6 else 1

    def ours() -> None:
        i = ours.turn % copies  # type: ignore[attr-defined]
        ours.turn += 1  # type: ignore[attr-defined]
        call(library.run, a, packed[i], bias, c, m, 0, blocking.work(1, m, n), room, inner)

    ours.turn = 0  # type: ignore[attr-defined]
    weights = [torch.from_numpy(np.ascontiguousarray(w.T)).clone() for _ in range(copies)]
    x, tb = torch.from_numpy(a), torch.from_numpy(bias)

    def torchs() -> None:
        i = ours.turn % copies  # type: ignore[attr-defined]
        ours.turn += 1  # type: ignore[attr-defined]
        torch.nn.functional.linear(x, weights[i], tb)

    ours()
    np.testing.assert_allclose(c, a @ w + bias, rtol=1e-3, atol=1e-3 * k**0.5)
    peak, peak_flops = peak_contender(level)
    repeats = max(1, int(2e8 / (m * n * k * inner)))
    times = interleaved([ours, torchs, peak], repeats)
    times[0] /= inner
    report(f"{m}x{n}x{k} {level}", 2.0 * m * n * k, times, peak_flops / times[2])


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = [tuple(map(int, s.split("x"))) for s in sys.argv[1:] if s[0].isdigit()]
    isa = next((s for s in sys.argv[1:] if not s[0].isdigit()), "x86-64-v4")
    for shape in chosen or SHAPES:
        bench(*shape, isa)
