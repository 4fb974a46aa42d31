"""Loops that walk memory evenly become one; others stay."""

from __future__ import annotations

from collections.abc import Sequence

from aot.ir.dtypes import FLOAT32, INT64, DType
from aot.ir.scalar import cast, index_value, reduce_
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.merge import merge_axes, merge_outer, merged_axis
from tests.schedule.graphs import BATCH, S0, Body, binary_op, pointwise, transpose, unary_op
from tests.schedule.steps import check_ops, groups, laid, scheduler


def test_a_dense_walk_is_one_loop() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (2, 3, 4)})
    (group,) = groups(graph)
    merged = merge_outer(scheduler(graph), group)
    assert [int(a.extent) for a in merged.outer] == [24]
    assert merged.nests[0].axes == merged.outer
    check_ops(graph, merged.ops)


def test_sizes_that_vary_are_no_hindrance() -> None:
    graph = laid(lambda _, x: [unary_op("exp", x)], {"x": (S0, 6)}, dims=(BATCH,))
    (group,) = groups(graph)
    merged = merge_outer(scheduler(graph), group)
    assert [a.extent for a in merged.outer] == [6 * S0]
    for size in (0, 1, 5):
        check_ops(graph, merged.ops, {"s0": size})


def test_a_broadcast_operand_keeps_its_loop_apart() -> None:
    def body(_: GraphBuilder, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        return [binary_op("add", x, y)]

    graph = laid(body, {"x": (2, 3, 4), "y": (4,)})
    (group,) = groups(graph)
    merged = merge_outer(scheduler(graph), group)
    assert [int(a.extent) for a in merged.outer] == [6, 4]
    check_ops(graph, merged.ops)


def test_a_transposing_nest_stays() -> None:
    graph = laid(lambda _, x: [transpose(x, 0, 1)], {"x": (4, 6)})
    (group,) = groups(graph)
    assert merge_outer(scheduler(graph), group) is group


def test_a_variable_that_the_body_computes_with_stays() -> None:
    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        return [
            pointwise(builder, (4, 6), lambda at: cast(index_value(at[1]), FLOAT32)),
            builder.pointwise(x.shape, INT64, lambda at: index_value(at[0])),
        ]

    graph = laid(body, {"x": (4, 6)})
    for group in groups(graph):
        assert merge_outer(scheduler(graph), group) is group


def _rows(dtype: DType, kind: str) -> Body:
    """Of each row in two dimensions, its reduction."""

    def body(builder: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
        value = [(dtype, lambda at, r: reduce_(kind, x.load((*at, *r))))]
        return [builder.reduction(x.shape[:1], x.shape[1:], value)[0]]

    return body


def test_loops_of_a_reduction_merge_among_themselves() -> None:
    graph = laid(_rows(FLOAT32, "sum"), {"x": (5, 3, 4)})
    (group,) = groups(graph)
    (nest,) = group.nests
    found = merge_axes(scheduler(graph), group.nests, nest.reduction)
    assert found is not None
    (merged,), (axis,) = found
    assert axis == merged_axis(*nest.reduction) and int(axis.extent) == 12
    assert merged.axes == nest.axes and merged.reduction == (axis,)
    check_ops(graph, [merged])


def test_loops_in_which_a_position_is_counted_stay() -> None:
    graph = laid(_rows(INT64, "argmax"), {"x": (5, 3, 4)})
    (group,) = groups(graph)
    assert merge_axes(scheduler(graph), group.nests, group.nests[0].reduction) is None
