"""Loads across lines go by turned tiles: which, and with the same results at all levels."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8
from aot.ir.scalar import binary, cast, const, index_value, load, reduce_, unary
from aot.symbolic import as_expr
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

TILE = "aot::load_tile"


def turned(rows, columns, *, dtype=FLOAT32, images=0, strip=0, value=None):
    """A kernel that stores images of `columns` x `rows` of ones that lie the other way."""
    maker = GraphMaker()
    image, i, j = axes(max(images, 1), rows, columns)
    maker.buffer("x", dtype, [max(images, 1), columns, rows])
    read = maker.read("x", image.symbol, j.symbol, i.symbol)
    made = read if value is None else value(maker, read, i.symbol, j.symbol)
    at = [image.symbol, i.symbol, j.symbol]
    out = (maker.output("o", made.dtype, [max(images, 1), rows, columns]), at, made)
    maker.kernel([nest("n", [image, i, j], [], out)], outer=1, strip=strip)
    x = np.random.default_rng(seeded(7)).normal(size=(max(images, 1), columns, rows)) * 50
    inputs = {"x": x.astype(dtype.numpy)}
    if "y" in maker.buffers:
        inputs["y"] = np.arange(rows * columns).reshape(rows, columns).astype("f4")
    return Program(maker.graph()), inputs


def tiles(program) -> int:
    return program.emitted.functions[0].text.count(TILE)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, INT32, INT64, BFLOAT16, FLOAT16])
def test_elements_of_a_registers_lanes_go_by_tiles(dtype):
    program, inputs = turned(21, 37, dtype=dtype, images=2)
    assert tiles(program) == 2  # the tail's, too
    program.check(inputs, exact=True)


@pytest.mark.parametrize(("rows", "columns"), [(16, 32), (8, 9), (40, 16), (67, 8), (9, 130)])
def test_tiles_may_be_cut_off(rows, columns):
    program, inputs = turned(rows, columns)
    assert tiles(program)
    program.check(inputs, exact=True)


def test_strips_have_tiles_of_their_own():
    program, inputs = turned(40, 75, images=2, strip=32)
    assert tiles(program)
    program.check(inputs, exact=True)


def test_what_else_a_point_reads_stays():
    """Values of the loop around, of the vector loop, and of neighbours in both."""

    def value(maker, read, i, j):
        maker.buffer("y", FLOAT32, [33, 50])
        row, column = (cast(index_value(e), FLOAT32) for e in (i, j))
        return binary("add", binary("mul", read, row), binary("sub", maker.read("y", i, j), column))

    program, inputs = turned(33, 50, value=value)
    assert tiles(program) == 2
    program.check(inputs)


@pytest.mark.parametrize(
    ("sizes", "dtype", "value"),
    [
        ((21, 5), FLOAT32, None),  # tiles would be mostly empty
        ((5, 21), FLOAT32, None),
        ((21, 37), UINT8, None),  # more lanes than a tile has rows
        ((21, 37), BOOL, None),
        ((21, 37), FLOAT32, lambda maker, read, i, j: cast(read, FLOAT64)),  # of fewer lanes
        (
            (21, 37),
            FLOAT32,
            lambda maker, read, i, j: load(  # what its mask leaves out is not there
                "x",
                FLOAT32,
                (as_expr(0), j, i),
                {},
                binary("lt", index_value(i + j), const(30, INT64)),
            ),
        ),
    ],
)
def test_others_are_loaded_lane_by_lane(sizes, dtype, value):
    program, inputs = turned(*sizes, dtype=dtype, value=value)
    assert not tiles(program)
    program.check(inputs, exact=True)


def rows(count, width, *, kind="max", dtype=FLOAT32, value=None):
    """A kernel that reduces short rows, a vector of them at a time."""
    maker = GraphMaker()
    i, r = axes(count, width)
    maker.buffer("x", dtype, [count, width])
    maker.buffer("y", dtype, [count])
    read = maker.read("x", i.symbol, r.symbol)
    inside = read if value is None else value(maker, read, i.symbol)
    reduced = reduce_(kind, inside, inside.dtype)
    out = (maker.output("o", reduced.dtype, [count]), [i.symbol], reduced)
    maker.kernel([nest("n", [i], [r], out)], order=[r, i])
    generator = np.random.default_rng(seeded(8))
    inputs = {
        "x": (generator.normal(size=(count, width)) * 9).astype(dtype.numpy),
        "y": generator.normal(size=count).astype(dtype.numpy),
    }
    return Program(maker.graph()), inputs


@pytest.mark.parametrize(("count", "width"), [(64, 16), (37, 16), (100, 9), (21, 40), (8, 8)])
def test_short_rows_are_reduced_in_tiles(count, width):
    program, inputs = rows(count, width)
    assert tiles(program)
    program.check(inputs, exact=True)


@pytest.mark.parametrize("dtype", [FLOAT64, INT32, INT64, FLOAT16, BFLOAT16])
def test_rows_of_a_registers_lanes_do(dtype):
    program, inputs = rows(50, 19, dtype=dtype)
    assert tiles(program)
    program.check(inputs, exact=True)


def test_sums_of_what_is_computed_of_a_row_have_its_own_number():
    def value(maker, read, i):
        return unary("exp", binary("sub", unary("abs", read), maker.read("y", i)))

    program, inputs = rows(45, 24, kind="sum", value=value)
    assert tiles(program)
    program.check(inputs)


@pytest.mark.parametrize(("count", "width", "dtype"), [(40, 5, FLOAT32), (40, 16, UINT8)])
def test_rows_that_tiles_do_not_fit_are_reduced_lane_by_lane(count, width, dtype):
    program, inputs = rows(count, width, dtype=dtype)
    assert not tiles(program)
    program.check(inputs, exact=True)
