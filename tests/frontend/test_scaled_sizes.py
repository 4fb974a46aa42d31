"""Sizes that a factor scales follow the sizes of inputs, as floats round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim
from torch.nn import functional as F

from aot.errors import AotError
from aot.frontend.capture import capture_module
from aot.frontend.ingest import ingest
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered

SIZES = (1, 2, 3, 7, 10, 29, 30, 99, 100)


def sizes_of(function: Callable[[Any], Any], dims: Any, sizes: tuple[int, ...]) -> list[int]:
    """How many rows a model makes of `sizes` rows."""
    model = Calls(lambda x: x.new_ones(function(x.shape[0]), 2))
    captured = capture_module(model, (torch.ones(37, 1),), dynamic_shapes={"args": ({0: dims},)})
    return [interpret_lowered(captured, (torch.ones(n, 1),))[0].shape[0] for n in sizes]


@pytest.mark.parametrize(
    "function",
    [
        lambda n: int(0.3 * n),
        lambda n: int(n / 2.5),
        lambda n: int(n / 0.3),
        lambda n: math.ceil(n * 0.7),
        lambda n: math.floor(1.7 * n),
        lambda n: int(2 * (n / 3)),
        lambda n: max(1, int(0.2 * n)),
        lambda n: n - int(0.1 * (n - 1)),
    ],
)
def test_fractions_of_a_size(function: Callable[[Any], Any]) -> None:
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]


@pytest.mark.parametrize("function", [lambda n: int(0.29 * n), lambda n: int(n * 0.1 * 3.7)])
def test_what_is_no_fraction_is_computed_in_the_run(function: Callable[[Any], Any]) -> None:
    """0.29 * 100 is 28.999999999999996."""
    found = sizes_of(function, Dim("n", min=1, max=100), SIZES)
    assert found == [function(n) for n in SIZES]
    assert int(0.29 * 100) == 28


def test_exact_factors_need_no_bound() -> None:
    assert sizes_of(lambda n: int(1.5 * n), Dim("n"), (4, 100_001)) == [6, 150_001]


def test_an_operators_own_factor() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=1.7)

    def captured(bound: Any) -> Any:
        spec = {"args": ({2: bound},)}
        return capture_module(Calls(scaled), (torch.ones(1, 1, 37),), dynamic_shapes=spec)

    bounded = captured(Dim("n", min=2, max=1000))
    for n in (2, 10, 1000):
        (found,) = interpret_lowered(bounded, (torch.ones(1, 1, n),))
        assert found.shape == scaled(torch.ones(1, 1, n)).shape
    with pytest.raises(AotError, match=r"greatest size of at most 65536"):
        ingest(captured(Dim("n")))
