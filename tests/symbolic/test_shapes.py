"""Positions in shapes: flat, in several dimensions, and common refinements."""

from __future__ import annotations

import pytest

from aot.symbolic import (
    Expr,
    Ranges,
    integer,
    ravel,
    refine_shapes,
    unravel,
    var,
)
from tests.symbolic.expressions import S


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
