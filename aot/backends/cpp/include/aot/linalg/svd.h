// A = U diag(s) V^T of matrices with at least as many rows as columns; s descends.
//
// Small matrices side by side: columns of A, which lie as rows in scratch, are rotated until they
// are orthogonal (one-sided Jacobi, begun as svd_start.h says); then they are U diag(s), and the
// rotations' product is V^T.
// Values alone, and one matrix, by way of a bidiagonal one (svdvals_lanes.h, large_svd.h).
#ifndef AOT_LINALG_SVD_H_
#define AOT_LINALG_SVD_H_

#include "aot/linalg/large_svd.h"
#include "aot/linalg/svd_start.h"
#include "aot/linalg/svdvals_lanes.h"

namespace aot::linalg {

// Of two rows: squares of their lengths, and their product.
template <class T>
struct RowPair {
  Lanes<T> own, other, between;
};
// In parts that need not wait for each other.
template <class T>
AOT_INLINE RowPair<T> row_pair(LaneMatrix<T> w, int64_t x, int64_t y) {
  using V = Lanes<T>;
  const V zero(T(0));
  V own[2] = {zero, zero}, other[2] = {zero, zero}, between[2] = {zero, zero};
  int64_t j = 0;
  for (; j + 2 <= w.columns; j += 2) {
    AOT_UNROLL for (int k = 0; k < 2; ++k) {
      const V p = w.get(x, j + k), q = w.get(y, j + k);
      own[k] = fma(p, p, own[k]);
      other[k] = fma(q, q, other[k]);
      between[k] = fma(p, q, between[k]);
    }
  }
  if (j < w.columns) {
    const V p = w.get(x, j), q = w.get(y, j);
    own[0] = fma(p, p, own[0]);
    other[0] = fma(q, q, other[0]);
    between[0] = fma(p, q, between[0]);
  }
  return {own[0] + own[1], other[0] + other[1], between[0] + between[1]};
}

// Rows of w made orthogonal; those of v, if there is one, are rotated along.
template <class T>
void make_orthogonal(LaneMatrix<T> w, int64_t rows, LaneMatrix<T> v) {
  using V = Lanes<T>;
  const V small(rounding<T>() * sqrt(T(w.columns)));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t x = 0; x < rows; ++x) {
      for (int64_t y = x + 1; y < rows; ++y) {
        const RowPair<T> pair = row_pair(w, x, y);
        const auto turns = abs(pair.between) > small * (sqrt(pair.own) * sqrt(pair.other));
        if (!any(turns)) continue;
        turned = true;
        const Rotation<V> r = rotation(pair.own, pair.other, pair.between, turns);
        rotate_rows(w, x, y, r);
        if (v.at) rotate_rows(v, x, y, r);
      }
    }
    if (!turned) return;
  }
}

// The greatest size of an element, or 1 where it is 0: sums of squares are of parts of it.
template <class M>
auto scale_of(M a, int64_t rows) {
  using V = decltype(a.get(0, 0));
  using T = typename V::Elem;
  V most(T(0));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) most = maximum(most, abs(a.get(i, j)));
  }
  most = select(most == V(T(0)), V(T(1)), most);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) a.set(i, j, a.get(i, j) / most);
  }
  return most;
}

// Record: s, and but for VALUES U^T (n x m) and V^T (n x n) by rows.
template <class Cfg>
struct Svd : Finished {
  static constexpr bool kFinished = false;
  using T = typename Cfg::A;

  template <class M>
  static void run(M w, int64_t n, M v, M s, Room room) {
    const auto scale = scale_of(w, n);
    if (v.at && n >= kBegun) {
      begin_with_squares(w, n, v, room);
    } else if (v.at) {
      make_identity(v);
    }
    make_orthogonal(w, n, v);
    for (int64_t i = 0; i < n; ++i) s.set(i, 0, scale * sqrt(row_product(w, i, i)));
  }

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using M = LaneMatrix<T>;
    const int64_t n = p.n, m = p.m;
    if (Cfg::VALUES && n > kOrthogonal) return values(p, first, lanes, record, room);
    T* const behind = record + n * kLanes<T>;
    T* const w = Cfg::VALUES ? room.take<T>(m * n * kLanes<T>) : behind;
    const Seen<T> a = p.matrix_a(first);
    gather_lanes(Seen<T>{a.at, a.col, a.row}, p.a_batch, lanes, n, m, w);
    run(M{w, m}, n, M{Cfg::VALUES ? nullptr : behind + n * m * kLanes<T>, n}, M{record, 1}, room);
  }

  template <class Args>
  static void values(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const LaneMatrix<T> a{room.take<T>(p.m * p.n * kLanes<T>), p.n};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, a.at);
    const Lanes<T> scale = scale_of(a, p.m);
    singular_values_lanes(a, p.m, scale, LaneRow<T>{record}, room);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix), p.m, p.n, a); };
    LargeSvd<Dense<T>, Cfg::VALUES>{p.m, p.n}.find(in, record, room);
  }

  // Descending values; rows of U^T of length 1, any orthogonal ones where a value is 0.
  template <class Args>
  static void finish(const Args& p, T* s) {
    const int64_t n = p.n, m = p.m;
    if (!p.small()) return;
    T *const u = s + n, *const v = u + n * m;
    sort_descending(s, n, [&](int64_t i, int64_t k) {
      if (Cfg::VALUES) return;
      swap_rows(u + i * m, u + k * m, m);
      swap_rows(v + i * n, v + k * n, n);
    });
    if (Cfg::VALUES) return;
    for (int64_t i = 0; i < n; ++i) {
      const T size = sqrt(dot(u + i * m, u + i * m, m));
      const bool none = size <= T(0) || s[i] <= rounding<T>() * rounding<T>() * s[0];
      if (none && size < T(0.5)) {  // else it has a direction of its own
        fill(u, i, m);
      } else {
        for (int64_t j = 0; j < m; ++j) u[i * m + j] /= size;
      }
    }
  }

  // Row i of length 1, orthogonal to those before: a unit vector without its parts along them.
  static void fill(T* u, int64_t i, int64_t m) {
    T* const row = u + i * m;
    for (int64_t unit = 0; unit < m; ++unit) {
      for (int64_t j = 0; j < m; ++j) row[j] = j == unit ? T(1) : T(0);
      for (int again = 0; again < 2; ++again) {
        for (int64_t k = 0; k < i; ++k) add_row(-dot(u + k * m, row, m), u + k * m, row, m);
      }
      const T size = sqrt(dot(row, row, m));
      if (size * size * T(2 * m) < T(1)) continue;  // some unit vector keeps 1 / sqrt(m)
      for (int64_t j = 0; j < m; ++j) row[j] /= size;
      return;
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SVD_H_
