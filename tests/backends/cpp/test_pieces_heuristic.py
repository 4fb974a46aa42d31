"""Which products are worth cutting into pieces, and by how much at a time."""

from __future__ import annotations

import itertools

from aot.backends.cpp.pieces_heuristic import piece_lines, pieces_blocking, product_pieces


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


def halves(rows: int, columns: int, k: int, *, turned: bool = False) -> object:
    return product_pieces(rows, columns, k, turns_rows=turned, turns_columns=turned)


def test_products_of_float16_are_cut_where_widening_takes_as_long() -> None:
    assert halves(206, 16, 264) is not None
    assert halves(243, 348, 424, turned=True) is not None


def test_few_rows_of_float16_are_not_cut() -> None:
    assert halves(8, 512, 512) is None
    assert halves(40, 16, 16) is None


def test_rows_that_are_transposed_are_multiplied_at_once_or_not() -> None:
    found = product_pieces(300, 256, 1000, turns_rows=True, turns_columns=False)
    assert found is not None and found.depth >= 1000
    assert product_pieces(300, 256, 20000, turns_rows=True, turns_columns=False) is None


def test_rows_that_are_transposed_must_be_near() -> None:
    assert product_pieces(12000, 32, 1024, turns_rows=True, turns_columns=False) is None
    assert product_pieces(12000, 32, 1024, turns_rows=False, turns_columns=False) is not None


def test_scratch_of_a_product_has_copies_and_packed_columns() -> None:
    found = product_pieces(100, 64, 96, turns_rows=False, turns_columns=False)
    assert found is not None
    plain = found.product_bytes(copies_rows=False, packs_columns=False)
    assert found.product_bytes(copies_rows=True, packs_columns=False) == plain + 4 * 64 * 112
    assert found.product_bytes(copies_rows=False, packs_columns=True) == plain + 4 * 64 * 96


def test_a_configuration_names_its_pieces() -> None:
    found = product_pieces(100, 64, 96, turns_rows=False, turns_columns=False)
    assert found is not None
    assert "  static constexpr int64_t PN = 64;" in piece_lines(found)
