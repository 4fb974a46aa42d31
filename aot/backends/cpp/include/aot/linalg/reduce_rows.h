// Products of a matrix and a vector, for reductions that wait with changes of the matrix: it is
// read once for each reflection. Of real and of complex matrices, whole panels with zeros beside
// them.
#ifndef AOT_LINALG_REDUCE_ROWS_H_
#define AOT_LINALG_REDUCE_ROWS_H_

#include "aot/linalg/complex.h"

namespace aot::linalg {

template <class T>
AOT_INLINE T sum_of_lanes(T v) {
  return v;
}
template <class T, int W>
AOT_INLINE T sum_of_lanes(Vec<T, W> v) {
  return reduce_sum(v);
}
template <class T, int W>
AOT_INLINE Complex<T> sum_of_lanes(Complex<Vec<T, W>> v) {
  return {reduce_sum(v.re), reduce_sum(v.im)};
}

// w (from the vector of row `first` on) = conj(A) v, A Hermitian, of which what is right of the
// diagonal counts, v zero before `first`. Rows go upwards or downwards: whoever goes back first
// meets what the cache still has.
template <class M>
void hermitian_times(M a, int64_t first, int64_t n, bool down, M v, M w) {
  using T = typename M::Element;
  using N = typename M::Number;
  constexpr int64_t kWide = native_lanes<T>(), kRows = 4;
  constexpr int W = int(kWide);
  static_assert(kPanel % kRows == 0);
  using V = Vec<T, W>;
  const N none = Real<N>::number(0);
  const auto zero = spread<W>(none);
  const int64_t begin = first / kRows * kRows, all = round_up(n, kPanel);
  for (int64_t j = begin / kWide * kWide; j < all; j += kWide) w.template set_wide<W>(0, j, zero);
  const int64_t blocks = ceil_div(n - begin, kRows);
  const V lane = iota<T, W>();
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t i = begin + (down ? blocks - 1 - step : step) * kRows;
    const int64_t rows = min64(kRows, n - i);
    if (rows < kRows) {
      for (int64_t p = i; p < n; ++p) {
        N sum = real_part(a.get(p, p)) * v.get(0, p);
        for (int64_t q = p + 1; q < n; ++q) {
          sum = more_product(conjugate(a.get(p, q)), v.get(0, q), sum);
          w.set(0, q, more_product(a.get(p, q), v.get(0, p), w.get(0, q)));
        }
        w.set(0, p, w.get(0, p) + sum);
      }
      continue;
    }
    decltype(spread<W>(none)) sums[kRows], by[kRows];
    AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
      sums[r] = zero;
      by[r] = spread<W>(v.get(0, i + r));
    }
    // Vectors that the diagonal crosses: what is right of it, and the diagonal itself.
    int64_t j = i / kWide * kWide;
    for (; j < i + kRows; j += kWide) {
      const auto x = v.template wide<W>(0, j);
      const V at = lane + V(T(j));
      auto y = w.template wide<W>(0, j);
      AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
        const auto own = a.template wide<W>(i + r, j);
        const V place(T(i + r));
        sums[r] = more_product(conjugate(select(at >= place, own, zero)), x, sums[r]);
        y = more_product(select(at > place, own, zero), by[r], y);
      }
      w.template set_wide<W>(0, j, y);
    }
    for (; j < all; j += kWide) {
      const auto x = v.template wide<W>(0, j);
      auto y = w.template wide<W>(0, j);
      AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
        const auto own = a.template wide<W>(i + r, j);
        sums[r] = more_product(conjugate(own), x, sums[r]);
        y = more_product(own, by[r], y);
      }
      w.template set_wide<W>(0, j, y);
    }
    AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
      w.set(0, i + r, w.get(0, i + r) + sum_of_lanes(sums[r]));
    }
  }
}

// y (`columns`, whole panels) = the sum of rows first .. last of a, each times the conjugate of its
// number of v.
template <class M>
void sum_of_rows(M a, int64_t first, int64_t last, int64_t columns, M v, M y) {
  using T = typename M::Element;
  using N = typename M::Number;
  constexpr int W = native_lanes<T>(), kRows = 8;
  const auto zero = spread<W>(Real<N>::number(0));
  for (int64_t j = 0; j < columns; j += W) y.template set_wide<W>(0, j, zero);
  int64_t i = first;
  for (; i + kRows <= last; i += kRows) {
    decltype(spread<W>(v.get(0, 0))) by[kRows];
    AOT_UNROLL for (int r = 0; r < kRows; ++r) by[r] = spread<W>(conjugate(v.get(0, i + r)));
    for (int64_t j = 0; j < columns; j += W) {
      auto sum = zero, more = zero;  // short chains: sums of like terms err by as many roundings
      AOT_UNROLL for (int r = 0; r < kRows; r += 2) {
        sum = more_product(by[r], a.template wide<W>(i + r, j), sum);
        more = more_product(by[r + 1], a.template wide<W>(i + r + 1, j), more);
      }
      y.template set_wide<W>(0, j, y.template wide<W>(0, j) + (sum + more));
    }
  }
  for (; i < last; ++i) add_row(conjugate(v.get(0, i)), a.line(i, 0), y.line(0, 0), columns);
}

// x's number i = row i of a times v, i from last - 1 down to first, over `columns` (whole panels).
template <class M>
void rows_times(M a, int64_t first, int64_t last, int64_t columns, M v, M x) {
  using T = typename M::Element;
  using N = typename M::Number;
  constexpr int W = native_lanes<T>(), kRows = 4;
  int64_t i = last;
  for (; i - kRows >= first; i -= kRows) {
    decltype(spread<W>(v.get(0, 0))) sums[kRows];
    AOT_UNROLL for (int r = 0; r < kRows; ++r) sums[r] = spread<W>(Real<N>::number(0));
    for (int64_t j = 0; j < columns; j += W) {
      const auto by = v.template wide<W>(0, j);
      AOT_UNROLL for (int r = 0; r < kRows; ++r) {
        sums[r] = more_product(a.template wide<W>(i - kRows + r, j), by, sums[r]);
      }
    }
    AOT_UNROLL for (int r = 0; r < kRows; ++r) x.set(0, i - kRows + r, sum_of_lanes(sums[r]));
  }
  for (; i > first; --i) x.set(0, i - 1, dot<false>(a.line(i - 1, 0), v.line(0, 0), columns));
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_REDUCE_ROWS_H_
