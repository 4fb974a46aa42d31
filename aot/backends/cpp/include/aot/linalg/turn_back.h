// What reflections do to vectors that lie as rows, in blocks: the way back from the vectors of a
// tridiagonal, bidiagonal or Schur's matrix to those of the matrix that it was made of.
#ifndef AOT_LINALG_TURN_BACK_H_
#define AOT_LINALG_TURN_BACK_H_

#include "aot/linalg/reflect.h"

namespace aot::linalg {

inline constexpr int64_t kTurned = 64;  // reflections at once; in template_library.py

// One block of reflections, as I - V S V^H: conjugates of V by columns, V by rows, and S turned.
template <class M>
struct TurnedBlock {
  using N = typename M::Number;
  M columns, rows, s;  // width x count, count x width, count x count
  int64_t width, count;

  // Reflection k is (1 at k, from.get(i, k) below it), its tau is tau.get(0, k).
  template <class From>
  TurnedBlock(From from, M tau, int64_t width_, int64_t count_, Room& room)
      : columns(take_dense<M>(width_, count_, room)),
        rows(take_dense<M>(count_, width_, room)),
        s(take_dense<M>(count_, count_, room)),
        width(width_),
        count(count_) {
    const N one = Real<N>::number(1), none = Real<N>::number(0);
    copy_in(from, width, count, columns);
    for (int64_t i = 0; i < min64(count, width); ++i) {
      columns.set(i, i, one);
      for (int64_t k = i + 1; k < count; ++k) columns.set(i, k, none);
    }
    copy_in(columns.seen().turned(), count, width, rows);
    conjugate_rows(columns, width, count);
    for (int64_t k = 0; k < count; ++k) zero_row(s, k, count);
    subtract_product(count, count, width, rows.seen(), columns, s, room);
    // s has -V^H v_k as row k; column k of S is tau_k times S's columns before it times that.
    M mine = take_dense<M>(1, count, room);
    for (int64_t k = 0; k < count; ++k) {
      const N by = tau.get(0, k);
      for (int64_t i = 0; i < k; ++i) mine.set(0, i, by * s.get(k, i));
      zero_row(s, k, count);
      for (int64_t j = 0; j < k; ++j) add_row(mine.get(0, j), s.line(j, 0), s.line(k, 0), j + 1);
      s.set(k, k, by);
    }
  }

  // Rows of c times the block's transpose: c -= (c conj(V)) S^T V^T.
  void apply(M c, int64_t vectors, Room room) const {
    const M along = take_dense<M>(vectors, count, room), by = take_dense<M>(vectors, count, room);
    for (int64_t i = 0; i < vectors; ++i) {
      zero_row(along, i, count);
      zero_row(by, i, count);
    }
    subtract_product(vectors, count, width, c.seen(), columns, along, room);
    subtract_product(vectors, count, count, along.seen(), s, by, room);
    subtract_product(vectors, width, count, by.seen(), rows, c, room);
  }
};

// Rows of c (`vectors` of `width`; whole panels may be written behind them) become H_0 H_1 ... of
// `count` reflections times them, each a vector.
template <class M, class From>
void turn_back(From from, M tau, int64_t width, int64_t count, M c, int64_t vectors, Room room) {
  for (int64_t k = (count - 1) / kTurned * kTurned; k >= 0; k -= kTurned) {
    Room own = room;
    const TurnedBlock<M> block(from.from(k, k), tau.from(0, k), width - k,
                               min64(kTurned, count - k), own);
    block.apply(c.from(0, k), vectors, own);
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_TURN_BACK_H_
