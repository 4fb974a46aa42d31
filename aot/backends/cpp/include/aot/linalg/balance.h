// A matrix whose rows and columns are alike in size, as LAPACK's gebal: P and powers of two S with
// S^-1 P^T A P S in place of A (Parlett and Reinsch 1969; James, Langou, Lowery 2014).
#ifndef AOT_LINALG_BALANCE_H_
#define AOT_LINALG_BALANCE_H_

#include "aot/linalg/dense.h"

namespace aot::linalg {

template <class M>
struct Balance {
  using N = typename M::Number;
  using T = typename M::Element;
  M a;
  int64_t n;
  T* by;           // S
  int64_t* order;  // of A's rows and columns, those of a

  // Values that stand apart go to both ends. `sizes`: room for 2 n numbers.
  void find(T* sizes) const {
    for (int64_t i = 0; i < n; ++i) order[i] = i;
    int64_t first = 0, last = n;
    for (int64_t i = last - 1; i >= 0;) {
      const bool alone = is_alone(i, 0, last, true);
      if (alone) exchange(i, --last);
      i = alone ? last - 1 : i - 1;
    }
    for (int64_t j = first; j < last;) {
      const bool alone = is_alone(j, first, last, false);
      if (alone) exchange(j, first++);
      j = alone ? first : j + 1;
    }
    scale(first, last, sizes);
  }

  // Whether row (or column) i has zeros only in [first, last), but on the diagonal.
  bool is_alone(int64_t i, int64_t first, int64_t last, bool row) const {
    for (int64_t j = first; j < last; ++j) {
      if (j != i && rough_size(row ? a.get(i, j) : a.get(j, i)) != T(0)) return false;
    }
    return true;
  }

  void exchange(int64_t x, int64_t y) const {
    if (x == y) return;
    for (int p = 0; p < M::kParts; ++p) {
      T* const at = a.part(p);
      swap_rows(at + x * a.ld, at + y * a.ld, n);
      for (int64_t i = 0; i < n; ++i) {
        const T held = at[i * a.ld + x];
        at[i * a.ld + x] = at[i * a.ld + y];
        at[i * a.ld + y] = held;
      }
    }
    const int64_t held = order[x];
    order[x] = order[y];
    order[y] = held;
  }

  // Rows and columns [first, last).
  void scale(int64_t first, int64_t last, T* sizes) const {
    for (int64_t i = 0; i < n; ++i) by[i] = T(1);
    for (bool again = true; again;) {
      again = false;
      squares(first, last, sizes, sizes + n);
      for (int64_t i = first; i < last; ++i) {
        T row = sizes[i], column = sizes[n + i];
        if (again) squares_of(i, first, last, row, column);
        row = sqrt(row);
        column = sqrt(column);
        if (!(column > T(0) && row > T(0)) || !(column + row < T(1e30))) continue;
        T factor(1);
        const T before = column + row;
        for (; column < row / T(2); column *= T(2), row /= T(2)) factor *= T(2);
        for (; column / T(2) >= row; column /= T(2), row *= T(2)) factor /= T(2);
        const T whole = by[i] * factor;
        if (column + row >= T(0.95) * before || whole > T(1e15) || whole < T(1e-15)) continue;
        again = true;
        by[i] = whole;
        for (int64_t j = 0; j < n; ++j) a.set(i, j, scaled(T(1) / factor, a.get(i, j)));
        for (int64_t j = 0; j < n; ++j) a.set(j, i, scaled(factor, a.get(j, i)));
      }
    }
  }

  static AOT_INLINE T square(T x) { return x * x; }
  static AOT_INLINE T square(Complex<T> x) { return x.re * x.re + x.im * x.im; }

  // Sums of squares of all rows and columns; of one.
  void squares(int64_t first, int64_t last, T* rows, T* columns) const {
    for (int64_t j = first; j < last; ++j) columns[j] = T(0);
    for (int64_t i = first; i < last; ++i) {
      T sum(0);
      for (int64_t j = first; j < last; ++j) {
        const T part = square(a.get(i, j));
        sum += part;
        columns[j] += part;
      }
      rows[i] = sum;
    }
  }
  void squares_of(int64_t i, int64_t first, int64_t last, T& row, T& column) const {
    row = column = T(0);
    for (int64_t j = first; j < last; ++j) {
      row += square(a.get(i, j));
      column += square(a.get(j, i));
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_BALANCE_H_
