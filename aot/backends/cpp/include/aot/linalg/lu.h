// A = P L U with partial pivoting, and what follows from it: systems and inverses.
#ifndef AOT_LINALG_LU_H_
#define AOT_LINALG_LU_H_

#include "aot/linalg/triangular.h"

namespace aot::linalg {

using UnitLower = Triangle<false, true>;
using Upper = Triangle<true, false>;

// A single matrix being factored: rows x columns, `pivots` from 0 on, `order` the rows' numbers
// as the exchanges left them, `info` the number of the first zero pivot, or 0.
template <class M>
struct Factored {
  using T = typename M::Element;
  using N = typename M::Number;
  M a;
  int64_t rows, columns;
  int32_t *pivots, *order;
  int64_t info;

  void exchange(int64_t k, int64_t other) {
    pivots[k] = int32_t(other);
    if (other == k) return;
    for (int p = 0; p < M::kParts; ++p) {
      T* const part = a.part(p);
      swap_rows(part + k * a.ld, part + other * a.ld, round_up(columns, kPanel));
    }
    const int32_t number = order[k];
    order[k] = order[other];
    order[other] = number;
  }

  int64_t greatest(int64_t k) const {
    int64_t found = k;
    T most = rough_size(a.get(k, k));
    for (int64_t i = k + 1; i < rows; ++i) {
      const T size = rough_size(a.get(i, k));
      if (size > most) {
        most = size;
        found = i;
      }
    }
    return found;
  }

  // Columns [c, c + n) of at most a panel, below row c.
  void panel(int64_t c, int64_t n) {
    constexpr int kWide = int(kPanel);
    alignas(64) T right[M::kParts * kPanel];  // of the pivot's row, what is right of the pivot
    const M held = row_at(right);
    for (int64_t k = c; k < min64(c + n, rows); ++k) {
      exchange(k, greatest(k));
      const N pivot = a.get(k, k);
      if (rough_size(pivot) == T(0)) {
        if (!info) info = k + 1;
        continue;
      }
      for (int64_t j = 0; j < kPanel; ++j) {
        held.set(0, j, c + j > k && j < n ? a.get(k, c + j) : Real<N>::number(T(0)));
      }
      const auto row = held.template wide<kWide>(0, 0);
      const Divisor<N> by(pivot);
      for (int64_t i = k + 1; i < rows; ++i) {
        const N factor = by(a.get(i, k));
        const auto rest = a.template wide<kWide>(i, c);
        a.template set_wide<kWide>(i, c, less_product(spread<kWide>(factor), row, rest));
        a.set(i, k, factor);
      }
    }
  }
  static M row_at(T* at) {
    if constexpr (M::kParts == 2) {
      return {at, at + kPanel, 0};
    } else {
      return {at, 0};
    }
  }

  // Columns [c, c + n), by halves.
  void factor(int64_t c, int64_t n, Room room) {
    if (c >= rows) return;
    if (n <= kPanel) return panel(c, n);
    const int64_t half = round_up(n / 2, kPanel), rest = n - half;
    factor(c, half, room);
    const M above = a.from(c, c), right = above.from(0, half);
    const int64_t known = min64(half, rows - c);
    solve_triangle<UnitLower>(above.seen(), known, right, rest, room);
    subtract_product(rows - c - half, rest, half, above.from(half, 0).seen(), right,
                     right.from(half, 0), room);
    factor(c + half, rest, room);
  }
};

template <class M, class Any>
Factored<M> factor_one(Any seen, int64_t rows, int64_t columns, Room& room) {
  Factored<M> f{take_dense<M>(rows, columns, room), rows, columns, nullptr, nullptr, 0};
  f.pivots = room.take<int32_t>(min64(rows, columns));
  f.order = room.take<int32_t>(rows);
  for (int64_t i = 0; i < rows; ++i) f.order[i] = int32_t(i);
  copy_in(seen, rows, columns, f.a);
  f.factor(0, columns, room);
  return f;
}

// Side by side. `pivots` and `order` are as above, a number a lane.
//
// Where rows are exchanged, every lane has its own: the pivots' row is gathered, and the row whose
// place it takes goes where it belongs while the rows below are computed.
template <class M>
struct LaneFactors {
  using T = typename M::Element;
  using N = typename M::Number;
  using V = Lanes<T>;
  static constexpr int64_t kWide = kLanes<T>;
  M a;
  int64_t rows;
  T *pivots, *order;
  V info;

  // Row k before the exchange is left in `held`.
  void exchange(int64_t k, V other, M held) {
    const M own = a;  // what is stored might be a member, for all that compilers know
    const int64_t columns = own.columns;
    T number[kWide];
    store(number, other);
    const T* from[kWide];
    for (int64_t l = 0; l < kWide; ++l) {
      const int64_t row = int64_t(number[l]);
      T &x = order[k * kWide + l], &y = order[row * kWide + l];
      const T moved = x;
      x = y;
      y = moved;
      from[l] = own.part(0).place(row, 0) + l;
    }
    for (int p = 0; p < M::kParts; ++p) {
      const int64_t apart = own.part(p).at - own.part(0).at;
      T *const here = own.part(p).place(k, 0), *const kept = held.part(p).at;
      for (int64_t j = 0; j < columns * kWide; j += kWide) {
        // A vector at once: one that is read behind stores of its parts waits for these.
        const auto lane = [&](int l) { return from[l][apart + j]; };
        const V chosen = detail::one_by_one<T, int(kWide)>(lane);
        store(kept + j, load<T, int(kWide)>(here + j));
        store(here + j, chosen);
      }
      for (int64_t l = 0; l < kWide; ++l) {
        T* const there = const_cast<T*>(from[l]) + apart;
        for (int64_t j = 0; j < k; ++j) there[j * kWide] = kept[j * kWide + l];
      }
    }
  }

  // Rows below k, of which `found` takes what `held` has.
  template <bool EXCHANGED>
  AOT_INLINE static void eliminate(M a, int64_t rows, int64_t k, V found, N pivot, M held) {
    const Divisor<N> by(pivot);
    const int64_t columns = a.columns;
    const M top = a.below(k);
    for (int64_t i = k + 1; i < rows; ++i) {
      const auto here = found == V(T(i));
      const M row = a.below(i);
      const auto given = [&](int64_t j) {
        if constexpr (EXCHANGED) return select(here, held.get(0, j), row.get(0, j));
        return row.get(0, j);
      };
      const N factor = by(given(k));
      row.set(0, k, factor);
      for (int64_t j = k + 1; j < columns; ++j) {
        row.set(0, j, less_product(factor, top.get(0, j), given(j)));
      }
    }
  }

  void factor() {
    alignas(64) T row[M::kParts * kSmall * kWide];
    const M held = row_of(row, a.columns);
    const V zero(T(0));
    info = zero;
    for (int64_t i = 0; i < rows; ++i) store(order + i * kWide, V(T(i)));
    for (int64_t k = 0; k < min64(rows, a.columns); ++k) {
      V most = rough_size(a.get(k, k)), found = V(T(k));
      for (int64_t i = k + 1; i < rows; ++i) {
        const V size = rough_size(a.get(i, k));
        found = select(size > most, V(T(i)), found);
        most = at_least(most, size);  // one instruction: each row waits for the one before
      }
      store(pivots + k * kWide, found);
      const bool stays = all(found == V(T(k)));
      if (!stays) exchange(k, found, held);
      const N own = a.get(k, k);
      const auto none = rough_size(own) == zero;
      info = select(none & (info == zero), V(T(k + 1)), info);
      const N pivot = select(none, Real<N>::number(V(T(1))), own);
      stays ? eliminate<false>(a, rows, k, found, pivot, held)
            : eliminate<true>(a, rows, k, found, pivot, held);
    }
  }
  static M row_of(T* at, int64_t columns) {
    if constexpr (M::kParts == 2) {
      return M(at, 1, columns);
    } else {
      return M{at, columns};
    }
  }
};

// The matrices of an element of a batch, factored into a record (or the like) that begins with
// L and U by rows, pivots from 1 on, the order of the rows, and info.
template <class Args>
LaneFactors<typename Args::Side> factor_lanes(const Args& p, int64_t first, int64_t lanes,
                                              typename Args::T* record) {
  using T = typename Args::T;
  constexpr int64_t kWide = kLanes<T>;
  const int64_t m = p.rows();
  const auto a = p.side(record, m, p.n);
  gather_lanes(p.operand_a(first), p.batches_a(), lanes, m, p.n, a);
  T* const pivots = record + a.kParts * m * p.n * kWide;
  T* const order = pivots + min64(m, p.n) * kWide;
  LaneFactors<typename Args::Side> f{a, m, pivots, order, {}};
  f.factor();
  store(order + m * kWide, f.info);
  for (int64_t k = 0; k < min64(m, p.n); ++k) {
    store(pivots + k * kWide, load<T, kLanes<T>>(pivots + k * kWide) + Lanes<T>(T(1)));
  }
  return f;
}
// Elements of that.
template <class Args>
int64_t factors_size(const Args& p) {
  const int64_t m = p.rows();
  return p.kParts * m * p.n + min64(m, p.n) + m + 1;
}

// Record: L and U by rows, pivots from 1 on, the order of the rows, info.
template <class Cfg>
struct Lu : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    factor_lanes(p, first, lanes, record);
  }

  template <class M>
  static T* write(const Factored<M>& f, T* record) {
    record = copy_out(f.a, f.rows, f.columns, record);
    for (int64_t k = 0; k < min64(f.rows, f.columns); ++k) *record++ = T(f.pivots[k] + 1);
    for (int64_t i = 0; i < f.rows; ++i) *record++ = T(f.order[i]);
    *record++ = T(f.info);
    return record;
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    using M = typename Args::Whole;
    write(factor_one<M>(p.operand_a(matrix), p.rows(), p.n, room), record);
  }
};

// Record: the determinant, its sign (of a complex one its direction), and the logarithm of its
// size.
template <class Cfg>
struct Determinant : Finished {
  using T = typename Cfg::A;

  // Products over pivots; numbers and sizes of either scalars or lanes.
  template <class N, class V>
  struct Product {
    N det = Real<N>::number(V(T(1))), sign = det;
    V size = V(T(0));
    template <class B>
    AOT_INLINE void take(N pivot, B exchanged) {
      det = det * pivot;
      det = select(exchanged, -det, det);
      if constexpr (!Cfg::PRODUCT) {
        sign = sign * direction(pivot);
        sign = select(exchanged, -sign, sign);
        size = size + log(modulus(pivot));
      }
    }
    static AOT_INLINE V direction(V x) {
      return select(x > V(T(0)), V(T(1)), select(x < V(T(0)), V(T(-1)), V(T(0))));
    }
    static AOT_INLINE Complex<V> direction(Complex<V> x) {
      const V length = modulus(x), by = select(length == V(T(0)), V(T(1)), length);
      return {x.re / by, x.im / by};
    }
  };

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using V = Lanes<T>;
    constexpr int64_t kWide = kLanes<T>;
    const auto f = factor_lanes(p, first, lanes, room.take<T>(factors_size(p) * kWide));
    Product<typename Args::Side::Number, V> product;
    for (int64_t k = 0; k < p.n; ++k) {
      const V chosen = load<T, kLanes<T>>(f.pivots + k * kWide);
      product.take(f.a.get(k, k), ~(chosen == V(T(k + 1))));
    }
    T* at = record;
    const auto put = [&](V x) {
      store(at, x);
      at += kWide;
    };
    each_number(product, put);
  }
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    using M = typename Args::Whole;
    const Factored<M> f = factor_one<M>(p.operand_a(matrix), p.n, p.n, room);
    Product<typename M::Number, T> product;
    for (int64_t k = 0; k < p.n; ++k) product.take(f.a.get(k, k), f.pivots[k] != k);
    T* at = record;
    each_number(product, [&](T x) { *at++ = x; });
  }

  template <class P, class Put>
  static AOT_INLINE void each_number(const P& product, const Put& put) {
    if constexpr (Cfg::COMPLEX) {
      put(product.det.re);
      put(product.det.im);
      put(product.sign.re);
      put(product.sign.im);
    } else {
      put(product.det);
      put(product.sign);
    }
    put(product.size);
  }
};

// Record: as of Lu, then X of A X = B by rows; with SOLUTION X by rows, info.
template <class Cfg>
struct Solve : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    constexpr int64_t kWide = kLanes<T>;
    const int64_t size = factors_size(p) * kWide;
    const auto f = factor_lanes(p, first, lanes, Cfg::SOLUTION ? room.take<T>(size) : record);
    const auto x = p.side(Cfg::SOLUTION ? record : record + size, p.n, p.r);
    const auto b = p.side(room.take<T>(p.kParts * p.n * p.r * kWide), p.n, p.r);
    gather_lanes(p.operand_b(first), p.batches_b(), lanes, p.n, p.r, b);
    for (int part = 0; part < p.kParts; ++part) {
      const LaneMatrix<T> from = b.part(part), to = x.part(part);
      for (int64_t i = 0; i < p.n; ++i) {
        for (int64_t l = 0; l < kWide; ++l) {
          const T* const row = from.place(int64_t(f.order[i * kWide + l]), 0) + l;
          for (int64_t c = 0; c < p.r; ++c) to.place(i, c)[l] = row[c * kWide];
        }
      }
    }
    solve_lanes<UnitLower>(f.a, p.n, x);
    solve_lanes<Upper>(f.a, p.n, x);
    if constexpr (Cfg::SOLUTION) store(record + p.kParts * p.n * p.r * kWide, f.info);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    using M = typename Args::Whole;
    const Factored<M> f = factor_one<M>(p.operand_a(matrix), p.n, p.n, room);
    T* const out = Cfg::SOLUTION ? record : Lu<Cfg>::write(f, record);
    const M x = take_dense<M>(p.n, p.r, room);
    const auto b = p.operand_b(matrix);
    for (int64_t i = 0; i < p.n; ++i) copy_in(b.from(f.order[i], 0), 1, p.r, x.from(i, 0));
    solve_triangle<UnitLower>(f.a.seen(), p.n, x, p.r, room);
    solve_triangle<Upper>(f.a.seen(), p.n, x, p.r, room);
    T* const after = copy_out(x, p.n, p.r, out);
    if constexpr (Cfg::SOLUTION) *after = T(f.info);
  }
};

// Record: the inverse by rows, info.
template <class Cfg>
struct Inverse : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    using V = Lanes<T>;
    using N = typename Args::Side::Number;
    constexpr int64_t kWide = kLanes<T>;
    const auto f = factor_lanes(p, first, lanes, room.take<T>(factors_size(p) * kWide));
    const auto x = p.side(record, p.n, p.n);
    for (int64_t i = 0; i < p.n; ++i) {
      const V own = load<T, kLanes<T>>(f.order + i * kWide);
      for (int64_t c = 0; c < p.n; ++c) {
        x.set(i, c, Real<N>::number(select(own == V(T(c)), V(T(1)), V(T(0)))));
      }
    }
    solve_lanes<UnitLower>(f.a, p.n, x);
    solve_lanes<Upper>(f.a, p.n, x);
    store(record + p.kParts * p.n * p.n * kWide, f.info);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    using M = typename Args::Whole;
    const Factored<M> f = factor_one<M>(p.operand_a(matrix), p.n, p.n, room);
    const M x = take_dense<M>(p.n, p.n, room);
    for (int64_t i = 0; i < p.n; ++i) {
      zero_row(x, i, p.n);
      x.set(i, f.order[i], Real<typename M::Number>::number(T(1)));
    }
    solve_triangle<UnitLower>(f.a.seen(), p.n, x, p.n, room);
    solve_triangle<Upper>(f.a.seen(), p.n, x, p.n, room);
    *copy_out(x, p.n, p.n, record) = T(f.info);
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
    const auto t = p.side(room.take<T>(p.kParts * p.n * p.n * kLanes<T>), p.n, p.n);
    const auto x = p.side(record, p.n, p.r);
    if constexpr (Cfg::UPPER) {
      gather_lanes(p.operand_a(first), p.batches_a(), lanes, p.n, p.n, t);
    } else {
      gather_lower(p.operand_a(first), p.batches_a(), lanes, p.n, t);
    }
    gather_lanes(p.operand_b(first), p.batches_b(), lanes, p.n, p.r, x);
    solve_lanes<Shape>(t, p.n, x);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    using M = typename Args::Whole;
    const auto t = p.operand_a(matrix);
    const auto b = p.operand_b(matrix);
    if (p.r <= kFew && is_by_rows(t)) {
      // A record that is as wide is solved in its place.
      const bool whole = p.r == kFew;
      T* const at = whole ? record : room.take<T>(p.n * M::kParts * kFew);
      const M x = few_at<M>(at, p.n);
      // Hardware follows what is read within a page; of more, what comes next is asked for.
      const bool follows = p.n * p.n * M::kParts * int64_t(sizeof(T)) <= kPage;
      const int64_t next = follows ? matrix : min64(matrix + 1, p.batch - 1);
      copy_few(b, p.operand_b(next), p.n, p.r, x);
      solve_few<Shape>(t, p.operand_a(next), p.n, x);
      if (!whole) copy_out(x, p.n, p.r, record);
      return;
    }
    const M x = take_dense<M>(p.n, p.r, room);
    copy_in(b, p.n, p.r, x);
    solve_triangle<Shape>(t, p.n, x, p.r, room);
    copy_out(x, p.n, p.r, record);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_LU_H_
