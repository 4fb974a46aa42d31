"""Parts of records that go to their places as they are: by rows and by columns, of any size."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch import linalg

import aot
from tests.calls import Calls
from tests.levels import target_of
from tests.sampling import Part
from tests.settings import seeded

BATCH = 21  # no multiple of lanes
BOUND = {torch.float32: 1e-4, torch.complex128: 1e-12}


@pytest.mark.parametrize("dtype", BOUND, ids=str)
def test_factors_lie_as_eagers(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seeded(0))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    given = []
    for n in some((2, 5, 18, 40), 2):
        a = torch.randn((BATCH, n, n), generator=generator, dtype=wide)
        given.append((a @ a.mH + n * torch.eye(n)).to(dtype))

    def function(*given: torch.Tensor) -> list[torch.Tensor]:
        factors = [linalg.cholesky_ex(a)[0] for a in given]  # by columns
        return [*factors, *(linalg.cholesky_ex(a)[0].contiguous() for a in given[:3])]

    path = tmp_path / "m.pkg"
    aot.package(Calls(function), given, path=path, golden=False, targets=[target_of(*levels)])
    for isa in levels:
        made = aot_runtime.load(path, isa=isa)(*given)
        for found, wanted in zip(made, function(*given), strict=True):
            unit = wanted.abs().max().item()
            assert np.abs(np.asarray(found) - wanted.numpy()).max() <= BOUND[dtype] * unit
