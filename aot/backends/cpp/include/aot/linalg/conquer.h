// Eigenvalues of symmetric tridiagonal matrices and singular values of bidiagonal ones, with their
// vectors, by divide and conquer (Cuppen 1981; Gu and Eisenstat 1995): a matrix is two of half its
// size and a rank-one change, and the change's vectors are products of matrices.
//
// Vectors lie as rows. Those of a block [low, high) are its rows and its columns of one of two
// buffers, by the parity of its depth: what a block makes of its halves goes to the other one.
// Where values alone are wanted, the first and the last element of each vector of a block are
// enough.
#ifndef AOT_LINALG_CONQUER_H_
#define AOT_LINALG_CONQUER_H_

#include "aot/linalg/product.h"
#include "aot/linalg/secular.h"

namespace aot::linalg {

// Vectors of one side; `at` are both buffers, null where nobody wants them. Zeros at first. With
// `ends` a row is its vector's first and last element in its block, of which one buffer has all.
template <class T>
struct Halves {
  T* at[2];
  int64_t ld;
  bool ends = false;
  AOT_INLINE T* row(int64_t depth, int64_t i) const {
    return at[ends ? 0 : depth & 1] + i * (ends ? 2 : ld);
  }
  AOT_INLINE T* first(int64_t depth, int64_t i, int64_t column) const {
    return row(depth, i) + (ends ? 0 : column);
  }
  AOT_INLINE T* last(int64_t depth, int64_t i, int64_t column) const {
    return row(depth, i) + (ends ? 1 : column);
  }
};

// C (rows x columns) += A (rows x depth) times rows that lie anywhere.
template <class T>
void add_product_of_rows(const T* a, int64_t lda, int64_t rows, const T* const* b, int64_t depth,
                         int64_t columns, T* c, int64_t ldc, Room room) {
  if (rows <= 0 || columns <= 0) return;
  const int64_t panels = ceil_div(columns, kPanel);
  T* const packed = room.take<T>(kDepth * panels * kPanel);
  const T** const at = room.take<const T*>(rows);
  for (int64_t k = 0; k < depth; k += kDepth) {
    const int64_t kc = min64(kDepth, depth - k);
    for (int64_t q = 0; q < kc; ++q) {
      for (int64_t p = 0; p < panels; ++p) {
        T* const to = packed + (p * kc + q) * kPanel;
        const T* const from = b[k + q] + p * kPanel;
        const int64_t wide = min64(kPanel, columns - p * kPanel);
        for (int64_t j = 0; j < kPanel; ++j) to[j] = j < wide ? from[j] : T(0);
      }
    }
    for (int64_t i = 0; i < rows; ++i) at[i] = a + i * lda + k;
    add_packed<false>(rows, panels, kc, at, packed, c, ldc);
  }
}

// What a rank-one change makes of two halves. Their values are in `d`, all rows' from `low` on.
template <class T, bool SQUARES>
struct Merge {
  enum Kind : int { kLeft, kMixed, kRight };
  static constexpr int kKinds = 3;
  using V = Lanes<T>;

  T* d;
  int64_t *order, *kept, *dropped, *places, *kinds;  // rows, of each half by ascending values
  T* z;                                              // of each row
  int64_t low, split, high;                          // columns from `split` on are the right half's
  Halves<T> u, v;
  int64_t depth, own;  // the row whose pole is 0, or -1
  T rho, least;        // what is none beside the whole
  Room room;
  int64_t count = 0, left_out = 0;

  AOT_INLINE int64_t end(const Halves<T>& side) const { return high + (SQUARES && &side == &v); }

  void turn(const Halves<T>& side, int64_t x, int64_t y, T c, T s) const {
    if (!side.at[0]) return;
    const int64_t wide = side.ends ? 2 : end(side) - low;
    T* const row = side.first(depth + 1, x, low);
    rotate(row, side.first(depth + 1, y, low), wide, c, s);
  }

  // Rows that the change leaves alone are dropped: of no weight, or beside a value as theirs.
  void deflate() {
    int64_t last = -1;
    const auto weight = [&](int64_t i) { return SQUARES ? abs(z[i]) : rho * abs(z[i]); };
    for (int64_t k = low; k < high; ++k) {
      const int64_t i = order[k];
      if (i != own && weight(i) <= least) {
        dropped[left_out++] = i;
        continue;
      }
      if (last >= 0 && last != own) {
        const T size = hypot(z[last], z[i]), c = z[i] / size, s = -z[last] / size;
        const T apart = d[i] - d[last];
        if (abs(apart * c * s) <= least) {
          z[i] = size;
          z[last] = T(0);
          turn(u, last, i, c, s);
          turn(v, last, i, c, s);
          const T first = d[last] * c * c + d[i] * s * s;
          d[i] = d[last] * s * s + d[i] * c * c;
          d[last] = first;
          if (kinds[i] != kinds[last]) kinds[i] = kinds[last] = kMixed;
          dropped[left_out++] = last;
          last = i;
          continue;
        }
      }
      if (last >= 0) kept[count++] = last;
      last = i;
    }
    if (last >= 0) kept[count++] = last;
  }

  // The pole 0 has some weight, and no other one is as small.
  void settle() const {
    if (!SQUARES || count < 2) return;
    const T most = least / T(2);
    if (abs(z[own]) < most) z[own] = most;
    d[kept[1]] = maximum(d[kept[1]], most);
  }

  // New vectors of one side: rows low .. low + count of the buffer, and behind them what is left.
  void vectors(const Halves<T>& side, const T* a, int64_t lda, const T** rows,
               const int64_t* sizes) const {
    const int64_t last = end(side), both = sizes[kLeft] + sizes[kMixed];
    for (int64_t j = 0; j < count; ++j) {
      T* const row = side.row(depth, low + j);
      for (int64_t i = low; i < last; ++i) row[i] = T(0);
      rows[places[j]] = side.row(depth + 1, kept[j]) + low;
    }
    T* const c = side.row(depth, low) + low;
    add_product_of_rows(a, lda, count, rows, both, split - low, c, side.ld, room);
    for (int64_t j = 0; j < count; ++j) rows[j] += split - low;
    add_product_of_rows(a + sizes[kLeft], lda, count, rows + sizes[kLeft], count - sizes[kLeft],
                        last - split, c + split - low, side.ld, room);
    for (int64_t j = 0; j < left_out; ++j) {
      const T* const from = side.row(depth + 1, dropped[j]);
      T* const to = side.row(depth, low + count + j);
      for (int64_t i = low; i < last; ++i) to[i] = from[i];
    }
  }

  // The same of vectors' ends: `row` makes row j of a, which is forgotten then.
  template <class Row>
  void ends(const Halves<T>& side, T* a, int64_t wide, const Row& row, Room own) const {
    T* const made = own.take<T>(2 * (high - low));
    T *const first = own.take<T>(wide), *const last = own.take<T>(wide);
    for (int64_t i = 0; i < wide; ++i) first[i] = last[i] = T(0);
    for (int64_t j = 0; j < count; ++j) {
      first[places[j]] = side.row(depth, kept[j])[0];
      last[places[j]] = side.row(depth, kept[j])[1];
    }
    for (int64_t j = 0; j < count; ++j) {
      row(j);
      made[2 * j] = dot(a, first, wide);
      made[2 * j + 1] = dot(a, last, wide);
    }
    for (int64_t j = 0; j < left_out; ++j) {
      for (int k = 0; k < 2; ++k) made[2 * (count + j) + k] = side.row(depth, dropped[j])[k];
    }
    for (int64_t i = 0; i < 2 * (high - low); ++i) side.row(depth, low)[i] = made[i];
  }

  // Row j of a: root j's vector in terms of the old ones, of length 1.
  void row(T* a, const T* poles, const T* weights, int64_t wide, T base, T at, bool left) const {
    V sums(T(0));
    const int64_t zero = SQUARES ? places[0] : -1;
    // The least square that a root has may be one of the least numbers.
    const V scale(SQUARES && !left ? abs(at) : T(1));
    for (int64_t i = 0; i < wide; i += kLanes<T>) {
      const V pole = load<T, kLanes<T>>(poles + i), apart = pole - V(base);
      const V from = SQUARES ? fma(apart, pole + V(base), V(-at)) : apart - V(at);
      V part = load<T, kLanes<T>>(weights + i) * (scale / from);
      if (left) part = part * pole;
      store(a + i, part);
    }
    if (left && zero >= 0) a[zero] = T(-1);
    for (int64_t i = count; i < wide; ++i) a[i] = T(0);
    for (int64_t i = 0; i < wide; i += kLanes<T>) {
      const V part = load<T, kLanes<T>>(a + i);
      sums = fma(part, part, sums);
    }
    const V by(T(1) / sqrt(reduce_sum(sums)));
    for (int64_t i = 0; i < wide; i += kLanes<T>) store(a + i, load<T, kLanes<T>>(a + i) * by);
  }

  void run() {
    deflate();
    settle();
    const int64_t wide = round_up(max64(count, 1), kPanel), lda = wide + kPanel;
    T* const values = room.take<T>(high - low);
    T* const poles = room.take<T>(wide);
    T* const weights = room.take<T>(2 * wide);
    T *const base = room.take<T>(wide), *const at = room.take<T>(wide);
    const T** const rows = room.take<const T*>(wide);
    T* const a = room.take<T>(v.ends ? lda : count * lda);
    int64_t sizes[kKinds] = {0, 0, 0}, next[kKinds];
    for (int64_t j = 0; j < count; ++j) ++sizes[kinds[kept[j]]];
    next[kLeft] = 0;
    next[kMixed] = sizes[kLeft];
    next[kRight] = sizes[kLeft] + sizes[kMixed];
    for (int64_t i = 0; i < wide; ++i) poles[i] = weights[i] = T(0);
    for (int64_t j = 0; j < count; ++j) places[j] = next[kinds[kept[j]]]++;
    roots(base, at, poles, weights);  // which are room for what is in order, too
    for (int64_t j = 0; j < count; ++j) {
      poles[places[j]] = d[kept[j]];
      weights[places[j]] = z[kept[j]];
      const T from = base[j];
      values[j] =
          SQUARES ? (from > T(0) ? from + at[j] / (from + sqrt(from * from + at[j])) : sqrt(at[j]))
                  : from + at[j];
    }
    if (count == 1) {
      values[0] = SQUARES ? abs(z[kept[0]]) : d[kept[0]] + rho * z[kept[0]] * z[kept[0]];
    } else {
      exact_weights<T, SQUARES>(poles, base, at, places, count, weights);
    }
    for (int pass = 0; pass < (u.at[0] ? 2 : 1); ++pass) {
      const auto row_of = [&](int64_t j) {
        T* const to = a + (v.ends ? 0 : j * lda);
        if (count == 1) {
          for (int64_t i = 0; i < wide; ++i) to[i] = T(0);
          to[0] = pass == 1 ? copysign(T(1), z[kept[0]]) : T(1);
        } else {
          row(to, poles, weights, wide, base[j], at[j], pass == 1);
        }
      };
      if (v.ends) {
        ends(v, a, wide, row_of, room);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) row_of(j);
      vectors(pass == 1 ? u : v, a, lda, rows, sizes);
    }
    for (int64_t j = 0; j < left_out; ++j) values[count + j] = d[dropped[j]];
    for (int64_t j = 0; j < high - low; ++j) d[low + j] = values[j];
    sort();
  }

  void roots(T* base, T* at, T* poles, T* weights) const {
    if (count < 2) {
      base[0] = at[0] = T(0);
      return;
    }
    T squares(0);
    for (int64_t j = 0; j < count; ++j) {
      poles[j] = d[kept[j]];
      weights[j] = z[kept[j]];
      squares += weights[j] * weights[j];
    }
    const Secular<T, SQUARES> f{poles, weights, count, SQUARES ? T(1) : T(1) / rho,
                                SQUARES ? squares : rho * squares};
    for (int64_t j = 0; j < count; j += kLanes<T>) f.find(j, base, at);
  }

  // Roots ascend; so do, but for a few, the values that were left.
  void sort() const {
    const int64_t middle = low + count;
    for (int64_t k = 0; k < left_out; ++k) {
      int64_t to = k;
      for (; to > 0 && d[dropped[to - 1]] > d[middle + k]; --to) dropped[to] = dropped[to - 1];
      dropped[to] = middle + k;
    }
    int64_t x = low, y = 0;
    for (int64_t k = low; k < high; ++k) {
      const bool first = y == left_out || (x < middle && d[x] <= d[dropped[y]]);
      order[k] = first ? x++ : dropped[y++];
    }
  }
};

// Values of the matrix that d and e are in d, those of rows order[0], order[1], ... ascending, and
// the vectors of depth 0. With SQUARES it is bidiagonal: e[i] is beside d[i], e[n - 1] is 0, and v
// has a row and a column more.
template <class T, bool SQUARES>
struct Conquer {
  T *d, *e;
  int64_t* order;
  Halves<T> u, v;
  Room room;

  using M = Merge<T, SQUARES>;

  // Of all n rows. Numbers far below what rounds the greatest are none: halves of the least numbers
  // that there are have no digits.
  void find_all(int64_t n) const {
    T most(0);
    for (int64_t i = 0; i < n; ++i) most = maximum(most, maximum(abs(d[i]), abs(e[i])));
    const T none = most * (sizeof(T) == 8 ? T(1e-280) : T(1e-25));
    for (T* const x : {d, e}) {
      for (int64_t i = 0; i < n; ++i) x[i] = abs(x[i]) < none ? T(0) : x[i];
    }
    find(0, n, 0);
  }

  void find(int64_t low, int64_t high, int64_t depth) const {
    const int64_t n = high - low;
    if (n < (SQUARES ? 1 : 2)) {
      *v.first(depth, low, low) = *v.last(depth, low, low) = T(1);
      if (n) order[low] = low;
      return;
    }
    int64_t half = SQUARES ? (n - 1) / 2 : n / 2;
    if (half > 2 * kPanel) half = round_up(half, kPanel);
    const int64_t middle = low + half;
    if constexpr (SQUARES) {
      find(low, middle, depth + 1);
      find(middle + 1, high, depth + 1);
    } else {
      d[middle - 1] -= abs(e[middle - 1]);
      d[middle] -= abs(e[middle - 1]);
      find(low, middle, depth + 1);
      find(middle, high, depth + 1);
    }
    merge(low, middle, high, depth);
  }

  void merge(int64_t low, int64_t middle, int64_t high, int64_t depth) const {
    Room own = room;
    const int64_t n = high - low;
    int64_t* const ints = own.take<int64_t>(4 * n);
    T* const z = own.take<T>(n);
    // Rows are counted from 0 on.
    M m{d,     order, ints, ints + n, ints + 2 * n, ints + 3 * n - low, z - low, low, 0, high, u, v,
        depth, -1,    T(0), T(0),     own};
    SQUARES ? pair_of_bidiagonals(m, middle) : pair_of_tridiagonals(m, middle);
  }

  void scaled(M& m, T size) const {
    for (int64_t i = m.low; i < m.high; ++i) size = maximum(size, abs(d[i]));
    const T by = near_one(size);
    for (int64_t i = m.low; i < m.high; ++i) d[i] *= by;
    m.rho *= by;
    m.least = T(4) * rounding<T>() * size * by;
    if (SQUARES) {
      for (int64_t i = m.low; i < m.high; ++i) m.z[i] *= by;
    }
    m.run();
    for (int64_t i = m.low; i < m.high; ++i) d[i] /= by;
  }

  void pair_of_tridiagonals(M& m, int64_t middle) const {
    const T beside = e[middle - 1], half = T(0.70710678118654752);
    for (int64_t i = m.low; i < m.high; ++i) {
      m.z[i] =
          half * (i < middle ? taken(v.last(m.depth + 1, i, middle - 1))
                             : copysign(T(1), beside) * taken(v.first(m.depth + 1, i, middle)));
      m.kinds[i] = i < middle ? M::kLeft : M::kRight;
    }
    m.split = middle;
    m.rho = T(2) * abs(beside);
    merge_orders(m, middle, middle);
    scaled(m, m.rho);
  }

  // Row `middle` of the matrix, which neither half has, is the change.
  void pair_of_bidiagonals(M& m, int64_t middle) const {
    const T alpha = d[middle], beta = e[middle];
    const int64_t below = m.depth + 1;
    const T x = alpha * taken(v.last(below, middle, middle));
    const T y = beta * taken(v.first(below, m.high, middle + 1)), size = hypot(x, y);
    m.turn(m.v, middle, m.high, size > T(0) ? x / size : T(1), size > T(0) ? y / size : T(0));
    if (!v.ends) {
      const T* const from = v.row(below, m.high);
      for (int64_t j = m.low; j <= m.high; ++j) v.row(m.depth, m.high)[j] = from[j];
    }
    if (u.at[0]) u.row(below, middle)[middle] = T(1);
    for (int64_t i = m.low; i < m.high; ++i) {
      if (i == middle) continue;
      m.z[i] = i < middle ? alpha * taken(v.last(below, i, middle))
                          : beta * taken(v.first(below, i, middle + 1));
      m.kinds[i] = i < middle ? M::kLeft : M::kRight;
    }
    m.kinds[middle] = M::kMixed;
    m.z[middle] = size;
    m.own = middle;
    m.split = middle + 1;
    m.rho = T(1);
    d[middle] = T(0);
    merge_orders(m, middle, middle + 1);
    for (int64_t k = m.high - 1; k > m.low; --k) order[k] = order[k - 1];
    order[m.low] = middle;
    scaled(m, maximum(abs(alpha), abs(beta)));
  }

  // What a vector has where the halves meet: an end of its half, and of the whole none.
  T taken(T* at) const {
    const T value = *at;
    if (v.ends) *at = T(0);
    return value;
  }

  // Rows by ascending values; [low, end) and [begin, high) are in order.
  void merge_orders(M& m, int64_t end, int64_t begin) const {
    int64_t* const merged = m.kept;
    int64_t x = m.low, y = begin, k = 0;
    while (x < end || y < m.high) {
      const bool first = y == m.high || (x < end && d[order[x]] <= d[order[y]]);
      merged[k++] = order[first ? x++ : y++];
    }
    for (int64_t i = 0; i < k; ++i) order[m.low + i] = merged[i];
  }
};

// A function of its own, which models share (aot/tmpl/apart.h).
template <class T, bool SQUARES>
void conquer(const Conquer<T, SQUARES>& pairs, int64_t n) {
  pairs.find_all(n);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_CONQUER_H_
