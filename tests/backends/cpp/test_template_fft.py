"""Fourier transforms as packages: every shape of the kernel, on three levels, dynamic batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aot_runtime
import mpmath
import numpy as np
import pytest
import torch
from torch import fft
from torch.export import Dim

import aot
from tests.calls import Calls
from tests.settings import seeded

LEVELS = ("x86-64-v2", "x86-64-v3")
CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "short rows": (fft.ifft, (19, 30)),
    "long rows in whole vectors": (fft.fft, (3, 1024)),
    "long rows with a rest": (fft.ifft, (3, 35 * 33)),
    "neighbours side by side": (lambda z: fft.fft(z, dim=0), (56, 70)),
    "neighbours whose results are": (lambda z: fft.fft(z, dim=0).contiguous(), (30, 21)),
    "columns that are fetched ahead": (lambda z: fft.fft(z, dim=0), (64, 1051)),
    "turned rows": (lambda z: fft.fft(z.t()), (96, 17)),
    "real parts alone": (lambda z: fft.fft(z.real, n=117), (5, 117)),
    "parts of other strides": (lambda z: fft.fft(torch.complex(z.real, z.t().imag)), (64, 64)),
    "with an epilogue": (lambda z: torch.view_as_real(fft.fft(z)) * 2 + 1, (9, 72)),
    "two tables of factors": (fft.fft, (3 << 16,)),
}
"""Name -> the function and the shape of its input."""

REAL: tuple[tuple[Callable[..., Any], tuple[int, ...]], ...] = (
    (lambda z: fft.rfft(z.real), (19, 60)),
    (lambda z: fft.rfft(z.real).abs(), (3, 2 * 35 * 33)),
    (lambda z: fft.rfft(z.real, dim=0), (56, 35)),
    (lambda z: fft.fft(z.real), (5, 1024)),
    (lambda z: fft.fft(z.real, dim=0), (32, 19)),
    (fft.irfft, (19, 31)),
    (lambda z: fft.irfft(torch.complex(z.real, z.t().imag)) * 2 + 1, (65, 65)),
    (lambda z: fft.irfft(z, dim=0), (29, 35)),
    (lambda z: fft.irfft(fft.rfft(z.real)), (3 << 17,)),
)
"""Of real numbers and back: short and long rows, neighbours, results that are conjugates of others,
epilogues, operands that lie anyhow, and roots in two tables."""


def numbers(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(sum(shape)))
    return torch.randn(shape, generator=generator, dtype=torch.complex64)


def assert_near(found: Any, wanted: torch.Tensor) -> None:
    exact, made = wanted.numpy(), np.asarray(found)
    assert made.shape == exact.shape
    assert np.abs(made - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_eager_in_float64(name: str, tmp_path: Path) -> None:
    function, shape = CASES[name]
    given = numbers(*shape)
    path = tmp_path / "fft.pkg"
    targets = [f"cpu:{'+'.join(LEVELS)}"]
    aot.package(Calls(function), (given,), path=path, golden=False, targets=targets)
    wanted = function(given.to(torch.complex128))
    for level in LEVELS:
        assert_near(aot_runtime.load(path, isa=level)(given.numpy()), wanted)


def test_real_numbers_and_back_are_those_of_eager_in_float64(tmp_path: Path) -> None:
    def every(*given: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for (function, _), x in zip(REAL, given, strict=True)]

    given = [numbers(*shape) for _, shape in REAL]
    path = tmp_path / "fft.pkg"
    targets = ["cpu:x86-64-v3"]
    aot.package(Calls(every), tuple(given), path=path, golden=False, targets=targets)
    exact = every(*(x.to(torch.complex128) for x in given))
    found = aot_runtime.load(path)(*(x.numpy() for x in given))
    for made, wanted in zip(found, exact, strict=True):
        assert_near(made, wanted)


def exact_transform(z: list[complex]) -> list[complex]:
    """By the definition, in 40 digits."""
    with mpmath.workdps(40):
        n = len(z)
        roots = [mpmath.expjpi(mpmath.mpf(-2 * k) / n) for k in range(n)]
        given = [mpmath.mpc(x) for x in z]
        sums = (mpmath.fdot((x, roots[j * k % n]) for j, x in enumerate(given)) for k in range(n))
        return [complex(x) for x in sums]


def test_errors_in_float64_are_at_most_twice_those_of_eager(tmp_path: Path) -> None:
    sizes = (30, 64, 96, 120)
    given = [torch.view_as_complex(torch.randn(n, 2, dtype=torch.float64)) for n in sizes]

    def every(*z: torch.Tensor) -> list[torch.Tensor]:
        return [fft.fft(x) for x in z]

    path = tmp_path / "fft.pkg"
    aot.package(Calls(every), tuple(given), path=path, golden=False, targets=["cpu:x86-64-v3"])
    found = aot_runtime.load(path)(*(x.numpy() for x in given))
    for made, eager, x in zip(found, every(*given), given, strict=True):
        exact = np.array(exact_transform(x.tolist()))
        ours, theirs = (np.linalg.norm(np.asarray(y) - exact) for y in (made, eager.numpy()))
        assert ours <= 2 * theirs


def test_one_package_serves_every_batch(tmp_path: Path) -> None:
    path = tmp_path / "fft.pkg"
    shapes = (({0: Dim("batch", min=1, max=64)},),)
    aot.package(
        Calls(fft.fft2),
        (numbers(3, 8, 12),),
        path=path,
        golden=False,
        dynamic_shapes=shapes,
        targets=["cpu:x86-64-v3"],
    )
    model = aot_runtime.load(path)
    for batch in (1, 5, 33):
        given = numbers(batch, 8, 12)
        assert_near(model(given.numpy()), fft.fft2(given.to(torch.complex128)))
