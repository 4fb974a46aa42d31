"""Hermitian matrices by way of tridiagonal ones, a column a lane: values, and vectors rebuild."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import linalg

from tests.backends.triton.test_matrix_columns import normal
from tests.backends.triton.test_matrix_rotations import (
    BOUND,
    KINDS,
    Array,
    adjoint,
    assert_orthonormal,
    made,
    of_rank,
)


def hermitian(count: int, size: int, kind: torch.dtype) -> torch.Tensor:
    a = normal(count, size, size, dtype=kind)
    return a + a.mH


def assert_rebuilt(values: Array, vectors: Array, a: torch.Tensor) -> None:
    scale = np.abs(a.numpy()).max((-1, -2), initial=1e-300)[:, None, None]
    rebuilt = (vectors * values[..., None, :]) @ adjoint(vectors)
    assert (np.abs(rebuilt - a.numpy()) / scale).max() <= BOUND
    assert_orthonormal(vectors)
    assert (np.diff(values) >= 0).all()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rank", (2, 7))
def test_eigenvectors(kind: torch.dtype, rank: int) -> None:
    """Also of zero eigenvalues that are there several times, and of negative ones."""
    a = of_rank(normal(2, 7, 7, dtype=kind), rank)
    a[1] *= -1
    assert_rebuilt(*made(linalg.eigh, a), a)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("size", (1, 2, 3, 9, 18))
def test_every_size(kind: torch.dtype, size: int) -> None:
    """Programs of several matrices, whose sweeps end at different times, and of one; loops."""
    a = hermitian(3, size, kind)
    assert_rebuilt(*made(linalg.eigh, a), a)
    (values,) = made(linalg.eigvalsh, a)
    exact = linalg.eigvalsh(a).numpy()
    assert np.abs(values - exact).max() <= BOUND * np.abs(exact).max()


def special() -> torch.Tensor:
    """Nothing, the same everywhere, an identity, two graded ones, tiny and huge ones."""
    a = hermitian(7, 6, torch.float64)
    grades = torch.logspace(0, -8, 6, dtype=torch.float64)
    a[0], a[1], a[2] = 0, 1, 3 * torch.eye(6, dtype=torch.float64)
    a[3] *= grades[:, None] * grades
    a[4] *= (grades[:, None] * grades).flip(0, 1)
    a[5] *= 1e-200
    a[6] *= 1e200
    return a


def test_special_matrices() -> None:
    a = special()
    assert_rebuilt(*made(linalg.eigh, a), a)
    (values,) = made(linalg.eigvalsh, a)
    exact = linalg.eigvalsh(a).numpy()
    most = np.abs(exact).max(-1, initial=1e-300, keepdims=True)
    assert (np.abs(values - exact) / most).max() <= BOUND
    assert (values[0] == 0).all()


def test_values_of_diagonals_are_exact_to_rounding() -> None:
    """Nothing is reflected there, and signs of the sequence tell small values from none."""
    a = torch.diag_embed(torch.tensor([[1.0, 1e-5, -3e-4, 0.5]]))
    (values,) = made(linalg.eigvalsh, a)
    np.testing.assert_allclose(values[0], np.sort(a[0].diagonal().numpy()), rtol=1e-6)


def test_what_is_no_number_spoils_its_own_matrix_alone() -> None:
    a = hermitian(4, 5, torch.float32)
    a[1, 3, 2], a[2, 4, 4] = float("nan"), float("inf")
    for part in (*made(linalg.eigh, a), *made(linalg.eigvalsh, a)):
        assert np.isnan(part[1:3]).all()
        assert np.isfinite(part[[0, 3]]).all()


@pytest.mark.parametrize("kind", (torch.float32, torch.complex64), ids=str)
def test_narrow_matrices_err_as_eagers_do(kind: torch.dtype) -> None:
    """Rotations of all sweeps round columns, and would make them longer, or shorter."""
    a = hermitian(2, 16, kind)

    def errors(values: Array, vectors: Array) -> tuple[float, float]:
        wide, columns = values.astype("f8"), vectors.astype("c16")
        rebuilt = (columns * wide[..., None, :]) @ adjoint(columns)
        right = np.abs(adjoint(columns) @ columns - np.eye(16)).max()
        return float(np.abs(rebuilt - a.numpy()).max()), float(right)

    own = errors(*made(linalg.eigh, a))
    eager = errors(*(part.numpy() for part in linalg.eigh(a)))
    assert all(x <= 3 * y for x, y in zip(own, eager, strict=True))
