"""Kernel positions that no pixel of a strip meets the data at are left out, copied or in place."""

import itertools

import pytest

from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import levels

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
