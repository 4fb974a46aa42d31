"""Singular vectors of small matrices side by side, begun with eigenvectors of A^H A."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import linalg

from tests.backends.cpp.linalg.test_svdvals_lanes import TYPES, batch, run, wide_of
from tests.levels import OWN
from tests.sampling import Part

SHAPES = ((12, 12), (13, 13), (19, 12), (32, 31), (33, 32))
"""From the least number of columns that begin so."""

BOUND = 60.0
"""Roundings of the greatest value, for matrices of 33 rows."""


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_factors_make_their_matrix_and_are_orthogonal(
    tmp_path: Path, levels: tuple[str, ...], some: Part, dtype: torch.dtype
) -> None:
    given = tuple(batch(dtype, m, n) for m, n in some(SHAPES, 2))
    # Columns that get smaller: their values' digits are lost in A^H A.
    graded = 10.0 ** -torch.linspace(0, 5, 32)
    given = (*given, (batch(dtype, 32, 32) * graded).to(dtype))

    def factors(*x: torch.Tensor) -> list[torch.Tensor]:
        return [y for a in x for y in linalg.svd(a, full_matrices=False)]

    for found in run(tmp_path, factors, given, *levels):
        for k, a in enumerate(given):
            u, s, vt = (x.astype(np.complex128) for x in found[3 * k : 3 * k + 3])
            wide = a.to(wide_of(dtype)).numpy()
            most = np.maximum(np.abs(s).max(-1), 1e-300)[:, None, None]
            small = BOUND * torch.finfo(dtype).eps
            one = np.eye(s.shape[-1])
            assert (np.abs((u * s[:, None, :]) @ vt - wide) / most).max() < small
            assert np.abs(u.conj().swapaxes(-1, -2) @ u - one).max() < small
            assert np.abs(vt @ vt.conj().swapaxes(-1, -2) - one).max() < small
            exact = linalg.svdvals(a.to(wide_of(dtype))).numpy()
            assert (np.abs(s.real - exact) / most[:, :, 0]).max() < small
            assert (np.diff(s.real) <= 0).all()


def test_a_matrix_that_is_no_number_leaves_its_neighbours(tmp_path: Path) -> None:
    a = batch(torch.float64, 16, 16)
    a[3, 2, 5] = float("nan")
    a[11, 0, 0] = float("inf")
    ((u, s, vt),) = run(tmp_path, lambda x: linalg.svd(x, full_matrices=False), (a,), OWN)
    whole = np.isfinite(s).all(-1)
    assert list(np.flatnonzero(~whole)) == [3, 11]
    np.testing.assert_allclose(((u * s[:, None, :]) @ vt)[whole], a.numpy()[whole], atol=1e-12)
