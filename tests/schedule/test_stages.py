"""Stages: which nests share inner loops, what values pass between them, what need not be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aot.ir.loops import LoopGraph
from aot.ir.nests import LoopNest
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.groups import Group
from aot.schedule.matching import Matched, match
from aot.schedule.stages import StageDraft, drop_unread, form_stages
from tests.schedule.graphs import binary_op, reduce_op, softmax, transpose, unary_op
from tests.schedule.steps import check_ops, groups, laid, text


def together(graph: LoopGraph) -> Group:
    """All operations as one group."""
    joined, *others = groups(graph)
    for other in others:
        found = match(graph, joined, other)
        assert isinstance(found, Matched)
        joined = replace(found.first, nests=(*found.first.nests, *found.second.nests))
    return joined


def staged(graph: LoopGraph) -> tuple[StageDraft, ...]:
    """The stages of all operations, which compute the same."""
    stages = form_stages(graph, together(graph))
    check_ops(graph, all_nests(stages))
    return stages


def all_nests(stages: Sequence[StageDraft]) -> list[LoopNest]:
    return [nest for stage in stages for nest in stage.nests]


def test_values_pass_from_nest_to_nest_in_one_stage() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [unary_op("sin", unary_op("exp", x))]

    (stage,) = staged(laid(body, {"x": (4, 6)}))
    assert (stage.inner, stage.reduction) == ((), ())
    assert text(stage.nests[1]).endswith("{ buf2[n0_i0, n0_i1] = sin(exp(x[n0_i0, n0_i1])) }")


def _softmax(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [softmax(x)]


def test_a_reduced_value_ends_its_stage() -> None:
    stages = staged(laid(_softmax, {"x": (8, 100)}))
    assert [[n.name for n in stage.nests] for stage in stages] == [
        ["n0"],
        ["n1", "n2", "n3"],
        ["n4"],
    ]
    assert [len(stage.reduction) for stage in stages] == [1, 1, 0]
    # The sum of exponentials is taken where they are computed.
    assert text(stages[1].nests[2]).endswith(
        "{ buf4[n0_i0, 0] = sum(exp(x[n0_i0, n1_i1] - buf1[n0_i0, 0])) }"
    )


def test_reductions_of_one_space_share_their_loops() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [reduce_op("sum", x, 1), reduce_op("max", x, 1)]

    (stage,) = staged(laid(body, {"x": (4, 6)}))
    first, second = stage.nests
    assert first.reduction == second.reduction == stage.reduction


def test_elements_of_other_points_need_a_stage_of_their_own() -> None:
    def body(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        y = unary_op("exp", x)
        return [binary_op("add", y, transpose(y, 0, 1))]

    graph = laid(body, {"x": (6, 6)})
    produced, moved, added = (op for op in graph.ops if isinstance(op, LoopNest))
    group = Group(0, (), (produced, moved, added))
    stages = form_stages(graph, group)
    assert [len(stage.inner) for stage in stages] == [2] * len(stages)
    assert len(stages) == 2
    check_ops(graph, all_nests(stages))


def test_what_no_later_stage_reads_is_not_stored() -> None:
    graph = laid(_softmax, {"x": (8, 100)})
    stages = staged(graph)
    kept = drop_unread(stages, frozenset(graph.outputs))
    stores = [s.buffer for n in all_nests(kept) for s in n.stores]
    assert stores == ["buf1", "buf3", "buf4", "buf5"]  # buf2 passed as a value
    everything = drop_unread(stages, frozenset(graph.buffers))
    assert all_nests(everything) == all_nests(stages)


def test_a_stage_that_reduces_no_more_has_inner_loops() -> None:
    graph = laid(_softmax, {"x": (8, 100)})
    stages = staged(graph)
    (_, exponentials) = drop_unread(stages, frozenset(["buf3"]))
    assert [n.name for n in exponentials.nests] == ["n2"]
    assert exponentials.reduction == ()
    assert [int(a.extent) for a in exponentials.inner] == [100]
