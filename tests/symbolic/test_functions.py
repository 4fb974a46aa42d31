"""Quotients and remainders of numbers."""

from __future__ import annotations

from aot.symbolic import (
    FloorDiv,
    Modulo,
    integer,
)


def test_floor_division_of_a_negative_constant_rounds_down() -> None:
    assert FloorDiv(integer(-1), integer(4)) == -1
    assert Modulo(integer(-1), integer(4)) == 3
