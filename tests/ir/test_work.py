"""Bytes and operations, counted by hand for small nests and templates."""

import aot.symbolic as sym
from aot.errors import Origin
from aot.ir import scalar
from aot.ir.dtypes import FLOAT32
from aot.ir.flow import Branch, Flow, Measured, Repeat, Span, Straight
from aot.ir.kernels import KernelGraph, NestKernel, Stage
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.templates.scan import Scan
from aot.ir.tensors import Signature, Tree
from aot.ir.work import (
    buffer_bytes,
    graph_points,
    kernel_bytes,
    kernel_flops,
    nest_flops,
    op_flops,
    op_points,
)

S0 = sym.dim("s0")
SIZES = {S0: 10}


def axes(*extents: object) -> tuple[Axis, ...]:
    return tuple(Axis(sym.var(f"i{k}"), sym.as_expr(e)) for k, e in enumerate(extents))


def view(*extents: object) -> View:
    named = axes(*extents)
    return View("b", named, tuple(axis.symbol for axis in named))


def at_sizes(expr: sym.Expr) -> int:
    return int(sym.evaluate(expr, SIZES))


def test_pointwise_counts_each_operation_once_a_point() -> None:
    rows = axes(S0, 4)
    x = scalar.load("x", FLOAT32, [a.symbol for a in rows])
    value = scalar.unary("tanh", scalar.binary("add", x, scalar.const(1.0, FLOAT32)))
    nest = LoopNest("n", rows, (), (Store("y", tuple(a.symbol for a in rows), value),), Origin())
    assert at_sizes(nest_flops(nest)) == 2 * 40


def test_reduction_counts_the_domain_below_and_the_rows_above() -> None:
    (row, column) = axes(S0, 6)
    x = scalar.load("x", FLOAT32, [row.symbol, column.symbol])
    total = scalar.reduce_("sum", scalar.binary("mul", x, x))
    value = scalar.unary("sqrt", total)
    nest = LoopNest("n", (row,), (column,), (Store("y", (row.symbol,), value),), Origin())
    assert at_sizes(nest_flops(nest)) == 60 + 60 + 10


def test_templates_count_their_own() -> None:
    scan = Scan("s", view(S0, 7), Origin(), x=view(S0, 7), combine="sum")
    assert at_sizes(op_flops(scan)) == 70


def test_a_kernel_moves_each_buffer_once() -> None:
    rows = axes(S0, 4)
    at = tuple(a.symbol for a in rows)
    x = scalar.load("x", FLOAT32, at)
    nest = LoopNest("n", rows, (), (Store("y", at, scalar.binary("mul", x, x)),), Origin())
    shape = tuple(a.extent for a in rows)
    buffers = {name: Buffer(name, FLOAT32, shape, None, "temp") for name in "xy"}
    stage = Stage((), (), (), None, (nest,))
    kernel = NestKernel("k", rows, (stage,), None, (), ("x",), ("y",))
    assert at_sizes(buffer_bytes(buffers["x"])) == 160
    assert at_sizes(kernel_bytes(kernel, buffers)) == 320
    assert at_sizes(kernel_flops(kernel)) == 40


def reducing(rows: object, terms: object) -> LoopNest:
    """Rows of sums of so many terms."""
    (row,), (over,) = axes(rows), (Axis(sym.var("r0"), sym.as_expr(terms)),)
    total = scalar.reduce_("sum", scalar.load("x", FLOAT32, (row.symbol, over.symbol)))
    store = Store("y", (row.symbol,), total)
    return LoopNest("n", (row,), (over,), (store,), Origin())


def kernel_of(nest: LoopNest) -> NestKernel:
    return NestKernel("k", nest.axes, (Stage((), (), (), None, (nest,)),), None, (), (), ("y",))


def graph_of(*nests: LoopNest, flow: Flow[Span] = ()) -> KernelGraph:
    """Kernels of a nest each."""
    kernels = tuple(map(kernel_of, nests))
    return KernelGraph(
        "g", (), {}, kernels, (), (), Signature((), Tree("leaf", 0)), (), (), flow=flow
    )


def test_a_nest_turns_at_each_point_of_its_reduction() -> None:
    assert at_sizes(op_points(reducing(S0, 7))) == 70


def test_a_template_turns_for_what_it_computes_and_for_what_it_walks() -> None:
    scan = Scan("s", view(S0, 7), Origin(), x=view(S0, 7), combine="sum")
    assert at_sizes(op_points(scan)) == 70 + 70


def test_points_follow_the_flow() -> None:
    ten, twenty, thirty = (reducing(S0, k) for k in (1, 2, 3))
    one, two, three = (Straight(Span(k, 1)) for k in range(3))
    assert at_sizes(graph_points(graph_of(ten, twenty, thirty))) == 60

    either = Branch("p", (one,), (two,), Origin())
    assert at_sizes(graph_points(graph_of(ten, twenty, flow=(either,)))) == 30
    turns = Repeat((), "", S0, (), (one, two), Origin())
    assert at_sizes(graph_points(graph_of(ten, twenty, flow=(turns,)))) == 300
    while_true = Repeat((one,), "p", None, (), (two,), Origin())
    assert at_sizes(graph_points(graph_of(ten, twenty, flow=(while_true,)))) == 30
    found = Measured((("m0", "b"),), (two, three), Origin())
    assert at_sizes(graph_points(graph_of(ten, twenty, thirty, flow=(one, found)))) == 60
