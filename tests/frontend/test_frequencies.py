"""Frequencies of a transform's results, of as many points as a run has."""

from __future__ import annotations

import math
from collections.abc import Callable
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


def _power(n: Any, rounded: Callable[[float], Any]) -> Any:
    return 2 ** rounded(math.log2(n))


def _filtered(x: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """A long convolution, as signal processing writes it: by spectra of the next power of two."""
    n = _power(x.shape[-1] + taps.shape[-1] - 1, math.ceil)
    spectrum = torch.fft.rfft(x, n=n) * torch.fft.rfft(taps, n=n)
    return torch.fft.irfft(spectrum, n=n)[..., : x.shape[-1]]


def _cut(x: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    n = _power(x.shape[-1], math.floor)
    rows = torch.fft.ifft(torch.fft.fft(x, n, norm="ortho"), n, norm="ortho").real
    columns = torch.fft.hfft(torch.fft.ihfft(x[..., None], n, dim=-2), n, dim=-2)
    return rows + columns.squeeze(-1) + taps.sum()


@pytest.mark.parametrize("model", [_filtered, _cut])
def test_transforms_of_a_length_that_the_model_computes(
    model: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    taps = torch.linspace(-1, 1, 5).sin()
    given = [torch.linspace(-2, 3, 2 * n).sin().reshape(2, n) for n in (13, 4, 16, 27)]
    dims = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    captured = capture_module(Calls(model), (given[0], taps), dynamic_shapes=dims)
    for x in given:
        (found,) = interpret_lowered(captured, (x, taps))
        np.testing.assert_allclose(found, model(x, taps).numpy(), 1e-5, 1e-5)
