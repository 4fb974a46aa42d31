// A = U B V^T by reflections, and the singular values of B by implicit QR steps: of one matrix that
// is too large for lanes.
#ifndef AOT_LINALG_BIDIAGONAL_H_
#define AOT_LINALG_BIDIAGONAL_H_

#include "aot/linalg/rotations.h"

namespace aot::linalg {

// y += f x, and the product of y's new values and z.
template <class T>
AOT_INLINE T add_and_dot(T f, const T* x, T* y, const T* z, int64_t n) {
  constexpr int kWide = native_lanes<T>();
  using V = Vec<T, kWide>;
  V sums(T(0)), more(T(0));
  const V by(f);
  int64_t j = 0;
  for (; j + 2 * kWide <= n; j += 2 * kWide) {
    const V p = fma(by, load<T, kWide>(x + j), load<T, kWide>(y + j));
    const V q = fma(by, load<T, kWide>(x + j + kWide), load<T, kWide>(y + j + kWide));
    store(y + j, p);
    store(y + j + kWide, q);
    sums = fma(p, load<T, kWide>(z + j), sums);
    more = fma(q, load<T, kWide>(z + j + kWide), more);
  }
  T sum = reduce_sum(sums + more);
  for (; j < n; ++j) {
    y[j] += f * x[j];
    sum += y[j] * z[j];
  }
  return sum;
}

// B's diagonal d and what is right of it, e; the reflections of columns below a's diagonal, those
// of rows right of the element beside it. `y`: room for a row.
template <class T>
struct Bidiagonal {
  T* a;
  int64_t ld, m, n;
  T *d, *e, *left, *right, *y;

  void reduce() const {
    for (int64_t k = 0; k < n; ++k) {
      T* const first = a + k * ld + k;
      left[k] = reflect(first, ld, m - k);
      d[k] = first[0];
      const int64_t rest = n - k - 1;
      e[k] = right[k] = T(0);
      if (rest == 0) continue;
      products(k, rest);
      T* const v = first + 1;
      add_row(T(-1), y, v, rest);
      right[k] = reflect(v, 1, rest);
      e[k] = v[0];
      v[0] = T(1);
      rows(k, rest, v);
      v[0] = e[k];
    }
  }

  // y = tau (the rest of the columns) u, u = (1, what is below d[k]): four rows at a time.
  void products(int64_t k, int64_t rest) const {
    const T* const top = a + k * ld + k + 1;
    const T tau = left[k];
    for (int64_t j = 0; j < rest; ++j) y[j] = tau * top[j];
    if (tau == T(0)) return;
    constexpr int kWide = native_lanes<T>();
    using V = Vec<T, kWide>;
    int64_t i = 1;
    for (; i + 4 <= m - k; i += 4) {
      const T* const r = top + i * ld;
      const T f0 = tau * r[-1], f1 = tau * r[ld - 1], f2 = tau * r[2 * ld - 1];
      const T f3 = tau * r[3 * ld - 1];
      int64_t j = 0;
      for (; j + kWide <= rest; j += kWide) {
        V sum = fma(V(f0), load<T, kWide>(r + j), load<T, kWide>(y + j));
        sum = fma(V(f1), load<T, kWide>(r + ld + j), sum);
        sum = fma(V(f2), load<T, kWide>(r + 2 * ld + j), sum);
        store(y + j, fma(V(f3), load<T, kWide>(r + 3 * ld + j), sum));
      }
      for (; j < rest; ++j) {
        y[j] += f0 * r[j] + f1 * r[ld + j] + f2 * r[2 * ld + j] + f3 * r[3 * ld + j];
      }
    }
    for (; i < m - k; ++i) add_row(tau * top[i * ld - 1], top + i * ld, y, rest);
  }

  // Rows below k: less u y, and then less their product with v times v.
  void rows(int64_t k, int64_t rest, const T* v) const {
    const T tau = right[k], none = left[k] == T(0) ? T(0) : T(-1);
    for (int64_t i = k + 1; i < m; ++i) {
      T* const row = a + i * ld + k + 1;
      const T along = add_and_dot(none * row[-1], y, row, v, rest);
      if (tau != T(0)) add_row(-tau * along, v, row, rest);
    }
  }
};

// The singular values of a bidiagonal matrix in d; e[i] is beside d[i]. Rows of u and v are turned
// along. `turns`: room for 4 n numbers. Whether all were found.
template <class T>
struct BidiagonalValues {
  T *d, *e;
  int64_t n;
  TurnedRows<T> u, v;
  T* turns;

  bool find() const {
    T norm(0);
    for (int64_t i = 0; i < n; ++i) norm = maximum(norm, abs(d[i]) + abs(e[i]));
    if (!(norm < T(1) / T(0))) return false;
    const T small = rounding<T>() * norm;
    for (int64_t k = n - 1; k >= 0; --k) {
      for (int step = 0;; ++step) {
        if (step == 60) return false;
        int64_t l = k;
        bool cancels = false;
        for (; l > 0 && abs(e[l - 1]) > small; --l) {
          if (abs(d[l - 1]) <= small) {
            cancels = true;
            break;
          }
        }
        if (cancels) cancel(l, k, small);
        if (l > 0) e[l - 1] = T(0);
        if (l == k) break;
        turn(l, k);
      }
    }
    return true;
  }

  // Row l - 1 has no diagonal: what is right of it goes into the rows below.
  void cancel(int64_t l, int64_t k, T small) const {
    T c(0), s(1);
    for (int64_t i = l; i <= k; ++i) {
      const T f = s * e[i - 1];
      e[i - 1] *= c;
      if (abs(f) <= small) return;
      const T g = d[i], h = hypot(f, g);
      d[i] = h;
      c = g / h;
      s = -f / h;
      if (!u.at) continue;
      T *const p = u.at + (l - 1) * u.ld, *const q = u.at + i * u.ld;
      for (int64_t j = 0; j < u.columns; ++j) {
        const T x = p[j], y = q[j];
        p[j] = c * x + s * y;
        q[j] = c * y - s * x;
      }
    }
  }

  void turn(int64_t l, int64_t k) const {
    T *const cv = turns, *const sv = cv + n, *const cu = sv + n, *const su = cu + n;
    T x = d[l], z = d[k];
    const T y = d[k - 1], g_ = k > 1 && k - 1 > l ? e[k - 2] : T(0), h_ = e[k - 1];
    T f = ((y - z) * (y + z) + (g_ - h_) * (g_ + h_)) / (T(2) * h_ * y);
    const T root = sqrt(f * f + T(1));
    f = ((x - z) * (x + z) + h_ * (y / (f + (f < T(0) ? -root : root)) - h_)) / x;
    T c(1), s(1);
    for (int64_t j = l; j < k; ++j) {
      T g = e[j], own = d[j + 1], h = s * g;
      g *= c;
      z = hypot(f, h);
      if (j > l) e[j - 1] = z;
      c = z == T(0) ? T(1) : f / z;
      s = z == T(0) ? T(0) : h / z;
      f = x * c + g * s;
      g = g * c - x * s;
      h = own * s;
      own *= c;
      cv[j] = c;
      sv[j] = -s;
      z = hypot(f, h);
      d[j] = z;
      c = z == T(0) ? T(1) : f / z;
      s = z == T(0) ? T(0) : h / z;
      f = c * g + s * own;
      x = c * own - s * g;
      cu[j] = c;
      su[j] = -s;
    }
    e[k - 1] = f;
    d[k] = x;
    v.template turn<false>(l, k - l, cv, sv);
    u.template turn<false>(l, k - l, cu, su);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_BIDIAGONAL_H_
