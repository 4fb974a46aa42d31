"""Pointwise kernels of every operation and dtype, at every ISA level, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir import scalar
from aot.ir.dtypes import (
    ALL_DTYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
)
from aot.ir.nests import LoopNest, Store
from aot.ir.operations import COMPARE, ROWS
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import (
    binary,
    cast,
    check_index,
    const,
    index_value,
    make,
    unary,
    where,
)
from aot.ir.tensors import Dim
from aot.symbolic import FloorDiv, Modulo, as_expr, dim, var
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded

N = 37
FLOAT_UNARY = sorted(r.name for r in ROWS if r.arity == 1 and not r.test and r.name != "bitnot")
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma", "acosh"}
INNER = {"asin", "acos", "atanh", "erfinv", "log1p"}


def sample(rng, dtype, n=N):
    if dtype == BOOL:
        return rng.random(n) < 0.5
    if dtype.is_float:
        return rng.normal(0, 2, n).astype(dtype.numpy)
    low = 0 if dtype.kind == "u" else -90
    return rng.integers(low, 100, n).astype(dtype.numpy)


def test_float_unary_operations(some):
    rng = np.random.default_rng(seeded(1))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    for dtype, op in some([(t, op) for t in (FLOAT32, FLOAT64) for op in FLOAT_UNARY], 2):
        name = f"{op}_{dtype}"
        x = rng.uniform(-3, 3, N)
        x = np.abs(x) + 1.001 if op in POSITIVE else x / 3.1 if op in INNER else x
        x[:3] = [0.25, 0.5, 1.0] if op not in POSITIVE else [1.25, 1.5, 2.0]
        inputs[maker.buffer(f"x_{name}", dtype, [N])] = x.astype(dtype.numpy)
        value = unary(op, maker.read(f"x_{name}", i.symbol))
        maker.kernel([nest("n", [i], [], (maker.output(name, dtype, [N]), [i.symbol], value))])
    Program(maker.graph()).check(inputs, rtol=4e-6, atol=4e-6)


def test_float_binary_operations_and_tests():
    rng = np.random.default_rng(seeded(2))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    ops = "add sub mul div pow atan2 hypot copysign minimum maximum fmin fmax mod fmod floordiv"
    for dtype in (FLOAT32, FLOAT64):
        a, b = maker.buffer(f"a{dtype}", dtype, [N]), maker.buffer(f"b{dtype}", dtype, [N])
        inputs[a], inputs[b] = sample(rng, dtype), sample(rng, dtype)
        inputs[a][:4] = [np.nan, np.inf, -0.0, 2.0]
        x, y = maker.read(a, i.symbol), maker.read(b, i.symbol)
        for op in ops.split():
            base = unary("abs", x) if op == "pow" else x
            value = binary(op, base, y)
            maker.kernel(
                [nest("n", [i], [], (maker.output(f"{op}{dtype}", dtype, [N]), [i.symbol], value))]
            )
        tests = [unary(op, x) for op in sorted(r.name for r in ROWS if r.arity == 1 and r.test)]
        tests += [binary(op, x, y) for op in sorted(COMPARE)]
        stores = [
            (maker.output(f"t{k}{dtype}", BOOL, [N]), [i.symbol], t) for k, t in enumerate(tests)
        ]
        maker.kernel([nest("n", [i], [], *stores)])
        fused = make("fma", dtype, x, y, x)
        maker.kernel(
            [nest("n", [i], [], (maker.output(f"fma{dtype}", dtype, [N]), [i.symbol], fused))]
        )
    Program(maker.graph()).check(inputs, rtol=4e-6, atol=1e-6)


def test_limits_that_are_numbers_pass_nan():
    """They are one instruction, whose operands' order decides on NaN."""
    x = np.resize([0.0, -0.0, np.nan, np.inf, -np.inf, 2.0, -2.0, 1.5, -3.0, 7.0], N)
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    for dtype in (FLOAT32, FLOAT64, BFLOAT16):
        read = maker.read(maker.buffer(f"x{dtype}", dtype, [N]), i.symbol)
        inputs[f"x{dtype}"] = x.astype(dtype.numpy)
        limits = [const(c, dtype) for c in (2.0, -2.0, np.inf, -np.inf, 0.0, np.nan)]
        values = [binary(op, read, c) for op in ("minimum", "maximum") for c in limits]
        values += [binary(op, c, read) for op in ("minimum", "maximum") for c in limits]
        stores = [
            (maker.output(f"y{k}{dtype}", dtype, [N]), [i.symbol], v) for k, v in enumerate(values)
        ]
        maker.kernel([nest("n", [i], [], *stores)])
    Program(maker.graph()).check(inputs, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [INT64, INT32, INT16, INT8, UINT8], ids=str)
def test_integer_operations_wrap_and_round_down(dtype):
    rng = np.random.default_rng(seeded(3))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    a, b, s = (maker.buffer(n, dtype, [N]) for n in "abs")
    inputs[a], inputs[b] = sample(rng, dtype), sample(rng, dtype)
    inputs[b][:5] = [0, 1, 2, 0, 3]
    info = np.iinfo(dtype.numpy)
    inputs[a][:4] = [info.max, info.min, info.max - 1, 1]
    inputs[s] = rng.integers(0, 7, N).astype(dtype.numpy)
    x, y, z = (maker.read(n, i.symbol) for n in (a, b, s))
    values = [binary(op, x, y) for op in "add sub mul minimum maximum and or xor".split()]
    values += [binary(op, x, y) for op in "floordiv truncdiv mod fmod".split()]
    values += [binary(op, x, z) for op in "shl shr".split()]
    values += [unary(op, x) for op in "neg abs sign bitnot".split()]
    values += [unary("not", x), *(binary(op, x, y) for op in sorted(COMPARE))]
    stores = [(maker.output(f"o{k}", v.dtype, [N]), [i.symbol], v) for k, v in enumerate(values)]
    for store in stores:
        maker.kernel([nest("n", [i], [], store)])
    Program(maker.graph()).check(inputs)


def test_casts_between_all_dtypes():
    rng = np.random.default_rng(seeded(4))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    plain = [d for d in ALL_DTYPES if not d.is_float8]  # type rows convert each code of float8
    for source in plain:
        values = sample(rng, source)
        if source.is_float:
            values = np.abs(values)
        inputs[maker.buffer(f"x{source}", source, [N])] = values
        x = maker.read(f"x{source}", i.symbol)
        stores = []
        for target in plain:
            if target != source:
                out = maker.output(f"{source}_{target}", target, [N])
                stores.append((out, [i.symbol], cast(x, target)))
        maker.kernel([nest("n", [i], [], *stores)])
    Program(maker.graph()).check(inputs, exact=True)


def test_half_types_are_widened_and_rounded_once():
    rng = np.random.default_rng(seeded(5))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    for dtype in (FLOAT16, BFLOAT16):
        inputs[maker.buffer(f"x{dtype}", dtype, [N])] = sample(rng, dtype)
        x = maker.read(f"x{dtype}", i.symbol)
        value = binary("add", binary("mul", x, x), const(1.0, dtype))
        wide = cast(cast(x, FLOAT32), FLOAT64)
        maker.kernel(
            [
                nest(
                    "n",
                    [i],
                    [],
                    (maker.output(f"h{dtype}", dtype, [N]), [i.symbol], value),
                    (maker.output(f"w{dtype}", FLOAT64, [N]), [i.symbol], wide),
                )
            ]
        )
    Program(maker.graph()).check(inputs, exact=True)


def test_integers_that_are_stored_as_halves_are_rounded_by_the_store_alone():
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    inputs[maker.buffer("x", INT32, [N])] = np.arange(N, dtype=np.int32) * 259 - 4000
    value = cast(maker.read("x", i.symbol), BFLOAT16)
    maker.kernel([nest("n", [i], [], (maker.output("o", BFLOAT16, [N]), [i.symbol], value))])
    program = Program(maker.graph())
    assert "round_to" not in program.emitted.functions[0].text
    program.check(inputs, exact=True)


def test_bool_algebra_where_and_bitcast():
    rng = np.random.default_rng(seeded(6))
    maker, inputs = GraphMaker(), {}
    (i,) = axes(N)
    a, b = maker.buffer("a", BOOL, [N]), maker.buffer("b", BOOL, [N])
    f = maker.buffer("f", FLOAT32, [N])
    inputs = {a: sample(rng, BOOL), b: sample(rng, BOOL), f: sample(rng, FLOAT32)}
    p, q, x = (maker.read(n, i.symbol) for n in (a, b, f))
    values = [binary(op, p, q) for op in "and or xor eq ne lt le gt ge".split()]
    values += [unary("not", p), where(p, q, unary("not", q))]
    values += [where(p, x, const(-1.0, FLOAT32)), where(q, cast(p, INT64), const(7, INT64))]
    values += [make("bitcast", INT32, x)]
    for k, v in enumerate(values):
        out = maker.output(f"o{k}", v.dtype, [N])
        maker.kernel([nest("n", [i], [], (out, [i.symbol], v))])
    Program(maker.graph()).check(inputs, exact=True)


SIZES = [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000]


def test_tails_of_every_length_and_dynamic_sizes():
    rng = np.random.default_rng(seeded(7))
    maker = GraphMaker((Dim("s0", 0, None, 8, (0, 0, 1, 0)),))
    (i,) = axes(dim("s0"))
    outs = []
    for dtype in (FLOAT32, FLOAT64, BFLOAT16, INT8, BOOL):
        maker.buffer(f"x{dtype}", dtype, [dim("s0")])
        x = maker.read(f"x{dtype}", i.symbol)
        value = unary("not", x) if dtype == BOOL else binary("add", x, x)
        outs.append(maker.output(f"o{dtype}", dtype, [dim("s0")]))
        maker.kernel([nest("n", [i], [], (outs[-1], [i.symbol], value))], strip=128)
    value = unary("exp", maker.read("xfloat32", i.symbol))
    out = maker.output("exp", FLOAT32, [dim("s0")])
    maker.kernel([nest("n", [i], [], (out, [i.symbol], value))])
    program = Program(maker.graph())
    for n in SIZES:
        inputs = {f"x{d}": sample(rng, d, n) for d in (FLOAT32, FLOAT64, BFLOAT16, INT8, BOOL)}
        program.check(inputs, {"s0": n})


def test_layouts_broadcasts_strides_and_indices():
    rng = np.random.default_rng(seeded(8))
    rows, columns = 5, 70
    maker = GraphMaker()
    i, j = axes(rows, columns)
    maker.buffer("a", FLOAT32, [rows, columns])
    maker.buffer("t", FLOAT32, [rows, columns], [1, rows])
    maker.buffer("row", FLOAT32, [columns])
    maker.buffer("col", FLOAT32, [rows, 1])
    maker.buffer("b8", BOOL, [rows, columns], [1, rows])
    maker.buffer("gather", FLOAT32, [columns // 2, 2])
    zero = as_expr(0)
    total = maker.read("a", i.symbol, j.symbol)
    for part in (
        maker.read("t", i.symbol, j.symbol),
        maker.read("row", j.symbol),
        maker.read("row", columns - 1 - j.symbol),
        maker.read("col", i.symbol, zero),
        maker.read("gather", FloorDiv(j.symbol, as_expr(2)), Modulo(j.symbol, as_expr(2))),
        maker.read("gather", Modulo(j.symbol, as_expr(35)), FloorDiv(j.symbol, as_expr(35))),
        cast(index_value(3 * j.symbol + i.symbol), FLOAT32),
        cast(index_value(FloorDiv(j.symbol, as_expr(7))), FLOAT32),
        cast(maker.read("b8", i.symbol, j.symbol), FLOAT32),
    ):
        total = binary("add", total, part)
    plain = (maker.output("o", FLOAT32, [rows, columns]), [i.symbol, j.symbol], total)
    turned = (
        maker.output("u", FLOAT32, [rows, columns], [1, rows]),
        [i.symbol, j.symbol],
        total,
    )
    mask = binary("gt", maker.read("a", i.symbol, j.symbol), const(0.0, FLOAT32))
    flags = (maker.output("m", BOOL, [rows, columns], [1, rows]), [i.symbol, j.symbol], mask)
    maker.kernel([nest("n", [i, j], [], plain, turned, flags)], outer=1)
    program = Program(maker.graph())
    inputs = {
        "a": rng.normal(size=(rows, columns)).astype("f4"),
        "t": rng.normal(size=(rows, columns)).astype("f4"),
        "row": rng.normal(size=columns).astype("f4"),
        "col": rng.normal(size=(rows, 1)).astype("f4"),
        "b8": rng.random((rows, columns)) < 0.5,
        "gather": rng.normal(size=(columns // 2, 2)).astype("f4"),
    }
    program.check(inputs)


def test_aligned_divisions_stay_contiguous():
    """(h, d) split of a merged axis reads whole vectors, not elements."""
    maker = GraphMaker()
    i, j = axes(6, 256)
    maker.buffer("x", FLOAT32, [4, 6, 64])
    head, lane = FloorDiv(j.symbol, as_expr(64)), Modulo(j.symbol, as_expr(64))
    value = binary("mul", maker.read("x", head, i.symbol, lane), const(2.0, FLOAT32))
    out = maker.output("o", FLOAT32, [6, 256])
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    assert "gather" not in program.emitted.functions[0].text
    assert "load<float, " in program.emitted.functions[0].text
    program.check({"x": np.random.default_rng(seeded(9)).normal(size=(4, 6, 64)).astype("f4")})


def test_masked_loads_touch_nothing_outside():
    rng = np.random.default_rng(seeded(10))
    maker = GraphMaker()
    i, j = axes(6, 40)
    maker.buffer("x", FLOAT32, [4, 33])
    row = index_value(i.symbol)
    inside_row = binary(
        "and",
        binary("ge", row, const(1, INT64)),
        binary("lt", row, const(5, INT64)),
    )
    column = index_value(j.symbol)
    inside = binary("and", inside_row, binary("ge", column, const(7, INT64)))
    padded = scalar.load("x", FLOAT32, [i.symbol - 1, j.symbol - 7], {}, inside)
    rows_only = scalar.load("x", FLOAT32, [i.symbol - 1, as_expr(3)], {}, inside_row)
    value = binary("add", padded, rows_only)
    out = maker.output("o", FLOAT32, [6, 40])
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    Program(maker.graph()).check({"x": rng.normal(size=(4, 33)).astype("f4")}, exact=True)


def test_gathered_rows_and_elements_check_their_indices():
    rng = np.random.default_rng(seeded(11))
    maker = GraphMaker()
    i, j = axes(9, 21)
    maker.buffer("table", FLOAT32, [13, 21])
    maker.buffer("ids", INT64, [9])
    maker.buffer("columns", INT32, [9, 21])
    u, w = var("u0"), var("u1")
    row = scalar.check_index(maker.read("ids", i.symbol), as_expr(13))
    column = scalar.check_index(maker.read("columns", i.symbol, j.symbol), as_expr(21))
    picked = scalar.load("table", FLOAT32, [u, w], {u: row, w: column})
    whole = scalar.load("table", FLOAT32, [u, j.symbol], {u: row})
    out = maker.output("o", FLOAT32, [9, 21])
    value = binary("add", picked, whole)
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    inputs = {
        "table": rng.normal(size=(13, 21)).astype("f4"),
        "ids": rng.integers(-13, 13, 9),
        "columns": rng.integers(-21, 21, (9, 21)).astype("i4"),
    }
    program.check(inputs, exact=True)
    for bad in (13, -14, 2**40):
        _, fault = program.run(program.levels[0], {**inputs, "ids": np.full(9, bad)}, {})
        assert fault == 1


def test_places_of_32_bits_are_checked_and_looked_up_in_them():
    """Also where a mask leaves lanes out, and in the lanes of a tail."""
    rng = np.random.default_rng(seeded(13))
    maker = GraphMaker()
    i, j = axes(3, 21)
    maker.buffer("table", FLOAT32, [3, 13, 6])
    maker.buffer("rows", INT32, [21])
    maker.buffer("columns", INT32, [21])
    u, w = var("u0"), var("u1")
    row, column = (
        scalar.check_index(cast(maker.read(name, j.symbol), INT64), as_expr(size), wrap=False)
        for name, size in (("rows", 13), ("columns", 6))
    )
    seen = binary("lt", maker.read("rows", j.symbol), const(9, INT32))
    value = scalar.load("table", FLOAT32, [i.symbol, u, w], {u: row, w: column}, seen)
    out = maker.output("o", FLOAT32, [3, 21])
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    text = " ".join(f.text for f in program.emitted.functions)
    assert "check_narrow" in text
    assert "gather_m" not in text
    inputs = {
        "table": rng.normal(size=(3, 13, 6)).astype("f4"),
        "rows": rng.integers(0, 13, 21).astype("i4"),
        "columns": rng.integers(0, 6, 21).astype("i4"),
    }
    program.check(inputs, exact=True)
    for place, bad in ((0, 13), (20, -1), (7, 2**31 - 1)):
        rows = inputs["rows"].copy()
        rows[place] = bad
        for level in program.levels:
            _, fault = program.run(level, {**inputs, "rows": rows}, {})
            assert fault == 1


def test_what_a_mask_keeps_out_of_a_buffer_is_not_looked_up():
    """Rows of a concatenation's first piece: their numbers are checked for all pieces."""
    rng = np.random.default_rng(seeded(14))
    maker = GraphMaker()
    (i,) = axes(21)
    maker.buffer("piece", FLOAT32, [7])
    maker.buffer("rows", INT32, [21])
    u = var("u0")
    number = cast(maker.read("rows", i.symbol), INT64)
    row = scalar.check_index(number, as_expr(13), wrap=False)
    seen = binary("lt", maker.read("rows", i.symbol), const(7, INT32))
    value = scalar.load("piece", FLOAT32, [u], {u: row}, seen)
    out = maker.output("o", FLOAT32, [21])
    maker.kernel([nest("n", [i], [], (out, [i.symbol], value))])
    program = Program(maker.graph())
    assert "gather_m" in " ".join(f.text for f in program.emitted.functions)
    inputs = {
        "piece": rng.normal(size=7).astype("f4"),
        "rows": rng.integers(0, 13, 21).astype("i4"),
    }
    program.check(inputs, exact=True)


def test_kernels_that_differ_in_a_slice_share_their_code():
    rng = np.random.default_rng(seeded(12))
    maker = GraphMaker()
    i, j = axes(3, 24)
    maker.buffer("x", FLOAT32, [3, 5, 24])
    maker.buffer("o", FLOAT32, [3, 5, 24], kind="temp")
    maker.outputs.append("o")
    for step in (1, 2, 3, 4, 0):
        at = [i.symbol, as_expr(step), j.symbol]
        value = unary("neg", maker.read("x", *at))
        maker.kernel([nest("n", [i, j], [], ("o", at, value))], outer=1)
    program = Program(maker.graph())
    assert [launch.function for launch in program.emitted.launches] == ["k0"] * 4 + ["k4"]
    program.check({"x": rng.normal(size=(3, 5, 24)).astype("f4")}, exact=True)


def test_comparisons_of_positions_at_every_side_of_a_boundary(some):
    maker = GraphMaker((Dim("s0", 1, 1000, 200, (0, 0, 1, 0)),))
    s = dim("s0")
    (i,) = axes(s)
    maker.buffer("x", FLOAT32, [s])
    for boundary in some((0, 63, 64, 65, 128), 2):
        for op in sorted(COMPARE):
            for swapped in (False, True):
                position, edge = index_value(i.symbol), const(boundary, INT64)
                value = binary(op, *((edge, position) if swapped else (position, edge)))
                out = maker.output(f"{op}{boundary}{swapped}", BOOL, [s])
                maker.kernel([nest("n", [i], [], (out, [i.symbol], value))])
    other = binary("lt", index_value(Modulo(i.symbol, as_expr(3))), index_value(s - i.symbol))
    out = maker.output("other", BOOL, [s])
    maker.kernel([nest("n", [i], [], (out, [i.symbol], other))])
    program = Program(maker.graph())
    for n in (1, 63, 64, 65, 200):
        program.check({"x": np.zeros(n, "f4")}, {"s0": n})


def test_joined_slices_branch_once_a_vector():
    """cat of two tensors at an aligned boundary needs neither lane masks nor gathers."""
    maker = GraphMaker()
    i, j = axes(4, 384)
    maker.buffer("a", FLOAT32, [4, 128])
    maker.buffer("b", FLOAT32, [4, 256])
    first = binary("lt", index_value(j.symbol), const(128, INT64))
    a = scalar.load("a", FLOAT32, [i.symbol, j.symbol], {}, first)
    b = scalar.load("b", FLOAT32, [i.symbol, j.symbol - 128], {}, unary("not", first))
    out = maker.output("o", FLOAT32, [4, 384])
    value = unary("neg", where(first, a, b))
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    text = program.emitted.functions[0].text
    assert "Mask<L0>" not in text and "_m<" not in text
    rng = np.random.default_rng(seeded(13))
    inputs = {"a": rng.normal(size=(4, 128)), "b": rng.normal(size=(4, 256))}
    program.check({k: v.astype("f4") for k, v in inputs.items()}, exact=True)


def test_divisions_of_negative_positions_round_down():
    rng = np.random.default_rng(seeded(14))
    maker = GraphMaker()
    i, j = axes(5, 40)
    maker.buffer("x", FLOAT32, [5, 40])
    rolled = maker.read("x", Modulo(i.symbol - 3, as_expr(5)), Modulo(j.symbol - 7, as_expr(40)))
    quotient = index_value(FloorDiv(j.symbol - 21, as_expr(4)))
    outs = [
        (rolled, FLOAT32),
        (quotient, INT64),
        (index_value(Modulo(i.symbol - 3, as_expr(5))), INT64),
    ]
    for k, (value, dtype) in enumerate(outs):
        out = maker.output(f"o{k}", dtype, [5, 40])
        maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    Program(maker.graph()).check({"x": rng.normal(size=(5, 40)).astype("f4")}, exact=True)


@pytest.mark.parametrize("stride", [-1, 2])
def test_turned_and_spread_neighbours_are_read_as_vectors_within_the_row(stride):
    """The last vector ends with the row's last element: behind it lies what must not be read."""
    maker, inputs = GraphMaker(), {}
    (i,) = axes(64)
    for dtype in (FLOAT32, FLOAT64, INT32, INT16, UINT8, BFLOAT16):
        maker.buffer(f"x{dtype}", dtype, [64 if stride < 0 else 127])
        place = 63 - i.symbol if stride < 0 else 2 * i.symbol
        value = maker.read(f"x{dtype}", place)
        maker.kernel(
            [nest("n", [i], [], (maker.output(f"o{dtype}", dtype, [64]), [i.symbol], value))]
        )
        inputs[f"x{dtype}"] = np.arange(64 if stride < 0 else 127).astype(dtype.numpy)
    Program(maker.graph()).check(inputs, exact=True)


def test_rings_are_read_as_vectors_but_where_they_close():
    maker = GraphMaker()
    i, j = axes(3, 100)
    maker.buffer("x", FLOAT32, [3, 45])
    value = maker.read("x", i.symbol, Modulo(j.symbol + 38, as_expr(45)))
    out = maker.output("o", FLOAT32, [3, 100])
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    text = program.emitted.functions[0].text
    assert "load_turned" in text and "gather" not in text
    program.check({"x": np.arange(135, dtype="f4").reshape(3, 45)}, exact=True)


def test_quotients_of_lanes_are_exact_at_every_multiple():
    maker = GraphMaker()
    (i,) = axes(700)
    parts = [(FloorDiv, 3, 7, 342), (Modulo, 5, 11, 171), (FloorDiv, 256, 0, 171)]
    for k, (kind, scale, offset, divisor) in enumerate(parts):
        place = kind(scale * i.symbol + offset, as_expr(divisor))
        value = index_value(2 * place + 3 * i.symbol)
        maker.kernel([nest("n", [i], [], (maker.output(f"o{k}", INT64, [700]), [i.symbol], value))])
    large = index_value(FloorDiv(i.symbol * (1 << 38) + 1, as_expr((1 << 38) + 1)))
    maker.kernel([nest("n", [i], [], (maker.output("large", INT64, [700]), [i.symbol], large))])
    program = Program(maker.graph())
    assert all("lanes_of" not in f.text for f in program.emitted.functions)
    program.check({}, exact=True)


@pytest.mark.parametrize(("mode", "join"), [("add", np.add), ("minimum", np.minimum)])
def test_lanes_that_name_one_element_are_joined_first(mode, join):
    """Runs of every length, whole vectors of one index among them."""
    maker = GraphMaker()
    (i,) = axes(500)
    maker.buffer("x", INT32, [500])
    maker.buffer("at", INT64, [500])
    goal = check_index(maker.read("at", i.symbol), as_expr(40), wrap=False)
    symbol = var("u0")
    out = maker.output("o", INT32, [40])
    value = maker.read("x", i.symbol)
    store = Store(out, (symbol,), value, mode, ((symbol, goal),))
    maker.kernel([LoopNest("n", (i,), (), (store,), NO_ORIGIN)])
    program = Program(maker.graph())
    rng = np.random.default_rng(seeded(41))
    at = np.sort(rng.integers(0, 40, 500))
    x = rng.integers(-50, 50, 500).astype("i4")
    wanted = np.full(40, 0x55555555, "i4")  # what the runner fills memory with
    join.at(wanted, at, x)
    for level in program.levels:
        (got,), fault = program.run(level, {"x": x, "at": at}, {})
        assert fault == 0
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("width", [2, 4])
def test_rows_as_long_as_a_vector_need_no_masks(width):
    """Registers are taken as wide as the row, where that fills one or several of them."""
    maker = GraphMaker()
    i, j = axes(19, width)
    for dtype in (BFLOAT16, FLOAT64):
        maker.buffer(f"x_{dtype}", dtype, [19, width])
        read = maker.read(f"x_{dtype}", i.symbol, j.symbol)
        wide = cast(read, FLOAT32) if dtype == BFLOAT16 else read
        value = cast(binary("mul", wide, wide), dtype)
        out = (maker.output(f"o_{dtype}", dtype, [19, width]), [i.symbol, j.symbol], value)
        maker.kernel([nest(f"n_{dtype}", [i, j], [], out)], outer=1)
    total = (maker.output("s", FLOAT32, [19]), [i.symbol])
    value = scalar.reduce_("sum", cast(maker.read("x_bfloat16", i.symbol, j.symbol), FLOAT32))
    maker.kernel([nest("r", [i], [j], (*total, value))], outer=1)
    program = Program(maker.graph())
    texts = {f.name: f.text for f in program.emitted.functions}
    assert not any("tail" in text for text in texts.values())
    rng = np.random.default_rng(seeded(3))
    sizes = {
        dtype: rng.normal(size=(19, width)).astype(dtype.numpy) for dtype in (BFLOAT16, FLOAT64)
    }
    program.check({f"x_{dtype}": x for dtype, x in sizes.items()})


@pytest.mark.parametrize("width", [8, 16])
def test_short_rows_of_what_is_moved_need_no_masks(width):
    maker = GraphMaker()
    i, j = axes(19, width)
    maker.buffer("x", BFLOAT16, [19, width])
    out = maker.output("o", BFLOAT16, [19, width])
    value = maker.read("x", i.symbol, j.symbol)
    maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    program = Program(maker.graph())
    assert "tail" not in program.emitted.functions[0].text
    x = np.random.default_rng(seeded(3)).normal(size=(19, width))
    program.check({"x": x.astype(BFLOAT16.numpy)}, exact=True)
