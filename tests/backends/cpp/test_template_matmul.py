"""Matmul kernels with epilogues, weights packed at build time and operands packed at run time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aot.backends.cpp.backend import CppBackend
from aot.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32
from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.loops import reads
from aot.ir.nests import Axis, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import binary, cast, unary
from aot.ir.templates.matmul import Matmul
from aot.ir.tensors import Dim
from aot.options import ALL_CPU, BuildOptions, Target, default_cache_dir, environment
from aot.symbolic import FloorDiv, Modulo, as_expr, dim, var
from tests.backends.kernel_runner import GraphMaker, Program, axes, nest
from tests.settings import seeded


def view(name, sizes, index):
    """A view with axes v0, v1, …; `index` maps their symbols to the buffer's index."""
    made = tuple(Axis(var(f"v{k}"), as_expr(s)) for k, s in enumerate(sizes))
    return View(name, made, tuple(index(*(a.symbol for a in made))))


def matmul(maker, a, b, out, nests=(), local=True):
    """Appends a matmul kernel with its epilogue; axes of the nests are the output's."""
    call = Matmul("t", out, NO_ORIGIN, a, b)
    outputs = [s.buffer for n in nests for s in n.stores]
    read = [a.buffer, b.buffer, *(r for n in nests for r in reads(n) if r != out.buffer)]
    stages = ()
    if nests:
        inner = nests[0].axes
        stages = (Stage(inner, (), inner, inner[-1], tuple(nests)),)
    maker.kernels.append(
        TemplateKernel(
            f"k{len(maker.kernels)}",
            call,
            stages,
            (out.buffer,) if local else (),
            tuple(dict.fromkeys(read)),
            tuple(dict.fromkeys([*([] if local else [out.buffer]), *outputs])),
        )
    )


def product(rows, columns):
    """A product of so many rows, of depth 16."""
    maker = GraphMaker((Dim("s0", 0, 300, 8, (0, 0, 1, 0)),))
    maker.buffer("x", FLOAT32, [rows, 16])
    maker.buffer("w", FLOAT32, [16, columns])
    maker.output("o", FLOAT32, [rows, columns])
    x = view("x", [rows, 16], lambda a, b: (a, b))
    w = view("w", [16, columns], lambda a, b: (a, b))
    matmul(maker, x, w, view("o", [rows, columns], lambda a, b: (a, b)), local=False)
    return CppBackend().emit(maker.graph(), ALL_CPU)


@pytest.mark.parametrize(("rows", "tables"), [(dim("s0"), ("float",)), (8, ())], ids=str)
def test_only_unknown_numbers_of_rows_want_the_tables_that_kernels_share(rows, tables):
    (function,) = product(rows, 32).functions
    assert function.tables == tables
    assert ("SHARED = true" in function.text) == bool(tables)


def test_a_library_whose_columns_fill_their_panels_has_no_micro_kernels_of_halves(tmp_path):
    target = Target("cpu", ("x86-64-v2",))
    options = BuildOptions(jobs=2, cache_dir=default_cache_dir(environment()))
    filled, half = (
        len(CppBackend().compile(product(dim("s0"), columns), target, options)[0].data)
        for columns in (32, 24)
    )
    assert filled + 4000 < half


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BFLOAT16, FLOAT16, INT32], ids=str)
def test_weights_are_packed_and_dynamic_rows_work(dtype):
    """A linear layer, bias and tanh fused, over every tail of rows and columns."""
    rng = np.random.default_rng(seeded(1))
    s, k, n = dim("s0"), 35, 83
    maker = GraphMaker((Dim("s0", 0, 300, 8, (0, 0, 1, 0)),))
    maker.buffer("x", dtype, [s, k])
    maker.buffer("w", dtype, [n, k], kind="weight")
    maker.buffer("bias", dtype, [n])
    maker.buffer("t", dtype, [s, n], kind="temp")
    out = maker.output("o", dtype, [s, n])
    i, j = axes(s, n)
    value = binary("add", maker.read("t", i.symbol, j.symbol), maker.read("bias", j.symbol))
    value = unary("tanh" if dtype.is_float else "neg", value)
    matmul(
        maker,
        view("x", [s, k], lambda a, b: (a, b)),
        view("w", [k, n], lambda a, b: (b, a)),
        view("t", [s, n], lambda a, b: (a, b)),
        [nest("e", [i, j], [], (out, [i.symbol, j.symbol], value))],
    )
    program = Program(maker.graph())
    (weight,) = program.emitted.graph.derived
    assert weight.recipe == "pack_matmul" and weight.sources == ("w",)
    assert "w" not in program.emitted.launches[0].buffers

    def draw(*size):
        return rng.normal(size=size) if dtype.is_float else rng.integers(-9, 9, size)

    for rows in (0, 1, 2, 15, 33, 130, 300):
        inputs = {
            "x": draw(rows, k).astype(dtype.numpy),
            "w": (draw(n, k) / (10 if dtype.is_float else 1)).astype(dtype.numpy),
            "bias": draw(n).astype(dtype.numpy),
        }
        program.check(inputs, {"s0": rows}, rtol=1e-5, atol=2e-2 if dtype.itemsize == 2 else 1e-5)


def test_plain_product_without_an_epilogue_and_with_a_kept_result():
    rng = np.random.default_rng(seeded(2))
    m, k, n = 70, 48, 96
    maker = GraphMaker()
    maker.buffer("x", FLOAT32, [m, k])
    maker.buffer("w", FLOAT32, [k, n], kind="weight")
    plain = maker.output("plain", FLOAT32, [m, n])
    kept = maker.output("kept", FLOAT32, [m, n])
    after = maker.output("after", FLOAT32, [m, n], [1, m])
    x = view("x", [m, k], lambda a, b: (a, b))
    w = view("w", [k, n], lambda a, b: (a, b))
    matmul(maker, x, w, view(plain, [m, n], lambda a, b: (a, b)), local=False)
    i, j = axes(m, n)
    value = unary("neg", maker.read(kept, i.symbol, j.symbol))
    turned = nest("e", [i, j], [], (after, [i.symbol, j.symbol], value))
    matmul(maker, x, w, view(kept, [m, n], lambda a, b: (a, b)), [turned], local=False)
    program = Program(maker.graph())
    assert len(program.emitted.graph.derived) == 1
    inputs = {
        "x": rng.normal(size=(m, k)).astype("f4"),
        "w": rng.normal(size=(k, n)).astype("f4"),
    }
    program.check(inputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("a", "b", "along"),
    [
        ((1, 2), (1, 2), ("kDepth", "kAcross")),
        ((2, 1), (2, 1), ("kAcross", "kDepth")),
        ((2, 1), (1, 2), ("kAcross", "kAcross")),
        ((1, 2), (2, 1), ("kDepth", "kDepth")),
    ],
)
def test_small_products_read_operands_where_they_lie(a, b, along):
    """The text says what neighbours are, and where results go."""
    rng = np.random.default_rng(seeded(5))
    sizes = {"x": (3, 21, 34), "y": (3, 34, 10)}
    maker = GraphMaker()
    views = {}
    for (name, size), order in zip(sizes.items(), (a, b), strict=True):
        maker.buffer(name, FLOAT32, [size[0], *(size[k] for k in order)])
        at = (lambda u, v, w: (u, v, w)) if order == (1, 2) else (lambda u, v, w: (u, w, v))
        views[name] = view(name, size, at)
    out = maker.output("o", FLOAT32, [3, 21, 10])
    matmul(maker, views["x"], views["y"], view(out, [3, 21, 10], lambda *i: i), local=False)
    program = Program(maker.graph())
    text = program.emitted.functions[0].text
    for side, found in zip("AB", along, strict=True):
        assert f"{side}_ALONG = aot::tmpl::Along::{found};" in text
    assert "call.out = p2 + (int64_t{210}*b0);" in text and "call.out_row = 40;" in text
    assert "PLAIN = true" in text and "BATCH = true" in text
    for field, step in {"a_next": 714, "b_next": 340, "out_next": 840}.items():
        assert f"call.{field} = unit < end ? {step} : 0;" in text
    inputs = {
        name: rng.normal(size=(size[0], *(size[k] for k in order))).astype("f4")
        for (name, size), order in zip(sizes.items(), (a, b), strict=True)
    }
    program.check(inputs, rtol=1e-5, atol=1e-5)


def test_batches_of_activations_with_heads_in_any_layout():
    """q @ k^T over (batch, head) with heads inside rows, sizes dynamic, scaled and masked."""
    rng = np.random.default_rng(seeded(3))
    s = dim("s0")
    maker = GraphMaker((Dim("s0", 0, None, 40, (0, 1, 1, 0)),))
    bs, heads, d = 2, 3, 20
    for name in ("q", "k"):
        maker.buffer(name, FLOAT32, [bs, s, heads * d])
    maker.buffer("mask", FLOAT32, [bs, s])
    maker.buffer("t", FLOAT32, [bs, heads, s, s], kind="temp")
    out = maker.output("o", FLOAT32, [bs, heads, s, s])
    dd = as_expr(d)
    q = view("q", [bs, heads, s, d], lambda b, h, i, c: (b, i, h * dd + c))
    k = view("k", [bs, heads, d, s], lambda b, h, c, j: (b, j, h * dd + c))
    loops = axes(bs, heads, s, s)
    b, h, i, j = (a.symbol for a in loops)
    value = binary("add", maker.read("t", b, h, i, j), maker.read("mask", b, j))
    matmul(
        maker,
        q,
        k,
        view("t", [bs, heads, s, s], lambda *v: v),
        [nest("e", loops, [], (out, [b, h, i, j], value))],
    )
    program = Program(maker.graph())
    for size in (0, 1, 17, 64, 131):
        inputs = {n: rng.normal(size=(bs, size, heads * d)).astype("f4") for n in ("q", "k")}
        inputs["mask"] = rng.normal(size=(bs, size)).astype("f4")
        program.check(inputs, {"s0": size}, rtol=1e-5, atol=1e-5)


def test_a_row_by_columns_of_neighbours_of_any_number():
    """Dot products, whatever the sizes of B are when it runs: none of them, or odd ones."""
    b, n, k = dim("b"), dim("n"), dim("k")
    maker = GraphMaker(tuple(Dim(name, 0, None, 8, (0, 0, 1, 0)) for name in "bnk"))
    maker.buffer("x", FLOAT32, [b, 1, k])
    maker.buffer("y", FLOAT32, [b, n, k])
    out = maker.output("o", FLOAT32, [b, 1, n])
    operands = (
        view("x", [b, 1, k], lambda *v: v),
        view("y", [b, k, n], lambda i, j, c: (i, c, j)),
        view(out, [b, 1, n], lambda *v: v),
    )
    matmul(maker, *operands, local=False)
    program = Program(maker.graph())
    rng = np.random.default_rng(seeded(11))
    for batch, columns, depth in ((3, 40, 64), (2, 1, 7), (1, 77, 301), (2, 5, 0), (2, 0, 5)):
        inputs = {"x": rng.normal(size=(batch, 1, depth)).astype("f4")}
        inputs["y"] = rng.normal(size=(batch, columns, depth)).astype("f4")
        program.check(inputs, {"b": batch, "n": columns, "k": depth}, rtol=1e-5, atol=1e-5)


def test_strided_rows_batched_weights_and_split_heads():
    """A^T as the left operand; a weight per batch; results scattered into heads."""
    rng = np.random.default_rng(seeded(4))
    m, k, n = 37, 24, 64
    maker = GraphMaker()
    maker.buffer("x", FLOAT32, [3, k, m])
    maker.buffer("w", BFLOAT16, [3, k, n], kind="weight")
    maker.buffer("v", FLOAT32, [3, k, n], kind="weight")
    maker.buffer("t", FLOAT32, [3, m, n], kind="temp")
    maker.buffer("xb", BFLOAT16, [m, k])
    maker.buffer("tb", BFLOAT16, [m, n], kind="temp")
    split = maker.output("split", FLOAT32, [3, 2, m, 32])
    halves = maker.output("halves", FLOAT32, [m, n])
    loops = axes(3, m, n)
    b, i, j = (a.symbol for a in loops)
    head = [b, FloorDiv(j, as_expr(32)), i, Modulo(j, as_expr(32))]
    matmul(
        maker,
        view("x", [3, m, k], lambda p, q, r: (p, r, q)),
        view("v", [3, k, n], lambda p, q, r: (p, q, r)),
        view("t", [3, m, n], lambda *v: v),
        [nest("e", loops, [], (split, head, unary("abs", maker.read("t", b, i, j))))],
    )
    i, j = axes(m, n)
    result = cast(maker.read("tb", i.symbol, j.symbol), FLOAT32)
    matmul(
        maker,
        view("xb", [m, k], lambda p, q: (p, q)),
        view("w", [k, n], lambda p, q: (as_expr(1), p, q)),
        view("tb", [m, n], lambda *v: v),
        [nest("e", [i, j], [], (halves, [i.symbol, j.symbol], result))],
    )
    program = Program(maker.graph())
    assert "gather" not in program.emitted.functions[0].text
    inputs = {
        "x": rng.normal(size=(3, k, m)).astype("f4"),
        "v": rng.normal(size=(3, k, n)).astype("f4"),
        "w": rng.normal(size=(3, k, n)).astype(BFLOAT16.numpy),
        "xb": rng.normal(size=(m, k)).astype(BFLOAT16.numpy),
    }
    program.check(inputs, rtol=1e-2, atol=5e-2)


def test_layers_of_one_shape_share_their_code():
    maker = GraphMaker()
    m, k = 16, 16
    names = ["x0"]
    maker.buffer("x0", FLOAT32, [m, k])
    for layer in range(3):
        maker.buffer(f"w{layer}", FLOAT32, [k, k], kind="weight")
        out = f"x{layer + 1}"
        if layer == 2:
            maker.output(out, FLOAT32, [m, k])
        else:
            maker.buffer(out, FLOAT32, [m, k], kind="temp")
        matmul(
            maker,
            view(names[-1], [m, k], lambda a, b: (a, b)),
            view(f"w{layer}", [k, k], lambda a, b: (b, a)),
            view(out, [m, k], lambda a, b: (a, b)),
            local=False,
        )
        names.append(out)
    graph = maker.graph()
    program = Program(replace(graph, name="layers"))
    assert len(program.emitted.functions) == 1
    assert [launch.function for launch in program.emitted.launches] == ["k0"] * 3
    rng = np.random.default_rng(seeded(5))
    inputs = {n: rng.normal(size=(m, k)).astype("f4") for n in ("x0", "w0", "w1", "w2")}
    program.check(inputs, rtol=1e-5, atol=1e-4)
