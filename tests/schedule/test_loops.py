"""Loop structure of kernels: parallel loops, strips, order, vectors, merging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from aot.ir.dtypes import FLOAT32, INT64
from aot.ir.kernels import NestKernel
from aot.ir.loops import LoopGraph
from aot.ir.scalar import Node, binary, cast, const, reduce_, unary, where
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.symbolic import Expr, as_expr, product
from tests.launches import nest_kernel
from tests.schedule.graphs import (
    BARE,
    BATCH,
    DEVICE,
    S0,
    check_same,
    make_graph,
    pointwise,
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


def _pairs(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    """Planes of both parts, as pairs in a matrix that is turned."""
    return [unary_op("exp", transpose(x, 0, 2))]


@pytest.mark.parametrize(("parts", "inner"), [(2, 3), (16, 2)], ids=("short", "long"))
def test_a_tile_has_the_short_axis_between_its_points(parts: int, inner: int) -> None:
    kernel = only_kernel(make_graph(_pairs, {"x": (parts, 256, 512)}))
    (stage,) = kernel.stages
    assert kernel.strip is not None
    assert len(stage.order) == inner and len(kernel.outer) == 3 - inner


@pytest.mark.parametrize(
    ("shape", "size"),
    [((8192, 500), 256), ((8192, 1024), 32), ((8192, 528), 256), ((2048, 500), 128)],
    ids=("odd", "lines that share places", "all places", "few work units"),
)
def test_tiles_are_as_long_as_a_cache_holds_their_lines(shape: tuple[int, int], size: int) -> None:
    kernel = only_kernel(make_graph(_turned, {"x": shape}))
    assert kernel.strip is not None and kernel.strip.size == size


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


def test_of_loops_at_the_same_price_the_nearer_elements_are_lanes() -> None:
    """Small matrices by a matrix of two rows: both long loops load and store with steps."""

    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        def products(at: tuple[Expr, ...], r: tuple[Expr, ...]) -> Node:
            return reduce_("sum", binary("mul", x.load((*at[:2], *r)), w.load((at[2], *r))))

        shape = (*x.shape[:2], w.shape[0])
        return [*builder.reduction(shape, x.shape[2:], [(x.dtype, products)])]

    kernel = only_kernel(make_graph(body, {"x": (48, 64, 3), "w": (2, 3)}))
    (stage,) = kernel.stages
    assert stage.vector is not None
    assert int(stage.vector.extent) == 64


def test_where_no_neighbours_lie_side_by_side_lanes_are_the_nearest() -> None:
    """Complex matrices' parts in turn: along the batch each lane would have a line of its own."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def value(at: tuple[Expr, ...]) -> Node:
            first = binary("eq", builder.index_node(at[2]), const(0, INT64))
            flipped = unary("neg", x.load((*at[:2], as_expr(1))))
            return where(first, x.load((*at[:2], as_expr(0))), flipped)

        return [pointwise(builder, (4096, 16, 3), value)]

    kernel = only_kernel(make_graph(body, {"x": (4096, 16, 2)}))
    (stage,) = kernel.stages
    assert stage.vector is None or int(stage.vector.extent) < 4096


def test_few_images_are_not_the_lanes_of_a_pool() -> None:
    """Channels lie side by side; three images are a short loop, but far apart."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def window(at: tuple[Expr, ...], r: tuple[Expr, ...]) -> Node:
            row, column = at[1] + r[0], at[2] + r[1]
            seen = binary("lt", builder.index_node(row), const(64, INT64))
            seen = binary("and", seen, binary("lt", builder.index_node(column), const(31, INT64)))
            value = where(seen, x.load((at[0], row, column, at[3])), const(0.0, FLOAT32))
            return reduce_("sum", value)

        two = (as_expr(2), as_expr(2))
        shape = [as_expr(size) for size in (3, 64, 31, 96)]
        (pooled,) = builder.reduction(shape, two, [(x.dtype, window)])
        return [pooled, pointwise(builder, shape, lambda at: unary("neg", pooled.load(at)))]

    graph = make_graph(body, {"x": (3, 65, 32, 96)})
    kernel = nest_kernel(fuse(run_passes(graph), replace(BARE, lanes=16)).kernels[0])
    assert [stage.vector and int(stage.vector.extent) for stage in kernel.stages] == [96, 96]


def test_few_large_sums_are_taken_in_two_steps() -> None:
    graph = make_graph(lambda _, x: [reduce_op("sum", x, 0)], {"x": (1 << 18,)})
    fused = fuse(run_passes(graph), DEVICE)
    check_same(graph, fused, tolerance=1e-3)
    first, second = fused.kernels
    assert int(product([a.extent for a in first.outer])) >= 8
    assert int(product([a.extent for a in second.outer])) == 1


def _scattered(mode: str) -> Callable[..., Sequence[Tensor]]:
    """Rows of v, one for each index and part, go to the rows of x that the indices name."""

    def body(builder: GraphBuilder, x: Tensor, i: Tensor, v: Tensor) -> Sequence[Tensor]:
        def place(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
            # Of any number: tests run on random values.
            row = cast(binary("mul", unary("abs", i.load(at[1:-1])), const(4.0, FLOAT32)), INT64)
            clamped = binary("minimum", row, const(6, INT64))
            return (at[0], builder.indirect(clamped, x.shape[1]), at[-1])

        def value(at: tuple[Expr, ...]) -> Node:
            first = binary("lt", builder.index_node(at[2]), const(2, INT64))
            return where(first, v.load(at), unary("neg", v.load(at)))

        return [builder.update(unary_op("exp", x), v.shape, place, value, mode)]

    return body


@pytest.mark.parametrize("mode", ["last", "add"])
def test_points_that_may_meet_keep_their_order(mode: str) -> None:
    """Along heads they never meet; indices and parts stay nested as they are, in one piece."""
    shapes = {"x": (8, 7, 64), "i": (5, 4), "v": (8, 5, 4, 64)}
    graph = make_graph(_scattered(mode), shapes)
    fused = fuse(run_passes(graph), DEVICE)
    check_same(graph, fused)
    (kernel,) = (
        nest_kernel(k) for k in fused.kernels if nest_kernel(k).stages[0].nests[0].conflicts
    )
    (stage,) = kernel.stages
    assert [int(a.extent) for a in kernel.outer] == [8]
    assert kernel.strip is None
    assert [int(a.extent) for a in stage.order] == [5, 4, 64]
    assert stage.vector == stage.order[-1]
