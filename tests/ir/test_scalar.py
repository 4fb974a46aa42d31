"""Scalar expressions: one node for equal parts, what builders refuse, and rewrites of indices."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from aot.ir.interpreter import run_nest
from aot.ir.scalar import (
    Access,
    Node,
    binary,
    bind_map,
    bound_symbol,
    cast,
    check_index,
    clamp_index,
    const,
    fold,
    guarded,
    index_value,
    load,
    loads,
    make,
    mask_of,
    postorder,
    rebuild,
    reduce_,
    substitute_index,
    unary,
    where,
    with_args,
)
from aot.symbolic import as_expr, var
from tests.ir.nests import I0, I1, axes, nest

X = load("x", FLOAT32, (I0,))


def value_of(root: Node, **arrays: np.ndarray) -> np.ndarray:
    """At every point of a loop of four."""
    made = {**arrays, "y": np.zeros(4, root.dtype.numpy)}
    run_nest(nest(axes(i0=4), root), made, {})
    return made["y"]


def test_equal_parts_are_one_node() -> None:
    assert binary("add", X, X) is binary("add", load("x", FLOAT32, (I0,)), X)
    assert binary("sub", X, unary("neg", X)) is not binary("sub", unary("neg", X), X)
    assert load("x", FLOAT32, (I0,)) is not load("x", FLOAT32, (I1,))


@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1.0, 1), (1, True)])
def test_constants_that_python_calls_equal_are_two(one: float, other: float) -> None:
    first, second = (make("const", FLOAT32, attr=v) for v in (one, other))
    assert first is not second
    assert repr(first.attr) == repr(one) and repr(second.attr) == repr(other)


def test_builders_say_the_types() -> None:
    assert binary("lt", X, X).dtype == BOOL
    assert unary("exp", X).dtype == FLOAT32
    assert [reduce_(k, X).dtype for k in ("sum", "argmax")] == [FLOAT32, INT64]
    assert cast(X, FLOAT32) is X
    assert where(binary("lt", X, X), X, X) is X


def test_builders_refuse_what_has_no_meaning() -> None:
    one = const(1, INT64)
    with pytest.raises(ValueError, match="add: operands are float32 and int64"):
        binary("add", X, one)
    with pytest.raises(ValueError, match="where: int64"):
        where(one, X, unary("neg", X))
    with pytest.raises(ValueError, match="unknown scalar op 'tangle'"):
        unary("tangle", X)
    with pytest.raises(ValueError, match="unknown reduction 'tangle'"):
        reduce_("tangle", X)


def test_constants_are_converted_at_once_where_that_is_exact() -> None:
    assert cast(const(3, INT64), FLOAT64) is const(3.0, FLOAT64)
    assert cast(const(2.5, FLOAT32), INT32).op == "cast"
    assert cast(const(3e12, FLOAT64), INT32).op == "cast"


def test_arguments_come_before_users_and_once() -> None:
    shared = unary("exp", X)
    root = binary("add", unary("neg", shared), shared)
    order = postorder([root, shared])
    assert [n.op for n in order] == ["load", "exp", "neg", "add"]
    counts = fold([root], lambda node, args: 1 + sum(args))
    assert counts == [6]  # neg(exp(x)), exp(x), and the sum


def test_bodies_of_a_deep_model_are_gone_through_once() -> None:
    roots = [load(f"layer{k}", FLOAT32, (I0,)) for k in range(3000)]
    first = [postorder([root]) for root in roots]
    assert all(postorder([root]) is order for root, order in zip(roots, first, strict=True))


def test_a_rebuilt_node_is_the_same_where_nothing_changed() -> None:
    root = binary("add", unary("exp", X), const(1.0, FLOAT32))
    assert rebuild([root], with_args) == [root]

    def other(node: Node, args: tuple[Node, ...]) -> Node:
        return load("z", FLOAT32, (I0,)) if node is X else with_args(node, args)

    (changed,) = rebuild([root], other)
    assert [n.attr.buffer for n in loads([changed]) if isinstance(n.attr, Access)] == ["z"]


def test_bound_values_are_named_in_order() -> None:
    row = check_index(load("p", INT64, (I0,)), as_expr(4))
    own, theirs = (load("x", FLOAT32, (s,), {s: row}) for s in (var("a"), var("b")))
    assert own is theirs
    assert bind_map(own) == {bound_symbol(0): row}
    assert index_value(var("a"), {var("a"): row}) is row


def test_an_index_is_replaced_where_it_stands() -> None:
    root = binary("add", X, cast(index_value(I0 * 2), FLOAT32))
    (moved,) = substitute_index([root], {I0: 3 - I0})
    x = np.arange(4, dtype=np.float32) ** 2
    np.testing.assert_array_equal(value_of(moved, x=x), value_of(root, x=x)[::-1])


def test_an_index_may_become_one_that_a_value_decides() -> None:
    row = check_index(load("p", INT64, (I0,)), as_expr(4))
    (moved,) = substitute_index([unary("neg", X)], {I0: var("row")}, {var("row"): row})
    x, p = np.arange(4, dtype=np.float32), np.array([2, 0, -1, 2])
    np.testing.assert_array_equal(value_of(moved, x=x, p=p), -x[p])


def test_a_guarded_value_reads_nothing_where_it_is_zero() -> None:
    inside = binary("lt", index_value(I0), const(2, INT64))
    value = guarded(unary("exp", X), inside)
    (read,) = loads([value])
    assert mask_of(read) is inside and mask_of(X) is None
    short = np.array([1.0, 2.0], np.float32)  # element 2 and 3 are not there
    expected = [*np.exp(short), 0, 0]
    np.testing.assert_allclose(value_of(value, x=short), expected, rtol=1e-6)
    assert guarded(X, inside).op == "load"
    again = guarded(value, binary("ge", index_value(I0), const(1, INT64)))
    np.testing.assert_allclose(value_of(again, x=short), [0, expected[1], 0, 0], rtol=1e-6)


@pytest.mark.parametrize("narrow", [False, True])
def test_a_clamped_index_stays_in_its_dimension(narrow: bool) -> None:
    place = clamp_index(load("p", INT64, (I0,)), as_expr(2), narrow=narrow)
    assert place.dtype == INT64
    found = value_of(place, p=np.array([-5, 1, 2, 9]))
    np.testing.assert_array_equal(found, [0, 1, 2, 2])
