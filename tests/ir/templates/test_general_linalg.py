"""What the routines of complex and of unsymmetric matrices mean, against NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aot.ir.templates.general_linalg import GENERAL_ROUTINES, halved
from aot.symbolic import as_expr, dim
from tests.settings import seeded

Array = np.ndarray[Any, Any]
NONE: frozenset[str] = frozenset()
HERMITIAN = frozenset({"hermitian"})
RANDOM = np.random.default_rng(seeded())
A = RANDOM.standard_normal((5, 5)) + 1j * RANDOM.standard_normal((5, 5))
B = RANDOM.standard_normal((5, 3)) + 1j * RANDOM.standard_normal((5, 3))


def parts(z: Array) -> Array:
    return np.concatenate([z.real, z.imag])


def computed(name: str, a: Array, b: Array = B, options: frozenset[str] = NONE) -> list[Array]:
    return list(GENERAL_ROUTINES[name].compute(a, b, options))


def whole(re: Array, im: Array) -> Array:
    return np.asarray(re + 1j * im)


def test_a_complex_operand_has_twice_the_rows() -> None:
    n = dim("n")
    assert halved(2 * n) == n and halved(as_expr(10)) == 5


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (3, 5)])
def test_lu(shape: tuple[int, int]) -> None:
    a, k = A[: shape[0], : shape[1]], min(shape)
    re, im, _, order, info = computed("complex_lu", parts(a))
    lu = whole(re, im)
    lower, upper = np.tril(lu, -1)[:, :k] + np.eye(shape[0], k), np.triu(lu)[:k]
    np.testing.assert_allclose(lower @ upper, a[order.astype(int)], atol=1e-12)
    assert info == 0


def test_determinants() -> None:
    re, im, sign_re, sign_im, log = computed("complex_determinant", parts(A))
    np.testing.assert_allclose(whole(re, im), np.linalg.det(A))
    np.testing.assert_allclose(whole(sign_re, sign_im) * np.exp(log), np.linalg.det(A))
    re, im, sign_re, sign_im, log = computed("complex_determinant", np.ones((4, 2)))
    assert (re, im, sign_re, sign_im) == (0, 0, 0, 0) and log == -np.inf
    det, sign, log = computed("determinant", A.real)
    np.testing.assert_allclose([det, sign * np.exp(log)], [np.linalg.det(A.real)] * 2)


def test_what_is_written_once_for_both_kinds_of_numbers() -> None:
    definite = A @ A.conj().T + 5 * np.eye(5)
    re, im, info = computed("complex_cholesky", parts(definite))
    np.testing.assert_allclose(whole(re, im), np.linalg.cholesky(definite), atol=1e-12)
    assert info == 0
    re, im, info = computed("complex_inverse", parts(A))
    np.testing.assert_allclose(whole(re, im) @ A, np.eye(5), atol=1e-12)
    re, im, info = computed("complex_solve", parts(A), parts(B))
    np.testing.assert_allclose(A @ whole(re, im), B, atol=1e-12)
    for options, triangle in ((NONE, np.tril(A)), (frozenset({"upper"}), np.triu(A))):
        re, im = computed("complex_triangular", parts(A), parts(B), options)
        np.testing.assert_allclose(triangle @ whole(re, im), B, atol=1e-12)


def test_reflections_turn_a_matrix_into_r_and_back() -> None:
    turned_re, turned_im, tau_re, tau_im = computed("complex_qr", parts(B))
    turned, tau = whole(turned_re, turned_im), whole(tau_re, tau_im)
    given = parts(np.vstack([turned, tau]))
    r = whole(*computed("complex_reflections", given, parts(B), frozenset({"back"})))
    np.testing.assert_allclose(r, np.triu(turned), atol=1e-12)
    assert (np.diag(r).imag == 0).all() or np.allclose(np.diag(r).imag, 0)
    again = whole(*computed("complex_reflections", given, parts(r)))
    np.testing.assert_allclose(again, B, atol=1e-12)


def test_values_and_vectors() -> None:
    lower = np.tril(A, -1)
    hermitian = lower + lower.conj().T + np.diag(A.diagonal().real)
    values, re, im = computed("complex_eigh", parts(A))
    np.testing.assert_allclose(hermitian @ whole(re, im), whole(re, im) * values, atol=1e-12)
    values, re, im, vh_re, vh_im = computed("complex_svd", parts(B))
    np.testing.assert_allclose(whole(re, im).T * values @ whole(vh_re, vh_im), B, atol=1e-12)
    for name, a in (("eig", A.real), ("complex_eig", A)):
        values_re, values_im, re, im = computed(name, parts(a) if name != "eig" else a)
        vectors = whole(re, im)
        np.testing.assert_allclose(a @ vectors, vectors * whole(values_re, values_im), atol=1e-12)


@pytest.mark.parametrize("name", ["eigvals", "complex_eigvals", "complex_eigvalsh"])
def test_values_alone_are_those_of_vectors(name: str) -> None:
    given = A.real if name == "eigvals" else parts(A)
    alone = computed(name, given)
    with_vectors = computed(name.replace("vals", ""), given)
    assert len(alone) < len(with_vectors)
    for found, wanted in zip(alone, with_vectors[: len(alone)], strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_singular_values_alone_are_those_of_vectors() -> None:
    (values,) = computed("complex_svdvals", parts(B))
    np.testing.assert_allclose(values, computed("complex_svd", parts(B))[0], atol=1e-12)


@pytest.mark.parametrize("zeros", [False, True], ids=["any", "zeros on the diagonal"])
@pytest.mark.parametrize("options", [NONE, HERMITIAN], ids=["symmetric", "Hermitian"])
def test_factors_of_one_or_two_rows(options: frozenset[str], zeros: bool) -> None:
    a = A - np.diag(A.diagonal()) * zeros
    symmetric = a + (a.conj().T if options else a.T)
    re, im, pivots, info = computed("complex_ldl", parts(symmetric), options=options)
    assert info == 0 and (np.triu(re, 1) == 0).all()
    assert (pivots < 0).any() or not zeros
    given = parts(np.vstack([whole(re, im), pivots]))
    x = whole(*computed("complex_ldl_solve", given, parts(B), options))
    np.testing.assert_allclose(symmetric @ x, B, atol=1e-10)
    real = symmetric.real + symmetric.real.T
    ld, pivots, info = computed("ldl", np.tril(real))
    (x,) = computed("ldl_solve", np.vstack([ld, pivots]), B.real)
    np.testing.assert_allclose(real @ x, B.real, atol=1e-10)


def test_a_matrix_of_zeros_has_no_pivot() -> None:
    assert computed("ldl", np.zeros((3, 3)))[2] == 1
