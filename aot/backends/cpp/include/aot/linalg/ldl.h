// A = L D L^T (or L^H) of symmetric matrices, of which the lower triangle is read, with blocks of
// one or two rows in D: pivots of Bunch and Kaufman, in the form of LAPACK's sytrf and hetrf.
#ifndef AOT_LINALG_LDL_H_
#define AOT_LINALG_LDL_H_

#include "aot/linalg/complex.h"

namespace aot::linalg {

// The kinds of numbers of matrices, how these lie in operands and in records.
template <class T>
struct RealNumbers {
  using Number = T;
  static constexpr int64_t kParts = 1;
  static T get(Seen<T> a, int64_t, int64_t i, int64_t j) { return a.at[i * a.row + j * a.col]; }
  static void set(T* record, int64_t, int64_t k, T value) { record[k] = value; }
};
template <class T>
struct ComplexNumbers {
  using Number = Complex<T>;
  static constexpr int64_t kParts = 2;
  static Number get(Seen<T> a, int64_t rows, int64_t i, int64_t j) {
    return {a.at[i * a.row + j * a.col], a.at[(i + rows) * a.row + j * a.col]};
  }
  static void set(T* record, int64_t count, int64_t k, Number value) {
    record[k] = value.re;
    record[count + k] = value.im;
  }
};

template <bool HERMITIAN, class N>
AOT_INLINE N turned(N a) {
  return HERMITIAN ? conjugate(a) : a;
}
template <bool HERMITIAN, class N>
AOT_INLINE N diagonal(N a) {
  return HERMITIAN ? real_part(a) : a;
}
template <class N>
AOT_INLINE void exchange(N& x, N& y) {
  const N held = x;
  x = y;
  y = held;
}

template <class N, class T, bool HERMITIAN>
struct BunchKaufman {
  N* a;
  int64_t n;
  T* pivots;

  AOT_INLINE N& at(int64_t i, int64_t j) const { return a[i * n + j]; }
  T of_diagonal(int64_t k) const { return rough_size(diagonal<HERMITIAN>(at(k, k))); }

  // The greatest of column k below row `from`; where it is.
  T greatest_below(int64_t k, int64_t from, int64_t& where) const {
    T most(-1);
    for (int64_t i = from; i < n; ++i) {
      const T size = rough_size(at(i, k));
      if (size > most) {
        most = size;
        where = i;
      }
    }
    return most < T(0) ? T(0) : most;
  }

  // Which row takes the place of the last one of a step, and how many rows the step has; -1 where
  // there is no pivot.
  int64_t choose(int64_t k, int64_t& rows) const {
    const T share = (T(1) + sqrt(T(17))) / T(8);
    const T own = of_diagonal(k);
    int64_t most = k, unused = 0;
    const T column = k + 1 < n ? greatest_below(k, k + 1, most) : T(0);
    rows = 1;
    if (maximum(own, column) == T(0) || own != own) return -1;
    if (own >= share * column) return k;
    T row = greatest_below(most, most + 1, unused);
    for (int64_t j = k; j < most; ++j) row = maximum(row, rough_size(at(most, j)));
    if (own >= share * column * (column / row)) return k;
    if (of_diagonal(most) >= share * row) return most;
    rows = 2;
    return most;
  }

  void swap(int64_t k, int64_t rows, int64_t chosen) const {
    const int64_t own = k + rows - 1;
    if (chosen == own) return;
    for (int64_t i = chosen + 1; i < n; ++i) exchange(at(i, own), at(i, chosen));
    for (int64_t j = own + 1; j < chosen; ++j) {
      const N held = turned<HERMITIAN>(at(j, own));
      at(j, own) = turned<HERMITIAN>(at(chosen, j));
      at(chosen, j) = held;
    }
    at(chosen, own) = turned<HERMITIAN>(at(chosen, own));
    exchange(at(own, own), at(chosen, chosen));
    if (rows == 2) exchange(at(k + 1, k), at(chosen, k));
  }

  void one_row(int64_t k) const {
    const N pivot = at(k, k);
    for (int64_t j = k + 1; j < n; ++j) {
      const N factor = turned<HERMITIAN>(at(j, k)) / pivot;
      for (int64_t i = j; i < n; ++i) at(i, j) = at(i, j) - at(i, k) * factor;
      at(j, j) = diagonal<HERMITIAN>(at(j, j));
    }
    for (int64_t i = k + 1; i < n; ++i) at(i, k) = at(i, k) / pivot;
  }

  void two_rows(int64_t k) const {
    if (k + 2 >= n) return;
    const N between = at(k + 1, k), back = turned<HERMITIAN>(between);
    const N last = at(k + 1, k + 1) / between, first = at(k, k) / back;
    const N by = one() / (last * first - one());
    for (int64_t j = k + 2; j < n; ++j) {
      const N x = by * (last * at(j, k) - at(j, k + 1)) / back;
      const N y = by * (first * at(j, k + 1) - at(j, k)) / between;
      for (int64_t i = j; i < n; ++i) {
        at(i, j) = at(i, j) - at(i, k) * turned<HERMITIAN>(x) - at(i, k + 1) * turned<HERMITIAN>(y);
      }
      at(j, k) = x;
      at(j, k + 1) = y;
      at(j, j) = diagonal<HERMITIAN>(at(j, j));
    }
  }

  static N one() {
    if constexpr (sizeof(N) == sizeof(T)) {
      return T(1);
    } else {
      return {T(1), T(0)};
    }
  }

  // The number of the first row without a pivot, or 0.
  int64_t factor() const {
    int64_t info = 0, rows = 1;
    for (int64_t k = 0; k < n; k += rows) {
      const int64_t chosen = choose(k, rows);
      pivots[k] = T(chosen < 0 ? k + 1 : chosen + 1);
      for (int64_t i = k; i < k + rows; ++i) at(i, i) = diagonal<HERMITIAN>(at(i, i));
      if (chosen < 0) {
        if (!info) info = k + 1;
        continue;
      }
      swap(k, rows, chosen);
      for (int64_t i = k; i < k + rows; ++i) at(i, i) = diagonal<HERMITIAN>(at(i, i));
      if (rows == 1) {
        one_row(k);
      } else {
        pivots[k] = pivots[k + 1] = -T(chosen + 1);
        two_rows(k);
      }
    }
    return info;
  }
};

// Record: L and D by rows, zeros above the diagonal, pivots from 1 on, negative ones of two rows,
// info.
template <class Cfg, class Kind>
struct LdlOf : Finished {
  using T = typename Cfg::A;
  using N = typename Kind::Number;

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    N* const a = room.take<N>(n * n);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) a[i * n + j] = N{};
      for (int64_t j = 0; j <= i; ++j) a[i * n + j] = Kind::get(p.matrix_a(matrix), n, i, j);
    }
    T* const pivots = record + Kind::kParts * n * n;
    pivots[n] = T(BunchKaufman<N, T, Cfg::HERMITIAN>{a, n, pivots}.factor());
    for (int64_t k = 0; k < n * n; ++k) Kind::set(record, n * n, k, a[k]);
  }
};
template <class Cfg>
using Ldl = LdlOf<Cfg, RealNumbers<typename Cfg::A>>;
template <class Cfg>
using ComplexLdl = LdlOf<Cfg, ComplexNumbers<typename Cfg::A>>;

// Record: X of A X = B by rows, from factors of A and, as one row more, their pivots.
template <class Cfg, class Kind>
struct LdlSolveOf : Finished {
  using T = typename Cfg::A;
  using N = typename Kind::Number;
  static constexpr bool H = Cfg::HERMITIAN;

  struct System {
    Seen<T> factors;
    int64_t rows, n, r;
    N* x;

    N l(int64_t i, int64_t j) const { return Kind::get(factors, rows, i, j); }
    int64_t pivot(int64_t k) const {
      return int64_t(factors.at[n * factors.row + k * factors.col]);
    }
    // x[i] -= f x[k]
    void subtract(int64_t i, N f, int64_t k) const {
      for (int64_t c = 0; c < r; ++c) x[i * r + c] = x[i * r + c] - f * x[k * r + c];
    }
    void swap(int64_t i, int64_t k) const {
      if (i == k || k < 0 || k >= n) return;
      for (int64_t c = 0; c < r; ++c) exchange(x[i * r + c], x[k * r + c]);
    }

    void forward() const {
      for (int64_t k = 0; k < n; ++k) {
        if (pivot(k) > 0 || k + 1 == n) {
          swap(k, pivot(k) - 1);
          for (int64_t i = k + 1; i < n; ++i) subtract(i, l(i, k), k);
          const N own = l(k, k);
          for (int64_t c = 0; c < r; ++c) x[k * r + c] = x[k * r + c] / own;
          continue;
        }
        swap(k + 1, -pivot(k) - 1);
        for (int64_t i = k + 2; i < n; ++i) {
          subtract(i, l(i, k), k);
          subtract(i, l(i, k + 1), k + 1);
        }
        const N between = l(k + 1, k), back = turned<H>(between);
        const N first = l(k, k) / back, last = l(k + 1, k + 1) / between;
        const N size = first * last - BunchKaufman<N, T, H>::one();
        for (int64_t c = 0; c < r; ++c) {
          N &p = x[k * r + c], &q = x[(k + 1) * r + c];
          const N u = p / back, v = q / between;
          p = (last * u - v) / size;
          q = (first * v - u) / size;
        }
        ++k;
      }
    }

    void backward() const {
      for (int64_t k = n - 1; k >= 0; --k) {
        const int64_t rows_here = pivot(k) > 0 || k == 0 ? 1 : 2;
        for (int64_t i = k + 1; i < n; ++i) {
          for (int64_t j = 0; j < rows_here; ++j) subtract(k - j, turned<H>(l(i, k - j)), i);
        }
        swap(k, pivot(k) > 0 ? pivot(k) - 1 : -pivot(k) - 1);
        k -= rows_here - 1;
      }
    }
  };

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t rows = p.m / Kind::kParts, n = p.n, r = p.r;
    N* const x = room.take<N>(n * r);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < r; ++c) x[i * r + c] = Kind::get(p.matrix_b(matrix), n, i, c);
    }
    const System system{p.matrix_a(matrix), rows, n, r, x};
    system.forward();
    system.backward();
    for (int64_t k = 0; k < n * r; ++k) Kind::set(record, n * r, k, x[k]);
  }
};
template <class Cfg>
using LdlSolve = LdlSolveOf<Cfg, RealNumbers<typename Cfg::A>>;
template <class Cfg>
using ComplexLdlSolve = LdlSolveOf<Cfg, ComplexNumbers<typename Cfg::A>>;

}  // namespace aot::linalg

#endif  // AOT_LINALG_LDL_H_
