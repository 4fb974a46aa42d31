"""Convolution template against torch (channels last) on the layers of ResNet-50, one thread.

python -m benchmarks.tmpl.bench_conv [layer number …] [ISA level]
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from aot.backends.cpp.conv_heuristic import ConvShape, conv_blocking
from aot.backends.cpp.packing import pack_conv_weight
from benchmarks.tmpl.common import (
    BIAS_RELU,
    aligned,
    build,
    call,
    interleaved,
    peak_contender,
    report,
)

SOURCE = (
    """
#include "aot/tmpl/conv.h"
using namespace aot::tmpl;
using S = Simd<float>;
struct Cfg : ConvConfig {{
  static constexpr int64_t IC = {ic}, OC = {oc}, KH = {k}, KW = {k}, SH = {s}, SW = {s};
  static constexpr int64_t PH = {pad}, PW = {pad};
  static constexpr int64_t MB = {mb}, NB = {nb}, MC = {mc}, NC = {nc}, KB = {kb}, ROWS = {rows};
  static constexpr bool PATCH = {patch};
}};
"""
    + BIAS_RELU
    + """
extern "C" __attribute__((visibility("default"))) void run(
    const float* x, int64_t sc, int64_t sh, int64_t sw, const float* w, int64_t h, int64_t oh,
    float* c, const float* bias, int64_t begin, int64_t end, void* scratch) {{
  const ConvArgs<Cfg> p{{x, 0, sc, 0, sh, sw, w, 1, 1, h, h, 1, oh, oh}};
  conv<Cfg>(p, begin, end, scratch, BiasRelu{{c, bias}});
}}
"""
)
# input channels, output channels, kernel, stride, input size, how often, channels last
LAYERS = [
    (3, 64, 7, 2, 224, 1, False), (64, 64, 1, 1, 56, 1, True), (64, 64, 3, 1, 56, 3, True),
    (64, 256, 1, 1, 56, 4, True), (256, 64, 1, 1, 56, 2, True), (256, 128, 1, 1, 56, 1, True),
    (128, 128, 3, 2, 56, 1, True), (128, 512, 1, 1, 28, 4, True), (256, 512, 1, 2, 56, 1, True),
    (512, 128, 1, 1, 28, 3, True), (128, 128, 3, 1, 28, 3, True), (512, 256, 1, 1, 28, 1, True),
    (256, 256, 3, 2, 28, 1, True), (256, 1024, 1, 1, 14, 6, True), (512, 1024, 1, 2, 28, 1, True),
    (1024, 256, 1, 1, 14, 5, True), (256, 256, 3, 1, 14, 5, True), (1024, 512, 1, 1, 14, 1, True),
    (512, 512, 3, 2, 14, 1, True), (512, 2048, 1, 1, 7, 3, True), (1024, 2048, 1, 2, 14, 1, True),
    (2048, 512, 1, 1, 7, 2, True), (512, 512, 3, 1, 7, 2, True),
]  # fmt: skip


def bench(ic: int, oc: int, k: int, s: int, h: int, last: bool, level: str) -> tuple[float, float]:
    """Times one layer; returns seconds of ours and of torch."""
    shape = ConvShape(1, ic, oc, (1, k, k), (1, s, s), (1, 1, 1), (0, k // 2, k // 2))
    oh = (h + 2 * (k // 2) - k) // s + 1
    b = conv_blocking(shape, oh * oh, oh, channels_contiguous=last)
    sizes = {f: getattr(b, f) for f in ("mb", "nb", "mc", "nc", "kb", "rows")}
    patch = "true" if b.patch else "false"
    text = SOURCE.format(ic=ic, oc=oc, k=k, s=s, pad=k // 2, patch=patch, **sizes)
    library = build(text, level)
    x = torch.randn(1, ic, h, h)
    w = torch.randn(oc, ic, k, k) / (ic * k * k) ** 0.5
    bias = torch.randn(oc)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    stored = aligned(x.permute(0, 2, 3, 1).numpy() if last else x.numpy())
    view = stored.transpose(0, 3, 1, 2) if last else stored
    packed = aligned(pack_conv_weight(w.numpy(), 1))
    c = aligned(np.zeros((oh * oh, oc), np.float32))
    room = aligned(np.zeros(b.scratch_bytes(oh), np.uint8))
    strides = [t // 4 for t in view.strides[1:]]
    arguments = (stored, *strides, packed, h, oh, c, bias.numpy(), 0, b.work(oh * oh), room)
    wt = w.contiguous(memory_format=torch.channels_last)
    expected = torch.relu(torch.conv2d(x, wt, bias, s, k // 2))[0].permute(1, 2, 0)
    call(library.run, *arguments)
    np.testing.assert_allclose(c, expected.reshape(-1, oc).numpy(), rtol=1e-3, atol=1e-3)
    peak, peak_flops = peak_contender(level)
    flops = 2.0 * oh * oh * oc * ic * k * k
    times = interleaved(
        [
            lambda: call(library.run, *arguments),
            lambda: torch.conv2d(x, wt, bias, s, k // 2),
            peak,
        ],
        max(1, int(2e8 / flops)),
    )
    report(f"{ic}->{oc} {k}x{k}/{s} at {h} {level}", flops, times, peak_flops / times[2])
    return times[0], times[1]


def main() -> None:
    """Times the chosen layers and prints the sum over the network."""
    torch.set_num_threads(1)
    chosen = [LAYERS[int(a)] for a in sys.argv[1:] if a.isdigit()] or LAYERS
    level = next((a for a in sys.argv[1:] if not a.isdigit()), "x86-64-v4")
    total = [0.0, 0.0]
    for ic, oc, k, s, h, count, last in chosen:
        for i, t in enumerate(bench(ic, oc, k, s, h, last, level)):
            total[i] += count * t
    print(f"all convolutions: ours {total[0] * 1e3:.1f} ms, torch {total[1] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
