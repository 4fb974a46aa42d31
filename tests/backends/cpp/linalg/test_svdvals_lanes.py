"""Values alone of small matrices side by side: singular values and eigenvalues of any matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aot_runtime
import numpy as np
import pytest
import torch
from torch import linalg

import aot
from tests.calls import Calls
from tests.levels import OWN, target_of
from tests.sampling import Part
from tests.settings import seeded

TYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
MANY = 21  # no multiple of lanes
BOUND = 30.0
"""Roundings of the greatest value, for matrices of 33 rows."""


def batch(dtype: torch.dtype, m: int, n: int) -> torch.Tensor:
    """Random matrices, and some of nothing, alike, great, small, triangular, of few values."""
    generator = torch.Generator().manual_seed(seeded(m + n))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a = torch.randn((MANY, m, n), generator=generator, dtype=wide)
    great = 1e18 if torch.finfo(dtype).bits == 32 else 1e180
    a[0] = 0
    a[1] = 1  # what is left of such after a reflection is of the least numbers
    a[2] *= great
    a[3] /= great
    a[4] = a[4, :, :1] @ a[5, :1]
    a[6] = torch.eye(m, n, dtype=wide)
    a[7] = a[7].triu()
    a[8, :, n // 2 :] = 0
    return a.to(dtype)


def wide_of(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def run(tmp_path: Path, function: Any, given: tuple[torch.Tensor, ...], *levels: str) -> Any:
    path = tmp_path / "m.pkg"
    targets = [target_of(*levels)]
    aot.package(Calls(function), given, path=path, golden=False, targets=targets)
    for isa in levels:
        yield [np.asarray(x) for x in aot_runtime.load(path, isa=isa)(*given)]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_singular_values_are_those_of_wider_numbers(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    shapes = some(((9, 9), (17, 12), (12, 17), (33, 32)), 2)
    given = tuple(batch(dtype, m, n) for m, n in shapes)
    exact = [linalg.svdvals(a.to(wide_of(dtype))).double().numpy() for a in given]
    for found in run(tmp_path, lambda *x: [linalg.svdvals(a) for a in x], given, *levels):
        for ours, wanted in zip(found, exact, strict=True):
            unit = np.finfo(ours.dtype).eps * np.maximum(wanted[:, :1], 1e-300)
            assert np.abs((ours - wanted) / unit).max() < BOUND
            assert (np.diff(ours) <= 0).all()
            assert (ours >= 0).all()


@pytest.mark.parametrize("dtype", TYPES[1::2], ids=str)
def test_no_number_gives_none(tmp_path: Path, dtype: torch.dtype) -> None:
    a = batch(dtype, 12, 12)
    a[10, 3, 2], a[11, 0, 0] = torch.nan, torch.inf
    (found,) = run(tmp_path, lambda x: [linalg.svdvals(x)], (a,), OWN)
    assert np.flatnonzero(np.isnan(found[0]).all(1)).tolist() == [10, 11]
    assert np.isnan(found[0]).sum() == 24


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_eigenvalues_alone_are_those_that_come_with_vectors(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    given = tuple(batch(dtype, n, n)[5:] for n in (3, 16, 32))
    exact = [linalg.eigvals(a.to(wide_of(dtype))).numpy() for a in given]
    (found,) = run(tmp_path, lambda *x: [linalg.eigvals(a) for a in x], given, OWN)
    for ours, wanted in zip(found, exact, strict=True):
        scale = np.abs(wanted).max(1, keepdims=True)
        apart = np.abs(ours[:, :, None] - wanted[:, None, :]) / scale[..., None]
        # Those of a whole matrix without order; of what is defective roots of a rounding remain.
        assert apart[6:].min(1).max() < 1000 * np.finfo(ours.dtype).eps
        assert apart[6:].min(2).max() < 1000 * np.finfo(ours.dtype).eps


def test_equal_columns_have_a_triangle(tmp_path: Path) -> None:
    a = torch.ones((MANY, 32, 32))
    (found,) = run(tmp_path, lambda x: [linalg.qr(x).Q, linalg.qr(x).R], (a,), OWN)
    assert np.abs(found[0] @ found[1] - 1).max() < 1e-5
