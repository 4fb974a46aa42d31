"""The C++ text of three small kernels: the sum of an addition, a softmax, and a fused linear; and
of kernels that are alike."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest.mock import patch

from aot.backends.cpp import backend
from aot.backends.cpp.backend import CppBackend
from aot.backends.cpp.kernel import emit_kernel
from aot.ir.dtypes import FLOAT32
from aot.ir.kernels import Stage, TemplateKernel
from aot.ir.nests import Axis, View
from aot.ir.origin import NO_ORIGIN
from aot.ir.scalar import binary, reduce_, unary
from aot.ir.templates.matmul import Matmul
from aot.ir.tensors import Dim
from aot.options import ALL_CPU
from aot.symbolic import as_expr, dim, var
from tests.backends.emitting import emit
from tests.backends.kernel_runner import GraphMaker, axes, nest
from tests.launches import units_of

BLOCKING = re.compile(r"int64_t (MB|NB|MC|NC|KB) =|^// k0|row_tiles =")


def text_of(maker: GraphMaker) -> str:
    emitted = emit(CppBackend(), maker.graph(), ALL_CPU)
    launches = "".join(
        f"// {la.kernel}: {la.function}({', '.join(la.buffers)}; "
        f"{', '.join(str(e) for e in la.sizes)}) work {units_of(la).units}, "
        f"scratch {units_of(la).scratch}\n"
        for la in emitted.launches
    )
    return "\n".join(f.text for f in emitted.functions) + launches


def test_add_then_sum_is_one_loop_in_vector_accumulators(golden):
    maker = GraphMaker((Dim("s0", 0, None, 64, (0, 0, 1, 0)),))
    i, j = axes(dim("s0"), 1000)
    maker.buffer("a", FLOAT32, [dim("s0"), 1000])
    maker.buffer("b", FLOAT32, [dim("s0"), 1000])
    value = binary("add", *(maker.read(n, i.symbol, j.symbol) for n in "ab"))
    out = maker.output("o", FLOAT32, [dim("s0")])
    maker.kernel([nest("n", [i], [j], (out, [i.symbol], reduce_("sum", value)))], outer=1)
    golden("add_sum.cpp", text_of(maker))


def test_softmax_keeps_its_maximum_in_a_register(golden):
    maker = GraphMaker()
    i, j = axes(32, 256)
    maker.buffer("x", FLOAT32, [32, 256])
    top = maker.buffer("top", FLOAT32, [32], kind="temp")
    total = maker.buffer("total", FLOAT32, [32], kind="temp")
    out = maker.output("o", FLOAT32, [32, 256])
    x = maker.read("x", i.symbol, j.symbol)
    shifted = unary("exp", binary("sub", x, maker.read(top, i.symbol)))
    result = binary("div", shifted, maker.read(total, i.symbol))
    stages = [
        ([nest("a", [i], [j], (top, [i.symbol], reduce_("max", x)))], None),
        ([nest("b", [i], [j], (total, [i.symbol], reduce_("sum", shifted)))], None),
        ([nest("c", [i, j], [], (out, [i.symbol, j.symbol], result))], None),
    ]
    maker.staged(stages, outer=1, local=(top, total))
    golden("softmax.cpp", text_of(maker))


def test_linear_with_tanh_is_a_template_call_with_an_epilogue(golden):
    maker = GraphMaker()
    m, k, n = 64, 96, 128
    for name, shape, kind in (
        ("x", [m, k], "input"),
        ("w", [n, k], "weight"),
        ("bias", [n], "input"),
        ("t", [m, n], "temp"),
    ):
        maker.buffer(name, FLOAT32, shape, kind=kind)
    out = maker.output("o", FLOAT32, [m, n])
    i, j = axes(m, n)
    value = binary("add", maker.read("t", i.symbol, j.symbol), maker.read("bias", j.symbol))
    activated = nest("e", [i, j], [], (out, [i.symbol, j.symbol], unary("tanh", value)))

    def view(name, rows, columns, index):
        made = (Axis(var("v0"), as_expr(rows)), Axis(var("v1"), as_expr(columns)))
        return View(name, made, index(var("v0"), var("v1")))

    operands = {
        "a": view("x", m, k, lambda p, q: (p, q)),
        "b": view("w", k, n, lambda p, q: (q, p)),
    }
    output = view("t", m, n, lambda p, q: (p, q))
    call = Matmul("t", output, NO_ORIGIN, **operands)
    stage = Stage((i, j), (), (i, j), j, (activated,))
    maker.kernels.append(TemplateKernel("k0", call, (stage,), ("t",), ("x", "w", "bias"), ("o",)))
    # The blocking's numbers are the heuristic's business.
    kept = (line for line in text_of(maker).splitlines() if not BLOCKING.search(line))
    golden("linear_tanh.cpp", "\n".join(kept) + "\n")


def test_kernels_that_differ_in_names_alone_are_emitted_once():
    maker = GraphMaker()
    i, j = axes(4, 16)
    for source, bias, out in (("a", "p", "b"), ("b", "q", "c"), ("c", "r", "d")):
        if source == "a":
            maker.buffer("a", FLOAT32, [4, 16])
        maker.buffer(bias, FLOAT32, [16])
        maker.output(out, FLOAT32, [4, 16])
        value = binary("add", maker.read(source, i.symbol, j.symbol), maker.read(bias, j.symbol))
        maker.kernel([nest("n", [i, j], [], (out, [i.symbol, j.symbol], value))], outer=1)
    graph = maker.graph()
    with patch.object(backend, "emit_kernel", wraps=emit_kernel) as looked:
        emitted = emit(CppBackend(), graph, ALL_CPU)
    # Intermediate results and inputs are of different kinds, which kernels may tell apart.
    assert looked.call_count == 2
    assert [la.kernel for la in emitted.launches] == ["k0", "k1", "k2"]
    assert [la.buffers for la in emitted.launches] == [tuple(n) for n in ("apb", "bqc", "crd")]
    assert {la.function for la in emitted.launches} == {"k0"}
    alone = [emit(CppBackend(), replace(graph, kernels=(k,)), ALL_CPU) for k in graph.kernels]
    assert [replace(la, function="") for la in emitted.launches] == [
        replace(one.launches[0], function="") for one in alone
    ]
