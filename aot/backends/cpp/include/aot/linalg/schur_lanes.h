// Schur's form of small real matrices side by side in lanes, as eig.h finds that of one: each lane
// has its own window of rows, and its own place where a step begins. A lane that a step does not
// concern is multiplied by zeros there. Below the diagonal blocks, and without a basis beside them,
// may be anything in the end.
#ifndef AOT_LINALG_SCHUR_LANES_H_
#define AOT_LINALG_SCHUR_LANES_H_

#include "aot/linalg/svdvals_lanes.h"

namespace aot::linalg {

// Rows and columns become alike in size, by powers of two: as `scale` in balance.h.
template <class T>
struct LaneBalance {
  using V = Lanes<T>;
  LaneMatrix<T> a;
  LaneRow<T> by, rows, columns;  // the powers so far, and sums of squares

  void find() const {
    const int64_t n = a.columns;
    for (int64_t i = 0; i < n; ++i) by.set(i, V(T(1)));
    for (bool again = true; again;) {
      again = false;
      sum_all();
      for (int64_t i = 0; i < n; ++i) {
        if (again) sum(i);
        again |= change(i);
      }
    }
  }

  void sum_all() const {
    const int64_t n = a.columns;
    for (int64_t j = 0; j < n; ++j) columns.set(j, V(T(0)));
    for (int64_t i = 0; i < n; ++i) {
      V along(T(0));
      for (int64_t j = 0; j < n; ++j) {
        const V x = a.get(i, j);
        along = fma(x, x, along);
        columns.set(j, fma(x, x, columns.get(j)));
      }
      rows.set(i, along);
    }
  }
  void sum(int64_t i) const {
    V row(T(0)), column(T(0));
    for (int64_t j = 0; j < a.columns; ++j) {
      const V x = a.get(i, j), y = a.get(j, i);
      row = fma(x, x, row);
      column = fma(y, y, column);
    }
    rows.set(i, row);
    columns.set(i, column);
  }

  // Whether any lane's row and column were changed.
  bool change(int64_t i) const {
    const V zero(T(0)), one(T(1)), two(T(2)), half(T(0.5));
    V row = sqrt(rows.get(i)), column = sqrt(columns.get(i)), factor = one;
    const V before = row + column;
    auto busy = (row > zero) & (column > zero) & (before < V(T(1e30)));
    row = select(busy, row, one);
    column = select(busy, column, one);
    for (auto less = column < row * half; any(less); less = column < row * half) {
      column = select(less, column * two, column);
      row = select(less, row * half, row);
      factor = select(less, factor * two, factor);
    }
    for (auto more = column * half >= row; any(more); more = column * half >= row) {
      column = select(more, column * half, column);
      row = select(more, row * two, row);
      factor = select(more, factor * half, factor);
    }
    const V whole = by.get(i) * factor;
    busy = busy & (row + column < V(T(0.95)) * before);
    busy = busy & (whole <= V(T(1e15))) & (whole >= V(T(1e-15)));
    if (!any(busy)) return false;
    factor = select(busy, factor, one);
    by.set(i, by.get(i) * factor);
    const V over = one / factor;
    for (int64_t j = 0; j < a.columns; ++j) a.set(i, j, over * a.get(i, j));
    for (int64_t j = 0; j < a.columns; ++j) a.set(j, i, factor * a.get(j, i));
    return true;
  }
};

// A matrix of vectors without its first row.
template <class M>
struct BelowDiagonal {
  using Element = typename M::Element;
  using Number = typename M::Number;
  M a;
  int64_t columns;
  AOT_INLINE Number get(int64_t i, int64_t j) const { return a.get(i + 1, j); }
  AOT_INLINE void set(int64_t i, int64_t j, Number v) const { a.set(i + 1, j, v); }
};

// As `to_hessenberg` in eig.h; v.at may be null.
template <class M>
void hessenberg_lanes(M a, M v) {
  using V = typename M::Number;
  const int64_t n = a.columns;
  if (v.at) make_identity(v);
  const BelowDiagonal<M> below{a, n};
  const RightOfDiagonal<M> across{a, n};
  for (int64_t k = 0; k + 2 < n; ++k) {
    const V by = reflect_column(below, k, n - 1);
    turn_lanes(below, k, n - 1, by, below, k + 1);
    turn_lanes(below, k, n - 1, by, across, 0);
    if (v.at) turn_lanes(below, k, n - 1, by, BelowDiagonal<M>{v, n}, 0);
    for (int64_t i = k + 2; i < n; ++i) a.set(i, k, V(typename M::Element(0)));
  }
}

// The eigenvalues of h, of Hessenberg's form; NaN where there are none. With VECTORS h becomes
// quasi-triangular, and v's rows are the columns of its basis.
template <class T, bool VECTORS>
struct LaneSchur {
  using V = Lanes<T>;
  using Which = decltype(V() < V());
  LaneMatrix<T> h, v;
  LaneRow<T> re, im;

  // Where each lane's matrix has come to: rows first .. last of it are not known yet.
  struct Window {
    V first, last;
    int64_t low, high;  // the least `first` and the greatest `last`
  };
  // The last two rows and columns of each window.
  struct Corner {
    V upper, right, below, last;
  };
  // A reflection: a row less its sum by `weights` times `factors`. Of no effect where all are 0.
  struct Reflection {
    V weights[3], factors[3];
  };
  // Shifts: their sum and product, as one takes them.
  struct Shift {
    V x, y, w;
  };

  // The matrices' norms.
  V find() const {
    const int64_t n = h.columns;
    const V zero(T(0)), one(T(1)), none(T(-1));
    V norm = zero;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = max64(i - 1, 0); j < n; ++j) norm += abs(h.get(i, j));
    }
    Which lost = ~(norm < V(T(1) / T(0)));
    V last = select(lost, none, V(T(n - 1))), shifted = zero, steps = zero, since = zero;
    while (any(last >= zero)) {
      const Window w = window(last, norm);
      const Corner c = corner(w);
      const Which active = last >= zero;
      const Which single = active & (w.first == last), pair = active & (w.first == last - one);
      if (any(single | pair)) {
        put(w, c, shifted, single, pair);
        last = select(single, last - one, select(pair, last - V(T(2)), last));
        steps = select(single | pair, zero, steps);
        since = select(single | pair, zero, since);
        continue;
      }
      steps += one;
      since += one;
      const Which late = active & (steps > V(T(kSteps)));
      lost = lost | late;
      last = select(late, none, last);
      const Which out = since == V(T(10));
      since = select(out, zero, since);
      step(w, active & ~late, shift(w, c, out, shifted));
    }
    const V nothing(T(0) / T(0));
    for (int64_t i = 0; i < n; ++i) {
      re.set(i, select(lost, nothing, re.get(i)));
      im.set(i, select(lost, nothing, im.get(i)));
    }
    return norm;
  }

  Window window(V last, V norm) const {
    const V zero(T(0));
    Window found{zero, last, 0, int64_t(reduce_max(last))};
    for (int64_t i = 1; i <= found.high; ++i) {
      V size = abs(h.get(i - 1, i - 1)) + abs(h.get(i, i));
      size = select(size == zero, norm, size);
      const V between = h.get(i, i - 1);
      const Which apart = (abs(between) < V(rounding<T>()) * size) | (between == zero);
      found.first = select(apart & (V(T(i)) <= last), V(T(i)), found.first);
    }
    const V busy = select(last >= zero, found.first, V(T(found.high)));
    found.low = int64_t(reduce_min(busy));
    return found;
  }

  Corner corner(const Window& w) const {
    const V zero(T(0));
    Corner c{zero, zero, zero, zero};
    for (int64_t i = w.low; i <= w.high; ++i) {
      const Which here = w.last == V(T(i));
      if (!any(here)) continue;
      c.last = select(here, h.get(i, i), c.last);
      if (i == 0) continue;
      c.upper = select(here, h.get(i - 1, i - 1), c.upper);
      c.right = select(here, h.get(i - 1, i), c.right);
      c.below = select(here, h.get(i, i - 1), c.below);
    }
    return c;
  }

  // The eigenvalues of windows of one row, and of two.
  void put(const Window& w, const Corner& c, V shifted, Which single, Which pair) const {
    const V zero(T(0));
    const V x = c.last + shifted, product = c.below * c.right;
    const V p = V(T(0.5)) * ((c.upper + shifted) - x), q = fma(p, p, product);
    const V root = sqrt(abs(q)), z = select(p >= zero, p + root, p - root);
    const Which real = q >= zero;
    const V upper = select(real, x + z, x + p), side = select(real, zero, root);
    const Which whole = real & (z != zero);
    const V lower = select(whole, x - product / select(whole, z, V(T(1))), upper);
    for (int64_t i = w.low; i <= w.high; ++i) {
      const Which here = w.last == V(T(i)), one = here & single, second = here & pair;
      if (!any(one | second)) continue;
      if constexpr (VECTORS) h.set(i, i, select(one | second, x, h.get(i, i)));
      re.set(i, select(one, x, select(second, lower, re.get(i))));
      im.set(i, select(one, zero, select(second, -side, im.get(i))));
      if (i == 0) continue;
      re.set(i - 1, select(second, upper, re.get(i - 1)));
      im.set(i - 1, select(second, side, im.get(i - 1)));
      if constexpr (VECTORS) {
        h.set(i - 1, i - 1, select(second, c.upper + shifted, h.get(i - 1, i - 1)));
        part(i - 1, c.below, z, second & real);
      }
    }
  }

  // Rows k and k + 1, and columns, turned so that what is below the diagonal there becomes 0.
  void part(int64_t k, V below, V root, Which where) const {
    const V zero(T(0)), one(T(1));
    if (!any(where)) return;
    const V size = abs(below) + abs(root), by = select(size == zero, one, size);
    const V p = below / by, q = root / by, length = sqrt(fma(p, p, q * q));
    where = where & (length != zero);
    const V over = select(where, length, one);
    const V s = select(where, p / over, zero), c = select(where, q / over, one);
    const int64_t n = h.columns;
    const auto rows = [=](LaneMatrix<T> m, int64_t j) {
      const V x = m.get(k, j), y = m.get(k + 1, j);
      m.set(k, j, fma(s, y, c * x));
      m.set(k + 1, j, fnma(s, x, c * y));
    };
    for (int64_t j = k; j < n; ++j) rows(h, j);
    for (int64_t i = 0; i < k + 2; ++i) {
      const V x = h.get(i, k), y = h.get(i, k + 1);
      h.set(i, k, fma(s, y, c * x));
      h.set(i, k + 1, fnma(s, x, c * y));
    }
    for (int64_t j = 0; j < n; ++j) rows(v, j);
    h.set(k + 1, k, select(where, zero, h.get(k + 1, k)));
  }

  // As `shift` in eig.h; out of turn where a lane is `out`.
  Shift shift(const Window& w, const Corner& c, Which out, V& shifted) const {
    const V zero(T(0)), half = V(T(0.5)) * (c.upper - c.last);
    Shift s{c.last, c.upper, c.below * c.right};
    const V square = fma(half, half, s.w);
    const Which real = square >= zero;
    const V root = sqrt(select(real, square, zero)), one = half + root, other = half - root;
    const V nearer = c.last + select(abs(one) <= abs(other), one, other);
    s = {select(real, nearer, s.x), select(real, nearer, s.y), select(real, zero, s.w)};
    if (!any(out)) return s;
    V size = abs(c.below);
    const V by = select(out, c.last, zero);
    shifted += by;
    for (int64_t i = 0; i <= w.high; ++i) {
      if (i > 1) size += select(w.last == V(T(i)), abs(h.get(i - 1, i - 2)), zero);
      h.set(i, i, h.get(i, i) - select(V(T(i)) <= w.last, by, zero));
    }
    const V most = V(T(0.75)) * size, product = V(T(-0.4375)) * size * size;
    return {select(out, most, s.x), select(out, most, s.y), select(out, product, s.w)};
  }

  // p, q and r as parts of a size.
  static AOT_INLINE void as_parts(V size, V& p, V& q, V& r) {
    const V one(T(1));
    if (__builtin_expect(any(size <= V(T(1e-30))), 0)) {
      const V by = select(size == V(T(0)), one, size);
      p = p / by;
      q = q / by;
      r = r / by;
      return;
    }
    const V by = one / size;
    p = p * by;
    q = q * by;
    r = r * by;
  }

  // One double step of each lane that is `active`, in its window.
  void step(const Window& w, Which active, const Shift& s) const {
    V p(T(0)), q(T(0)), r(T(0)), begin(T(h.columns));
    Which found = ~active;
    int64_t m = w.high - 2;
    for (; m >= w.low && !all(found); --m) {
      const V z = h.get(m, m), one = s.x - z, other = s.y - z;
      V first = fma(one, other, -s.w) / h.get(m + 1, m) + h.get(m, m + 1);
      V second = h.get(m + 1, m + 1) - z - one - other, third = h.get(m + 2, m + 1);
      as_parts(abs(first) + abs(second) + abs(third), first, second, third);
      Which here = w.first == V(T(m));
      if (m > 0) {
        const V around = abs(h.get(m - 1, m - 1)) + abs(z) + abs(h.get(m + 1, m + 1));
        const V product = abs(h.get(m, m - 1)) * (abs(second) + abs(third));
        here = here | (product < V(rounding<T>()) * (abs(first) * around));
      }
      here = here & ~found & (V(T(m + 2)) <= w.last);
      p = select(here, first, p);
      q = select(here, second, q);
      r = select(here, third, r);
      begin = select(here, V(T(m)), begin);
      found = found | here;
    }
    for (int64_t k = m + 1; k < w.high; ++k) {
      const Which on = active & (begin <= V(T(k))) & (V(T(k)) < w.last);
      if (!any(on)) continue;
      const Reflection by = reflection(w, k, on, begin, p, q, r);
      k + 2 <= w.high ? turn<true>(w, k, by) : turn<false>(w, k, by);
    }
  }

  // The next one down the diagonal; what the one before left beside it becomes zeros.
  Reflection reflection(const Window& w, int64_t k, Which on, V begin, V p, V q, V r) const {
    const V zero(T(0)), one(T(1));
    const Which begins = begin == V(T(k)), three = V(T(k + 2)) <= w.last;
    const bool deep = k + 2 <= w.high;
    const V before = k > 0 ? h.get(k, k - 1) : zero;
    if (k > 0) {
      p = select(begins, p, before);
      q = select(begins, q, h.get(k + 1, k - 1));
      r = select(begins, r, deep ? h.get(k + 2, k - 1) : zero);
    }
    r = select(three, r, zero);
    const V size = abs(p) + abs(q) + abs(r);
    as_parts(size, p, q, r);
    const V length = sqrt(fma(r, r, fma(q, q, p * p))), s = select(p < zero, -length, length);
    on = on & (length != zero);
    if (k > 0) {
      const V same = select(w.first == begin, before, -before);
      h.set(k, k - 1, select(on, select(begins, same, -s * size), before));
      const Which clear = on & ~begins;
      h.set(k + 1, k - 1, select(clear, zero, h.get(k + 1, k - 1)));
      if (deep) h.set(k + 2, k - 1, select(clear, zero, h.get(k + 2, k - 1)));
    }
    const V first = p + s, over = one / select(on, s, one), under = one / select(on, first, one);
    const auto where = [=](V x) { return select(on, x, zero); };
    return {{where(first * over), where(q * over), where(r * over)},
            {one, where(q * under), where(r * under)}};
  }

  template <bool THREE>
  void turn(const Window& w, int64_t k, const Reflection& by) const {
    const V f0 = by.weights[0], f1 = by.weights[1], f2 = by.weights[2];
    const V w1 = by.factors[1], w2 = by.factors[2];
    const auto rows = [=](LaneMatrix<T> m, int64_t j) {
      const V x = m.get(k, j), y = m.get(k + 1, j);
      V sum = fma(w1, y, x);
      if constexpr (THREE) {
        const V z = m.get(k + 2, j);
        sum = fma(w2, z, sum);
        m.set(k + 2, j, fnma(f2, sum, z));
      }
      m.set(k, j, fnma(f0, sum, x));
      m.set(k + 1, j, fnma(f1, sum, y));
    };
    const int64_t end = VECTORS ? h.columns - 1 : w.high;
    for (int64_t j = k; j <= end; ++j) rows(h, j);
    for (int64_t i = VECTORS ? 0 : w.low; i <= min64(w.high, k + 3); ++i) {
      const V x = h.get(i, k), y = h.get(i, k + 1);
      V sum = fma(f1, y, f0 * x);
      if constexpr (THREE) {
        const V z = h.get(i, k + 2);
        sum = fma(f2, z, sum);
        h.set(i, k + 2, fnma(w2, sum, z));
      }
      h.set(i, k, x - sum);
      h.set(i, k + 1, fnma(w1, sum, y));
    }
    if constexpr (VECTORS) {
      for (int64_t j = 0; j <= end; ++j) rows(v, j);
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SCHUR_LANES_H_
