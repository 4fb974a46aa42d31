"""Expressions as data and as text."""

from __future__ import annotations

from hypothesis import given, settings

from aot.symbolic import (
    Expr,
    FloorDiv,
    Minimum,
    Modulo,
    ceil_div,
    decode,
    encode,
    evaluate,
    integer,
    to_c,
    to_text,
)
from tests.symbolic.expressions import EXPRESSIONS, POINTS, I, J, S


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS)
def test_encoding_round_trips(expr: Expr) -> None:
    decoded = decode(encode(expr))
    for point in POINTS[::7]:
        assert evaluate(decoded, point) == evaluate(expr, point)


def test_text_and_c() -> None:
    expr = FloorDiv(3 * I + S, integer(4)) + Minimum(J, integer(2))
    assert to_text(ceil_div(S, 16)) == "((s0 + 15) // 16)"
    assert "aot::imin" in to_c(expr)
    assert "//" not in to_c(expr)
    assert to_text(FloorDiv(I, 8 * S)) == "(i0 // (8*s0))"
    assert to_c(Modulo(I, S**2)) == "(i0 % (s0*s0))"
