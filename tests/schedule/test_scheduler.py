"""What was found of a nest or group is found once, and is no part of what a scheduler is."""

from __future__ import annotations

from unittest.mock import patch

from aot.schedule import scheduler as module
from aot.schedule.loops import group_cost
from aot.schedule.strides import strided_accesses
from tests.schedule.graphs import unary_op
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
