"""One walk for the greatest element and the sum of exponentials: values and texts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from aot.backends.triton.online import find_online
from aot.ir.kernels import NestKernel
from tests.backends.triton.templates import captured, check_close, kernels_of

LENGTH = 20_000
"""Longer than a tile, shorter than what is cut into parts."""


def row(**places: float) -> torch.Tensor:
    """Numbers of a row, some of them replaced: by `at_7=math.inf`, for example."""
    torch.manual_seed(0)
    x = torch.randn(1, LENGTH) * 4
    for name, number in places.items():
        x[0, int(name.removeprefix("at_"))] = number
    return x


ROWS = {
    "plain": row(),
    "ascending": torch.linspace(-50, 50, LENGTH)[None],
    "descending": torch.linspace(50, -50, LENGTH)[None],
    "all alike": torch.full((1, LENGTH), -3.0),
    "masked": torch.where(torch.arange(LENGTH) % 4096 == 5, 1.5, -math.inf)[None],
    "nothing seen": torch.full((1, LENGTH), -math.inf),
    "infinite": row(at_9000=math.inf),
    "not a number": row(at_19999=math.nan),
}


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)


def log_total(x: torch.Tensor) -> torch.Tensor:
    greatest = x.amax(-1, keepdim=True)
    return greatest + (x - greatest).exp().sum(-1, keepdim=True).log()


@pytest.mark.slow
@pytest.mark.parametrize("function", [softmax, log_total])
@pytest.mark.parametrize("name", ROWS)
def test_values_are_those_of_two_walks(name: str, function) -> None:
    x = ROWS[name]
    model = captured(function, (x,))
    assert walks(model) == 1
    check_close(model, function, (x,))


def test_halves_are_walked_once_too() -> None:
    assert walks(captured(softmax, (row().to(torch.bfloat16),))) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - x.amin(-1, keepdim=True)).exp().sum(-1),
        lambda x: (2 * x - x.amax(-1, keepdim=True)).exp().sum(-1),
        lambda x: (x - x.amax(-1, keepdim=True)).exp2().sum(-1),
    ],
    ids=["of the least", "of something else", "no exponential"],
)
def test_other_sums_take_a_walk_of_their_own(function) -> None:
    assert walks(captured(function, (row(),))) == 0


def test_float64_keeps_two_walks() -> None:
    assert walks(captured(softmax, (row().double(),))) == 0


def walks(model) -> int:
    """Pairs of stages that become one walk."""
    stages = [k.stages for k in kernels_of(model).kernels if isinstance(k, NestKernel)]
    pairs = (p for s in stages for p in itertools.pairwise(s))
    return sum(find_online(*p) is not None for p in pairs)
