"""Simplifying by ranges: every rewrite is checked against plain integer arithmetic."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings

from aot.symbolic import (
    Expr,
    FloorDiv,
    Modulo,
    Ranges,
    evaluate,
    integer,
    ravel,
    unravel,
)
from tests.symbolic.expressions import (
    EXPRESSIONS,
    EXTENTS,
    POINTS,
    SIZED,
    SIZED_EXTENTS,
    I,
    J,
    K,
    S,
)


@settings(max_examples=300, deadline=None)
@given(EXPRESSIONS)
def test_simplify_keeps_every_value(expr: Expr) -> None:
    simplified = Ranges(EXTENTS).simplify(expr)
    for point in POINTS:
        assert evaluate(simplified, point) == evaluate(expr, point)


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_bounds_hold(expr: Expr) -> None:
    bounds = Ranges(EXTENTS).bounds(expr)
    if bounds is not None:
        values = [evaluate(expr, p) for p in POINTS]
        assert evaluate(bounds[0], {}) <= min(values)
        assert max(values) <= evaluate(bounds[1], {})


@settings(max_examples=300, deadline=None)
@given(SIZED)
def test_what_sizes_decide_holds_for_each_of_them(expr: Expr) -> None:
    ranges = Ranges(SIZED_EXTENTS, {S: (2, None)})
    simplified, bounds = ranges.simplify(expr), ranges.bounds(expr)
    for size in (2, 3):
        extents = (size, 2 * size - 1, 4)
        for point in itertools.product(*map(range, extents)):
            here = {**dict(zip((I, J, K), point, strict=True)), S: size}
            value = evaluate(expr, here)
            assert evaluate(simplified, here) == value
            if bounds is not None:
                assert evaluate(bounds[0], here) <= value <= evaluate(bounds[1], here)


@pytest.mark.parametrize("size", [S, integer(512)])
def test_a_shift_by_a_view_is_a_sum(size: Expr) -> None:
    """Relative positions (Dai et al. 2019): pad, view as one column more, drop, view, slice."""
    ranges = Ranges({I: size, J: size, K: integer(4)}, {S: (2, None)})
    width = 2 * size - 1
    rows = [
        ranges.simplify(e)
        for e in unravel(ravel((K, I, J), (integer(4), size, width)), (integer(4), width, size))
    ]
    padded = ravel((rows[0], rows[1] + 1, rows[2]), (integer(4), width + 1, size))
    shifted = [ranges.simplify(e) for e in unravel(padded, (integer(4), size, width + 1))]
    assert shifted == [K, I, size + J - I]


def test_a_dynamic_dimension_simplifies_like_a_static_one() -> None:
    ranges = Ranges({I: S, J: integer(12), K: integer(64)}, {S: (0, None)})
    flat = ravel((I, J, K), (S, integer(12), integer(64)))
    assert [ranges.simplify(e) for e in unravel(flat, (S, integer(768)))] == [I, 64 * J + K]
    inner = Ranges({I: integer(12), J: S, K: integer(64)}, {S: (1, None)})
    flat = ravel((I, J, K), (integer(12), S, integer(64)))
    assert [inner.simplify(e) for e in unravel(flat, (12 * S, integer(64)))] == [I * S + J, K]


def test_nonnegativity_needs_the_minimum_of_a_dim() -> None:
    assert Ranges({}, {S: (2, None)}).nonnegative(3 * S - 6)
    assert not Ranges({}, {S: (1, None)}).nonnegative(3 * S - 6)


def test_a_constant_that_the_factor_does_not_divide_stays() -> None:
    """233 is no multiple of 10: nothing can be taken out of the remainder."""
    ranges = Ranges({I: integer(4), J: integer(6), K: integer(10)})
    position = K + 10 * J + 60 * I + 233
    for divisor in (6, 10, 60, 240):
        for build in (FloorDiv, Modulo):
            expr = build(position, integer(divisor))
            simple = ranges.simplify(expr)
            for i, j, k in itertools.product(range(4), range(6), range(10)):
                values = {I: i, J: j, K: k}
                assert evaluate(simple, values) == evaluate(expr, values)


@pytest.mark.parametrize("inner", [S + 5, 3 * S + 6, S * S + S, 2 * S])
@pytest.mark.parametrize("outer", [integer(3), S])
def test_remainders_of_remainders_by_a_sum(inner: Expr, outer: Expr) -> None:
    expr = Modulo(Modulo(I, inner), outer)
    for i, s in itertools.product(range(60), range(1, 9)):
        values = {I: i, S: s}
        assert evaluate(expr, values) == i % evaluate(inner, values) % evaluate(outer, values)


def test_a_size_inside_a_divisor_is_no_factor_of_it() -> None:
    """s0 divides s0*i0, and occurs in 4*(s0 // 3), which it does not divide."""
    blocks = FloorDiv(S, integer(3))
    ranges = Ranges({I: integer(5), J: integer(3)}, {S: (3, None)})
    for build in (FloorDiv, Modulo):
        for divisor in (4 * blocks, blocks):
            expr = build(S * blocks * I + J, divisor)
            simple = ranges.simplify(expr)
            for i, j, s in itertools.product(range(5), range(3), range(3, 14)):
                values = {I: i, J: j, S: s}
                assert evaluate(simple, values) == evaluate(expr, values)


def test_the_greatest_value_of_a_size_is_never_exceeded() -> None:
    """Also where the size shrinks as the dim grows: what is left of a row that is cut."""
    sizes = [3 * S + 1, 100 - S, FloorDiv(S + 3, integer(4)), integer(7)]
    most = Ranges({}, {S: (2, 60)})
    for size in sizes:
        found = most.greatest(size)
        assert found is not None
        assert all(int(evaluate(size, {S: n})) <= found for n in range(2, 61))
    assert most.greatest(3 * S + 1) == 181
    assert Ranges({}, {S: (2, None)}).greatest(3 * S) is None
    assert Ranges().greatest(S) is None
