"""What a kernel costs, counted by hand for small ones."""

import aot.symbolic as sym
from aot.errors import Origin
from aot.ir import scalar
from aot.ir.dtypes import FLOAT32
from aot.ir.kernels import MemoryPlan, Placement
from aot.ir.loops import Axis, LoopNest, Store, TemplateCall, View
from aot.report.summary import arena_nbytes, nest_flops, template_flops

S0 = sym.dim("s0")
SIZES = {S0: 10}


def axes(*extents: object) -> tuple[Axis, ...]:
    return tuple(Axis(sym.var(f"i{k}"), sym.as_expr(e)) for k, e in enumerate(extents))


def view(*extents: object) -> View:
    named = axes(*extents)
    return View("b", named, tuple(axis.symbol for axis in named))


def test_pointwise_counts_each_operation_once_a_point() -> None:
    rows = axes(S0, 4)
    x = scalar.load("x", FLOAT32, [a.symbol for a in rows])
    value = scalar.unary("tanh", scalar.binary("add", x, scalar.const(1.0, FLOAT32)))
    nest = LoopNest("n", rows, (), (Store("y", tuple(a.symbol for a in rows), value),), Origin())
    assert nest_flops(nest, SIZES) == 2 * 40


def test_reduction_counts_the_domain_below_and_the_rows_above() -> None:
    (row, column) = axes(S0, 6)
    x = scalar.load("x", FLOAT32, [row.symbol, column.symbol])
    total = scalar.reduce_("sum", scalar.binary("mul", x, x))
    value = scalar.unary("sqrt", total)
    nest = LoopNest("n", (row,), (column,), (Store("y", (row.symbol,), value),), Origin())
    assert nest_flops(nest, SIZES) == 60 + 60 + 10


def test_templates() -> None:
    matmul = TemplateCall(
        "m", "matmul", (("a", view(S0, 3)), ("b", view(3, 5))), view(S0, 5), (), Origin()
    )
    assert template_flops(matmul, SIZES) == 2 * 10 * 5 * 3
    conv = TemplateCall(
        "c",
        "conv",
        (("x", view(1, 4, 8, 8)), ("w", view(6, 2, 3, 3))),
        view(1, 6, 6, 6),
        (),
        Origin(),
    )
    assert template_flops(conv, SIZES) == 2 * 6 * 36 * 2 * 9
    attention = TemplateCall(
        "a",
        "attention",
        (("q", view(1, 2, S0, 4)), ("k", view(1, 2, 7, 4)), ("v", view(1, 2, 7, 5))),
        view(1, 2, S0, 5),
        (),
        Origin(),
    )
    assert template_flops(attention, SIZES) == 2 * 2 * 10 * 7 * (4 + 5)


def test_arena_is_placed_as_the_format_says() -> None:
    memory = MemoryPlan(
        (
            Placement("a", sym.as_expr(100), ()),
            Placement("b", sym.as_expr(8 * S0), ("a",)),
            Placement("c", sym.as_expr(50), ()),
        ),
        (),
    )
    assert arena_nbytes(memory, SIZES) == 128 + 80
