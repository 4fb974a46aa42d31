// Triangular systems T X = B, X in B's place.
#ifndef AOT_LINALG_TRIANGULAR_H_
#define AOT_LINALG_TRIANGULAR_H_

#include "aot/linalg/lanes.h"
#include "aot/linalg/product.h"

namespace aot::linalg {

// Which part of T there is, and whether its diagonal is ones, whatever lies there.
template <bool UPPER, bool UNIT>
struct Triangle {
  static constexpr bool kUpper = UPPER, kUnit = UNIT;
};

// Rows of x (`columns` wide, whole vectors) of at most a panel of unknowns.
template <class Shape, class A, class M>
void solve_block(A t, int64_t n, M x, int64_t columns) {
  using T = typename M::Element;
  using N = typename M::Number;
  constexpr int kWide = 2 * native_lanes<T>() < kPanel ? 2 * native_lanes<T>() : int(kPanel);
  for (int64_t c = 0; c < columns; c += kWide) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = Shape::kUpper ? n - 1 - step : step;
      auto sum = x.template wide<kWide>(i, c);
      const int64_t from = Shape::kUpper ? i + 1 : 0, to = Shape::kUpper ? n : i;
      for (int64_t k = from; k < to; ++k) {
        sum = less_product(spread<kWide>(N(t.get(i, k))), x.template wide<kWide>(k, c), sum);
      }
      if constexpr (!Shape::kUnit) {
        const auto by = spread<kWide>(N(t.get(i, i)));
        sum = Divisor<decltype(sum)>(by)(sum);
      }
      x.template set_wide<kWide>(i, c, sum);
    }
  }
}

// Columns up to which unknowns are found row by row, T read once where it lies and not copied.
inline constexpr int64_t kFew = 4;

inline constexpr int64_t kPage = 4096;  // bytes

// A matrix of rows of kFew at a place, part after part: as a record of it lies.
template <class M>
AOT_INLINE M few_at(typename M::Element* at, int64_t rows) {
  if constexpr (M::kParts == 2) {
    return {at, at + rows * kFew, kFew};
  } else {
    return {at, kFew};
  }
}

// At most kFew columns into rows of kFew, zeros behind them; asks for those of `next`.
template <class T>
AOT_INLINE void copy_few(Seen<T> from, Seen<T> next, int64_t rows, int64_t columns, Dense<T> to) {
  const bool whole = columns == kFew;
  for (int64_t i = 0; i < rows; ++i) {
    const T* const at = from.at + i * from.row;
    __builtin_prefetch(next.at + i * next.row);
    if (whole && from.col == 1) {
      store(to.line(i, 0), load<T, int(kFew)>(at));
    } else if (whole && from.col == 2) {
      store(to.line(i, 0), load_strided<T, int(kFew)>(at, 2));
    } else {
      for (int64_t j = 0; j < kFew; ++j) to.set(i, j, j < columns ? at[j * from.col] : T(0));
    }
  }
}
template <class T>
AOT_INLINE void copy_few(ComplexSeen<T> from, ComplexSeen<T> next, int64_t rows, int64_t columns,
                         ComplexDense<T> to) {
  copy_few(from.re, next.re, rows, columns, Dense<T>{to.re, to.ld});
  copy_few(from.im, next.im, rows, columns, Dense<T>{to.im, to.ld});
}

// Asks memory for COUNT numbers of a row.
template <int COUNT, class T>
AOT_INLINE void ask(Seen<T> t, int64_t i, int64_t j) {
  const T* const at = t.at + i * t.row + j * t.col;
  for (int64_t k = 0; k < COUNT * t.col; k += 64 / int64_t(sizeof(T))) __builtin_prefetch(at + k);
}
template <int COUNT, class T>
AOT_INLINE void ask(ComplexSeen<T> t, int64_t i, int64_t j) {
  ask<COUNT>(t.re, i, j);
}

// Unknowns `step` to `step + R - 1`, of rows of kFew. Inverses of the diagonal are found before, so
// that no unknown waits for the division of the one before. Meanwhile memory is asked for what of
// `next` lies where T is read.
template <class Shape, int R, class A, class M>
AOT_INLINE void solve_few_rows(A t, A next, int64_t n, M x, int64_t step) {
  using N = typename M::Number;
  constexpr int W = int(kFew);
  using V = decltype(x.template wide<W>(0, 0));
  const auto row = [=](int64_t k) { return Shape::kUpper ? n - 1 - k : k; };
  V sum[R];
  N over[R];
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    sum[r] = x.template wide<W>(row(step + r), 0);
    ask<R>(next, row(step + r), row(step));
    if constexpr (!Shape::kUnit) over[r] = inverse_of(N(t.get(row(step + r), row(step + r))));
  }
  for (int64_t k = 0; k < step; ++k) {
    const V known = x.template wide<W>(row(k), 0);
    ask<R>(next, row(step + k % R), row(k - k % R));
    AOT_UNROLL for (int r = 0; r < R; ++r) {
      sum[r] = less_product(spread<W>(N(t.get(row(step + r), row(k)))), known, sum[r]);
    }
  }
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = row(step + r);
    AOT_UNROLL for (int k = 0; k < r; ++k) {
      sum[r] = less_product(spread<W>(N(t.get(i, row(step + k)))), sum[k], sum[r]);
    }
    if constexpr (!Shape::kUnit) sum[r] = sum[r] * spread<W>(over[r]);
    x.template set_wide<W>(i, 0, sum[r]);
  }
}
// From `step` on: as many at a time as hide how long a product takes, then halves of it.
template <class Shape, int R, class A, class M>
AOT_INLINE void solve_few_from(A t, A next, int64_t n, M x, int64_t step) {
  for (; step + R <= n; step += R) solve_few_rows<Shape, R>(t, next, n, x, step);
  if constexpr (R > 1) solve_few_from<Shape, R / 2>(t, next, n, x, step);
}
template <class Shape, class A, class M>
AOT_INLINE void solve_few(A t, A next, int64_t n, M x) {
  constexpr bool kMany = M::kParts == 1 || !tmpl::kFewRegisters;
  solve_few_from<Shape, kMany ? 8 : 6>(t, next, n, x, 0);
}

// Halves, so that nearly all of it is products; x has whole panels and ends with zeros.
template <class Shape, class A, class M>
void solve_triangle(A t, int64_t n, M x, int64_t columns, Room room) {
  if (n <= kPanel) return solve_block<Shape>(t, n, x, round_up(columns, kPanel));
  const int64_t half = round_up(n / 2, kPanel), rest = n - half;
  const A last = t.from(half, half);
  const M below = x.from(half, 0);
  if constexpr (Shape::kUpper) {
    solve_triangle<Shape>(last, rest, below, columns, room);
    subtract_product(half, columns, rest, t.from(0, half), below, x, room);
    solve_triangle<Shape>(t, half, x, columns, room);
  } else {
    solve_triangle<Shape>(t, half, x, columns, room);
    subtract_product(rest, columns, half, t.from(half, 0), x, below, room);
    solve_triangle<Shape>(last, rest, below, columns, room);
  }
}

// Rows whose sums are computed at the same time, so that products need not wait for each other.
inline constexpr int kRows = 4;

// Unknowns `step` to `step + R - 1` of C columns from c on, in the order in which they are found;
// `over` are the inverses of the diagonal.
template <class Shape, int R, int C, class M>
AOT_INLINE void solve_rows(M t, int64_t n, M x, int64_t step, int64_t c,
                           const typename M::Number* over) {
  using N = typename M::Number;
  const auto row = [=](int64_t k) { return Shape::kUpper ? n - 1 - k : k; };
  N sum[R][C];
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    AOT_UNROLL for (int q = 0; q < C; ++q) sum[r][q] = x.get(row(step + r), c + q);
  }
  for (int64_t k = 0; k < step; ++k) {
    N known[C];
    AOT_UNROLL for (int q = 0; q < C; ++q) known[q] = x.get(row(k), c + q);
    AOT_UNROLL for (int r = 0; r < R; ++r) {
      const N by = t.get(row(step + r), row(k));
      AOT_UNROLL for (int q = 0; q < C; ++q) sum[r][q] = less_product(by, known[q], sum[r][q]);
    }
  }
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = row(step + r);
    AOT_UNROLL for (int k = 0; k < r; ++k) {
      const N by = t.get(i, row(step + k));
      AOT_UNROLL for (int q = 0; q < C; ++q) { sum[r][q] = less_product(by, sum[k][q], sum[r][q]); }
    }
    if constexpr (!Shape::kUnit) {
      AOT_UNROLL for (int q = 0; q < C; ++q) sum[r][q] = sum[r][q] * over[r];
    }
    AOT_UNROLL for (int q = 0; q < C; ++q) x.set(i, c + q, sum[r][q]);
  }
}
template <class Shape, int R, class M>
AOT_INLINE void solve_columns(M t, int64_t n, M x, int64_t step) {
  using N = typename M::Number;
  constexpr int kBeside = M::kParts == 1 ? 2 : 1;  // as many sums as registers hold
  const int64_t columns = x.columns;
  N over[R];
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    const int64_t i = Shape::kUpper ? n - 1 - step - r : step + r;
    if constexpr (!Shape::kUnit) over[r] = inverse_of(t.get(i, i));
  }
  int64_t c = 0;
  for (; c + kBeside <= columns; c += kBeside) {
    solve_rows<Shape, R, kBeside>(t, n, x, step, c, over);
  }
  for (; c < columns; ++c) solve_rows<Shape, R, 1>(t, n, x, step, c, over);
}

// The same for matrices side by side.
template <class Shape, class M>
void solve_lanes(M t, int64_t n, M x) {
  int64_t step = 0;
  for (; step + kRows <= n; step += kRows) solve_columns<Shape, kRows>(t, n, x, step);
  for (; step < n; ++step) solve_columns<Shape, 1>(t, n, x, step);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_TRIANGULAR_H_
