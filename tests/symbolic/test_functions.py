"""Quotients and remainders of numbers."""

from __future__ import annotations

from aot.symbolic import (
    FloorDiv,
    Modulo,
    divisors,
    integer,
    substitute,
    var,
)


def test_floor_division_of_a_negative_constant_rounds_down() -> None:
    assert FloorDiv(integer(-1), integer(4)) == -1
    assert Modulo(integer(-1), integer(4)) == 3


def test_a_quotient_of_halves_is_none() -> None:
    i, n = var("i"), var("n")
    expr = FloorDiv((i + 1) * n, 2 * n)
    assert substitute(expr, {i: integer(2), n: integer(5)}) == 1


def test_divisors_are_of_one_dividend_alone() -> None:
    a, b = var("a"), var("b")
    expr = FloorDiv(a, integer(54)) + 3 * Modulo(a, integer(27)) + FloorDiv(b, integer(5)) + a
    assert divisors(expr, a) == {54, 27}
    assert not divisors(expr, a + b)
