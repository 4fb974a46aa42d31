"""Which micro-kernels a matrix template has: all that it calls, and right results without any."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from aot.backends.cpp import gemm_heuristic
from aot.backends.cpp.gemm_heuristic import PANEL
from aot.backends.cpp.toolchain import find_toolchain
from tests.backends.cpp.tmpl.build import INCLUDE, LEVELS, aligned, build, call, levels

CUT = """
#include "aot/tmpl/gemm.h"
using namespace aot::tmpl;
// A block's heights, counted strip by strip.
template <class T>
constexpr bool strips_are_named(int64_t most) {
  for (int64_t rows = 1; rows <= most; ++rows) {
    const Strips<T> strips(rows);
    Heights found = 0;
    for (int64_t s = 0; s < strips.count; ++s) found |= Heights{1} << (strips.rows(s) - 1);
    if (found != strips.heights()) return false;
  }
  return true;
}
// Heights that some division of the units among threads cuts, and that are not named.
template <class T>
constexpr Heights missed(int64_t rows, int64_t unit, int64_t block) {
  const int64_t units = ceil_div(rows, unit);
  Heights found = 0;
  for (int64_t i = 0; i < units; ++i) {
    for (int64_t j = i; j < units; ++j) {
      const Blocks blocks(min64((j + 1) * unit, rows) - i * unit, block);
      for (int64_t b = 0; b < blocks.count; ++b) found |= Strips<T>(blocks.size(b)).heights();
    }
  }
  return found & ~heights_of_units<T>(rows, unit, block);
}
template <class T>
constexpr bool complete(int64_t unit, int64_t block, int64_t first, int64_t last) {
  for (int64_t rows = first; rows <= last; ++rows) {
    if (missed<T>(rows, unit, block) != 0) return false;
  }
  return true;
}
"""
PROOF = """
static_assert(strips_are_named<float>(256) && strips_are_named<double>(256));
static_assert(complete<float>(32, 32, 1, 256) && complete<double>(48, 128, 1, 400));
static_assert(complete<float>(16, 20, 1, 128) && complete<double>(128, 96, 1, 600));
static_assert(complete<float>(7, 7, 1, 60) && complete<double>(1, 9, 1, 30));
static_assert(heights_of_units<float>(0, 32, 32) == 0);
static_assert(heights_of_units<float>(-1, 32, 32) == kAllHeights);
// Strips of 32 rows: of 8 where 9 fit into the registers, of 5 and 6 where 6 do, else of 2.
constexpr int kRows = RegisterBlock<float>::kRows;
static_assert(heights_of_units<float>(32, 32, 32) ==
              (kRows == 9 ? 1 << 7 : kRows == 6 ? 3 << 4 : 1 << 1));
"""
RUN = """
template <class T, Heights kHeights>
void product(const T* a, const T* b, int64_t rows, int64_t panels, int64_t k, T* c) {
  const T* at[64];
  for (int64_t i = 0; i < rows; ++i) at[i] = a + i * k;
  const BlockArgs<T, PackedB<T>> args{at, 0, rows, 1, k, {b, k * kPanel}, panels, c,
                                      panels * kPanel};
  block_by_panels<MultiplyAdd<T>, 40, kHeights>(args, RowsInPlace());
}
#define EXPORT extern "C" __attribute__((visibility("default")))
EXPORT void all_heights(const TYPE* a, const TYPE* b, int64_t m, int64_t n, int64_t k, TYPE* c) {
  product<TYPE, kAllHeights>(a, b, m, n, k, c);
}
EXPORT void none(const TYPE* a, const TYPE* b, int64_t m, int64_t n, int64_t k, TYPE* c) {
  product<TYPE, 0>(a, b, m, n, k, c);
}
EXPORT void one(const TYPE* a, const TYPE* b, int64_t m, int64_t n, int64_t k, TYPE* c) {
  product<TYPE, 2>(a, b, m, n, k, c);
}
"""

HALF = """
// A panel less 8 columns, of several or of one: by the micro-kernels that leave them out.
EXPORT void half_last(const float* a, const float* b, int64_t m, int64_t n, int64_t k, float* c) {
  const float* at[64];
  for (int64_t i = 0; i < m; ++i) at[i] = a + i * k;
  BlockArgs<float, PackedB<float>> args{at, 0, m, 1, k, {b, k * kPanel}, n, c, n * kPanel};
  args.half = true;
  constexpr Heights kHalves = half_of<float>(8, 64) | half_of<float>(24, 64);
  constexpr Heights kAll = kAllHeights | kHalves | half_of<float>(40, 64);
  block_by_panels<MultiplyAdd<float>, 40, kAll>(args, RowsInPlace());
}
"""

STRIPS = """
// Rows of products, each strip of which is handed over as soon as it is finished.
EXPORT void by_strips(const TYPE* a, const TYPE* b, int64_t m, int64_t n, int64_t k, TYPE* room,
                      TYPE* c) {
  const TYPE* at[64];
  for (int64_t i = 0; i < m; ++i) at[i] = a + i * k;
  const BlockArgs<TYPE, PackedB<TYPE>> args{
      at, 0, m, 1, k, {b, k * kPanel}, n, room, n * kPanel, false, true};
  block_by_strips<MultiplyAdd<TYPE>, kAllHeights>(args, [&](int64_t i0, int64_t i1) {
    for (int64_t i = i0 * n * kPanel; i < i1 * n * kPanel; ++i) {
      c[i] = room[i - i0 * n * kPanel];
    }
  });
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_strips_take_the_same_rows_of_scratch_in_turn(level):
    if level not in levels():
        pytest.skip(f"this machine does not run {level}")
    library = build(CUT + (RUN + STRIPS).replace("TYPE", "float"), level)
    rng = np.random.default_rng(4)
    for rows, panels, k in [(1, 1, 7), (9, 3, 30), (33, 2, 1), (64, 4, 90)]:
        a, b = aligned((rows, k), np.float32), aligned((panels, k, 16), np.float32)
        a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        room = aligned((64, panels * 16), np.float32)
        room[...] = np.nan
        found = aligned((rows, panels * 16), np.float32)
        call(library.by_strips, a, b, rows, panels, k, room, found)
        expected = a.astype("f8") @ b.astype("f8").transpose(1, 0, 2).reshape(k, -1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert np.isnan(room[9:]).all()  # the most rows of a strip


@pytest.mark.parametrize("level", LEVELS)
def test_columns_of_a_last_panel_that_are_left_out_count_nowhere(level):
    if level not in levels():
        pytest.skip(f"this machine does not run {level}")
    library = build(CUT + RUN.replace("TYPE", "float") + HALF, level)
    rng = np.random.default_rng(5)
    for rows, panels, k in [(1, 1, 7), (9, 3, 30), (33, 2, 1), (17, 5, 91), (31, 1, 300)]:
        a, b = aligned((rows, k), np.float32), aligned((panels, k, 16), np.float32)
        a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        there = 16 * panels - 8
        expected = a.astype("f8") @ b.astype("f8").transpose(1, 0, 2).reshape(k, -1)
        if level == "x86-64-v4":
            b[-1, :, 8:] = np.nan
        found = aligned((rows, panels * 16), np.float32)
        call(library.half_last, a, b, rows, panels, k, found)
        np.testing.assert_allclose(found[:, :there], expected[:, :there], rtol=1e-4, atol=1e-4)
        if level == "x86-64-v4":
            assert (found[:, there:] == 0).all()


@pytest.mark.parametrize("level", LEVELS)
def test_every_height_that_a_division_cuts_is_named(level, tmp_path):
    """For machines that this one is not, too: nothing is run."""
    source = tmp_path / "t.cc"
    source.write_text(CUT + PROOF)
    tools = find_toolchain()
    command = [*tools.command, *tools.compile_flags(level), f"-I{INCLUDE}"]
    subprocess.run([*command, "-fsyntax-only", str(source)], check=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_height_that_is_not_named_gives_the_same_bytes(level, kind):
    if level not in levels():
        pytest.skip(f"this machine does not run {level}")
    text = CUT + RUN.replace("TYPE", kind)
    library = build(text, level, ahead="#undef AOT_TMPL_ONLY_NAMED_HEIGHTS\n")
    dtype = np.float32 if kind == "float" else np.float64
    rng = np.random.default_rng(3)
    for rows, panels, k in [(1, 1, 7), (2, 5, 41), (9, 3, 300), (33, 2, 1), (17, 4, 90)]:
        a, b = aligned((rows, k), dtype), aligned((panels, k, 16), dtype)
        a[...], b[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
        results = []
        for name in ("all_heights", "none", "one"):
            results.append(aligned((rows, panels * 16), dtype))
            call(library[name], a, b, rows, panels, k, results[-1])
        expected = a.astype("f8") @ b.astype("f8").transpose(1, 0, 2).reshape(k, -1)
        tolerance = 1e-4 if kind == "float" else 1e-12
        np.testing.assert_allclose(results[0], expected, rtol=tolerance, atol=tolerance)
        assert results[1].tobytes() == results[0].tobytes()
        assert results[2].tobytes() == results[0].tobytes()


JOINED = """
#include "aot/tmpl/gemm.h"
#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace aot::tmpl;
// Panels of a block of `count` that are multiplied together at last, their last one by half.
EXPORT int64_t at_last(int64_t count) {
  int64_t left = count, last = 0;
  for (; left > 0; left -= last) {
    last = next_panels<float, kAllHeights | kHalfLast>(left, 1, true, count);
  }
  return last;
}
EXPORT int64_t step() { return kStepPanels; }

// Bits: micro-kernels for half a panel alone, or behind a whole one, which a product has whose rows
// are cut into strips of six, with so many columns, as many at a time.
template <int64_t N, int64_t NC, bool APART = false>
int64_t halves() {
  constexpr Heights kHeights = half_of<float>(N, NC, APART);
  constexpr Heights kNamed = Heights{1} << 5 | (kHeights & (kHalfAlone | kHalfJoined));
  constexpr auto kTable = kHalfTable<MultiplyAdd<float>, kNamed>;
  return (kTable.fn[0][5] != nullptr) | (kTable.fn[1][5] != nullptr) << 1;
}
EXPORT int64_t narrow() { return halves<8, 16>(); }
EXPORT int64_t joined() { return halves<20, 32>(); }
EXPORT int64_t divided() { return halves<72, 96>(); }
EXPORT int64_t chunks() { return halves<72, 48>(); }
EXPORT int64_t even() { return halves<40, 48>(); }
EXPORT int64_t ahead() { return halves<20, 32, true>(); }
EXPORT int64_t full() { return halves<32, 32>(); }
"""


def test_a_panel_and_a_half_go_together_however_columns_are_divided():
    level = "x86-64-v3"
    if level not in levels():
        pytest.skip(f"this machine does not run {level}")
    library = build(JOINED, level)
    assert library.step() * PANEL == gemm_heuristic._STEP
    assert [library.at_last(count) for count in (1, 2, 3, 4, 5)] == [1, 2, 2, 1, 2]
    for count in range(1, 20):
        cuts = range(0, count, library.step())
        assert {library.at_last(count - cut) for cut in cuts} == {library.at_last(count)}


def test_a_product_has_the_micro_kernels_that_half_a_panel_may_take():
    level = "x86-64-v3"
    if level not in levels():
        pytest.skip(f"this machine does not run {level}")
    library = build(JOINED, level)
    alone, joined = 1, 2
    assert library.narrow() == alone
    assert library.joined() == joined
    assert library.divided() == alone | joined  # of five panels, or of two
    assert library.chunks() == joined  # three panels, then two
    assert library.even() == alone | joined  # two panels at a time leave half of one
    assert library.ahead() == alone  # the whole one is multiplied before
    assert library.full() == 0
