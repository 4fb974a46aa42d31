// The X of least norm that makes A X - B least, and A's rank, of one large matrix: QR with columns
// exchanged, as many of R's rows as an estimate of their condition says, and QR of these, turned,
// where they are fewer than columns (LAPACK's gelsy; Quintana-Orti, Sun, Bischof 1998; Bischof
// 1990). Small ones with as many rows as columns side by side, where their rank is whole.
#ifndef AOT_LINALG_LSTSQ_H_
#define AOT_LINALG_LSTSQ_H_

#include "aot/linalg/eigh_lanes.h"
#include "aot/linalg/qr.h"
#include "aot/linalg/reduce_rows.h"
#include "aot/linalg/triangular.h"

namespace aot::linalg {

inline constexpr int64_t kExchanged = 32;  // columns of a block; in template_library.py

// QR with the column that is longest next. `a` has A's columns as rows (n of m numbers), which
// become R's columns and, behind the diagonal, reflections; `order` says which column each was.
template <class M>
struct PivotedQr {
  using N = typename M::Number;
  using T = typename M::Element;
  M a;
  int64_t m, n;
  M tau;
  int64_t* order;
  T *length, *before;  // of what is left of each column, and when that was last summed

  struct Block {
    M f, v, sums, row;  // a -= F^T V; V are rows of a
  };

  T length_of_rest(int64_t i, int64_t from) const {
    const auto row = a.line(i, from);
    return sqrt(abs(real_of(dot<true>(row, row, m - from))));
  }

  void reduce(Room room) const {
    const Block b{take_dense<M>(kExchanged, n, room), take_dense<M>(1, m, room),
                  take_dense<M>(1, n, room), take_dense<M>(1, n, room)};
    for (int64_t i = 0; i < n; ++i) {
      order[i] = i;
      length[i] = before[i] = length_of_rest(i, 0);
    }
    const int64_t all = min64(m, n);
    for (int64_t k = 0; k < all;) {
      const int64_t most = min64(kExchanged, all - k);
      int64_t count = 0;
      bool lost = false;
      for (; count < most && !lost; ++count) lost = step(b, k, count);
      const int64_t next = k + count;
      if (next < n && next < m) {
        subtract_product(n - next, m - next, count, b.f.from(0, next).seen().turned(),
                         a.from(k, next), a.from(next, next), room);
      }
      for (int64_t i = next; i < n; ++i) {
        if (before[i] < T(0)) length[i] = before[i] = length_of_rest(i, min64(next, m));
      }
      k = next;
    }
  }

  // The j-th column of the block at k; whether a length has lost its digits.
  bool step(const Block& b, int64_t k, int64_t j) const {
    const int64_t own = k + j, rest = m - own;
    int64_t longest = own;
    for (int64_t i = own + 1; i < n; ++i) longest = length[i] > length[longest] ? i : longest;
    if (longest != own) exchange(b, j, own, longest);
    for (int64_t q = 0; q < j; ++q) {
      add_row(-b.f.get(q, own), a.line(k + q, own), a.line(own, own), rest);
    }
    const N by = reflect_row(a.line(own, own), rest), beta = a.get(own, own);
    tau.set(0, own, by);
    a.set(own, own, Real<N>::number(1));
    const int64_t begin = own / kPanel * kPanel;
    for (int64_t i = begin; i < round_up(m, kPanel); ++i) {
      b.v.set(0, i, i >= own && i < m ? conjugate(a.get(own, i)) : Real<N>::number(0));
    }
    rows_times(a.from(0, begin), own + 1, n, round_up(m, kPanel) - begin, b.v.from(0, begin),
               b.sums);
    const int64_t next = own + 1, others = n - next;
    if (others == 0) {
      a.set(own, own, beta);
      return false;
    }
    const auto f = b.f.line(j, next), row = b.row.line(0, next);
    for (int64_t i = next; i < n; ++i) {
      b.f.set(j, i, b.sums.get(0, i));
      b.row.set(0, i, a.get(i, own));
    }
    for (int64_t q = 0; q < j; ++q) {
      add_row(-dot<true>(a.line(own, own), a.line(k + q, own), rest), b.f.line(q, next), f, others);
    }
    scale_row(conjugate(by), f, others);
    for (int64_t q = 0; q <= j; ++q) add_row(-a.get(k + q, own), b.f.line(q, next), row, others);
    bool lost = false;
    for (int64_t i = next; i < n; ++i) {
      const N gone = b.row.get(0, i);
      a.set(i, own, gone);
      lost |= shorten(i, gone);
    }
    a.set(own, own, beta);
    return lost;
  }

  // Column i without the number that went to R; whether what is left is to be summed again.
  bool shorten(int64_t i, N gone) const {
    if (length[i] == T(0) || before[i] < T(0)) return false;
    const T share = modulus(gone) / length[i],
            left = maximum(T(0), (T(1) + share) * (T(1) - share));
    const T ratio = length[i] / before[i];
    if (left * ratio * ratio <= sqrt(rounding<T>())) {
      before[i] = T(-1);
      return true;
    }
    length[i] *= sqrt(left);
    return false;
  }

  void exchange(const Block& b, int64_t j, int64_t x, int64_t y) const {
    for (int p = 0; p < M::kParts; ++p) {
      swap_rows(a.part(p) + x * a.ld, a.part(p) + y * a.ld, m);
    }
    for (int64_t q = 0; q < j; ++q) {
      const N f = b.f.get(q, x);
      b.f.set(q, x, b.f.get(q, y));
      b.f.set(q, y, f);
    }
    const int64_t held = order[x];
    order[x] = order[y];
    order[y] = held;
    length[y] = length[x];
    before[y] = before[x];
  }
};

// The greatest or the least singular value of a triangle that grows by columns, and its left
// vector, about (Bischof 1990).
template <class M, bool GREATEST>
struct ExtremeValue {
  using N = typename M::Number;
  using T = typename M::Element;
  M x;  // a row
  T size;

  // That of the triangle with a column more, `w` above its diagonal and `own` on it; the vector is
  // s x and c then.
  template <class Line>
  T next(Line w, N own, int64_t rows, N& s, N& c) const {
    N p = dot<true>(w, x.line(0, 0), rows), q = conjugate(own);
    const T unit = maximum(size, maximum(rough_size(p), rough_size(q)));
    s = Real<N>::number(1);
    c = Real<N>::number(0);
    if (!(unit > T(0))) return unit;
    p = scaled(T(1) / unit, p);
    q = scaled(T(1) / unit, q);
    const T before = size / unit, a = before * before + square(p), b = square(q);
    const T apart = a - b, h = sqrt(apart * apart + T(4) * square(p) * b);
    const T most = (a + b + h) / T(2), t = (abs(apart) + h) / T(2);
    const bool above = apart >= T(0);
    const N both = conjugate(p) * q, far = Real<N>::number(t);
    // The greatest one's vector is (t, conj(both)) or (both, t), the least one's is across it.
    if constexpr (GREATEST) {
      s = above ? far : both;
      c = above ? conjugate(both) : far;
    } else {
      s = above ? -both : far;
      c = above ? far : -conjugate(both);
    }
    const T length = sqrt(square(s) + square(c));
    if (!(length > T(0))) {
      s = Real<N>::number(above == GREATEST);
      c = Real<N>::number(above != GREATEST);
      return unit * (GREATEST ? maximum(before, sqrt(b)) : minimum(before, sqrt(b)));
    }
    s = scaled(T(1) / length, s);
    c = scaled(T(1) / length, c);
    return GREATEST ? unit * sqrt(most) : unit * (before * sqrt(b) / sqrt(most));
  }
  void grow(T found, int64_t rows, N s, N c) {
    scale_row(s, x.line(0, 0), rows);
    x.set(0, rows, c);
    size = found;
  }
  static AOT_INLINE T square(N v) { return real_of(v * conjugate(v)); }
};

template <class M>
struct LeastSquares {
  using N = typename M::Number;
  using T = typename M::Element;
  int64_t m, n, r;

  // `in` copies A, turned, `in_b` B. Record: X (n x r), part after part, and the rank.
  template <class In, class InB>
  void find(const In& in, const InB& in_b, T* record, Room room) const {
    const int64_t all = min64(m, n);
    const M a = take_dense<M>(n, m, room), c = take_dense<M>(max64(m, n), r, room);
    const M tau = take_dense<M>(1, all, room);
    int64_t* const order = room.take<int64_t>(n);
    T *const length = room.take<T>(n), *const before = room.take<T>(n);
    in(a);
    in_b(c);
    PivotedQr<M>{a, m, n, tau, order, length, before}.reduce(room);
    const int64_t rank = rank_of(a, room);
    for (int64_t k = 0; k < rank; k += kReflections) {
      Room own = room;
      const Joined<M> joined(a.from(k, k).seen().turned(), tau.from(0, k), m - k,
                             min64(kReflections, rank - k), own);
      joined.template apply<true>(c.from(k, 0), r, own);
    }
    for (int64_t i = max64(rank, 0); i < max64(m, n); ++i) zero_row(c, i, r);
    const auto upper = a.seen().turned();
    if (rank == n) {
      solve_triangle<Triangle<true, false>>(upper, n, c, r, room);
    } else if (rank > 0) {
      of_least_norm(a, rank, c, room);
    }
    put(c, order, rank, record);
  }

  // X's rows in their order; where a number of the matrix is none, X has none.
  void put(M c, const int64_t* order, int64_t rank, T* record) const {
    for (int p = 0; p < M::kParts; ++p, record += n * r) {
      for (int64_t i = 0; i < n; ++i) {
        const T* const from = c.part(p) + i * c.ld;
        for (int64_t j = 0; j < r; ++j) record[order[i] * r + j] = rank < 0 ? T(0) / T(0) : from[j];
      }
    }
    *record = T(max64(rank, 0));
  }

  // -1 where a number is none.
  int64_t rank_of(M a, Room room) const {
    const int64_t all = min64(m, n);
    const T first = all > 0 ? modulus(a.get(0, 0)) : T(0), none = rounding<T>() * T(max64(m, n));
    if (!(first < T(1) / T(0))) return -1;
    if (first == T(0)) return 0;
    ExtremeValue<M, true> most{take_dense<M>(1, all, room), first};
    ExtremeValue<M, false> least{take_dense<M>(1, all, room), first};
    most.x.set(0, 0, Real<N>::number(1));
    least.x.set(0, 0, Real<N>::number(1));
    for (int64_t i = 1; i < all; ++i) {
      N s[2], c[2];
      const T greatest = most.next(a.line(i, 0), a.get(i, i), i, s[0], c[0]);
      const T smallest = least.next(a.line(i, 0), a.get(i, i), i, s[1], c[1]);
      if (!(greatest < T(1) / T(0))) return -1;
      if (!(greatest * none <= smallest)) return i;
      most.grow(greatest, i, s[0], c[0]);
      least.grow(smallest, i, s[1], c[1]);
    }
    return all;
  }

  // c = the least X of R X = c, of R's first `rank` rows: with R^H = Q L^H it is Q times L's.
  void of_least_norm(M a, int64_t rank, M c, Room room) const {
    const M g = take_dense<M>(n, rank, room), tau = take_dense<M>(1, rank, room);
    for (int64_t i = 0; i < n; ++i) {
      zero_row(g, i, rank);
      for (int64_t k = 0; k < min64(i + 1, rank); ++k) g.set(i, k, conjugate(a.get(i, k)));
    }
    reflect_blocks(g, n, rank, tau, room);
    solve_triangle<Triangle<false, false>>(g.adjoint(), rank, c, r, room);
    for (int64_t k = (rank - 1) / kReflections * kReflections; k >= 0; k -= kReflections) {
      Room own = room;
      const Joined<M> joined(g.from(k, k).seen(), tau.from(0, k), n - k,
                             min64(kReflections, rank - k), own);
      joined.template apply<false>(c.from(k, 0), r, own);
    }
  }
};

// Of matrices side by side, of at least as many rows as columns: A P = Q R, R in a's place, Q^H c
// in c's. `order` says which column each was.
template <class M>
struct PivotedLanes {
  using T = typename M::Element;
  using V = Lanes<T>;
  M a, c;
  int64_t m;
  LaneRow<T> order, length, before;  // squares of what they are in PivotedQr

  V square_of_rest(int64_t j, int64_t from) const {
    V sum(T(0));
    for (int64_t i = from; i < m; ++i) sum = more_square(a.get(i, j), sum);
    return sum;
  }

  void reduce() const {
    const int64_t n = a.columns;
    for (int64_t j = 0; j < n; ++j) {
      order.set(j, V(T(j)));
      length.set(j, square_of_rest(j, 0));
      before.set(j, length.get(j));
    }
    for (int64_t k = 0; k < n; ++k) {
      exchange(k);
      const auto by = conjugate(reflect_column(a, k, m));
      turn_lanes(a, k, m, by, a, k + 1);
      turn_lanes(a, k, m, by, c, 0);
      for (int64_t j = k + 1; j < n; ++j) shorten(k, j);
    }
  }

  // The longest of what is left comes to place k, lane by lane.
  void exchange(int64_t k) const {
    V most = length.get(k), place = V(T(k));
    for (int64_t j = k + 1; j < a.columns; ++j) {
      const auto longer = length.get(j) > most;
      most = select(longer, length.get(j), most);
      place = select(longer, V(T(j)), place);
    }
    for (int64_t l = 0; l < kLanes<T>; ++l) {
      const int64_t other = int64_t(place[l]);
      if (other == k) continue;
      for (int p = 0; p < M::kParts; ++p) {
        for (int64_t i = 0; i < m; ++i) {
          swap(a.part(p).place(i, k)[l], a.part(p).place(i, other)[l]);
        }
      }
      const int64_t x = k * kLanes<T> + l, y = other * kLanes<T> + l;
      swap(order.at[x], order.at[y]);
      swap(length.at[x], length.at[y]);
      swap(before.at[x], before.at[y]);
    }
  }
  static AOT_INLINE void swap(T& x, T& y) {
    const T held = x;
    x = y;
    y = held;
  }

  // Column j without the number that went to R in row k.
  void shorten(int64_t k, int64_t j) const {
    const V zero(T(0)), now = length.get(j);
    const V left = maximum(zero, now - more_square(a.get(k, j), zero));
    const auto lost = (now > zero) & ~(left > before.get(j) * V(sqrt(rounding<T>())));
    length.set(j, left);
    if (!any(lost)) return;
    length.set(j, square_of_rest(j, k + 1));
    before.set(j, length.get(j));
  }
};

// `ExtremeValue` of triangles side by side, whose columns lie above the diagonal of a; numbers are
// parts of the greatest, and what is too small for squares is no full rank anyway.
template <class M, bool GREATEST>
struct ExtremeLanes {
  using N = typename M::Number;
  using V = Lanes<typename M::Element>;
  M x;  // a row
  V size;

  void grow(M a, int64_t i) {
    const V zero(typename M::Element(0)), one(typename M::Element(1)),
        half(typename M::Element(0.5));
    N p = Real<N>::number(zero);
    for (int64_t k = 0; k < i; ++k) p = more_product(conjugate(a.get(k, i)), x.get(0, k), p);
    const N q = conjugate(a.get(i, i));
    const V square = more_square(p, zero), longer = fma(size, size, square);
    const V own = more_square(q, zero), apart = longer - own;
    const V h = sqrt(fma(apart, apart, (square * own) * V(typename M::Element(4))));
    const V most = sqrt((longer + own + h) * half), t = (abs(apart) + h) * half;
    const auto above = apart >= zero;
    const N both = conjugate(p) * q, far = Real<N>::number(t), none = Real<N>::number(zero);
    N s = select(above, far, both), c = select(above, conjugate(both), far);
    if constexpr (!GREATEST) {
      s = select(above, none - both, far);
      c = select(above, far, none - conjugate(both));
    }
    const V length = sqrt(more_square(s, more_square(c, zero)));
    const auto known = length > zero;
    const V over = one / select(known, length, one);
    s = select(known, scaled(over, s), Real<N>::number(GREATEST ? one : zero));
    c = select(known, scaled(over, c), Real<N>::number(GREATEST ? zero : one));
    for (int64_t k = 0; k < i; ++k) x.set(0, k, x.get(0, k) * s);
    x.set(0, i, c);
    size = GREATEST ? most : size * sqrt(own) / select(most > zero, most, one);
  }
};

// What both kinds of numbers share: Whole is a matrix alone.
template <class Own, class Whole>
struct SmallLstsq : Finished {
  using T = typename Whole::Element;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room room) {
    constexpr int64_t kLane = kLanes<T>;
    const int64_t m = p.rows(), n = p.n, r = p.r;
    if (m < n) {
      for (int64_t l = 0; l < kLane; ++l) alone(p, first + min64(l, lanes - 1), l, record, room);
      return;
    }
    const auto take = [&](int64_t count) { return room.take<T>(count * kLane); };
    // A's rows and B's in one, of an odd number of vectors: those of a column would otherwise be
    // in few of the cache's sets where their number is a power of two.
    const int64_t wide = (n + r) | 1;
    const auto both = p.side(take(p.kParts * m * wide), m, wide);
    const auto a = both.beside(0, n), c = both.beside(n, r);
    const LaneRow<T> order{take(n)}, length{take(n)}, before{take(n)}, unit{take(1)};
    gather_rows(p.operand_a(first), p.batches_a(), lanes, m, a);
    gather_rows(p.operand_b(first), p.batches_b(), lanes, m, c);
    // Numbers of A as parts of the greatest, whose squares are numbers.
    unit.set(0, in_parts(a, m));
    PivotedLanes<typename Args::Side>{a, c, m, order, length, before}.reduce();
    const auto x = c;
    solve_lanes<Triangle<true, false>>(a, n, x);
    const auto row = [&] { return p.side(take(p.kParts * n), 1, n); };
    mark_full(a, m, row(), row(), unit);
    for (int64_t l = 0; l < kLane; ++l) {
      if (unit.at[l] == T(0)) {
        alone(p, first + min64(l, lanes - 1), l, record, room);
        continue;
      }
      for (int part = 0; part < a.kParts; ++part) {
        for (int64_t i = 0; i < n; ++i) {
          const int64_t to = part * n + int64_t(order.at[i * kLane + l]);
          for (int64_t j = 0; j < r; ++j) {
            record[(to * r + j) * kLane + l] = x.part(part).place(i, j)[l] / unit.at[l];
          }
        }
      }
      record[a.kParts * n * r * kLane + l] = T(n);
    }
  }

  // a's numbers as parts of the greatest, which is returned, or 1 where it is 0.
  template <class Side>
  static Lanes<T> in_parts(Side a, int64_t rows) {
    Lanes<T> most(T(0));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < a.columns; ++j) most = maximum(most, greatest_size(a.get(i, j)));
    }
    const Lanes<T> zero(T(0)), one(T(1)), least(least_divisor<T>());
    most = select(most == zero, one, maximum(most, least));
    const Lanes<T> over = one / most;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < a.columns; ++j) a.set(i, j, scaled(over, a.get(i, j)));
    }
    return most;
  }

  // Leaves `unit` where the rank is full, and 0 where it is not, or a number is none.
  template <class Side>
  static void mark_full(Side a, int64_t rows, Side x, Side y, LaneRow<T> unit) {
    using V = Lanes<T>;
    using N = typename Side::Number;
    const V zero(T(0)), one(T(1)), none(rounding<T>() * T(rows));
    const V first = sqrt(more_square(a.get(0, 0), zero));
    auto full = (first > zero) & (first < one / zero);
    ExtremeLanes<Side, true> most{x, first};
    ExtremeLanes<Side, false> least{y, first};
    x.set(0, 0, Real<N>::number(one));
    y.set(0, 0, Real<N>::number(one));
    for (int64_t i = 1; i < a.columns; ++i) {
      most.grow(a, i);
      least.grow(a, i);
      full = full & (most.size * none <= least.size);
    }
    unit.set(0, select(full, unit.get(0), zero));
  }

  template <class Args>
  static void alone(const Args& p, int64_t matrix, int64_t l, T* record, Room room) {
    T* const own = room.take<T>(p.record);
    Own::one(p, matrix, own, room);
    for (int64_t e = 0; e < p.record; ++e) record[e * kLanes<T> + l] = own[e];
  }
};

template <class Cfg>
struct Lstsq : SmallLstsq<Lstsq<Cfg>, Dense<typename Cfg::A>> {
  using T = typename Cfg::A;
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const auto in = [&](Dense<T> a) { copy_in(p.matrix_a(matrix).turned(), p.n, p.m, a); };
    const auto in_b = [&](Dense<T> c) { copy_in(p.matrix_b(matrix), p.m, p.r, c); };
    LeastSquares<Dense<T>>{p.m, p.n, p.r}.find(in, in_b, record, room);
  }
};

// Operands' rows are twice the matrices'.
template <class Cfg>
struct ComplexLstsq : SmallLstsq<ComplexLstsq<Cfg>, ComplexDense<typename Cfg::A>> {
  using T = typename Cfg::A;
  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t m = p.m / 2, n = p.n;
    const auto in = [&](ComplexDense<T> a) { copy_in(operand(p, matrix, m).turned(), n, m, a); };
    const auto in_b = [&](ComplexDense<T> c) { copy_in(operand_b(p, matrix, m), m, p.r, c); };
    LeastSquares<ComplexDense<T>>{m, n, p.r}.find(in, in_b, record, room);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_LSTSQ_H_
