"""QR and least squares by columns across lanes, of both kinds of numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import linalg

from tests.backends.triton.templates import captured
from tests.backends.triton.test_matrix_columns import normal
from tests.conformance.executors import interpret_triton

KINDS = (torch.float64, torch.complex128)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", ((2, 5, 5), (2, 11, 6), (2, 4, 9)))
def test_factors(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    """Eager's to the sign; of more than 8 rows steps are loops."""
    a = normal(*shape, dtype=kind)
    a[1, :, 1] = 0.0
    found = interpret_triton(captured(linalg.qr, (a,)), (a,))
    for got, wanted in zip(found, linalg.qr(a), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), atol=1e-13)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", ((3, 5, 5), (3, 11, 6)))
def test_least_squares(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    """The second matrix is of rank 2: its solution is the one of least norm."""
    a, b = normal(*shape, dtype=kind), normal(*shape[:2], 3, dtype=kind)
    a[1] = a[1, :, :2] @ a[2, :2]

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = linalg.lstsq(a, b)
        return found.solution, found.rank

    x, rank = interpret_triton(captured(function, (a, b)), (a, b))
    assert rank.tolist() == [shape[2], 2, shape[2]]
    exact = linalg.pinv(a) @ b
    np.testing.assert_allclose(x, exact.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("size", (1e-30, 1e30))
def test_squares_need_not_be_numbers(size: float) -> None:
    a = normal(2, 4, 4, dtype=torch.float32) * size
    _, r = interpret_triton(captured(linalg.qr, (a,)), (a,))
    wanted = linalg.qr(a.double())[1].numpy()
    np.testing.assert_allclose(r, wanted, rtol=1e-4, atol=size * 1e-5)
