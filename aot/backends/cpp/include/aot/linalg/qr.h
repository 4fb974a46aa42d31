// A = Q R by Householder's reflections, H = I - tau v v^T with v = (1, ...), below R's diagonal.
#ifndef AOT_LINALG_QR_H_
#define AOT_LINALG_QR_H_

#include "aot/linalg/large_qr.h"

namespace aot::linalg {

// Side by side; `a` is turned in its place, taus go to `tau`.
template <class T>
void reflect_lanes(LaneMatrix<T> a, int64_t rows, T* tau) {
  using V = Lanes<T>;
  const V zero(T(0)), one(T(1));
  for (int64_t k = 0; k < min64(rows, a.columns); ++k) {
    V most = zero;
    for (int64_t i = k + 1; i < rows; ++i) most = maximum(most, abs(a.get(i, k)));
    const auto still = most == zero;
    const V first = a.get(k, k);
    most = select(still, one, maximum(most, abs(first)));
    V sum = zero;
    for (int64_t i = k; i < rows; ++i) {
      const V part = a.get(i, k) / most;
      sum = fma(part, part, sum);
    }
    const V size = most * sqrt(sum);
    const V beta = select(still, first, select(first >= zero, -size, size));
    const V below = one / select(still, one, first - beta);
    const V by = select(still, zero, (beta - first) / select(still, one, beta));
    store(tau + k * kLanes<T>, by);
    a.set(k, k, beta);
    for (int64_t i = k + 1; i < rows; ++i) a.set(i, k, a.get(i, k) * below);
    for (int64_t j = k + 1; j < a.columns; ++j) {
      V along = a.get(k, j);
      for (int64_t i = k + 1; i < rows; ++i) along = fma(a.get(i, k), a.get(i, j), along);
      along = along * by;
      a.set(k, j, a.get(k, j) - along);
      for (int64_t i = k + 1; i < rows; ++i) a.set(i, j, fnma(a.get(i, k), along, a.get(i, j)));
    }
  }
}

// Record: R and the reflections by rows (m x n), taus.
template <class Cfg>
struct Qr : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, record);
    reflect_lanes(LaneMatrix<T>{record, p.n}, p.m, record + p.m * p.n * kLanes<T>);
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
    using V = Lanes<T>;
    const int64_t m = p.m - 1, k_all = min64(m, p.n);
    const LaneMatrix<T> a{room.take<T>(p.m * p.n * kLanes<T>), p.n}, c{record, p.r};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, a.at);
    gather_lanes(p.matrix_b(first), p.b_batch, lanes, m, p.r, record);
    for (int64_t step = 0; step < k_all; ++step) {
      const int64_t k = Cfg::BACK ? step : k_all - 1 - step;
      const V tau = a.get(m, k);
      for (int64_t j = 0; j < p.r; ++j) {
        V along = c.get(k, j);
        for (int64_t i = k + 1; i < m; ++i) along = fma(a.get(i, k), c.get(i, j), along);
        along = along * tau;
        c.set(k, j, c.get(k, j) - along);
        for (int64_t i = k + 1; i < m; ++i) c.set(i, j, fnma(a.get(i, k), along, c.get(i, j)));
      }
    }
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
