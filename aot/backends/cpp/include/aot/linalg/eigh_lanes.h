// Eigenvalues of symmetric matrices side by side in lanes, by the way of large ones: reflections to
// tridiagonal ones, and implicit QL steps that each lane begins where its own matrix ends.
#ifndef AOT_LINALG_EIGH_LANES_H_
#define AOT_LINALG_EIGH_LANES_H_

#include "aot/linalg/jacobi.h"

namespace aot::linalg {

inline constexpr int kSteps = 60;  // of QL for one eigenvalue; three are many

// Vectors with a number of each lane's matrix.
template <class T>
struct LaneRow {
  T* at;
  AOT_INLINE Lanes<T> get(int64_t i) const { return load<T, kLanes<T>>(at + i * kLanes<T>); }
  AOT_INLINE void set(int64_t i, Lanes<T> v) const { store(at + i * kLanes<T>, v); }
};

// a (of which the lower triangle is read) becomes tridiagonal, d and e; its columns keep the
// reflections.
template <class T>
void tridiagonalise_lanes(LaneMatrix<T> a, LaneRow<T> d, LaneRow<T> e, LaneRow<T> tau,
                          LaneRow<T> w) {
  using V = Lanes<T>;
  const int64_t n = a.columns;
  const V zero(T(0)), one(T(1));
  for (int64_t k = 0; k + 1 < n; ++k) {
    V most = zero;
    for (int64_t i = k + 2; i < n; ++i) most = maximum(most, abs(a.get(i, k)));
    const auto still = most == zero;
    const V first = a.get(k + 1, k);
    most = select(still, one, maximum(most, abs(first)));
    V sum = zero;  // all of parts of the greatest, which are never too small
    for (int64_t i = k + 1; i < n; ++i) {
      const V part = a.get(i, k) / most;
      a.set(i, k, part);
      sum = fma(part, part, sum);
    }
    const V own = a.get(k + 1, k), size = sqrt(sum);
    const V beta = select(own >= zero, -size, size);
    const V below = one / select(still, one, own - beta);
    const V by = select(still, zero, (beta - own) / select(still, one, beta));
    e.set(k, select(still, first, most * beta));
    tau.set(k, by);
    a.set(k + 1, k, one);
    for (int64_t i = k + 2; i < n; ++i) a.set(i, k, a.get(i, k) * below);
    for (int64_t i = k + 1; i < n; ++i) w.set(i, zero);
    for (int64_t i = k + 1; i < n; ++i) {
      const V mine = a.get(i, k);
      V along = a.get(i, i) * mine;
      for (int64_t j = k + 1; j < i; ++j) {
        const V x = a.get(i, j);
        along = fma(x, a.get(j, k), along);
        w.set(j, fma(x, mine, w.get(j)));
      }
      w.set(i, w.get(i) + along);
    }
    V both = zero;
    for (int64_t i = k + 1; i < n; ++i) {
      const V part = by * w.get(i);
      both = fma(part, a.get(i, k), both);
      w.set(i, part);
    }
    both = both * by * V(T(0.5));
    for (int64_t i = k + 1; i < n; ++i) w.set(i, fnma(both, a.get(i, k), w.get(i)));
    for (int64_t i = k + 1; i < n; ++i) {
      const V x = a.get(i, k), y = w.get(i);
      for (int64_t j = k + 1; j <= i; ++j) {
        a.set(i, j, fnma(y, a.get(j, k), fnma(x, w.get(j), a.get(i, j))));
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) d.set(i, a.get(i, i));
  e.set(n - 1, zero);
}

// Rows of v: the columns of the reflections' product.
template <class T>
void join_lanes(LaneMatrix<T> a, LaneRow<T> tau, LaneMatrix<T> v) {
  using V = Lanes<T>;
  const int64_t n = a.columns;
  make_identity(v);
  for (int64_t k = n - 2; k >= 0; --k) {
    const V by = tau.get(k);
    for (int64_t c = k + 1; c < n; ++c) {
      V along(T(0));
      for (int64_t i = k + 1; i < n; ++i) along = fma(a.get(i, k), v.get(c, i), along);
      along = along * by;
      for (int64_t i = k + 1; i < n; ++i) v.set(c, i, fnma(along, a.get(i, k), v.get(c, i)));
    }
  }
}

// The eigenvalues of (d, e) in d; rows of v, if there is one, are turned along. A lane's matrix is
// as far as QL goes with it when none is `busy`.
template <class T>
struct LaneValues {
  using V = Lanes<T>;
  LaneRow<T> d, e, cos, sin;
  LaneMatrix<T> v;

  // Where each lane's matrix from row l on falls apart first. `least`: of what is no number.
  V end_of(int64_t l, V least) const {
    const int64_t n = v.columns;
    V end(T(n - 1));
    for (int64_t m = n - 2; m >= l; --m) {
      const V around = abs(d.get(m)) + abs(d.get(m + 1));
      const auto joined = abs(e.get(m)) > maximum(V(rounding<T>()) * around, least);
      end = select(joined, end, V(T(m)));
    }
    return end;
  }

  void find() const {
    V norm(T(0));
    for (int64_t i = 0; i < v.columns; ++i) {
      norm = maximum(norm, maximum(abs(d.get(i)), abs(e.get(i))));
    }
    const V least = nothing_beside(norm);
    for (int64_t l = 0; l + 1 < v.columns; ++l) {
      for (int step = 0; step < kSteps; ++step) {
        const V end = end_of(l, least);
        if (!any(end > V(T(l)))) break;
        turn(l, end);
      }
    }
  }

  void turn(int64_t l, V end) const {
    const V zero(T(0)), one(T(1));
    const auto busy = end > V(T(l));
    const V between = e.get(l),
            g0 = (d.get(l + 1) - d.get(l)) / select(busy, between + between, one);
    const V root = sqrt(fma(g0, g0, one));
    const V shift = between / select(g0 < zero, g0 - root, g0 + root) - d.get(l);
    const int64_t last = int64_t(reduce_max(end));
    V g(T(0)), s(T(1)), c(T(1)), p(T(0));
    for (int64_t i = last - 1; i >= l; --i) {
      const auto turns = busy & (V(T(i)) < end);
      const auto begins = V(T(i + 1)) == end;
      g = select(begins, d.get(i + 1) + shift, g);
      s = select(begins, one, s);
      c = select(begins, one, c);
      p = select(begins, zero, p);
      const V own = e.get(i), f = s * own, b = c * own;
      const V x = abs(f), y = abs(g), most = maximum(x, y);
      const auto none = most == zero;
      const V part = minimum(x, y) / select(none, one, most);
      const V h = most * sqrt(fma(part, part, one)), by = select(none, one, h);
      e.set(i + 1, select(turns, select(begins, zero, h), e.get(i + 1)));
      s = f / by;
      c = select(none, one, g / by);
      const V at = d.get(i + 1) - p;
      const V r = fma(d.get(i) - at, s, V(T(2)) * c * b);
      p = s * r;
      d.set(i + 1, select(turns, at + p, d.get(i + 1)));
      g = fma(c, r, -b);
      cos.set(i, select(turns, c, one));
      sin.set(i, select(turns, s, zero));
    }
    d.set(l, select(busy, d.get(l) - p, d.get(l)));
    e.set(l, select(busy, g, e.get(l)));
    if (!v.at) return;
    int64_t j = 0;
    for (; j + 4 <= v.columns; j += 4) rows<4>(l, last, j);
    for (; j < v.columns; ++j) rows<1>(l, last, j);
  }

  // The rotations of rows last .. l on some columns; the row that two share stays in registers.
  template <int COLUMNS>
  AOT_INLINE void rows(int64_t l, int64_t last, int64_t j) const {
    V held[COLUMNS];
    AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) held[k] = v.get(last, j + k);
    for (int64_t i = last - 1; i >= l; --i) {
      const V c = cos.get(i), s = sin.get(i);
      AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) {
        const V x = v.get(i, j + k);
        v.set(i + 1, j + k, fma(s, x, c * held[k]));
        held[k] = fnma(s, held[k], c * x);
      }
    }
    AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) v.set(l, j + k, held[k]);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIGH_LANES_H_
