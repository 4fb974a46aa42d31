"""Reductions along every kind of axis, at every ISA level, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    UINT8,
)
from aot.ir.scalar import binary, cast, const, reduce_, unary
from aot.ir.tensors import Dim
from aot.symbolic import as_expr, dim
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

KINDS = "sum prod min max any all argmin argmax".split()


def sample(rng, dtype, shape):
    if dtype == BOOL:
        return rng.random(shape) < 0.7
    if dtype.is_float:
        return rng.uniform(0.6, 1.5, shape).astype(dtype.numpy)
    return rng.integers(0, 4, shape).astype(dtype.numpy)


def reducer(maker, source, kind, index):
    value = maker.read(source, *index)
    if kind in ("sum", "prod") and not value.dtype.is_float:
        value = cast(value, INT64)
    return reduce_(kind, value)


def test_every_kind_and_dtype_along_rows_columns_and_everything(some):
    rng = np.random.default_rng(seeded(1))
    rows, columns = 11, 83
    maker, inputs = GraphMaker(), {}
    i, j = axes(rows, columns)
    dtypes = (FLOAT32, FLOAT64, BFLOAT16, INT32, INT8, UINT8, BOOL)
    for dtype, kind in some([(dtype, kind) for dtype in dtypes for kind in KINDS], 3):
        source = f"x{dtype}"
        if source not in inputs:
            maker.buffer(source, dtype, [rows, columns])
            inputs[source] = sample(rng, dtype, (rows, columns))
        value = reducer(maker, source, kind, (i.symbol, j.symbol))
        name = f"{kind}_{dtype}"
        row = maker.output(f"row_{name}", value.dtype, [rows])
        maker.kernel([nest("n", [i], [j], (row, [i.symbol], value))], outer=1)
        column = maker.output(f"column_{name}", value.dtype, [columns])
        maker.kernel([nest("n", [j], [i], (column, [j.symbol], value))], order=(i, j))
        whole = maker.output(f"all_{name}", value.dtype, [])
        maker.kernel([nest("n", [], [i, j], (whole, [], value))])
    Program(maker.graph()).check(inputs, rtol=2e-5, atol=0)


@pytest.mark.parametrize(
    ("dtype", "columns", "wide", "tail"),
    [
        (UINT8, 1024, "4 * L0 < 64 ? 4 * L0 : 64", None),  # a mask's lanes, at every level
        (FLOAT16, 440, "8 * L0 < 64 ? 8 * L0 : 64", "W0"),  # as many bytes of a row as of floats
        (FLOAT32, 440, "4 * L0", "W0"),
        (FLOAT32, 72, "4 * L0", "L0"),  # a vector's at most
    ],
)
def test_columns_are_read_in_whole_lines_and_what_is_left_of_them_at_once(
    dtype, columns, wide, tail
):
    rng = np.random.default_rng(seeded(31))
    maker, rows = GraphMaker(), 40
    i, j = axes(rows, columns)
    inputs = {maker.buffer("x", dtype, [rows, columns]): sample(rng, dtype, (rows, columns))}
    value = reduce_("max", maker.read("x", i.symbol, j.symbol))
    out = maker.output("o", dtype, [columns])
    maker.kernel([nest("n", [j], [i], (out, [j.symbol], value))], order=(i, j))
    program = Program(maker.graph())
    text = program.emitted.functions[0].text
    assert f"constexpr int W0 = {wide};" in text
    assert ("tail" in text) == (tail is not None)
    assert tail is None or f", {tail}>::" in text or f"i1 += {tail})" in text
    program.check(inputs, exact=True)


def test_scalar_loops_and_three_axes():
    rng = np.random.default_rng(seeded(2))
    maker = GraphMaker()
    i, j, k = axes(4, 9, 21)
    maker.buffer("x", FLOAT32, [4, 9, 21])
    value = reduce_("sum", maker.read("x", i.symbol, j.symbol, k.symbol))
    index = [a.symbol for a in (i, j, k)]
    assert index
    for name, kept, reduced, outer, scalar in (
        ("scalar", [i, j], [k], 1, True),
        ("middle", [i, k], [j], 1, False),
        ("outer", [j, k], [i], 0, False),
        ("two", [j], [i, k], 0, False),
        ("inner", [i], [j, k], 1, False),
    ):
        out = maker.output(name, FLOAT32, [a.extent for a in kept])
        order = [a for a in kept[outer:] if a in kept] + list(reduced)
        if name in ("middle", "outer"):
            order = [*reduced, *kept[outer:]]
        maker.kernel(
            [nest("n", kept, reduced, (out, [a.symbol for a in kept], value))],
            outer=outer,
            scalar=scalar,
            order=order,
        )
    Program(maker.graph()).check({"x": rng.normal(size=(4, 9, 21)).astype("f4")}, rtol=1e-5)


def test_nan_ties_and_infinities():
    maker = GraphMaker()
    i, j = axes(6, 50)
    x = np.ones((6, 50), "f4")
    x[0, 33] = np.nan
    x[0, 40] = np.nan
    x[1, 7] = x[1, 9] = 5
    x[2, 49] = -np.inf
    x[3] = -np.inf
    x[4, 20] = x[4, 3] = np.inf
    maker.buffer("x", FLOAT32, [6, 50])
    for kind in ("min", "max", "argmin", "argmax", "any", "all"):
        value = reduce_(kind, maker.read("x", i.symbol, j.symbol))
        out = maker.output(kind, value.dtype, [6])
        maker.kernel([nest("n", [i], [j], (out, [i.symbol], value))], outer=1)
        down = maker.output(f"{kind}_down", value.dtype, [50])
        maker.kernel([nest("n", [j], [i], (down, [j.symbol], value))], order=(i, j))
    Program(maker.graph()).check({"x": x}, exact=True)


def test_long_float_sums_keep_their_precision():
    rng = np.random.default_rng(seeded(3))
    count = 300_001
    maker = GraphMaker()
    i, j = axes(2, count)
    maker.buffer("x", FLOAT32, [2, count])
    value = reduce_("sum", maker.read("x", i.symbol, j.symbol))
    out = maker.output("row", FLOAT32, [2])
    maker.kernel([nest("n", [i], [j], (out, [i.symbol], value))], outer=1)
    out = maker.output("scalar", FLOAT32, [2])
    maker.kernel([nest("n", [i], [j], (out, [i.symbol], value))], outer=1, scalar=True)
    maker.buffer("t", FLOAT32, [count, 2])
    turned = reduce_("sum", maker.read("t", j.symbol, i.symbol))
    out = maker.output("column", FLOAT32, [2])
    maker.kernel([nest("n", [i], [j], (out, [i.symbol], turned))], order=(j, i))
    x = rng.random((2, count)).astype("f4")
    exact = x.astype("f8").sum(1)
    program = Program(maker.graph())
    for level in program.levels:
        outputs, _ = program.run(level, {"x": x, "t": np.ascontiguousarray(x.T)}, {})
        for got in outputs:
            np.testing.assert_allclose(got, exact, rtol=6e-7)


def test_dynamic_sizes_and_strips():
    rng = np.random.default_rng(seeded(4))
    d = dim("s0")
    maker = GraphMaker((Dim("s0", 0, 4096, 8, (0, 1, 1, 0)),))
    i, j = axes(3, d)
    maker.buffer("x", FLOAT32, [3, d])
    value = reduce_("sum", unary("exp", maker.read("x", i.symbol, j.symbol)))
    out = maker.output("row", FLOAT32, [3])
    maker.kernel([nest("n", [i], [j], (out, [i.symbol], value))], outer=1)
    best = reduce_("max", maker.read("x", i.symbol, j.symbol))
    out = maker.output("column", FLOAT32, [d])
    maker.kernel([nest("n", [j], [i], (out, [j.symbol], best))], order=(i, j), strip=128)
    program = Program(maker.graph())
    for n in (0, 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000):
        x = rng.normal(size=(3, n)).astype("f4")
        program.check({"x": x}, {"s0": n}, rtol=1e-5)


def test_softmax_and_layer_norm_in_one_kernel_each():
    """Chains of reductions over the same rows, with locals in registers and in scratch."""
    rng = np.random.default_rng(seeded(5))
    rows, columns = 7, 77
    maker = GraphMaker()
    i, j = axes(rows, columns)
    for name in ("x", "w"):
        maker.buffer(name, FLOAT32, [rows, columns] if name == "x" else [columns])
    x = maker.read("x", i.symbol, j.symbol)
    temp = {"kind": "temp"}
    top = maker.buffer("top", FLOAT32, [rows], **temp)
    e = maker.buffer("e", FLOAT32, [rows, columns], **temp)
    total = maker.buffer("total", FLOAT32, [rows], **temp)
    soft = maker.output("softmax", FLOAT32, [rows, columns])
    shifted = unary("exp", binary("sub", x, maker.read(top, i.symbol)))
    stages = [
        ([nest("a", [i], [j], (top, [i.symbol], reduce_("max", x)))], None),
        (
            [
                nest("b", [i, j], [], (e, [i.symbol, j.symbol], shifted)),
                nest("c", [i], [j], (total, [i.symbol], reduce_("sum", shifted))),
            ],
            None,
        ),
        (
            [
                nest(
                    "d",
                    [i, j],
                    [],
                    (
                        soft,
                        [i.symbol, j.symbol],
                        binary(
                            "div",
                            maker.read(e, i.symbol, j.symbol),
                            maker.read(total, i.symbol),
                        ),
                    ),
                )
            ],
            None,
        ),
    ]
    maker.staged(stages, outer=1, local=(top, e, total))
    mean = maker.buffer("mean", FLOAT32, [rows], **temp)
    variance = maker.buffer("variance", FLOAT32, [rows], **temp)
    scale = maker.buffer("scale", FLOAT32, [rows], **temp)
    normed = maker.output("normed", FLOAT32, [rows, columns])
    count = const(columns, FLOAT32)
    centred = binary("sub", x, maker.read(mean, i.symbol))
    spread = binary("div", reduce_("sum", binary("mul", centred, centred)), count)
    rsqrt = unary("rsqrt", binary("add", maker.read(variance, i.symbol), const(1e-5, FLOAT32)))
    value = binary(
        "mul", binary("mul", centred, maker.read(scale, i.symbol)), maker.read("w", j.symbol)
    )
    average = binary("div", reduce_("sum", x), count)
    maker.staged(
        [
            ([nest("a", [i], [j], (mean, [i.symbol], average))], None),
            ([nest("b", [i], [j], (variance, [i.symbol], spread))], None),
            ([nest("c", [i], [], (scale, [i.symbol], rsqrt))], None),
            ([nest("d", [i, j], [], (normed, [i.symbol, j.symbol], value))], None),
        ],
        outer=1,
        local=(mean, variance, scale),
    )
    program = Program(maker.graph())
    assert int(program.emitted.launches[0].over.scratch) == 320  # 77 floats, in units of 64 bytes
    assert int(program.emitted.launches[1].over.scratch) == 0
    program.check(
        {
            "x": rng.normal(size=(rows, columns)).astype("f4"),
            "w": rng.normal(size=columns).astype("f4"),
        },
        rtol=2e-5,
    )


def test_accumulating_stores_add_in_order():
    from aot.ir.nests import Store
    from aot.ir.scalar import check_index
    from aot.symbolic import var

    rng = np.random.default_rng(seeded(6))
    maker = GraphMaker()
    i, j = axes(12, 10)
    maker.buffer("x", FLOAT32, [12, 10])
    maker.buffer("ids", INT64, [12])
    out = maker.output("o", FLOAT32, [5, 10])
    zero = nest("z", axes(5, 10), [], (out, [a.symbol for a in axes(5, 10)], const(0, FLOAT32)))
    u = var("t0")
    target = check_index(maker.read("ids", i.symbol), as_expr(5))
    store = Store(out, (u, j.symbol), maker.read("x", i.symbol, j.symbol), "add", ((u, target),))
    maker.kernel([zero], outer=1)
    maker.kernel([nest("s", [i, j], [], store)], outer=1)
    program = Program(maker.graph())
    assert int(program.emitted.launches[1].over.units) == 1
    inputs = {
        "x": rng.normal(size=(12, 10)).astype("f4"),
        "ids": rng.integers(0, 5, 12),
    }
    program.check(inputs)


@pytest.mark.parametrize(("most", "index"), [(1 << 20, "int32_t"), (None, "int64_t")])
def test_positions_have_32_bits_where_no_size_has_more(most, index):
    rows = dim("rows")
    maker = GraphMaker((Dim("rows", 1, most, 8, (0, 0, 1, 0)),))
    r, i = axes(rows, 5)
    maker.buffer("x", FLOAT32, [rows, 5])
    value = reduce_("argmax", maker.read("x", r.symbol, i.symbol))
    maker.kernel([nest("n", [i], [r], (maker.output("o", INT64, [5]), [i.symbol], value))])
    program = Program(maker.graph())
    assert f"aot::ArgLanes<true, float, {index}" in program.emitted.functions[0].text
    rng = np.random.default_rng(seeded(4))
    program.check({"x": rng.integers(0, 9, (300, 5)).astype("f4")}, {"rows": 300}, exact=True)
