"""Conditions that ranges decide."""

from __future__ import annotations

import pytest

from aot.ir.conditions import changes, fold_conditions
from aot.ir.dtypes import BOOL, FLOAT32
from aot.ir.scalar import Node, binary, const, index_value, load, where
from aot.symbolic import Ranges, as_expr, dim, var

I0, I1 = var("i0"), var("i1")
RANGES = Ranges({I0: as_expr(8)}, {dim("s0"): (8, None)})


def compare(op: str, bound: object) -> Node:
    return binary(op, index_value(I0), index_value(as_expr(bound)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "bound", "decided"),
    [
        ("lt", 8, True),
        ("lt", 7, None),
        ("lt", 0, False),
        ("le", 7, True),
        ("ge", 0, True),
        ("ge", 1, None),
        ("ge", 8, False),
        ("gt", 7, False),
        ("gt", -1, True),
        ("lt", dim("s0"), True),
        ("ge", dim("s0"), False),
        ("eq", 3, None),
        ("eq", 8, False),
        ("eq", -1, False),
        ("eq", I0, True),
        ("eq", dim("s0"), False),
    ],
)
def test_comparisons(op: str, bound: object, decided: bool | None) -> None:
    node = compare(op, bound)
    (folded,) = fold_conditions([node], RANGES)
    if decided is None:
        assert folded is node
    else:
        assert folded.op == "const"
        assert folded.attr is decided


def test_selections_and_guards_follow() -> None:
    inside, outside = compare("lt", 8), compare("ge", 8)
    x = load("x", FLOAT32, (I0,))
    guarded = load("x", FLOAT32, (I0,), mask=inside)
    never = load("x", FLOAT32, (I0,), mask=binary("and", inside, outside))
    assert fold_conditions([where(inside, x, never)], RANGES) == [x]
    assert fold_conditions([guarded], RANGES) == [x]
    assert fold_conditions([never], RANGES) == [const(0, FLOAT32)]


def test_open_conditions_stay_as_they_are() -> None:
    node = where(compare("lt", 3), load("x", FLOAT32, (I0,)), const(0, FLOAT32))
    assert fold_conditions([node], RANGES) == [node]


def test_an_equation_holds_where_the_range_is_one_point() -> None:
    node = binary("eq", index_value(I0), index_value(as_expr(0)))
    (folded,) = fold_conditions([node], Ranges({I0: as_expr(1)}, {}))
    assert folded == const(True, BOOL)


def test_where_conditions_change() -> None:
    assert changes(compare("lt", 3)) == (I0 - 3,)
    assert changes(compare("gt", 3)) == (3 - I0,)
    assert changes(compare("eq", 3)) == (I0 - 3, I0 - 4)
    assert changes(load("x", FLOAT32, (I0,))) == ()
    assert changes(binary("eq", load("x", FLOAT32, (I0,)), const(3.0, FLOAT32))) == ()


def test_a_choice_by_a_bit_is_one_load() -> None:
    ranges = Ranges({I0: as_expr(2), I1: as_expr(8)}, {})
    first, second = (binary("eq", index_value(I0), index_value(as_expr(k))) for k in (0, 1))
    a = load("x", FLOAT32, (I1,), mask=first)
    b = load("x", FLOAT32, (I1 + 64 * I0,), mask=second)
    assert fold_conditions([where(first, a, b)], ranges) == [load("x", FLOAT32, (I1 + 64 * I0,))]
    for other in (
        load("y", FLOAT32, (I1,)),
        load("x", FLOAT32, (2 * I1,)),
        load("x", FLOAT32, (I1,), mask=first),
    ):
        node = where(first, a, other)
        assert fold_conditions([node], ranges) == [node]
    assert fold_conditions([where(first, a, b)], RANGES) == [where(first, a, b)]
