// Eigenvalues and eigenvectors of complex matrices: reflections to Hessenberg's form, steps of QR
// with Wilkinson's shifts, and what triangular systems give.
#ifndef AOT_LINALG_COMPLEX_EIG_H_
#define AOT_LINALG_COMPLEX_EIG_H_

#include "aot/linalg/complex.h"
#include "aot/linalg/eig.h"

namespace aot::linalg {

// h becomes upper triangular, Schur's form, and columns of the basis lie in rows of v. Without v
// there are eigenvalues alone, as in eig.h.
template <class T>
struct ComplexSchur {
  using C = Complex<T>;
  ComplexRows<T> h, v;
  int64_t n;
  Parts<T> x, sums;

  void to_hessenberg() const {
    for (int64_t k = 0; v.at && k < 2 * n * n; ++k) v.at[k] = T(0);
    for (int64_t k = 0; v.at && k < n; ++k) v.row(k).re[k] = T(1);
    for (int64_t k = 0; k + 2 < n; ++k) {
      const int64_t rest = n - k - 1;
      for (int64_t i = 0; i < rest; ++i) x.set(i, h.get(k + 1 + i, k));
      const C tau = reflect(x, rest), beta = x.get(0);
      if (tau.re == T(0) && tau.im == T(0)) continue;
      x.set(0, {T(1), T(0)});
      left(k, rest, conjugate(tau));
      h.set(k + 1, k, beta);
      for (int64_t i = 1; i < rest; ++i) h.set(k + 1 + i, k, {T(0), T(0)});
      // From the right: rows of h times I - tau x x^H; columns of v are rows, and turn along.
      const Parts<T> other = sums;
      for (int64_t i = 0; i < rest; ++i) other.set(i, conjugate(x.get(i)));
      for (int64_t i = 0; i < n; ++i) {
        const Parts<T> row = h.row(i).from(k + 1);
        const C along = tau * dot<false>(row, x, rest);
        add_row(-along, other, row, rest);
      }
      if (!v.at) continue;
      for (int64_t j = 0; j < n; ++j) sums.set(j, {T(0), T(0)});
      for (int64_t i = 0; i < rest; ++i) add_row(x.get(i), v.row(k + 1 + i), sums, n);
      for (int64_t i = 0; i < rest; ++i) {
        add_row(-(tau * conjugate(x.get(i))), sums, v.row(k + 1 + i), n);
      }
    }
  }

  // h = (I - by x x^H) h, rows from k + 1 on.
  void left(int64_t k, int64_t rest, C by) const {
    for (int64_t j = 0; j < n; ++j) sums.set(j, {T(0), T(0)});
    for (int64_t i = 0; i < rest; ++i) {
      add_row(conjugate(x.get(i)), h.row(k + 1 + i).from(k), sums.from(k), n - k);
    }
    for (int64_t i = 0; i < rest; ++i) {
      add_row(-(by * x.get(i)), sums.from(k), h.row(k + 1 + i).from(k), n - k);
    }
  }

  C shift(int64_t last, int steps) const {
    if (steps % 10 == 0) {
      return h.get(last, last) + C{modulus(h.get(last, last - 1)), T(0)};
    }
    const C a = h.get(last - 1, last - 1), d = h.get(last, last);
    const C bc = h.get(last - 1, last) * h.get(last, last - 1);
    const C half = T(0.5) * (a - d), far = root(half * half + bc);
    const C one = half + far, other = half - far;
    const C least = rough_size(one) < rough_size(other) ? one : other;
    return d + least;
  }

  // One step on rows first .. last: rotations from the left, and then all of them from the right.
  void step(int64_t first, int64_t last, C by, Parts<T> turns, T* c) const {
    constexpr T least = sizeof(T) == 8 ? T(1e-200) : T(1e-20);
    const int64_t begin = v.at ? 0 : first, end = v.at ? n : last + 1;
    for (int64_t k = first; k <= last; ++k) h.set(k, k, h.get(k, k) - by);
    for (int64_t k = first; k < last; ++k) {
      const C a = h.get(k, k), b = h.get(k + 1, k);
      T own = a.re * a.re + a.im * a.im, size = own + b.re * b.re + b.im * b.im;
      if (size > least && size < T(1) / least) {
        own = sqrt(own);
        size = sqrt(size);
      } else {
        own = modulus(a);
        size = hypot(own, modulus(b));
      }
      c[k] = size == T(0) ? T(1) : own / size;
      C s{T(0), T(0)};  // rows: c p + s q and -conj(s) p + c q
      if (size != T(0)) {
        s = own == T(0) ? C{T(1) / size, T(0)} * conjugate(b)
                        : (T(1) / (own * size)) * (a * conjugate(b));
      }
      turns.set(k, s);
      rotate(h.row(k).from(k), h.row(k + 1).from(k), end - k, c[k], s);
    }
    for (int64_t k = first; k < last; ++k) {
      const C s = turns.get(k);
      for (int64_t i = begin; i <= min64(k + 1, last); ++i) {
        const C p = h.get(i, k), q = h.get(i, k + 1);
        h.set(i, k, c[k] * p + conjugate(s) * q);
        h.set(i, k + 1, c[k] * q - s * p);
      }
      if (v.at) rotate(v.row(k), v.row(k + 1), n, c[k], conjugate(s));
    }
    for (int64_t k = first; k <= last; ++k) h.set(k, k, h.get(k, k) + by);
  }

  bool find(Parts<T> turns, T* c) const {
    T norm(0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i > 0 ? i - 1 : 0; j < n; ++j) norm += rough_size(h.get(i, j));
    }
    if (!(norm < T(1) / T(0))) return false;
    int steps = 0;
    for (int64_t last = n - 1; last > 0;) {
      int64_t first = last;
      for (; first > 0; --first) {
        T size = rough_size(h.get(first - 1, first - 1)) + rough_size(h.get(first, first));
        if (size == T(0)) size = norm;
        if (rough_size(h.get(first, first - 1)) <= rounding<T>() * size) break;
      }
      if (first > 0) h.set(first, first - 1, {T(0), T(0)});
      if (first == last) {
        --last;
        steps = 0;
        continue;
      }
      if (steps++ == kFrancisSteps) return false;
      step(first, last, shift(last, steps), turns, c);
    }
    return true;
  }

  // Columns of the eigenvectors as rows of `to`.
  void vectors(ComplexRows<T> to) const {
    T norm(0);
    for (int64_t i = 0; i < n; ++i) norm = maximum(norm, greatest_part(h.row(i), n));
    const T least = maximum(rounding<T>() * norm, T(1e-30));
    for (int64_t k = 0; k < n; ++k) {
      const C value = h.get(k, k);
      const Parts<T> out = to.row(k);
      for (int64_t j = 0; j < n; ++j) out.set(j, {T(0), T(0)});
      x.set(k, {T(1), T(0)});
      for (int64_t i = k - 1; i >= 0; --i) {
        C sum{T(0), T(0)};
        for (int64_t j = i + 1; j <= k; ++j) sum = sum + h.get(i, j) * x.get(j);
        C from = value - h.get(i, i);
        if (rough_size(from) < least) from = {least, T(0)};
        x.set(i, sum / from);
        const T size = rough_size(x.get(i));
        if (rounding<T>() * size * size > T(1)) {
          scale_row(C{T(1) / size, T(0)}, x.from(i), k + 1 - i);
        }
      }
      for (int64_t j = 0; j <= k; ++j) add_row(x.get(j), v.row(j), out, n);
    }
  }
};

// Record: eigenvalues, and but for VALUES V by rows, with eigenvectors as its columns; NaN where
// none were found. The operand's rows are twice the matrix'.
template <class Cfg>
struct ComplexEig : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    if (n > kAlone) {
      const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, n), n, n, a); };
      return LargeEig<ComplexDense<T>, Cfg::VALUES>{n}.find(in, record, room);
    }
    const ComplexRows<T> h = complex_in(p.matrix_a(matrix), n, n, false, room);
    const ComplexRows<T> v{Cfg::VALUES ? nullptr : room.take<T>(2 * n * n), n};
    const ComplexRows<T> out{room.take<T>(2 * n * n), n};
    const Parts<T> x{room.take<T>(n), room.take<T>(n)}, sums{room.take<T>(n), room.take<T>(n)};
    const Parts<T> turns{room.take<T>(n), room.take<T>(n)};
    const ComplexSchur<T> schur{h, v, n, x, sums};
    schur.to_hessenberg();
    if (!schur.find(turns, room.take<T>(n))) {
      for (int64_t k = 0; k < p.record; ++k) record[k] = T(0) / T(0);
      return;
    }
    for (int64_t k = 0; k < n; ++k) {
      record[k] = h.get(k, k).re;
      record[n + k] = h.get(k, k).im;
    }
    if constexpr (Cfg::VALUES) return;
    schur.vectors(out);
    for (int64_t k = 0; k < n; ++k) normalise(out.row(k), n, false);
    complex_out(out, n, n, true, record + 2 * n);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_COMPLEX_EIG_H_
