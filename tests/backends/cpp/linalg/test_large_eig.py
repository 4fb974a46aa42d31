"""Eigenvalues of large matrices that need not be symmetric: eager's own miss is the measure."""

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

Array = np.ndarray[Any, Any]
N = 90


def normal(n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seeded(n))
    return torch.randn(n, n, generator=generator, dtype=torch.float64)


def odd_matrices(n: int) -> list[torch.Tensor]:
    """Matrices whose values stand apart, are few, or are one, and such of any scale."""
    eye, any_ = torch.eye(n).double(), normal(n)
    steps, beside = torch.arange(n).double(), torch.ones(n, n).double().triu(1).tril(1)
    scale, q = 10.0 ** (6 * steps / n), linalg.qr(any_).Q
    return [
        any_,
        0 * eye,
        any_.tril(),
        2 * eye + beside,
        beside.mT,
        eye.roll(1, 0),
        any_[:, :3] @ any_[:3],
        scale[:, None] * any_ / scale,
        any_ - any_.mT,
        q * torch.where(steps < n // 2, 1.0, 2.0) @ q.mT,
        (n - torch.maximum(steps[:, None], steps)).triu(-1),
        any_.triu(-1),
        torch.kron(torch.eye(n // 2).double(), any_[:2, :2].contiguous()),
        1e30 * any_,
        1e-30 * any_,
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64], ids=str)
def test_eigenvectors_rebuild_their_matrices(
    tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype
) -> None:
    a = torch.stack([x.to(dtype) for x in odd_matrices(N)])
    if dtype.is_complex:
        a = a * torch.complex(torch.ones(N, N), torch.eye(N).roll(3, 0)).to(dtype)
    model = Calls(lambda a: [*linalg.eig(a), linalg.eigvals(a)])
    path = tmp_path / "m.pkg"
    aot.package(model, (a,), path=path, golden=False, targets=[target_of(*levels)])
    rounding, unit = torch.finfo(dtype).eps, a.abs().amax((-2, -1)).clamp(min=1e-37).double()
    whole = (a.to(torch.complex128) / unit[:, None, None]).numpy()

    def miss(values: Any, vectors: Any) -> Array:
        v = np.asarray(vectors, "c16")
        assert np.abs(np.linalg.norm(v, axis=-2) - 1).max() <= 20 * rounding
        made = whole @ v - v * (np.asarray(values, "c16") / unit.numpy()[:, None])[:, None]
        return np.asarray(np.abs(made).max((-2, -1)))

    wanted = miss(*linalg.eig(a))
    for isa in levels:
        values, vectors, alone = aot_runtime.load(path, isa=isa)(a)
        assert (miss(values, vectors) <= 3 * wanted + 30 * rounding).all()
        sums = (np.asarray(alone, "c16") / unit.numpy()[:, None]).sum(-1)
        wrong = np.abs(sums - np.trace(whole, axis1=-2, axis2=-1))
        assert wrong.max() <= 300 * N * rounding


def test_a_matrix_that_is_none_has_no_eigenvalues(tmp_path: Path) -> None:
    a = torch.stack([normal(80)] * 3)
    path = tmp_path / "m.pkg"
    aot.package(Calls(linalg.eigvals), (a,), path=path, golden=False, targets=[target_of(OWN)])
    a[1, 2, 3], a[2, 79, 0] = float("nan"), float("inf")
    found = np.asarray(aot_runtime.load(path)(a))
    assert np.isnan(found[1:]).all() and np.isfinite(found[0]).all()
