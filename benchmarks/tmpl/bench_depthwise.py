"""Depthwise template against torch (channels last) on the layers of MobileNet-v2, one thread.

python -m benchmarks.tmpl.bench_depthwise [ISA level]
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from aot.backends.cpp.packing import pack_depthwise_weight
from benchmarks.tmpl.common import aligned, build, call, interleaved, peak_contender, report

SOURCE = """
#include "aot/tmpl/depthwise.h"
using namespace aot::tmpl;
using S = Simd<float>;
struct Cfg : DepthwiseConfig {{
  static constexpr int64_t C = {c}, KH = 3, KW = 3, SH = {s}, SW = {s}, PH = 1, PW = 1;
}};
struct BiasRelu6 {{
  float* o;
  const float* bias;
  void operator()(int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const float* tile,
                  int64_t ld) const {{
    for (int64_t m = m0; m < m1; ++m) {{
      const float* t = tile + (m - m0) * ld - n0;
      for (int64_t n = n0; n < n1; n += S::kLanes) {{
        const S::V v = S::max(S::zero(), S::load(t + n) + S::load(bias + n));
        S::store(o + m * {c} + n, -S::max(-S::set1(6.0f), -v));
      }}
    }}
  }}
}};
extern "C" __attribute__((visibility("default"))) void run(
    const float* x, const float* w, int64_t h, int64_t oh, float* o, const float* bias,
    void* scratch) {{
  const DepthwiseArgs<Cfg> p{{x, 0, 0, h * {c}, {c}, w, 1, 1, h, h, 1, oh, oh}};
  depthwise<Cfg>(p, 0, oh, scratch, BiasRelu6{{o, bias}});
}}
"""
# channels, stride, input size, how often
LAYERS = [
    (32, 1, 112, 1), (96, 2, 112, 1), (144, 1, 56, 1), (144, 2, 56, 1), (192, 1, 28, 2),
    (192, 2, 28, 1), (384, 1, 14, 4), (576, 1, 14, 2), (576, 2, 14, 1), (960, 1, 7, 3),
]  # fmt: skip


def bench(c: int, s: int, h: int, level: str) -> tuple[float, float]:
    """Times one layer; returns seconds of ours and of torch."""
    library = build(SOURCE.format(c=c, s=s), level)
    oh = (h - 1) // s + 1
    x = torch.randn(1, c, h, h).contiguous(memory_format=torch.channels_last)
    w, bias = torch.randn(c, 1, 3, 3), torch.randn(c)
    stored = aligned(x.permute(0, 2, 3, 1).numpy())
    packed, out = aligned(pack_depthwise_weight(w.numpy())), aligned(np.zeros((oh, oh, c), "f4"))
    room = aligned(np.zeros(65536, np.uint8))
    arguments = (stored, packed, h, oh, out, bias.numpy(), room)
    call(library.run, *arguments)
    expected = torch.conv2d(x, w, bias, s, 1, groups=c).clamp(0, 6)[0].permute(1, 2, 0)
    np.testing.assert_allclose(out, expected.numpy(), rtol=1e-4, atol=1e-4)
    peak, peak_flops = peak_contender(level)
    flops = 18.0 * oh * oh * c
    times = interleaved(
        [
            lambda: call(library.run, *arguments),
            lambda: torch.conv2d(x, w, bias, s, 1, groups=c),
            peak,
        ],
        max(1, int(3e7 / flops)),
    )
    report(f"{c} channels /{s} at {h} {level}", flops, times, peak_flops / times[2])
    return times[0], times[1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    total = [0.0, 0.0]
    for channels, stride, size, count in LAYERS:
        for i, t in enumerate(bench(channels, stride, size, (sys.argv[1:] or ["x86-64-v4"])[0])):
            total[i] += count * t
    print(f"all depthwise: ours {total[0] * 1e3:.2f} ms, torch {total[1] * 1e3:.2f} ms")
