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
from tests.levels import LOWEST, OWN, target_of
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
def test_they_are_eagers(tmp_path: Path, dtype: torch.dtype) -> None:
    levels = (LOWEST, OWN) if dtype == torch.float64 else (OWN,)

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


def test_a_matrix_that_is_none_solves_nothing(tmp_path: Path) -> None:
    a, b = systems(torch.float64, 80, 70)
    path = tmp_path / "m.pkg"
    model = Calls(lambda a, b: linalg.lstsq(a, b).solution)
    aot.package(model, (a, b), path=path, golden=False, targets=[target_of(OWN)])
    a[1, 3, 4] = float("nan")
    found = np.asarray(aot_runtime.load(path)(a, b))
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2, 3, 4]]).all()
