"""Windows of a resize: taps, panels for a device's vectors, and what panels read."""

from __future__ import annotations

import pytest

from aot.ir.templates.windows import AxisWindows
from aot.symbolic import as_expr, dim, evaluate


def known(outputs: int, size: int = 100) -> AxisWindows:
    """Each output reads 4 inputs, from twice its place on."""
    each = tuple((2 * k, min(2 * k + 4, size)) for k in range(outputs))
    return AxisWindows(as_expr(size), as_expr(2), as_expr(4), each)


@pytest.mark.parametrize(
    ("outputs", "lanes", "panel"),
    [(48, 16, 16), (40, 16, 10), (40, 8, 8), (27, 16, 9), (13, 4, 4), (34, 16, 16), (7, 1, 1)],
)
def test_panels_divide_the_outputs_or_fill_a_vector(outputs: int, lanes: int, panel: int) -> None:
    assert known(outputs).panel(lanes) == panel


def test_a_panel_reads_from_its_first_input_to_its_last_one() -> None:
    assert known(40).taps == 4
    assert known(40).span(10) == 2 * 9 + 4
    assert known(8, size=12).span(8) == 12


def test_of_unknown_sizes_there_are_bounds() -> None:
    windows = AxisWindows(dim("s0"), as_expr(2), as_expr(5))
    assert windows.panel(16) == 16
    assert [evaluate(windows.taps, {dim("s0"): n}) for n in (3, 50)] == [3, 5]
    assert [evaluate(windows.span(16), {dim("s0"): n}) for n in (3, 50)] == [3, 37]
    assert "2 apart" in str(windows)
