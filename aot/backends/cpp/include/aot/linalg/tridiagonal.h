// One symmetric or Hermitian matrix as Q T Q^H, T real and tridiagonal, by reflections in blocks.
//
// The rest of the matrix is read once for each reflection, and changed once for a block of them
// (Dongarra, Sorensen, Hammarling 1989). Only what is right of the diagonal is used, and rows are
// read from whole vectors on, so that loads are aligned.
#ifndef AOT_LINALG_TRIDIAGONAL_H_
#define AOT_LINALG_TRIDIAGONAL_H_

#include "aot/linalg/reduce_rows.h"
#include "aot/linalg/turn_back.h"

namespace aot::linalg {

inline constexpr int64_t kBlock = 32;  // reflections whose change waits; in template_library.py

// a (whole panels, zeros beside it) becomes tridiagonal, d and e. Rows of a keep the reflections,
// from their 1 beside the diagonal on; `tau` is a row.
template <class M>
struct Tridiagonal {
  using N = typename M::Number;
  using T = typename M::Element;
  M a;
  int64_t n;
  T *d, *e;
  M tau;

  // Rows of what the matrix is changed by: a -= v w^H + w v^H for all that wait. There are the
  // conjugates of v and w; v lie twice, so that (v, w) and (w, v) are rows that follow each other.
  struct Waiting {
    M rows;
    M v(int64_t j) const { return rows.from(j, 0); }
    M w(int64_t j) const { return rows.from(kBlock + j, 0); }
    M again(int64_t j) const { return rows.from(2 * kBlock + j, 0); }
  };

  void reduce(Room room) const {
    const Waiting r{take_dense<M>(3 * kBlock, n, room)};
    for (int64_t i = 0; i < 3 * kBlock; ++i) zero_row(r.rows, i, n);
    for (int64_t c = 0; c < n; c += kBlock) {
      const int64_t count = min64(kBlock, n - c), next = c + count;
      for (int64_t j = 0; j < count; ++j) step(r, c + j, j);
      if (next < n) change(r, next, room);
    }
  }

  // The change of all that waits, from row and column `next` on.
  void change(const Waiting& r, int64_t next, Room room) const {
    const int64_t rest = n - next, wide = 2 * kBlock;
    const M left = take_dense<M>(rest, wide, room);
    copy_in(r.w(0).from(0, next).seen().turned(), rest, wide, left);
    subtract_product<true>(rest, rest, wide, left.other(), r.v(0).from(0, next), a.from(next, next),
                           room);
  }

  // Row k, the j-th of its block: brought up to date, reflected, and what that changes.
  void step(const Waiting& r, int64_t k, int64_t j) const {
    const int64_t begin = k / kPanel * kPanel, all = round_up(n, kPanel) - begin;
    for (int64_t i = 0; i < j; ++i) {
      add_row(-conjugate(r.v(i).get(0, k)), r.w(i).line(0, begin), a.line(k, begin), all);
      add_row(-conjugate(r.w(i).get(0, k)), r.v(i).line(0, begin), a.line(k, begin), all);
    }
    d[k] = real_of(a.get(k, k));
    e[k] = T(0);
    tau.set(0, k, Real<N>::number(0));
    const int64_t rest = n - k - 1;
    if (rest == 0) return;
    conjugate_rows(a.from(k, k + 1), 1, rest);  // the column
    const N by = reflect_row(a.line(k, k + 1), rest);
    tau.set(0, k, by);
    e[k] = real_of(a.get(k, k + 1));
    a.set(k, k + 1, Real<N>::number(1));
    const M v = r.v(j), w = r.w(j), again = r.again(j);
    for (int64_t i = begin; i < begin + all; ++i) {
      const N own = i > k ? conjugate(a.get(k, i)) : Real<N>::number(0);
      v.set(0, i, own);
      again.set(0, i, own);
    }
    hermitian_times(a, k + 1, n, k % 2 == 1, v, w);
    const int64_t from = (k + 1) / kPanel * kPanel, wide = begin + all - from;
    const auto own = v.line(0, from), sum = w.line(0, from);
    for (int64_t i = 0; i < j; ++i) {
      const N along_w = dot<true>(r.w(i).line(0, from), own, wide);
      const N along_v = dot<true>(r.v(i).line(0, from), own, wide);
      add_row(-along_w, r.v(i).line(0, from), sum, wide);
      add_row(-along_v, r.w(i).line(0, from), sum, wide);
    }
    scale_row(conjugate(by), sum, wide);
    const N half = Real<N>::number(T(-0.5));
    add_row(half * conjugate(by * dot<true>(own, sum, wide)), own, sum, wide);
  }
};

// A function of its own, which models share (aot/tmpl/apart.h).
template <class M>
void reduce(const Tridiagonal<M>& matrix, Room room) {
  matrix.reduce(room);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_TRIDIAGONAL_H_
