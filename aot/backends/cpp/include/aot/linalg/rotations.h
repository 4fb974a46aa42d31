// The eigenvalues of one tridiagonal matrix by implicit QL steps, and the chains of rotations that
// these are of the rows of vectors: for complex matrices.
#ifndef AOT_LINALG_ROTATIONS_H_
#define AOT_LINALG_ROTATIONS_H_

#include "aot/linalg/jacobi.h"

namespace aot::linalg {

// Rows that chains of rotations turn; `at` may be null. Rotation k is of rows k and k + 1, whose
// new values are c x - s y and s x + c y.
template <class T>
struct TurnedRows {
  T* at;
  int64_t ld, columns;

  // Rotations first .. first + count - 1, the last one first where DOWN. A strip of columns at a
  // time: the row that two of them share stays in registers.
  template <bool DOWN>
  void turn(int64_t first, int64_t count, const T* c, const T* s) const {
    constexpr int64_t kOne = native_lanes<T>(), kStrip = 4 * kOne;
    if (!at || count <= 0) return;
    int64_t j = 0;
    for (; j + kStrip <= columns; j += kStrip) strip<DOWN, int(kOne), 4>(j, first, count, c, s);
    for (; j + kOne <= columns; j += kOne) strip<DOWN, int(kOne), 1>(j, first, count, c, s);
    for (; j < columns; ++j) strip<DOWN, 1, 1>(j, first, count, c, s);
  }

  template <bool DOWN, int WIDE, int VECTORS>
  AOT_INLINE void strip(int64_t j, int64_t first, int64_t count, const T* c, const T* s) const {
    using V = Vec<T, WIDE>;
    V held[VECTORS];
    T* const start = at + (DOWN ? first + count : first) * ld + j;
    AOT_UNROLL for (int v = 0; v < VECTORS; ++v) held[v] = load<T, WIDE>(start + v * WIDE);
    for (int64_t step = 0; step < count; ++step) {
      const int64_t k = first + (DOWN ? count - 1 - step : step);
      const V cos(c[k]), sin(s[k]);
      T *const upper = at + k * ld + j, *const lower = upper + ld;
      AOT_UNROLL for (int v = 0; v < VECTORS; ++v) {
        if constexpr (DOWN) {
          const V x = load<T, WIDE>(upper + v * WIDE), y = held[v];
          store(lower + v * WIDE, fma(sin, x, cos * y));
          held[v] = fnma(sin, y, cos * x);
        } else {
          const V x = held[v], y = load<T, WIDE>(lower + v * WIDE);
          store(upper + v * WIDE, fnma(sin, y, cos * x));
          held[v] = fma(sin, x, cos * y);
        }
      }
    }
    T* const end = at + (DOWN ? first : first + count) * ld + j;
    AOT_UNROLL for (int v = 0; v < VECTORS; ++v) store(end + v * WIDE, held[v]);
  }
};

// The eigenvalues of (d, e) in d; rows of `v`, if there is one, are turned along. 0, or how many
// values had not converged. `turns`: room for 2 n numbers.
template <class T>
int64_t tridiagonal_values(T* d, T* e, int64_t n, TurnedRows<T> v, T* turns) {
  T *const cos = turns, *const sin = turns + n;
  T norm(0);
  for (int64_t i = 0; i < n; ++i) norm = maximum(norm, maximum(abs(d[i]), abs(e[i])));
  const T least = nothing_beside(Vec<T, 1>(norm))[0];
  for (int64_t l = 0; l < n; ++l) {
    for (int step = 0;; ++step) {
      int64_t m = l;
      for (; m + 1 < n; ++m) {
        const T around = abs(d[m]) + abs(d[m + 1]);
        if (!(abs(e[m]) > maximum(rounding<T>() * around, least))) break;
      }
      if (m == l) break;
      if (step == 60) return n - l;
      T g = (d[l + 1] - d[l]) / (T(2) * e[l]);
      const T size = sqrt(g * g + T(1));
      g = d[m] - d[l] + e[l] / (g < T(0) ? g - size : g + size);
      T s(1), c(1), p(0);
      int64_t i = m - 1;
      for (; i >= l; --i) {
        const T f = s * e[i], b = c * e[i];
        const T h = hypot(f, g);
        e[i + 1] = h;
        if (h == T(0)) break;
        s = f / h;
        c = g / h;
        const T at = d[i + 1] - p;
        const T r = (d[i] - at) * s + T(2) * c * b;
        p = s * r;
        d[i + 1] = at + p;
        g = c * r - b;
        cos[i] = c;
        sin[i] = s;
      }
      v.template turn<true>(i + 1, m - 1 - i, cos, sin);
      if (i >= l) {
        d[i + 1] -= p;
        e[m] = T(0);
        continue;
      }
      d[l] -= p;
      e[l] = g;
      e[m] = T(0);
    }
  }
  return 0;
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROTATIONS_H_
