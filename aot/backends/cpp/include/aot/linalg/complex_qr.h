// A = Q R of complex matrices by reflections, as of LAPACK's geqrf: H = I - tau v v^H, and R has a
// real diagonal. Columns of small ones lie as rows in scratch; others go by blocks (large_qr.h).
#ifndef AOT_LINALG_COMPLEX_QR_H_
#define AOT_LINALG_COMPLEX_QR_H_

#include "aot/linalg/lanes.h"
#include "aot/linalg/large_qr.h"

namespace aot::linalg {

// Record: R and the reflections by rows (m x n), taus. The operand's rows are twice the matrix'.
template <class Cfg>
struct ComplexQr : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n, count = min64(m, n);
    if (max64(m, n) > kSmall) {
      const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m), m, n, a); };
      return large_qr<ComplexDense<T>>(m, n, in, record, room);
    }
    const ComplexRows<T> a = complex_in(p.matrix_a(matrix), m, n, true, room);
    T* const taus = record + 2 * m * n;
    for (int64_t k = 0; k < count; ++k) {
      const Parts<T> v = a.row(k).from(k);
      const Complex<T> tau = reflect(v, m - k), beta = v.get(0);
      taus[k] = tau.re;
      taus[count + k] = tau.im;
      v.set(0, {T(1), T(0)});
      for (int64_t j = k + 1; j < n; ++j) turn_row(conjugate(tau), v, a.row(j).from(k), m - k);
      v.set(0, beta);
    }
    complex_out(a, m, n, true, record);
  }
};

// Record: H_1 ... H_k B (m x r, B is b), or H_k^H ... H_1^H B with BACK; a has the reflections
// below its diagonal (m x n) and their taus as its last row, which is no part of m.
template <class Cfg>
struct ComplexReflections : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2 - 1, n = p.n, all = min64(m, n);
    if (max64(m, max64(n, p.r)) > kSmall) {
      const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m + 1), m + 1, n, a); };
      const auto in_c = [&](ComplexDense<T> c) { copy_in(operand_b(p, matrix, m), m, p.r, c); };
      return large_reflections<ComplexDense<T>, Cfg::BACK>(m, n, p.r, in, in_c, record, room);
    }
    const ComplexRows<T> a = complex_in(p.matrix_a(matrix), m + 1, n, true, room);
    const ComplexRows<T> c = complex_in(p.matrix_b(matrix), m, p.r, true, room);
    for (int64_t step = 0; step < all; ++step) {
      const int64_t k = Cfg::BACK ? step : all - 1 - step;
      const Parts<T> v = a.row(k).from(k);
      const Complex<T> tau = a.get(k, m);
      v.set(0, {T(1), T(0)});
      for (int64_t j = 0; j < p.r; ++j) {
        turn_row(Cfg::BACK ? conjugate(tau) : tau, v, c.row(j).from(k), m - k);
      }
    }
    complex_out(c, m, p.r, true, record);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_QR_H_
