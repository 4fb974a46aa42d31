"""How products are cut: units, tiles and chunks, and what is packed, by their sizes."""

from __future__ import annotations

import itertools
from typing import Any

from aot.backends.cpp.gemm_heuristic import matmul_blocking


def test_blocking_is_sane():
    for m, n, k in itertools.product((1, 7, 128, 500), (1, 16, 100, 768, 3072), (1, 64, 3072)):
        blocking = matmul_blocking(m, n, k)
        assert 0 < blocking.mb <= 128 and blocking.mc == blocking.mb
        assert blocking.nc % 16 == 0 and blocking.nb % 16 == 0
        assert blocking.work(1, m, n) >= 1 and blocking.grain >= 1


def test_columns_are_packed_for_all_rows_where_they_fit_a_cache():
    def packed(k, **kwargs):
        return matmul_blocking(1000, 64, k, **{"b_packed": False, **kwargs}).packed

    assert packed(64) == 64 * 64
    assert packed(1 << 13) == 0
    assert packed(64, k_fixed=False) == 0
    assert packed(64, a_bytes=2, b_bytes=2) == 64 * 64
    assert packed(63, a_bytes=2, b_bytes=2) == 64 * 64
    assert packed(64, b_packed=True) == 0


def test_units_of_products_that_may_turn_are_whole_vectors_of_rows():
    assert matmul_blocking(944, 11, 158, b_packed=False).mb == 118
    turned = matmul_blocking(944, 11, 158, b_packed=False, a_contiguous=False, may_turn=True)
    assert turned.mb == 128 and turned.turned == 7 * 16 * turned.nc


def test_rows_that_are_copied_are_copied_whole():
    assert matmul_blocking(206, 16, 263, a_bytes=2, b_bytes=2).kb == 264
    assert matmul_blocking(206, 16, 600, a_bytes=2, b_bytes=2).kb == 256
    assert matmul_blocking(206, 16, 263).kb == 256


def test_columns_that_vary_share_a_unit_and_its_rows():
    """An example of 11 columns cuts no run of 91 into tiles of 16, each of which turns its rows."""
    few = matmul_blocking(20, 11, 10, b_packed=False, a_contiguous=False, k_fixed=False)
    more = matmul_blocking(
        20, 11, 10, b_packed=False, a_contiguous=False, k_fixed=False, n_varies=True
    )
    assert few.nc == few.nb == 16
    assert more.nb == more.nc == 176
    assert matmul_blocking(20, 200, 10, n_varies=True).nc == 256
    many = {"m": 4000, "n": 3000, "k": 3000}
    assert matmul_blocking(**many, n_varies=True) == matmul_blocking(**many)


def test_rows_of_halves_that_are_few_are_widened_whole():
    """Each row is padded to a panel, and one more keeps rows off the powers of two."""

    def few(m: int, k: int, **options: Any) -> int:
        return matmul_blocking(m, 64, k, a_bytes=2, b_bytes=2, **options).few

    assert few(1, 100, halves=True) == 128
    assert few(14, 100, halves=True) == 14 * 128
    assert few(15, 100, halves=True) == 0
    assert few(1, 100) == 0
    assert few(1, 100, halves=True, b_packed=False) == 0
    assert few(3, 100, m_max=64, halves=True) == 12 * 128
    assert few(3, 7000, m_max=64, halves=True) == 9 * 7024
    assert few(10, 7000, halves=True) == 0
