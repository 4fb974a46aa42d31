"""Products of float32 in pieces of bfloat16, by the machine's tiles and by emulated ones."""

from dataclasses import replace

import numpy as np
import pytest

from aot.backends.cpp.packing import pack_conv_weight
from aot.backends.cpp.pieces_heuristic import Pieces
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import aligned, as_aligned, build, call, emulated, levels
from tests.settings import seeded

LEVEL = levels()[-1]
EMULATED = emulated("kBf16Tiles")


def cut(shape, n, size, columns, depth, rows):
    k = shape.ic * int(np.prod(shape.kernel))
    return conv.full(shape, n, size, pieces=Pieces(columns, depth, rows, k))


CASES = {
    "one_strip": cut(conv.square(32, 20, 1), 1, (1, 3, 5), 32, 32, 32),
    "strips": cut(conv.square(64, 40, 1), 2, (1, 9, 7), 48, 64, 32),
    "few_columns_at_a_time": cut(conv.square(96, 72, 1, stride=2), 1, (1, 19, 17), 32, 96, 32),
    "taps": cut(conv.square(32, 48, 3, padding=1), 2, (1, 9, 7), 48, 288, 32),
    "chunks": cut(conv.square(64, 33, 3, stride=2, padding=1), 2, (1, 13, 12), 48, 160, 40),
    "chunks_of_one_tap": cut(conv.square(160, 64, 1), 1, (1, 10, 9), 64, 64, 48),
    "joined_runs": cut(conv.square(20, 24, 3, padding=1), 1, (1, 8, 9), 32, 192, 32),
    "groups": cut(conv.square(32, 32, 3, groups=2, padding=1), 1, (1, 6, 7), 32, 288, 32),
    "patch": cut(conv.square(3, 20, 7, stride=2, padding=3), 2, (1, 25, 31), 32, 160, 32),
    "volume": cut(
        conv.ConvShape(1, 32, 20, (2, 1, 3), (1, 2, 1), padding=(1, 0, 1)),
        1,
        (3, 4, 18),
        32,
        192,
        32,
    ),
}


@pytest.mark.parametrize("ahead", ["", EMULATED], ids=["machine", "emulated"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_matches_the_direct_sum(name, pieces, ahead):
    conv.check_case(LEVEL, CASES[name], pieces, ahead)


def product(x, w, case, pieces=1):
    """x (pixels, k) times w (columns, k), as a convolution of one position."""
    library = build(conv.HEADER + case.text("only"), LEVEL, EMULATED)
    out = aligned((len(w), len(x)), np.float32)
    stored, packed = as_aligned(x), as_aligned(pack_conv_weight(w[..., None, None, None], 1))
    k, pixels = x.shape[1], len(x)
    strides = (pixels * k, 1, pixels * k, pixels * k, k)
    room = aligned((case.blocking.scratch_bytes(pixels),), np.uint8)
    total = case.blocking.work(pixels)
    bias = np.zeros(len(w), np.float32)
    for i in range(pieces):
        part = (total * i // pieces, total * (i + 1) // pieces)
        sizes = (1, 1, 1, pixels, 1, 1, pixels)
        call(library["run_only"], stored, *strides, packed, *sizes, out, bias, *part, room)
    return out.T


PIXELS, DEPTH, COLUMNS = 150, 64, 48
WHOLE = cut(conv.square(DEPTH, COLUMNS, 1), 1, (1, 1, PIXELS), 48, 64, 32)
CHUNKS = cut(conv.square(DEPTH, COLUMNS, 1), 1, (1, 1, PIXELS), 48, 32, 64)
BLOCKS = [replace(c, blocking=replace(c.blocking, mb=38, mc=38)) for c in (WHOLE, CHUNKS)]


def operands():
    rng = np.random.default_rng(seeded(3))
    x = rng.standard_normal((PIXELS, DEPTH)).astype(np.float32)
    return x, rng.standard_normal((COLUMNS, DEPTH)).astype(np.float32)


def assert_within(out, x, w):
    wide_x, wide_w = x.astype(np.float64), w.astype(np.float64)
    error = np.abs(out - wide_x @ wide_w.T)
    # Products of two that are both out of the range may be less than floats are.
    assert np.all(error <= 1e-6 * (np.abs(wide_x) @ np.abs(wide_w).T) + 2.0**-126)


@pytest.mark.parametrize("case", BLOCKS, ids=["whole", "chunks"])
def test_rows_and_columns_out_of_range_are_as_exact_as_others(case):
    x, w = operands()
    x[3] *= np.float32(1e-30)
    x[70] *= np.float32(1e30)
    x[140, 50:] = 0
    w[17] *= np.float32(1e-25)
    w[40] = 0
    assert_within(product(x, w, case), x, w)


@pytest.mark.parametrize("case", BLOCKS, ids=["whole", "chunks"])
def test_infinities_and_nan_stay_in_their_rows_and_columns(case):
    x, w = operands()
    clean = product(x, w, case)
    x[5, 7], x[99, 60], x[148, 0] = np.inf, np.nan, -np.inf
    w[20, 9] = np.inf
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float64) @ w.astype(np.float64).T
    out = product(x, w, case)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    infinite = np.isinf(expected)
    np.testing.assert_array_equal(out[infinite], expected[infinite].astype(np.float32))
    rows = np.delete(np.arange(PIXELS), (5, 99, 148))
    columns = np.r_[0:16, 32:COLUMNS]  # panels without an infinity
    np.testing.assert_array_equal(out[np.ix_(rows, columns)], clean[np.ix_(rows, columns)])


@pytest.mark.parametrize("case", BLOCKS, ids=["whole", "chunks"])
def test_bits_do_not_depend_on_how_work_is_divided(case):
    x, w = operands()
    x[33] *= np.float32(1e30)
    w[2] *= np.float32(1e-25)
    np.testing.assert_array_equal(product(x, w, case), product(x, w, case, pieces=4))


def test_errors_are_those_of_float32():
    x, w = operands()
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    ours = np.abs(product(x, w, WHOLE) - exact)
    assert ours.max() <= 2 * np.abs(x @ w.T - exact).max()
