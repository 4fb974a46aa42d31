// One symmetric matrix as Q T Q^T, T tridiagonal, by reflections in blocks.
//
// The rest of the matrix is read once for each reflection, and changed once for a block of them
// (Dongarra, Sorensen, Hammarling 1989). Only what is right of the diagonal is used, and rows are
// read from whole vectors on, so that loads are aligned.
#ifndef AOT_LINALG_TRIDIAGONAL_H_
#define AOT_LINALG_TRIDIAGONAL_H_

#include "aot/linalg/turn_back.h"

namespace aot::linalg {

inline constexpr int64_t kBlock = 32;  // reflections whose change waits; in template_library.py

// w (from the vector of row `first` on) = A v, A symmetric, v zero before `first`. Rows go upwards
// or downwards: whoever goes back first meets what the cache still has.
template <class T>
void symmetric_times(const T* a, int64_t ld, int64_t first, int64_t n, bool down, const T* v,
                     T* w) {
  constexpr int64_t kWide = native_lanes<T>(), kRows = 4;
  static_assert(kPanel % kRows == 0);
  using V = Vec<T, int(kWide)>;
  const int64_t begin = first / kRows * kRows, all = round_up(n, kPanel);
  for (int64_t j = begin / kWide * kWide; j < all; j += kWide) store(w + j, V(T(0)));
  const int64_t blocks = ceil_div(n - begin, kRows);
  const V lane = iota<T, int(kWide)>();
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t i = begin + (down ? blocks - 1 - step : step) * kRows;
    const int64_t rows = min64(kRows, n - i);
    if (rows < kRows) {
      for (int64_t p = i; p < n; ++p) {
        w[p] += a[p * ld + p] * v[p];
        for (int64_t q = p + 1; q < n; ++q) {
          w[p] += a[p * ld + q] * v[q];
          w[q] += a[p * ld + q] * v[p];
        }
      }
      continue;
    }
    const T* const row = a + i * ld;
    V sums[kRows], by[kRows];
    AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
      sums[r] = V(T(0));
      by[r] = V(v[i + r]);
    }
    // Vectors that the diagonal crosses: what is right of it, and the diagonal itself.
    int64_t j = i / kWide * kWide;
    for (; j < i + kRows; j += kWide) {
      const V x = load<T, int(kWide)>(v + j), at = lane + V(T(j));
      V y = load<T, int(kWide)>(w + j);
      AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
        const V own = load<T, int(kWide)>(row + r * ld + j), place(T(i + r));
        const V behind = select(at > place, own, V(T(0)));
        sums[r] = fma(select(at >= place, own, V(T(0))), x, sums[r]);
        y = fma(behind, by[r], y);
      }
      store(w + j, y);
    }
    for (; j < all; j += kWide) {
      const V x = load<T, int(kWide)>(v + j);
      V y = load<T, int(kWide)>(w + j);
      AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) {
        const V own = load<T, int(kWide)>(row + r * ld + j);
        sums[r] = fma(own, x, sums[r]);
        y = fma(own, by[r], y);
      }
      store(w + j, y);
    }
    AOT_UNROLL for (int64_t r = 0; r < kRows; ++r) w[i + r] += reduce_sum(sums[r]);
  }
}

// a (rows `ld` apart, whole panels, zeros beside it) becomes tridiagonal, d and e. Rows of a keep
// the reflections, from their 1 beside the diagonal on.
template <class T>
struct Tridiagonal {
  T* a;
  int64_t ld, n;
  T *d, *e, *tau;

  // Rows of what the matrix is changed by: a -= v w^T + w v^T for all that wait. v lie twice, so
  // that (v, w) and (w, v) are rows that follow each other.
  struct Waiting {
    T* rows;
    int64_t ld;
    T* v(int64_t j) const { return rows + j * ld; }
    T* w(int64_t j) const { return rows + (kBlock + j) * ld; }
    T* again(int64_t j) const { return rows + (2 * kBlock + j) * ld; }
  };

  void reduce(Room room) const {
    const Waiting r{room.take<T>(3 * kBlock * ld), ld};
    for (int64_t i = 0; i < 3 * kBlock * ld; ++i) r.rows[i] = T(0);
    for (int64_t c = 0; c < n; c += kBlock) {
      const int64_t count = min64(kBlock, n - c), next = c + count;
      for (int64_t j = 0; j < count; ++j) step(r, c + j, j);
      if (next < n) change(r, next, room);
    }
  }

  // The change of all that waits, from row and column `next` on.
  void change(const Waiting& r, int64_t next, Room room) const {
    const int64_t rest = n - next, wide = 2 * kBlock;
    T* const left = room.take<T>(rest * wide);
    copy_in(Seen<T>{r.w(0) + next, 1, ld}, rest, wide, left, wide);
    subtract_product<true>(rest, rest, wide, Seen<T>{left, wide, 1}, r.v(0) + next, ld,
                           a + next * ld + next, ld, room);
  }

  // Row k, the j-th of its block: brought up to date, reflected, and what that changes.
  void step(const Waiting& r, int64_t k, int64_t j) const {
    T* const row = a + k * ld;
    const int64_t begin = k / kPanel * kPanel, all = round_up(n, kPanel) - begin;
    for (int64_t i = 0; i < j; ++i) {
      add_row(-r.v(i)[k], r.w(i) + begin, row + begin, all);
      add_row(-r.w(i)[k], r.v(i) + begin, row + begin, all);
    }
    d[k] = row[k];
    e[k] = tau[k] = T(0);
    const int64_t rest = n - k - 1;
    if (rest == 0) return;
    tau[k] = reflect_row(row + k + 1, rest);
    e[k] = row[k + 1];
    row[k + 1] = T(1);
    T *const v = r.v(j), *const w = r.w(j), *const again = r.again(j);
    for (int64_t i = begin; i < begin + all; ++i) v[i] = again[i] = i > k ? row[i] : T(0);
    symmetric_times(a, ld, k + 1, n, k % 2 == 1, v, w);
    const int64_t from = (k + 1) / kPanel * kPanel, wide = begin + all - from;
    for (int64_t i = 0; i < j; ++i) {
      const T along_w = dot(r.w(i) + from, v + from, wide);
      const T along_v = dot(r.v(i) + from, v + from, wide);
      add_row(-along_w, r.v(i) + from, w + from, wide);
      add_row(-along_v, r.w(i) + from, w + from, wide);
    }
    for (int64_t i = from; i < from + wide; ++i) w[i] *= tau[k];
    add_row(-tau[k] / 2 * dot(w + from, v + from, wide), v + from, w + from, wide);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_TRIDIAGONAL_H_
