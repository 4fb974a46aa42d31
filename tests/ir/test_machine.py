"""Machines: what follows from their facts, and which are alike."""

from dataclasses import replace

import pytest

from aot.ir.machine import CrossedTile, Machine
from aot.ir.templates import Conv, ConvSupport, Matmul, MatmulSupport, Scan, Support
from tests.schedule.graphs import make_graph, matmul

PLAIN = Machine(local_bytes=1 << 16, grain_bytes=1 << 16)


def test_a_machine_has_the_templates_that_its_backend_names() -> None:
    product = MatmulSupport(Matmul, takes_producer=True)
    machine = replace(PLAIN, templates=(ConvSupport(Conv), product))
    assert machine.support(Matmul) is product
    assert machine.support(Scan) is None
    assert PLAIN.support(Matmul) is None


@pytest.mark.parametrize("takes", [True, False])
def test_a_template_takes_a_producer_where_its_support_says_so(takes: bool) -> None:
    graph = make_graph(lambda builder, a, b: [matmul(builder, a, b)], {"a": (4, 8), "b": (8, 6)})
    (call,) = graph.ops
    found = replace(PLAIN, templates=(Support(Matmul, takes_producer=takes),))
    assert found.takes_producer(call) is takes
    assert not PLAIN.takes_producer(call)


def test_the_shortest_strip_is_four_vectors() -> None:
    assert [replace(PLAIN, lanes=n).least_strip for n in (1, 8, 16)] == [4, 32, 64]


def test_machines_of_equal_facts_are_one_key() -> None:
    """The driver schedules once for all of them."""
    again = Machine(local_bytes=1 << 16, grain_bytes=1 << 16)
    tiles = replace(PLAIN, crossed=CrossedTile())
    assert len({PLAIN, again, tiles, replace(PLAIN, crossed=CrossedTile())}) == 2


def test_tiles_are_as_high_as_they_may_be() -> None:
    tile = CrossedTile()
    assert all(tile.least_rows <= high <= tile.most_rows for high in tile.heights)
    assert len(set(tile.heights)) == len(tile.heights)
