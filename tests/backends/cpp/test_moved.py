"""Halves and float8 that a kernel only moves are moved as integers, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT8_E4M3FN, FLOAT16, FLOAT32, INT64
from aot.ir.scalar import Access, binary, cast, check_index, const, load, make, unary, where
from aot.symbolic import as_expr, var
from tests.backends.kernel_runner import GraphMaker, Program, axes, machine_levels, nest
from tests.settings import seeded

ROWS, COLUMNS = 9, 75


def at_index(dtype, read):
    """What each kernel of a program stores at (row, column), and how NumPy says that on bits."""
    i, j = (var(f"i{k}") for k in range(2))
    mask = load("m", BOOL, [i, j])
    row = var("row")
    place = check_index(load("rows", INT64, [i]), as_expr(ROWS), wrap=False)
    one, low = (np.asarray(v, dtype.numpy).view(f"u{dtype.itemsize}") for v in (1.5, -2.0))
    return [
        (read, lambda x, m, rows: x),
        (
            where(mask, read, where(mask, const(1.5, dtype), const(-2.0, dtype))),
            lambda x, m, rows: np.where(m, x, low),
        ),
        (
            where(mask, const(1.5, dtype), const(-2.0, dtype)),
            lambda x, m, rows: np.where(m, one, low),
        ),
        (
            make("load", dtype, mask, attr=Access("x", (i, j), masked=True)),
            lambda x, m, rows: np.where(m, x, 0),
        ),
        (load("x", dtype, [row, j], {row: place}), lambda x, m, rows: x[rows]),
    ]


def some_bits(dtype, *shape):
    """Any of a type's values, those that are no numbers among them."""
    bits = np.random.default_rng(seeded(5)).integers(0, 1 << 8 * dtype.itemsize, shape)
    return bits.astype(f"u{dtype.itemsize}")


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT8_E4M3FN])
def test_what_is_moved_keeps_its_bits(dtype):
    maker = GraphMaker()
    i, j = axes(ROWS, COLUMNS)
    maker.buffer("x", dtype, [ROWS, COLUMNS])
    maker.buffer("m", BOOL, [ROWS, COLUMNS])
    maker.buffer("rows", INT64, [ROWS])
    rows = at_index(dtype, maker.read("x", i.symbol, j.symbol))
    for k, (value, _) in enumerate(rows):
        out = maker.output(f"o{k}", dtype, [ROWS, COLUMNS])
        maker.kernel([nest(f"n{k}", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph(), levels=machine_levels())
    for function in program.emitted.functions:
        assert f"uint{8 * dtype.itemsize}_t" in function.text and "float" not in function.text
    rng = np.random.default_rng(seeded(6))
    m, places = rng.random((ROWS, COLUMNS)) < 0.7, rng.permutation(ROWS)
    x = some_bits(dtype, ROWS, COLUMNS)
    for level in program.levels:
        found, _ = program.run(level, {"x": x.view(dtype.numpy), "m": m, "rows": places}, {})
        for k, (got, (_, wanted)) in enumerate(zip(found, rows, strict=True)):
            np.testing.assert_array_equal(got.view(x.dtype), wanted(x, m, places), f"{k} {level}")


def test_what_is_computed_with_stays():
    maker = GraphMaker()
    i, j = axes(ROWS, COLUMNS)
    maker.buffer("x", BFLOAT16, [ROWS, 3 * COLUMNS])
    x = maker.read("x", i.symbol, j.symbol)
    values = [
        binary("add", x, x),
        where(binary("lt", x, const(0.0, BFLOAT16)), x, const(1.0, BFLOAT16)),
        cast(x, FLOAT32),
        cast(cast(x, FLOAT32), BFLOAT16),
        maker.read("x", i.symbol, 3 * j.symbol),  # one by one, whatever a register holds
    ]
    for k, value in enumerate(values):
        out = maker.output(f"o{k}", value.dtype, [ROWS, COLUMNS])
        maker.kernel([nest(f"n{k}", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph(), levels=machine_levels())
    assert not any("uint16_t" in function.text for function in program.emitted.functions)
    rng = np.random.default_rng(seeded(7))
    program.check({"x": rng.normal(size=(ROWS, 3 * COLUMNS)).astype(BFLOAT16.numpy)})


def test_buffers_of_one_kernel_are_judged_apart():
    """One stage computes, the other moves what nobody computes with."""
    maker = GraphMaker()
    i, j = axes(ROWS, COLUMNS)
    for name in ("x", "y"):
        maker.buffer(name, BFLOAT16, [ROWS, COLUMNS])
    x, y = (maker.read(name, i.symbol, j.symbol) for name in ("x", "y"))
    at = [i.symbol, j.symbol]
    doubled = (maker.output("o", BFLOAT16, [ROWS, COLUMNS]), at, binary("add", x, x))
    moved = (maker.output("p", BFLOAT16, [ROWS, COLUMNS]), at, y)
    nests = [nest("n", [i, j], [], doubled)], [nest("m", [i, j], [], moved)]
    maker.staged([(each, None) for each in nests], outer=1)
    program = Program(maker.graph(), levels=machine_levels())
    (function,) = program.emitted.functions
    assert "aot::load<uint16_t" in function.text and "aot::load<float" in function.text
    rng = np.random.default_rng(seeded(5))
    program.check(
        {n: rng.normal(size=(ROWS, COLUMNS)).astype(BFLOAT16.numpy) for n in ("x", "y")},
        exact=True,
    )


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_a_sign_is_a_bit(dtype):
    """What frontends widen for it is not widened: a register holds twice as many elements."""
    maker = GraphMaker()
    i, j = axes(ROWS, COLUMNS)
    maker.buffer("x", dtype, [ROWS, COLUMNS])
    wide = cast(maker.read("x", i.symbol, j.symbol), FLOAT32)
    for name in ("abs", "neg"):
        out = maker.output(name, dtype, [ROWS, COLUMNS])
        store = (out, [i.symbol, j.symbol], cast(unary(name, wide), dtype))
        maker.kernel([nest(f"n_{name}", [i, j], [], store)], outer=1)
    program = Program(maker.graph(), levels=machine_levels())
    for function in program.emitted.functions:
        assert "uint16_t" in function.text and "float" not in function.text
    x = some_bits(dtype, ROWS, COLUMNS)
    for level in program.levels:
        magnitudes, negatives = program.run(level, {"x": x.view(dtype.numpy)}, {})[0]
        np.testing.assert_array_equal(magnitudes.view("u2"), x & 0x7FFF, level)
        np.testing.assert_array_equal(negatives.view("u2"), x ^ 0x8000, level)


def test_a_sign_of_what_is_computed_with_is_a_float():
    maker = GraphMaker()
    i, j = axes(ROWS, COLUMNS)
    maker.buffer("x", BFLOAT16, [ROWS, COLUMNS])
    x = maker.read("x", i.symbol, j.symbol)
    magnitude = cast(unary("abs", cast(x, FLOAT32)), BFLOAT16)
    out = maker.output("o", BFLOAT16, [ROWS, COLUMNS])
    store = (out, [i.symbol, j.symbol], binary("add", magnitude, x))
    maker.kernel([nest("n", [i, j], [], store)], outer=1)
    program = Program(maker.graph(), levels=machine_levels())
    rng = np.random.default_rng(seeded(8))
    program.check({"x": rng.normal(size=(ROWS, COLUMNS)).astype(BFLOAT16.numpy)})
