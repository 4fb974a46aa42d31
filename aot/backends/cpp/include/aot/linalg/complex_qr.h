// A = Q R of complex matrices by reflections, as of LAPACK's geqrf: H = I - tau v v^H, and R has a
// real diagonal. Small ones side by side (qr.h), others by blocks (large_qr.h).
#ifndef AOT_LINALG_COMPLEX_QR_H_
#define AOT_LINALG_COMPLEX_QR_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/qr.h"

namespace aot::linalg {

// Record: R and the reflections by rows (m x n), taus. The operand's rows are twice the matrix'.
template <class Cfg>
struct ComplexQr : Qr<Cfg> {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n;
    const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m), m, n, a); };
    large_qr<ComplexDense<T>>(m, n, in, record, room);
  }
};

// Record: H_1 ... H_k B (m x r, B is b), or H_k^H ... H_1^H B with BACK; a has the reflections
// below its diagonal (m x n) and their taus as its last row, which is no part of m.
template <class Cfg>
struct ComplexReflections : Reflections<Cfg> {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2 - 1, n = p.n;
    const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m + 1), m + 1, n, a); };
    const auto in_c = [&](ComplexDense<T> c) { copy_in(operand_b(p, matrix, m), m, p.r, c); };
    large_reflections<ComplexDense<T>, Cfg::BACK>(m, n, p.r, in, in_c, record, room);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_QR_H_
