"""Coefficients of loop variables, and substitution for them."""

from __future__ import annotations

from hypothesis import given, settings

from aot.symbolic import (
    Expr,
    FloorDiv,
    affine_coefficients,
    evaluate,
    integer,
    substitute,
)
from tests.symbolic.expressions import EXPRESSIONS, POINTS, I, J, K, S


def test_affine_coefficients() -> None:
    assert affine_coefficients(3 * I + S * J + 5, (I, J)) == ((integer(3), S), integer(5))
    assert affine_coefficients(FloorDiv(I, integer(2)), (I,)) is None
    assert affine_coefficients(I * J, (I, J)) is None


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS)
def test_substitution_is_evaluation_in_another_environment(expr: Expr) -> None:
    moved = substitute(expr, {I: J + 1, J: I})
    for point in POINTS[::5]:
        assert evaluate(moved, point) == evaluate(expr, {I: point[J] + 1, J: point[I], K: point[K]})
