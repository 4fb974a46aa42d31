// A = Q R by Householder's reflections, H = I - tau v v^T with v = (1, ...), below R's diagonal.
#ifndef AOT_LINALG_QR_H_
#define AOT_LINALG_QR_H_

#include "aot/linalg/lanes.h"
#include "aot/linalg/product.h"

namespace aot::linalg {

// The reflection that turns a column (`n` numbers, `step` apart) into (beta, 0, ...): beta is its
// first element afterwards, v's others are the rest. Its tau; 0 where there is nothing to turn.
template <class T>
T reflect(T* x, int64_t step, int64_t n) {
  T most(0);
  for (int64_t i = 1; i < n; ++i) most = maximum(most, abs(x[i * step]));
  if (most == T(0)) return T(0);
  const T first = x[0];
  most = maximum(most, abs(first));
  T sum(0);
  for (int64_t i = 0; i < n; ++i) {
    const T part = x[i * step] / most;
    sum += part * part;
  }
  // Parts of the greatest: where numbers are the least that there are, these have their digits.
  const T size = sqrt(sum), part = first / most, beta = first >= T(0) ? -size : size;
  if (most < T(1e-30)) {
    for (int64_t i = 1; i < n; ++i) x[i * step] = x[i * step] / most / (part - beta);
  } else {
    const T below = T(1) / (most * (part - beta));
    for (int64_t i = 1; i < n; ++i) x[i * step] *= below;
  }
  x[0] = most * beta;
  return (beta - part) / beta;
}

// Rows of a single matrix in scratch, whose columns [c, c + n) of at most a panel are turned.
template <class T>
struct Reflected {
  T* a;
  int64_t ld, rows, columns;
  T* tau;

  using V = Vec<T, int(kPanel)>;

  AOT_INLINE T* at(int64_t i, int64_t j) const { return a + i * ld + j; }

  void panel(int64_t c, int64_t n) {
    for (int64_t k = c; k < min64(c + n, rows); ++k) {
      tau[k] = reflect(at(k, k), ld, rows - k);
      if (tau[k] == T(0)) continue;
      // The panel's columns right of k: their products with v, and what these leave of them.
      V sums = load<T, int(kPanel)>(at(k, c));
      for (int64_t i = k + 1; i < rows; ++i) {
        sums = fma(V(*at(i, k)), load<T, int(kPanel)>(at(i, c)), sums);
      }
      T right[kPanel];
      store(right, sums * tau[k]);
      for (int64_t j = 0; j < kPanel; ++j) {
        if (c + j <= k || j >= n) right[j] = T(0);
      }
      const V by = load<T, int(kPanel)>(right);
      store(at(k, c), load<T, int(kPanel)>(at(k, c)) - by);
      for (int64_t i = k + 1; i < rows; ++i) {
        store(at(i, c), fnma(V(*at(i, k)), by, load<T, int(kPanel)>(at(i, c))));
      }
    }
  }
};

// Several reflections as one, I - V S V^T: v by columns in `v` (rows x count, zeros above the ones)
// and S (count x count, upper triangle), from `at` (below the diagonal) and their taus.
template <class T>
struct Joined {
  T *v, *s;
  int64_t rows, count, ld, s_ld;

  Joined(const T* at, int64_t from_ld, const T* tau, int64_t rows_, int64_t count_, Room& room)
      : rows(rows_), count(count_), ld(leading(count_)), s_ld(leading(count_)) {
    v = room.take<T>(rows * ld);
    s = room.take<T>(count * s_ld);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < round_up(count, kPanel); ++k) {
        v[i * ld + k] = k >= count || i < k ? T(0) : i == k ? T(1) : at[i * from_ld + k];
      }
    }
    // s = (v^T v), and then column by column: S[:k, k] = -tau_k S[:k, :k] (v^T v)[:k, k].
    const int64_t wide = round_up(count, kPanel);
    for (int64_t k = 0; k < count; ++k) tmpl::zero_row(s + k * s_ld, wide);
    subtract_product(count, count, rows, Seen<T>{v, 1, ld}, v, ld, s, s_ld, room);
    T* const mine = room.take<T>(count);
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t i = 0; i < k; ++i) {
        T sum(0);
        for (int64_t j = i; j < k; ++j) sum += s[i * s_ld + j] * s[j * s_ld + k];
        mine[i] = sum;
      }
      for (int64_t i = 0; i < k; ++i) s[i * s_ld + k] = tau[k] * mine[i];
      s[k * s_ld + k] = tau[k];
      for (int64_t i = k + 1; i < count; ++i) s[i * s_ld + k] = T(0);
    }
  }

  // C (rows x columns) = H C, or H^T C where TURNED (the reflections in the order of their
  // numbers).
  template <bool TURNED>
  void apply(T* c, int64_t c_ld, int64_t columns, Room room) const {
    const int64_t wide = leading(columns);
    T* const w = room.take<T>(count * wide);
    T* const sw = room.take<T>(count * wide);
    for (int64_t k = 0; k < count; ++k) {
      tmpl::zero_row(w + k * wide, wide - kPanel);
      tmpl::zero_row(sw + k * wide, wide - kPanel);
    }
    // w = -V^T C, sw = S V^T C (or S^T ...), C -= V sw
    subtract_product(count, columns, rows, Seen<T>{v, 1, ld}, c, c_ld, w, wide, room);
    const Seen<T> factor = TURNED ? Seen<T>{s, 1, s_ld} : Seen<T>{s, s_ld, 1};
    subtract_product(count, columns, count, factor, w, wide, sw, wide, room);
    subtract_product(rows, columns, count, Seen<T>{v, ld, 1}, sw, wide, c, c_ld, room);
  }
};

// Columns that are turned together; kReflections in template_library.py.
inline constexpr int64_t kReflections = 32;

template <class T>
void turn(const Reflected<T>& f, int64_t c, int64_t n, int64_t next, int64_t columns, Room room) {
  if (next >= columns || c >= f.rows) return;
  const Joined<T> joined(f.at(c, c), f.ld, f.tau + c, f.rows - c, min64(n, f.rows - c), room);
  joined.template apply<true>(f.at(c, next), f.ld, columns - next, room);
}

template <class T>
void reflect_all(Reflected<T> f, Room room) {
  const int64_t all = min64(f.rows, f.columns);
  for (int64_t c = 0; c < all; c += kReflections) {
    const int64_t n = min64(kReflections, f.columns - c);
    for (int64_t p = 0; p < n; p += kPanel) {
      const int64_t width = min64(kPanel, n - p);
      f.panel(c + p, width);
      turn(f, c + p, width, c + p + width, c + n, room);
    }
    turn(f, c, n, c + n, f.columns, room);
  }
}

// Side by side; `a` is turned in its place, taus go to `tau`.
template <class T>
void reflect_lanes(LaneMatrix<T> a, int64_t rows, T* tau) {
  using V = Lanes<T>;
  const V zero(T(0)), one(T(1));
  for (int64_t k = 0; k < min64(rows, a.columns); ++k) {
    V most = zero;
    for (int64_t i = k + 1; i < rows; ++i) most = maximum(most, abs(a.get(i, k)));
    const auto still = most == zero;
    const V first = a.get(k, k);
    most = select(still, one, maximum(most, abs(first)));
    V sum = zero;
    for (int64_t i = k; i < rows; ++i) {
      const V part = a.get(i, k) / most;
      sum = fma(part, part, sum);
    }
    const V size = most * sqrt(sum);
    const V beta = select(still, first, select(first >= zero, -size, size));
    const V below = one / select(still, one, first - beta);
    const V by = select(still, zero, (beta - first) / select(still, one, beta));
    store(tau + k * kLanes<T>, by);
    a.set(k, k, beta);
    for (int64_t i = k + 1; i < rows; ++i) a.set(i, k, a.get(i, k) * below);
    for (int64_t j = k + 1; j < a.columns; ++j) {
      V along = a.get(k, j);
      for (int64_t i = k + 1; i < rows; ++i) along = fma(a.get(i, k), a.get(i, j), along);
      along = along * by;
      a.set(k, j, a.get(k, j) - along);
      for (int64_t i = k + 1; i < rows; ++i) a.set(i, j, fnma(a.get(i, k), along, a.get(i, j)));
    }
  }
}

// Record: R and the reflections by rows (m x n), taus.
template <class Cfg>
struct Qr : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, record);
    reflect_lanes(LaneMatrix<T>{record, p.n}, p.m, record + p.m * p.n * kLanes<T>);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t ld = leading(p.n);
    T* const a = room.take<T>(p.m * ld);
    copy_in(p.matrix_a(matrix), p.m, p.n, a, ld);
    reflect_all(Reflected<T>{a, ld, p.m, p.n, record + p.m * p.n}, room);
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) record[i * p.n + j] = a[i * ld + j];
    }
  }
};

// Record: H_1 ... H_k B (m x r, B is b), or H_k ... H_1 B with BACK; a has the reflections below
// its diagonal (m x n) and their taus as its last row, which is no part of m.
template <class Cfg>
struct Reflections : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using V = Lanes<T>;
    const int64_t m = p.m - 1, k_all = min64(m, p.n);
    const LaneMatrix<T> a{room.take<T>(p.m * p.n * kLanes<T>), p.n}, c{record, p.r};
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, a.at);
    gather_lanes(p.matrix_b(first), p.b_batch, lanes, m, p.r, record);
    for (int64_t step = 0; step < k_all; ++step) {
      const int64_t k = Cfg::BACK ? step : k_all - 1 - step;
      const V tau = a.get(m, k);
      for (int64_t j = 0; j < p.r; ++j) {
        V along = c.get(k, j);
        for (int64_t i = k + 1; i < m; ++i) along = fma(a.get(i, k), c.get(i, j), along);
        along = along * tau;
        c.set(k, j, c.get(k, j) - along);
        for (int64_t i = k + 1; i < m; ++i) c.set(i, j, fnma(a.get(i, k), along, c.get(i, j)));
      }
    }
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m - 1, all = min64(m, p.n), ld = leading(p.n), c_ld = leading(p.r);
    T* const a = room.take<T>(p.m * ld);
    T* const c = room.take<T>(p.m * c_ld);
    copy_in(p.matrix_a(matrix), p.m, p.n, a, ld);
    copy_in(p.matrix_b(matrix), m, p.r, c, c_ld);
    const int64_t blocks = ceil_div(all, kReflections);
    for (int64_t step = 0; step < blocks; ++step) {
      const int64_t k = (Cfg::BACK ? step : blocks - 1 - step) * kReflections;
      Room own = room;
      const Joined<T> joined(a + k * ld + k, ld, a + m * ld + k, m - k,
                             min64(kReflections, all - k), own);
      joined.template apply<Cfg::BACK>(c + k * c_ld, c_ld, p.r, own);
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < p.r; ++j) record[i * p.r + j] = c[i * c_ld + j];
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_QR_H_
