"""Resizing along one axis: what it costs, and when walking along the axis pays."""

from __future__ import annotations

from dataclasses import replace

from aot.ir.origin import NO_ORIGIN
from aot.ir.templates.resample import Resample
from aot.ir.templates.resample2 import Resample2
from aot.ir.templates.windows import AxisWindows
from aot.symbolic import as_expr
from tests.ir.templates.views import view


def resize(taps: int, axis: int = 0) -> Resample:
    tables = view(6), view(6, taps)
    windows = AxisWindows(as_expr(9), as_expr(2), as_expr(taps))
    return Resample("r", view(6, 8), NO_ORIGIN, view(9, 8), *tables, axis, windows)


def test_each_tap_is_two_operations() -> None:
    assert int(resize(4).flops()) == 2 * 48 * 4
    tables = view(6), view(6, 4), view(5), view(5, 3)
    both = Resample2("r", view(2, 6, 5), NO_ORIGIN, view(2, 8, 8), *tables, 1, 2, "inner")
    assert int(both.flops()) == 2 * 60 * (4 + 3)


def test_a_walk_pays_with_many_taps_along_an_outer_axis() -> None:
    many = resize(9)
    assert many.no_walk(9) == ""
    assert "a walk pays from" in resize(8).no_walk(9)
    assert "neighbours in memory" in resize(9, axis=1).no_walk(9)
    assert "no bytes" in replace(many, bits=view()).no_walk(9)
