"""Reshapes as index maps, simplified to what they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aot.lowering.reshape import matching_groups, reshape_index
from aot.symbolic import Expr, Ranges, as_expr, dim, evaluate, to_text, var

S = dim("s0")
RANGES = Ranges({}, {S: (0, None)})


def _text(old: tuple[int | Expr, ...], new: tuple[int | Expr, ...]) -> list[str]:
    sizes = [tuple(as_expr(s) for s in shape) for shape in (old, new)]
    at = tuple(var(f"i{k}") for k in range(len(new)))
    return [to_text(e) for e in reshape_index(RANGES, *sizes)(at)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((6, 4), (6, 4), ["i0", "i1"]),
        ((6, 4), (24,), ["(i0 // 4)", "(i0 % 4)"]),
        ((24,), (6, 4), ["i1 + 4*i0"]),
        ((S, 6, 4), (S, 24), ["i0", "(i1 // 4)", "(i1 % 4)"]),
        ((S, 7, 24), (7 * S, 4, 6), ["(i0 // 7)", "(i0 % 7)", "i2 + 6*i1"]),
        ((4 * S, 8), (S, 4, 8), ["i1 + 4*i0", "i2"]),
        ((S, 12, 32), (S, 384), ["i0", "(i1 // 32)", "(i1 % 32)"]),
        ((2, 3, 4), (3, 2, 4), None),
        ((5, 1, 3), (5, 3, 1), ["i0", "0", "i1"]),
        ((1,), (), ["0"]),
        ((), (1, 1), []),
        ((0, 3), (3, 0), ["0", "0"]),
    ],
)
def test_index(old, new, expected) -> None:
    if expected is not None:
        assert _text(old, new) == expected
    _check_all(old, new)


def _check_all(old, new) -> None:
    """Every element lands where NumPy puts it."""
    for size in (0, 1, 3) if any(isinstance(s, Expr) for s in old) else (1,):
        values = {S: size}
        shapes = [tuple(int(evaluate(as_expr(s), values)) for s in shape) for shape in (old, new)]
        at = tuple(var(f"i{k}") for k in range(len(new)))
        sizes = [tuple(as_expr(s) for s in shape) for shape in (old, new)]
        index = reshape_index(RANGES, *sizes)(at)
        source = np.arange(math.prod(shapes[0])).reshape(shapes[0])
        for point in np.ndindex(*shapes[1]):
            bound = {**values, **dict(zip(at, point, strict=True))}
            own = tuple(int(evaluate(e, bound)) for e in index)
            assert source[own] == np.ravel_multi_index(point, shapes[1]) if point else True


@given(st.lists(st.integers(1, 4), max_size=5), st.randoms(use_true_random=False))
def test_any_regrouping(sizes: list[int], random) -> None:
    def regrouped() -> tuple[int, ...]:
        shape = list(sizes)
        while len(shape) > 1 and random.random() < 0.6:
            k = random.randrange(len(shape) - 1)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        if random.random() < 0.3:
            shape.insert(random.randrange(len(shape) + 1), 1)
        return tuple(shape)

    _check_all(regrouped(), regrouped())


def test_groups_are_as_short_as_can_be() -> None:
    old, new = [tuple(as_expr(s) for s in shape) for shape in ((2, 3, 4, 5), (6, 2, 10))]
    assert matching_groups(old, new) == [(range(2), range(1)), (range(2, 4), range(1, 3))]
