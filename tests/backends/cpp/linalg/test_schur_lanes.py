"""Eigenvalues and eigenvectors of small matrices side by side, whatever their neighbours are."""

from __future__ import annotations

from pathlib import Path

import aot_runtime
import numpy as np
import pytest
import torch
from torch import linalg
from torch.export import Dim

import aot
from tests.calls import Calls
from tests.levels import OWN, target_of
from tests.sampling import Part
from tests.settings import seeded

TYPES = (torch.float32, torch.float64)
BOUND = 60.0
"""Roundings of the greatest eigenvalue, or element, by which A V - V w may miss."""


def batch(dtype: torch.dtype, many: int, n: int) -> torch.Tensor:
    """Random matrices, and some that need what others do not: shifts out of turn, scales, parts."""
    generator = torch.Generator().manual_seed(seeded(many + n))
    a = torch.randn((many, n, n), generator=generator, dtype=torch.float64)
    if many < 12:
        return a.to(dtype)
    a[0] = 0
    a[1] = torch.eye(n).roll(1, 0)  # no step of plain shifts changes it
    a[2] = torch.eye(n).roll(1, 0) * 2 + torch.eye(n)
    a[3] = torch.ones(n, n)
    a[4] = a[4].triu()
    a[5] = a[5].tril()
    a[6] = a[6] + a[6].T
    a[7] = a[7] - a[7].T
    scales = 2.0 ** torch.arange(n).remainder(7).double().mul(4)
    a[8] = scales[:, None] * a[8] / scales
    a[9, : n // 2, n // 2 :] = 0
    a[10] = torch.eye(n, dtype=torch.float64) * 3
    return a.to(dtype)


def missed(a: np.ndarray, values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """What A V - V w misses, in roundings of what is greatest."""
    wide = a.astype(np.float64)
    v = vectors.astype(np.complex128)
    rest = np.abs(wide @ v - v * values[:, None, :]).max((1, 2))
    size = np.maximum(np.abs(values).max(1), np.abs(wide).max((1, 2)))
    return rest / (np.finfo(a.dtype).eps * np.maximum(size, 1e-30))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_vectors_and_values_fit_the_matrix(
    tmp_path: Path, levels: tuple[str, ...], dtype: torch.dtype, some: Part
) -> None:
    """Of as many as fill vectors, of more and of fewer, by the same kernels."""
    sizes, path = some((1, 2, 3, 8, 33), 2), tmp_path / "m.pkg"

    def found(*x: torch.Tensor) -> list[torch.Tensor]:
        return [part for a in x for part in (*linalg.eig(a), linalg.eigvals(a))]

    example = tuple(batch(dtype, 21, n) for n in sizes)
    shapes = (({0: Dim("many", min=1)},) * len(sizes),)
    aot.package(Calls(found), example, path=path, golden=False, dynamic_shapes=shapes,
                targets=[target_of(*levels)])  # fmt: skip
    for isa in levels:
        model = aot_runtime.load(path, isa=isa)
        for many in (1, 3, 21):
            given = tuple(batch(dtype, many, n) for n in sizes)
            assert_fit(given, [np.asarray(r) for r in model(*given)], many)


def assert_fit(given: tuple[torch.Tensor, ...], results: list[np.ndarray], many: int) -> None:
    for k, a in enumerate(given):
        values, vectors, alone = results[3 * k : 3 * k + 3]
        assert missed(a.numpy(), values, vectors).max() < BOUND
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        plain = slice(11, None) if many > 11 else slice(None)  # not those of many values alike
        apart = np.abs(alone[plain, :, None] - values[plain, None, :])
        size = np.abs(values[plain]).max(1)[:, None]
        assert (apart.min(1) < 1000 * np.finfo(a.numpy().dtype).eps * size).all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_no_number_is_its_own_matrix_alone(tmp_path: Path, dtype: torch.dtype) -> None:
    a = batch(dtype, 21, 6)
    a[12, 3, 2], a[15, 0, 0] = torch.nan, torch.inf
    path = tmp_path / "m.pkg"
    targets = [target_of(OWN)]
    aot.package(Calls(lambda x: [*linalg.eig(x), linalg.eigvals(x)]), (a,), path=path,
                golden=False, targets=targets)  # fmt: skip
    for found in map(np.asarray, aot_runtime.load(path, isa=OWN)(a)):
        none = np.isnan(found).reshape(21, -1)
        assert np.flatnonzero(none.any(1)).tolist() == [12, 15]
        assert none[[12, 15]].all()
