"""Index expressions: every rewrite is checked against plain integer arithmetic."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aot.symbolic import (
    Expr,
    FloorDiv,
    Maximum,
    Minimum,
    Modulo,
    Ranges,
    affine_coefficients,
    ceil_div,
    decode,
    dim,
    encode,
    evaluate,
    integer,
    ravel,
    refine_shapes,
    substitute,
    to_c,
    to_text,
    unravel,
    var,
)

I, J, K = var("i0"), var("i1"), var("i2")  # noqa: E741  # as loop variables are called
S = dim("s0")


def leaves() -> st.SearchStrategy[Expr]:
    return st.sampled_from([I, J, K]) | st.integers(-7, 7).map(integer)


def grow(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    divisor = st.integers(1, 8).map(integer)
    return st.one_of(
        st.tuples(children, children).map(lambda p: p[0] + p[1]),
        st.tuples(children, st.integers(-4, 4)).map(lambda p: p[0] * p[1]),
        st.tuples(children, divisor).map(lambda p: FloorDiv(*p)),
        st.tuples(children, divisor).map(lambda p: Modulo(*p)),
        st.tuples(children, children).map(lambda p: Minimum(*p)),
        st.tuples(children, children).map(lambda p: Maximum(*p)),
    )


EXPRESSIONS = st.recursive(leaves(), grow, max_leaves=8)
EXTENTS = {I: integer(3), J: integer(4), K: integer(5)}
POINTS = [dict(zip((I, J, K), p, strict=True)) for p in itertools.product(*map(range, (3, 4, 5)))]


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


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_encoding_round_trips(expr: Expr) -> None:
    decoded = decode(encode(expr))
    for point in POINTS[::7]:
        assert evaluate(decoded, point) == evaluate(expr, point)


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_substitution_is_evaluation_in_another_environment(expr: Expr) -> None:
    moved = substitute(expr, {I: J + 1, J: I})
    for point in POINTS[::5]:
        assert evaluate(moved, point) == evaluate(expr, {I: point[J] + 1, J: point[I], K: point[K]})


def test_floor_division_of_a_negative_constant_rounds_down() -> None:
    assert FloorDiv(integer(-1), integer(4)) == -1
    assert Modulo(integer(-1), integer(4)) == 3


@pytest.mark.parametrize(
    ("shape", "other"),
    [((S, 12, 64), (S, 768)), ((S, 768), (S, 12, 64)), ((2, 3, 4), (24,)), ((24,), (2, 3, 4))],
)
def test_reshape_there_and_back_is_the_identity(shape: tuple, other: tuple) -> None:
    sizes = [integer(s) if isinstance(s, int) else s for s in shape]
    others = [integer(s) if isinstance(s, int) else s for s in other]
    axes = [var(f"i{k}") for k in range(len(sizes))]
    ranges = Ranges(dict(zip(axes, sizes, strict=True)), {S: (0, None)})
    there = unravel(ravel(axes, sizes), others)
    back = unravel(ravel(there, others), sizes)
    assert [ranges.simplify(e) for e in back] == axes


def test_a_dynamic_dimension_simplifies_like_a_static_one() -> None:
    ranges = Ranges({I: S, J: integer(12), K: integer(64)}, {S: (0, None)})
    flat = ravel((I, J, K), (S, integer(12), integer(64)))
    assert [ranges.simplify(e) for e in unravel(flat, (S, integer(768)))] == [I, 64 * J + K]
    inner = Ranges({I: integer(12), J: S, K: integer(64)}, {S: (1, None)})
    flat = ravel((I, J, K), (integer(12), S, integer(64)))
    assert [inner.simplify(e) for e in unravel(flat, (12 * S, integer(64)))] == [I * S + J, K]


@pytest.mark.parametrize(
    ("a", "b", "refined"),
    [
        ((6, 4), (2, 3, 4), (2, 3, 4)),
        ((4, 6), (6, 4), None),
        ((8, 6), (4, 12), (4, 2, 6)),
        ((S, 768), (S, 12, 64), (S, 12, 64)),
        ((1, 5), (5,), (5,)),
    ],
)
def test_refinement(a: tuple, b: tuple, refined: tuple | None) -> None:
    def sizes(shape: tuple) -> tuple[Expr, ...]:
        return tuple(integer(s) if isinstance(s, int) else s for s in shape)

    assert refine_shapes(sizes(a), sizes(b)) == (refined and sizes(refined))


def test_nonnegativity_needs_the_minimum_of_a_dim() -> None:
    assert Ranges({}, {S: (2, None)}).nonnegative(3 * S - 6)
    assert not Ranges({}, {S: (1, None)}).nonnegative(3 * S - 6)


def test_affine_coefficients() -> None:
    assert affine_coefficients(3 * I + S * J + 5, (I, J)) == ((integer(3), S), integer(5))
    assert affine_coefficients(FloorDiv(I, integer(2)), (I,)) is None
    assert affine_coefficients(I * J, (I, J)) is None


def test_text_and_c() -> None:
    expr = FloorDiv(3 * I + S, integer(4)) + Minimum(J, integer(2))
    assert to_text(ceil_div(S, 16)) == "((s0 + 15) // 16)"
    assert "aot::imin" in to_c(expr)
    assert "//" not in to_c(expr)
    assert to_text(FloorDiv(I, 8 * S)) == "(i0 // (8*s0))"
    assert to_c(Modulo(I, S**2)) == "(i0 % (s0*s0))"


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
