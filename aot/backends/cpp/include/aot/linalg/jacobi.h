// Jacobi's rotations, for one matrix and for matrices side by side: what eigenvalues (eigh.h) and
// singular values (svd.h) of small matrices come from.
#ifndef AOT_LINALG_JACOBI_H_
#define AOT_LINALG_JACOBI_H_

#include "aot/linalg/lanes.h"

namespace aot::linalg {

inline constexpr int kSweeps = 40;  // more than any matrix of numbers has needed

template <class T>
constexpr T rounding() {
  return sizeof(T) == 8 ? T(2.220446049250313e-16) : T(1.1920929e-7);
}
// The least number whose inverse is one.
template <class T>
constexpr T least_divisor() {
  return sizeof(T) == 4 ? T(0x1p-126) : T(0x1p-1022);
}

// What stands for nothing beside `norm`, and is nowhere near the least numbers, which have few
// digits.
template <class V>
AOT_INLINE V nothing_beside(V norm) {
  using T = typename V::Elem;
  const T least = sizeof(T) == 8 ? T(1e-300) : T(1e-36);
  return maximum(norm * V(rounding<T>() * rounding<T>()), V(least));
}

// One matrix with LaneMatrix' interface: a number where that has a vector.
template <class T>
struct OneMatrix {
  T* at;
  int64_t columns;
  AOT_INLINE Vec<T, 1> get(int64_t i, int64_t j) const { return load<T, 1>(at + i * columns + j); }
  AOT_INLINE void set(int64_t i, int64_t j, Vec<T, 1> v) const { store(at + i * columns + j, v); }
};

template <class V>
struct Rotation {
  V c, s;
};

// The rotation that makes (p, r; r, q) diagonal; none where not `turns`.
template <class V, class M>
AOT_INLINE Rotation<V> rotation(V p, V q, V r, M turns) {
  using T = typename V::Elem;
  const V one(T(1)), zero(T(0));
  const V angle = (q - p) / select(turns, r + r, one);
  const V t = one / (abs(angle) + sqrt(fma(angle, angle, one)));
  const V tan = select(turns, select(angle < zero, -t, t), zero);
  const V c = one / sqrt(fma(tan, tan, one));
  return {c, tan * c};
}

// Rows x and y of a: c x - s y and s x + c y.
template <class T>
AOT_INLINE void rotate_rows(LaneMatrix<T> a, int64_t x, int64_t y, Rotation<Lanes<T>> r) {
  for (int64_t j = 0; j < a.columns; ++j) {
    const Lanes<T> p = a.get(x, j), q = a.get(y, j);
    a.set(x, j, fnma(r.s, q, r.c * p));
    a.set(y, j, fma(r.s, p, r.c * q));
  }
}
// Whole vectors of rows, and what is left of them: `f(j, part)` reads and writes with `part` from
// element j on. Rows of small matrices are shorter than vectors.
struct WholeVector {
  template <class T>
  AOT_INLINE Vec<T, native_lanes<T>()> get(const T* p) const {
    return load<T, native_lanes<T>()>(p);
  }
  template <class T, class V>
  AOT_INLINE void set(T* p, V v) const {
    store(p, v);
  }
};
struct FirstOfVector {
  int64_t count;
  template <class T>
  AOT_INLINE Vec<T, native_lanes<T>()> get(const T* p) const {
    return load_n<T, native_lanes<T>()>(p, count);
  }
  template <class T, class V>
  AOT_INLINE void set(T* p, V v) const {
    store_n(p, v, count);
  }
};
template <class T, class F>
AOT_INLINE void by_vectors(int64_t n, const F& f) {
  constexpr int64_t kWide = native_lanes<T>();
  int64_t j = 0;
  for (; j + kWide <= n; j += kWide) f(j, WholeVector{});
  if (j < n) f(j, FirstOfVector{n - j});
}

// x = c x + s y, y = c y - s x
template <class T>
AOT_INLINE void rotate(T* x, T* y, int64_t n, T c, T s) {
  const Vec<T, native_lanes<T>()> cos(c), sin(s);
  by_vectors<T>(n, [=](int64_t j, auto part) {
    const auto p = part.get(x + j), q = part.get(y + j);
    part.set(x + j, fma(sin, q, cos * p));
    part.set(y + j, fnma(sin, p, cos * q));
  });
}

// The product of rows x and y.
template <class T>
AOT_INLINE Lanes<T> row_product(LaneMatrix<T> a, int64_t x, int64_t y) {
  Lanes<T> sum(T(0));
  for (int64_t j = 0; j < a.columns; ++j) sum = fma(a.get(x, j), a.get(y, j), sum);
  return sum;
}
template <class T>
AOT_INLINE T dot(const T* p, const T* q, int64_t n) {
  constexpr int kOne = native_lanes<T>(), kWide = 2 * kOne;
  Vec<T, kWide> sums(T(0));
  int64_t j = 0;
  for (; j + kWide <= n; j += kWide) {
    sums = fma(load<T, kWide>(p + j), load<T, kWide>(q + j), sums);
  }
  Vec<T, kOne> rest(T(0));
  by_vectors<T>(n - j, [&](int64_t k, auto part) {
    rest = fma(part.get(p + j + k), part.get(q + j + k), rest);
  });
  return reduce_sum(sums) + reduce_sum(rest);
}
// y += f x
template <class T>
AOT_INLINE void add_row(T f, const T* x, T* y, int64_t n) {
  const Vec<T, native_lanes<T>()> by(f);
  by_vectors<T>(
      n, [=](int64_t j, auto part) { part.set(y + j, fma(by, part.get(x + j), part.get(y + j))); });
}

template <class M>
void make_identity(M a) {
  using V = decltype(a.get(0, 0));
  using T = typename V::Elem;
  for (int64_t i = 0; i < a.columns; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) a.set(i, j, V(i == j ? T(1) : T(0)));
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_JACOBI_H_
