"""Convolutions of bfloat16 whose pixels' taps are gathered for tiles."""

import pytest

from aot.backends.cpp.conv_heuristic import conv_blocking
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import emulated, levels

LEVEL = levels()[-1]
EMULATED = emulated("kBf16Tiles")


def gathered(shape, n, size, **overrides):
    return conv.full(shape, n, size, "bfloat16", gathered=True, **overrides)


VOLUME = conv.ConvShape(1, 32, 40, (3, 3, 3), dilation=(2, 2, 2), padding=(2, 2, 2))
CASES = {
    "odd_channels": gathered(conv.square(9, 70, 3, padding=1), 2, (1, 7, 7)),
    "volume": gathered(VOLUME, 2, (4, 4, 4)),
    "groups": gathered(conv.square(20, 24, 3, groups=2, stride=2, padding=1), 3, (1, 13, 9)),
    "turned": gathered(conv.square(16, 40, 3, padding=1), 3, (1, 5, 4), turned=True, mb=50, mc=30),
    "deep": gathered(conv.square(512, 20, 3, padding=1), 1, (1, 8, 8), mb=64, mc=64, rows=8),
}


@pytest.mark.parametrize("ahead", ["", EMULATED], ids=["machine", "emulated"])
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_matches_the_direct_sum(name, pieces, ahead):
    conv.check_case(LEVEL, CASES[name], pieces, ahead)


def chosen(oc, ow, plane, k=3):
    shape = conv.square(64, oc, k, padding=k // 2)
    sizes = {"a_bytes": 2, "b_bytes": 2, "pairs": True, "plane": plane}
    return conv_blocking(shape, 4 * plane, ow, **sizes).gathered


def test_short_rows_and_small_planes_are_gathered():
    assert chosen(512, 4, 16)
    assert chosen(256, 7, 49)
    assert chosen(64, 8, 64)


def test_long_rows_few_outputs_and_single_taps_are_not():
    assert not chosen(64, 32, 1024)
    assert not chosen(16, 8, 64)
    assert not chosen(512, 4, 16, k=1)
