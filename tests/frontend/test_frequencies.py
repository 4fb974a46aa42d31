"""Frequencies of a transform's results, of as many points as a run has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.frontend.capture import capture_module
from tests.calls import Calls
from tests.conformance.executors import interpret_lowered


def _plain(x: torch.Tensor) -> torch.Tensor:
    return x * torch.fft.fftfreq(x.shape[0])


def _of_a_circle(x: torch.Tensor) -> torch.Tensor:
    return x * torch.fft.fftfreq(x.shape[0], 1 / x.shape[0])


def _of_twice_as_many(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfftfreq(2 * x.shape[0], d=0.25) * x.sum()


def _in_double(x: torch.Tensor) -> torch.Tensor:
    return torch.fft.rfftfreq(x.shape[0], 1 / x.shape[0], dtype=torch.float64) + x[0]


@pytest.mark.parametrize("function", [_plain, _of_a_circle, _of_twice_as_many, _in_double])
def test_frequencies_of_an_open_number_of_points(function: Any) -> None:
    shapes = (({0: Dim("n", min=2, max=64)},),)
    captured = capture_module(Calls(function), (torch.randn(8),), dynamic_shapes=shapes)
    for n in (2, 8, 9, 33):
        x = torch.rand(n) + 1  # sums of these lose nothing
        (found,) = interpret_lowered(captured, (x,))
        np.testing.assert_allclose(found, function(x).numpy(), rtol=3e-7, atol=0)


def test_numbers_that_are_known_are_torchs() -> None:
    captured = capture_module(Calls(_plain), (torch.randn(7),))
    assert any("fftfreq" in str(node.target) for node in captured.program.graph.nodes)
