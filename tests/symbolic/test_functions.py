"""Quotients and remainders of numbers."""

from __future__ import annotations

import pytest

from aot.symbolic import (
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    at_least,
    below,
    dim,
    divisors,
    evaluate,
    integer,
    is_multiple,
    presence,
    substitute,
    var,
)


def test_floor_division_of_a_negative_constant_rounds_down() -> None:
    assert FloorDiv(integer(-1), integer(4)) == -1
    assert Modulo(integer(-1), integer(4)) == 3


def test_nothing_divided_by_a_size_is_nothing() -> None:
    assert FloorDiv(integer(0), dim("n")) == 0


def test_a_quotient_of_halves_is_none() -> None:
    i, n = var("i"), var("n")
    expr = FloorDiv((i + 1) * n, 2 * n)
    assert substitute(expr, {i: integer(2), n: integer(5)}) == 1


def test_divisors_are_of_one_dividend_alone() -> None:
    a, b = var("a"), var("b")
    expr = FloorDiv(a, integer(54)) + 3 * Modulo(a, integer(27)) + FloorDiv(b, integer(5)) + a
    assert divisors(expr, a) == {54, 27}
    assert not divisors(expr, a + b)


@pytest.mark.parametrize(
    ("expr", "divisor", "expected"),
    [
        (integer(0), 8, True),
        (integer(24), 8, True),
        (integer(12), 8, False),
        (8 * dim("s0") + 16, 8, True),
        (4 * dim("s0"), 8, False),
        (dim("s0") * dim("s1"), dim("s1"), True),
    ],
    ids=str,
)
def test_multiples_are_seen(expr, divisor, expected):
    assert is_multiple(expr, divisor) == expected


def test_a_size_says_when_what_it_counts_is_there() -> None:
    n, m = dim("n"), dim("m")
    above = Maximum(integer(0), Minimum(integer(1), n - 256))
    upto = Maximum(integer(0), Minimum(integer(1), 2049 - n))
    assert presence(above * upto * m * 4096) == {above, upto}
    assert presence(upto) == {upto}
    # Such are numbers of elements.
    assert presence(m * Maximum(integer(0), n - 3)) == frozenset()
    assert presence(integer(7)) == frozenset()


def test_a_size_is_below_a_limit_or_at_least_as_large() -> None:
    n = dim("n")
    for size in (0, 1, 6, 7, 8, 1 << 40):
        assert int(evaluate(below(n, 7), {n: size})) == (size < 7)
        assert int(evaluate(at_least(n, 7), {n: size})) == (size >= 7)
