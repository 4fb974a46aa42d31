// What reflections do to vectors that lie as rows, in blocks: the way back from the vectors of a
// tridiagonal or bidiagonal matrix to those of the matrix that it was made of.
#ifndef AOT_LINALG_TURN_BACK_H_
#define AOT_LINALG_TURN_BACK_H_

#include "aot/linalg/jacobi.h"
#include "aot/linalg/qr.h"

namespace aot::linalg {

inline constexpr int64_t kTurned = 64;  // reflections at once; in template_library.py

// The reflection of a contiguous row, as `reflect`, whose squares are mostly plain numbers.
template <class T>
T reflect_row(T* x, int64_t n) {
  const T square = dot(x + 1, x + 1, n - 1);
  const T least = sizeof(T) == 8 ? T(1e-200) : T(1e-20), most = T(1) / least;
  if (!(square > least && square < most && abs(x[0]) < sqrt(most))) return reflect(x, 1, n);
  const T first = x[0], size = sqrt(first * first + square), beta = first >= T(0) ? -size : size;
  const T by = T(1) / (first - beta);
  constexpr int kWide = native_lanes<T>();
  int64_t j = 1;
  for (; j + kWide <= n; j += kWide) store(x + j, load<T, kWide>(x + j) * Vec<T, kWide>(by));
  for (; j < n; ++j) x[j] *= by;
  x[0] = beta;
  return (beta - first) / beta;
}

// One block of reflections, as I - V S V^T: V by columns and by rows, and S turned.
template <class T>
struct TurnedBlock {
  T *columns, *rows, *s;  // width x count, count x width, count x count
  int64_t width, count, ld, s_ld;

  // Reflection k is (1 at k, from.get(i, k) below it).
  TurnedBlock(Seen<T> from, const T* tau, int64_t width_, int64_t count_, Room& room)
      : width(width_), count(count_), ld(leading(width_)), s_ld(leading(count_)) {
    columns = room.take<T>(width * s_ld);
    rows = room.take<T>(count * ld);
    s = room.take<T>(count * s_ld);
    copy_in(from, width, count, columns, s_ld);
    for (int64_t i = 0; i < min64(count, width); ++i) {
      columns[i * s_ld + i] = T(1);
      for (int64_t k = i + 1; k < count; ++k) columns[i * s_ld + k] = T(0);
    }
    copy_in(Seen<T>{columns, 1, s_ld}, count, width, rows, ld);
    for (int64_t k = 0; k < count; ++k) tmpl::zero_row(s + k * s_ld, round_up(count, kPanel));
    subtract_product(count, count, width, Seen<T>{rows, ld, 1}, columns, s_ld, s, s_ld, room);
    // s is -V^T V; column k of S is tau_k times S's columns before it times that, here by rows.
    T* const mine = room.take<T>(count);
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t i = 0; i < k; ++i) mine[i] = tau[k] * s[k * s_ld + i];
      T* const row = s + k * s_ld;
      for (int64_t i = 0; i < round_up(count, kPanel); ++i) row[i] = T(0);
      for (int64_t j = 0; j < k; ++j) add_row(mine[j], s + j * s_ld, row, j + 1);
      row[k] = tau[k];
    }
  }

  // Rows of c times the block's transpose: c -= (c V) S^T V^T.
  void apply(T* c, int64_t c_ld, int64_t vectors, Room room) const {
    T* const along = room.take<T>(vectors * s_ld);
    T* const by = room.take<T>(vectors * s_ld);
    for (int64_t i = 0; i < vectors; ++i) {
      tmpl::zero_row(along + i * s_ld, round_up(count, kPanel));
      tmpl::zero_row(by + i * s_ld, round_up(count, kPanel));
    }
    subtract_product(vectors, count, width, Seen<T>{c, c_ld, 1}, columns, s_ld, along, s_ld, room);
    subtract_product(vectors, count, count, Seen<T>{along, s_ld, 1}, s, s_ld, by, s_ld, room);
    subtract_product(vectors, width, count, Seen<T>{by, s_ld, 1}, rows, ld, c, c_ld, room);
  }
};

// Rows of c (`vectors` of `width`; whole panels may be written behind them) become H_0 H_1 ... of
// `count` reflections times them, each a vector.
template <class T>
void turn_back(Seen<T> from, const T* tau, int64_t width, int64_t count, T* c, int64_t c_ld,
               int64_t vectors, Room room) {
  for (int64_t k = (count - 1) / kTurned * kTurned; k >= 0; k -= kTurned) {
    Room own = room;
    const TurnedBlock<T> block(from.from(k, k), tau + k, width - k, min64(kTurned, count - k), own);
    block.apply(c + k, c_ld, vectors, own);
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_TURN_BACK_H_
