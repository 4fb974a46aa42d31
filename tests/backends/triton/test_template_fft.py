"""Fourier transforms on GPUs: results through Triton's interpreter, and what has no room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import fft
from torch.export import Dim

from tests.backends.triton.templates import (
    captured,
    emitted,
    kernels_of,
    machine_code,
    template_kinds,
)
from tests.conformance.executors import interpret_triton
from tests.settings import seeded

ERRORS = {torch.complex64: 4e-7, torch.complex128: 1e-15}
"""Of results, as a part of their norm."""


def numbers(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randn(*shape, dtype=dtype, generator=generator)


def check(function: Callable[..., Any], x: torch.Tensor, dims: Any = None, *more: int) -> None:
    model = captured(function, (x,), dims)
    for given in (x, *(numbers(k, *x.shape[1:], dtype=x.dtype) for k in more)):
        (found,) = interpret_triton(model, (given,))
        wanted = function(given.to(torch.complex128)).resolve_conj().numpy()
        error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
        assert error < ERRORS[x.dtype]


@pytest.mark.parametrize("n", (16, 30, 64, 243, 512))
def test_rows_of_powers_of_two_and_odd_primes(n: int) -> None:
    check(fft.fft, numbers(3, n))


@pytest.mark.parametrize("n", (9, 96))
def test_the_other_direction_in_double_precision(n: int) -> None:
    check(fft.ifft, numbers(2, n, dtype=torch.complex128))


@pytest.mark.parametrize("inner", (3, 33))
def test_neighbours_along_another_axis(inner: int) -> None:
    check(lambda x: fft.ifft(x, dim=1, norm="ortho"), numbers(2, 24, inner))


def test_any_number_of_rows() -> None:
    check(fft.fft2, numbers(4, 6, 10), ({0: Dim("rows", max=1 << 20)},), 1, 7)


def test_an_epilogue_sees_results_of_neighbours() -> None:
    check(lambda x: fft.fft(x, dim=0) * 2 + 1, numbers(20, 5))


@pytest.mark.parametrize(
    ("function", "shape"), [(fft.fft, (20480,)), (fft.ifft, (3, 8192)), (fft.fft, (4913, 3))]
)
def test_what_a_program_has_no_room_for_is_two_steps(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    """What the first leaves is read where it lies, also between neighbours: there is no copy."""
    own = (lambda x: function(x, dim=0)) if shape == (4913, 3) else function
    x = numbers(*shape, dtype=torch.complex128)
    model = captured(own, (x,))
    assert template_kinds(model) == ["fft", "fft"]
    assert len(kernels_of(model).kernels) == 2
    check(own, x)


def test_factors_of_a_first_step_are_a_few_for_a_program() -> None:
    """Loads for the first of its results, and for each bit of the last digit, which is 8."""
    text = emitted(captured(fft.fft, (numbers(20480),))).functions[0].text
    body = text[: text.index("_load_pairs(args, first, m, n)")]
    assert body.count("load_coarse(args") + body.count("load_fine(args") == 2 * (1 + 3)


def test_two_steps_of_any_number_of_neighbours() -> None:
    x = numbers(4913, 3, dtype=torch.complex128)
    check(lambda z: fft.fft(z, dim=0), x, ({1: Dim("neighbours", max=64)},))


def test_points_change_places_through_shared_memory() -> None:
    """Not through memory, and what a thread holds are registers."""
    code = machine_code(captured(fft.fft, (numbers(16, 256),)), "fft", "sm_90")
    assert code.local_bytes == 0
    assert any(name.startswith("STS") for name in code.instructions)
    stores = sum(n for name, n in code.instructions.items() if name.startswith("STG"))
    assert stores <= 16
