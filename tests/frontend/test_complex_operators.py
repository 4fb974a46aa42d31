"""Operators on complex numbers that are made of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

MANY = 20_000


def _run(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> np.ndarray:
    (found,) = interpret_lowered(capture_module(Calls(function), (x,)), (x,))
    return found


@pytest.mark.parametrize(
    ("fill", "mean", "deviation"),
    [
        (lambda x: torch.empty_like(x).normal_(2.0, 3.0), 2.0, 3.0 * 0.5**0.5),
        (lambda x: torch.empty_like(x).uniform_(-1.0, 3.0), 1.0, 4.0 / 12**0.5),
        (torch.randn_like, 0.0, 0.5**0.5),
        (torch.rand_like, 0.5, 12**-0.5),
    ],
    ids=["normal", "uniform", "randn", "rand"],
)
def test_both_parts_are_drawn(
    fill: Callable[[torch.Tensor], torch.Tensor], mean: float, deviation: float
) -> None:
    found = _run(fill, torch.zeros(MANY, dtype=torch.complex64))
    for part in (found.real, found.imag):
        assert abs(part.mean() - mean) < 4 * deviation / MANY**0.5
        assert abs(part.std() - deviation) < 0.05 * deviation
    assert abs(np.corrcoef(found.real, found.imag)[0, 1]) < 4 / MANY**0.5


def test_sums_of_exponentials_do_not_overflow() -> None:
    x = torch.tensor([1000 + 1j, -1000 - 2j, 0j])
    found = _run(lambda x: torch.logaddexp(x, x - 1), x)
    np.testing.assert_allclose(found, torch.logaddexp(x, x - 1).numpy(), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_running_sums_of_exponentials_do_not_overflow(size: int) -> None:
    x = torch.linspace(-900, 900, 7)[:size] + 1j * torch.linspace(-1, 1, 7)[:size]
    both = torch.stack([x, x.flip(0)])
    found = _run(lambda x: torch.logcumsumexp(x, 1), both)
    np.testing.assert_allclose(found, torch.logcumsumexp(both, 1).numpy(), rtol=1e-6)
