"""One read for reductions along two axes, and pointwise producers inside of scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.kernels import KernelGraph, NestKernel
from aot.ir.loops import LoopGraph, reads
from aot.ir.templates import Scan, Support
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from tests.launches import template_kernels
from tests.schedule.graphs import (
    TILES,
    Body,
    binary_op,
    check_same,
    make_graph,
    reduce_op,
    run_passes,
    scan,
    unary_op,
)

SCANS = replace(TILES, templates=(Support(Scan, takes_producer=True),))

LARGE = (2048, 1024)
"""Of float32: enough bytes for a second read to matter."""


def fused(body: Body, *shapes: Sequence[int]) -> tuple[LoopGraph, KernelGraph]:
    graph = run_passes(make_graph(body, {f"x{k}": s for k, s in enumerate(shapes)}))
    return graph, fuse(graph, SCANS)


def readers(graph: KernelGraph, name: str) -> list[NestKernel]:
    return [k for k in graph.kernels if name in k.reads and isinstance(k, NestKernel)]


def crossing_nests(kernel: NestKernel) -> list[str]:
    return [
        n.name
        for s in kernel.stages
        for n in s.nests
        if n.reduction and set(n.reduction) == set(s.inner)
    ]


def test_sums_of_rows_and_columns_read_their_input_once() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", x, 0), reduce_op("max", x, 1)]

    graph, kernels = fused(body, LARGE)
    (first,) = readers(kernels, "x0")
    assert crossing_nests(first)
    assert len(kernels.kernels) == 2
    check_same(graph, kernels, tolerance=1e-3)


def test_a_dear_producer_of_both_is_computed_in_their_kernel() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op("exp", x)
        return [reduce_op("sum", y, 0), reduce_op("sum", y, 1), y]

    graph, kernels = fused(body, LARGE)
    (first,) = readers(kernels, "x0")
    assert crossing_nests(first)
    assert set(kernels.outputs[1:]) <= set(first.writes)
    check_same(graph, kernels, tolerance=1e-3)


def test_what_rows_need_of_their_own_results_takes_another_turn() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        centred = binary_op("sub", x, reduce_op("max", x, 1, keep=True))
        return [reduce_op("sum", x, 0), reduce_op("sum", centred, 1)]

    graph, kernels = fused(body, LARGE)
    (first,) = readers(kernels, "x0")
    assert crossing_nests(first)
    assert len(first.stages) == 2
    check_same(graph, kernels, tolerance=1e-3)


def test_columns_that_need_results_of_columns_are_another_kernel() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        centred = binary_op("sub", x, reduce_op("max", x, 0, keep=True))
        return [reduce_op("sum", centred, 1), reduce_op("sum", centred, 0)]

    graph, kernels = fused(body, LARGE)
    assert len(readers(kernels, "x0")) == 2
    check_same(graph, kernels, tolerance=1e-3)


def test_a_small_input_may_be_read_twice() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", x, 0), reduce_op("sum", x, 1)]

    graph, kernels = fused(body, (128, 64))
    assert not any(crossing_nests(k) for k in kernels.kernels)
    check_same(graph, kernels, tolerance=1e-3)


def test_a_scan_computes_its_operand() -> None:
    def body(builder: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [unary_op("neg", scan(binary_op("mul", unary_op("exp", x), y)))]

    graph, kernels = fused(body, (20, 30), (30,))
    (kernel,) = template_kernels(kernels)
    (nest,) = kernel.prologue
    assert set(reads(nest)) == {"x0", "x1"}
    assert set(kernel.reads) == {"x0", "x1"}
    check_same(graph, kernels)


def test_what_others_read_of_a_scans_operand_is_written() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op("exp", x)
        return [scan(y), y]

    graph, kernels = fused(body, (20, 30))
    assert not any(k.prologue for k in template_kernels(kernels))
    check_same(graph, kernels)


def test_a_reduction_is_no_prologue() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [scan(reduce_op("sum", x, -1))]

    graph, kernels = fused(body, (20, 30, 8))
    assert not any(k.prologue for k in template_kernels(kernels))
    check_same(graph, kernels)
