// A = U B V^T by reflections in blocks, B bidiagonal: of one matrix that is too large for lanes.
#ifndef AOT_LINALG_BIDIAGONAL_H_
#define AOT_LINALG_BIDIAGONAL_H_

#include "aot/linalg/tridiagonal.h"

namespace aot::linalg {

// y (`columns`, whole panels) = the sum of rows first .. last of a, each times its number of v.
template <class T>
void sum_of_rows(const T* a, int64_t ld, int64_t first, int64_t last, int64_t columns, const T* v,
                 T* y) {
  constexpr int kWide = native_lanes<T>(), kRows = 8;
  using V = Vec<T, kWide>;
  for (int64_t j = 0; j < columns; j += kWide) store(y + j, V(T(0)));
  int64_t i = first;
  for (; i + kRows <= last; i += kRows) {
    const T* const row = a + i * ld;
    for (int64_t j = 0; j < columns; j += kWide) {
      V sum(T(0)), more(T(0));  // short chains: sums of like terms err by as many roundings
      AOT_UNROLL for (int r = 0; r < kRows; r += 2) {
        sum = fma(V(v[i + r]), load<T, kWide>(row + r * ld + j), sum);
        more = fma(V(v[i + r + 1]), load<T, kWide>(row + (r + 1) * ld + j), more);
      }
      store(y + j, load<T, kWide>(y + j) + (sum + more));
    }
  }
  for (; i < last; ++i) add_row(v[i], a + i * ld, y, columns);
}

// x[i] = row i of a times v, i from last - 1 down to first.
template <class T>
void rows_times(const T* a, int64_t ld, int64_t first, int64_t last, int64_t columns, const T* v,
                T* x) {
  constexpr int kWide = native_lanes<T>(), kRows = 4;
  using V = Vec<T, kWide>;
  int64_t i = last;
  for (; i - kRows >= first; i -= kRows) {
    const T* const row = a + (i - kRows) * ld;
    V sums[kRows];
    AOT_UNROLL for (int r = 0; r < kRows; ++r) sums[r] = V(T(0));
    for (int64_t j = 0; j < columns; j += kWide) {
      const V by = load<T, kWide>(v + j);
      AOT_UNROLL for (int r = 0; r < kRows; ++r) {
        sums[r] = fma(load<T, kWide>(row + r * ld + j), by, sums[r]);
      }
    }
    AOT_UNROLL for (int r = 0; r < kRows; ++r) x[i - kRows + r] = reduce_sum(sums[r]);
  }
  for (; i > first; --i) x[i - 1] = dot(a + (i - 1) * ld, v, columns);
}

// B's diagonal d and what is right of it, e; the reflections of columns below a's diagonal, those
// of rows right of the element beside it. As in tridiagonal.h, a block of reflections changes the
// rest of the matrix once: a -= P R for all that wait, P by rows with 2 kBlock columns, which are
// reflections of columns and products with those of rows in turn, R the products and the others.
template <class T>
struct Bidiagonal {
  T* a;
  int64_t ld, m, n;
  T *d, *e, *left, *right;

  static constexpr int64_t kWaiting = 2 * kBlock;

  // What waits, and room for a column and the sums of a row of P.
  struct Waiting {
    T *p, *r, *column, *sums;
  };

  void reduce(Room room) const {
    const Waiting w{room.take<T>(m * kWaiting), room.take<T>(kWaiting * ld), room.take<T>(m),
                    room.take<T>(kWaiting)};
    for (int64_t i = 0; i < kWaiting * ld; ++i) w.r[i] = T(0);
    for (int64_t c = 0; c < n; c += kBlock) {
      const int64_t count = min64(kBlock, n - c), next = c + count;
      for (int64_t i = c * kWaiting; i < m * kWaiting; ++i) w.p[i] = T(0);
      for (int64_t j = 0; j < count; ++j) {
        column(w, c + j, 2 * j);
        if (c + j + 1 < n) row(w, c + j, 2 * j + 1);
      }
      if (next == n) return;
      subtract_product(m - next, n - next, kWaiting, Seen<T>{w.p + next * kWaiting, kWaiting, 1},
                       w.r + next, ld, a + next * ld + next, ld, room);
    }
  }

  // Column k up to date and reflected; row `waits` of R is what that makes of the other columns.
  void column(const Waiting& w, int64_t k, int64_t waits) const {
    for (int64_t q = 0; q < kWaiting; ++q) w.sums[q] = q < waits ? w.r[q * ld + k] : T(0);
    for (int64_t i = k; i < m; ++i) {
      w.column[i] = a[i * ld + k] - dot(w.p + i * kWaiting, w.sums, kWaiting);
    }
    left[k] = reflect_row(w.column + k, m - k);
    d[k] = w.column[k];
    w.column[k] = T(1);
    e[k] = right[k] = T(0);
    for (int64_t i = k; i < m; ++i) a[i * ld + k] = w.column[i];
    if (k + 1 == n) return;
    const int64_t from = (k + 1) / kPanel * kPanel, wide = round_up(n, kPanel) - from;
    T* const y = w.r + waits * ld;
    sum_of_rows(a + from, ld, k, m, wide, w.column, y + from);
    sum_of_rows(w.p, kWaiting, k, m, kWaiting, w.column, w.sums);
    for (int64_t q = 0; q < waits; ++q) add_row(-w.sums[q], w.r + q * ld + from, y + from, wide);
    for (int64_t j = from; j < from + wide; ++j) y[j] = j > k ? y[j] * left[k] : T(0);
    for (int64_t i = k; i < m; ++i) w.p[i * kWaiting + waits] = w.column[i];
  }

  // Row k up to date and reflected; column `waits` of P is what that makes of the other rows.
  void row(const Waiting& w, int64_t k, int64_t waits) const {
    const int64_t from = (k + 1) / kPanel * kPanel, wide = round_up(n, kPanel) - from;
    T *const row = a + k * ld, *const u = w.r + waits * ld;
    for (int64_t j = from; j < from + wide; ++j) u[j] = row[j];
    for (int64_t q = 0; q < waits; ++q) {
      add_row(-w.p[k * kWaiting + q], w.r + q * ld + from, u + from, wide);
    }
    right[k] = reflect_row(u + k + 1, n - k - 1);
    e[k] = u[k + 1];
    u[k + 1] = T(1);
    for (int64_t j = from; j <= k; ++j) u[j] = T(0);
    for (int64_t j = k + 1; j < n; ++j) row[j] = u[j];
    rows_times(a + from, ld, k + 1, m, wide, u + from, w.column);
    for (int64_t q = 0; q < kWaiting; ++q) {
      w.sums[q] = q < waits ? dot(w.r + q * ld + from, u + from, wide) : T(0);
    }
    for (int64_t i = k + 1; i < m; ++i) {
      T* const p = w.p + i * kWaiting;
      p[waits] = right[k] * (w.column[i] - dot(p, w.sums, kWaiting));
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_BIDIAGONAL_H_
