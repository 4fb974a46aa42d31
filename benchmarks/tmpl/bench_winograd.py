"""Winograd's tiles and the sum of all products on 3 by 3 layers, one thread.

python -m benchmarks.tmpl.bench_winograd [ISA level]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from aot.backends.cpp.conv_heuristic import ConvShape, conv_blocking
from aot.backends.cpp.packing import pack_conv_weight, pack_winograd_weight
from aot.backends.cpp.winograd_heuristic import (
    WINOGRAD_TILES,
    WinogradBlocking,
    winograd_blocking,
    winograd_tile,
)
from benchmarks.tmpl.bench_conv import SOURCE as DIRECT
from benchmarks.tmpl.common import BIAS_RELU, aligned, build, call, interleaved

SOURCE = (
    """
#include "aot/tmpl/winograd.h"
using namespace aot::tmpl;
using S = Simd<float>;
struct Cfg : WinogradConfig {{
  static constexpr int64_t IC = {ic}, OC = {oc}, PH = 1, PW = 1;
  static constexpr int TH = {th}, TW = {tw}, SH = {step}, SW = {step};
  static constexpr int64_t ROWS = {rows}, COLS = {columns}, NB = {nb};
}};
"""
    + BIAS_RELU
    + """
extern "C" __attribute__((visibility("default"))) void run(
    const float* x, int64_t sn, int64_t sh, int64_t sw, const float* w, int64_t n, int64_t h,
    int64_t oh, float* c, const float* bias, int64_t begin, int64_t end, void* scratch) {{
  const WinogradArgs<Cfg> p{{x, sn, sh, sw, w, n, h, h, oh, oh}};
  winograd<Cfg>(p, begin, end, scratch, BiasRelu{{c, bias}});
}}
"""
)
# channels, size, images, stride
LAYERS = [
    (64, 56, 1, 1),
    (128, 28, 1, 1),
    (256, 14, 1, 1),
    (512, 7, 1, 1),
    (512, 7, 4, 1),
    (32, 112, 1, 1),
    (64, 112, 1, 2),
    (128, 56, 1, 2),
    (256, 28, 1, 2),
    (512, 14, 4, 2),
]
WEIGHTS = 4
"""Layers' weights that are used by turns, so that reading them is counted."""


def contender(
    b: WinogradBlocking, x: np.ndarray, weights: list[np.ndarray], level: str
) -> Callable[[], object]:
    n, h = x.shape[:2]
    sizes = {"rows": b.rows, "columns": b.columns, "nb": b.nb}
    step = b.shape.stride[2]
    tile = {"th": b.tile[0], "tw": b.tile[1], "step": step}
    text = SOURCE.format(ic=b.shape.ic, oc=b.shape.oc, **tile, **sizes)
    library = build(text, level)
    packed = [aligned(pack_winograd_weight(w, *b.tile, step, step)) for w in weights]
    oh = (h - 1) // step + 1
    c = aligned(np.zeros((n, oh, oh, b.shape.oc), np.float32))
    bias = aligned(np.zeros(b.shape.oc, np.float32))
    room = aligned(np.zeros(b.scratch_bytes, np.uint8))
    strides = [t // 4 for t in x.strides[:3]]
    units = b.work(n, oh, oh)

    def run() -> None:
        packed.append(packed.pop(0))
        call(library.run, x, *strides, packed[0], n, h, oh, c, bias, 0, units, room)

    return run


def direct(
    shape: ConvShape, x: np.ndarray, weights: list[np.ndarray], level: str
) -> Callable[[], object]:
    h, step = x.shape[1], shape.stride[2]
    oh = (h - 1) // step + 1
    b = conv_blocking(shape, oh * oh, oh)
    sizes = {f: getattr(b, f) for f in ("mb", "nb", "mc", "nc", "kb", "rows")}
    given = {"ic": shape.ic, "oc": shape.oc, "k": 3, "s": step, "pad": 1, "patch": "false"}
    library = build(DIRECT.format(**given, **sizes), level)
    packed = [aligned(pack_conv_weight(w, 1)) for w in weights]
    c = aligned(np.zeros((oh * oh, shape.oc), np.float32))
    bias = aligned(np.zeros(shape.oc, np.float32))
    room = aligned(np.zeros(b.scratch_bytes(oh), np.uint8))
    units = b.work(oh * oh)

    def run() -> None:
        packed.append(packed.pop(0))
        for image in x:
            strides = [t // 4 for t in (x.strides[3], *x.strides[1:3])]
            call(library.run, image, *strides, packed[0], h, oh, c, bias, 0, units, room)

    return run


def bench(
    channels: int, h: int, n: int, step: int, level: str, changes: list[dict[str, int]]
) -> None:
    """Times one layer by all tiles, and prints milliseconds."""
    shape = ConvShape(1, channels, channels, (1, 3, 3), (1, step, step), padding=(0, 1, 1))
    oh = (h - 1) // step + 1
    rng = np.random.default_rng(0)
    x = aligned(rng.standard_normal((n, h, h, channels)).astype(np.float32))
    kernel = (channels, channels, 3, 3)
    weights = [rng.standard_normal(kernel).astype(np.float32) for _ in range(WEIGHTS)]
    names, runs = ["direct"], [direct(shape, x, weights, level)]
    for tile in WINOGRAD_TILES:
        for change in changes:
            b = replace(winograd_blocking(shape, tile, n, oh, oh), **change)
            names.append(f"{tile[0]}x{tile[1]} ({b.rows}, {b.columns}, {b.nb})")
            runs.append(partial(contender(b, x, weights, level)))
    times = interleaved(runs, 1, 40)
    chosen = winograd_tile(shape, n, oh, oh)
    print(f"{channels} channels at {h}, {n} images, stride {step}; chosen: {chosen}")
    for name, time in zip(names, times, strict=True):
        print(f"  {name:22} {time * 1e3:7.3f} ms, {time / times[0]:.2f}")


def main() -> None:
    """Times all layers."""
    level = sys.argv[1] if len(sys.argv) > 1 else "x86-64-v4"
    for layer in LAYERS:
        bench(*layer, level, [{}])


if __name__ == "__main__":
    main()
