"""Parts of a product's depth: how many there should be."""

from __future__ import annotations

import pytest

from aot.backends.triton.dot_parts import depth_parts, merges, parts_in_place
from aot.backends.triton.dot_tiling import Size
from aot.backends.triton.gpu import GPUS
from aot.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64


@pytest.mark.parametrize(
    ("size", "cut"),
    [
        (Size(256, 1024, 10774, 1, FLOAT32), True),
        (Size(135, 352, 6768, 1, FLOAT32), True),
        (Size(256, 736, 16384, 1, FLOAT64), True),
        (Size(63, 1024, 16237, 1, BFLOAT16), True),
        (Size(16, 1024, 16384, 1, BFLOAT16), True),
        (Size(4096, 4096, 4096, 1, FLOAT32), False),
        (Size(135, 352, 6768, 64, FLOAT32), False),
        (Size(16384, 1275, 43, 1, FLOAT32), False),
        (Size(128, 768, 768, 1, BFLOAT16), False),
        (Size(16, 4096, 4096, 1, BFLOAT16), False),
    ],
    ids=str,
)
def test_depths_are_cut_where_few_blocks_leave_the_device_idle(size, cut):
    assert (depth_parts(size, GPUS["sm_90"]) > 1) is cut


def test_a_depth_that_divides_is_cut_into_parts_that_start_at_whole_vectors():
    parts = depth_parts(Size(256, 1024, 10752, 1, FLOAT32), GPUS["sm_90"])
    assert 10752 % parts == 0
    assert 10752 // parts % 4 == 0


@pytest.mark.parametrize(("depth", "parts"), [(5121, 9), (5119, 1)])
def test_odd_depths_of_float64_are_cut_where_numbers_divide_them(depth, parts):
    """They are read where they lie: 5119, which none does, would have to be copied."""
    assert depth_parts(Size(4096, 40, depth, 1, FLOAT64), GPUS["sm_90"]) == parts


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (Size(43, 1855, 2976, 8, BFLOAT16), 4),  # in one, a multiprocessor has one program
        (Size(43, 1855, 2971, 8, BFLOAT16), 1),  # no number divides it
        (Size(43, 1855, 2976, 256, BFLOAT16), 1),
        (Size(43, 1855, 2976, 8, FLOAT32), 1),
    ],
    ids=str,
)
def test_halves_that_are_read_one_by_one_have_other_programs_beside(size, parts):
    assert parts_in_place(size, 1, GPUS["sm_90"]) == parts


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (Size(40, 9752, 2048, 1, FLOAT32), 8),  # by 306 programs of two warps each, which wait
        (Size(55, 7102, 8192, 1, FLOAT32), 2),
    ],
    ids=str,
)
def test_few_programs_of_few_warps_take_parts_which_divide_the_depth(size, parts):
    assert depth_parts(size, GPUS["sm_90"]) == parts


def test_rows_of_whole_words_are_cut_where_parts_are_words():
    """Ten parts of 1382, none of 2303 and a third; a prime depth stays whole."""
    assert parts_in_place(Size(3728, 32, 13820, 1, BFLOAT16), 2, GPUS["sm_90"]) == 10
    assert parts_in_place(Size(3728, 32, 2 * 6911, 1, BFLOAT16), 2, GPUS["sm_90"]) == 1


@pytest.mark.parametrize(
    ("size", "merged"),
    [
        (Size(200, 4096, 16384, 1, BFLOAT16, grouped=True), True),
        (Size(304, 2296, 6192, 1, FLOAT64, grouped=True), True),
        (Size(4096, 1024, 4096, 1, BFLOAT16, grouped=True), False),  # results are many
        (Size(8192, 14336, 4096, 1, BFLOAT16, grouped=True), False),
        (Size(8, 4096, 4096, 1, BFLOAT16, grouped=True), False),
    ],
    ids=str,
)
def test_products_of_one_matrix_are_merged_where_their_results_are_few(size, merged):
    assert merges([size, size], GPUS["sm_90"]) is merged


def test_parts_of_a_depth_begin_with_lines():
    """Three parts of 71 lines each, not four of 53.25; long products are cut for less."""
    assert depth_parts(Size(8192, 32, 3408, 1, FLOAT64), GPUS["sm_90"]) == 3
    assert depth_parts(Size(3512, 784, 5684, 1, FLOAT64), GPUS["sm_90"]) == 2
