"""What the routines of dense linear algebra mean, against NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from aot.ir.templates.linalg import ROUTINES
from tests.settings import seeded

NONE: frozenset[str] = frozenset()
A = np.random.default_rng(seeded()).standard_normal((5, 5))
B = np.random.default_rng(seeded(1)).standard_normal((5, 3))


def test_cholesky_reads_the_lower_triangle() -> None:
    whole = A @ A.T + np.eye(5)
    factor, info = ROUTINES["cholesky"].compute(np.tril(whole) + np.triu(A, 1), B, NONE)
    np.testing.assert_allclose(factor @ factor.T, whole)
    assert info == 0
    assert ROUTINES["cholesky"].compute(np.diag([1.0, 2.0, -1.0]), B, NONE)[1] == 3


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (3, 5)])
def test_lu_with_pivots(shape: tuple[int, int]) -> None:
    a = A[: shape[0], : shape[1]]
    lu, pivots, order, info = ROUTINES["lu"].compute(a, B, NONE)
    k = min(shape)
    lower, upper = np.tril(lu, -1)[:, :k] + np.eye(shape[0], k), np.triu(lu)[:k]
    np.testing.assert_allclose(lower @ upper, a[order.astype(int)], atol=1e-12)
    assert (np.abs(np.tril(lu, -1)) <= 1).all() and info == 0
    if shape[0] == k:
        found, back = ROUTINES["order"].compute(pivots[None, :], B, NONE)
        np.testing.assert_array_equal(found, order)
        np.testing.assert_array_equal(order[back.astype(int)], np.arange(k))


def test_singular_matrices_go_on() -> None:
    lu, _, _, info = ROUTINES["lu"].compute(np.ones((3, 3)), B, NONE)
    assert info == 2 and np.isfinite(lu).all()


def test_systems() -> None:
    np.testing.assert_allclose(A @ ROUTINES["solve"].compute(A, B, NONE)[-1], B, atol=1e-10)
    np.testing.assert_allclose(
        A @ ROUTINES["inverse"].compute(A, B, NONE)[0], np.eye(5), atol=1e-10
    )
    t = A + 5 * np.eye(5)
    for options, matrix in (
        (NONE, np.tril(t)),
        (frozenset({"upper"}), np.triu(t)),
        (frozenset({"unit"}), np.tril(t, -1) + np.eye(5)),
        (frozenset({"upper", "unit"}), np.triu(t, 1) + np.eye(5)),
    ):
        (x,) = ROUTINES["triangular"].compute(t, B, options)
        np.testing.assert_allclose(matrix @ x, B, atol=1e-9)


def test_reflections_turn_a_matrix_into_r_and_back() -> None:
    turned, tau = ROUTINES["qr"].compute(B, B, NONE)
    given = np.vstack([turned, tau])
    (r,) = ROUTINES["reflections"].compute(given, B, frozenset({"back"}))
    np.testing.assert_allclose(r, np.triu(turned), atol=1e-12)
    (again,) = ROUTINES["reflections"].compute(given, r, NONE)
    np.testing.assert_allclose(again, B, atol=1e-12)


def test_values_and_vectors() -> None:
    values, vectors = ROUTINES["eigh"].compute(A, A, NONE)
    np.testing.assert_array_equal(values, ROUTINES["eigvalsh"].compute(A, A, NONE)[0])
    whole = np.tril(A) + np.tril(A, -1).T
    np.testing.assert_allclose(whole @ vectors, vectors * values, atol=1e-12)
    values, ut, vt = ROUTINES["svd"].compute(B, B, NONE)
    np.testing.assert_allclose(ut.T * values @ vt, B, atol=1e-12)
    wrong = np.full((3, 3), np.nan)
    assert np.isnan(ROUTINES["svdvals"].compute(wrong, B, NONE)[0]).all()
    assert np.isnan(ROUTINES["eigvalsh"].compute(wrong, B, NONE)[0]).all()
