// A = U B V^H by reflections in blocks, B real and bidiagonal: of one matrix that is too large for
// lanes.
#ifndef AOT_LINALG_BIDIAGONAL_H_
#define AOT_LINALG_BIDIAGONAL_H_

#include "aot/linalg/tridiagonal.h"

namespace aot::linalg {

// B's diagonal d and what is right of it, e; the reflections of columns below a's diagonal, those
// of rows right of the element beside it, and rows of their taus. As in tridiagonal.h, a block of
// reflections changes the rest of the matrix once: a -= P R for all that wait, P by rows with
// 2 kBlock columns, which are reflections of columns and products with those of rows in turn, R the
// products and the others.
template <class M>
struct Bidiagonal {
  using N = typename M::Number;
  using T = typename M::Element;
  M a;
  int64_t m, n;
  T *d, *e;
  M left, right;

  static constexpr int64_t kWaiting = 2 * kBlock;
  static AOT_INLINE N none() { return Real<N>::number(0); }

  // What waits, room for a column, for the sums of a row of P, and for a row's reflection.
  struct Waiting {
    M p, r, column, sums, u;
  };

  void reduce(Room room) const {
    const Waiting w{take_dense<M>(m, kWaiting, room), take_dense<M>(kWaiting, n, room),
                    take_dense<M>(1, m, room), take_dense<M>(1, kWaiting, room),
                    take_dense<M>(1, n, room)};
    for (int64_t i = 0; i < kWaiting; ++i) zero_row(w.r, i, n);
    for (int64_t c = 0; c < n; c += kBlock) {
      const int64_t count = min64(kBlock, n - c), next = c + count;
      for (int64_t i = c; i < m; ++i) zero_row(w.p, i, kWaiting);
      for (int64_t j = 0; j < count; ++j) {
        column(w, c + j, 2 * j);
        if (c + j + 1 < n) row(w, c + j, 2 * j + 1);
      }
      if (next == n) return;
      subtract_product(m - next, n - next, kWaiting, w.p.from(next, 0).seen(), w.r.from(0, next),
                       a.from(next, next), room);
    }
  }

  // Column k up to date and reflected; row `waits` of R is what that makes of the other columns.
  void column(const Waiting& w, int64_t k, int64_t waits) const {
    for (int64_t q = 0; q < kWaiting; ++q) w.sums.set(0, q, q < waits ? w.r.get(q, k) : none());
    const auto sums = w.sums.line(0, 0);
    for (int64_t i = k; i < m; ++i) {
      w.column.set(0, i, a.get(i, k) - dot<false>(w.p.line(i, 0), sums, kWaiting));
    }
    const N by = reflect_row(w.column.line(0, k), m - k);
    left.set(0, k, by);
    d[k] = real_of(w.column.get(0, k));
    w.column.set(0, k, Real<N>::number(1));
    e[k] = T(0);
    right.set(0, k, none());
    for (int64_t i = k; i < m; ++i) a.set(i, k, w.column.get(0, i));
    if (k + 1 == n) return;
    const int64_t from = (k + 1) / kPanel * kPanel, wide = round_up(n, kPanel) - from;
    const M y = w.r.from(waits, from);
    sum_of_rows(a.from(0, from), k, m, wide, w.column, y);
    sum_of_rows(w.p, k, m, kWaiting, w.column, w.sums);
    for (int64_t q = 0; q < waits; ++q) {
      add_row(-w.sums.get(0, q), w.r.line(q, from), y.line(0, 0), wide);
    }
    scale_row(conjugate(by), y.line(0, 0), wide);
    for (int64_t j = from; j <= k; ++j) y.set(0, j - from, none());
    for (int64_t i = k; i < m; ++i) w.p.set(i, waits, w.column.get(0, i));
  }

  // Row k up to date and reflected; column `waits` of P is what that makes of the other rows.
  void row(const Waiting& w, int64_t k, int64_t waits) const {
    const int64_t from = (k + 1) / kPanel * kPanel, wide = round_up(n, kPanel) - from;
    for (int64_t j = from; j < from + wide; ++j) w.u.set(0, j, a.get(k, j));
    for (int64_t q = 0; q < waits; ++q) {
      add_row(-w.p.get(k, q), w.r.line(q, from), w.u.line(0, from), wide);
    }
    conjugate_rows(w.u.from(0, k + 1), 1, n - k - 1);
    const N by = reflect_row(w.u.line(0, k + 1), n - k - 1);
    right.set(0, k, by);
    e[k] = real_of(w.u.get(0, k + 1));
    w.u.set(0, k + 1, Real<N>::number(1));
    for (int64_t j = from; j <= k; ++j) w.u.set(0, j, none());
    for (int64_t j = k + 1; j < n; ++j) a.set(k, j, w.u.get(0, j));
    for (int64_t j = from; j < from + wide; ++j) w.r.set(waits, j, conjugate(w.u.get(0, j)));
    rows_times(a.from(0, from), k + 1, m, wide, w.u.from(0, from), w.column);
    for (int64_t q = 0; q < kWaiting; ++q) {
      w.sums.set(0, q, q < waits ? dot<false>(w.r.line(q, from), w.u.line(0, from), wide) : none());
    }
    for (int64_t i = k + 1; i < m; ++i) {
      const N along = dot<false>(w.p.line(i, 0), w.sums.line(0, 0), kWaiting);
      w.p.set(i, waits, by * (w.column.get(0, i) - along));
    }
  }
};

// A function of its own, which models share (aot/tmpl/apart.h).
template <class M>
void reduce(const Bidiagonal<M>& matrix, Room room) {
  matrix.reduce(room);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_BIDIAGONAL_H_
