"""Fourier transforms of real numbers: which calls they become."""

from __future__ import annotations

import pytest
import torch

from aot.ir.templates import Fft, RealFft
from tests.lowering.lowered import lowered, only_template, templates


@pytest.mark.parametrize("function", [torch.fft.rfft, torch.fft.fft, torch.fft.ihfft])
def test_an_even_number_of_real_numbers_is_half_as_many_complex_ones(function: object) -> None:
    call = only_template(lowered(function, torch.randn(3, 64)), RealFft)  # type: ignore[arg-type]
    assert (call.half, call.inverse) == (32, False)
    assert call.is_whole == (function is torch.fft.fft)


@pytest.mark.parametrize("function", [torch.fft.irfft, torch.fft.hfft])
def test_back_to_real_numbers_is_a_call_of_as_many(function: object) -> None:
    z = torch.randn(3, 33, dtype=torch.complex64)
    call = only_template(lowered(function, z), RealFft)  # type: ignore[arg-type]
    assert (call.half, call.inverse) == (32, True)
    assert call.re.axes[1].extent == 33


def test_an_odd_number_is_a_complex_transform() -> None:
    call = only_template(lowered(torch.fft.rfft, torch.randn(3, 63)), Fft)
    assert type(call) is Fft
    assert call.im is None


def test_half_of_them_with_a_great_prime_is_taken_apart_by_a_nest() -> None:
    there, back = templates(lowered(torch.fft.rfft, torch.randn(3, 2 * 127)))
    assert isinstance(there, Fft) and isinstance(back, Fft)
    assert there.re.axes[1].extent == back.re.axes[1].extent == 256


def test_points_far_apart_are_put_side_by_side_and_have_few_roots() -> None:
    graph = lowered(lambda x: torch.fft.rfft(x, dim=0), torch.randn(3 << 17, 2))
    call = only_template(graph, RealFft)
    assert call.re.axes[2].extent == 1
    assert call.turns is not None and call.leaps is not None
    assert call.turns.axes[0].extent + call.leaps.axes[0].extent < 2000
