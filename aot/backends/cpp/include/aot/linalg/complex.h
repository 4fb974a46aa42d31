// Complex matrices of routines: operands and records have all real parts before the imaginary ones,
// and a matrix in scratch lies by rows, of which each is its real and then its imaginary parts.
//
// Such matrices are computed one by one (ALONE in routine.h), by rows and columns.
#ifndef AOT_LINALG_COMPLEX_H_
#define AOT_LINALG_COMPLEX_H_

#include "aot/linalg/jacobi.h"

namespace aot::linalg {

template <class T>
struct ComplexRows {
  T* at;
  int64_t columns;
  AOT_INLINE Parts<T> row(int64_t i) const {
    T* const first = at + 2 * i * columns;
    return {first, first + columns};
  }
  AOT_INLINE Complex<T> get(int64_t i, int64_t j) const { return row(i).get(j); }
  AOT_INLINE void set(int64_t i, int64_t j, Complex<T> v) const { row(i).set(j, v); }
};

// The matrix (rows x columns; 2 rows as it lies in an operand), or its transpose.
template <class T>
ComplexRows<T> complex_in(Seen<T> from, int64_t rows, int64_t columns, bool turned, Room& room) {
  const ComplexRows<T> to{room.take<T>(2 * rows * columns), turned ? rows : columns};
  for (int64_t i = 0; i < rows; ++i) {
    const T *const re = from.at + i * from.row, *const im = re + rows * from.row;
    for (int64_t j = 0; j < columns; ++j) {
      const Complex<T> value{re[j * from.col], im[j * from.col]};
      turned ? to.set(j, i, value) : to.set(i, j, value);
    }
  }
  return to;
}

// A complex operand, whose imaginary parts lie below its `rows` real ones.
template <class Args>
auto operand(const Args& p, int64_t matrix, int64_t rows) {
  const auto re = p.matrix_a(matrix);
  return ComplexSeen<typename Args::T>{re, re.from(rows, 0)};
}

template <class Args>
auto operand_b(const Args& p, int64_t matrix, int64_t rows) {
  const auto re = p.matrix_b(matrix);
  return ComplexSeen<typename Args::T>{re, re.from(rows, 0)};
}

// The way back, into a record: where the part behind it begins.
template <class T>
T* complex_out(ComplexRows<T> from, int64_t rows, int64_t columns, bool turned, T* record) {
  const int64_t count = rows * columns;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const Complex<T> value = turned ? from.get(j, i) : from.get(i, j);
      record[i * columns + j] = value.re;
      record[count + i * columns + j] = value.im;
    }
  }
  return record + 2 * count;
}

// y += f x
template <class T>
AOT_INLINE void add_row(Complex<T> f, Parts<T> x, Parts<T> y, int64_t n) {
  using V = Vec<T, native_lanes<T>()>;
  const V re(f.re), im(f.im);
  by_vectors<T>(n, [=](int64_t j, auto part) {
    const V p = part.get(x.re + j), q = part.get(x.im + j);
    part.set(y.re + j, fnma(im, q, fma(re, p, part.get(y.re + j))));
    part.set(y.im + j, fma(im, p, fma(re, q, part.get(y.im + j))));
  });
}

// x = c x + s y, y = c y - conj(s) x
template <class T>
AOT_INLINE void rotate(Parts<T> x, Parts<T> y, int64_t n, T c, Complex<T> s) {
  using V = Vec<T, native_lanes<T>()>;
  const V own(c), re(s.re), im(s.im);
  by_vectors<T>(n, [=](int64_t j, auto part) {
    const V p = part.get(x.re + j), q = part.get(x.im + j);
    const V u = part.get(y.re + j), v = part.get(y.im + j);
    part.set(x.re + j, fnma(im, v, fma(re, u, own * p)));
    part.set(x.im + j, fma(im, u, fma(re, v, own * q)));
    part.set(y.re + j, fnma(im, q, fnma(re, p, own * u)));
    part.set(y.im + j, fma(im, p, fnma(re, q, own * v)));
  });
}

// The sum of products, of conjugates of x or of x itself.
template <bool CONJUGATE, class T>
AOT_INLINE Complex<T> dot(Parts<T> x, Parts<T> y, int64_t n) {
  using V = Vec<T, native_lanes<T>()>;
  V same(T(0)), crossed(T(0)), one(T(0)), other(T(0));
  by_vectors<T>(n, [&](int64_t j, auto part) {
    const V p = part.get(x.re + j), q = part.get(x.im + j);
    const V u = part.get(y.re + j), v = part.get(y.im + j);
    same = fma(p, u, same);
    crossed = fma(q, v, crossed);
    one = fma(p, v, one);
    other = fma(q, u, other);
  });
  if constexpr (CONJUGATE) return {reduce_sum(same + crossed), reduce_sum(one - other)};
  return {reduce_sum(same - crossed), reduce_sum(one + other)};
}
template <bool CONJUGATE, class T>
AOT_INLINE T dot(T* x, T* y, int64_t n) {
  return dot(static_cast<const T*>(x), static_cast<const T*>(y), n);
}
template <class T>
AOT_INLINE T square_of(Parts<T> x, int64_t n) {
  return dot(x.re, x.re, n) + dot(x.im, x.im, n);
}
template <class T>
AOT_INLINE void scale_row(Complex<T> f, Parts<T> x, int64_t n) {
  using V = Vec<T, native_lanes<T>()>;
  const V re(f.re), im(f.im);
  by_vectors<T>(n, [=](int64_t j, auto part) {
    const V p = part.get(x.re + j), q = part.get(x.im + j);
    part.set(x.re + j, fnma(im, q, re * p));
    part.set(x.im + j, fma(im, p, re * q));
  });
}
template <class T>
AOT_INLINE void scale_row(T f, T* x, int64_t n) {
  const Vec<T, native_lanes<T>()> by(f);
  by_vectors<T>(n, [=](int64_t j, auto part) { part.set(x + j, part.get(x + j) * by); });
}
template <class T>
AOT_INLINE T greatest_part(Parts<T> x, int64_t n) {
  T most(0);
  for (int64_t j = 0; j < n; ++j) most = maximum(most, maximum(abs(x.re[j]), abs(x.im[j])));
  return most;
}
template <class T>
AOT_INLINE T length_of(Parts<T> x, int64_t n) {
  const T most = greatest_part(x, n);
  if (most == T(0)) return most;
  T sum(0);
  for (int64_t j = 0; j < n; ++j) {
    const T re = x.re[j] / most, im = x.im[j] / most;
    sum += re * re + im * im;
  }
  return most * sqrt(sum);
}

// The reflection I - conj(tau) v v^H that makes x (beta, 0, ...), beta real, which is x[0] after
// it; v = (1, ...) lies behind it.
template <class T>
Complex<T> reflect(Parts<T> x, int64_t n) {
  const Complex<T> first = x.get(0);
  if (first.im == T(0) && greatest_part(x.from(1), n - 1) == T(0)) return {T(0), T(0)};
  // Of parts of the length: where numbers are the least that there are, these have their digits.
  const T size = length_of(x, n), sign = first.re >= T(0) ? T(-1) : T(1);
  for (int64_t j = 0; j < n; ++j) x.set(j, {x.re[j] / size, x.im[j] / size});
  const Complex<T> part = x.get(0);
  scale_row(Complex<T>{T(1), T(0)} / Complex<T>{part.re - sign, part.im}, x.from(1), n - 1);
  x.set(0, {sign * size, T(0)});
  return {(sign - part.re) / sign, -part.im / sign};
}

// x = (I - f v v^H) x, v with its leading 1 in its place.
template <class T>
AOT_INLINE void turn_row(Complex<T> f, Parts<T> v, Parts<T> x, int64_t n) {
  add_row(-(f * dot<true>(v, x, n)), v, x, n);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_H_
