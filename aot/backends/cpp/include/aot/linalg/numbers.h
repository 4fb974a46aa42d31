// Complex numbers of scalars and of vectors, and what algorithms ask numbers of either kind, so
// that each is written once for real and for complex matrices.
#ifndef AOT_LINALG_NUMBERS_H_
#define AOT_LINALG_NUMBERS_H_

#include "aot/vec/vec.h"

namespace aot::linalg {

template <class T>
struct Complex {
  T re, im;
};
template <class T>
AOT_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
AOT_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
AOT_INLINE Complex<T> operator-(Complex<T> a) {
  return {-a.re, -a.im};
}
template <class T>
AOT_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
AOT_INLINE Complex<T> operator*(T a, Complex<T> b) {
  return {a * b.re, a * b.im};
}

AOT_INLINE float select(bool which, float a, float b) { return which ? a : b; }
AOT_INLINE double select(bool which, double a, double b) { return which ? a : b; }

// Divides by one number again and again.
template <class N>
struct Divisor {
  N by;
  AOT_INLINE explicit Divisor(N number) : by(number) {}
  AOT_INLINE N operator()(N a) const { return a / by; }
};
// Smith's way: no square overflows.
template <class T>
struct Divisor<Complex<T>> {
  decltype(T() >= T()) real;  // whether the real part is the greater one
  T part, size;
  AOT_INLINE explicit Divisor(Complex<T> by) : real(abs(by.re) >= abs(by.im)) {
    const T most = select(real, by.re, by.im), least = select(real, by.im, by.re);
    part = least / most;
    size = most + least * part;
  }
  AOT_INLINE Complex<T> operator()(Complex<T> a) const {
    const T x = select(real, a.re, a.im), y = select(real, a.im, a.re), im = y - x * part;
    return {(x + y * part) / size, select(real, im, -im) / size};
  }
};
template <class T>
AOT_INLINE Complex<T> operator/(Complex<T> a, Complex<T> b) {
  return Divisor<Complex<T>>(b)(a);
}

template <class T>
AOT_INLINE Complex<T> operator/(Complex<T> a, T b) {
  return {a.re / b, a.im / b};
}

template <class T>
AOT_INLINE Complex<T> conjugate(Complex<T> a) {
  return {a.re, -a.im};
}
template <class T>
AOT_INLINE T conjugate(T a) {
  return a;
}
template <class T>
AOT_INLINE T real_of(Complex<T> a) {
  return a.re;
}
template <class T>
AOT_INLINE T real_of(T a) {
  return a;
}
template <class T>
AOT_INLINE Complex<T> real_part(Complex<T> a) {
  return {a.re, T(0)};
}
template <class T>
AOT_INLINE T real_part(T a) {
  return a;
}
// Of vectors: the greatest part's size, the imaginary part's, and c + |a|^2.
template <class V>
AOT_INLINE V greatest_size(Complex<V> a) {
  return maximum(abs(a.re), abs(a.im));
}
template <class V>
AOT_INLINE V greatest_size(V a) {
  return abs(a);
}
template <class V>
AOT_INLINE V imaginary_size(Complex<V> a) {
  return abs(a.im);
}
template <class V>
AOT_INLINE V imaginary_size(V) {
  return V(0);
}
template <class V>
AOT_INLINE V more_square(Complex<V> a, V c) {
  return fma(a.im, a.im, fma(a.re, a.re, c));
}
template <class V>
AOT_INLINE V more_square(V a, V c) {
  return fma(a, a, c);
}
template <class T>
AOT_INLINE T modulus(Complex<T> a) {
  return hypot(a.re, a.im);
}
template <class T>
AOT_INLINE T modulus(T a) {
  return abs(a);
}
// LAPACK's size of a number: what pivots are chosen by.
template <class T>
AOT_INLINE T rough_size(Complex<T> a) {
  return abs(a.re) + abs(a.im);
}
template <class T>
AOT_INLINE T rough_size(T a) {
  return abs(a);
}

// c + a b
template <class V>
AOT_INLINE V more_product(V a, V b, V c) {
  return fma(a, b, c);
}
AOT_INLINE float more_product(float a, float b, float c) { return c + a * b; }
AOT_INLINE double more_product(double a, double b, double c) { return c + a * b; }

// c - a b
template <class V>
AOT_INLINE V less_product(V a, V b, V c) {
  return fnma(a, b, c);
}
AOT_INLINE float less_product(float a, float b, float c) { return c - a * b; }
AOT_INLINE double less_product(double a, double b, double c) { return c - a * b; }
template <class T>
AOT_INLINE Complex<T> more_product(Complex<T> a, Complex<T> b, Complex<T> c) {
  return {less_product(a.im, b.im, more_product(a.re, b.re, c.re)),
          more_product(a.im, b.re, more_product(a.re, b.im, c.im))};
}
template <class T>
AOT_INLINE Complex<T> less_product(Complex<T> a, Complex<T> b, Complex<T> c) {
  return {less_product(a.re, b.re, more_product(a.im, b.im, c.re)),
          less_product(a.re, b.im, less_product(a.im, b.re, c.im))};
}

// A number times a real one.
template <class T>
AOT_INLINE Complex<T> scaled(T by, Complex<T> a) {
  return {by * a.re, by * a.im};
}
template <class T>
AOT_INLINE T scaled(T by, T a) {
  return by * a;
}

template <class M, class T>
AOT_INLINE Complex<T> select(M which, Complex<T> a, Complex<T> b) {
  return {select(which, a.re, b.re), select(which, a.im, b.im)};
}

// A real number as one of either kind.
template <class N>
struct Real {
  static AOT_INLINE N number(N real) { return real; }
};
template <class T>
struct Real<Complex<T>> {
  static AOT_INLINE Complex<T> number(T real) { return {real, T(0)}; }
};

template <class N>
AOT_INLINE N inverse_of(N a) {
  return Real<N>::number(decltype(real_of(a))(1)) / a;
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_NUMBERS_H_
