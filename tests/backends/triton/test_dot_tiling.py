"""Tiles of matrix products: which the model picks, and that they fit."""

from __future__ import annotations

import pytest

from aot.backends.triton.dot_tiling import Size, dot_tile
from aot.backends.triton.gpu import GPUS
from aot.ir.dtypes import BFLOAT16, FLOAT32

LARGE = (Size(4096, 4096, 4096, 1, BFLOAT16), Size(16384, 768, 3072, 1, BFLOAT16))


@pytest.mark.parametrize("size", LARGE, ids=str)
def test_large_products_share_multiprocessors_that_multiply_asynchronously(size):
    assert dot_tile(size, GPUS["sm_90"], dear=False).resident == 2
    assert dot_tile(size, GPUS["sm_80"], dear=False).resident == 1


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
