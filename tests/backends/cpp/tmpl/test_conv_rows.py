"""Convolutions over rows of a patch, whose pixels need no pointers, and groups that go together."""

import pytest

from aot.backends.cpp.conv_heuristic import conv_blocking
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl.build import build, levels

LEVEL = levels()[-1]
GROUPS = conv.square(3, 11, 3, groups=4, dilation=2, padding=2)
LINE = conv.ConvShape(1, 4, 20, (1, 1, 5), padding=(0, 0, 4))
VOLUME = conv.ConvShape(1, 3, 9, (2, 3, 3), (1, 2, 1), (2, 1, 1), (1, 0, 1))


def patched(shape, n, size, dtype="float32", **overrides):
    return conv.full(shape, n, size, dtype, **{"patch": True, **overrides})


CASES = {
    "groups": patched(GROUPS, 2, (1, 9, 31), rows=4),
    "several_groups_a_unit": patched(GROUPS, 2, (1, 9, 31), rows=3, mb=31, mc=93),
    "a_constant_length": patched(GROUPS, 1, (1, 9, 31), rows=4, row=31),
    "strides": patched(conv.square(6, 14, 5, groups=2, stride=2, padding=2), 1, (1, 33, 64)),
    "long_sums": patched(conv.square(50, 20, 3, padding=1), 1, (1, 7, 30), rows=2),
    "chunks_of_columns": patched(
        conv.square(4, 70, 3, padding=1), 2, (1, 6, 20), nb=48, nc=32, rows=2
    ),
    "volume": patched(VOLUME, 2, (6, 9, 20), rows=2),
    "doubles": patched(conv.square(5, 13, 3, padding=1), 1, (1, 6, 29), "float64", rows=2),
    "halves": patched(conv.square(5, 13, 3, padding=1), 1, (1, 6, 29), "float16", rows=2),
    "turned": conv.full(
        conv.square(3, 18, 5, padding=2), 2, (1, 9, 40), channels_last=False, turned=True, rows=2
    ),
    "pieces_of_a_row": patched(LINE, 2, (1, 1, 150), columns=64, rows=1, mb=64, mc=64),
    "short_rows": patched(conv.square(3, 11, 3, padding=1), 2, (1, 5, 4), rows=5),
}


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("pieces", [1, 5])
@pytest.mark.parametrize("name", CASES)
def test_matches_the_direct_sum(name, pieces, level):
    conv.check_case(level, CASES[name], pieces)


def test_what_goes_by_rows_and_in_which_order_is_a_constant():
    """Short sums and weights that stay near do; so do groups of a few lines."""
    goes, few = CASES["groups"], CASES["long_sums"]
    deep = patched(conv.square(200, 20, 3, padding=1), 1, (1, 7, 30))
    wide = patched(conv.square(3, 80, 3, groups=2, padding=1), 1, (1, 7, 30))
    texts = [each.text(f"c{i}") for i, each in enumerate((goes, few, deep, wide))]
    facts = "".join(
        f"static_assert(detail::PatchRows<c{i}::Cfg>::kMay == {str(may).lower()});"
        f"static_assert(detail::groups_together<c{i}::Cfg>() == {str(together).lower()});"
        for i, (may, together) in enumerate([(1, 1), (1, 0), (0, 0), (1, 0)])
        for may, together in [(bool(may), bool(together))]
    )
    assert build(conv.HEADER + "".join(texts) + facts, LEVEL)  # a false one does not compile


def chosen(shape, ow=64, **known):
    return conv_blocking(shape, 4 * ow * ow, ow, **known)


def test_channels_are_copied_where_rows_of_a_patch_pay():
    groups = conv.square(33, 16, 3, groups=4, dilation=2, padding=2)
    assert chosen(groups).patch
    assert not chosen(groups, ow=7).patch  # rows are short
    assert not chosen(conv.square(128, 64, 3, padding=1)).patch  # sums are long
    assert not chosen(conv.square(33, 16, 1)).patch  # nothing is read twice
    assert not chosen(groups, varies=True).patch
    assert not chosen(groups, accumulator_bytes=8).patch  # twice the bytes
    assert not chosen(conv.square(56, 512, 3, padding=1), floats=True).patch  # tiles may


def test_runs_too_short_for_tiles_are_gathered_for_them():
    pairs = {"a_bytes": 2, "b_bytes": 2, "pairs": True, "plane": 26 * 26}
    volume = conv.ConvShape(1, 2, 23, (3, 3, 3), padding=(1, 1, 1))
    assert chosen(volume, ow=26, **pairs).gathered
    assert not chosen(conv.square(4, 23, 3, padding=1), ow=26, **pairs).gathered
    assert not chosen(conv.square(1, 8, 2), ow=26, **pairs).gathered
