"""Winograd's convolutions against a direct sum in float64."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from math import prod

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view

from aot.backends.cpp.conv_heuristic import ConvShape
from aot.backends.cpp.packing import pack_winograd_weight
from aot.backends.cpp.winograd_heuristic import (
    WinogradBlocking,
    least_channels,
    winograd_blocking,
    winograd_tile,
)
from tests.backends.cpp.tmpl.build import (
    EPILOGUE,
    LEVELS,
    aligned,
    as_aligned,
    build,
    call,
    levels,
)
from tests.comparing import difference, roundings_of_sums
from tests.settings import seeded

HEADER = (
    """
#include "aot/tmpl/winograd.h"
using namespace aot::tmpl;
"""
    + EPILOGUE
)
CASE = """
namespace {name} {{
struct Cfg : WinogradConfig {{
  static constexpr int64_t IC = {ic}, OC = {oc}, PH = {ph}, PW = {pw};
  static constexpr int TH = {down}, TW = {across}, SH = {steps[0]}, SW = {steps[1]};
  static constexpr int64_t ROWS = {rows}, COLS = {columns}, NB = {nb};
  static constexpr int64_t DOWN = {tiles[0]}, ACROSS = {tiles[1]};
}};
EXPORT int64_t scratch_{name}() {{ return winograd_scratch<Cfg>(); }}
EXPORT void run_{name}(const float* x, int64_t sn, int64_t sh, int64_t sw, const float* w,
                       int64_t n, int64_t h, int64_t wd, int64_t oh, int64_t ow, float* c,
                       const float* bias, int64_t begin, int64_t end, void* scratch) {{
  const WinogradArgs<Cfg> p{{x, sn, sh, sw, w, n, h, wd, oh, ow}};
  winograd<Cfg>(p, begin, end, scratch, Epilogue<float>{{c, bias, oh * ow, Cfg::OC}});
}}
}}  // namespace {name}
"""


def shape_of(
    ic: int, oc: int, ph: int = 1, pw: int = 1, steps: tuple[int, int] = (1, 1)
) -> ConvShape:
    return ConvShape(1, ic, oc, (1, 3, 3), (1, *steps), padding=(0, ph, pw))


# What is convolved, (images, height, width), its tile, and what is not as the heuristic says.
Case = tuple[ConvShape, tuple[int, int, int], tuple[int, int], dict[str, int]]
CASES: dict[str, Case] = {
    "even": (shape_of(32, 48), (1, 8, 12), (2, 2), {}),
    "even_wide": (shape_of(32, 48), (1, 8, 12), (4, 4), {}),
    "odd": (shape_of(16, 40), (2, 7, 9), (2, 2), {}),
    "odd_tall": (shape_of(16, 40), (2, 7, 9), (4, 2), {}),
    "odd_wide": (shape_of(16, 40), (2, 7, 9), (4, 4), {}),
    "images": (shape_of(48, 64), (3, 3, 3), (4, 2), {"rows": 5}),
    "pieces": (shape_of(16, 70), (2, 9, 13), (2, 2), {"rows": 2, "columns": 3, "nb": 32}),
    "pieces_wide": (shape_of(16, 70), (2, 9, 13), (4, 4), {"rows": 2, "columns": 3, "nb": 32}),
    "bare": (shape_of(16, 16, 0, 0), (1, 6, 5), (2, 4), {}),
    "wide": (shape_of(16, 20, 2, 3), (2, 4, 70), (4, 2), {}),
    "deep": (shape_of(272, 16, 1, 0), (1, 5, 6), (2, 2), {}),
    "none": (shape_of(16, 16), (0, 4, 4), (2, 2), {}),
    "strided": (shape_of(16, 40, steps=(2, 2)), (2, 13, 18), (2, 2), {}),
    "strided_wide": (shape_of(16, 40, steps=(2, 2)), (2, 13, 18), (4, 4), {}),
    "strided_down": (shape_of(32, 16, 0, 1, (2, 1)), (1, 9, 11), (2, 4), {}),
    "strided_across": (shape_of(16, 70, 1, 0, (1, 2)), (2, 9, 13), (4, 2), {"nb": 32}),
    "errs": (shape_of(32, 32), (1, 28, 28), (4, 2), {}),
    "errs_strided": (shape_of(32, 32, steps=(2, 2)), (1, 56, 56), (4, 4), {}),
    "errs_across": (shape_of(32, 32, steps=(1, 2)), (1, 28, 56), (4, 2), {}),
    "errs_deep": (shape_of(512, 32), (1, 12, 12), (4, 4), {}),
}
CONSTANT = ("odd", "images", "pieces", "pieces_wide", "none", "strided")
"""Cases whose numbers of tiles are constants of the template."""


def sizes(name: str) -> tuple[ConvShape, tuple[int, int, int], tuple[int, int]]:
    shape, (n, h, w), *_ = CASES[name]
    down, across = (
        (size + 2 * pad - 3) // step + 1
        for size, pad, step in zip((h, w), shape.padding[1:], shape.stride[1:], strict=True)
    )
    return shape, (n, h, w), (down, across)


def blocking_of(name: str) -> WinogradBlocking:
    shape, (n, *_), out = sizes(name)
    _, _, tile, changes = CASES[name]
    return replace(winograd_blocking(shape, tile, n, *out), **changes)


def text(name: str) -> str:
    b = blocking_of(name)
    _, (n, *_), out = sizes(name)
    tiles = [n * -(-out[0] // b.tile[0]), -(-out[1] // b.tile[1])]
    return HEADER + CASE.format(
        name=name,
        tiles=tiles if name in CONSTANT else (-1, -1),
        ic=b.shape.ic,
        oc=b.shape.oc,
        ph=b.shape.padding[1],
        pw=b.shape.padding[2],
        down=b.tile[0],
        across=b.tile[1],
        steps=b.shape.stride[1:],
        rows=b.rows,
        columns=b.columns,
        nb=b.nb,
    )


@pytest.fixture(params=LEVELS)
def library(request: pytest.FixtureRequest, name: str) -> ctypes.CDLL:
    """Of the test's case."""
    if request.param not in levels():
        pytest.skip(f"this machine does not run {request.param}")
    return build(text(name), request.param)


def reference(x: np.ndarray, w: np.ndarray, shape: ConvShape) -> np.ndarray:
    """x (n, c, h, w) and w in float64."""
    _, ph, pw = shape.padding
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (ph, ph), (pw, pw)])
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    windows = windows[:, :, :: shape.stride[1], :: shape.stride[2]]
    return np.einsum("nchwab,ocab->nohw", windows, w.astype(np.float64))


def run(
    library: ctypes.CDLL, name: str, x: np.ndarray, w: np.ndarray, bias: np.ndarray, pieces: int = 1
) -> np.ndarray:
    shape, (n, *size), out = sizes(name)
    b = blocking_of(name)
    assert library[f"scratch_{name}"]() == b.scratch_bytes
    stored, packed = (
        as_aligned(x.transpose(0, 2, 3, 1)),
        as_aligned(pack_winograd_weight(w, *b.tile, *shape.stride[1:])),
    )
    strides = [stored.strides[k] // stored.itemsize for k in range(3)]
    result = aligned((n, shape.oc, *out), np.float32)
    result[...] = np.nan
    total, room = b.work(n, *out), aligned((b.scratch_bytes,), np.uint8)
    for i in range(pieces):
        part = (total * i // pieces, total * (i + 1) // pieces)
        given = (stored, *strides, packed, n, *size, *out, result, bias)
        call(library[f"run_{name}"], *given, *part, room)
    return result


def operands(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape, (n, *size), _ = sizes(name)
    rng = np.random.default_rng(seeded(7))
    x = rng.standard_normal((n, shape.ic, *size)).astype(np.float32)
    w = rng.standard_normal((shape.oc, shape.ic, 3, 3)).astype(np.float32)
    return x, w, rng.standard_normal(shape.oc).astype(np.float32)


def test_convolutions_of_other_channels_share_what_is_done_to_tiles() -> None:
    alike = ("odd_tall", "images", "wide", "errs")
    assert {CASES[name][2] for name in alike} == {(4, 2)}
    source = "".join((text(alike[0]), *(text(name).removeprefix(HEADER) for name in alike[1:])))
    path = str(build(source, levels()[0])._name)
    names = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=True).stdout
    for shared in ("inputs", "outputs", "by_products"):
        assert len(re.findall(rf"WinogradTiles<[^>]*>::{shared}\(", names)) == 1


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_matches_the_direct_sum(library: ctypes.CDLL, name: str, pieces: int) -> None:
    x, w, bias = operands(name)
    shape, _, tile, _ = CASES[name]
    got = run(library, name, x, w, bias, pieces)
    expected = reference(x, w, shape) + bias.astype(np.float64)[:, None, None]
    bound = reference(np.abs(x), np.abs(w), shape) + np.abs(bias)[:, None, None]
    k = 9 * shape.ic
    # That of the template which multiplies all (test_conv.py); a dimension of 4 doubles it.
    amplified = prod(tile) / 4
    limit = np.finfo(np.float32).eps * (
        np.abs(expected) + amplified * (bound * (2 + np.sqrt(k)) / 2 + 4)
    )
    assert np.all(np.abs(got - expected) <= limit)


def inputs_of(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Inputs of one distribution; a number: that part of them are no zeros."""
    x = rng.standard_normal(shape)
    if kind == "activations":
        x = np.maximum(x, 0)
    elif kind == "offset":
        x += 10
    elif kind == "heavy tails":
        x /= rng.random(shape) + 0.01
    elif kind != "normal":
        x *= rng.random(shape) < float(kind)
    return x.astype(np.float32)


@pytest.mark.parametrize("kind", ["normal", "activations", "offset", "heavy tails", "0.1", "0.03"])
@pytest.mark.parametrize("name", ["errs", "errs_strided", "errs_across", "errs_deep"])
def test_errs_by_what_is_allowed_beside_eager(library: ctypes.CDLL, name: str, kind: str) -> None:
    shape, (n, *size), tile, _ = CASES[name]
    assert shape.ic == least_channels(shape, tile), "the fewest channels that are allowed"
    rng = np.random.default_rng(seeded(3))
    x = inputs_of(kind, (n, shape.ic, *size), rng)
    w = (rng.standard_normal((shape.oc, shape.ic, 3, 3)) / 24).astype(np.float32)
    got = run(library, name, x, w, np.zeros(shape.oc, np.float32))
    given = torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
    eager = torch.conv2d(given, torch.from_numpy(w), stride=shape.stride[1:], padding=1).numpy()
    exact = reference(x, w, shape)

    def another_order() -> np.ndarray:
        return roundings_of_sums(torch.float32) * reference(np.abs(x), np.abs(w), shape)

    assert not difference(got, eager, torch.float32, exact, slack=another_order)


@pytest.mark.parametrize("name", ["odd", "odd_tall", "odd_wide", "strided", "strided_wide"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_no_number_spoils_only_what_reads_it(
    library: ctypes.CDLL, name: str, value: float
) -> None:
    x, w, bias = operands(name)
    x[1, 3, 2, 4] = value
    got = run(library, name, x, w, bias)
    with np.errstate(all="ignore"):
        expected = reference(x, w, CASES[name][0]) + bias.astype(np.float64)[:, None, None]
        expected = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    infinite = np.isinf(expected)
    assert infinite.any() == (not np.isnan(value))
    np.testing.assert_array_equal(got[infinite], expected[infinite])
    finite = np.isfinite(expected) & (np.abs(expected) < 1e6)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "sizes", "tile"),
    [
        (shape_of(64, 64), (1, 56, 56), (4, 2)),
        (shape_of(256, 256), (1, 14, 14), (4, 2)),
        (shape_of(64, 64), (1, 2, 56), (2, 2)),  # a half of greater tiles is not there
        (shape_of(512, 512), (1, 7, 7), (2, 2)),  # few tiles for so much weight
        (shape_of(512, 512), (1, 3, 3), None),
        (shape_of(512, 512), (8, 7, 7), (4, 4)),
        (shape_of(512, 512), (1, 28, 28), (4, 4)),
        (shape_of(64, 64), (64, 1, 9), None),  # half of what is computed is not there
        (shape_of(16, 64), (1, 56, 56), None),
        (shape_of(64, 16), (1, 56, 56), None),
        (shape_of(40, 64), (1, 56, 56), None),  # no whole panels
        (shape_of(64, 64, steps=(2, 2)), (1, 56, 56), (4, 4)),
        (shape_of(256, 256, steps=(2, 2)), (1, 14, 14), (2, 2)),  # few tiles for so much weight
        (shape_of(64, 64, steps=(1, 2)), (1, 56, 56), (4, 2)),
        (shape_of(32, 32, steps=(2, 2)), (1, 56, 56), (4, 4)),  # 0.87 of the direct sum's time
        (shape_of(512, 512, steps=(2, 2)), (1, 7, 7), None),  # a quarter of the tiles is not there
        (shape_of(64, 64, steps=(3, 1)), (1, 56, 56), None),
        (replace(shape_of(64, 64), groups=2), (1, 56, 56), None),
        (replace(shape_of(64, 64), kernel=(1, 5, 5)), (1, 56, 56), None),
    ],
)
def test_where_transforms_pay(
    shape: ConvShape, sizes: tuple[int, int, int], tile: tuple[int, int] | None
) -> None:
    assert winograd_tile(shape, *sizes) == tile


def test_blocks_are_even_and_stay_in_the_cache() -> None:
    found = winograd_blocking(shape_of(128, 128), (2, 2), 1, 28, 28)
    assert (found.rows, found.columns, found.nb) == (2, 14, 64)
    found = winograd_blocking(shape_of(128, 128), (4, 4), 1, 28, 28)
    assert (found.rows, found.columns, found.nb) == (4, 7, 64)
    assert winograd_blocking(shape_of(64, 96), (2, 2), 1, 90, 90).nb == 48
    found = winograd_blocking(shape_of(128, 128, steps=(2, 2)), (4, 4), 1, 28, 28)
    assert (found.rows, found.columns, found.nb) == (2, 7, 64)
    assert winograd_blocking(shape_of(64, 96), (2, 2), 1, 90, 90).columns == 23
