"""The convolution templates against a direct sum in float64."""

import itertools
from dataclasses import dataclass, replace
from math import prod

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.conv_heuristic import (
    ConvBlocking,
    ConvShape,
    PlanesBlocking,
    by_planes,
    conv_blocking,
    planes_blocking,
    turned_planes,
    varying_planes,
)
from aot.backends.cpp.packing import (
    pack_conv_weight,
    pack_depthwise_weight,
    pack_planes_weight,
)
from aot.backends.cpp.pieces_heuristic import pieces_blocking
from tests.backends.cpp.tmpl.build import (
    EPILOGUE,
    LEVELS,
    aligned,
    as_aligned,
    build,
    call,
    levels,
)
from tests.settings import seeded

HEADER = (
    """
#include "aot/tmpl/conv.h"
#include "aot/tmpl/depthwise.h"
#include "aot/tmpl/planes.h"
using namespace aot::tmpl;
"""
    + EPILOGUE
)
CONFIG = """
namespace {name} {{
struct Cfg : {base} {{
  using A = {a};
  static constexpr int64_t KD = {kernel[0]}, KH = {kernel[1]}, KW = {kernel[2]};
  static constexpr int64_t SD = {stride[0]}, SH = {stride[1]}, SW = {stride[2]};
  static constexpr int64_t DD = {dilation[0]}, DH = {dilation[1]}, DW = {dilation[2]};
  static constexpr int64_t PD = {padding[0]}, PH = {padding[1]}, PW = {padding[2]};
"""
ARGUMENTS = """
EXPORT void run_{name}(const Cfg::A* x, int64_t sn, int64_t sc, int64_t sd, int64_t sh, int64_t sw,
                       const Cfg::A* w, int64_t n, int64_t d, int64_t h, int64_t wd, int64_t od,
                       int64_t oh, int64_t ow, compute_t<Cfg::A>* c, const compute_t<Cfg::A>* bias,
                       int64_t begin, int64_t end, void* scratch) {{
"""
CONV = (
    CONFIG
    + """
  using B = A;
  static constexpr int64_t G = {g}, IC = {ic}, OC = {oc};
  static constexpr int64_t MB = {mb}, NB = {nb}, MC = {mc}, NC = {nc}, KB = {kb}, ROWS = {rows};
  static constexpr bool PATCH = {patch}, TURNED = {turned};
{cut}
}};
EXPORT int64_t scratch_{name}(int64_t iw) {{ return conv_scratch<Cfg>(iw); }}
"""
    + ARGUMENTS
    + """
  const ConvArgs<Cfg> p{{x, sn, sc, sd, sh, sw, w, n, d, h, wd, od, oh, ow}};
  conv<Cfg>(p, begin, end, scratch,
            Epilogue<compute_t<Cfg::A>, Cfg::TURNED>{{c, bias, od * oh * ow, Cfg::G * Cfg::OC}});
}}
}}  // namespace {name}
"""
)
DEPTHWISE = (
    CONFIG
    + """
  static constexpr int64_t C = {g};
  static constexpr bool TURNED = {turned};
}};
EXPORT int64_t scratch_{name}() {{ return depthwise_scratch<Cfg>(); }}
"""
    + ARGUMENTS
    + """
  (void)sc;
  const DepthwiseArgs<Cfg> p{{x, sn, sd, sh, sw, w, n, d, h, wd, od, oh, ow}};
  depthwise<Cfg>(p, begin, end, scratch,
                 Epilogue<compute_t<Cfg::A>, Cfg::TURNED>{{c, bias, od * oh * ow, Cfg::C}});
}}
}}  // namespace {name}
"""
)
PLANES = (
    CONFIG
    + """
  static constexpr int64_t G = {g}, IC = {ic}, OC = {oc}, ROWS = {rows}, COLS = {columns};
  static constexpr bool LONE = {lone}, LAST = {last};
  static constexpr int64_t BUNDLE = {bundle}, IB = {inputs};
}};
EXPORT int64_t scratch_{name}() {{ return planes_scratch<Cfg>(); }}
"""
    + ARGUMENTS
    + """
  const PlanesArgs<Cfg> p{{x, sn, sc, sd, sh, sw, w, n, d, h, wd, od, oh, ow}};
  constexpr bool turned = !Cfg::LONE && !Cfg::LAST;
  planes<Cfg>(p, begin, end, scratch,
              Epilogue<compute_t<Cfg::A>, turned>{{c, bias, od * oh * ow, Cfg::G * Cfg::OC}});
}}
}}  // namespace {name}
"""
)
CTYPES = {"float32": "float", "float64": "double", "bfloat16": "Bf16", "float16": "F16"}


@pytest.fixture(params=LEVELS)
def level(request):
    if request.param not in levels():
        pytest.skip(f"this machine does not run {request.param}")
    return request.param


def reference(x, w, shape):
    """x (n, groups * ic, d, h, w), w (groups * oc, ic, *kernel) in float64."""
    pads = [(0, 0), (0, 0)] + [(p, p) for p in shape.padding]
    x = np.pad(x, pads)
    out = [
        (x.shape[2 + i] - (shape.kernel[i] - 1) * shape.dilation[i] - 1) // shape.stride[i] + 1
        for i in range(3)
    ]
    result = np.zeros((x.shape[0], shape.groups, shape.oc, *out))
    grouped = x.reshape(x.shape[0], shape.groups, shape.ic, *x.shape[2:])
    weight = w.reshape(shape.groups, shape.oc, shape.ic, *shape.kernel)
    for position in itertools.product(*map(range, shape.kernel)):
        window = tuple(
            slice(k * d, k * d + (o - 1) * s + 1, s)
            for k, d, o, s in zip(position, shape.dilation, out, shape.stride, strict=True)
        )
        result += np.einsum("ngcdhw,gkc->ngkdhw", grouped[(..., *window)], weight[(..., *position)])
    return result.reshape(x.shape[0], shape.groups * shape.oc, *out)


def check(
    function,
    shape,
    n,
    size,
    dtype,
    work,
    scratch,
    packer,
    *,
    channels_last=True,
    pieces=1,
    unused=(),
):
    """`unused`: kernel positions that no pixel meets the data at, whose weights are not numbers."""
    element = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    compute = np.float32 if np.dtype(element).itemsize == 2 else element
    rng = np.random.default_rng(seeded(7))
    x = rng.standard_normal((n, shape.groups * shape.ic, *size)).astype(element)
    w = rng.standard_normal((shape.groups * shape.oc, shape.ic, *shape.kernel)).astype(element)
    bias = rng.standard_normal(shape.groups * shape.oc).astype(compute)
    expected = reference(x.astype(np.float64), w.astype(np.float64), shape)
    bound = reference(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), shape)
    for position in unused:
        w[(..., *position)] = np.nan
    axes = (0, 2, 3, 4, 1)
    stored = as_aligned(x.transpose(axes) if channels_last else x)
    view = stored.transpose(0, 4, 1, 2, 3) if channels_last else stored
    strides = [s // stored.itemsize for s in view.strides]
    packed = as_aligned(packer(w))
    out = aligned(expected.shape, compute)
    pixels = n * int(np.prod(expected.shape[2:]))
    total = work(pixels, expected.shape)
    size_bytes = scratch(expected.shape[4])
    room = aligned((size_bytes,), np.uint8)
    for i in range(pieces):
        call(
            function,
            stored,
            *strides,
            packed,
            n,
            *size,
            *expected.shape[2:],
            out,
            bias,
            total * i // pieces,
            total * (i + 1) // pieces,
            room,
        )
    error = np.abs(out - expected - bias.astype(np.float64)[:, None, None, None])
    k = shape.ic * np.prod(shape.kernel)
    limit = np.finfo(compute).eps * (np.abs(expected) + bound * (2 + np.sqrt(k)) / 2 + 4)
    assert np.all(error <= limit)


@dataclass(frozen=True)
class Case:
    """A convolution on data of some size: one instantiation of a template."""

    shape: ConvShape
    n: int
    size: tuple[int, int, int]
    dtype: str = "float32"
    channels_last: bool = True
    blocking: ConvBlocking | PlanesBlocking | None = None
    lone: bool = False
    turned: bool = False
    row: int = -1  # pixels of a row of output, where that is a constant

    def text(self, name: str) -> str:
        b, shape = self.blocking, self.shape
        common = {
            "name": name,
            "a": CTYPES[self.dtype],
            "kernel": shape.kernel,
            "stride": shape.stride,
            "dilation": shape.dilation,
            "padding": shape.padding,
            "g": shape.groups,
        }
        if b is None:
            turned = str(self.turned).lower()
            return DEPTHWISE.format(base="DepthwiseConfig", turned=turned, **common)
        if isinstance(b, PlanesBlocking):
            sizes = {"rows": b.rows, "columns": b.columns, "bundle": b.bundle}
            sizes["inputs"] = b.inputs
            sizes.update(lone=str(self.lone).lower(), last=str(b.last).lower())
            return PLANES.format(base="PlanesConfig", ic=shape.ic, oc=shape.oc, **sizes, **common)
        flags = {"patch": str(b.patch).lower(), "turned": str(b.turned).lower(), "cut": ""}
        if b.pieces is not None:
            cut = f"PN = {b.pieces.columns}, PK = {b.pieces.depth}, PM = {b.pieces.rows}"
            flags["cut"] = f"static constexpr bool PIECES = true;\nstatic constexpr int64_t {cut};"
        if b.spread > 1:
            flags["cut"] = f"static constexpr int64_t SPREAD = {b.spread};"
        if b.gathered:
            flags["cut"] = "static constexpr bool GATHERED = true;"
        if b.even:
            pixels = self.n * prod(self.size)
            flags["cut"] = "static constexpr bool EVEN = true;"
            flags["cut"] += f"\nstatic constexpr int64_t PIXELS = {pixels};"
        if b.columns:
            flags["cut"] += f"static constexpr int64_t COLS = {b.columns};"
        flags["cut"] += f"static constexpr int64_t COLUMNS = {self.row};"
        sizes = {"mb": b.mb, "nb": b.nb, "mc": b.mc, "nc": b.nc, "kb": b.kb, "rows": b.rows}
        return CONV.format(base="ConvConfig", ic=shape.ic, oc=shape.oc, **flags, **sizes, **common)


def full(shape, n, size, dtype="float32", channels_last=True, row=-1, **overrides) -> Case:
    half = 2 if dtype in ("bfloat16", "float16") else None
    blocking = conv_blocking(
        shape,
        200,
        12,
        channels_contiguous=channels_last,
        accumulator_bytes=8 if dtype == "float64" else 4,
        a_bytes=half,
        b_bytes=half,
        pairs=dtype == "bfloat16",
    )
    blocking = replace(blocking, **overrides)
    return Case(shape, n, size, dtype, channels_last, blocking, row=row)


def in_planes(shape, n, size, dtype="float32", lone=False, last=False, **overrides) -> Case:
    blocking = planes_blocking(
        shape,
        6,
        40,
        accumulator_bytes=8 if dtype == "float64" else 4,
        narrow=dtype in ("bfloat16", "float16"),
        last=last,
    )
    return Case(shape, n, size, dtype, last, replace(blocking, **overrides), lone)


def square(ic, oc, k, *, groups=1, stride=1, dilation=1, padding=0):
    return ConvShape(
        groups,
        ic,
        oc,
        (1, k, k),
        (1, stride, stride),
        (1, dilation, dilation),
        (0, padding, padding),
    )


CASES = [
    (square(20, 40, 1), 2, (1, 9, 7)),
    (square(16, 17, 3, padding=1), 2, (1, 9, 7)),
    (square(33, 48, 3, stride=2, padding=1), 1, (1, 12, 13)),
    (square(16, 20, 3, dilation=2, padding=2), 1, (1, 8, 9)),
    (square(16, 24, 3, groups=3, padding=1), 2, (1, 5, 6)),
    (square(64, 16, 1, stride=2), 1, (1, 7, 7)),
    (square(100, 20, 3, padding=1), 1, (1, 14, 14)),
    (ConvShape(1, 16, 20, (1, 1, 5), padding=(0, 0, 4)), 2, (1, 1, 20)),
    (ConvShape(1, 16, 20, (3, 2, 3), (2, 1, 1), (1, 2, 1), (1, 1, 2)), 2, (5, 6, 7)),
    # Pixels that miss the same taps are neighbours while they are computed.
    (ConvShape(1, 33, 17, (3, 3, 3), dilation=(2, 2, 2), padding=(2, 2, 2)), 2, (3, 5, 8)),
]
EVEN = [  # by panels, all of K or in chunks; by strips, where K is a chunk; groups; several images
    (square(20, 40, 1), 2, (1, 9, 7), {}),
    (square(100, 70, 1), 2, (1, 9, 7), {"kb": 48}),
    (square(33, 130, 1), 1, (1, 13, 17), {"mb": 42, "mc": 42, "nb": 48}),
    (square(40, 24, 1, groups=3), 1, (3, 5, 9), {"mb": 32, "mc": 20, "nc": 16, "nb": 16}),
    (ConvShape(1, 300, 33, (1, 1, 1)), 1, (3, 5, 7), {"mb": 38, "mc": 19, "kb": 128}),
]
PATCHED = [
    (square(3, 20, 7, stride=2, padding=3), 2, (1, 25, 31)),
    (square(1, 8, 5, padding=2), 1, (1, 6, 5)),
    (square(4, 8, 3, dilation=3, padding=3), 1, (1, 9, 10)),
    (square(2, 5, 3, groups=4, padding=1), 2, (1, 6, 7)),
    (ConvShape(1, 3, 9, (2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 1)), 2, (6, 7, 8)),
    (square(3, 4, 3, padding=4), 1, (1, 1, 2)),
    (square(30, 40, 3, dilation=2, padding=2), 2, (1, 9, 10)),  # in another order, as above
]
TILED = [  # a tap's run of k fills tiles: on machines that have those, they multiply it
    (square(32, 40, 3, padding=1), 2, (1, 9, 19)),
    (square(64, 33, 1), 2, (1, 5, 7)),
    (square(32, 72, 3, stride=2, dilation=2, padding=2), 1, (1, 21, 42)),
    (square(32, 16, 3, groups=2, padding=1), 1, (1, 3, 70)),
    (square(7, 9, 3, groups=3, dilation=2, padding=2), 2, (1, 9, 19)),  # few channels, apart
    (square(4, 16, 5, groups=2, padding=2), 1, (1, 7, 9)),
    (ConvShape(1, 32, 20, (2, 1, 3), (1, 2, 1), padding=(1, 0, 1)), 1, (3, 4, 18)),
]
PIECES = [  # of a row, whose patches have padding on one side, on none or on both
    (ConvShape(1, 20, 24, (1, 1, 5), padding=(0, 0, 4)), 2, (1, 1, 75)),
    (ConvShape(2, 17, 9, (1, 1, 3), (1, 1, 2), padding=(0, 0, 1)), 2, (1, 1, 83)),
    (ConvShape(1, 33, 20, (1, 1, 3), dilation=(1, 1, 7), padding=(0, 0, 40)), 1, (1, 1, 30)),
    (ConvShape(1, 3, 20, (2, 3, 3), (1, 2, 1), padding=(1, 1, 1)), 1, (3, 5, 40)),
]
DEPTHWISE_CASES = [
    (square(1, 1, 3, groups=40, padding=1), 2, (1, 9, 21)),
    (square(1, 1, 3, groups=33, stride=2, padding=1), 2, (1, 12, 30)),
    (square(1, 1, 5, groups=300, padding=2), 1, (1, 5, 18)),
    (square(1, 1, 3, groups=16, dilation=2, padding=2), 1, (1, 7, 20)),
    (square(1, 1, 3, groups=5, padding=3), 1, (1, 2, 1)),
    (ConvShape(20, 1, 1, (2, 3, 3), (1, 1, 2), (2, 1, 1), (1, 1, 0)), 2, (4, 5, 17)),
    (square(1, 1, 3, groups=600, padding=1), 1, (1, 3, 34)),
    (square(1, 1, 3, groups=2000, padding=1), 1, (1, 4, 37)),  # runs of channels and of columns
]
PLANES_CASES = [
    (square(1, 1, 3, groups=7, padding=1), 2, (1, 19, 40)),
    (square(1, 1, 5, groups=3, stride=2, padding=2), 2, (1, 23, 75)),
    (square(1, 2, 3, groups=4, padding=1), 1, (1, 9, 9)),
    (square(1, 1, 3, groups=3, padding=3), 1, (1, 2, 1)),
    (square(3, 23, 3, stride=2, padding=1), 2, (1, 21, 66)),
    (square(4, 6, 4, stride=4), 1, (1, 16, 140)),
    (square(4, 7, 3, groups=2, dilation=2, padding=2), 1, (1, 8, 33)),
    (square(2, 3, 3, stride=2, dilation=3, padding=3), 1, (1, 9, 40)),
    (square(1, 4, 3, padding=5), 1, (1, 3, 2)),
    (square(2, 3, 3), 0, (1, 9, 40)),
    (ConvShape(2, 3, 5, (1, 1, 9), (1, 1, 3), padding=(0, 0, 4)), 2, (1, 1, 200)),
    (ConvShape(2, 3, 4, (2, 3, 3), (2, 1, 2), (1, 2, 1), (1, 1, 2)), 2, (5, 6, 30)),
]
STRIPS = [  # of rows of a lone channel, short ones; volumes whose planes stay for the next ones
    (square(1, 1, 7, groups=5, padding=3), 1, (1, 11, 11)),
    (square(1, 1, 3, groups=4, stride=2, dilation=3, padding=3), 1, (1, 22, 21)),
    (square(2, 1, 3, groups=2, stride=3, padding=1), 2, (1, 17, 29)),
    (ConvShape(5, 1, 1, (3, 3, 3), padding=(1, 1, 1)), 2, (7, 6, 17)),
    (ConvShape(3, 2, 3, (3, 3, 3), (2, 2, 2), padding=(1, 1, 1)), 2, (9, 11, 18)),
    (ConvShape(2, 1, 1, (4, 3, 2), (1, 1, 1), (1, 2, 2), (2, 2, 1)), 1, (5, 6, 9)),
    (ConvShape(2, 1, 1, (3, 1, 3), (1, 1, 2), padding=(2, 0, 1)), 1, (4, 5, 33)),
]
CHUNKS = [  # of input channels, of which the last one has fewer; some by hand
    (square(64, 4, 3, groups=2, dilation=2, padding=2), 2, (1, 13, 40), {}),
    (square(50, 1, 3, padding=1), 1, (1, 9, 11), {"inputs": 13}),
    (square(200, 7, 3, stride=2, padding=1), 1, (1, 12, 29), {}),
    (ConvShape(2, 20, 3, (3, 3, 3), padding=(1, 1, 1)), 1, (4, 5, 17), {"inputs": 8}),
    (square(512, 2, 1), 1, (1, 6, 19), {"inputs": 100}),
    (square(2, 3, 7, stride=4, padding=3), 1, (1, 9, 150), {}),  # lines in quarters, and ends
]
LAST_CASES = [
    *PLANES_CASES,
    (square(4, 4, 3, groups=9, padding=1), 2, (1, 11, 21)),
    (square(17, 3, 3, groups=2, stride=2, padding=1), 1, (1, 13, 29)),
    (square(33, 9, 3, padding=1), 1, (1, 7, 19)),
    (square(1, 2, 7, groups=20, stride=3, dilation=2, padding=6), 1, (1, 31, 30)),
]


def cases_in_channels() -> dict[str, Case]:
    table = {f"conv{i}": full(*case) for i, case in enumerate(CASES)}
    for i, (*case, sizes) in enumerate(EVEN):
        table[f"even{i}"] = full(*case, "float64" if i == 4 else "float32", even=True, **sizes)
    for i, case in enumerate(PATCHED):
        table[f"few{i}_last"] = full(*case)
        table[f"few{i}_first"] = full(*case, channels_last=False)
        table[f"few{i}_turned"] = full(*case, channels_last=i % 2 > 0, turned=True)
    for i, case in enumerate(TILED):
        table[f"tiled{i}"] = full(*case, dtype="bfloat16", channels_last=i in (0, 2, 4, 5))
    table["tiled_turned"] = full(*TILED[0], "bfloat16", False, turned=True)
    table["tiled_split"] = full(*TILED[0], "bfloat16", mb=38, mc=21, rows=2, nc=16, nb=16)
    pieces = pieces_blocking(200, 17, 27, 33)  # tiles' machines do not put pixels in order
    table["conv9_pieces"] = full(*CASES[9], pieces=pieces)
    table["conv9_float64"] = full(*CASES[9], "float64", mb=24, mc=100)
    table["split"] = full(*PATCHED[0], mb=19, mc=19, rows=2)
    table["first1"] = full(*CASES[1], channels_last=False)
    table["turned1"] = full(*CASES[1], channels_last=False, turned=True)
    table["turned1_large"] = full(
        square(16, 17, 3, padding=1), 2, (1, 19, 17), "float32", False, turned=True, kb=640
    )
    table["turned1_last"] = full(*CASES[1], turned=True, mb=50, mc=30)  # 63 pixels an image
    table["turned8_last"] = full(*CASES[8], turned=True)
    table["half_float64"] = full(*CASES[1], "float64")
    table["turned2_float64"] = full(*CASES[2], "float64", False, turned=True)
    table["turned8_bfloat16"] = full(*CASES[8], "bfloat16", False, turned=True)
    table["turned_chunks"] = full(*CASES[6], "bfloat16", turned=True, kb=40, nc=16, nb=16)
    table["first8"] = full(*CASES[8], channels_last=False)
    table["chunks"] = full(*CASES[6], kb=40, mb=50, mc=30, nc=16, nb=16)
    for dtype in ("float64", "bfloat16", "float16"):
        table[f"conv2_{dtype}"] = full(*CASES[2], dtype=dtype)
        table[f"conv8_{dtype}"] = full(*CASES[8], dtype=dtype)
        for i in (0, 1):
            table[f"few{i}_{dtype}"] = full(*PATCHED[i], dtype=dtype)
    for dtype in ("float64", "bfloat16", "float16"):
        for i, case in enumerate((*CASES[1:4], *PATCHED)):
            table[f"first{i}_{dtype}"] = full(*case, dtype=dtype, channels_last=False)
    table["chunks_pairs"] = full(*CASES[6], "bfloat16", kb=40, mb=50, mc=30, nc=16, nb=16)
    for dtype in ("float32", "float64", "bfloat16"):
        for i, case in enumerate(PIECES):
            sizes = {"rows": 1, "columns": 16, "mb": 37}  # units end anywhere
            table[f"row{i}_{dtype}"] = full(*case, dtype, False, turned=i != 1, **sizes)
        for i, case in enumerate(DEPTHWISE_CASES):
            table[f"depthwise{i}_{dtype}"] = Case(*case, dtype=dtype)
            if i in (1, 2, 5, 6):
                table[f"depthwise{i}_{dtype}_turned"] = Case(*case, dtype=dtype, turned=True)
    # An input that is far: pixels of whole lines, an odd number of columns.
    table["depthwise_far"] = Case(square(1, 1, 3, groups=64, stride=2, padding=1), 2, (1, 61, 93))
    return table


def cases_in_planes() -> dict[str, Case]:
    table = {}
    for i, case in enumerate(PLANES_CASES):
        table[f"planes{i}"] = in_planes(*case)
    for dtype in ("float64", "bfloat16", "float16"):
        for i in (1, 3, 4, 6):
            table[f"planes{i}_{dtype}"] = in_planes(*PLANES_CASES[i], dtype=dtype)
    for i, case in enumerate(STRIPS):
        table[f"strips{i}"] = in_planes(*case, lone=case[0].oc == 1)
        for dtype in ("float64", "bfloat16", "float16"):
            table[f"strips{i}_{dtype}"] = in_planes(*case, dtype=dtype)
    for i, (*case, sizes) in enumerate(CHUNKS):
        for dtype in ("float32", "float64", "bfloat16"):
            table[f"chunks{i}_{dtype}"] = in_planes(*case, dtype=dtype, **sizes)
    table["chunks_lone"] = in_planes(*CHUNKS[1][:3], lone=True, inputs=7)
    for i, case in enumerate(LAST_CASES):
        table[f"last{i}"] = in_planes(*case, last=True)
    for dtype in ("float64", "bfloat16", "float16"):
        for i in (1, 4, 12, 13):
            table[f"last{i}_{dtype}"] = in_planes(*LAST_CASES[i], dtype=dtype, last=True)
    table["last_pieces"] = in_planes(*LAST_CASES[12], last=True, rows=2, columns=10)
    table["planes_lone"] = in_planes(*PLANES_CASES[0], lone=True)
    table["lone_pieces"] = in_planes(*CHUNKS[1][:3], lone=True, inputs=7, rows=5, columns=10)
    table["strips_pieces"] = in_planes(*STRIPS[0], lone=True, rows=9, columns=10)
    table["planes_pieces"] = in_planes(*PLANES_CASES[4], rows=2, columns=10)
    return table


ALL = cases_in_channels() | cases_in_planes()


def test_channels_are_turned_where_panels_are_mostly_empty_and_blocks_read_them_once():
    few = square(32, 2, 3, padding=1)
    assert turned_planes(few, 24, 24, dots=False)
    assert not turned_planes(few, 24, 7, dots=False)  # no vector of pixels
    assert not turned_planes(square(32, 12, 3, padding=1), 24, 24, dots=False)
    assert not turned_planes(square(432, 24, 1), 16, 16, dots=False)  # each is used 24 times
    # Blocks of one row of output read every row of input three times.
    assert not turned_planes(square(512, 5, 3, padding=1), 24, 24, dots=False)


def test_half_empty_panels_of_pairs_are_as_fast_as_vectors_along_pixels():
    half, quarter = (square(16, oc, 3, groups=8, padding=1) for oc in (8, 4))
    assert by_planes(half, 19, dots=False) and not by_planes(half, 19, dots=True)
    assert by_planes(quarter, 19, dots=True)
    assert by_planes(square(2, 8, 3, padding=1), 19, dots=True)  # a short sum
    assert not by_planes(quarter, 7, dots=True)


def test_long_sums_of_few_outputs_go_along_pixels_in_chunks_of_channels():
    four, eight = square(64, 4, 3, padding=1), square(64, 8, 3, padding=1)
    one, groups = square(64, 1, 3, padding=1), square(64, 4, 3, groups=2, padding=1)
    assert by_planes(one, 40, dots=True) and by_planes(eight, 40, dots=False)
    assert by_planes(groups, 40, dots=True), "which no tiles have been seen to be better at"
    assert not by_planes(four, 40, dots=True) and not by_planes(eight, 40, dots=True)
    assert planes_blocking(four, 40, 128).inputs < 64
    assert planes_blocking(square(16, 4, 3, padding=1), 40, 128).inputs == 16


def test_rows_of_unknown_length_go_in_pieces_that_copy_little():
    """A block of one row alone would copy each line of input for all the rows that read it."""
    reaching = ConvShape(2, 55, 6, (1, 7, 7), dilation=(1, 2, 2), padding=(0, 6, 6))
    assert planes_blocking(reaching, 14, 64, last=True).rows == 1
    found = varying_planes(reaching, 14, 14, last=True)
    assert found.columns == 32 and found.rows > 1
    near = square(4, 8, 3, padding=1)
    assert varying_planes(near, 40, 20) == planes_blocking(near, 40, 64)
    assert varying_planes(near, 40, 200) == planes_blocking(near, 40, 200)


def test_blocks_hold_more_pixels_where_many_of_them_miss_taps():
    volume = ConvShape(2, 64, 64, (3, 3, 3), padding=(1, 1, 1))
    short, long = (conv_blocking(volume, 1000, ow) for ow in (5, 200))
    assert short.mc == 733 and short.mb == long.mb == long.mc
    few = conv_blocking(replace(volume, ic=2), 1000, 5)
    assert few.mc == 445, "whole rows of a patch: of short sums little is left out"


def test_tiles_do_not_multiply_what_is_mostly_outside():
    far = ConvShape(1, 64, 512, (3, 3, 3), dilation=(2, 2, 2), padding=(2, 2, 2))
    assert conv_blocking(far, 256, 4, floats=True).pieces is None
    assert conv_blocking(far, 4096, 16, floats=True).pieces is not None
    near = replace(far, dilation=(1, 1, 1), padding=(1, 1, 1))
    assert conv_blocking(near, 256, 4, floats=True).pieces is not None


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", ALL)
def test_matches_the_direct_sum(level, name, pieces):
    check_case(level, ALL[name], pieces)


def check_case(level, case, pieces, ahead="", unused=()):
    """Runs a case in so many pieces; `ahead` as in `build`, `unused` as in `check`."""
    name = "only"
    library = build(HEADER + case.text(name), level, ahead)
    shape, blocking = case.shape, case.blocking

    def work(pixels, out_shape):
        if blocking is None:
            return case.n * out_shape[2] * out_shape[3]
        if isinstance(blocking, PlanesBlocking):
            bundles = -(-shape.groups // blocking.bundle)
            return case.n * bundles * out_shape[2] * -(-out_shape[3] // blocking.rows)
        return blocking.work(pixels)

    def scratch(ow):
        if blocking is None:
            return library[f"scratch_{name}"]()
        if isinstance(blocking, PlanesBlocking):
            assert library[f"scratch_{name}"]() == blocking.scratch_bytes
            return blocking.scratch_bytes
        iw = (ow - 1) * shape.stride[2] + (shape.kernel[2] - 1) * shape.dilation[2] + 1
        assert library[f"scratch_{name}"](iw) == blocking.scratch_bytes(ow)
        return blocking.scratch_bytes(ow)

    def packer(w):
        if blocking is None:
            return pack_depthwise_weight(w)
        pack = pack_planes_weight if isinstance(blocking, PlanesBlocking) else pack_conv_weight
        return pack(w, shape.groups)

    check(
        library[f"run_{name}"],
        shape,
        case.n,
        case.size,
        case.dtype,
        work,
        scratch,
        packer,
        channels_last=case.channels_last,
        pieces=pieces,
        unused=unused,
    )


@pytest.mark.parametrize("spread", [2, 4])
def test_turned_tiles_have_room_for_phases_side_by_side(level, spread):
    """Both sides reckon with as much: too little scratch overwrites what is behind it."""
    shape = ConvShape(1, 8, 512, (1, 1, 1), (1, 1, 1))
    blocking = conv_blocking(shape, 4096, 256, turned=True, spread=spread, a_bytes=2, b_bytes=2)
    text = Case(shape, 1, (1, 16, 256), "bfloat16", blocking=blocking, turned=True).text("v")
    assert build(HEADER + text, level)["scratch_v"](256) == blocking.scratch_bytes(256)
