"""Who may share a kernel: every reason for and against, and what is joined computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph
from aot.ir.machine import Machine
from aot.ir.nests import Store
from aot.ir.templates import Matmul, MatmulSupport, Scan, Support
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule import legality
from aot.schedule.legality import FusionState, Verdict, can_fuse
from aot.schedule.scheduler import Scheduler
from aot.symbolic import as_expr
from tests.schedule.graphs import (
    DEVICE,
    TILES,
    Body,
    Size,
    binary_op,
    matmul,
    reduce_op,
    scan,
    transpose,
    unary_op,
)
from tests.schedule.steps import check_groups, groups, laid, scheduler

PROLOGUES = replace(DEVICE, templates=(MatmulSupport(Matmul), Support(Scan, takes_producer=True)))


def state_of(graph: LoopGraph, machine: Machine = DEVICE, many: Sequence[str] = ()) -> FusionState:
    """All operations of the graph, a group each."""
    parts = dict(enumerate(groups(graph)))
    return FusionState(Scheduler(graph, hints_of(graph.dims), machine), parts, frozenset(many))


def judged(
    body: Body,
    inputs: dict[str, Sequence[Size]],
    pair: tuple[int, int],
    machine: Machine = DEVICE,
    weights: dict[str, Sequence[Size]] | None = None,
) -> Verdict:
    """The verdict on two of the operations; kernels of groups that were joined are run."""
    graph = laid(body, inputs, weights)
    state = state_of(graph, machine)
    verdict = can_fuse(state, *pair)
    assert verdict.ok == (verdict.fused is not None)
    if verdict.fused is not None and machine.local_buffers:
        others = [g for k, g in state.groups.items() if k not in pair]
        in_turn = sorted((*others, verdict.fused), key=lambda g: g.position)
        check_groups(graph, in_turn)
    return verdict


def _chain(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("sin", unary_op("exp", x))]


def _rows(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [binary_op("sub", x, reduce_op("max", x, 1, keep=True))]


def _two_readers(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 1), reduce_op("max", x, 1)]


def _row_and_column(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", x, 1), reduce_op("max", x, 0)]


def _total(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", reduce_op("sum", x, 1), 0)]


@pytest.mark.parametrize(
    ("body", "shape", "reason"),
    [
        (_chain, (8, 64), "every element read is computed in the same iteration of 8 x 64"),
        (_rows, (8, 64), "every element read is computed in the same iteration of 8"),
        (_two_readers, (8, 64), "independent, over the same outer loops, sharing reads"),
        (_total, (8, 64), "every element read is computed in the same iteration of a single point"),
    ],
)
def test_nests_that_share_a_kernel(body: Body, shape: tuple[int, ...], reason: str) -> None:
    verdict = judged(body, {"x": shape}, (0, 1))
    assert verdict.ok, verdict.reason
    assert verdict.reason == reason


@pytest.mark.parametrize(
    ("body", "shape", "reason"),
    [
        (_row_and_column, (8, 64), "they are independent and their iteration spaces differ"),
        (_total, (512, 512), "it would leave 1 parallel units of 512"),
    ],
)
def test_nests_that_do_not(body: Body, shape: tuple[int, ...], reason: str) -> None:
    assert judged(body, {"x": shape}, (0, 1)) == Verdict(ok=False, reason=reason)


def test_a_kernel_between_two_keeps_them_apart() -> None:
    def body(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
        low = unary_op("exp", x)
        return [binary_op("add", low, matmul(builder, low, w))]

    graph = laid(body, {"x": (8, 8), "w": (8, 8)})
    state = state_of(graph)
    last = max(state.groups)
    assert state.reaches(0, last) and not state.reaches(0, 1)
    assert can_fuse(state, 0, last).reason == "it would make a cycle through another kernel"


def test_writers_of_one_buffer_stay_in_order() -> None:
    graph = laid(_chain, {"x": (8, 64)})
    state = state_of(graph, many=["buf2"])
    assert can_fuse(state, 0, 1).reason == "buf2 is written by several operations, in order"


def test_what_is_updated_in_place_stays_between_its_readers() -> None:
    def body(builder: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        base = unary_op("exp", x)
        return [unary_op("sin", base), binary_op("add", base, y)]

    graph = laid(body, {"x": (8, 8), "y": (8, 8)})
    first, second, third = groups(graph)
    (nest,) = third.nests
    (store,) = nest.stores
    part = Store(store.buffer, store.index, store.value, base="buf2")
    updating = replace(third, nests=(replace(nest, stores=(part,)),))
    parts = {0: first, 1: second, 2: updating}
    state = FusionState(scheduler(graph), parts, frozenset())
    assert updating.updates == {store.buffer: "buf2"}
    assert can_fuse(state, 1, 2).reason == "buf2 is updated in place, between its readers"
    assert 2 in state.consumers(1)  # after all that read the base


def test_kernels_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legality, "MAX_NESTS", 1)
    verdict = judged(_chain, {"x": (8, 64)}, (0, 1))
    assert verdict.reason == "the kernel would have more than 1 nests"


def _activated(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [unary_op("exp", matmul(builder, x, w))]


def _summed(builder: GraphBuilder, x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return [reduce_op("sum", matmul(builder, x, w), 1)]


@pytest.mark.parametrize(
    ("body", "ok", "reason"),
    [
        (_activated, True, "pointwise over the template's output: an epilogue"),
        (_summed, False, "n1 reduces; an epilogue is pointwise"),
    ],
)
def test_what_follows_a_template(body: Body, ok: bool, reason: str) -> None:
    verdict = judged(body, {"x": (4, 8)}, (0, 1), weights={"w": (8, 6)})
    assert (verdict.ok, verdict.reason) == (ok, reason)


def _scanned(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [scan(unary_op("exp", x))]


def _scanned_and_kept(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    low = unary_op("exp", x)
    return [scan(low), low]


@pytest.mark.parametrize(
    ("body", "machine", "ok", "reason"),
    [
        (_scanned, PROLOGUES, True, "pointwise, where the template loads: a prologue"),
        (_scanned, DEVICE, False, "a template call takes no producer into its kernel"),
        (_scanned_and_kept, PROLOGUES, False, "buf1 is read elsewhere"),
    ],
)
def test_what_comes_before_a_template(body: Body, machine: Machine, ok: bool, reason: str) -> None:
    verdict = judged(body, {"x": (4, 8)}, (0, 1), machine)
    assert (verdict.ok, verdict.reason) == (ok, reason)


def test_scratch_that_no_cache_holds_is_refused() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        low = unary_op("exp", x)
        return [binary_op("div", low, reduce_op("sum", low, 1, keep=True))]

    graph = laid(body, {"x": (64, 512)})
    small = state_of(graph, replace(DEVICE, local_bytes=1024))
    reason = "a work unit would keep 2048 bytes, more than its cache"
    assert can_fuse(small, 0, 1) == Verdict(ok=False, reason=reason)


def test_a_group_that_was_joined_stands_for_its_parts() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        low = unary_op("exp", x)
        return [binary_op("div", low, reduce_op("sum", low, 1, keep=True))]

    graph = laid(body, {"x": (64, 512)})
    state = state_of(graph)
    first = can_fuse(state, 0, 1).fused
    assert first is not None
    state.merge(0, 1, 9, first)
    assert state.groups == {2: state.groups[2], 9: first}
    assert (state.readers["x"], set(state.writer.values())) == ({9}, {9, 2})
    assert state.scratch_bytes(first) == 512 * 4
    whole = can_fuse(state, 9, 2).fused
    assert whole is not None
    (kernel,) = check_groups(graph, [whole]).kernels
    assert kernel.writes == graph.outputs


def test_few_results_are_not_taken_into_a_kernel_of_tiles() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [binary_op("sub", x, reduce_op("max", x, 0))]

    verdict = judged(body, {"x": (1 << 18, 4)}, (0, 1), TILES)
    assert verdict.reason.startswith("4 points of the outer loops are few for")


def test_tiles_pass_reduced_values_alone() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", reduce_op("max", x, 2), 1)]

    verdict = judged(body, {"x": (256, 64, 128)}, (0, 1), TILES)
    assert not verdict.ok and verdict.reason


def test_bytes_saved_count_reads_and_writes_that_disappear() -> None:
    graph = laid(_chain, {"x": (8, 64)})
    state = state_of(graph)
    assert state.saved_bytes(0, 1) == 2 * 8 * 64 * 4
    assert state.consumers(0) == {1} and state.consumers(1) == set()


def test_turned_elements_are_read_in_the_same_iteration() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [transpose(unary_op("exp", x), 0, 1)]

    verdict = judged(body, {"x": (8, 64)}, (0, 1))
    assert verdict.fused is not None
    assert [a.extent for a in verdict.fused.outer] == [as_expr(8), as_expr(64)]
