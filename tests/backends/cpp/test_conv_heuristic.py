"""What the choice of blocks knows of the headers that convolve."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from aot.backends.cpp import conv_heuristic
from aot.backends.cpp.conv_heuristic import PATCH_PIXELS, ConvShape, conv_blocking

_HEADERS = Path(conv_heuristic.__file__).parent / "include" / "aot" / "tmpl"


def _number(header: str, pattern: str) -> int:
    (found,) = re.findall(pattern, (_HEADERS / header).read_text(encoding="utf-8"))
    return int(found)


def test_pixels_are_ordered_where_the_header_orders_them() -> None:
    header = "conv_order.h"
    saved, depth, row = (
        conv_heuristic._LEAST_SAVED,
        conv_heuristic._ORDERED_K,
        conv_heuristic._ORDERED_ROW,
    )
    assert _number(header, r"kLeastSaved = (\d+)") == saved
    assert _number(header, r"::kK >= (\d+)") == depth
    assert _number(header, r"kLongest = (\d+)") == row


@pytest.mark.parametrize(("size", "channels", "units"), [(8, 264, 64), (56, 64, 30), (224, 3, 112)])
def test_rows_that_pass_through_scratch_are_shared_out_among_threads(
    size: int, channels: int, units: int
) -> None:
    """However many rows a patch of one thread has."""
    shape = ConvShape(1, channels, 33, (1, 3, 3), padding=(0, 1, 1))
    pixels = size * size * (8 if size == 8 else 1)
    blocking = conv_blocking(shape, pixels, size, channels_contiguous=False)
    assert blocking.rows * size > blocking.mb or size == 224
    assert blocking.work(pixels) >= units
    assert blocking.mc == min(blocking.rows * size, PATCH_PIXELS)


def test_long_rows_of_one_axis_go_in_pieces_that_stay_near() -> None:
    """A row of 352 channels does not; and threads share its pieces."""
    line = ConvShape(1, 352, 64, (1, 1, 3), padding=(0, 0, 1))
    blocking = conv_blocking(line, 4096, 4096, channels_contiguous=False, plane=4096)
    assert blocking.rows == 1
    assert blocking.columns * 352 * 4 <= conv_heuristic._PIECE_BYTES
    assert blocking.work(4096) >= 32
    assert blocking.scratch_per_column == 0
    image = replace(line, kernel=(1, 3, 3))  # rows of output share those of input
    assert conv_blocking(image, 4096 * 9, 4096, channels_contiguous=False).columns == 0
    few = replace(line, ic=3)
    assert conv_blocking(few, 400, 400, channels_contiguous=False, plane=400).columns == 0
    varying = conv_blocking(few, 40, 40, channels_contiguous=False, plane=40, varies=True)
    assert varying.columns == PATCH_PIXELS  # however long a row is


def test_few_outputs_keep_a_block_of_pixels_near_and_take_taps_whole() -> None:
    """Each tap reads the block's pixels again, for the products of one panel at most."""
    few, many = (
        ConvShape(1, 296, oc, (1, 5, 5), dilation=(1, 2, 2), padding=(0, 4, 4)) for oc in (8, 64)
    )
    block, wide = (conv_blocking(shape, 6272, 56) for shape in (few, many))
    assert block.mc * few.ic * 4 <= conv_heuristic._ORDERED_BYTES < wide.mc * few.ic * 4
    assert block.kb == few.ic  # 256 would cut it
    assert wide.kb < few.ic
