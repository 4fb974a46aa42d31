// Eigenvalues of symmetric matrices side by side in lanes, by the way of large ones: reflections to
// tridiagonal ones, and implicit QL steps that each lane begins where its own matrix ends.
#ifndef AOT_LINALG_EIGH_LANES_H_
#define AOT_LINALG_EIGH_LANES_H_

#include "aot/linalg/jacobi.h"
#include "aot/linalg/numbers.h"

namespace aot::linalg {

inline constexpr int kSteps = 60;  // of QL for one eigenvalue; three are many

// Vectors with a number of each lane's matrix.
template <class T>
struct LaneRow {
  T* at;
  AOT_INLINE Lanes<T> get(int64_t i) const { return load<T, kLanes<T>>(at + i * kLanes<T>); }
  AOT_INLINE void set(int64_t i, Lanes<T> v) const { store(at + i * kLanes<T>, v); }
};

// a (of which the lower triangle is read, Hermitian) becomes tridiagonal, d and e, which are real;
// its columns keep the reflections, and the row `tau` their taus. `w`: room for a row.
template <class M>
void tridiagonalise_lanes(M a, LaneRow<typename M::Element> d, LaneRow<typename M::Element> e,
                          M tau, M w) {
  using N = typename M::Number;
  using T = typename M::Element;
  using V = Lanes<T>;
  const int64_t n = a.columns;
  const V zero(T(0)), one(T(1));
  const N none = Real<N>::number(zero), whole = Real<N>::number(one);
  for (int64_t k = 0; k + 1 < n; ++k) {
    const N first = a.get(k + 1, k);
    V most = imaginary_size(first);
    for (int64_t i = k + 2; i < n; ++i) most = maximum(most, greatest_size(a.get(i, k)));
    const auto still = most == zero;
    most = select(still, one, maximum(most, greatest_size(first)));
    V sum = zero;  // all of parts of the greatest, which are never too small
    for (int64_t i = k + 1; i < n; ++i) {
      const N part = a.get(i, k) / most;
      a.set(i, k, part);
      sum = more_square(part, sum);
    }
    const N own = a.get(k + 1, k);
    const V size = sqrt(sum), beta = select(real_of(own) >= zero, -size, size);
    const N distance = own - Real<N>::number(beta);
    const N below = whole / select(still, whole, distance);
    const N by = select(still, none, -distance / select(still, one, beta));
    e.set(k, select(still, real_of(first), most * beta));
    tau.set(0, k, by);
    a.set(k + 1, k, whole);
    for (int64_t i = k + 2; i < n; ++i) a.set(i, k, a.get(i, k) * below);
    for (int64_t i = k + 1; i < n; ++i) w.set(0, i, none);
    for (int64_t i = k + 1; i < n; ++i) {
      const N mine = a.get(i, k);
      N along = scaled(real_of(a.get(i, i)), mine);
      for (int64_t j = k + 1; j < i; ++j) {
        const N x = a.get(i, j);
        along = more_product(x, a.get(j, k), along);
        w.set(0, j, more_product(conjugate(x), mine, w.get(0, j)));
      }
      w.set(0, i, w.get(0, i) + along);
    }
    N both = none;
    for (int64_t i = k + 1; i < n; ++i) {
      const N part = by * w.get(0, i);
      both = more_product(conjugate(part), a.get(i, k), both);
      w.set(0, i, part);
    }
    both = scaled(V(T(0.5)), both * by);
    for (int64_t i = k + 1; i < n; ++i) {
      w.set(0, i, less_product(both, a.get(i, k), w.get(0, i)));
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const N x = a.get(i, k), y = w.get(0, i);
      for (int64_t j = k + 1; j <= i; ++j) {
        const N less = less_product(x, conjugate(w.get(0, j)), a.get(i, j));
        a.set(i, j, less_product(y, conjugate(a.get(j, k)), less));
      }
    }
  }
  for (int64_t i = 0; i < n; ++i) d.set(i, real_of(a.get(i, i)));
  e.set(n - 1, zero);
}

// Rows c .. c + C - 1 of v = (I - by x x^H) them, x in a's column k.
template <int C, class M>
AOT_INLINE void join_rows(M a, int64_t k, typename M::Number by, M v, int64_t c) {
  using N = typename M::Number;
  using T = typename M::Element;
  const int64_t n = a.columns;
  N along[C];
  AOT_UNROLL for (int q = 0; q < C; ++q) along[q] = Real<N>::number(Lanes<T>(T(0)));
  for (int64_t i = k + 1; i < n; ++i) {
    const N x = conjugate(a.get(i, k));
    AOT_UNROLL for (int q = 0; q < C; ++q) along[q] = more_product(x, v.get(c + q, i), along[q]);
  }
  AOT_UNROLL for (int q = 0; q < C; ++q) along[q] = along[q] * by;
  for (int64_t i = k + 1; i < n; ++i) {
    const N x = a.get(i, k);
    AOT_UNROLL for (int q = 0; q < C; ++q) {
      v.set(c + q, i, less_product(along[q], x, v.get(c + q, i)));
    }
  }
}

// Rows of v: the columns of the reflections' product.
template <class M>
void join_lanes(M a, M tau, M v) {
  using N = typename M::Number;
  using T = typename M::Element;
  constexpr int kTogether = 4;
  const int64_t n = a.columns;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) v.set(i, j, Real<N>::number(Lanes<T>(T(i == j))));
  }
  for (int64_t k = n - 2; k >= 0; --k) {
    const N by = tau.get(0, k);
    int64_t c = k + 1;
    for (; c + kTogether <= n; c += kTogether) join_rows<kTogether>(a, k, by, v, c);
    for (; c < n; ++c) join_rows<1>(a, k, by, v, c);
  }
}

// The eigenvalues of (d, e) in d; rows of v, if there is one, are turned along. A lane's matrix is
// as far as QL goes with it when none is `busy`.
template <class M>
struct LaneValues {
  using T = typename M::Element;
  using V = Lanes<T>;
  LaneRow<T> d, e, cos, sin;
  M v;

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
    if (!v.part(0).at) return;
    AOT_UNROLL for (int p = 0; p < M::kParts; ++p) {
      int64_t j = 0;
      for (; j + 4 <= v.columns; j += 4) rows<4>(v.part(p), l, last, j);
      for (; j < v.columns; ++j) rows<1>(v.part(p), l, last, j);
    }
  }

  // The rotations of rows last .. l on some columns; the row that two share stays in registers.
  template <int COLUMNS>
  AOT_INLINE void rows(LaneMatrix<T> own, int64_t l, int64_t last, int64_t j) const {
    V held[COLUMNS];
    AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) held[k] = own.get(last, j + k);
    for (int64_t i = last - 1; i >= l; --i) {
      const V c = cos.get(i), s = sin.get(i);
      AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) {
        const V x = own.get(i, j + k);
        own.set(i + 1, j + k, fma(s, x, c * held[k]));
        held[k] = fnma(s, held[k], c * x);
      }
    }
    AOT_UNROLL for (int k = 0; k < COLUMNS; ++k) own.set(l, j + k, held[k]);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIGH_LANES_H_
