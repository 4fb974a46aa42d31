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

// Record: w, and but for VALUES V by rows, with eigenvectors as its columns.
template <class Cfg>
struct Eigh : Finished {
  using T = typename Cfg::A;

  static void by_steps(LaneMatrix<T> a, LaneMatrix<T> v, LaneRow<T> d, Room room) {
    const int64_t row = a.columns * kLanes<T>;
    const LaneRow<T> e{room.take<T>(row)}, tau{room.take<T>(row)}, w{room.take<T>(row)};
    tridiagonalise_lanes(a, d, e, tau, w);
    if (v.at) join_lanes(a, tau, v);
    LaneValues<T>{d, e, tau, w, v}.find();
  }

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const int64_t n = p.n;
    const LaneMatrix<T> a{room.take<T>(n * n * kLanes<T>), n};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, n, n, a.at);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) a.set(i, j, a.get(j, i));
    }
    LaneMatrix<T> v{Cfg::VALUES ? nullptr : record + n * kLanes<T>, n};
    if (n > kRotated) return by_steps(a, v, LaneRow<T>{record}, room);
    if (v.at) make_identity(v);
    jacobi_lanes(a, v);
    for (int64_t i = 0; i < n; ++i) store(record + i * kLanes<T>, a.get(i, i));
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix).turned(), p.n, p.n, a); };
    LargeEigh<Dense<T>, Cfg::VALUES>{p.n}.find(in, record, room);
  }

  // Ascending values, and vectors as columns.
  template <class Args>
  static void finish(const Args& p, T* record) {
    const int64_t n = p.n;
    if (!p.small()) return;
    T* const v = record + n;
    for (int64_t i = 0; i < n; ++i) {
      int64_t least = i;
      for (int64_t k = i + 1; k < n; ++k) least = record[k] < record[least] ? k : least;
      if (least == i) continue;
      const T held = record[i];
      record[i] = record[least];
      record[least] = held;
      if (!Cfg::VALUES) swap_rows(v + i * n, v + least * n, n);
    }
    if (!Cfg::VALUES) transpose(v, n);
  }

  static void transpose(T* v, int64_t n) {
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
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIGH_H_
