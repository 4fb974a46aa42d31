"""What was found of a nest or group is found once, and is no part of what a scheduler is."""

from __future__ import annotations

from unittest.mock import patch

from aot.ir.kernels import NestKernel
from aot.schedule import loops
from aot.schedule import scheduler as module
from aot.schedule.groups import rename_group
from aot.schedule.loops import build_kernel, group_cost
from aot.schedule.strides import strided_accesses
from tests.schedule.graphs import reduce_op, unary_op
from tests.schedule.steps import groups, laid, scheduler

GRAPH = laid(lambda _, x: [unary_op("exp", x)], {"x": (2, 3, 4)})


def test_a_nest_is_looked_at_once() -> None:
    (group,) = groups(GRAPH)
    one = scheduler(GRAPH)
    with patch.object(module, "strided_accesses", wraps=strided_accesses) as looked:
        first, again = one.moves(group.nests[0]), one.moves(group.nests[0])
    assert first is again
    assert looked.call_count == 1
    assert first == strided_accesses(GRAPH, group.nests[0])


def test_what_was_found_makes_no_other_scheduler() -> None:
    (group,) = groups(GRAPH)
    used, unused = scheduler(GRAPH), scheduler(GRAPH)
    price = group_cost(used, group)
    assert used.prices
    assert not unused.prices
    assert used == unused
    assert group_cost(used, group) == group_cost(unused, group) == price


def test_groups_that_differ_in_names_alone_are_priced_once() -> None:
    """So is the loop chosen that becomes an inner one: another group's, by the names of its own."""
    graph = laid(
        lambda _, x, y, z: [
            unary_op("exp", reduce_op("sum", x, 1)),
            unary_op("exp", reduce_op("sum", y, 1)),
            unary_op("exp", reduce_op("sum", z, 1)),
        ],
        {"x": (64, 48, 3), "y": (64, 48, 3), "z": (64, 48, 5)},
    )
    one = scheduler(graph)
    sums = [group for group in groups(graph) if group.nests[0].reduction]
    named = [
        # As layers that are alike have them: each follows a template of its own.
        rename_group(group, dict(zip(group.loops, sums[0].loops, strict=True)))
        for group in sums
    ]
    with (
        patch.object(loops, "_priced", wraps=loops._priced) as priced,
        patch.object(loops, "_narrow_axis", wraps=loops._narrow_axis) as narrowed,
    ):
        kernels = [build_kernel(one, g, "k", frozenset(g.writes)) for g in named]
    assert narrowed.call_count == 2
    alone = [build_kernel(scheduler(graph), g, "k", frozenset(g.writes)) for g in named]
    assert kernels == alone
    assert all(isinstance(kernel, NestKernel) for kernel in kernels)
    with patch.object(loops, "_priced", wraps=loops._priced) as again:
        assert [group_cost(one, g) for g in named] == [
            group_cost(scheduler(graph), g) for g in named
        ]
    assert priced.call_count and again.call_count == len(named)
