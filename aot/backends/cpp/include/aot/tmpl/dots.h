// Few columns by long runs of k: dot products, whose vectors run along k.
//
// The micro-kernel (micro.h) loads an element of A for each vector of a row. Where a row is one
// vector, half a panel, loads limit it. Here a vector of A is k's of a row, and of B k's of a
// column: three rows by four columns take seven loads for twelve operations, and the lanes of a sum
// are added once a run. B's runs are turned first, into scratch of the stack that stays in L1.
#ifndef AOT_TMPL_DOTS_H_
#define AOT_TMPL_DOTS_H_

#include "aot/tmpl/gemm.h"

namespace aot::tmpl {

// Columns of a product by dots, and k's that are turned together, at most.
inline constexpr int64_t kDotColumns = 8, kDotDepth = 512;
// Fewer k's a run, or a part of a vector, are not worth the additions of lanes at their end: of 64
// k's both take the same time, of 100 dots take 1.4 times as long, of 296 0.7.
inline constexpr int64_t kLeastDotRun = 128;

// Whether rows of `columns` results of so many runs of k's go by dots. As sums differ in their
// order from others', that depends on nothing that a division of work decides.
template <class T>
constexpr bool takes_dots(int64_t columns, int64_t run) {
  return std::is_same_v<T, float> && Simd<T>::kLanes == kDotColumns && columns <= kDotColumns &&
         run >= kLeastDotRun && run % kDotColumns == 0;
}

namespace detail {

// Four sums of all lanes, in a vector of as many.
template <class V>
struct LaneSums {
  typedef float Four __attribute__((vector_size(16)));
  template <int... L>
  static AOT_INLINE V pairs(V a, V b, std::integer_sequence<int, L...>) {
    // Of each half neighbours of a, then of b.
    constexpr auto from = [](int l) { return l / 4 * 4 + (l % 4 / 2 * 8) + l % 2 * 2; };
    return __builtin_shufflevector(a, b, from(L)...) +
           __builtin_shufflevector(a, b, (from(L) + 1)...);
  }
  static AOT_INLINE Four of(V a, V b, V c, V d) {
    constexpr auto kAll = std::make_integer_sequence<int, 8>{};
    const V sums = pairs(pairs(a, b, kAll), pairs(c, d, kAll), kAll);
    return __builtin_shufflevector(sums, sums, 0, 1, 2, 3) +
           __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
  }
};

// C[0..MR) x [0..8) (+)= rows * B of `depth` k's from k0 on, whole vectors; `turned` has, for the
// k's of one, those of each column.
template <int MR, class T>
__attribute__((noinline)) void dot_kernel(const T* const* rows, int64_t k0, int64_t depth,
                                          const T* turned, T* c, int64_t ldc, bool add) {
  using S = Simd<T>;
  using V = typename S::V;
  using Sums = LaneSums<V>;
  constexpr int64_t kL = S::kLanes, kColumns = 4;
  const T* at[MR];
  AOT_UNROLL for (int i = 0; i < MR; ++i) at[i] = rows[i] + k0;
  for (int64_t j = 0; j < kDotColumns; j += kColumns) {
    V acc[MR][kColumns];
    AOT_UNROLL for (int i = 0; i < MR; ++i) {
      AOT_UNROLL for (int q = 0; q < kColumns; ++q) acc[i][q] = S::zero();
    }
    const T* b = turned + j * kL;
    for (int64_t k = 0; k < depth; k += kL, b += kDotColumns * kL) {
      V x[MR];
      AOT_UNROLL for (int i = 0; i < MR; ++i) x[i] = S::load(at[i] + k);
      AOT_UNROLL for (int q = 0; q < kColumns; ++q) {
        const V w = S::load(b + q * kL);
        AOT_UNROLL for (int i = 0; i < MR; ++i) acc[i][q] = S::fma(x[i], w, acc[i][q]);
      }
    }
    AOT_UNROLL for (int i = 0; i < MR; ++i) {
      typename Sums::Four sums = Sums::of(acc[i][0], acc[i][1], acc[i][2], acc[i][3]), before;
      T* const to = c + i * ldc + j;
      if (add) {
        __builtin_memcpy(&before, to, sizeof(before));
        sums += before;
      }
      __builtin_memcpy(to, &sums, sizeof(sums));
    }
  }
}

// k's [0, depth) of the first eight columns of a panel, as dot_kernel reads them.
template <class T>
AOT_INLINE void turn_columns(const T* panel, int64_t depth, T* turned) {
  using S = Simd<T>;
  constexpr int64_t kL = S::kLanes;
  for (int64_t k = 0; k < depth; k += kL, panel += kL * kPanel, turned += kDotColumns * kL) {
    typename S::V r[kL];
    AOT_UNROLL for (int64_t i = 0; i < kL; ++i) { r[i] = S::load(panel + i * kPanel); }
    transpose_rows<kL / 2, T>(r);
    AOT_UNROLL for (int64_t i = 0; i < kL; ++i) S::store(turned + i * kL, r[i]);
  }
}

}  // namespace detail

// The block of `a`, which has one panel that is read by half.
template <class T>
AOT_SHARED void block_by_dots(const BlockArgs<T, PackedB<T>>& a) {
  constexpr int kRows = 3;
  alignas(64) T turned[kDotColumns * kDotDepth];
  for (int64_t t = 0; t < a.taps; ++t) {
    const T* const* const rows = a.rows + t * a.tap_stride;
    const int64_t step = round_up(ceil_div(a.kc, ceil_div(a.kc, kDotDepth)), Simd<T>::kLanes);
    for (int64_t k = 0; k < a.kc; k += step) {
      const int64_t depth = min64(step, a.kc - k);
      detail::turn_columns(a.b.b + (t * a.kc + k) * kPanel, depth, turned);
      const bool add = t > 0 || k > 0;
      int64_t i = 0;
      for (; i + kRows <= a.mrows; i += kRows) {
        if (add && only_zeros<kRows>(rows + i, a.zeros)) continue;
        detail::dot_kernel<kRows>(rows + i, k, depth, turned, a.c + i * a.ldc, a.ldc, add);
      }
      for (; i < a.mrows; ++i) {
        detail::dot_kernel<1>(rows + i, k, depth, turned, a.c + i * a.ldc, a.ldc, add);
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_DOTS_H_
