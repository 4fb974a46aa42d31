// A = V diag(w) V^T of symmetric matrices, of which the lower triangle is read; w ascends.
//
// The smallest matrices by Jacobi's rotations, side by side; others by reflections to a tridiagonal
// one, and there by implicit QL steps, side by side (eigh_lanes.h), or by divide and conquer
// (large_eigh.h).
#ifndef AOT_LINALG_EIGH_H_
#define AOT_LINALG_EIGH_H_

#include "aot/linalg/eigh_lanes.h"
#include "aot/linalg/large_eigh.h"

namespace aot::linalg {

inline constexpr int64_t kRotated = 6;  // sizes up to which rotations are quickest

// Diagonal a, and rows of `v` as its eigenvectors if there is one.
template <class T>
void jacobi_lanes(LaneMatrix<T> a, LaneMatrix<T> v) {
  using V = Lanes<T>;
  const int64_t n = a.columns;
  V most(T(0));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) most = maximum(most, abs(a.get(i, j)));
  }
  const V small = most * V(rounding<T>() / T(4));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t x = 0; x < n; ++x) {
      for (int64_t y = x + 1; y < n; ++y) {
        const V between = a.get(x, y);
        const auto turns = abs(between) > small;  // NaN turns nothing
        if (!any(turns)) continue;
        turned = true;
        const Rotation<V> r = rotation(a.get(x, x), a.get(y, y), between, turns);
        rotate_rows(a, x, y, r);
        for (int64_t i = 0; i < n; ++i) {
          const V p = a.get(i, x), q = a.get(i, y);
          a.set(i, x, fnma(r.s, q, r.c * p));
          a.set(i, y, fma(r.s, p, r.c * q));
        }
        const V rest = select(turns, V(T(0)), between);
        a.set(x, y, rest);
        a.set(y, x, rest);
        if (v.at) rotate_rows(v, x, y, r);
      }
    }
    if (!turned) return;
  }
}

// By reflections and QL, side by side.
template <class M, class T>
void steps_lanes(M a, M v, LaneRow<T> d, Room room) {
  const int64_t n = a.columns, row = n * kLanes<T>;
  const auto take = [&](int64_t rows) { return room.take<T>(rows * row); };
  const LaneRow<T> e{take(1)}, cos{take(1)}, sin{take(1)};
  T *const taus = take(M::kParts), *const sums = take(M::kParts);
  const M tau = lanes_at<M>(taus, 1, n), w = lanes_at<M>(sums, 1, n);
  tridiagonalise_lanes(a, d, e, tau, w);
  if (v.part(0).at) join_lanes(a, tau, v);
  LaneValues<M>{d, e, cos, sin, v}.find();
}

template <class T>
void transpose(T* v, int64_t n) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < n; i0 += kTile) {
    for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      for (int64_t i = i0; i < min64(n, i0 + kTile); ++i) {
        for (int64_t j = j0; j < min64(i, j0 + kTile); ++j) {
          const T held = v[i * n + j];
          v[i * n + j] = v[j * n + i];
          v[j * n + i] = held;
        }
      }
    }
  }
}

// Ascending values in a record, and behind them vectors as columns, which are rows yet.
template <int PARTS, bool VALUES, class T>
void ascend(T* record, int64_t n) {
  T* const v = record + n;
  for (int64_t i = 0; i < n; ++i) {
    int64_t least = i;
    for (int64_t k = i + 1; k < n; ++k) least = record[k] < record[least] ? k : least;
    if (least == i) continue;
    const T held = record[i];
    record[i] = record[least];
    record[least] = held;
    for (int64_t p = 0; p < PARTS && !VALUES; ++p) {
      swap_rows(v + (p * n + i) * n, v + (p * n + least) * n, n);
    }
  }
  for (int64_t p = 0; p < PARTS && !VALUES; ++p) transpose(v + p * n * n, n);
}

// Record: w, and but for VALUES V by rows, with eigenvectors as its columns.
template <class Cfg>
struct Eigh : Finished {
  static constexpr bool kFinished = false;
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const int64_t n = p.n;
    const LaneMatrix<T> a{room.take<T>(n * n * kLanes<T>), n};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, n, n, a.at);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) a.set(i, j, a.get(j, i));
    }
    LaneMatrix<T> v{Cfg::VALUES ? nullptr : record + n * kLanes<T>, n};
    if (n > kRotated) return steps_lanes(a, v, LaneRow<T>{record}, room);
    if (v.at) make_identity(v);
    jacobi_lanes(a, v);
    for (int64_t i = 0; i < n; ++i) store(record + i * kLanes<T>, a.get(i, i));
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix).turned(), p.n, p.n, a); };
    LargeEigh<Dense<T>, Cfg::VALUES>{p.n}.find(in, record, room);
  }

  template <class Args>
  static void finish(const Args& p, T* record) {
    if (p.small()) ascend<1, Cfg::VALUES>(record, p.n);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIGH_H_
