// A matrix, squared as often as a number says: of the exponential of a matrix, whose norm decides.
#ifndef AOT_LINALG_SQUARED_H_
#define AOT_LINALG_SQUARED_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/product.h"

namespace aot::linalg {

inline constexpr int64_t kSquarings = 24;  // at most; SQUARINGS in real_forms.py

// Record: the product (n x n), part after part. `in` copies the matrix.
template <class M, class In, class T>
void square_often(int64_t n, const In& in, T times, T* record, Room room) {
  M x = take_dense<M>(n, n, room), other = take_dense<M>(n, n, room);
  in(x);
  for (int64_t k = 0; k < kSquarings && T(k) < times; ++k) {
    for (int64_t i = 0; i < n; ++i) zero_row(other, i, n);
    subtract_product(n, n, n, x.seen(), x, other, room);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < n; ++i) scale_row(T(-1), other.part(p) + i * other.ld, n);
    }
    const M held = x;
    x = other;
    other = held;
  }
  copy_out(x, n, n, record);
}

// a (n x n), b (1 x 1).
template <class Cfg>
struct Squared : Finished {
  using T = typename Cfg::A;
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> x) { copy_in(p.matrix_a(matrix), p.n, p.n, x); };
    square_often<Dense<T>>(p.n, in, p.matrix_b(matrix).get(0, 0), record, room);
  }
};

// The operand's rows are twice the matrix'; b (2 x 1), of which the first number counts.
template <class Cfg>
struct ComplexSquared : Finished {
  using T = typename Cfg::A;
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](ComplexDense<T> x) { copy_in(operand(p, matrix, p.n), p.n, p.n, x); };
    square_often<ComplexDense<T>>(p.n, in, p.matrix_b(matrix).get(0, 0), record, room);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SQUARED_H_
