// Singular values of matrices side by side in lanes, real or complex: reflections to bidiagonal
// ones, whose singular values are the eigenvalues, each with either sign, of a tridiagonal matrix
// of twice the size with nothing on its diagonal (Golub, Kahan 1965). The matrix is not multiplied
// with itself, so that small values keep what the reflections leave of them.
#ifndef AOT_LINALG_SVDVALS_LANES_H_
#define AOT_LINALG_SVDVALS_LANES_H_

#include "aot/linalg/eigh_lanes.h"
#include "aot/linalg/qr.h"

namespace aot::linalg {

inline constexpr int64_t kOrthogonal = 8;  // columns up to which rotations are quickest (svd.h)

// The transpose of a matrix of vectors without its first row: what is right of the diagonal is
// below one there.
template <class M>
struct RightOfDiagonal {
  using Element = typename M::Element;
  using Number = typename M::Number;
  M a;
  int64_t columns;
  AOT_INLINE Number get(int64_t i, int64_t j) const { return a.get(j, i + 1); }
  AOT_INLINE void set(int64_t i, int64_t j, Number v) const { a.set(j, i + 1, v); }
};

// a (at least as many rows as columns) becomes bidiagonal: `beside` has its diagonal and what is
// right of it in turn, d0 e0 d1 e1 ..., and then a zero.
template <class M>
void bidiagonalise_lanes(M a, int64_t rows, LaneRow<typename M::Element> beside) {
  const int64_t n = a.columns;
  const RightOfDiagonal<M> across{a, rows};
  for (int64_t k = 0; k < n; ++k) {
    const auto by = conjugate(reflect_column(a, k, rows));
    beside.set(2 * k, real_of(a.get(k, k)));
    turn_lanes(a, k, rows, by, a, k + 1);
    if (k + 1 == n) break;
    const auto back = conjugate(reflect_column(across, k, n - 1));
    beside.set(2 * k + 1, real_of(a.get(k, k + 1)));
    turn_lanes(across, k, n - 1, back, across, k + 1);
  }
  beside.set(2 * n - 1, Lanes<typename M::Element>(0));
}

// Eigenvalues, without vectors, of tridiagonal matrices side by side: d, and squares of what is
// beside it. QL steps without roots (LAPACK's sterf; Pal, Walker, Kahan), of which each rotation
// waits for two divisions. No square may overflow.
template <class T>
struct LaneSquares {
  using V = Lanes<T>;
  LaneRow<T> d, e;
  int64_t n;

  // As in LaneValues.
  V end_of(int64_t l, V least) const {
    V end(T(n - 1));
    for (int64_t m = n - 2; m >= l; --m) {
      const V around = V(rounding<T>()) * (abs(d.get(m)) + abs(d.get(m + 1)));
      end = select(e.get(m) > maximum(around * around, least), end, V(T(m)));
    }
    return end;
  }

  void find() const {
    V most(T(0));
    for (int64_t i = 0; i < n; ++i) most = maximum(most, maximum(abs(d.get(i)), e.get(i)));
    const V least = nothing_beside(most);
    for (int64_t l = 0; l + 1 < n; ++l) {
      for (int step = 0; step < kSteps; ++step) {
        const V end = end_of(l, least * least);
        if (!any(end > V(T(l)))) break;
        turn(l, end);
      }
    }
  }

  void turn(int64_t l, V end) const {
    const V zero(T(0)), one(T(1));
    const auto busy = end > V(T(l));
    const V beside = sqrt(e.get(l)), first = d.get(l);
    const V g0 = (d.get(l + 1) - first) / select(busy, beside + beside, one);
    const V root = sqrt(fma(g0, g0, one));
    const V shift = first - beside / select(g0 < zero, g0 - root, g0 + root);
    V c(one), s(zero), g(zero), p(zero);
    for (int64_t i = int64_t(reduce_max(end)) - 1; i >= l; --i) {
      const auto turns = busy & (V(T(i)) < end);
      const auto begins = V(T(i + 1)) == end;
      const V below = d.get(i + 1), from = below - shift;
      g = select(begins, from, g);
      p = select(begins, from * from, p);
      c = select(begins, one, c);
      s = select(begins, zero, s);
      const V own = e.get(i), r = p + own, by = select(turns, r, one), before = c, last = g;
      e.set(i + 1, select(turns, s * r, e.get(i + 1)));
      c = p / by;
      s = own / by;
      const V at = d.get(i);
      g = fnma(s, last, c * (at - shift));
      d.set(i + 1, select(turns, last + (at - g), below));
      const auto none = c == zero;
      p = select(none, before * own, g * g / select(none, one, c));
    }
    e.set(l, select(busy, s * p, e.get(l)));
    d.set(l, select(busy, shift + g, first));
  }
};

// Numbers in descending order.
template <class T>
void descend_lanes(LaneRow<T> d, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Lanes<T> most = d.get(i);
    for (int64_t k = i + 1; k < count; ++k) {
      const Lanes<T> other = d.get(k);
      d.set(k, minimum(most, other));
      most = maximum(most, other);
    }
    d.set(i, most);
  }
}

// The singular values of a, of which no element exceeds 1, times `scale`, in `found`, descending;
// NaN where an element is none.
template <class M>
void singular_values_lanes(M a, int64_t rows, Lanes<typename M::Element> scale,
                           LaneRow<typename M::Element> found, Room room) {
  using T = typename M::Element;
  using V = Lanes<T>;
  const int64_t n = a.columns, all = 2 * n;
  const auto take = [&] { return LaneRow<T>{room.take<T>(all * kLanes<T>)}; };
  const LaneRow<T> d = take(), e = take();
  bidiagonalise_lanes(a, rows, e);
  V lost(T(0));
  for (int64_t i = 0; i < all; ++i) {
    const V beside = e.get(i);
    lost = fma(beside, V(T(0)), lost);
    d.set(i, V(T(0)));
    e.set(i, beside * beside);
  }
  LaneSquares<T>{d, e, all}.find();
  descend_lanes(d, all);
  for (int64_t i = 0; i < n; ++i) {  // half of how far both signs are apart: shifts cancel
    const V apart = d.get(i) - d.get(all - 1 - i);
    found.set(i, fma(scale * V(T(0.5)), apart, lost));
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_SVDVALS_LANES_H_
