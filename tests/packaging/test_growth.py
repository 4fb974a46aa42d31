"""The compiler's work grows as the model does: counted, so the same on every machine."""

import pytest

from benchmarks.packaging.growth import SIZES, blocks, exponent, program, work_of

LAYERS, STEPS = 10, 9
"""Kernels have three steps each: of a multiple nothing is left, whose kernel would be another one
at each size, while those that are alike are emitted once."""

TOLERATED = 1.2
"""An exponent: of all pairs it is 2, and 1.1 where sympy keeps less of what it has found."""


def test_each_layer_adds_the_same_work_to_every_stage() -> None:
    work_of(blocks(2), counted=False)  # what a process does once, it has done
    work = [work_of(blocks(times * LAYERS), counted=True) for times in SIZES]
    stages = ("lower", "passes", "fuse", "prepare", "plan_memory", "emit")
    grown = {stage: exponent([found[stage].calls for found in work]) for stage in stages}
    assert all(found.keys() == set(stages) for found in work)
    assert max(grown.values()) <= TOLERATED, grown


def test_steps_that_share_their_weights_add_the_same_work() -> None:
    """All of them read the same: of 32 the pairs were half of fusion's calls, more of its time."""
    work_of(program("network", 2), counted=False)
    work = [work_of(program("network", times * STEPS), counted=True) for times in SIZES]
    stages = ("lower", "passes", "fuse", "emit")  # the others have hundreds of calls of millions
    grown = {stage: exponent([found[stage].calls for found in work]) for stage in stages}
    assert max(grown.values()) <= TOLERATED, grown


@pytest.mark.parametrize(("work", "expected"), [((7, 9, 13), 1), ((1, 4, 16), 2), ((5, 5, 5), 0)])
def test_the_exponent_is_that_of_what_is_added(work: tuple[float, ...], expected: float) -> None:
    assert exponent(work) == pytest.approx(expected)
