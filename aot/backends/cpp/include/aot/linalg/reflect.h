// Householder's reflections H = I - tau v v^H with v = (1, ...), H^H x = (beta, 0, ...).
#ifndef AOT_LINALG_REFLECT_H_
#define AOT_LINALG_REFLECT_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/product.h"

namespace aot::linalg {

// The reflection that turns a column (`n` numbers, `step` apart) into (beta, 0, ...): beta is its
// first element afterwards, v's others are the rest. Its tau; 0 where there is nothing to turn.
template <class T>
T reflect(T* x, int64_t step, int64_t n) {
  T most(0);
  for (int64_t i = 1; i < n; ++i) most = maximum(most, abs(x[i * step]));
  if (most == T(0)) return T(0);
  const T first = x[0];
  most = maximum(most, abs(first));
  T sum(0);
  for (int64_t i = 0; i < n; ++i) {
    const T part = x[i * step] / most;
    sum += part * part;
  }
  // Parts of the greatest: where numbers are the least that there are, these have their digits.
  const T size = sqrt(sum), part = first / most, beta = first >= T(0) ? -size : size;
  if (most < T(1e-30)) {
    for (int64_t i = 1; i < n; ++i) x[i * step] = x[i * step] / most / (part - beta);
  } else {
    const T below = T(1) / (most * (part - beta));
    for (int64_t i = 1; i < n; ++i) x[i * step] *= below;
  }
  x[0] = most * beta;
  return (beta - part) / beta;
}

// The reflection of a contiguous row, as `reflect`, whose squares are mostly plain numbers.
template <class T>
T reflect_row(T* x, int64_t n) {
  const T square = dot(x + 1, x + 1, n - 1);
  const T least = sizeof(T) == 8 ? T(1e-200) : T(1e-20), most = T(1) / least;
  if (!(square > least && square < most && abs(x[0]) < sqrt(most))) return reflect(x, 1, n);
  const T first = x[0], size = sqrt(first * first + square), beta = first >= T(0) ? -size : size;
  scale_row(T(1) / (first - beta), x + 1, n - 1);
  x[0] = beta;
  return (beta - first) / beta;
}
template <class T>
Complex<T> reflect_row(Parts<T> x, int64_t n) {
  const Complex<T> first = x.get(0);
  const T square = square_of(x.from(1), n - 1), own = first.re * first.re + first.im * first.im;
  const T least = sizeof(T) == 8 ? T(1e-200) : T(1e-20), most = T(1) / least;
  if (!(square > least && square < most && own < most)) return reflect(x, n);
  const T size = sqrt(own + square), beta = first.re >= T(0) ? -size : size;
  scale_row(Complex<T>{T(1), T(0)} / Complex<T>{first.re - beta, first.im}, x.from(1), n - 1);
  x.set(0, {beta, T(0)});
  return {(beta - first.re) / beta, -first.im / beta};
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_REFLECT_H_
