"""Attention template against torch's scaled_dot_product_attention, one thread.

python -m benchmarks.tmpl.bench_attention [ISA level]
"""

from __future__ import annotations

import sys

import numpy as np
import torch
import torch.nn.functional as F

from aot.backends.cpp.attention_heuristic import attention_blocking
from benchmarks.tmpl.common import aligned, build, call, interleaved, peak_contender, report

SOURCE = """
#include "aot/tmpl/attention.h"
using namespace aot::tmpl;
struct Cfg : AttentionConfig {{
  static constexpr int64_t D = {d}, DV = {d}, QB = {qb}, KB = {kb};
  static constexpr bool CAUSAL = {causal};
}};
struct Store {{  // [b][q][h][d]
  float* o;
  int64_t heads, sq;
  void operator()(int64_t b, int64_t h, int64_t q0, int64_t q1, const float* tile,
                  int64_t ld) const {{
    for (int64_t q = q0; q < q1; ++q) {{
      float* out = o + ((b * sq + q) * heads + h) * {d};
      widen_row(tile + (q - q0) * ld, {d}, out);
    }}
  }}
}};
extern "C" __attribute__((visibility("default"))) void run(
    const float* q, const float* k, const float* v, int64_t sb, int64_t sh, int64_t sr,
    int64_t batch, int64_t heads, int64_t sq, int64_t sk, float* o, int64_t end, void* scratch) {{
  const AttentionArgs<Cfg> p{{q, sb, sh, sr, k, sb, sh, sr, v, sb, sh, sr, batch, heads, 1, sq, sk,
                             {scale}f}};
  attention<Cfg>(p, 0, end, scratch, NoMod{{}}, Store{{o, heads, sq}});
}}
"""
# batch, heads, queries, keys, head size, causal
SHAPES = [
    (1, 12, 128, 128, 64, False), (8, 12, 128, 128, 64, False), (1, 12, 197, 197, 64, False),
    (1, 12, 64, 64, 64, True), (1, 8, 128, 128, 64, True), (1, 12, 512, 512, 64, False),
    (1, 12, 1024, 1024, 64, True), (1, 12, 1, 512, 64, False),
]  # fmt: skip


def bench(b: int, h: int, sq: int, sk: int, d: int, causal: bool, level: str) -> None:
    """Times one shape; Q, K and V lie as one fused projection leaves them."""
    blocking = attention_blocking(sq, sk, d, d, heads=b * h)
    text = SOURCE.format(
        d=d, qb=blocking.qb, kb=blocking.kb, causal=str(causal).lower(), scale=d**-0.5
    )
    library = build(text, level)
    qkv = torch.randn(b, max(sq, sk), 3, h, d)
    q, k, v = (qkv[:, :n, i].transpose(1, 2) for i, n in enumerate((sq, sk, sk)))
    out = aligned(np.zeros((b, sq, h, d), np.float32))
    room = aligned(np.zeros(blocking.scratch_bytes, np.uint8))
    arguments = (q.numpy(), k.numpy(), v.numpy(), *q.stride()[:3], b, h, sq, sk, out,
                 blocking.work(b, h, sq), room)  # fmt: skip
    call(library.run, *arguments)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    np.testing.assert_allclose(out, expected.numpy(), rtol=1e-4, atol=1e-4)
    peak, peak_flops = peak_contender(level)
    flops = 4.0 * b * h * sq * sk * d / (2 if causal else 1)
    times = interleaved(
        [
            lambda: call(library.run, *arguments),
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
            peak,
        ],
        max(1, int(1e8 / flops)),
    )
    label = f"{b}x{h} {sq}x{sk}x{d} {'causal ' if causal else ''}{level}"
    report(label, flops, times, peak_flops / times[2])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for shape in SHAPES:
        bench(*shape, (sys.argv[1:] or ["x86-64-v4"])[0])
