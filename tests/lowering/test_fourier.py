"""Fourier transforms: how lengths are taken apart, dynamic sizes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.export import Dim

from aot.errors import UnsupportedOperators
from aot.ir.interpreter import bind_dims, interpret_loops
from aot.ir.templates import Fft, OpenFft
from aot.lowering.fourier import split
from aot.passes.expand_templates import expand_templates
from aot.symbolic import integer, is_int, substitute, var
from tests.lowering.lowered import lowered, only_template, templates
from tests.schedule.graphs import BARE


@pytest.mark.parametrize(
    ("n", "wanted"), [(63, (63, 1)), (64, (8, 8)), (1000, (25, 40)), (127, (127, 1))]
)
def test_long_rows_are_products_of_numbers_that_are_alike(n: int, wanted: tuple[int, int]) -> None:
    assert split(n) == wanted


@pytest.mark.parametrize(
    ("n", "wanted"),
    [(1 << 20, (1024, 1024)), (10**6, (625, 1600)), (500_000, (625, 800)), (40**3, (250, 256))],
)
def test_sides_of_large_numbers_waste_little_room(n: int, wanted: tuple[int, int]) -> None:
    """Digits have room for powers of two: 1000 points take 2048 places, 625 and 1600 3072."""
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


def test_a_dynamic_number_of_points_is_a_call_of_its_own_that_comes_with_a_chirp() -> None:
    size = Dim("size", min=4, max=64)
    for function, length in ((torch.fft.fft, 8), (torch.fft.irfft, 9)):
        x = torch.randn(3, length, dtype=torch.complex64)
        graph = lowered(function, x, dynamic_shapes=(({1: size},),))
        *chirp, call = templates(graph)
        assert isinstance(call, OpenFft)
        assert call.otherwise is not None
        assert len(chirp) == 3
        least = 2 * (64 if function is torch.fft.fft else 2 * (64 - 1)) - 1
        for part in chirp:
            assert isinstance(part, Fft)
            length_of_all = part.re.axes[1].extent
            assert is_int(length_of_all) and least <= length_of_all < 2 * least


def test_of_a_wide_range_there_are_chirps_as_long_as_parts_of_it_need() -> None:
    size = Dim("size", min=4, max=4096)
    x = torch.randn(3, 8, dtype=torch.complex64)
    graph = lowered(torch.fft.fft, x, dynamic_shapes=(({1: size},),))
    calls = [call for call in templates(graph) if isinstance(call, Fft)]
    assert len({c.sizes for c in calls}) == 3
    n = var(graph.dims[0].name)
    for points in (4, 64, 65, 512, 513, 4096):
        ran = [c for c in calls if substitute(c.re.axes[0].extent, {n: integer(points)}) != 0]
        assert len(ran) == 3
        assert all(2 * points - 1 <= math.prod(c.sizes) for c in ran)


def _both_ways(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    back = torch.fft.ifft(x, dim=0, norm="ortho").imag
    whole = torch.fft.fftn(torch.complex(x, y), norm="forward").real
    half = torch.fft.irfft(torch.complex(x, y), dim=0, norm="ortho")
    return torch.fft.fft(x, dim=0).real, back, torch.fft.rfft(x, dim=0).imag, whole, half


@pytest.mark.parametrize("points", [5, 256, 257, 2048, 2049])
def test_nothing_is_read_of_chirps_for_other_lengths(points: int) -> None:
    """They have no elements, and the interpreter refuses what reads one."""
    shapes = (({1: Dim("size", min=4, max=20000)},),)
    graph = lowered(torch.fft.fft, torch.randn(1, 8), dynamic_shapes=shapes)
    graph = expand_templates(graph, BARE)
    x = torch.randn(1, points)
    dims = bind_dims(graph.dims, [x.shape])
    (found,) = interpret_loops(graph, {graph.inputs[0]: x.numpy()}, lambda _: np.zeros(0), dims)
    wanted = torch.view_as_real(torch.fft.fft(x)).numpy()
    assert np.allclose(found.reshape(wanted.shape), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("points", [7, 16, 31, 300])
def test_a_dynamic_number_of_points_gives_what_eager_gives(points: int) -> None:
    shapes = (({0: Dim("size", min=7, max=400)}, {0: Dim("size", min=7, max=400)}),)
    example = [torch.randn(9, 3) for _ in range(2)]
    graph = lowered(_both_ways, *example, dynamic_shapes=shapes)
    x, y = (torch.randn(points, 3) for _ in range(2))
    dims = bind_dims(graph.dims, [x.shape, y.shape])
    arrays = dict(zip(graph.inputs, (x.numpy(), y.numpy()), strict=True))
    found = interpret_loops(graph, arrays, lambda _: np.zeros(0), dims)
    for ours, eager in zip(found, _both_ways(x, y), strict=True):
        assert np.allclose(ours, eager.resolve_neg().numpy(), rtol=1e-4, atol=1e-4)


def test_points_without_an_end_are_refused_with_advice_where_there_is_no_kernel() -> None:
    size = Dim("size", min=4)
    graph = lowered(torch.fft.fft, torch.randn(3, 8), dynamic_shapes=(({1: size},),))
    call = only_template(graph, OpenFft)
    assert call.otherwise is None
    with pytest.raises(UnsupportedOperators, match=r"Give that dimension a max"):
        expand_templates(graph, BARE)
