// One square matrix as Q H Q^H, H with zeros below its first subdiagonal, by reflections in blocks
// (LAPACK's gehrd and lahr2; Quintana-Orti and van de Geijn 2006).
//
// A block's reflections V, as I - V T V^H, are found in a copy of its columns. Meanwhile the matrix
// is only read, once for each of them, for Y = A V T; then it is changed by products.
#ifndef AOT_LINALG_HESSENBERG_H_
#define AOT_LINALG_HESSENBERG_H_

#include "aot/linalg/reduce_rows.h"
#include "aot/linalg/turn_back.h"

namespace aot::linalg {

inline constexpr int64_t kPending = 32;  // reflections of a block; in template_library.py

// a (zeros beside it) becomes H; below its first subdiagonal it keeps the reflections, whose taus
// `tau` has (n - 1 of them, in a row).
template <class M>
struct Hessenberg {
  using N = typename M::Number;
  M a;
  int64_t n;
  M tau;

  // A block: its columns of a as rows, V and Y by rows, T, and a row for numbers.
  struct Block {
    M columns, v, y, t, held;
  };

  void reduce(Room room) const {
    const Block b{take_dense<M>(kPending, n, room), take_dense<M>(kPending, n, room),
                  take_dense<M>(kPending, n, room), take_dense<M>(kPending, kPending, room),
                  take_dense<M>(2, kPending, room)};
    for (int64_t k = 0; k + 1 < n; k += kPending) {
      const int64_t count = min64(kPending, n - 1 - k);
      copy_in(a.from(0, k).seen().turned(), count, n, b.columns);
      for (int64_t j = 0; j < count; ++j) {
        zero_row(b.v, j, n);
        zero_row(b.y, j, n);
        zero_row(b.t, j, count);
      }
      for (int64_t j = 0; j < count; ++j) step(b, k, j);
      change(b, k, count, room);
    }
  }

  // The j-th column of the block at k: brought up to date, reflected, and what that makes of a.
  void step(const Block& b, int64_t k, int64_t j) const {
    const int64_t c = k + j, from = k + 1, rest = n - from;
    const auto column = b.columns.line(j, 0);
    for (int64_t i = 0; i < j; ++i) {
      add_row(-conjugate(b.v.get(i, c)), b.y.line(i, from), b.columns.line(j, from), rest);
    }
    for (int64_t i = 0; i < j; ++i) {
      b.held.set(0, i, dot<true>(b.v.line(i, from), b.columns.line(j, from), rest));
    }
    for (int64_t i = 0; i < j; ++i) {
      N sum = Real<N>::number(0);
      for (int64_t l = 0; l <= i; ++l) sum = sum + conjugate(b.t.get(l, i)) * b.held.get(0, l);
      add_row(-sum, b.v.line(i, from), b.columns.line(j, from), rest);
    }
    const N by = reflect_row(b.columns.line(j, c + 1), n - c - 1);
    const N beta = b.columns.get(j, c + 1), one = Real<N>::number(1);
    tau.set(0, c, by);
    b.columns.set(j, c + 1, one);
    for (int64_t i = c + 1; i < n; ++i) b.v.set(j, i, b.columns.get(j, i));
    const int64_t begin = (c + 1) / kPanel * kPanel;  // loads are aligned; v has zeros before
    rows_times(a.from(0, begin), from, n, round_up(n, kPanel) - begin, b.v.from(j, begin),
               b.y.from(j, 0));
    for (int64_t i = 0; i < j; ++i) {
      const N along = dot<true>(b.v.line(i, c + 1), b.v.line(j, c + 1), n - c - 1);
      add_row(-along, b.y.line(i, from), b.y.line(j, from), rest);
      b.held.set(0, i, along);
    }
    scale_row(by, b.y.line(j, from), rest);
    for (int64_t i = 0; i < j; ++i) {
      N sum = Real<N>::number(0);
      for (int64_t l = i; l < j; ++l) sum = sum + b.t.get(i, l) * b.held.get(0, l);
      b.t.set(i, j, -(by * sum));
    }
    b.t.set(j, j, by);
    b.columns.set(j, c + 1, beta);
  }

  // a becomes (I - V T V^H)^H a (I - V T V^H).
  void change(const Block& b, int64_t k, int64_t count, Room room) const {
    above(b, k, count, room);
    const int64_t next = k + count;
    const M turned = take_dense<M>(count, n, room);  // conj(V)
    copy_in(b.v.seen(), count, n, turned);
    conjugate_rows(turned, count, n);
    subtract_product(n, n - k, count, b.y.seen().turned(), turned.from(0, k), a.from(0, k), room);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t i = k + 1; i < n; ++i) {
        const bool reflection = i > k + j + 1;  // else an element of H
        a.set(i, k + j, reflection ? b.v.get(j, i) : b.columns.get(j, i));
      }
    }
    const int64_t wide = n - next, rest = n - k - 1;
    if (wide <= 0) return;
    const M along = take_dense<M>(count, wide, room), by = take_dense<M>(count, wide, room);
    const M v = take_dense<M>(rest, count, room);
    for (int64_t j = 0; j < count; ++j) {
      zero_row(along, j, wide);
      zero_row(by, j, wide);
    }
    // along = -V^H a, by = T^H V^H a, a -= V by
    subtract_product(count, wide, rest, turned.from(0, k + 1).seen(), a.from(k + 1, next), along,
                     room);
    subtract_product(count, wide, count, b.t.adjoint(), along, by, room);
    copy_in(b.v.from(0, k + 1).seen().turned(), rest, count, v);
    subtract_product(rest, wide, count, v.seen(), by, a.from(k + 1, next), room);
  }

  // Y's rows up to k, which reflections did not need.
  void above(const Block& b, int64_t k, int64_t count, Room room) const {
    const int64_t rows = k + 1, rest = n - k - 1;
    const M v = take_dense<M>(rest, count, room);
    const M along = take_dense<M>(rows, count, room), made = take_dense<M>(rows, count, room);
    copy_in(b.v.from(0, k + 1).seen().turned(), rest, count, v);
    for (int64_t i = 0; i < rows; ++i) {
      zero_row(along, i, count);
      zero_row(made, i, count);
    }
    subtract_product(rows, count, rest, a.from(0, k + 1).seen(), v, along, room);
    subtract_product(rows, count, count, along.seen(), b.t, made, room);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < count; ++j) b.y.set(j, i, made.get(i, j));
    }
  }
};

// Columns of Q as rows of z.
template <class M>
void hessenberg_basis(M a, int64_t n, M tau, M z, Room room) {
  using N = typename M::Number;
  for (int64_t i = 0; i < n; ++i) {
    zero_row(z, i, n);
    z.set(i, i, Real<N>::number(1));
  }
  // Rows before a block's own are those of an identity still.
  for (int64_t k = (n - 2) / kTurned * kTurned; k >= 0; k -= kTurned) {
    Room own = room;
    const int64_t width = n - 1 - k;
    const TurnedBlock<M> block(a.from(1 + k, k).seen(), tau.from(0, k), width,
                               min64(kTurned, width), own);
    block.apply(z.from(1 + k, 1 + k), width, own);
  }
}

// A function of its own, which models share (aot/tmpl/apart.h).
template <class M>
void reduce(const Hessenberg<M>& matrix, Room room) {
  matrix.reduce(room);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_HESSENBERG_H_
