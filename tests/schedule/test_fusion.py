"""Which operations share a kernel, which do not, and why; results never change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from aot.ir.kernels import KernelGraph, NestKernel, TemplateKernel
from aot.ir.loops import LoopGraph
from aot.ir.nests import Store
from aot.ir.scalar import check_index, postorder, reduce_
from aot.lowering.builder import GraphBuilder, Tensor
from aot.passes.layout import choose_layouts
from aot.schedule.fusion import fuse
from aot.symbolic import Expr, FloorDiv, Modulo, as_expr, var
from tests.launches import template_kernels
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    binary_op,
    check_same,
    concatenate,
    interpret,
    layer_norm,
    make_graph,
    matmul,
    pointwise,
    random_inputs,
    reduce_op,
    run_passes,
    scan,
    softmax,
    transpose,
    unary_op,
)
from tests.settings import seeded


def scheduled(graph: LoopGraph) -> KernelGraph:
    return fuse(run_passes(graph), DEVICE)


def _softmax(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [softmax(x)]


def _layer_norm(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [layer_norm(x)]


def _residual_norm(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
    added = binary_op("add", x, y)
    return [layer_norm(added), added]


def _row_and_column_sums(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 0), reduce_op("sum", x, 1)]


def _two_row_reductions(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("max", x, 1), reduce_op("sum", x, 1)]


def _broadcast_of_a_total(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    total = reduce_op("sum", reduce_op("sum", x, 1), 0)
    return [x.builder.pointwise(x.shape, x.dtype, lambda at: total.load(()))]


@pytest.mark.parametrize(
    ("body", "shapes", "kernels"),
    [
        (_softmax, [(64, 128)], 1),
        (_layer_norm, [(64, 128)], 1),
        (_residual_norm, [(64, 128), (64, 128)], 1),
        (_two_row_reductions, [(64, 128)], 1),
        (_row_and_column_sums, [(512, 512)], 2),
        (_broadcast_of_a_total, [(512, 512)], 3),
        (_broadcast_of_a_total, [(4, 8)], 1),
    ],
)
def test_number_of_kernels(body, shapes, kernels: int) -> None:
    graph = make_graph(body, {f"x{k}": shape for k, shape in enumerate(shapes)})
    fused = scheduled(graph)
    check_same(graph, fused)
    assert len(fused.kernels) == kernels, [d for d in fused.decisions if d.stage == "fuse"]


def test_verdicts_name_both_groups_and_a_reason() -> None:
    fused = scheduled(make_graph(_broadcast_of_a_total, {"x": (512, 512)}))
    verdicts = [d for d in fused.decisions if d.stage == "fuse" and d.verdict == "not fused"]
    assert [v.reason.split(" (")[0] for v in verdicts] == [
        "it would leave 1 parallel units of 512",
        "it would leave 1 parallel units of 262144",
    ]
    assert all(len(v.subject) == 2 for v in verdicts)


def test_iteration_spaces_that_differ_by_a_reshape_are_fused() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        sums = reduce_op("sum", x, 2)  # (8, 12)
        flat = pointwise(
            builder,
            (96,),
            lambda at: sums.load((FloorDiv(at[0], as_expr(12)), Modulo(at[0], as_expr(12)))),
        )
        return [unary_op("exp", flat), reduce_op("max", x, 2)]

    graph = make_graph(body, {"x": (8, 12, 512)})
    fused = scheduled(graph)
    check_same(graph, fused)
    assert len(fused.kernels) == 1


def test_no_fusion_through_a_third_kernel() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        low = unary_op("exp", x)
        product = matmul(builder, low, w)
        return [binary_op("add", product, low)]

    graph = make_graph(body, {"x": (128, 128)}, {"w": (128, 128)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-4)
    kinds = [k.template.kind if isinstance(k, TemplateKernel) else "nests" for k in fused.kernels]
    assert kinds == ["nests", "matmul"]
    assert len(fused.kernels[1].stages) == 1


@pytest.mark.parametrize("raw_is_used", [False, True])
def test_epilogue_keeps_the_raw_result_only_when_it_is_read(raw_is_used: bool) -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor, b: Tensor) -> Sequence[Tensor]:
        product = matmul(builder, x, w)
        result = unary_op("tanh", binary_op("add", product, b))
        return [result, reduce_op("sum", product, 1)] if raw_is_used else [result]

    graph = make_graph(body, {"x": (S0, 128)}, {"w": (128, 96), "b": (96,)}, (BATCH,))
    fused = scheduled(graph)
    kernel = fused.kernels[0]
    assert isinstance(kernel, TemplateKernel)
    assert kernel.stages
    raw = kernel.template.output.buffer
    assert (raw in kernel.writes, raw in kernel.local) == (raw_is_used, not raw_is_used)
    for size in (0, 1, 5):
        check_same(graph, fused, {"s0": size}, tolerance=1e-4)


def test_head_split_transpose_is_an_epilogue() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        product = matmul(builder, x, w)
        bent = unary_op("tanh", product)
        split = pointwise(builder, (4, 32, 24), lambda at: bent.load((at[1], at[0] * 24 + at[2])))
        return [split]

    graph = make_graph(body, {"x": (32, 128)}, {"w": (128, 96)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-4)
    assert [len(k.stages) for k in fused.kernels] == [1]


@pytest.mark.parametrize("column", [0, 1])
def test_a_column_of_a_template_is_no_epilogue(column: int) -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        product = matmul(builder, x, w)
        return [pointwise(builder, (32,), lambda at: product.load((at[0], as_expr(column))))]

    graph = make_graph(body, {"x": (32, 128)}, {"w": (128, 2)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-4)
    assert not any(k.stages for k in template_kernels(fused))


def test_what_a_template_scatters_is_read_by_another_kernel() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        rows = pointwise(builder, (1, 32), lambda at: x.load((at[1],)))
        counted = scan(rows)
        mirrored = builder.empty(rows.shape, rows.dtype)

        def place(at: tuple[Expr, ...]) -> Store:
            goal = check_index(builder.index_node(31 - at[1]), as_expr(32), wrap=False)
            index = (at[0], var("u0"))
            return Store(mirrored.buffer, index, counted.load(at), binds=((var("u0"), goal),))

        builder.scatter(mirrored, rows.shape, place)
        return [pointwise(builder, (32,), lambda at: mirrored.load((as_expr(0), at[0])))]

    graph = make_graph(body, {"x": (32,)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-5)
    assert isinstance(fused.kernels[-1], NestKernel)


def test_dynamic_batch_is_right_for_every_size() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        joined = concatenate(x, y, 1)
        return [softmax(joined), transpose(reduce_op("max", joined, 2, keep=True), 1, 2)]

    graph = make_graph(body, {"x": (S0, 3, 7), "y": (S0, 2, 7)}, dims=(BATCH,))
    fused = scheduled(graph)
    for size in (0, 1, 3, 17):
        check_same(graph, fused, {"s0": size})


def test_random_programs_mean_the_same_after_every_step() -> None:
    for seed in range(40):
        graph = _random_graph(np.random.default_rng(seeded(seed)))
        laid = run_passes(graph)
        check_same(graph, laid)
        check_same(graph, fuse(laid, DEVICE))


def _random_graph(rng: np.random.Generator) -> LoopGraph:
    def body(builder: GraphBuilder, *given: Tensor) -> Sequence[Tensor]:
        values = list(given)
        for _ in range(int(rng.integers(3, 9))):
            values.append(_random_step(rng, builder, values))
        return values[-2:]

    return make_graph(body, {"x": (6, 4, 8), "y": (6, 4, 8)}, {"w": (8,), "v": (4, 8)})


def _random_step(rng: np.random.Generator, builder: GraphBuilder, values: list[Tensor]) -> Tensor:
    x = values[int(rng.integers(len(values)))]
    mates = [v for v in values if v.shape == x.shape]
    choice = int(rng.integers(7))
    if choice == 0:
        return unary_op(str(rng.choice(["abs", "tanh", "neg"])), x)
    if choice in (1, 2):
        other = mates[int(rng.integers(len(mates)))]
        return binary_op(str(rng.choice(["add", "sub", "minimum"])), x, other)
    if choice == 3 and x.rank > 1:
        kind = str(rng.choice(["sum", "max"]))
        return reduce_op(kind, x, int(rng.integers(x.rank)), keep=bool(rng.integers(2)))
    if choice == 4 and x.rank > 1:
        return transpose(x, 0, x.rank - 1)
    if choice == 5:
        return concatenate(x, mates[int(rng.integers(len(mates)))], int(rng.integers(x.rank)))
    size = 1
    for s in x.shape:
        size *= int(s)
    strides = [int(np.prod([int(s) for s in x.shape[k + 1 :]])) for k in range(x.rank)]
    return pointwise(
        builder,
        (size,),
        lambda at: x.load(
            [_digit(at[0], step, int(s)) for step, s in zip(strides, x.shape, strict=True)]
        ),
    )


def _digit(position, step: int, size: int):
    return Modulo(FloorDiv(position, as_expr(step)), as_expr(size))


def test_loops_are_cut_where_conditions_change() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [unary_op("exp", concatenate(x, y, 1))]

    graph = make_graph(body, {"x": (S0, 40), "y": (S0, 24)}, dims=(BATCH,))
    fused = scheduled(graph)
    (kernel,) = fused.kernels
    assert [int(s.inner[-1].extent) for s in kernel.stages] == [40, 24]
    nodes = postorder([r for s in kernel.stages for n in s.nests for r in n.roots])
    assert not [n for n in nodes if n.op in ("where", "lt", "ge")]
    for size in (0, 1, 3):
        check_same(graph, fused, {"s0": size})


def test_columns_and_rows_of_a_large_matrix_are_summed_block_by_block() -> None:
    graph = make_graph(_row_and_column_sums, {"x": (2048, 1024)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-3)
    first, second = fused.kernels
    assert len(first.stages) == 2
    assert first.reads == ("x",)
    assert "x" not in second.reads


def test_groups_of_channels_are_reduced_through_all_channels() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        def value(at, r):
            return reduce_("sum", x.load((at[0], r[1], r[2], at[1] * 4 + r[0])))

        reduced = [as_expr(s) for s in (4, 64, 32)]
        shape = [as_expr(2), as_expr(8)]
        return [*builder.reduction(shape, reduced, [(x.dtype, value)])]

    graph = make_graph(body, {"x": (2, 64, 32, 32)})
    fused = scheduled(graph)
    check_same(graph, fused, tolerance=1e-3)
    partial = fused.kernels[0].stages[0]
    assert partial.vector is not None
    assert int(partial.vector.extent) == 32


def test_writers_of_one_buffer_keep_their_order() -> None:
    def body(builder: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        base = unary_op("neg", x)
        before = unary_op("exp", base)
        source = unary_op("abs", y)

        def store(at):
            return Store(base.buffer, (at[0], at[1] + 8), source.load(at), "add")

        builder.scatter(base, [as_expr(64), as_expr(8)], store)
        return [base, binary_op("add", before, unary_op("abs", x)), unary_op("sin", source)]

    graph = make_graph(body, {"x": (64, 32), "y": (64, 8)})
    fused = fuse(choose_layouts(graph, DEVICE), DEVICE)
    inputs, weights = random_inputs(graph)
    for want, got in zip(
        interpret(graph, inputs, weights), interpret(fused, inputs, weights), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    writers = [k for k in fused.kernels if graph.outputs[0] in k.writes]
    assert len(writers) == 2
