"""The printed form of every graph."""

from __future__ import annotations

import torch
from torch import nn

from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import KernelGraph, MemoryPlan, NestKernel, Placement, Stage, Strip
from aot.ir.nests import LoopNest
from aot.ir.printer import op_lines, print_kernels, print_loops, print_memory, print_tensors
from aot.ir.scalar import binary, check_index, load, unary
from aot.lowering.lower import lower
from aot.symbolic import as_expr, var
from tests.conftest import GoldenCheck
from tests.ir.nests import I0, R0, S0, axes, nest, row_sums
from tests.settings import seeded


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, ids, scale):
        x = self.table(ids) * scale
        rows = torch.cat([x, x[:, :1]], dim=1)
        return self.out(rows).softmax(-1), rows.reshape(-1, 2, 4).sum(1)


def test_graphs_of_a_model(golden: GoldenCheck) -> None:
    torch.manual_seed(seeded())
    batch = torch.export.Dim("batch", min=0, max=16)
    captured = capture_module(
        Small(),
        (torch.zeros(4, 7, dtype=torch.long), torch.tensor(2.0)),
        dynamic_shapes=({0: batch}, None),
    )
    graph, _ = ingest(captured)
    size = graph.dims[0].name
    for name, text in (("tensors", print_tensors(graph)), ("loops", print_loops(lower(graph)))):
        golden(f"{name}.txt", _without_places(text).replace(size, "s0"))


def _without_places(text: str) -> str:
    """Lines of this file change with every edit; they are not what is compared."""
    return "".join(line.partition("  # ")[0].rstrip() + "\n" for line in text.splitlines())


def test_printing_is_deterministic() -> None:
    assert print_loops(row_sums()) == print_loops(row_sums())


def print_nest(nest: LoopNest) -> str:
    return "\n".join([*op_lines(nest), ""])


def test_shared_values_are_named_once() -> None:
    x = load("x", FLOAT32, (I0,))
    e = unary("exp", x)
    value = binary("div", e, binary("add", e, e))
    assert print_nest(nest(axes(i0=4), value)) == (
        "n0 = nest(i0<4) {  # model.py:7 (aten.x)\n  v0 = exp(x[i0])\n  y[i0] = v0 / (v0 + v0)\n}\n"
    )


def test_indirect_reads_show_the_value_that_they_index_with() -> None:
    position = check_index(load("p", INT64, (I0,)), as_expr(9))
    value = load("x", FLOAT32, (var("u0"), R0 * 0), {var("u0"): position})
    assert print_nest(nest(axes(i0=4), value)) == (
        "n0 = nest(i0<4) {  # model.py:7 (aten.x)\n"
        "  v0 = wrapped(p[i0], 9)\n"
        "  y[i0] = x[v0, 0]\n"
        "}\n"
    )


def test_kernels(golden: GoldenCheck) -> None:
    graph = row_sums()
    total = graph.ops[0]
    rows, columns = axes(i0=S0), axes(r0=4)
    stage = Stage(rows, columns, (*rows, *columns), columns[0], (total,))
    kernel = NestKernel("k0", (), (stage,), Strip(rows[0], 16), (), ("x",), ("y",))
    kernels = KernelGraph(
        "hand",
        graph.dims,
        graph.buffers,
        (kernel,),
        graph.inputs,
        graph.outputs,
        graph.signature,
        (),
        (),
    )
    golden("kernels.txt", print_kernels(kernels))


def test_memory() -> None:
    plan = MemoryPlan(
        (Placement("a", as_expr(64), ()), Placement("b", 4 * var("s0"), ("a",))), (("c", "a"),)
    )
    assert print_memory(plan) == (
        "memory\n  a: 64 bytes\n  b: 4*s0 bytes above a\n  c in place of a\n"
    )
