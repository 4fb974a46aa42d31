// A = V diag(w) V^T of symmetric matrices, of which the lower triangle is read; w ascends.
//
// The smallest matrices by Jacobi's rotations, side by side; others by reflections to a tridiagonal
// one and implicit QL steps there, side by side (eigh_lanes.h) or one.
#ifndef AOT_LINALG_EIGH_H_
#define AOT_LINALG_EIGH_H_

#include "aot/linalg/eigh_lanes.h"
#include "aot/linalg/rotations.h"

namespace aot::linalg {

inline constexpr int64_t kRotated = 6;  // sizes up to which rotations are quickest

// Diagonal a, and rows of `v` as its eigenvectors if there is one.
template <class T>
void jacobi_lanes(LaneMatrix<T> a, LaneMatrix<T> v) {
  using V = Lanes<T>;
  const int64_t n = a.columns;
  V most(T(0));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j) most = maximum(most, abs(a.get(i, j)));
  }
  const V small = most * V(rounding<T>() / T(4));
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t x = 0; x < n; ++x) {
      for (int64_t y = x + 1; y < n; ++y) {
        const V between = a.get(x, y);
        const auto turns = abs(between) > small;  // NaN turns nothing
        if (!any(turns)) continue;
        turned = true;
        const Rotation<V> r = rotation(a.get(x, x), a.get(y, y), between, turns);
        rotate_rows(a, x, y, r);
        for (int64_t i = 0; i < n; ++i) {
          const V p = a.get(i, x), q = a.get(i, y);
          a.set(i, x, fnma(r.s, q, r.c * p));
          a.set(i, y, fma(r.s, p, r.c * q));
        }
        const V rest = select(turns, V(T(0)), between);
        a.set(x, y, rest);
        a.set(y, x, rest);
        if (v.at) rotate_rows(v, x, y, r);
      }
    }
    if (!turned) return;
  }
}

// One pass over what is left of a symmetric matrix, from the diagonal on: row -= p q + q p of the
// step before, and w = (the whole matrix) v of this one.
template <class T>
void step_rows(T* a, int64_t ld, int64_t n, const T* p, const T* q, const T* v, T* w) {
  constexpr int kWide = native_lanes<T>();
  using V = Vec<T, kWide>;
  for (int64_t i = 0; i < n; ++i) w[i] = T(0);
  for (int64_t i = 0; i < n; ++i) {
    T* const row = a + i * ld;
    const V one(p[i]), other(q[i]), by(v[i]);
    row[i] -= T(2) * p[i] * q[i];
    T sum = row[i] * v[i];
    V sums(T(0));
    int64_t j = i + 1;
    for (; j + kWide <= n; j += kWide) {
      V x = fnma(one, load<T, kWide>(q + j), load<T, kWide>(row + j));
      x = fnma(other, load<T, kWide>(p + j), x);
      store(row + j, x);
      sums = fma(x, load<T, kWide>(v + j), sums);
      store(w + j, fma(by, x, load<T, kWide>(w + j)));
    }
    for (; j < n; ++j) {
      row[j] -= p[i] * q[j] + q[i] * p[j];
      sum += row[j] * v[j];
      w[j] += v[i] * row[j];
    }
    w[i] += sum + reduce_sum(sums);
  }
}

// a (dense, n x n, of which what is right of the diagonal is read) becomes tridiagonal, d and e;
// rows of a keep the reflections. `w`: room for 2 n numbers.
template <class T>
void tridiagonalise(T* a, int64_t n, T* d, T* e, T* tau, T* w) {
  T *last = w, *now = w + n;
  for (int64_t j = 0; j < n; ++j) last[j] = T(0);
  const T* p = a;  // of the step before, from row k on: nothing, as `last` is zeros
  for (int64_t k = 0; k < n; ++k) {
    T* const row = a + k * n;
    if (k) {
      for (int64_t j = 0; j < n - k; ++j) row[k + j] -= p[0] * last[j] + last[0] * p[j];
    }
    d[k] = row[k];
    e[k] = tau[k] = T(0);
    const int64_t rest = n - k - 1;
    if (rest == 0) break;
    T* const v = row + k + 1;
    tau[k] = reflect(v, 1, rest);
    e[k] = v[0];
    v[0] = T(1);
    step_rows(a + (k + 1) * (n + 1), n, rest, k ? p + 1 : last, last + (k ? 1 : 0), v, now);
    for (int64_t j = 0; j < rest; ++j) now[j] *= tau[k];
    add_row(-tau[k] / 2 * dot(now, v, rest), v, now, rest);
    p = v;
    T* const held = last;
    last = now;
    now = held;
  }
}

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

// Record: w, and but for VALUES V by rows, with eigenvectors as its columns.
template <class Cfg>
struct Eigh : Finished {
  using T = typename Cfg::A;

  static void by_steps(LaneMatrix<T> a, LaneMatrix<T> v, LaneRow<T> d, Room room) {
    const int64_t row = a.columns * kLanes<T>;
    const LaneRow<T> e{room.take<T>(row)}, tau{room.take<T>(row)}, w{room.take<T>(row)};
    tridiagonalise_lanes(a, d, e, tau, w);
    if (v.at) join_lanes(a, tau, v);
    LaneValues<T>{d, e, tau, w, v}.find();
  }

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    const int64_t n = p.n;
    const LaneMatrix<T> a{room.take<T>(n * n * kLanes<T>), n};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, n, n, a.at);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) a.set(i, j, a.get(j, i));
    }
    LaneMatrix<T> v{Cfg::VALUES ? nullptr : record + n * kLanes<T>, n};
    if (n > kRotated) return by_steps(a, v, LaneRow<T>{record}, room);
    if (v.at) make_identity(v);
    jacobi_lanes(a, v);
    for (int64_t i = 0; i < n; ++i) store(record + i * kLanes<T>, a.get(i, i));
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    T* const a = room.take<T>(n * n);
    T *const e = room.take<T>(n), *const tau = room.take<T>(n), *const w = room.take<T>(2 * n);
    const Seen<T> seen = p.matrix_a(matrix);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) a[j * n + i] = seen.at[i * seen.row + j * seen.col];
    }
    tridiagonalise(a, n, record, e, tau, w);
    TurnedRows<T> v{nullptr, leading(n), n};
    if (!Cfg::VALUES) {
      T* const turned = room.take<T>(n * v.ld);
      v.at = room.take<T>(n * v.ld);
      // Reflection k begins at row k + 1: in `v`, as columns.
      transpose_into(a + 1, n, n - 1, n - 1, v.at, v.ld);
      form_basis(v.at, v.ld, tau, n - 1, turned, v.ld, n, n, 1, room);
      transpose_into(turned, v.ld, n, n, v.at, v.ld);
    }
    const bool wrong = tridiagonal_values(record, e, n, v, w) != 0;
    for (int64_t i = 0; i < n; ++i) {
      if (wrong) record[i] = T(0) / T(0);
      for (int64_t j = 0; j < n && v.at; ++j) record[n + i * n + j] = v.at[i * v.ld + j];
    }
  }

  // Ascending values, and vectors as columns.
  template <class Args>
  static void finish(const Args& p, T* record) {
    const int64_t n = p.n;
    T* const v = record + n;
    for (int64_t i = 0; i < n; ++i) {
      int64_t least = i;
      for (int64_t k = i + 1; k < n; ++k) least = record[k] < record[least] ? k : least;
      if (least == i) continue;
      const T held = record[i];
      record[i] = record[least];
      record[least] = held;
      if (!Cfg::VALUES) swap_rows(v + i * n, v + least * n, n);
    }
    if (!Cfg::VALUES) transpose(v, n);
  }

  static void transpose(T* v, int64_t n) {
    constexpr int64_t kTile = 32;
    for (int64_t i0 = 0; i0 < n; i0 += kTile) {
      for (int64_t j0 = 0; j0 <= i0; j0 += kTile) {
        for (int64_t i = i0; i < min64(n, i0 + kTile); ++i) {
          for (int64_t j = j0; j < min64(i, j0 + kTile); ++j) {
            const T held = v[i * n + j];
            v[i * n + j] = v[j * n + i];
            v[j * n + i] = held;
          }
        }
      }
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIGH_H_
