"""Convolutions of bfloat16 whose results are rounded by the machine's units, which are emulated."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.conv_heuristic import ConvShape
from aot.backends.cpp.packing import pack_conv_weight
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import aligned, as_aligned, build, call, levels
from tests.backends.cpp.tmpl.test_bf16 import EMULATED
from tests.settings import seeded

LEVEL = levels()[-1]
RUN = """
namespace {{
struct Ends : only::Cfg {{
  static constexpr bool ROUNDED = true, ADDS = {adds};
}};
}}
EXPORT void rounded(const Bf16* x, int64_t sn, int64_t sc, int64_t sd, int64_t sh, int64_t sw,
                    const Bf16* w, int64_t n, int64_t d, int64_t h, int64_t wd, int64_t od,
                    int64_t oh, int64_t ow, Bf16* c, const Bf16* bias, int64_t begin, int64_t end,
                    void* scratch) {{
  using Cfg = Ends;
  const int64_t channels = Cfg::G * Cfg::OC, image = od * oh * ow * 2;
  ConvArgs<Cfg> p{{x, sn, sc, sd, sh, sw, w, n, d, h, wd, od, oh, ow}};
  p.out = c, p.out_row = Cfg::TURNED ? image : 2 * channels, p.out_column = 2;
  p.out_image = channels * image, p.addend = bias;
  // Nothing is left to the epilogue.
  conv<Cfg>(p, begin, end, scratch,
            [](int64_t, int64_t, int64_t, int64_t, int64_t, const float*, int64_t) {{
              __builtin_trap();
            }});
}}
"""
CASES = [
    (conv.square(34, 40, 1), 2, (1, 9, 15), True),  # k's are left: a second pass
    (conv.square(32, 19, 3, padding=1), 2, (1, 9, 19), True),
    (conv.square(16, 33, 3, groups=2, padding=1), 1, (1, 7, 9), False),
    (ConvShape(1, 16, 20, (2, 3, 3), padding=(1, 1, 1)), 2, (3, 4, 18), True),
    (conv.square(3, 20, 3, padding=1), 1, (1, 9, 11), True),  # too few for tiles
]


@pytest.mark.parametrize("unit", ["kBf16Dot", "kBf16Tiles"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("i", range(len(CASES)))
def test_results_are_rounded_and_stored(i, turned, unit):
    shape, n, size, adds = CASES[i]
    case = conv.full(shape, n, size, "bfloat16", channels_last=i % 2 == 0, turned=turned)
    text = conv.HEADER + case.text("only") + RUN.format(adds=str(adds).lower())
    library = build(text, LEVEL, EMULATED[unit])
    rng = np.random.default_rng(seeded(7))
    channels = shape.groups * shape.oc
    x = rng.standard_normal((n, shape.groups * shape.ic, *size)).astype(ml_dtypes.bfloat16)
    w = rng.standard_normal((channels, shape.ic, *shape.kernel)).astype(ml_dtypes.bfloat16)
    bias = rng.standard_normal(channels).astype(ml_dtypes.bfloat16)
    wide = x.astype(np.float64), w.astype(np.float64)
    expected = conv.reference(*wide, shape)
    if adds:
        expected = expected + bias.astype(np.float64)[:, None, None, None]
    bound = conv.reference(*map(np.abs, wide), shape)
    last = case.channels_last
    stored = as_aligned(x.transpose(0, 2, 3, 4, 1) if last else x)
    view = stored.transpose(0, 4, 1, 2, 3) if last else stored
    strides = [s // stored.itemsize for s in view.strides]
    order = (0, 1, 2, 3, 4) if turned else (0, 2, 3, 4, 1)
    out = aligned(tuple(expected.shape[k] for k in order), ml_dtypes.bfloat16)
    pixels, wo = n * int(np.prod(expected.shape[2:])), expected.shape[4]
    blocking = case.blocking
    total = shape.groups * -(-shape.oc // blocking.nb) * -(-pixels // blocking.mb)
    columns = (wo - 1) * shape.stride[2] + (shape.kernel[2] - 1) * shape.dilation[2] + 1
    room = aligned((blocking.scratch_base + columns * blocking.scratch_per_column,), np.uint8)
    packed = as_aligned(pack_conv_weight(w, shape.groups))
    for part in range(3):
        edges = (total * part // 3, total * (part + 1) // 3)
        call(
            library.rounded,
            stored,
            *strides,
            packed,
            n,
            *size,
            *expected.shape[2:],
            out,
            as_aligned(bias),
            *edges,
            room,
        )
    found = out.astype(np.float64)
    found = found if turned else found.transpose(0, 4, 1, 2, 3)
    assert np.all(np.abs(found - expected) <= 2.0**-8 * np.abs(expected) + 1e-4 * bound + 1e-6)
