// Eigenvalues of Hermitian matrices, of which the lower triangle is read, and singular values of
// complex ones with at least as many rows as columns.
#ifndef AOT_LINALG_COMPLEX_SPECTRAL_H_
#define AOT_LINALG_COMPLEX_SPECTRAL_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/eigh.h"
#include "aot/linalg/large_svd.h"
#include "aot/linalg/rotations.h"

namespace aot::linalg {

// a becomes tridiagonal and real, d and e; rows of a keep the reflections, which begin behind the
// diagonal.
template <class T>
void tridiagonalise(ComplexRows<T> a, int64_t n, T* d, T* e, Parts<T> tau, Parts<T> w) {
  for (int64_t k = 0; k < n; ++k) {
    d[k] = a.get(k, k).re;
    e[k] = T(0);
    tau.set(k, {T(0), T(0)});
    const int64_t rest = n - k - 1;
    if (rest == 0) break;
    const Parts<T> v = a.row(k).from(k + 1);
    for (int64_t j = 0; j < rest; ++j) v.im[j] = -v.im[j];  // the column
    const Complex<T> by = reflect(v, rest);
    tau.set(k, by);
    e[k] = v.re[0];
    if (by.re == T(0) && by.im == T(0)) continue;
    v.set(0, {T(1), T(0)});
    for (int64_t i = 0; i < rest; ++i) {
      w.set(i, by * dot<false>(a.row(k + 1 + i).from(k + 1), v, rest));
    }
    const Complex<T> half{T(-0.5), T(0)};
    add_row(half * by * dot<true>(w, v, rest), v, w, rest);
    // a -= v w^H + w v^H, by rows: conjugates of v and w are added.
    for (int64_t j = 0; j < rest; ++j) {
      v.im[j] = -v.im[j];
      w.im[j] = -w.im[j];
    }
    for (int64_t i = 0; i < rest; ++i) {
      const Parts<T> row = a.row(k + 1 + i).from(k + 1);
      add_row(-conjugate(v.get(i)), w, row, rest);
      add_row(-conjugate(w.get(i)), v, row, rest);
    }
    for (int64_t j = 0; j < rest; ++j) v.im[j] = -v.im[j];
  }
}

// Record: w, and but for VALUES V by rows, with eigenvectors as its columns. The operand's rows are
// twice the matrix'.
template <class Cfg>
struct ComplexEigh : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    if (n > kSmall) {
      const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, n).turned(), n, n, a); };
      return LargeEigh<ComplexDense<T>, Cfg::VALUES>{n}.find(in, record, room);
    }
    const ComplexRows<T> a = complex_in(p.matrix_a(matrix), n, n, false, room);
    for (int64_t i = 0; i < n; ++i) {
      a.row(i).im[i] = T(0);
      for (int64_t j = 0; j < i; ++j) a.set(j, i, conjugate(a.get(i, j)));
    }
    T *const d = room.take<T>(n), *const e = room.take<T>(n);
    const Parts<T> tau{room.take<T>(n), room.take<T>(n)}, w{room.take<T>(n), room.take<T>(n)};
    tridiagonalise(a, n, d, e, tau, w);
    const ComplexRows<T> v{room.take<T>(2 * n * n), n};  // columns of V as rows
    for (int64_t k = 0; k < 2 * n * n; ++k) v.at[k] = T(0);
    for (int64_t i = 0; i < n; ++i) v.row(i).re[i] = T(1);
    for (int64_t k = n - 2; k >= 0; --k) {
      for (int64_t i = k + 1; i < n; ++i) {
        turn_row(tau.get(k), a.row(k).from(k + 1), v.row(i).from(k + 1), n - k - 1);
      }
    }
    const TurnedRows<T> rows{v.at, 2 * n, 2 * n};
    const bool wrong = tridiagonal_values(d, e, n, rows, room.take<T>(2 * n)) != 0;
    for (int64_t i = 0; i < n; ++i) {
      int64_t least = i;
      for (int64_t k = i + 1; k < n; ++k) least = d[k] < d[least] ? k : least;
      const T held = d[i];
      d[i] = d[least];
      d[least] = held;
      if (least != i) swap_rows(v.row(i).re, v.row(least).re, 2 * n);
      record[i] = wrong ? T(0) / T(0) : d[i];
    }
    if constexpr (Cfg::VALUES) return;
    complex_out(v, n, n, true, record + n);
  }
};

// Record: s, and but for VALUES U^T (n x m) and V^H (n x n) by rows.
template <class Cfg>
struct ComplexSvd : Finished {
  using T = typename Cfg::A;

  // Row y is turned so that its product with x is real, and both so that it is 0.
  static void turn(ComplexRows<T> a, int64_t x, int64_t y, Complex<T> back, T c, T s) {
    scale_row(back, a.row(y), a.columns);
    const Rotation<Vec<T, 1>> r{Vec<T, 1>(c), Vec<T, 1>(s)};
    rotate_rows(OneMatrix<T>{a.at, 2 * a.columns}, x, y, r);
  }

  static void make_orthogonal(ComplexRows<T> w, int64_t n, int64_t m, ComplexRows<T> v) {
    const T small = rounding<T>() * sqrt(T(m));
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      bool turned = false;
      for (int64_t x = 0; x < n; ++x) {
        for (int64_t y = x + 1; y < n; ++y) {
          const T own = square_of(w.row(x), m), other = square_of(w.row(y), m);
          const Complex<T> between = dot<true>(w.row(x), w.row(y), m);
          const T size = modulus(between);
          if (!(size > small * (sqrt(own) * sqrt(other)))) continue;
          turned = true;
          const T angle = (other - own) / (size + size);
          const T tan = (angle < T(0) ? T(-1) : T(1)) / (abs(angle) + sqrt(angle * angle + T(1)));
          const T c = T(1) / sqrt(tan * tan + T(1));
          const Complex<T> back = (T(1) / size) * conjugate(between);
          turn(w, x, y, back, c, tan * c);
          turn(v, x, y, back, c, tan * c);
        }
      }
      if (!turned) return;
    }
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n;
    if (n > kSmall) {
      const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m), m, n, a); };
      return LargeSvd<ComplexDense<T>, Cfg::VALUES>{m, n}.find(in, record, room);
    }
    const ComplexRows<T> w = complex_in(p.matrix_a(matrix), m, n, true, room);
    const ComplexRows<T> v{room.take<T>(2 * n * n), n};
    for (int64_t k = 0; k < 2 * n * n; ++k) v.at[k] = T(0);
    for (int64_t i = 0; i < n; ++i) v.row(i).re[i] = T(1);
    const T most = greatest_part(Parts<T>{w.at, w.at + n * m}, n * m);
    const T scaled = most > T(0) ? most : T(1);
    for (int64_t k = 0; k < 2 * n * m; ++k) w.at[k] /= scaled;
    make_orthogonal(w, n, m, v);
    for (int64_t i = 0; i < n; ++i) record[i] = sqrt(square_of(w.row(i), m));
    for (int64_t i = 0; i < n; ++i) {
      int64_t greatest = i;
      for (int64_t k = i + 1; k < n; ++k) greatest = record[k] > record[greatest] ? k : greatest;
      if (greatest != i) {
        const T held = record[i];
        record[i] = record[greatest];
        record[greatest] = held;
        swap_rows(w.row(i).re, w.row(greatest).re, 2 * m);
        swap_rows(v.row(i).re, v.row(greatest).re, 2 * n);
      }
      if (record[i] <= T(0) || record[i] <= rounding<T>() * rounding<T>() * record[0]) {
        fill(w, i, m);
      } else {
        scale_row(Complex<T>{T(1) / record[i], T(0)}, w.row(i), m);
      }
    }
    for (int64_t i = 0; i < n; ++i) record[i] *= scaled;
    if constexpr (Cfg::VALUES) return;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) v.row(i).im[j] = -v.row(i).im[j];
    }
    complex_out(v, n, n, false, complex_out(w, n, m, false, record + n));
  }

  // Row i of length 1, orthogonal to those before: a unit vector without its parts along them.
  static void fill(ComplexRows<T> u, int64_t i, int64_t m) {
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
