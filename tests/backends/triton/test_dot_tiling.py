"""Tiles of matrix products: which the model picks, and that they fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aot.backends.triton.dot_tiling import (
    Size,
    dot_tile,
    exchanged,
    is_exchanged,
    line_step,
)
from aot.backends.triton.dot_times import LINE
from aot.backends.triton.gpu import GPUS
from aot.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64

LARGE = (Size(4096, 4096, 4096, 1, BFLOAT16), Size(16384, 768, 3072, 1, BFLOAT16))


@pytest.mark.parametrize("size", LARGE, ids=str)
def test_dear_epilogues_are_computed_by_eight_warps(size):
    """By those of a large block, or of two blocks that share a multiprocessor."""
    for dear in (True, False):
        tile = dot_tile(size, GPUS["sm_90"], dear=dear)
        assert tile.resident * tile.warps == 8
    assert dot_tile(size, GPUS["sm_80"], dear=False).resident == 1


@pytest.mark.parametrize(
    ("size", "tile"),
    [
        ((256, 9984, 16384), (128, 160)),
        ((5696, 1024, 5128), (192, 128)),
        ((27194, 280, 1872), (128, 288)),
    ],
)
def test_groups_of_warps_have_blocks_that_fill_the_device(size, tile):
    """Of 62, 8 and 1 columns of blocks in place of 39, 4 and 2, half of which lie outside."""
    gpu, halves = GPUS["sm_90"], Size(*size, 1, BFLOAT16, lines=(16, LINE), grouped=True)
    found = dot_tile(halves, gpu, dear=False)
    assert (found.rows, found.columns) == tile
    assert found.groups > 1
    assert found.stages * (found.rows + found.columns) * found.depth * 2 <= gpu.shared_bytes
    assert sum(found.pieces) == found.columns
    assert dot_tile(replace(halves, grouped=False), gpu, dear=False).groups == 0


def test_plain_loads_of_float32_are_on_their_way_in_time():
    """Two blocks in flight would be waited for, where descriptors copy none of them."""
    for copied, stages in ((True, 2), (False, 3)):
        size = Size(36303, 64, 2048, 1, FLOAT32, cut=True, copied=copied)
        assert dot_tile(size, GPUS["sm_90"], dear=False).stages == stages


def test_a_third_group_multiplies_while_one_computes_what_is_dear():
    size = Size(5503, 1024, 8192, 1, BFLOAT16, grouped=True)
    tile = dot_tile(size, GPUS["sm_90"], dear=True)
    assert (tile.rows, tile.columns, tile.groups) == (192, 128, 3)


def test_what_lies_outside_of_a_matrix_is_not_free():
    """Blocks of 128 x 256 would be half of zeros, which descriptors write slowly."""
    assert dot_tile(Size(26256, 128, 8192, 1, BFLOAT16), GPUS["sm_90"], dear=False).columns == 128


def test_single_elements_of_a_turned_operand_are_not_multiplied_asynchronously():
    """Programs of two warps, or blocks of few rows, have no asynchronous products."""
    size = Size(101, 273, 1016, 128, FLOAT32, turned=True, copied=False)
    for turned in (True, False):
        alone = replace(size, turned=turned, single=(False, True))
        single = dot_tile(alone, GPUS["sm_90"], dear=False)
        assert single.warps < 4 or single.rows < 64
    other = dot_tile(replace(size, rows=1001), GPUS["sm_90"], dear=False)
    assert other.warps >= 4 and other.rows >= 64
    step_by_step = GPUS["sm_80"]
    sides = (False, True), (False, False)
    found = [dot_tile(replace(size, single=s), step_by_step, dear=False) for s in sides]
    assert found[0] == found[1]


def test_rows_that_end_within_vectors_are_copied_by_descriptors():
    """Plain loads test where a row ends, and take its elements one by one."""
    size = Size(128, 6408, 2741, 1, FLOAT32)
    assert dot_tile(size, GPUS["sm_90"], dear=False).rows == 32
    assert dot_tile(replace(size, cut=True), GPUS["sm_90"], dear=False).rows == 64


def test_the_lowest_tiles_of_split_digits_have_their_price():
    """1278 x 2880 by 2880 x 188 took 62 us by 16 x 64, 45 by 64 x 32."""
    tile = dot_tile(Size(1278, 188, 2880, 1, FLOAT32), GPUS["sm_90"], dear=False)
    assert (tile.rows, tile.columns) == (64, 32)


def test_registers_hold_single_halves_and_sums():
    """What is loaded by single halves waits in registers: 128 by 128 would have 256 a thread."""
    size = Size(1355, 105, 1024, 39, BFLOAT16, copied=False)
    plain = dot_tile(size, GPUS["sm_90"], dear=False)
    assert plain.rows * plain.columns >= 128 * 128
    single = dot_tile(replace(size, single=(True, True)), GPUS["sm_90"], dear=False)
    loaded = (single.rows + single.columns) * single.depth + single.rows * single.columns
    assert loaded <= 160 * 32 * single.warps


def test_deep_products_of_a_batch_are_by_groups_whatever_their_depth_ends_with():
    size = Size(928, 520, 1296, 41, BFLOAT16, grouped=True)
    assert dot_tile(size, GPUS["sm_90"], dear=False).groups
    shallow = replace(size, depth=152)
    assert not dot_tile(shallow, GPUS["sm_90"], dear=False).groups


def test_odd_rows_that_descriptors_copy_have_high_tiles():
    size = Size(3501, 1024, 1925, 1, FLOAT32, single=(True, True))
    assert dot_tile(size, GPUS["sm_90"], dear=False).rows >= 64
    assert dot_tile(replace(size, copied=False), GPUS["sm_90"], dear=False).rows < 64


def test_few_rows_of_float32_are_multiplied_in_registers():
    """Programs of two warps: 16 rows at a time, by four, took twice as long."""
    found = dot_tile(Size(68, 6270, 16064, 1, FLOAT32), GPUS["sm_90"], dear=False)
    assert (found.rows, found.warps) == (32, 2)
    assert dot_tile(Size(4456, 6270, 2048, 1, FLOAT32), GPUS["sm_90"], dear=False).warps > 2


def test_few_rows_and_small_products_get_small_tiles():
    gpu = GPUS["sm_90"]
    assert dot_tile(Size(8, 4096, 4096, 1, BFLOAT16), gpu, dear=False).rows == 16
    assert dot_tile(Size(128, 768, 768, 1, BFLOAT16), gpu, dear=False).columns < 128


@pytest.mark.parametrize("arch", GPUS)
@pytest.mark.parametrize("dtype", (BFLOAT16, FLOAT32))
def test_stages_fit_into_shared_memory(arch, dtype):
    for size in (*LARGE, Size(300, 200, 100, 4, BFLOAT16)):
        tile = dot_tile(
            Size(size.rows, size.columns, size.depth, size.batch, dtype), GPUS[arch], dear=True
        )
        stage = (tile.rows + tile.columns) * tile.depth * dtype.itemsize
        assert tile.resident * tile.stages * stage <= GPUS[arch].shared_bytes


@pytest.mark.parametrize(
    ("size", "arch"),
    (
        (Size(8, 2048, 512, 1, FLOAT32), "sm_90"),
        (Size(8, 4096, 4096, 1, FLOAT32), "sm_80"),
        (Size(4096, 4096, 4096, 1, FLOAT32), "sm_80"),
    ),
    ids=str,
)
def test_halves_of_digits_stay_in_registers(size, arch):
    tile = dot_tile(size, GPUS[arch], dear=False)
    assert (tile.rows + tile.columns) * tile.depth <= 64 * 32 * tile.warps


@pytest.mark.parametrize("rows", [3856, 512])
def test_blocks_that_are_turned_around_are_narrow(rows):
    """Conflicts of banks grow with the columns of such a block."""
    gpu, size = GPUS["sm_90"], Size(rows, 2048, 512, 2, FLOAT32)
    assert dot_tile(replace(size, turned=True), gpu, dear=False).columns <= 64
    narrow = dot_tile(replace(size, columns=32), gpu, dear=False)
    assert narrow.columns == 32
    # As many blocks as there is room for: 512 rows took 6.1 us by 16, 8.9 by 64, 8.2 by 16 x 64.
    assert narrow.rows == (16 if rows == 512 else 64)


@pytest.mark.parametrize(
    ("distance", "step"),
    [(10256, 16), (7840, 32), (7712 * 2, 64), (4096, LINE), (0, LINE), (6, 16)],
)
def test_what_counts_of_the_distance_of_rows(distance, step):
    assert line_step(distance) == step


@pytest.mark.parametrize("size", [(136, 9840, 4592), (58, 8192, 8272), (128, 16384, 8192)])
def test_much_of_what_few_rows_read_is_on_its_way(size):
    """As many bytes as memory delivers until the first ones arrive."""
    tile = dot_tile(Size(*size, 1, BFLOAT16), GPUS["sm_90"], dear=False)
    ahead = tile.resident * (tile.stages - 1) * (tile.rows + tile.columns) * tile.depth * 2
    assert ahead >= 128 * 1024


def test_few_turns_hide_no_epilogue():
    gpu, deep = GPUS["sm_90"], Size(12233, 15304, 4096, 1, BFLOAT16)
    wide = [dot_tile(replace(deep, depth=40), gpu, dear=dear).columns for dear in (False, True)]
    assert wide == [256, 256]


@pytest.mark.parametrize("size", [(4096, 3496, 936), (512, 2048, 8192), (136, 8008, 8192)])
def test_warps_of_float64_multiply_what_shared_memory_gives_in_time(size):
    """16 elements a cycle for 128 multiplications: blocks of 32 x 64 are too small for that."""
    tile = dot_tile(Size(*size, 1, FLOAT64), GPUS["sm_90"], dear=False)
    assert tile.rows * tile.columns >= 4096


def test_few_rows_of_float64_leave_room_for_a_second_program():
    few = dot_tile(Size(16, 8808, 8192, 1, FLOAT64), GPUS["sm_90"], dear=False)
    block = (few.rows + few.columns) * few.depth * 8
    assert few.stages == 3 and 2 * (few.stages - 1) * block <= GPUS["sm_90"].shared_bytes


def test_narrow_results_of_float64_have_narrow_blocks():
    assert dot_tile(Size(16384, 16, 16384, 1, FLOAT64), GPUS["sm_90"], dear=False).columns == 16


def test_few_columns_are_multiplied_by_groups_of_warps():
    size = Size(40928, 40, 4096, 1, BFLOAT16, lines=(LINE, 16), grouped=True)
    tile = dot_tile(size, GPUS["sm_90"], dear=False)
    assert (tile.rows, tile.columns, tile.groups, tile.shared) == (192, 64, 3, 0)


def test_blocks_are_shared_with_marks_alone():
    size = Size(18604, 272, 8192, 1, BFLOAT16, grouped=True)
    assert dot_tile(replace(size, marked=True), GPUS["sm_90"], dear=False).shared
    assert not dot_tile(size, GPUS["sm_90"], dear=False).shared


@pytest.mark.parametrize(
    ("size", "groups"),
    [((3512, 784, 5684), 3), ((512, 2048, 8192), 2), ((64, 64, 512), 0), ((8192, 8192, 128), 0)],
)
def test_float64_is_multiplied_by_groups_of_warps_where_these_have_work(size, groups):
    """Where descriptors can copy both operands, on devices whose warps can be told apart."""
    rows, columns, depth = size
    found = Size(rows, columns, depth, 1, FLOAT64, grouped=True)
    assert dot_tile(found, GPUS["sm_90"], dear=False).groups == groups
    for arch, other in (("sm_80", found), ("sm_90", replace(found, copied=False))):
        assert dot_tile(other, GPUS[arch], dear=False).groups == 0


def test_rows_of_halves_are_columns_where_these_have_more_numbers():
    """298 rows are 320 columns of two tiles, 320 rows of 64 x 256 (87 us, so 77) or 384 others."""
    gpu, size = GPUS["sm_90"], Size(298, 16384, 4096, 1, BFLOAT16, grouped=True)
    assert is_exchanged(size, gpu)
    tile = dot_tile(exchanged(size), gpu, dear=False)
    assert tile.groups and (tile.rows, tile.columns) == (128, 160)
    for other in (replace(size, grouped=False), replace(size, rows=4096), replace(size, rows=16)):
        assert not is_exchanged(other, gpu)
    assert not is_exchanged(size, GPUS["sm_80"])


@pytest.mark.parametrize(
    ("size", "tile"), [((512, 5680, 512), (128, 64)), ((19795, 336, 2048), (192, 64))]
)
def test_dear_functions_of_float64_are_computed_by_groups_of_warps(size, tile):
    """Among programs' own multiplications, which want the same units, they took 1.1 to 1.2."""
    found = Size(*size, 1, FLOAT64, grouped=True)
    chosen = dot_tile(found, GPUS["sm_90"], dear=True)
    assert (chosen.rows, chosen.columns) == tile
