// Eigenvectors of matrices of Schur's form, all side by side: a block of rows of the triangular
// systems is a product with what is known, and then rows one after the other (LAPACK's trevc3).
//
// Vectors are columns of x. Those of real values come first, then real and then imaginary parts of
// those of complex ones, of which one of a pair is enough; each kind begins at a panel.
#ifndef AOT_LINALG_SCHUR_VECTORS_H_
#define AOT_LINALG_SCHUR_VECTORS_H_

#include "aot/linalg/multishift.h"

namespace aot::linalg {

inline constexpr int64_t kSolved = 64;  // rows of a block

// Columns of one kind: their numbers and values by ascending rows of their ones.
template <class T>
struct VectorKind {
  int64_t* places;
  T *re, *im, *peak;
  int64_t count, at, im_at;
  // The first one whose one is in this row or behind.
  int64_t from(int64_t row) const {
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t mid = (low + high) / 2;
      places[mid] < row ? low = mid + 1 : high = mid;
    }
    return low;
  }
};

AOT_INLINE int64_t down_to_panel(int64_t i) { return i / kPanel * kPanel; }

template <class M>
struct SchurVectors {
  using N = typename M::Number;
  using T = typename M::Element;
  static constexpr bool kComplex = M::kParts == 2;
  static constexpr int kWide = native_lanes<T>();
  using V = Vec<T, kWide>;
  M t;
  int64_t n;
  Dense<T> x;  // as `columns_for` wide; of complex matrices all are of the complex kind
  VectorKind<T> kinds[2];
  T norm;

  // Columns of x, at most.
  static int64_t columns_for(int64_t n) {
    return (kComplex ? 2 : 1) * round_up(n, kPanel) + 2 * kPanel;
  }

  SchurVectors(M schur, int64_t n_, Room& room) : t(schur), n(n_) {
    const int64_t wide = columns_for(n);
    x = Dense<T>{room.take<T>(n * (wide + kPanel)), wide + kPanel};
    norm = T(0);
    for (int64_t i = 0; i < n; ++i) {
      T sum(0);
      for (int64_t j = max64(i - 1, 0); j < n; ++j) sum += rough_size(t.get(i, j));
      norm = maximum(norm, sum);
    }
    for (auto& kind : kinds) {
      kind.places = room.take<int64_t>(n);
      kind.re = room.take<T>(round_up(n, kPanel));
      kind.im = room.take<T>(round_up(n, kPanel));
      kind.peak = room.take<T>(round_up(n, kPanel));
      kind.count = 0;
      for (int64_t i = 0; i < round_up(n, kPanel); ++i) {
        kind.re[i] = kind.im[i] = T(0);
        kind.peak[i] = T(1);
      }
    }
    for (int64_t k = 0; k < n;) {
      Complex<T> values[2];
      const int rows = values_at(t, n, k, values);
      VectorKind<T>& kind = kinds[kComplex || rows == 2];
      kind.places[kind.count] = k;
      kind.re[kind.count] = values[0].re;
      kind.im[kind.count++] = values[0].im;
      k += rows;
    }
    kinds[0].at = kinds[0].im_at = 0;
    kinds[1].at = round_up(kinds[0].count, kPanel);
    kinds[1].im_at = kinds[1].at + round_up(kinds[1].count, kPanel);
  }

  // x = the vectors of t, each with a number of size 1 in its last row.
  void find(Room room) const {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < columns_for(n); ++j) x.set(i, j, T(0));
    }
    for (const auto& kind : kinds) {
      for (int64_t j = 0; j < kind.count; ++j) one(kind, j);
    }
    for (int64_t end = n; end > 0;) {
      int64_t begin = max64(0, end - kSolved);
      if (begin > 0 && is_second(begin)) --begin;
      for (const auto& kind : kinds) {
        if (kind.from(begin) == kind.count) continue;
        if (end < n) subtract_known(kind, begin, end, room);
        solve(kind, begin, end);
      }
      end = begin;
    }
  }

  // Whether row i is the second of a block.
  AOT_INLINE bool is_second(int64_t i) const {
    if constexpr (kComplex) return false;
    return i > 0 && rough_size(t.get(i, i - 1)) != T(0);
  }

  void one(const VectorKind<T>& kind, int64_t j) const {
    const int64_t k = kind.places[j];
    if constexpr (!kComplex) {
      if (&kind == &kinds[1]) {
        const T above = t.get(k, k + 1), below = t.get(k + 1, k), im = kind.im[j];
        const bool first = abs(above) >= abs(below);
        x.set(k, kind.at + j, first ? T(1) : -im / below);
        x.set(k + 1, kind.im_at + j, first ? im / above : T(1));
        return;
      }
    }
    x.set(k, kind.at + j, T(1));
  }

  // Columns of c (as x's) -= a times rows of x from `row` on, but for those that have none there.
  template <class A>
  void subtract_times(const VectorKind<T>& kind, int64_t skip, int64_t rows, int64_t depth, A a,
                      int64_t row, Dense<T> c, Room room) const {
    const int64_t at = kind.at + skip, im = kind.im_at + skip, wide = kind.count - skip;
    if constexpr (kComplex) {
      const ComplexDense<T> b{x.line(row, at), x.line(row, im), x.ld};
      subtract_product(rows, wide, depth, a, b, ComplexDense<T>{c.line(0, at), c.line(0, im), c.ld},
                       room);
    } else {
      subtract_product(rows, wide, depth, a, x.from(row, at), c.from(0, at), room);
      if (&kind == &kinds[0]) return;
      subtract_product(rows, wide, depth, a, x.from(row, im), c.from(0, im), room);
    }
  }

  // Rows [begin, end) of x -= t's columns from `end` on times what is known.
  void subtract_known(const VectorKind<T>& kind, int64_t begin, int64_t end, Room room) const {
    const int64_t skip = down_to_panel(kind.from(end));
    if (skip >= kind.count) return;
    subtract_times(kind, skip, end - begin, n - end, t.from(begin, end).seen(), end,
                   x.from(begin, 0), room);
  }

  // made (as x) = -Q x, Q's columns rows of z.
  void turn_back(M z, Dense<T> made, Room room) const {
    for (int64_t i = 0; i < n; ++i) zero_row(made, i, columns_for(n));
    for (int64_t k = 0; k < n; k += kDepth) {
      for (const auto& kind : kinds) {
        const int64_t skip = down_to_panel(kind.from(k - 1));
        if (skip >= kind.count) continue;
        subtract_times(kind, skip, n, min64(kDepth, n - k), z.from(k, 0).seen().turned(), k, made,
                       room);
      }
    }
  }

  void solve(const VectorKind<T>& kind, int64_t begin, int64_t end) const {
    for (int64_t i = end - 1; i >= begin; --i) {
      const int rows = is_second(i) ? 2 : 1;
      i -= rows - 1;
      const int64_t first = kind.from(i + 1 + (rows - 1));
      if (first == kind.count) continue;
      const bool complex = kComplex || &kind == &kinds[1];
      bool great = false;
      for (int64_t j = first / kWide * kWide; j < kind.count; j += kWide) {
        great |= complex ? some_rows<true>(kind, i, rows, end, j, first)
                         : some_rows<kComplex>(kind, i, rows, end, j, first);
      }
      if (great) scale_down(kind, begin, first);
    }
  }

  // A number of row i of vectors j ..
  template <bool COMPLEX>
  AOT_INLINE auto known(const VectorKind<T>& kind, int64_t i, int64_t j) const {
    const V re = load<T, kWide>(x.line(i, kind.at + j));
    if constexpr (COMPLEX) {
      return Complex<V>{re, load<T, kWide>(x.line(i, kind.im_at + j))};
    } else {
      return re;
    }
  }
  template <class U>
  AOT_INLINE bool keep(const VectorKind<T>& kind, int64_t i, int64_t j, int64_t first,
                       U value) const {
    const auto wanted = iota<T, kWide>() >= V(T(first - j));
    const V before = load<T, kWide>(kind.peak + j);
    V size;
    if constexpr (std::is_same_v<U, V>) {
      value = select(wanted, value, known<false>(kind, i, j));
      size = abs(value);
      store(x.line(i, kind.at + j), value);
    } else {
      value = select(wanted, value, known<true>(kind, i, j));
      size = abs(value.re) + abs(value.im);
      store(x.line(i, kind.at + j), value.re);
      store(x.line(i, kind.im_at + j), value.im);
    }
    size = select(wanted, maximum(size, before), before);
    store(kind.peak + j, size);
    return any(size > V(kGreat));
  }
  static constexpr T kGreat = sizeof(T) == 8 ? T(1e100) : T(1e6);

  static AOT_INLINE V less(T by, V known, V sum) { return fnma(V(by), known, sum); }
  static AOT_INLINE Complex<V> less(T by, Complex<V> known, Complex<V> sum) {
    return {fnma(V(by), known.re, sum.re), fnma(V(by), known.im, sum.im)};
  }
  static AOT_INLINE Complex<V> less(Complex<T> by, Complex<V> known, Complex<V> sum) {
    return less_product(spread<kWide>(by), known, sum);
  }

  // What row i asks for, by the rows of its block that are known.
  template <bool COMPLEX>
  AOT_INLINE auto rest(const VectorKind<T>& kind, int64_t i, int64_t from, int64_t end,
                       int64_t j) const {
    auto sum = known<COMPLEX>(kind, i, j);
    for (int64_t k = from; k < end; ++k) sum = less(t.get(i, k), known<COMPLEX>(kind, k, j), sum);
    return sum;
  }

  // t's number less the values, and how small that may be.
  template <bool COMPLEX>
  AOT_INLINE auto apart(const VectorKind<T>& kind, N own, int64_t j) const {
    const V re = load<T, kWide>(kind.re + j);
    if constexpr (COMPLEX) {
      const Complex<T> number = as_complex(own);
      return Complex<V>{V(number.re) - re, V(number.im) - load<T, kWide>(kind.im + j)};
    } else {
      return V(own) - re;
    }
  }
  AOT_INLINE V least(const VectorKind<T>& kind, int64_t j) const {
    const V size = abs(load<T, kWide>(kind.re + j)) + abs(load<T, kWide>(kind.im + j));
    const V none(maximum(rounding<T>() * rounding<T>() * norm, least_number<T>() / rounding<T>()));
    return maximum(V(rounding<T>()) * size, none);
  }
  static AOT_INLINE V at_least(V from, V least) { return select(abs(from) < least, least, from); }
  static AOT_INLINE Complex<V> at_least(Complex<V> from, V least) {
    const auto small = abs(from.re) + abs(from.im) < least;
    return {select(small, least, from.re), select(small, V(T(0)), from.im)};
  }

  // Rows i .. of vectors j ..; whether some have grown beyond bounds.
  template <bool COMPLEX>
  bool some_rows(const VectorKind<T>& kind, int64_t i, int rows, int64_t end, int64_t j,
                 int64_t first) const {
    if (rows == 2) return two_rows<COMPLEX>(kind, i, end, j, first);
    return row<COMPLEX>(kind, i, end, j, first);
  }

  template <bool COMPLEX>
  bool row(const VectorKind<T>& kind, int64_t i, int64_t end, int64_t j, int64_t first) const {
    const auto sum = rest<COMPLEX>(kind, i, i + 1, end, j);
    const auto from = at_least(apart<COMPLEX>(kind, t.get(i, i), j), least(kind, j));
    return keep(kind, i, j, first, sum / from);
  }

  // Rows i and i + 1, which are a block (a, b; c, a): the first by Cramer's rule, the other from
  // what is greater of its row and b.
  template <bool COMPLEX>
  bool two_rows(const VectorKind<T>& kind, int64_t i, int64_t end, int64_t j, int64_t first) const {
    if constexpr (kComplex) {
      return false;
    } else {
      const auto up = rest<COMPLEX>(kind, i, i + 2, end, j);
      const auto down = rest<COMPLEX>(kind, i + 1, i + 2, end, j);
      const auto own = apart<COMPLEX>(kind, t.get(i, i), j);
      const T b = t.get(i, i + 1), c = t.get(i + 1, i);
      const auto zero = own - own;
      const V small = least(kind, j), size = size_of(own);
      const auto whole = less(b * c, one_of(own), own * own);
      const auto det = at_least(whole, small * (size + V(abs(b) + abs(c))));
      const auto x1 = less(b, down, own * up) / det;
      const auto by_first = less(T(-1) / b, up - own * x1, zero);
      const auto by_second = less(c, x1, down) / at_least(own, small);
      const auto x2 = select(V(abs(b)) > size, by_first, by_second);
      const bool great = keep(kind, i, j, first, x1);
      return keep(kind, i + 1, j, first, x2) || great;
    }
  }
  static AOT_INLINE V size_of(V a) { return abs(a); }
  static AOT_INLINE V size_of(Complex<V> a) { return abs(a.re) + abs(a.im); }
  static AOT_INLINE V one_of(V) { return V(T(1)); }
  static AOT_INLINE Complex<V> one_of(Complex<V>) { return {V(T(1)), V(T(0))}; }

  // Vectors that have grown beyond bounds, as parts of their greatest element.
  void scale_down(const VectorKind<T>& kind, int64_t begin, int64_t first) const {
    for (int64_t j = first; j < kind.count; ++j) {
      if (!(kind.peak[j] > kGreat)) continue;
      const T by = T(1) / kind.peak[j];
      kind.peak[j] = T(1);
      for (int64_t i = begin; i < min64(n, kind.places[j] + 2); ++i) {
        x.set(i, kind.at + j, x.get(i, kind.at + j) * by);
        if (kind.im_at != kind.at) x.set(i, kind.im_at + j, x.get(i, kind.im_at + j) * by);
      }
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SCHUR_VECTORS_H_
