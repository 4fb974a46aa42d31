"""Bytes and operations, counted by hand for small nests and templates."""

import aot.symbolic as sym
from aot.errors import Origin
from aot.ir import scalar
from aot.ir.dtypes import FLOAT32
from aot.ir.kernels import NestKernel, Stage
from aot.ir.nests import Axis, Buffer, LoopNest, Store, View
from aot.ir.templates.scan import Scan
from aot.ir.work import buffer_bytes, kernel_bytes, kernel_flops, nest_flops, op_flops

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
