"""Reductions whose lowering differs with what they reduce."""

from __future__ import annotations

import math
from pathlib import Path

import aot_runtime
import pytest
import torch

from aot import package
from tests.levels import target_of


class _Norms(torch.nn.Module):
    """Norms of several orders of one dimension."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        orders = (2, 0, 1, 3, -1, math.inf)
        return [torch.linalg.vector_norm(x, order, 0) for order in orders]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_norms_of_lone_elements_are_their_magnitudes(dtype: torch.dtype, tmp_path: Path) -> None:
    """Eager takes no power of them, so that none overflows or vanishes."""
    limits = torch.finfo(dtype)
    values = [limits.max, -2.0, limits.tiny, -0.0, 3.0, -math.inf, math.nan]
    x = torch.tensor([values], dtype=dtype)
    package(_Norms(), (x,), path=tmp_path / "n.pkg", targets=[target_of()], golden=False)
    found, expected = aot_runtime.load(tmp_path / "n.pkg")(x), _Norms()(x)
    for ours, eager in zip(found, expected, strict=True):
        assert torch.equal(ours.nan_to_num(nan=0.5), eager.nan_to_num(nan=0.5))
