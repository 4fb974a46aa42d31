"""Kernel positions that no pixel of a strip meets the data at are left out, copied or in place."""

import itertools

import numpy as np
import pytest

from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import aligned, build, call, levels

LEVEL = levels()[-1]
# Tiles of bfloat16 multiply zeros.
AHEAD = "#define AOT_TMPL_BF16_AT_MOST kBf16Dot\n"
LINE = (conv.square(16, 17, 3, padding=1), 2, (1, 1, 9))
FEW = (conv.square(3, 20, 3, padding=1), 1, (1, 1, 40))
APART = (conv.square(6, 20, 3, dilation=2, padding=2), 2, (1, 2, 9))
VOLUME = (conv.ConvShape(1, 16, 20, (3, 3, 3), padding=(1, 1, 1)), 2, (1, 5, 6))
CASES = {
    "in_place": conv.full(*LINE),
    "chunks": conv.full(*LINE, kb=12),
    "turned": conv.full(*LINE, channels_last=False, turned=True),
    "copied": conv.full(*FEW, channels_last=False),
    "apart": conv.full(*APART, channels_last=False),
    "pairs": conv.full(*LINE, "bfloat16"),
    "widened": conv.full(*LINE, "float16"),
    "volume": conv.full(*VOLUME),
    "volume_copied": conv.full(*VOLUME, channels_last=False),
}


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_positions_outside_the_data_are_left_out(name, pieces):
    kernel = CASES[name].shape.kernel
    middle = 0 if CASES[name].size[0] == 1 and kernel[0] > 1 else 1
    unused = [
        position
        for position in itertools.product(*map(range, kernel))
        if position[middle] != kernel[middle] // 2
    ]
    conv.check_case(LEVEL, CASES[name], pieces, AHEAD, unused)


INTERLEAVE = """
#include "aot/tmpl/pack.h"
using namespace aot::tmpl;
#define EXPORT extern "C" __attribute__((visibility("default")))
#define INTERLEAVE(NAME, S, E, C, LD) \\
  EXPORT void NAME(const S* line, int64_t row, int64_t n, E* out) { \\
    interleave<C, LD>(line, row, n, out); \\
  }
INTERLEAVE(floats, float, float, 37, 37)
INTERLEAVE(doubles, double, double, 16, 16)
INTERLEAVE(halves, F16, float, 19, 19)
INTERLEAVE(pairs, Bf16, Bf16, 39, 40)
"""
KINDS = {
    "floats": (np.float32, np.float32, 37, 37),
    "doubles": (np.float64, np.float64, 16, 16),
    "halves": (np.float16, np.float32, 19, 19),
    "pairs": (np.uint16, np.uint16, 39, 40),
}


@pytest.mark.parametrize("columns", [1, 5, 8, 63, 64, 67, 130, 205])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_interleaved_by_runs_of_columns_and_what_is_left(kind, columns):
    source, result, channels, ld = KINDS[kind]
    rows = np.arange(channels * (columns + 3)).reshape(channels, -1) % 1999
    line = aligned(rows.shape, source)
    line[:] = rows
    out = aligned((columns, ld), result)
    call(build(INTERLEAVE, LEVEL)[kind], line, rows.shape[1], columns, out)
    expected = np.zeros((columns, ld), result)
    expected[:, :channels] = rows[:, :columns].T
    np.testing.assert_array_equal(out, expected)
