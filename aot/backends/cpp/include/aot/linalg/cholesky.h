// A = L L^T of symmetric positive definite matrices, of which the lower triangle is read.
#ifndef AOT_LINALG_CHOLESKY_H_
#define AOT_LINALG_CHOLESKY_H_

#include "aot/linalg/triangular.h"

namespace aot::linalg {

// U^T U of a block of at most a panel, in the upper triangle; 0, or the number of the first column
// whose pivot is not positive, where the block is left.
template <class T>
int64_t cholesky_block(T* a, int64_t ld, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    T* const row = a + k * ld;
    if (!(row[k] > T(0))) return k + 1;
    const T pivot = sqrt(row[k]);
    row[k] = pivot;
    for (int64_t j = k + 1; j < n; ++j) row[j] /= pivot;
    for (int64_t i = k + 1; i < n; ++i) {
      for (int64_t j = i; j < n; ++j) a[i * ld + j] -= row[i] * row[j];
    }
  }
  return 0;
}

// The same for any size, by halves.
template <class T>
int64_t cholesky_upper(T* a, int64_t ld, int64_t n, Room room) {
  if (n <= kPanel) return cholesky_block(a, ld, n);
  const int64_t half = round_up(n / 2, kPanel), rest = n - half;
  const int64_t wrong = cholesky_upper(a, ld, half, room);
  if (wrong) return wrong;
  T* const beside = a + half;
  solve_triangle<Triangle<false, false>>(Seen<T>{a, 1, ld}, half, beside, ld, rest, room);
  T* const last = a + half * ld + half;
  subtract_product<true>(rest, rest, half, Seen<T>{beside, 1, ld}, beside, ld, last, ld, room);
  const int64_t later = cholesky_upper(last, ld, rest, room);
  return later ? half + later : 0;
}

// Side by side, in the lower triangle; `info` is as above, in each lane.
template <class T>
Lanes<T> cholesky_lanes(LaneMatrix<T> a, int64_t n) {
  using V = Lanes<T>;
  V info(T(0));
  for (int64_t j = 0; j < n; ++j) {
    V pivot = a.get(j, j);
    for (int64_t k = 0; k < j; ++k) {
      const V x = a.get(j, k);
      pivot = fnma(x, x, pivot);
    }
    const auto good = pivot > V(T(0));
    info = select((info == V(T(0))) & ~good, V(T(j + 1)), info);
    pivot = sqrt(pivot);
    a.set(j, j, pivot);
    const V factor = V(T(1)) / pivot;
    for (int64_t i = j + 1; i < n; ++i) {
      V sum = a.get(i, j);
      for (int64_t k = 0; k < j; ++k) sum = fnma(a.get(i, k), a.get(j, k), sum);
      a.set(i, j, sum * factor);
    }
  }
  return info;
}

// Record: L by rows, info.
template <class Cfg>
struct Cholesky : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.n, p.n, record);
    const LaneMatrix<T> a{record, p.n};
    const Lanes<T> info = cholesky_lanes(a, p.n);
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t j = i + 1; j < p.n; ++j) a.set(i, j, Lanes<T>(T(0)));
    }
    a.set(p.n, 0, info);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n, ld = leading(n);
    T* const a = room.take<T>(n * ld);
    const Seen<T> seen = p.matrix_a(matrix);
    copy_in(Seen<T>{seen.at, seen.col, seen.row}, n, n, a, ld);
    const int64_t info = cholesky_upper(a, ld, n, room);
    constexpr int64_t kTile = 32;
    for (int64_t i0 = 0; i0 < n; i0 += kTile) {
      for (int64_t j0 = 0; j0 < n; j0 += kTile) {
        for (int64_t i = i0; i < min64(n, i0 + kTile); ++i) {
          for (int64_t j = j0; j < min64(n, j0 + kTile); ++j) {
            record[i * n + j] = j <= i ? a[j * ld + i] : T(0);
          }
        }
      }
    }
    record[n * n] = T(info);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_CHOLESKY_H_
