"""Who must follow whom: every order that dependencies allow gives the same values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.dependencies import analyse
from aot.schedule.groups import Group
from tests.schedule.graphs import binary_op, reduce_op, unary_op
from tests.schedule.steps import check_ops, groups, laid


def test_readers_follow_writers() -> None:
    usage = analyse([((), ("a",)), (("a",), ("b",)), (("a", "b"), ("c",)), (("x",), ("d",))])
    assert usage.producers == (frozenset(), {0}, {0, 1}, frozenset())
    assert usage.readers == {"a": (1, 2), "b": (2,), "x": (3,)}


def test_a_second_writer_follows_the_first_and_its_readers() -> None:
    usage = analyse([((), ("a",)), (("a",), ("b",)), (("x",), ("a",)), (("a",), ("c",))])
    assert usage.producers[2] == {0, 1}
    assert usage.producers[3] == {0, 2}


def test_what_adds_to_its_own_result_does_not_follow_itself() -> None:
    assert analyse([(("a",), ("a",))]).producers == (frozenset(),)


def _diamond(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    low = unary_op("exp", x)
    left, right = reduce_op("sum", low, 1, keep=True), reduce_op("max", low, 1, keep=True)
    return [binary_op("sub", low, binary_op("add", left, right))]


def _touched(group: Group) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return group.reads, group.writes


def test_every_order_that_they_allow_computes_the_same() -> None:
    graph = laid(_diamond, {"x": (4, 6)})
    parts = groups(graph)
    usage = analyse([_touched(g) for g in parts])
    allowed = [
        order
        for order in itertools.permutations(range(len(parts)))
        if all(usage.producers[k] <= set(order[:n]) for n, k in enumerate(order))
    ]
    assert allowed == [(0, 1, 2, 3, 4), (0, 2, 1, 3, 4)]
    for order in allowed:
        check_ops(graph, [op for k in order for op in parts[k].ops])
