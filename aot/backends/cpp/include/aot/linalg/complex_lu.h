// A = P L U of complex matrices with partial pivoting, as of LAPACK's getrf.
#ifndef AOT_LINALG_COMPLEX_LU_H_
#define AOT_LINALG_COMPLEX_LU_H_

#include "aot/linalg/complex.h"

namespace aot::linalg {

// Record: L and U by rows, pivots from 1 on, the order of the rows, info, the determinant, its
// direction, and the logarithm of its size. The operand's rows are twice the matrix'.
template <class Cfg>
struct ComplexLu : Finished {
  using T = typename Cfg::A;

  static int64_t greatest(ComplexRows<T> a, int64_t k, int64_t rows) {
    int64_t found = k;
    T most = rough_size(a.get(k, k));
    for (int64_t i = k + 1; i < rows; ++i) {
      const T size = rough_size(a.get(i, k));
      if (size > most) {
        most = size;
        found = i;
      }
    }
    return found;
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n, count = min64(m, n);
    const ComplexRows<T> a = complex_in(p.matrix_a(matrix), m, n, false, room);
    T *const pivots = record + 2 * m * n, *const order = pivots + count;
    T* const behind = order + m;
    int64_t info = 0;
    Complex<T> det{T(1), T(0)}, direction{T(1), T(0)};
    T size(0);
    for (int64_t i = 0; i < m; ++i) order[i] = T(i);
    for (int64_t k = 0; k < count; ++k) {
      const int64_t chosen = greatest(a, k, m);
      pivots[k] = T(chosen + 1);
      if (chosen != k) {
        swap_rows(a.row(k).re, a.row(chosen).re, 2 * n);
        const T held = order[k];
        order[k] = order[chosen];
        order[chosen] = held;
        det = -det;
        direction = -direction;
      }
      const Complex<T> pivot = a.get(k, k);
      const T length = modulus(pivot);
      det = det * pivot;
      direction = length == T(0) ? Complex<T>{T(0), T(0)} : direction * ((T(1) / length) * pivot);
      size += log(length);
      if (length == T(0)) {
        if (!info) info = k + 1;
        continue;
      }
      for (int64_t i = k + 1; i < m; ++i) {
        const Complex<T> factor = a.get(i, k) / pivot;
        a.set(i, k, factor);
        add_row(-factor, a.row(k).from(k + 1), a.row(i).from(k + 1), n - k - 1);
      }
    }
    complex_out(a, m, n, false, record);
    const T last[] = {T(info), det.re, det.im, direction.re, direction.im, size};
    for (int64_t k = 0; k < 6; ++k) behind[k] = last[k];
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_LU_H_
