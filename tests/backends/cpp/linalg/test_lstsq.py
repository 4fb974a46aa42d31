"""Systems that are solved as nearly as can be: large ones, of any rank, against eager's."""

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
from tests.settings import seeded

BOUND = {torch.float64: 1e-12, torch.complex64: 3e-4}
"""Parts of the greatest number of the result; conditions of the matrices are below 100."""


def systems(dtype: torch.dtype, m: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One of whole rank, one of less, one of zeros, ones of great and of small numbers."""
    generator = torch.Generator().manual_seed(seeded(m + n))
    wide = torch.complex128 if dtype.is_complex else torch.float64

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=wide)

    whole, low = normal(m, n), normal(m, 20) @ normal(20, n)
    a = torch.stack([whole, low, 0 * whole, 1e15 * whole, 1e-15 * low])
    return a.to(dtype), normal(5, m, 3).to(dtype)


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_they_are_eagers(tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype) -> None:
    def function(*given: torch.Tensor) -> Any:
        found = [linalg.lstsq(a, b) for a, b in zip(given[::2], given[1::2], strict=True)]
        return [x for one in found for x in (one.solution, one.rank)]

    inputs = (*systems(dtype, 140, 70), *systems(dtype, 70, 140))
    path = tmp_path / "m.pkg"
    aot.package(Calls(function), inputs, path=path, golden=False, targets=[target_of(*levels)])
    wanted = [x.numpy() for x in function(*inputs)]
    for isa in levels:
        made = [np.asarray(x) for x in aot_runtime.load(path, isa=isa)(*inputs)]
        for k in (0, 2):
            unit = np.abs(wanted[k]).max((-2, -1), initial=1e-30)[:, None, None]
            assert np.abs((made[k] - wanted[k]) / unit).max() <= BOUND[dtype]
            np.testing.assert_array_equal(made[k + 1], wanted[k + 1])
            assert made[k + 1].tolist() == [70, 20, 0, 70, 20]


SMALL_BOUND = {
    torch.float32: 3e-3,
    torch.float64: 1e-11,
    torch.complex64: 3e-3,
    torch.complex128: 1e-11,
}


@pytest.mark.parametrize("dtype", SMALL_BOUND, ids=str)
@pytest.mark.parametrize("size", [(17, 9), (33, 32), (3, 1), (5, 8), (40, 20)])
def test_small_ones_are_side_by_side_whatever_their_ranks(
    tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype, size: tuple[int, int]
) -> None:
    (m, n), many = size, 21  # no multiple of lanes
    generator = torch.Generator().manual_seed(seeded(m + n))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    a = torch.randn((many, m, n), generator=generator, dtype=wide)
    a[..., range(min(m, n)), range(min(m, n))] += 5
    a[1] = 0
    a[2] *= 1e15
    a[3] = a[3, :, :1] @ a[4, :1]
    b = torch.randn((many, m, 3), generator=generator, dtype=wide)
    inputs = a.to(dtype), b.to(dtype)

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        found = linalg.lstsq(a, b)
        return found.solution, found.rank

    path = tmp_path / "m.pkg"
    aot.package(Calls(function), inputs, path=path, golden=False, targets=[target_of(*levels)])
    wanted = [x.numpy() for x in function(*inputs)]
    unit = np.abs(wanted[0]).max((-2, -1), initial=1e-30)[:, None, None]
    for isa in levels:
        made = [np.asarray(x) for x in aot_runtime.load(path, isa=isa)(*inputs)]
        assert np.abs((made[0] - wanted[0]) / unit).max() <= SMALL_BOUND[dtype]
        np.testing.assert_array_equal(made[1], wanted[1])


def _estimated_rank(a: torch.Tensor) -> int:
    """By gelsy's rule, in float64: columns exchanged, and the first block of R whose condition is
    estimated (Bischof 1990) at more than 1 / rcond."""
    r, (m, n) = a.double().clone(), a.shape
    rcond = torch.finfo(a.dtype).eps * max(m, n)
    for k in range(min(m, n)):
        longest = k + int(r[k:, k:].norm(dim=0).argmax())
        r[:, [k, longest]] = r[:, [longest, k]]
        v = r[k:, k].clone()
        v[0] += torch.copysign(v.norm(), v[0])
        r[k:, k:] -= 2 * torch.outer(v, v @ r[k:, k:]) / v.square().sum()
    rows = [torch.ones(1, dtype=torch.float64)] * 2
    sizes = [r[0, 0].abs()] * 2
    for i in range(1, min(m, n)):
        for which in (0, 1):  # the greatest, and the least
            both = torch.stack([sizes[which], rows[which] @ r[:i, i]])
            u, s, _ = linalg.svd(torch.stack([both, torch.stack([0 * r[i, i], r[i, i]])]))
            sizes[which] = s[which]
            rows[which] = torch.cat([rows[which] * u[0, which], u[1:, which]])
        if sizes[1] < rcond * sizes[0]:
            return i
    return min(m, n)


def test_ranks_of_graded_columns_are_as_gelsy_estimates_them(tmp_path: Path) -> None:
    # Eager's library loses lengths of columns: of such matrices it gives 23 for 42, and 0.25 for X.
    grades = (4, 6, 8, 10, 12, 20)
    generator = torch.Generator().manual_seed(seeded(0))
    normal = torch.randn((len(grades), 100, 70), generator=generator, dtype=torch.float64)
    powers = -torch.tensor(grades).unsqueeze(-1) * torch.arange(70) / 70
    a = (normal * (10.0**powers).unsqueeze(-2)).float()
    b = torch.randn((len(grades), 100, 2), generator=generator)
    path = tmp_path / "m.pkg"
    model = Calls(lambda a, b: linalg.lstsq(a, b).rank)
    aot.package(model, (a, b), path=path, golden=False, targets=[target_of(OWN)])
    found = np.asarray(aot_runtime.load(path)(a, b))
    wanted = np.array([_estimated_rank(x) for x in a])
    assert np.abs(found - wanted).max() <= 1  # one column may be at the bound but for roundings


@pytest.mark.parametrize("shape", [(5, 5), (60, 40), (21, 4, 4)], ids=str)
def test_columns_at_right_angles_of_one_length_are_a_full_rank(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """The least singular value of such a triangle had been found to be nothing."""
    a, n = torch.eye(*shape[-2:], dtype=torch.float64).expand(shape).contiguous() * 2, shape[-1]
    b = torch.ones(*shape[:-1], 2, dtype=torch.float64)
    path = tmp_path / "m.pkg"

    def function(a: torch.Tensor, b: torch.Tensor) -> Any:
        found = linalg.lstsq(a, b)
        return found.solution, found.rank

    aot.package(Calls(function), (a, b), path=path, golden=False, targets=[target_of(OWN)])
    solution, rank = (np.asarray(x) for x in aot_runtime.load(path)(a, b))
    assert (rank == n).all()
    np.testing.assert_allclose(solution, 0.5, rtol=1e-14)


def test_a_matrix_that_is_none_solves_nothing(tmp_path: Path) -> None:
    a, b = systems(torch.float64, 80, 70)
    path = tmp_path / "m.pkg"
    model = Calls(lambda a, b: linalg.lstsq(a, b).solution)
    aot.package(model, (a, b), path=path, golden=False, targets=[target_of(OWN)])
    a[1, 3, 4] = float("nan")
    found = np.asarray(aot_runtime.load(path)(a, b))
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2, 3, 4]]).all()
