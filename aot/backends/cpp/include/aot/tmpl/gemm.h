// Cache blocking around the micro-kernel: one block of rows by a run of packed panels.
#ifndef AOT_TMPL_GEMM_H_
#define AOT_TMPL_GEMM_H_

#include <utility>

#include "aot/tmpl/micro.h"
#include "aot/tmpl/pack.h"

namespace aot::tmpl {

// C[0..mrows) x [0..panels*16) = rows * B. C is written whole panels wide. B may be stored in a
// type TB narrower than T; it is then widened, a few panels at a time, into b_copy.
template <class T, class TB>
struct BlockArgs {
  const T* const* rows;  // rows[t * tap_stride + i]
  int64_t tap_stride;
  int64_t mrows;
  int64_t taps;
  int64_t kc;            // k's per tap; K = taps * kc
  const TB* b;           // first panel, at k = 0
  int64_t panel_stride;  // elements between panels
  int64_t panels;
  T* c;
  int64_t ldc;
  T* b_copy;  // widened_elements(KB) of scratch when TB is not T
};

// Elements of BlockArgs::b_copy: the widest group of panels, for a chunk of K.
constexpr int64_t widened_elements(int64_t kb) { return 4 * kPanel * kb; }

template <class T, int MR, int... NP>
constexpr MicroFn<T> micro_for(int panels, std::integer_sequence<int, NP...>) {
  MicroFn<T> fn = nullptr;
  ((panels == NP + 1 ? void(fn = micro_kernel<T, MR, NP + 1>) : void()), ...);
  return fn;
}

// kernels[rows - 1][panels - 1]; null where the register block does not fit.
template <class T>
struct MicroTable {
  MicroFn<T> fn[RegisterBlock<T>::kRows][4];
};

template <class T, int... MR>
constexpr MicroTable<T> make_micro_table(std::integer_sequence<int, MR...>) {
  MicroTable<T> table{};
  (
      [&] {
        constexpr int kMax = RegisterBlock<T>::panels_for(MR + 1);
        for (int p = 1; p <= kMax; ++p) {
          table.fn[MR][p - 1] =
              micro_for<T, MR + 1>(p, std::make_integer_sequence<int, kMax>{});
        }
      }(),
      ...);
  return table;
}

template <class T>
inline constexpr MicroTable<T> kMicroTable =
    make_micro_table<T>(std::make_integer_sequence<int, RegisterBlock<T>::kRows>{});

// Cuts `mrows` rows into strips of nearly equal height, none above the register block.
template <class T>
struct Strips {
  int64_t count, base, extra;  // the first `extra` strips have base + 1 rows
  explicit AOT_INLINE Strips(int64_t mrows)
      : count(ceil_div(mrows, RegisterBlock<T>::kRows)),
        base(mrows / count),
        extra(mrows % count) {}
  AOT_INLINE int rows(int64_t i) const { return int(base + (i < extra)); }
  AOT_INLINE int64_t begin(int64_t i) const { return i * base + min64(i, extra); }
};

// The next group of panels: the widest the strip height allows, but two pairs rather than 3 + 1,
// because a single panel leaves the adders waiting for each other.
AOT_INLINE int next_panels(int64_t left, int widest) {
  if (left == widest + 1 && widest > 2) return int(left + 1) / 2;
  return int(min64(left, widest));
}

// Strips outermost: the rows of a strip stay in L1 while B streams from L2, and done(i0, i1) is
// called with finished rows that are still in L1. For K that fits one chunk and B that is warm.
template <class T, class Done>
AOT_INLINE void block_by_strips(const BlockArgs<T, T>& a, const Done& done) {
  const Strips<T> strips(a.mrows);
  for (int64_t s = 0; s < strips.count; ++s) {
    const int mr = strips.rows(s);
    const int64_t i0 = strips.begin(s);
    const int widest = RegisterBlock<T>::panels_for(mr);
    MicroArgs<T> m{a.rows + i0, a.tap_stride,   a.taps, 0,   a.kc, a.b,
                   a.panel_stride, a.c + i0 * a.ldc, a.ldc, a.b, false};
    for (int64_t j = 0; j < a.panels;) {
      const int np = next_panels(a.panels - j, widest);
      m.b = a.b + j * a.panel_stride;
      m.c = a.c + i0 * a.ldc + j * kPanel;
      m.prefetch = m.b + np * a.panel_stride;
      kMicroTable<T>.fn[mr - 1][np - 1](m);
      j += np;
    }
    done(i0, i0 + mr);
  }
}

// One chunk of K, `b` on, for the whole block, panels outermost: the chunk's panels stay in L1
// while the strips pass, and the first strips fetch the next panels, so B is read from memory once.
// `k` is the chunk's first k in all of K.
template <class T, class TB>
AOT_INLINE void chunk_by_panels(const BlockArgs<T, TB>& a, MicroArgs<T>& m, int64_t k) {
  const Strips<T> strips(a.mrows);
  const int widest = RegisterBlock<T>::panels_for(int(strips.base + (strips.extra > 0)));
  const int64_t depth = m.taps * m.kc;
  const T* const* rows = m.rows;
  for (int64_t j = 0; j < a.panels;) {
    const int np = next_panels(a.panels - j, widest);
    const T* next;  // what to fetch while computing: the next panels, or the next chunk's first
    if constexpr (std::is_same_v<T, TB>) {
      m.b = a.b + j * a.panel_stride + k * kPanel;
      m.panel_stride = a.panel_stride;
      next = j + np < a.panels ? m.b + np * a.panel_stride : a.b + (k + depth) * kPanel;
    } else {
      widen_panels(a.b + j * a.panel_stride, a.panel_stride, np, k, depth, a.b_copy);
      m.b = next = a.b_copy;
      m.panel_stride = depth * kPanel;
    }
    for (int64_t s = 0; s < strips.count; ++s) {
      const int64_t i0 = strips.begin(s);
      m.rows = rows + i0;
      m.c = a.c + i0 * a.ldc + j * kPanel;
      m.prefetch = s < np ? next + s * m.panel_stride : m.b;
      kMicroTable<T>.fn[strips.rows(s) - 1][np - 1](m);
    }
    j += np;
  }
  m.rows = rows;
}

// The default of block_by_panels' `prepare`: rows are read where they lie.
struct RowsInPlace {
  template <class T>
  AOT_INLINE void operator()(MicroArgs<T>&) const {}
};

// All of K for the block, in chunks of at most KB; the sums of every element run over k in order,
// so the result does not depend on how work was divided. Before each chunk, prepare(m) may replace
// m.rows by copies of k's [m.k0, m.k0 + m.kc) of the same rows, and then sets m.k0 to 0.
template <int64_t KB, class T, class TB, class Prepare>
AOT_INLINE void block_by_panels(const BlockArgs<T, TB>& a, const Prepare& prepare) {
  MicroArgs<T> m{a.rows, a.tap_stride, a.taps, 0, a.kc, nullptr, 0, a.c, a.ldc, nullptr, false};
  if (a.kc > KB) {  // several chunks a tap
    const int64_t step = round_up(ceil_div(a.kc, ceil_div(a.kc, KB)), 4);
    m.taps = 1;
    for (int64_t t = 0; t < a.taps; ++t) {
      for (int64_t k = 0; k < a.kc; k += step) {
        m.rows = a.rows + t * a.tap_stride;
        m.k0 = k;
        m.kc = min64(step, a.kc - k);
        prepare(m);
        chunk_by_panels(a, m, t * a.kc + k);
        m.accumulate = true;
      }
    }
    return;
  }
  // Several taps a chunk, evenly.
  const int64_t most = max64(1, KB / max64(a.kc, 1));
  const int64_t step = ceil_div(a.taps, ceil_div(a.taps, most));
  for (int64_t t = 0; t < a.taps; t += step) {
    m.rows = a.rows + t * a.tap_stride;
    m.taps = min64(step, a.taps - t);
    m.k0 = 0;
    prepare(m);
    chunk_by_panels(a, m, t * a.kc);
    m.accumulate = true;
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_GEMM_H_
