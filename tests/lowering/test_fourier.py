"""Fourier transforms: how lengths are taken apart, dynamic sizes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.ir.interpreter import bind_dims, interpret_loops
from aot.ir.templates import Fft
from aot.lowering.fourier import split
from aot.symbolic import is_int
from tests.lowering.lowered import lowered, templates


@pytest.mark.parametrize(
    ("n", "wanted"), [(63, (63, 1)), (64, (8, 8)), (1000, (25, 40)), (127, (127, 1))]
)
def test_long_rows_are_products_of_numbers_that_are_alike(n: int, wanted: tuple[int, int]) -> None:
    assert split(n) == wanted


def test_a_great_prime_is_a_convolution_by_a_power_of_two_or_nearly() -> None:
    graph = lowered(torch.fft.fft, torch.randn(3, 127, dtype=torch.complex64))
    there, back = templates(graph)
    assert isinstance(there, Fft)
    assert isinstance(back, Fft)
    assert there.re.axes[1].extent == back.re.axes[1].extent == 256
    assert (there.inverse, back.inverse) == (False, True)


def test_a_batch_may_be_dynamic() -> None:
    batch = Dim("batch", min=1, max=64)
    shapes = (({0: batch},),)
    graph = lowered(torch.fft.rfft2, torch.randn(3, 8, 12), dynamic_shapes=shapes)
    assert all(isinstance(call, Fft) for call in templates(graph))


def test_a_dynamic_number_of_points_takes_transforms_as_long_as_the_greatest_needs() -> None:
    size = Dim("size", min=4, max=64)
    for function, length in ((torch.fft.fft, 8), (torch.fft.irfft, 9)):
        x = torch.randn(3, length, dtype=torch.complex64)
        shapes = (({1: size},),)
        graph = lowered(function, x, dynamic_shapes=shapes)
        least = 2 * (64 if function is torch.fft.fft else 2 * (64 - 1)) - 1
        for call in templates(graph):
            assert isinstance(call, Fft)
            length_of_all = call.re.axes[1].extent
            assert is_int(length_of_all) and least <= length_of_all < 2 * least
        assert len(templates(graph)) == 3


def _both_ways(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    back = torch.fft.ifft(x, dim=0, norm="ortho").imag
    whole = torch.fft.fftn(torch.complex(x, y), norm="forward").real
    half = torch.fft.irfft(torch.complex(x, y), dim=0, norm="ortho")
    return torch.fft.fft(x, dim=0).real, back, torch.fft.rfft(x, dim=0).imag, whole, half


@pytest.mark.parametrize("points", [7, 16, 31])
def test_a_dynamic_number_of_points_gives_what_eager_gives(points: int) -> None:
    shapes = (({0: Dim("size", min=7, max=31)}, {0: Dim("size", min=7, max=31)}),)
    example = [torch.randn(9, 3) for _ in range(2)]
    graph = lowered(_both_ways, *example, dynamic_shapes=shapes)
    x, y = (torch.randn(points, 3) for _ in range(2))
    dims = bind_dims(graph.dims, [x.shape, y.shape])
    arrays = dict(zip(graph.inputs, (x.numpy(), y.numpy()), strict=True))
    found = interpret_loops(graph, arrays, lambda _: np.zeros(0), dims)
    for ours, eager in zip(found, _both_ways(x, y), strict=True):
        assert np.allclose(ours, eager.resolve_neg().numpy(), rtol=1e-4, atol=1e-4)


def test_points_without_an_end_are_refused_with_advice() -> None:
    size = Dim("size", min=4)
    with pytest.raises(UnsupportedOperators, match=r"give that dimension a max"):
        lowered(torch.fft.fft, torch.randn(3, 8), dynamic_shapes=(({1: size},),))
