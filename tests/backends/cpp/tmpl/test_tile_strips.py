"""Products of bfloat16 by strips of tiles, on emulated tile registers: on any machine."""

import ml_dtypes
import numpy as np
import pytest

from tests.backends.cpp.tmpl import test_matmul as matmul
from tests.backends.cpp.tmpl.build import levels
from tests.backends.cpp.tmpl.test_bf16 import EMULATED

LEVEL = levels()[-1]
TILES = EMULATED["kBf16Tiles"]


@pytest.mark.parametrize(
    "shape",
    [
        (64, 40, 64),  # strips of two whole tiles
        (33, 20, 32),  # of two lower ones, and the last begins in the one before
        (35, 140, 75),  # copied: an odd depth, and nine panels
        (50, 33, 66),  # the last tiles of packed panels are completed
        (49, 7, 19),
        (41, 150, 120),  # equal tiles of 30, where they lie
    ],
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_weights(shape, pieces):
    matmul.check(LEVEL, "bfloat16", shape, pieces=pieces, batch=2, ahead=TILES)


@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("k", [61, 64])
@pytest.mark.parametrize("rows", [300, 47, 33])
def test_packed_on_the_way(layout, k, rows):
    name = f"rectangle_bfloat16_{k}"
    matmul.check(LEVEL, name, (rows, 75, k), b_layout=layout, batch=2, pieces=2, ahead=TILES)


def test_what_lies_behind_a_row_or_a_panel_does_not_count():
    m, n, k = 40, 30, 45
    a = matmul.random((m, k + 1), ml_dtypes.bfloat16, 1)
    a[:, k] = np.nan
    b = matmul.random((k, n), ml_dtypes.bfloat16, 2)
    blocking = matmul.VARIANTS["bfloat16"].blocking
    packed = matmul.pack_matmul_weight(b)
    behind = matmul.aligned((packed.size + 512,), ml_dtypes.bfloat16)
    behind[: packed.size] = packed.ravel()
    library = matmul.library_of("bfloat16", LEVEL, TILES)
    out = matmul.aligned((m, n), np.float32)
    room = matmul.aligned((blocking.scratch_bytes,), np.uint8)
    sizes = (0, k + 1, 1, behind, 0, 0, 0, m, n, k)
    run = library["plain_bfloat16"]
    matmul.call(run, matmul.as_aligned(a), *sizes, out, n, 0, blocking.work(1, m, n), room)
    wide_a, wide_b = a[:, :k].astype(np.float64), b.astype(np.float64)
    matmul.compare(out, wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b), k)
