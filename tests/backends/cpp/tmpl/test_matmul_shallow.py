"""Shallow products of bfloat16 by dot products of pairs, of the machine and emulated, and by tiles.

Results go through an epilogue, or are rounded where they are computed, with a number of each
column's own before that or not.
"""

import ml_dtypes
import numpy as np
import pytest

from aot.backends.cpp.gemm_heuristic import matmul_blocking
from tests.backends.cpp.tmpl import test_matmul as matmul
from tests.backends.cpp.tmpl.build import aligned, as_aligned, build, call, emulated, levels
from tests.backends.cpp.tmpl.matmul_variants import HEADER, Variant

LEVEL = levels()[-1]
UNITS = {
    "own": "#define AOT_TMPL_BF16_AT_MOST kBf16Dot\n",
    "emulated": emulated("kBf16Dot"),
    "tiles": emulated("kBf16Tiles"),
}
BFLOAT16 = ml_dtypes.bfloat16

ROUNDED = """
struct Round : {name}::Cfg {{
  static constexpr bool ROUNDED = true;
  static constexpr bool ADDS = {adds};
}};
EXPORT void rounded(const Bf16* a, int64_t a_row, int64_t a_col, const Bf16* b, int64_t b_row,
                    int64_t b_col, int64_t m, int64_t n, int64_t k, Bf16* c, int64_t c_row,
                    int64_t begin, int64_t end, const Bf16* own, void* scratch) {{
  const int64_t row = c_row * 2;
  const MatmulArgs<Round> p{{a, 0, a_row, a_col, b, 0, b_row, b_col, m, n, k, c, row, 2, own}};
  const auto store = [=](int64_t, int64_t m0, int64_t m1, int64_t n0, int64_t n1, const float* tile,
                         int64_t ld) {{
    for (int64_t i = m0; i < m1; ++i) {{
      for (int64_t j = n0; j < n1; ++j) {{
        float x = tile[(i - m0) * ld + j - n0];
        if (Round::ADDS) x += widen(own[j]);
        uint32_t bits;
        __builtin_memcpy(&bits, &x, 4);
        c[i * c_row + j].bits = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      }}
    }}
  }};
  matmul<Round>(p, begin, end, scratch, store);
}}
"""
CASES = [
    ((16, 16, 16), "kDepth", "packed"),
    ((37, 70, 24), "kAcross", "kDepth"),  # half of a last vector
    ((140, 33, 61), "kDepth", "kAcross"),  # odd k's: the last pair has a zero
    ((140, 33, 61), "kAcross", "packed"),
    ((300, 269, 17), "kAcross", "packed"),  # several units of rows and columns
    ((300, 269, 17), "kDepth", "kDepth"),
    ((23, 5, 256), "kDepth", "kAny"),
    ((130, 600, 40), "kAcross", "kAcross"),
    ((29, 48, 1), "kDepth", "packed"),
    ((107, 3, 209), "kDepth", "kAcross"),  # few columns: vectors along k
    ((130, 1, 300), "kDepth", "kDepth"),
    ((41, 5, 320), "kDepth", "kAny"),
    ((47, 20, 100), "kAcross", "kDepth"),  # strips of tiles, the last of fewer rows than a vector
    ((45, 33, 300), "kAcross", "packed"),  # of too many k's that lie across for strips
]


def variant(shape, a, b):
    """`a`: what neighbours of A are; `b`: "packed", or what neighbours of a plain matrix are."""
    blocking = matmul_blocking(
        *shape,
        a_bytes=2,
        b_bytes=2,
        a_contiguous=a == "kDepth",
        b_packed=b == "packed",
        b_across=b == "kAcross",
    )
    return Variant(blocking, "bfloat16", shape, (a, "kAny" if b == "packed" else b))


def product(a, b, a_along, b_along, unit, pieces, own=None):
    """The rounded product, in rows longer than it has columns, whose ends stay as they are.

    `own`: what is added to each column.
    """
    (m, k), n = a.shape, b.shape[1]
    found = variant((m, n, k), a_along, b_along)
    text = (
        HEADER
        + found.text("shallow")
        + ROUNDED.format(name="shallow", adds="false" if own is None else "true")
    )
    library = build(text, LEVEL, UNITS[unit])
    layout = {"packed": "packed", "kAcross": "rows", "kDepth": "columns", "kAny": "strided"}
    (b_stored,), strides = matmul.lay_out(b[None], layout[b_along])
    a_stored = as_aligned(a if a_along == "kDepth" else a.T)
    a_strides = (k, 1) if a_along == "kDepth" else (1, m)
    out = aligned((m, n + 3), np.uint16)
    scratch = aligned((found.blocking.scratch_bytes,), np.uint8)
    sizes = (m, n, k, out, n + 3)
    added = as_aligned(np.zeros(n, BFLOAT16) if own is None else own)
    for begin, end in matmul.split(found.blocking.work(1, m, n), pieces):
        call(
            library["rounded"],
            a_stored,
            *a_strides,
            b_stored,
            *strides,
            *sizes,
            begin,
            end,
            added,
            scratch,
        )
    assert (out[:, n:] == 77).all()
    return out[:, :n].copy().view(BFLOAT16)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("shape", "a_along", "b_along"), CASES)
def test_rounded_results(unit, shape, a_along, b_along):
    m, n, k = shape
    a, b = matmul.random((m, k), BFLOAT16, 1), matmul.random((k, n), BFLOAT16, 2)
    found = product(a, b, a_along, b_along, unit, 3)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    # Half a place of bfloat16, and what sums in float err by.
    limit = 2.0**-8 * np.abs(wide_a @ wide_b) + 2.0**-20 * (np.abs(wide_a) @ np.abs(wide_b))
    assert (np.abs(found.astype(np.float64) - wide_a @ wide_b) <= limit).all()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("shape", "a_along", "b_along"), CASES)
def test_what_is_each_columns_own_is_added_before_rounding(unit, shape, a_along, b_along):
    m, n, k = shape
    a, b = matmul.random((m, k), BFLOAT16, 1), matmul.random((k, n), BFLOAT16, 2)
    own = matmul.random((n,), BFLOAT16, 3)
    found = product(a, b, a_along, b_along, unit, 3, own)
    exact = a.astype(np.float64) @ b.astype(np.float64) + own.astype(np.float64)
    terms = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(own)
    limit = 2.0**-8 * np.abs(exact) + 2.0**-20 * terms.astype(np.float64)
    assert (np.abs(found.astype(np.float64) - exact) <= limit).all()


@pytest.mark.parametrize("unit", ["own", "tiles"])
@pytest.mark.parametrize("a_along", ["kDepth", "kAcross"])
def test_the_cut_of_the_work_changes_no_bit(a_along, unit):
    a, b = matmul.random((300, 61), BFLOAT16, 1), matmul.random((61, 269), BFLOAT16, 2)
    one, *others = (
        product(a, b, a_along, "packed", unit, pieces).view(np.uint16) for pieces in (1, 2, 5)
    )
    for other in others:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("unit", ["own", "tiles"])
def test_special_numbers_stay_in_their_rows_and_columns(unit):
    a, b = matmul.random((20, 15), BFLOAT16, 1), matmul.random((15, 40), BFLOAT16, 2)
    a[3, 14], b[2, 7] = np.nan, np.inf
    found = product(a, b, "kDepth", "kAcross", unit, 1).astype(np.float32)
    assert np.isnan(found[3]).all()
    rest = np.delete(found, 3, axis=0)
    assert np.isinf(rest[:, 7]).all()
    assert np.isfinite(np.delete(rest, 7, axis=1)).all()


@pytest.mark.parametrize(
    ("name", "a_along", "b_along"),
    [("of_weight", "kDepth", "packed"), ("of_rows", "kAcross", "kAcross")],
)
def test_an_epilogue_gets_each_result_once(name, a_along, b_along, monkeypatch):
    shape = (140, 270, 33)
    monkeypatch.setitem(matmul.VARIANTS, name, variant(shape, a_along, b_along))
    layout, turned = "packed" if b_along == "packed" else "rows", a_along == "kAcross"
    matmul.check(LEVEL, name, shape, k_outer=turned, b_layout=layout, pieces=2, ahead=UNITS["own"])
