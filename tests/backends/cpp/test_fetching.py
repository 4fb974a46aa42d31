"""Rows that indices in memory name are fetched ahead: where, and with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT32, INT64, UINT8
from aot.ir.nests import LoopNest, Store
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import binary, cast, check_index, const, load, reduce_
from aot.symbolic import as_expr, var
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

WIDE = 300_000
"""Elements of a table that no near cache holds."""


def gathered(rows, width=16, *, count=40, dtype=INT64, outer=0, doubled=False):
    """A kernel that reads the rows of a table which `count` indices name; and its inputs."""
    maker = GraphMaker()
    i, j = axes(count, width)
    maker.buffer("table", FLOAT32, [rows, width])
    maker.buffer("at", dtype, [count])
    named = cast(maker.read("at", i.symbol), INT64)
    if doubled:
        named = binary("mul", named, const(2, INT64))
    goal = check_index(named, as_expr(rows), wrap=True)
    row = var("u0")
    value = load("table", FLOAT32, (row, j.symbol), {row: goal})
    out = (maker.output("o", FLOAT32, [count, width]), [i.symbol, j.symbol], value)
    maker.kernel([nest("n", [i, j], [], out)], outer=outer)
    rng = np.random.default_rng(seeded(31))
    low, high = (-rows, rows) if not doubled else (0, rows // 2)
    table = rng.normal(size=(rows, width)).astype("f4")
    at = rng.integers(low, high, count).astype(dtype.numpy)
    return Program(maker.graph()), {"table": table, "at": at}


@pytest.mark.parametrize("outer", [0, 1])
@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_rows_of_a_large_table_are_fetched(outer, dtype):
    program, inputs = gathered(WIDE // 16, dtype=dtype, outer=outer)
    (function,) = program.emitted.functions
    assert function.text.count("aot::fetch<64>(") == 1
    assert "imin(16 + i0, 39)" in function.text  # never behind the last index
    program.check(inputs, exact=True)


def test_long_rows_are_fetched_in_part():
    program, inputs = gathered(300, 1000)
    assert "aot::fetch<256>(" in program.emitted.functions[0].text
    program.check(inputs, exact=True)


@pytest.mark.parametrize("case", [{"rows": 100}, {"rows": WIDE // 16, "doubled": True}])
def test_cached_tables_and_computed_rows_are_not(case):
    program, inputs = gathered(**case)
    assert "fetch" not in program.emitted.functions[0].text
    program.check(inputs, exact=True)


def test_an_index_out_of_range_is_a_fault_as_ever():
    program, inputs = gathered(WIDE // 16)
    inputs["at"][7] = WIDE
    for level in program.levels:
        assert program.run(level, inputs, {})[1] != 0


def test_rows_that_values_join_are_fetched():
    maker, rows = GraphMaker(), WIDE // 16
    i, j = axes(40, 16)
    maker.buffer("x", FLOAT32, [40, 16])
    maker.buffer("at", INT64, [40])
    maker.buffer("start", FLOAT32, [rows, 16])
    goal = check_index(maker.read("at", i.symbol), as_expr(rows), wrap=False)
    symbol = var("u0")
    store = Store(
        maker.output("o", FLOAT32, [rows, 16]),
        (symbol, j.symbol),
        maker.read("x", i.symbol, j.symbol),
        mode="add",
        binds=((symbol, goal),),
        base="start",
    )
    maker.kernel([LoopNest("n", (i, j), (), (store,), NO_ORIGIN)])
    program = Program(maker.graph())
    assert "aot::fetch<64>(" in program.emitted.functions[0].text


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "fetched"),
    [
        (BFLOAT16, 700, 1391, True),
        (FLOAT32, 700, 1391, False),
        (BFLOAT16, 9000, 70, False),  # many rows a page
        (BFLOAT16, 70, 1391, False),  # in a near cache
        (FLOAT16, 2383, 440, True),  # four rows a page
        (UINT8, 1024, 1000, True),
    ],
)
def test_rows_of_halves_that_lie_far_apart_are_fetched_for_sums_of_columns(
    dtype, rows, columns, fetched
):
    maker = GraphMaker()
    i, j = axes(columns, rows)
    maker.buffer("x", dtype, [rows, columns])
    total = reduce_("sum", cast(maker.read("x", j.symbol, i.symbol), FLOAT32))
    out = (maker.output("o", FLOAT32, [columns]), [i.symbol], total)
    maker.kernel([nest("n", [i], [j], out)], order=(j, i))
    program = Program(maker.graph())
    assert ("aot::fetch<" in program.emitted.functions[0].text) == fetched
    x = np.random.default_rng(seeded(32)).integers(-8, 8, (rows, columns))
    program.check({"x": x.astype(dtype.numpy)}, exact=True)
