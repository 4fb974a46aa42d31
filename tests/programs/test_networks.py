"""Random networks as packages; `make programs` runs hundreds."""

from __future__ import annotations

import pytest
import torch

from aot.frontend.weights import to_array
from tests.programs.check import RUNS, network_problem
from tests.programs.networks import network_of
from tests.programs.run import network_outcome
from tests.settings import seeded

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_a_network_computes_what_eager_does(seed: int) -> None:
    problem = network_outcome(network_of(seeded(seed)), RUNS["cpu"])
    assert not problem or problem.startswith("refused"), problem


def test_a_wrong_result_of_a_network_is_seen() -> None:
    case = network_of(100)
    with torch.no_grad():
        outputs = [to_array(value).copy() for value in case.network(case.input())]
    outputs[-1].flat[0] += 1
    assert network_problem(case, lambda captured, sets: [outputs] * len(sets))


def test_what_another_order_of_a_convolutions_sums_moves_is_no_error() -> None:
    """A norm of four nearly equal values divides one rounding of a sum by a fiftieth."""
    case = network_of(5074)
    with torch.no_grad():
        outputs = [to_array(value).copy() for value in case.network(case.input())]
    norm = outputs[case.network.results.index(9)]
    for error, is_wrong in ((3.4e-6, False), (2e-5, True)):
        moved = [a + error * (a is norm) for a in outputs]
        assert bool(network_problem(case, lambda captured, sets, o=moved: [o])) == is_wrong


def test_a_seed_gives_one_network() -> None:
    first, second = network_of(7), network_of(7)
    with torch.no_grad():
        for a, b in zip(first.network(first.input()), second.network(second.input()), strict=True):
            assert torch.equal(a, b)
