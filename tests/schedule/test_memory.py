"""The memory plan: no two living buffers overlap, for any size; dying inputs are reused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from aot.ir.dtypes import FLOAT32
from aot.ir.hints import hints_of
from aot.ir.kernels import KernelGraph, MemoryPlan, NestKernel, TemplateKernel
from aot.ir.nests import LoopNest, Store
from aot.ir.origin import Origin
from aot.ir.scalar import binary, load
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.fusion import fuse
from aot.schedule.memory import live_ranges, plan_memory, reads_in_time
from aot.symbolic import dim, evaluate
from tests.ir.nests import I0, axes
from tests.schedule.graphs import (
    BATCH,
    DEVICE,
    S0,
    binary_op,
    make_graph,
    matmul,
    reduce_op,
    run_passes,
    unary_op,
)
from tests.schedule.states import (
    CASES,
    add,
    both_results,
    checked_kernels,
    from_input,
    places,
    roll,
    swap,
)


def offsets(plan: MemoryPlan, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Where the runtime puts every buffer: (begin, end)."""
    values = {dim(k): v for k, v in sizes.items()}
    placed: dict[str, tuple[int, int]] = {}
    for p in plan.placements:
        begin = max((placed[name][1] for name in p.above), default=0)
        begin = -(-begin // 64) * 64
        placed[p.buffer] = (begin, begin + int(evaluate(p.size, values)))
    return placed


def check_plan(graph: KernelGraph, plan: MemoryPlan, sizes: Mapping[str, int]) -> int:
    """Asserts that buffers alive together do not overlap; the arena's size."""
    placed = offsets(plan, sizes)
    owner = dict(plan.in_place)
    lives = live_ranges(graph, hints_of(graph.dims))
    for a in lives.values():
        for b in lives.values():
            if a.buffer >= b.buffer or a.first > b.last or b.first > a.last:
                continue
            x, y = _root(owner, a.buffer), _root(owner, b.buffer)
            if x == y:
                assert a.last == b.first or b.last == a.first
                continue
            apart = placed[x][1] <= placed[y][0] or placed[y][1] <= placed[x][0]
            assert apart, (a, b, placed[x], placed[y])
    return max((end for _, end in placed.values()), default=0)


def _root(owner: Mapping[str, str], name: str) -> str:
    while name in owner:
        name = owner[name]
    return name


def _layers(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
    for _ in range(3):
        wide = unary_op("tanh", matmul(builder, x, w))
        x = binary_op("add", matmul(builder, wide, v), x)
    return [x]


def planned(body, dims: bool = True) -> tuple[KernelGraph, MemoryPlan]:
    rows = S0 if dims else 3
    weights = {"w": (128, 512), "v": (512, 128)}
    graph = make_graph(body, {"x": (rows, 128)}, weights, (BATCH,) if dims else ())
    fused = fuse(run_passes(graph), DEVICE)
    return fused, plan_memory(fused)


@pytest.mark.parametrize("size", [0, 1, 3, 64])
def test_living_buffers_are_apart_for_every_size(size: int) -> None:
    graph, plan = planned(_layers)
    arena = check_plan(graph, plan, {"s0": size})
    # One wide buffer and two narrow ones are alive at most, each rounded up to 64 bytes.
    assert arena <= size * (512 + 2 * 128) * 4 + 3 * 64


def test_above_lists_are_transitively_reduced() -> None:
    _, plan = planned(_layers)
    above = {p.buffer: set(p.above) for p in plan.placements}
    for names in above.values():
        for name in names:
            assert not names & above[name]


def test_pointwise_kernel_works_in_place() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
        wide = matmul(builder, x, w)
        top = reduce_op("max", wide, 1, keep=True)
        shifted = unary_op("exp", binary_op("sub", wide, top))
        return [matmul(builder, shifted, v)]

    graph, plan = planned(body)
    assert len(plan.in_place) == 1
    ((result, operand),) = plan.in_place
    kernel = next(k for k in graph.kernels if result in k.writes)
    assert operand in kernel.reads
    assert isinstance(kernel, NestKernel)
    for size in (0, 1, 5):
        check_plan(graph, plan, {"s0": size})


def test_transposing_kernel_does_not_work_in_place() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
        square = matmul(builder, v, w)
        turned = builder.pointwise(
            square.shape,
            x.dtype,
            lambda at: binary_body(square, at),
        )
        return [matmul(builder, turned, v)]

    _, plan = planned(body, dims=False)
    assert plan.in_place == ()


def finishing(body, dims: bool = True) -> tuple[KernelGraph, MemoryPlan]:
    """As `planned`, on a device whose templates finish each element once."""
    graph, _ = planned(body, dims)
    kernels = tuple(
        replace(k, finishes_once=True) if isinstance(k, TemplateKernel) else k
        for k in graph.kernels
    )
    graph = replace(graph, kernels=kernels)
    return graph, plan_memory(graph)


def test_an_epilogue_stores_over_a_residual_that_dies_in_it() -> None:
    graph, plan = planned(_layers)
    assert plan.in_place == ()  # not known to finish each element once
    graph, plan = finishing(_layers)
    assert plan.in_place
    for result, operand in plan.in_place:
        kernel = next(k for k in graph.kernels if result in k.writes)
        assert isinstance(kernel, TemplateKernel)
        assert operand not in [v.buffer for _, v in kernel.template.operands]
        assert not any(operand in k.reads for k in graph.kernels[graph.kernels.index(kernel) + 1 :])
    for size in (0, 1, 5):
        check_plan(graph, plan, {"s0": size})


def test_what_a_later_store_reads_is_not_stored_over() -> None:
    one, both = load("old", FLOAT32, (I0,)), load("other", FLOAT32, (I0,))
    first, second = (
        Store("new", (I0,), binary("mul", both, both)),
        Store("sum", (I0,), binary("add", one, both)),
    )

    def in_time(*stores: Store) -> bool:
        nest = LoopNest("n0", tuple(axes(i0=12)), (), stores, Origin())
        return reads_in_time([nest], "new", "old")

    assert not in_time(first, second)
    assert in_time(second, first)
    assert in_time(replace(first, value=binary("mul", one, both)), second)


def test_an_epilogue_does_not_store_over_what_its_template_reads() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
        square = matmul(builder, v, w)
        return [matmul(builder, binary_op("add", matmul(builder, square, square), square), v)]

    _, plan = finishing(body, dims=False)
    assert plan.in_place == ()


def test_an_epilogue_does_not_store_over_what_it_reads_elsewhere() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor, v: Tensor) -> Sequence[Tensor]:
        square = unary_op("tanh", matmul(builder, v, w))
        made = matmul(builder, v, w)
        turned = builder.pointwise(
            made.shape,
            x.dtype,
            lambda at: binary("add", made.load(at), square.load((at[1], at[0]))),
        )
        return [matmul(builder, turned, v)]

    _, plan = finishing(body, dims=False)
    assert plan.in_place == ()


def binary_body(x: Tensor, at):
    return binary("add", x.load(at), x.load((at[1], at[0])))


@pytest.mark.parametrize("name", CASES)
def test_every_stage_leaves_what_eager_leaves(name: str) -> None:
    checked_kernels(CASES[name])


def test_a_value_that_replaces_its_own_elements_is_in_place() -> None:
    _, graph, plan = checked_kernels(add)
    assert places(plan, graph) == ({"a"}, set())
    assert not plan.placements


def test_a_value_that_moves_elements_is_copied() -> None:
    _, graph, plan = checked_kernels(roll)
    assert places(plan, graph) == (set(), {"a"})
    assert [p.buffer for p in plan.placements] == [graph.mutations[0].value]


def test_of_two_that_change_places_none_is_written_before_both_are_read() -> None:
    _, graph, plan = checked_kernels(swap)
    in_place, copied = places(plan, graph)
    assert in_place | copied == {"a", "b"}
    values = {m.target: m.value for m in graph.mutations}
    order = {name: k for k, kernel in enumerate(graph.kernels) for name in kernel.writes}
    for state, value in values.items():
        if graph.buffers[state].fqn not in in_place:
            continue
        readers = [k for k, kernel in enumerate(graph.kernels) if state in kernel.reads]
        assert all(k <= order[value] for k in readers)


def test_states_that_nothing_reads_are_written_where_they_are() -> None:
    _, graph, plan = checked_kernels(from_input)
    assert places(plan, graph) == ({"a", "b"}, set())


def test_a_new_value_that_is_a_result_too_has_both_places() -> None:
    _, graph, plan = checked_kernels(both_results)
    assert graph.mutations[0].value not in graph.outputs
    assert places(plan, graph) == ({"a"}, set())
