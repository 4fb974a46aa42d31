"""The interpreter of single nests and of template calls."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from aot.errors import InternalError
from aot.ir import interpreter_nest
from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT32, INT32, INT64
from aot.ir.interpreter import interpret_loops, run_nest
from aot.ir.interpreter_nest import boxes
from aot.ir.nests import LoopNest, Store
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import (
    binary,
    cast,
    check_index,
    const,
    index_value,
    load,
    make,
    reduce_,
)
from aot.symbolic import FloorDiv, Modulo, as_expr, var
from tests.ir.nests import I0, I1, R0, axes, nest, row_sums
from tests.settings import seeded

RNG = np.random.default_rng(seeded())


def run(op: LoopNest, shape: tuple[int, ...], dtype: str = "float32", **arrays: np.ndarray):
    out = np.full(shape, 77, dtype)
    held = {**arrays, "y": out}
    run_nest(op, held, {"s0": 3})
    return out


def test_permuted_and_broadcast_reads() -> None:
    x, b = RNG.random((4, 3), np.float32), RNG.random(5, np.float32)
    value = binary("mul", load("x", FLOAT32, (I1, I0)), load("b", FLOAT32, (as_expr(2),)))
    y = run(nest(axes(i0=3, i1=4), value), (3, 4), x=x, b=b)
    np.testing.assert_array_equal(y, x.T * b[2])


def test_store_through_a_permutation_and_an_offset() -> None:
    x = RNG.random((3, 4), np.float32)
    op = nest(axes(i0=3, i1=4), load("x", FLOAT32, (I0, I1)), index=(I1, 2 * I0 + 1))
    y = run(op, (4, 6), x=x)
    np.testing.assert_array_equal(y[:, 1::2], x.T)
    assert (y[:, 0::2] == 77).all()


def test_index_that_is_not_affine() -> None:
    x = RNG.random((3, 4), np.float32)
    index = (FloorDiv(I0, as_expr(4)), Modulo(I0, as_expr(4)))
    y = run(nest(axes(i0=12), load("x", FLOAT32, index)), (12,), x=x)
    np.testing.assert_array_equal(y, x.ravel())


@pytest.mark.parametrize("kind", ["sum", "prod", "min", "max", "argmin", "argmax"])
def test_blocks_of_any_size_give_the_same_reduction(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = RNG.integers(-2, 3, (6, 5, 7)).astype(np.float32)
    x[1, 2, 3] = np.nan
    value = reduce_(kind, load("x", FLOAT32, (I0, R0, var("r1"))))
    op = nest(axes(i0=6), value, axes(r0=5, r1=7))
    dtype = "int64" if kind.startswith("arg") else "float32"
    whole = run(op, (6,), dtype, x=x)
    flat = x.reshape(6, 35)
    if kind.startswith("arg"):
        np.testing.assert_array_equal(whole, getattr(np, kind)(flat, axis=1))
    for points in (1, 3, 36, 80):
        monkeypatch.setattr(interpreter_nest, "BLOCK_POINTS", points)
        np.testing.assert_array_equal(run(op, (6,), dtype, x=x), whole)


def test_boxes_tile_in_row_major_order() -> None:
    shape = (3, 4, 5)
    for limit in (1, 2, 5, 7, 20, 45, 60, 1000):
        seen = []
        for box in boxes(shape, limit):
            points = np.indices([hi - lo for lo, hi in box]).reshape(3, -1).T
            assert len(points) <= limit
            seen.extend(np.ravel_multi_index((points + [lo for lo, _ in box]).T, shape))
        assert seen == list(range(60))


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        ("sum", FLOAT32, 0.0),
        ("prod", FLOAT32, 1.0),
        ("max", FLOAT32, -np.inf),
        ("min", INT32, np.iinfo(np.int32).max),
    ],
)
def test_reduction_over_nothing(kind, dtype, expected) -> None:
    op = nest(axes(i0=2), reduce_(kind, load("x", dtype, (I0, R0))), axes(r0=0))
    y = run(op, (2,), dtype.name, x=np.zeros((2, 0), dtype.name))
    np.testing.assert_array_equal(y, np.full(2, expected, dtype.name))


def test_a_constant_is_counted_once_per_point() -> None:
    op = nest(axes(i0=2), reduce_("sum", const(1.5, FLOAT32)), axes(r0=4))
    np.testing.assert_array_equal(run(op, (2,)), [6.0, 6.0])


def test_masked_reads_touch_nothing_outside() -> None:
    inside = binary("lt", index_value(I0), const(3, INT64))
    op = nest(axes(i0=5), load("x", FLOAT32, (I0,), mask=inside))
    y = run(op, (5,), x=np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(y, [1, 2, 3, 0, 0])


def test_gather_wraps_and_checks() -> None:
    position = check_index(load("p", INT64, (I0,)), as_expr(4))
    op = nest(axes(i0=3), load("x", FLOAT32, (var("u0"),), {var("u0"): position}))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(op, (3,), x=x, p=np.array([0, -1, 2])), [0, 3, 2])
    with pytest.raises(IndexError, match="index 4 is out of range for a dimension of 4"):
        run(op, (3,), x=x, p=np.array([0, 4, 2]))


def test_out_of_bounds_of_the_nest_itself_is_our_bug() -> None:
    op = nest(axes(i0=3), load("x", FLOAT32, (I0 + 1,)))
    with pytest.raises(InternalError, match=r"x: index 1\.\.3 in a dimension of 3"):
        run(op, (3,), x=np.zeros(3, np.float32))


def test_adding_stores_accumulate() -> None:
    position = check_index(load("p", INT64, (I0,)), as_expr(2))
    store = Store("y", (var("u0"),), const(1.0, FLOAT32), "add", ((var("u0"), position),))
    op = LoopNest("n0", axes(i0=5), (), (store,), NO_ORIGIN)
    out = np.zeros(2, np.float32)
    run_nest(op, {"y": out, "p": np.array([0, 1, 1, 0, 1])}, {})
    np.testing.assert_array_equal(out, [2, 3])


def test_half_types_round_where_they_are_stored_or_cast() -> None:
    x = np.array([1.0, 2.0**-9], ml_dtypes.bfloat16)
    one, tiny = load("x", BFLOAT16, (as_expr(0),)), load("x", BFLOAT16, (as_expr(1),))
    total = binary("add", cast(one, FLOAT32), cast(tiny, FLOAT32))
    assert run(nest(axes(i0=1), total), (1,), x=x)[0] == np.float32(1 + 2.0**-9)
    rounded = cast(cast(total, BFLOAT16), FLOAT32)
    assert run(nest(axes(i0=1), rounded), (1,), x=x)[0] == 1.0


def test_bitcast_keeps_bits() -> None:
    x = np.array([-1.5, 2.0], ml_dtypes.bfloat16)
    from_bits = make("bitcast", INT32, load("f", FLOAT32, (I0,)))
    f = np.array([1.0, -0.0], np.float32)
    np.testing.assert_array_equal(
        run(nest(axes(i0=2), from_bits), (2,), "int32", f=f), f.view("i4")
    )
    same = cast(load("x", BFLOAT16, (I0,)), BOOL)
    assert run(nest(axes(i0=2), same), (2,), "bool", x=x).all()


def test_graph_checks_its_inputs() -> None:
    graph = row_sums()
    x = RNG.random((3, 4), np.float32)
    (y,) = interpret_loops(graph, {"x": x}, lambda fqn: np.zeros(0), {"s0": 3})
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-6)
    with pytest.raises(
        InternalError, match=r"x is float32\[3, 4\], the graph says float32\[2, 4\]"
    ):
        interpret_loops(graph, {"x": x}, lambda fqn: np.zeros(0), {"s0": 2})
