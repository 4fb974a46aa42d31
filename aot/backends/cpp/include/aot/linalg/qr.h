// A = Q R by Householder's reflections, H = I - tau v v^T with v = (1, ...), below R's diagonal.
#ifndef AOT_LINALG_QR_H_
#define AOT_LINALG_QR_H_

#include "aot/linalg/large_qr.h"

namespace aot::linalg {

// Columns that are turned at the same time, so that sums need not wait for each other.
inline constexpr int kTogether = 4;

// Columns j .. j + C - 1 of c = H c, H = I - by v v^H with v below row k of a's column k.
template <int C, class M, class Other>
AOT_INLINE void turn_columns(M a, int64_t k, int64_t rows, typename M::Number by, Other c,
                             int64_t j) {
  using N = typename M::Number;
  N along[C];
  AOT_UNROLL for (int q = 0; q < C; ++q) along[q] = c.get(k, j + q);
  for (int64_t i = k + 1; i < rows; ++i) {
    const N v = conjugate(a.get(i, k));
    AOT_UNROLL for (int q = 0; q < C; ++q) along[q] = more_product(v, c.get(i, j + q), along[q]);
  }
  AOT_UNROLL for (int q = 0; q < C; ++q) {
    along[q] = along[q] * by;
    c.set(k, j + q, c.get(k, j + q) - along[q]);
  }
  for (int64_t i = k + 1; i < rows; ++i) {
    const N v = a.get(i, k);
    AOT_UNROLL for (int q = 0; q < C; ++q) {
      c.set(i, j + q, less_product(v, along[q], c.get(i, j + q)));
    }
  }
}
template <class M, class Other>
AOT_INLINE void turn_lanes(M a, int64_t k, int64_t rows, typename M::Number by, Other c,
                           int64_t j) {
  for (; j + kTogether <= c.columns; j += kTogether) turn_columns<kTogether>(a, k, rows, by, c, j);
  for (; j < c.columns; ++j) turn_columns<1>(a, k, rows, by, c, j);
}

// The reflection of column k from its diagonal on, side by side: its tau.
template <class M>
typename M::Number reflect_column(M a, int64_t k, int64_t rows) {
  using N = typename M::Number;
  using T = typename M::Element;
  using V = Lanes<T>;
  const V zero(T(0)), one(T(1));
  const N first = a.get(k, k);
  V most = imaginary_size(first);
  for (int64_t i = k + 1; i < rows; ++i) most = maximum(most, greatest_size(a.get(i, k)));
  const auto still = most == zero;
  most = maximum(maximum(most, greatest_size(first)), V(least_divisor<T>()));
  most = select(still, one, most);
  const V over = one / most;
  V sum = zero;  // all of parts of the greatest, which are never too small
  for (int64_t i = k; i < rows; ++i) {
    const N part = scaled(over, a.get(i, k));
    a.set(i, k, part);
    sum = more_square(part, sum);
  }
  const N own = a.get(k, k), whole = Real<N>::number(one);
  const V size = sqrt(sum), beta = select(real_of(own) >= zero, -size, size);
  const N distance = own - Real<N>::number(beta), below = whole / select(still, whole, distance);
  a.set(k, k, Real<N>::number(select(still, real_of(first), most * beta)));
  for (int64_t i = k + 1; i < rows; ++i) a.set(i, k, a.get(i, k) * below);
  return select(still, Real<N>::number(zero), -distance / select(still, one, beta));
}

// Side by side; `a` is turned in its place, taus go to the row `tau`.
template <class M>
void reflect_lanes(M a, int64_t rows, M tau) {
  for (int64_t k = 0; k < min64(rows, a.columns); ++k) {
    const auto by = reflect_column(a, k, rows);
    tau.set(0, k, by);
    turn_lanes(a, k, rows, conjugate(by), a, k + 1);
  }
}

// c = H_1 ... H_k c, or H_k^H ... H_1^H c with BACK; a has the reflections below its diagonal, and
// their taus as its row `rows`.
template <bool BACK, class M>
void reflections_lanes(M a, int64_t rows, M c) {
  const int64_t all = min64(rows, a.columns);
  for (int64_t step = 0; step < all; ++step) {
    const int64_t k = BACK ? step : all - 1 - step;
    const auto tau = a.get(rows, k);
    turn_lanes(a, k, rows, BACK ? conjugate(tau) : tau, c, 0);
  }
}

// Record: R and the reflections by rows (m x n), taus.
template <class Cfg>
struct Qr : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    const auto a = p.side(record, p.rows(), p.n);
    gather_lanes(p.operand_a(first), p.batches_a(), lanes, p.rows(), p.n, a);
    T* const taus = record + p.m * p.n * kLanes<T>;
    reflect_lanes(a, p.rows(), p.side(taus, 1, min64(p.rows(), p.n)));
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix), p.m, p.n, a); };
    large_qr<Dense<T>>(p.m, p.n, in, record, room);
  }
};

// Record: H_1 ... H_k B (m x r, B is b), or H_k ... H_1 B with BACK; a has the reflections below
// its diagonal (m x n) and their taus as its last row, which is no part of m.
template <class Cfg>
struct Reflections : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const int64_t rows = p.rows() - 1;
    const auto a = p.side(room.take<T>(p.m * p.n * kLanes<T>), p.rows(), p.n);
    const auto c = p.side(record, rows, p.r);
    gather_lanes(p.operand_a(first), p.batches_a(), lanes, rows + 1, p.n, a);
    gather_lanes(p.operand_b(first), p.batches_b(), lanes, rows, p.r, c);
    reflections_lanes<Cfg::BACK>(a, rows, c);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m - 1, n = p.n, r = p.r;
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix), p.m, n, a); };
    const auto in_b = [&](Dense<T> c) { copy_in(p.matrix_b(matrix), m, r, c); };
    large_reflections<Dense<T>, Cfg::BACK>(m, n, r, in, in_b, record, room);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_QR_H_
