"""Loop structure of kernels: parallel loops, strips, order, vectors, merging."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aot.ir.kernels import NestKernel
from aot.ir.loops import LoopGraph
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.symbolic import product
from tests.launches import nest_kernel
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    check_same,
    make_graph,
    reduce_op,
    run_passes,
    transpose,
    unary_op,
)


def only_kernel(graph: LoopGraph) -> NestKernel:
    fused = fuse(run_passes(graph), DEVICE)
    check_same(graph, fused, {d.name: 3 for d in graph.dims})
    (kernel,) = fused.kernels
    return nest_kernel(kernel)


def _exp(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", x)]


def _turned(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", transpose(x, 0, 1))]


@pytest.mark.parametrize("shape", [(64, 128), (4, 16, 128), (2, 2, 2, 1024)])
def test_dense_pointwise_loops_merge_into_one_vector_loop(shape: tuple[int, ...]) -> None:
    kernel = only_kernel(make_graph(_exp, {"x": shape}))
    (stage,) = kernel.stages
    assert kernel.outer == ()
    assert [int(a.extent) for a in stage.order] == [8192]
    assert stage.vector == stage.order[0]
    assert kernel.strip is not None
    assert kernel.strip.axis == stage.vector


def test_dynamic_sizes_merge_too() -> None:
    kernel = only_kernel(make_graph(_exp, {"x": (S0, 16, 512)}, dims=(BATCH,)))
    (stage,) = kernel.stages
    assert [a.extent for a in stage.order] == [S0 * 8192]


def test_transposing_kernels_run_in_narrow_strips() -> None:
    kernel = only_kernel(make_graph(_turned, {"x": (512, 512)}))
    (stage,) = kernel.stages
    assert kernel.strip is not None
    assert kernel.strip.size == 32
    assert len(stage.order) == 2


def test_row_reductions_vectorise_the_row() -> None:
    kernel = only_kernel(make_graph(lambda _, x: [reduce_op("sum", x, 1)], {"x": (256, 512)}))
    (stage,) = kernel.stages
    assert [int(a.extent) for a in kernel.outer] == [256]
    assert stage.vector in stage.reduction


def test_column_reductions_vectorise_the_columns() -> None:
    kernel = only_kernel(make_graph(lambda _, x: [reduce_op("sum", x, 0)], {"x": (256, 512)}))
    (stage,) = kernel.stages
    assert stage.vector in stage.inner
    assert kernel.strip is not None
    assert kernel.strip.size == 64


def test_few_large_sums_are_taken_in_two_steps() -> None:
    graph = make_graph(lambda _, x: [reduce_op("sum", x, 0)], {"x": (1 << 18,)})
    fused = fuse(run_passes(graph), DEVICE)
    check_same(graph, fused, tolerance=1e-3)
    first, second = fused.kernels
    assert int(product([a.extent for a in first.outer])) >= 8
    assert int(product([a.extent for a in second.outer])) == 1
