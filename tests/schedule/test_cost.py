"""Bytes that a fusion saves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aot.ir.hints import hints_of
from aot.ir.loops import LoopGraph
from aot.lowering.builder import GraphBuilder, Tensor
from aot.schedule.cost import saved_bytes
from aot.schedule.scheduler import Scheduler
from tests.schedule.graphs import BATCH, S0, unary_op
from tests.schedule.steps import DEVICE, groups, laid


def _chain_and_reader(_: GraphBuilder, x: Tensor) -> Sequence[Tensor]:
    return [unary_op("sin", unary_op("exp", x)), unary_op("cos", x)]


def _scheduler(graph: LoopGraph) -> Scheduler:
    return Scheduler(graph, hints_of(graph.dims), DEVICE)


BYTES = 4 * 8 * 4
"""Of one buffer of 4 x 8 float32."""


@pytest.mark.parametrize(
    ("first", "second", "needed", "saved"),
    [
        (0, 1, frozenset(), 2 * BYTES),  # written and read no more
        (0, 1, frozenset(["buf1"]), BYTES),  # written all the same
        (0, 2, frozenset(), BYTES),  # one of two reads of x
        (1, 2, frozenset(), 0),
        (1, 0, frozenset(), 0),
    ],
)
def test_traffic_that_disappears(
    first: int, second: int, needed: frozenset[str], saved: int
) -> None:
    graph = laid(_chain_and_reader, {"x": (4, 8)})
    parts = groups(graph)
    pair = parts[first], parts[second]
    assert saved_bytes(_scheduler(graph).size, *pair, needed) == saved


def test_sizes_that_vary_count_as_in_the_example() -> None:
    graph = laid(_chain_and_reader, {"x": (S0, 8)}, dims=(BATCH,))
    first, second, _ = groups(graph)
    assert saved_bytes(_scheduler(graph).size, first, second, frozenset()) == 2 * 3 * 8 * 4
