"""The machines' bfloat16 units, emulated: every way through them on machines that have none.

On a machine that has them, the other tests of this folder take the same ways by instructions.
"""

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.attention_heuristic import AttentionBlocking, attention_blocking
from tests.backends.cpp.tmpl import test_attention as attention
from tests.backends.cpp.tmpl import test_conv as conv
from tests.backends.cpp.tmpl import test_matmul as matmul
from tests.backends.cpp.tmpl.build import emulated, levels

LEVEL = levels()[-1]
UNITS = ("kBf16Tiles", "kBf16Dot")
EMULATED = {unit: emulated(unit) for unit in UNITS}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 20, 32),
        (13, 35, 29),
        (50, 40, 64),
        (40, 64, 600),
        (33, 70, 1),
        (35, 140, 75),  # rows that cross lines are copied; tiles of 12, 12 and 11 rows
        (17, 16, 1037),
        (64, 100, 1120),
        (3, 16, 0),
    ],
)
def test_products(unit, shape):
    matmul.check(LEVEL, "bfloat16", shape, ahead=EMULATED[unit])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "shape",
    [
        (13, 35, 29),
        (140, 64, 600),
        (9, 20, 1031),
        (140, 200, 101),  # rows are copied once for several tiles' columns
    ],
)
def test_strided_k_is_copied(unit, shape):
    matmul.check(LEVEL, "k_outer_bfloat16", shape, k_outer=True, batch=2, ahead=EMULATED[unit])


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("shape", [(3, 16, 5), (40, 137, 60), (150, 100, 0), (21, 70, 1037)])
def test_plain_b(unit, layout, shape):
    matmul.check(
        LEVEL, "plain_b_bfloat16", shape, b_layout=layout, batch=2, pieces=2, ahead=EMULATED[unit]
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("k", [64, 61, 30, 600])
@pytest.mark.parametrize("rows", [300, 37])
def test_plain_b_for_all_rows(unit, k, rows):
    matmul.check(
        LEVEL,
        f"rectangle_bfloat16_{k}",
        (rows, 75, k),
        b_layout="rows",
        batch=2,
        k_outer=k in (30, 600),
        pieces=3,
        ahead=EMULATED[unit],
    )


def test_what_lies_behind_a_row_does_not_count():
    """An odd row's last pair and what B is padded with are zeros, whatever is beside them."""
    m, n, k = 20, 30, 45
    a = matmul.random((m, k + 1), ml_dtypes.bfloat16, 1)
    a[:, k] = np.nan
    b = matmul.random((k, n), ml_dtypes.bfloat16, 2)
    library = matmul.library_of("plain_b_bfloat16", LEVEL, EMULATED["kBf16Tiles"])
    blocking = matmul.VARIANTS["plain_b_bfloat16"].blocking
    out = matmul.aligned((m, n), np.float32)
    sizes = (0, k + 1, 1, matmul.as_aligned(b), 0, n, 1, m, n, k)
    room = matmul.aligned((blocking.scratch_bytes,), np.uint8)
    run = library["plain_plain_b_bfloat16"]
    matmul.call(run, matmul.as_aligned(a), *sizes, out, n, 0, blocking.work(1, m, n), room)
    wide_a, wide_b = a[:, :k].astype(np.float64), b.astype(np.float64)
    matmul.compare(out, wide_a @ wide_b, np.abs(wide_a) @ np.abs(wide_b), k)


HEADS = [
    AttentionBlocking(d=24, dv=20, qb=32, kb=48, grain=1, accumulator_bytes=4),
    AttentionBlocking(d=64, dv=64, qb=40, kb=64, grain=1, accumulator_bytes=4),
    AttentionBlocking(d=24, dv=33, qb=24, kb=48, grain=1, accumulator_bytes=4, hb=4),
    AttentionBlocking(d=8, dv=8, qb=32, kb=16, grain=1, accumulator_bytes=4),
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("i", range(len(HEADS)))
@pytest.mark.parametrize("sk", [1, 17, 48, 150])
def test_attention(i, masked, causal, sk):
    blocking = HEADS[i]
    sq = 6 if blocking.hb > 1 else 75
    q, k, v = attention.tensors(2, 8, 2, sq, sk, blocking.d, blocking.dv, "bfloat16")
    mask = attention.random((sq, sk), "float32", 4) if masked else None
    out = attention.run(_heads(blocking, causal), blocking, q, k, v, mask=mask, pieces=3)
    expected = attention.reference(q, k, v, 0.3, mask, causal, 4)
    # Weights are rounded to bfloat16: half of 2^-8 each, against the greatest value.
    np.testing.assert_allclose(out, expected, rtol=2**-8, atol=2**-8)


def test_attention_keeps_nan_in_its_row_and_rows_without_keys_are_zero():
    blocking = attention_blocking(40, 100, 64, 64, heads=1)
    q, k, v = attention.tensors(1, 1, 1, 40, 100, 64, 64, "bfloat16")
    mask = np.zeros((40, 100), np.float32)
    mask[7, 70] = np.nan
    mask[3] = -np.inf
    out = attention.run(_heads(blocking, False), blocking, q, k, v, mask=mask)
    assert not out[0, 3].any()
    assert np.isnan(out[0, 7]).all() and np.isfinite(np.delete(out[0], 7, axis=0)).all()


def _heads(blocking, causal):
    ahead = EMULATED["kBf16Tiles"]
    return attention.library_for(LEVEL, blocking, "bfloat16", causal, ahead=ahead)


RUNS = [  # of 40, 24, 14, 36, 2, 74, 116, 354, 64 and 32 k's a tap: equal tiles or a rest, or none
    (conv.square(40, 20, 1), 2, (1, 9, 7)),
    (conv.square(8, 20, 3, padding=1), 2, (1, 9, 19)),
    (conv.square(13, 20, 3, dilation=2, padding=2), 1, (1, 11, 17)),
    (conv.square(12, 33, 3, stride=2, padding=1), 2, (1, 13, 40)),
    (conv.square(1, 8, 3, dilation=3, padding=3), 1, (1, 9, 10)),
    (conv.square(74, 8, 1), 1, (1, 9, 10)),
    (conv.square(116, 24, 1, stride=2), 2, (1, 9, 10)),
    (conv.square(117, 24, 3, padding=1), 1, (1, 4, 10)),
    (conv.square(64, 33, 1), 2, (1, 5, 7)),
    (conv.square(32, 72, 3, stride=2, dilation=2, padding=2), 1, (1, 21, 42)),
]


@pytest.mark.parametrize("i", range(len(RUNS)))
def test_convolutions(i):
    case = conv.full(*RUNS[i], "bfloat16")
    conv.check_case(LEVEL, case, 2, EMULATED["kBf16Tiles"])


@pytest.mark.parametrize("i", [0, 3, 5, 8])
def test_turned_convolutions(i):
    """Strips of pixels are turned one by one, also after a pass over what tiles leave of k's."""
    case = conv.full(*RUNS[i], "bfloat16", turned=True)
    conv.check_case(LEVEL, case, 2, EMULATED["kBf16Tiles"])
