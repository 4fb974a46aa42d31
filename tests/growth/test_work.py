"""Work grows as eager's does, counted in the kernels' loops: no clock, no kernel is built.

A sample of the families of `make growth` (all those of positions that are data, all that are known
to grow too fast, one in `EVERY` of the others); `python -m benchmarks.growth.count` counts all.
"""

from __future__ import annotations

import pytest

from benchmarks.growth import indexing
from benchmarks.growth.families import FAMILIES
from benchmarks.growth.family import Draw, Family, Problem
from benchmarks.growth.work import Growth, growth_of_work

EVERY = 4
KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {}
"""Families that grow too fast today: why, and on which devices. Mending one fails its test, so
that it leaves the table."""

SAMPLE = [
    f for k, f in enumerate(FAMILIES) if f.name in KNOWN or f in indexing.FAMILIES or k % EVERY == 0
]


@pytest.mark.parametrize("family", SAMPLE, ids=lambda family: family.name)
def test_work_grows_as_it_should(family: Family) -> None:
    reason, devices = KNOWN.get(family.name, ("", ()))
    for device, growth in growth_of_work(family).items():
        if device in devices:
            assert growth.problem, f"{device}: no longer grows ({reason}): take it out of KNOWN"
        else:
            assert not growth.problem, f"{device}: {growth.problem}"


def test_known_families_exist() -> None:
    assert not KNOWN.keys() - {family.name for family in FAMILIES}


def _product(n: int, d: Draw) -> Problem:
    return lambda x, y: (x[:, None] < y[None, :]).sum(1), d.floats(n), d.floats(n)


def _sum(n: int, d: Draw) -> Problem:
    return lambda x, y: (x * 2, y.sum()), d.floats(n), d.floats(n)


def _unrolled(n: int, d: Draw) -> Problem:
    def steps(x):
        for _ in range(n):
            x = (x @ x).tanh()
        return x

    return steps, d.floats(32, 32)


def test_a_product_is_told_from_a_sum() -> None:
    for device, growth in growth_of_work(Family("product", _product, least=2**10)).items():
        assert growth.problem == "work grows as n^2.00, not n^1.00", device
    for growth in growth_of_work(Family("sum", _sum, least=2**10)).values():
        assert not growth.problem


def test_a_product_that_eager_has_too_is_none() -> None:
    for growth in growth_of_work(Family("product", _product, least=2**10, work=2.0)).values():
        assert not growth.problem


def test_steps_that_are_kernels_are_seen() -> None:
    for growth in growth_of_work(Family("steps", _unrolled, least=2, work=1.0)).values():
        assert growth == Growth(growth.points, 1.0, growth.kernels)
        assert "number of kernels grows" in growth.problem


def test_a_step_is_no_growth() -> None:
    def problem(n: int, d: Draw) -> Problem:
        if n < 2**14:
            return lambda x: x * 2, d.floats(n)
        return lambda x: x.view(-1, 64).softmax(-1).cumsum(-1), d.floats(n)

    for device, growth in growth_of_work(Family("step", problem, least=2**10)).items():
        assert not growth.problem, device
        assert growth.points == pytest.approx(1)
