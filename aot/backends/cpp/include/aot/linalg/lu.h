// A = P L U with partial pivoting, and what follows from it: systems and inverses.
#ifndef AOT_LINALG_LU_H_
#define AOT_LINALG_LU_H_

#include "aot/linalg/triangular.h"

namespace aot::linalg {

using UnitLower = Triangle<false, true>;
using Upper = Triangle<true, false>;

// A single matrix being factored: rows x columns, `pivots` from 0 on, `order` the rows' numbers
// as the exchanges left them, `info` the number of the first zero pivot, or 0.
template <class T>
struct Factored {
  T* a;
  int64_t ld, rows, columns;
  int32_t *pivots, *order;
  int64_t info;

  void exchange(int64_t k, int64_t other) {
    pivots[k] = int32_t(other);
    if (other == k) return;
    swap_rows(a + k * ld, a + other * ld, round_up(columns, kPanel));
    const int32_t number = order[k];
    order[k] = order[other];
    order[other] = number;
  }

  int64_t greatest(int64_t k) const {
    int64_t found = k;
    T most = abs(a[k * ld + k]);
    for (int64_t i = k + 1; i < rows; ++i) {
      const T size = abs(a[i * ld + k]);
      if (size > most) {
        most = size;
        found = i;
      }
    }
    return found;
  }

  // Columns [c, c + n) of at most a panel, below row c.
  void panel(int64_t c, int64_t n) {
    using V = Vec<T, int(kPanel)>;
    for (int64_t k = c; k < min64(c + n, rows); ++k) {
      exchange(k, greatest(k));
      const T pivot = a[k * ld + k];
      if (pivot == T(0)) {
        if (!info) info = k + 1;
        continue;
      }
      T right[kPanel];  // of the pivot's row, what is right of the pivot
      for (int64_t j = 0; j < kPanel; ++j) {
        right[j] = c + j > k && j < n ? a[k * ld + c + j] : T(0);
      }
      const V row = load<T, int(kPanel)>(right);
      for (int64_t i = k + 1; i < rows; ++i) {
        T* const at = a + i * ld + c;
        const T factor = at[k - c] / pivot;
        store(at, fnma(V(factor), row, load<T, int(kPanel)>(at)));
        at[k - c] = factor;
      }
    }
  }

  // Columns [c, c + n), by halves.
  void factor(int64_t c, int64_t n, Room room) {
    if (c >= rows) return;
    if (n <= kPanel) return panel(c, n);
    const int64_t half = round_up(n / 2, kPanel), rest = n - half;
    factor(c, half, room);
    T *const above = a + c * ld + c, *const right = above + half;
    const int64_t known = min64(half, rows - c);
    solve_triangle<UnitLower>(Seen<T>{above, ld, 1}, known, right, ld, rest, room);
    subtract_product(rows - c - half, rest, half, Seen<T>{above + half * ld, ld, 1}, right, ld,
                     right + half * ld, ld, room);
    factor(c + half, rest, room);
  }
};

template <class T>
Factored<T> factor_one(Seen<T> seen, int64_t rows, int64_t columns, Room& room) {
  const int64_t ld = leading(columns);
  Factored<T> f{room.take<T>(rows * ld), ld, rows, columns, nullptr, nullptr, 0};
  f.pivots = room.take<int32_t>(min64(rows, columns));
  f.order = room.take<int32_t>(rows);
  for (int64_t i = 0; i < rows; ++i) f.order[i] = int32_t(i);
  copy_in(seen, rows, columns, f.a, ld);
  f.factor(0, columns, room);
  return f;
}

// Side by side. `pivots` and `order` are as above, a number a lane.
template <class T>
struct LaneFactors {
  using V = Lanes<T>;
  LaneMatrix<T> a;
  int64_t rows;
  T *pivots, *order;
  V info;

  void exchange(int64_t k, V other) {
    store(pivots + k * kLanes<T>, other);
    if (all(other == V(T(k)))) return;
    T number[kLanes<T>];
    store(number, other);
    for (int l = 0; l < kLanes<T>; ++l) {
      const int64_t row = int64_t(number[l]);
      if (row == k) continue;
      swap_lane(order + k * kLanes<T> + l, order + row * kLanes<T> + l, 1);
      swap_lane(a.place(k, 0) + l, a.place(row, 0) + l, a.columns);
    }
  }
  static AOT_INLINE void swap_lane(T* x, T* y, int64_t n) {
    for (int64_t j = 0; j < n * kLanes<T>; j += kLanes<T>) {
      const T held = x[j];
      x[j] = y[j];
      y[j] = held;
    }
  }

  void factor() {
    const V zero(T(0));
    info = zero;
    for (int64_t i = 0; i < rows; ++i) store(order + i * kLanes<T>, V(T(i)));
    for (int64_t k = 0; k < min64(rows, a.columns); ++k) {
      V most = abs(a.get(k, k)), found = V(T(k));
      for (int64_t i = k + 1; i < rows; ++i) {
        const V size = abs(a.get(i, k));
        const auto more = size > most;
        most = select(more, size, most);
        found = select(more, V(T(i)), found);
      }
      exchange(k, found);
      const V pivot = a.get(k, k);
      const auto none = pivot == zero;
      info = select(none & (info == zero), V(T(k + 1)), info);
      const V by = select(none, V(T(1)), pivot);
      for (int64_t i = k + 1; i < rows; ++i) {
        const V factor = a.get(i, k) / by;
        a.set(i, k, factor);
        for (int64_t j = k + 1; j < a.columns; ++j) {
          a.set(i, j, fnma(factor, a.get(k, j), a.get(i, j)));
        }
      }
    }
  }
};

// Record: L and U by rows, pivots from 1 on, the order of the rows, info.
template <class Cfg>
struct Lu : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static LaneFactors<T> factor_lanes(const Args& p, int64_t first, int64_t lanes, T* record) {
    constexpr int64_t kWide = kLanes<T>;
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.m, p.n, record);
    T* const pivots = record + p.m * p.n * kWide;
    T* const order = pivots + min64(p.m, p.n) * kWide;
    LaneFactors<T> f{{record, p.n}, p.m, pivots, order, {}};
    f.factor();
    store(order + p.m * kWide, f.info);
    for (int64_t k = 0; k < min64(p.m, p.n); ++k) {
      store(pivots + k * kWide, load<T, kLanes<T>>(pivots + k * kWide) + Lanes<T>(T(1)));
    }
    return f;
  }

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    factor_lanes(p, first, lanes, record);
  }

  static T* write(const Factored<T>& f, T* record) {
    for (int64_t i = 0; i < f.rows; ++i) {
      for (int64_t j = 0; j < f.columns; ++j) *record++ = f.a[i * f.ld + j];
    }
    for (int64_t k = 0; k < min64(f.rows, f.columns); ++k) *record++ = T(f.pivots[k] + 1);
    for (int64_t i = 0; i < f.rows; ++i) *record++ = T(f.order[i]);
    *record++ = T(f.info);
    return record;
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    write(factor_one(p.matrix_a(matrix), p.m, p.n, room), record);
  }
};

// Record: as of Lu, then X of A X = B by rows.
template <class Cfg>
struct Solve : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    constexpr int64_t kWide = kLanes<T>;
    const LaneFactors<T> f = Lu<Cfg>::factor_lanes(p, first, lanes, record);
    T* const b = room.take<T>(p.n * p.r * kWide);
    gather_lanes(p.matrix_b(first), p.b_batch, lanes, p.n, p.r, b);
    const LaneMatrix<T> x{f.order + (p.n + 1) * kWide, p.r};
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t l = 0; l < kWide; ++l) {
        const T* const from = b + int64_t(f.order[i * kWide + l]) * p.r * kWide + l;
        for (int64_t c = 0; c < p.r; ++c) x.place(i, c)[l] = from[c * kWide];
      }
    }
    solve_lanes<UnitLower>(f.a, p.n, x);
    solve_lanes<Upper>(f.a, p.n, x);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const Factored<T> f = factor_one(p.matrix_a(matrix), p.n, p.n, room);
    T* const out = Lu<Cfg>::write(f, record);
    const int64_t ld = leading(p.r);
    T* const x = room.take<T>(p.n * ld);
    const Seen<T> b = p.matrix_b(matrix);
    for (int64_t i = 0; i < p.n; ++i) {
      copy_in(Seen<T>{b.at + f.order[i] * b.row, b.row, b.col}, 1, p.r, x + i * ld, ld);
    }
    const Seen<T> both{f.a, f.ld, 1};
    solve_triangle<UnitLower>(both, p.n, x, ld, p.r, room);
    solve_triangle<Upper>(both, p.n, x, ld, p.r, room);
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t c = 0; c < p.r; ++c) out[i * p.r + c] = x[i * ld + c];
    }
  }
};

// Record: the inverse by rows, info.
template <class Cfg>
struct Inverse : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    constexpr int64_t kWide = kLanes<T>;
    T* const both = room.take<T>((p.n * p.n + 2 * p.n + 1) * kWide);
    const LaneFactors<T> f = Lu<Cfg>::factor_lanes(p, first, lanes, both);
    const LaneMatrix<T> x{record, p.n};
    for (int64_t i = 0; i < p.n; ++i) {
      const Lanes<T> own = load<T, kLanes<T>>(f.order + i * kWide);
      for (int64_t c = 0; c < p.n; ++c) {
        x.set(i, c, select(own == Lanes<T>(T(c)), Lanes<T>(T(1)), Lanes<T>(T(0))));
      }
    }
    solve_lanes<UnitLower>(f.a, p.n, x);
    solve_lanes<Upper>(f.a, p.n, x);
    x.set(p.n, 0, f.info);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const Factored<T> f = factor_one(p.matrix_a(matrix), p.n, p.n, room);
    const int64_t ld = leading(p.n);
    T* const x = room.take<T>(p.n * ld);
    for (int64_t i = 0; i < p.n; ++i) {
      tmpl::zero_row(x + i * ld, round_up(p.n, kPanel));
      x[i * ld + f.order[i]] = T(1);
    }
    const Seen<T> both{f.a, f.ld, 1};
    solve_triangle<UnitLower>(both, p.n, x, ld, p.n, room);
    solve_triangle<Upper>(both, p.n, x, ld, p.n, room);
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t c = 0; c < p.n; ++c) record[i * p.n + c] = x[i * ld + c];
    }
    record[p.n * p.n] = T(f.info);
  }
};

// Record: the order in which exchanges (a row of rows' numbers from 1 on) leave the rows, from 0
// on; and the way back. Numbers that are no rows exchange nothing.
template <class Cfg>
struct Order : Finished {
  using T = typename Cfg::A;

  static void run(Seen<T> pivots, int64_t n, T* order, T* back, int64_t step) {
    for (int64_t k = 0; k < n; ++k) order[k * step] = T(k);
    for (int64_t k = 0; k < n; ++k) {
      const T other = pivots.at[k * pivots.col] - T(1);
      if (!(other >= T(0) && other < T(n))) continue;
      T &x = order[k * step], &y = order[int64_t(other) * step];
      const T held = x;
      x = y;
      y = held;
    }
    for (int64_t k = 0; k < n; ++k) back[int64_t(order[k * step]) * step] = T(k);
  }

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    for (int64_t l = 0; l < kLanes<T>; ++l) {
      T* const order = record + l;
      run(p.matrix_a(first + min64(l, lanes - 1)), p.n, order, order + p.n * kLanes<T>, kLanes<T>);
    }
  }
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room) {
    run(p.matrix_a(matrix), p.n, record, record + p.n, 1);
  }
};

// Record: X of T X = B by rows, T the triangle that Cfg names.
template <class Cfg>
struct SolveTriangular : Finished {
  using T = typename Cfg::A;
  using Shape = Triangle<Cfg::UPPER, Cfg::UNIT>;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    T* const t = room.take<T>(p.n * p.n * kLanes<T>);
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, p.n, p.n, t);
    gather_lanes(p.matrix_b(first), p.b_batch, lanes, p.n, p.r, record);
    solve_lanes<Shape>(LaneMatrix<T>{t, p.n}, p.n, LaneMatrix<T>{record, p.r});
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t ld = leading(p.r);
    T* const x = room.take<T>(p.n * ld);
    copy_in(p.matrix_b(matrix), p.n, p.r, x, ld);
    solve_triangle<Shape>(p.matrix_a(matrix), p.n, x, ld, p.r, room);
    for (int64_t i = 0; i < p.n; ++i) {
      for (int64_t c = 0; c < p.r; ++c) record[i * p.r + c] = x[i * ld + c];
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_LU_H_
