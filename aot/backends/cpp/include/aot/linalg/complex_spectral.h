// Eigenvalues of Hermitian matrices, of which the lower triangle is read, and singular values of
// complex ones with at least as many rows as columns. Small ones side by side, as real ones go
// (eigh.h, svd.h).
#ifndef AOT_LINALG_COMPLEX_SPECTRAL_H_
#define AOT_LINALG_COMPLEX_SPECTRAL_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/eigh.h"
#include "aot/linalg/svd.h"

namespace aot::linalg {

// Record: w, and but for VALUES V by rows, with eigenvectors as its columns. The operand's rows are
// twice the matrix'.
template <class Cfg>
struct ComplexEigh : Finished {
  static constexpr bool kFinished = false;
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using M = ComplexLaneMatrix<T>;
    const int64_t n = p.n;
    const M a(room.take<T>(2 * n * n * kLanes<T>), n, n);
    gather_lanes(p.operand_a(first), p.batches_a(), lanes, n, n, a);
    const M v(Cfg::VALUES ? nullptr : record + n * kLanes<T>, n, n);
    steps_lanes(a, v, LaneRow<T>{record}, room);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, n).turned(), n, n, a); };
    LargeEigh<ComplexDense<T>, Cfg::VALUES>{n}.find(in, record, room);
  }

  template <class Args>
  static void finish(const Args& p, T* record) {
    if (p.small()) ascend<2, Cfg::VALUES>(record, p.n);
  }
};

// Rows x and y of a complex matrix side by side: y is turned by `back`, and then both as real ones.
template <class T>
AOT_INLINE void rotate_rows(ComplexLaneMatrix<T> a, int64_t x, int64_t y, Complex<Lanes<T>> back,
                            Rotation<Lanes<T>> r) {
  for (int64_t j = 0; j < a.columns; ++j) {
    const Complex<Lanes<T>> p = a.get(x, j), q = back * a.get(y, j);
    a.set(x, j, {fnma(r.s, q.re, r.c * p.re), fnma(r.s, q.im, r.c * p.im)});
    a.set(y, j, {fma(r.s, p.re, r.c * q.re), fma(r.s, p.im, r.c * q.im)});
  }
}

template <class T>
struct ComplexRowPair {
  Lanes<T> own, other;
  Complex<Lanes<T>> between;
};
template <class T>
AOT_INLINE ComplexRowPair<T> row_pair(ComplexLaneMatrix<T> w, int64_t x, int64_t y) {
  using V = Lanes<T>;
  V own[2], other[2], same[2], across[2];
  AOT_UNROLL for (int k = 0; k < 2; ++k) own[k] = other[k] = same[k] = across[k] = V(T(0));
  for (int64_t j = 0; j < w.columns; ++j) {
    const Complex<V> p = w.get(x, j), q = w.get(y, j);
    own[0] = fma(p.re, p.re, own[0]);
    own[1] = fma(p.im, p.im, own[1]);
    other[0] = fma(q.re, q.re, other[0]);
    other[1] = fma(q.im, q.im, other[1]);
    same[0] = fma(p.re, q.re, same[0]);
    same[1] = fma(p.im, q.im, same[1]);
    across[0] = fma(p.re, q.im, across[0]);
    across[1] = fma(p.im, q.re, across[1]);
  }
  return {own[0] + own[1], other[0] + other[1], {same[0] + same[1], across[0] - across[1]}};
}

// Rows of w made orthogonal; those of v, if there is one, are rotated along.
template <class T>
void make_orthogonal(ComplexLaneMatrix<T> w, int64_t rows, ComplexLaneMatrix<T> v) {
  using V = Lanes<T>;
  using C = Complex<V>;
  const V zero(T(0)), one(T(1)), small(rounding<T>() * sqrt(T(w.columns)));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t x = 0; x < rows; ++x) {
      for (int64_t y = x + 1; y < rows; ++y) {
        const ComplexRowPair<T> pair = row_pair(w, x, y);
        const V own = pair.own, other = pair.other;
        const C between = pair.between;
        const V re = abs(between.re), im = abs(between.im), most = maximum(re, im);
        const V part = minimum(re, im) / select(most == zero, one, most);
        const V size = most * sqrt(fma(part, part, one));
        const auto turns = size > small * (sqrt(own) * sqrt(other));  // NaN turns nothing
        if (!any(turns)) continue;
        turned = true;
        const Rotation<V> r = rotation(own, other, size, turns);
        const C phase = conjugate(between) / select(turns, size, one);
        const C back = select(turns, phase, C{one, zero});
        rotate_rows(w, x, y, back, r);
        if (v.re.at) rotate_rows(v, x, y, back, r);
      }
    }
    if (!turned) return;
  }
}

// Rows of either part of a matrix, by themselves.
template <class T>
struct PlaneRows {
  T *re, *im;
  int64_t columns;
  AOT_INLINE Parts<T> row(int64_t i) const { return {re + i * columns, im + i * columns}; }
  void swap(int64_t i, int64_t j) const {
    swap_rows(row(i).re, row(j).re, columns);
    swap_rows(row(i).im, row(j).im, columns);
  }
};

// Record: s, and but for VALUES U^T (n x m) and V^H (n x n) by rows.
template <class Cfg>
struct ComplexSvd : Finished {
  static constexpr bool kFinished = false;
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using M = ComplexLaneMatrix<T>;
    constexpr int64_t kLane = kLanes<T>;
    const int64_t m = p.rows(), n = p.n;
    if (Cfg::VALUES && n > kOrthogonal) return values(p, first, lanes, record, room);
    T* const behind = record + n * kLane;
    const M w(Cfg::VALUES ? room.take<T>(2 * m * n * kLane) : behind, n, m);
    const M v(Cfg::VALUES ? nullptr : behind + 2 * n * m * kLane, n, n);
    gather_lanes(p.operand_a(first).turned(), p.batches_a(), lanes, n, m, w);
    const Lanes<T> scale = scale_of(LaneMatrix<T>{w.re.at, m}, 2 * n);
    if (v.re.at && n >= kBegun) {
      begin_with_squares(w, n, v, room);
    } else if (v.re.at) {
      make_identity(v.re);
      for (int64_t k = 0; k < n * n; ++k) store(v.im.at + k * kLane, Lanes<T>(T(0)));
    }
    make_orthogonal(w, n, v);
    for (int64_t i = 0; i < n; ++i) {
      const Lanes<T> square = row_product(w.re, i, i) + row_product(w.im, i, i);
      store(record + i * kLane, scale * sqrt(square));
    }
    for (int64_t k = 0; v.re.at && k < n * n; ++k) {
      T* const at = v.im.at + k * kLane;
      store(at, -load<T, int(kLane)>(at));
    }
  }

  template <class Args>
  static void values(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const int64_t m = p.rows(), n = p.n;
    const ComplexLaneMatrix<T> a(room.take<T>(2 * m * n * kLanes<T>), m, n);
    gather_lanes(p.operand_a(first), p.batches_a(), lanes, m, n, a);
    const Lanes<T> scale = scale_of(LaneMatrix<T>{a.re.at, n}, 2 * m);
    singular_values_lanes(a, m, scale, LaneRow<T>{record}, room);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n;
    const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m), m, n, a); };
    LargeSvd<ComplexDense<T>, Cfg::VALUES>{m, n}.find(in, record, room);
  }

  // Descending values; rows of U^T of length 1, any orthogonal ones where a value is 0.
  template <class Args>
  static void finish(const Args& p, T* s) {
    if (!p.small()) return;
    const int64_t m = p.rows(), n = p.n;
    const PlaneRows<T> u{s + n, s + n + n * m, m};
    const PlaneRows<T> v{u.im + n * m, u.im + n * m + n * n, n};
    sort_descending(s, n, [&](int64_t i, int64_t k) {
      if (Cfg::VALUES) return;
      u.swap(i, k);
      v.swap(i, k);
    });
    if (Cfg::VALUES) return;
    for (int64_t i = 0; i < n; ++i) {
      const T size = sqrt(square_of(u.row(i), m));
      const bool none = size <= T(0) || s[i] <= rounding<T>() * rounding<T>() * s[0];
      if (none && size < T(0.5)) {  // else it has a direction of its own
        fill(u, i, m);
      } else {
        scale_row(Complex<T>{T(1) / size, T(0)}, u.row(i), m);
      }
    }
  }

  // Row i of length 1, orthogonal to those before: a unit vector without its parts along them.
  static void fill(PlaneRows<T> u, int64_t i, int64_t m) {
    const Parts<T> row = u.row(i);
    for (int64_t unit = 0; unit < m; ++unit) {
      for (int64_t j = 0; j < m; ++j) row.set(j, {j == unit ? T(1) : T(0), T(0)});
      for (int again = 0; again < 2; ++again) {
        for (int64_t k = 0; k < i; ++k) turn_row(Complex<T>{T(1), T(0)}, u.row(k), row, m);
      }
      const T square = square_of(row, m);
      if (square * T(2 * m) < T(1)) continue;  // some unit vector keeps 1 / sqrt(m)
      scale_row(Complex<T>{T(1) / sqrt(square), T(0)}, row, m);
      return;
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_SPECTRAL_H_
