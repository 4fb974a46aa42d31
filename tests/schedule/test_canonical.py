"""Names of loops that say nothing of where a kernel is from, and indices as short as they get."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from aot.ir.kernels import NestKernel
from aot.ir.nests import Axis
from aot.ir.printer import print_kernel
from aot.ir.rewrite import substitute_axes
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.canonical import canonical_kernel, simplify
from aot.schedule.epilogue import attach_epilogue
from aot.schedule.groups import Group
from aot.schedule.loops import build_kernel
from aot.symbolic import FloorDiv, as_expr, var
from tests.schedule.graphs import matmul, pointwise, reduce_op, unary_op
from tests.schedule.steps import check_kernels, groups, laid, scheduler, text


def _twins(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 1), reduce_op("sum", y, 1)]


def test_equal_kernels_have_equal_text() -> None:
    graph = laid(_twins, {"x": (8, 100), "y": (8, 100)})
    needed = frozenset(graph.outputs)
    raw = [build_kernel(scheduler(graph), g, "k", needed) for g in groups(graph)]
    first, second = (canonical_kernel(graph, kernel) for kernel in raw)
    assert raw[0].outer[0].symbol != raw[1].outer[0].symbol
    other = print_kernel(second)
    for theirs, ours in (("y", "x"), ("buf3", "buf2"), ("n1", "n0")):
        other = re.sub(rf"\b{theirs}\b", ours, other)
    assert print_kernel(first) == other
    check_kernels(graph, [replace(first, name="k0"), replace(second, name="k1")])


def test_loops_are_named_by_what_they_are() -> None:
    graph = laid(_twins, {"x": (8, 100), "y": (8, 100)})
    group, _ = groups(graph)
    kernel = canonical_kernel(
        graph, build_kernel(scheduler(graph), group, "k0", frozenset(graph.outputs))
    )
    assert isinstance(kernel, NestKernel)
    assert [str(a.symbol) for a in kernel.outer] == ["o0"]
    (stage,) = kernel.stages
    assert [str(a.symbol) for a in stage.order] == ["r0"]
    assert stage.vector == stage.order[0]
    assert text(*stage.nests) == "n0 = nest(o0<8 | r0<100) { buf2[o0] = sum(x[o0, r0]) }"


def test_strips_are_of_the_loop_that_they_split() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (1 << 15,)})
    (group,) = groups(graph)
    raw = build_kernel(scheduler(graph), group, "k0", frozenset(graph.outputs))
    kernel = canonical_kernel(graph, raw)
    assert isinstance(kernel, NestKernel) and isinstance(raw, NestKernel)
    assert kernel.strip is not None and raw.strip is not None
    assert kernel.strip.axis == kernel.stages[0].order[0] == Axis(var("i0"), as_expr(1 << 15))
    assert kernel.strip.size == raw.strip.size
    check_kernels(graph, [kernel])


def test_a_template_and_its_epilogue_have_the_same_names() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        y = matmul(builder, x, w)
        return [pointwise(builder, (4, 2, 3), lambda at: y.load((at[0], at[1] * 3 + at[2])))]

    graph = laid(body, {"x": (4, 8), "w": (8, 6)})
    product, split = groups(graph)
    joined = attach_epilogue(graph, product, split)
    assert isinstance(joined, Group)
    raw = build_kernel(scheduler(graph), joined, "k0", frozenset(graph.outputs))
    kernel = canonical_kernel(graph, raw)
    (stage,) = kernel.stages
    assert text(*stage.nests).endswith(
        "nest(i0<4, i1<6) { buf3[i0, (i1 // 3), (i1 % 3)] = buf2[i0, i1] }"
    )
    assert [str(e) for e in kernel.template.output.index] == ["i0", "i1"]
    check_kernels(graph, [kernel])


def test_indices_are_simplified_by_the_ranges_of_all_loops() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (4, 6)})
    (nest,) = (op for op in graph.ops)
    row, column = nest.axes
    around = Axis(var("o"), as_expr(2))
    index = FloorDiv(row.symbol * 8 + column.symbol + around.symbol, as_expr(8))
    odd = substitute_axes(nest, {row.symbol: index}, nest.axes, ())
    assert "x[i0, i1]" in text(simplify(graph, odd, around))
    assert "//" in text(simplify(graph, odd, Axis(around.symbol, as_expr(9))))
