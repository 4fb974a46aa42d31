"""Singular values by columns across lanes: matrices of both kinds are rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import linalg

from tests.backends.triton.templates import captured, emitted
from tests.backends.triton.test_matrix_columns import normal
from tests.conformance.executors import interpret_triton

Array = np.ndarray[Any, Any]
KINDS = (torch.float64, torch.complex128)
BOUND = 1e-13


def made(function: Callable[..., Any], a: torch.Tensor) -> list[Array]:
    return list(interpret_triton(captured(function, (a,)), (a,)))


def adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def assert_orthonormal(columns: Array) -> None:
    found = adjoint(columns) @ columns
    assert np.abs(found - np.eye(found.shape[-1])).max() <= BOUND


def of_rank(a: torch.Tensor, rank: int) -> torch.Tensor:
    return a[..., :rank] @ a[..., :rank].mH


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rank", (2, 5))
def test_singular_vectors(kind: torch.dtype, rank: int) -> None:
    """Where values are zero, others are found that are orthogonal to those there are."""
    a = of_rank(normal(2, 7, 7, dtype=kind), rank)[..., :5]
    u, values, vh = made(lambda a: linalg.svd(a, full_matrices=False), a)
    scale = np.abs(a.numpy()).max()
    assert np.abs((u * values[..., None, :]) @ vh - a.numpy()).max() <= BOUND * scale
    assert_orthonormal(u)
    assert_orthonormal(adjoint(vh))


def test_warps_share_columns_that_a_thread_has_no_room_for() -> None:
    """Each has half the numbers of all columns; values, vectors and missing ones are of both."""
    a = of_rank(normal(1, 19, 19, dtype=torch.complex128), 14)[..., :17]
    functions = emitted(captured(linalg.svdvals, (a,)), "sm_90").functions
    assert [dict(f.options)["num_warps"] for f in functions if "turning(" in f.text] == [2]
    u, values, vh = made(lambda a: linalg.svd(a, full_matrices=False), a)
    scale = np.abs(a.numpy()).max()
    assert np.abs((u * values[..., None, :]) @ vh - a.numpy()).max() <= BOUND * scale
    assert_orthonormal(u)
    assert_orthonormal(adjoint(vh))
    (alone,) = made(linalg.svdvals, a)
    assert np.abs(alone - values).max() <= BOUND * scale


def test_turns_do_not_make_columns_longer() -> None:
    """A cosine that is rounded makes all of them longer: by 5e-6 here."""
    a = normal(1, 24, 24, dtype=torch.float32)
    (values,) = made(linalg.svdvals, a)
    exact = linalg.svdvals(a.double()).numpy()
    assert np.abs(values - exact).max() <= 1e-6 * exact.max()
