"""Which products of float32 are worth cutting into pieces, and by how much at a time."""

from __future__ import annotations

import itertools

from aot.backends.cpp.pieces_heuristic import pieces_blocking


def test_many_rows_by_many_columns_are_cut() -> None:
    found = pieces_blocking(3136, 256, 1, 64)
    assert found is not None
    assert (found.columns, found.depth) == (256, 64)


def test_few_rows_are_not_worth_cutting_the_weight() -> None:
    assert pieces_blocking(49, 2048, 1, 512) is None
    assert pieces_blocking(1, 1024, 1, 1024) is None


def test_few_columns_are_not_worth_cutting_the_rows() -> None:
    assert pieces_blocking(12544, 16, 1, 96) is None


def test_runs_that_are_joined_need_more_columns() -> None:
    assert pieces_blocking(12544, 64, 7, 21) is None
    assert pieces_blocking(12544, 512, 7, 21) is not None


def test_few_rows_keep_their_results_and_chunks_pass() -> None:
    found = pieces_blocking(196, 256, 9, 256)
    assert found is not None
    assert found.rows == 196 and found.depth < found.k and found.depth % 32 == 0


def test_blocking_fits_a_cache() -> None:
    sizes = itertools.product((100, 196, 784, 3136), (48, 256, 1000, 2048), (64, 512, 4608))
    for rows, columns, k in sizes:
        found = pieces_blocking(rows, columns, 1, k)
        if found is not None:
            assert found.columns % 16 == 0 and found.columns <= 512
            assert found.scratch_bytes <= 5 << 19
