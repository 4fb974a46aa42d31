"""What the choice of blocks knows of the headers that convolve."""

from __future__ import annotations

import re
from pathlib import Path

from aot.backends.cpp import conv_heuristic

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
