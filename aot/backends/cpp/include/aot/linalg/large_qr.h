// A = Q R of one matrix, real or complex, by reflections in blocks, which change the other columns
// by products (LAPACK's geqrf and ormqr).
#ifndef AOT_LINALG_LARGE_QR_H_
#define AOT_LINALG_LARGE_QR_H_

#include "aot/linalg/reflect.h"

namespace aot::linalg {

// Columns that are turned together; in template_library.py.
inline constexpr int64_t kReflections = 64;

// Several reflections as one, I - V S V^H: V by columns (rows x count, zeros above its ones) and by
// rows, and S (count x count, upper triangle).
template <class M>
struct Joined {
  using N = typename M::Number;
  M v, turned, s;
  int64_t rows, count;

  // Of `from` (rows x count), below its diagonal; `tau` is a row.
  template <class From>
  Joined(From from, M tau, int64_t rows_, int64_t count_, Room& room)
      : v(take_dense<M>(rows_, count_, room)),
        turned(take_dense<M>(count_, rows_, room)),
        s(take_dense<M>(count_, count_, room)),
        rows(rows_),
        count(count_) {
    const N one = Real<N>::number(1), none = Real<N>::number(0);
    copy_in(from, rows, count, v);
    for (int64_t i = 0; i < min64(rows, count); ++i) {
      v.set(i, i, one);
      for (int64_t k = i + 1; k < count; ++k) v.set(i, k, none);
    }
    copy_in(v.seen().turned(), count, rows, turned);
    // s = -V^H V, and then column by column: S[:k, k] = -tau_k S[:k, :k] (V^H V)[:k, k].
    for (int64_t k = 0; k < count; ++k) zero_row(s, k, count);
    subtract_product(count, count, rows, turned.other(), v, s, room);
    const M mine = take_dense<M>(1, count, room);
    for (int64_t k = 0; k < count; ++k) {
      const N by = tau.get(0, k);
      for (int64_t i = 0; i < k; ++i) {
        N sum = none;
        for (int64_t j = i; j < k; ++j) sum = sum + s.get(i, j) * s.get(j, k);
        mine.set(0, i, sum);
      }
      for (int64_t i = 0; i < k; ++i) s.set(i, k, by * mine.get(0, i));
      s.set(k, k, by);
      for (int64_t i = k + 1; i < count; ++i) s.set(i, k, none);
    }
  }

  // C (rows x columns) = H C, or H^H C where BACK (the reflections in the order of their numbers).
  template <bool BACK>
  void apply(M c, int64_t columns, Room room) const {
    const M w = take_dense<M>(count, columns, room), sw = take_dense<M>(count, columns, room);
    for (int64_t k = 0; k < count; ++k) {
      zero_row(w, k, columns);
      zero_row(sw, k, columns);
    }
    // w = -V^H C, sw = S V^H C (or S^H ...), C -= V sw
    subtract_product(count, columns, rows, turned.other(), c, w, room);
    if constexpr (BACK) {
      subtract_product(count, columns, count, s.adjoint(), w, sw, room);
    } else {
      subtract_product(count, columns, count, s.seen(), w, sw, room);
    }
    subtract_product(rows, columns, count, v.seen(), sw, c, room);
  }
};

// Columns as rows (count of `rows` numbers, at least as many) become R's and, below its diagonal,
// reflections.
template <class M>
void reflect_columns(M columns, int64_t rows, int64_t count, M tau) {
  using N = typename M::Number;
  for (int64_t k = 0; k < count; ++k) {
    const auto v = columns.line(k, k);
    const N by = reflect_row(v, rows - k), beta = columns.get(k, k);
    tau.set(0, k, by);
    if (rough_size(by) == 0) continue;
    columns.set(k, k, Real<N>::number(1));
    for (int64_t j = k + 1; j < count; ++j) {
      const auto other = columns.line(j, k);
      add_row(-(conjugate(by) * dot<true>(v, other, rows - k)), v, other, rows - k);
    }
    columns.set(k, k, beta);
  }
}

// a (m x n) becomes R and, below its diagonal, reflections, of which `tau` has the taus.
template <class M>
void reflect_blocks(M a, int64_t m, int64_t n, M tau, Room room) {
  const int64_t all = min64(m, n);
  for (int64_t c = 0; c < all; c += kReflections) {
    Room own = room;
    const int64_t count = min64(kReflections, all - c), rows = m - c, next = c + count;
    const M columns = take_dense<M>(count, rows, own), mine = tau.from(0, c);
    copy_in(a.from(c, c).seen().turned(), count, rows, columns);
    reflect_columns(columns, rows, count, mine);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < count; ++k) a.set(c + i, c + k, columns.get(k, i));
    }
    if (next == n) continue;
    const Joined<M> joined(columns.seen().turned(), mine, rows, count, own);
    joined.template apply<true>(a.from(c, next), n - next, own);
  }
}

// Record: R and the reflections by rows (m x n), taus, part after part. `in` copies the matrix.
template <class M, class In, class T>
void large_qr(int64_t m, int64_t n, const In& in, T* record, Room room) {
  const int64_t all = min64(m, n);
  const M a = take_dense<M>(m, n, room), tau = take_dense<M>(1, all, room);
  in(a);
  reflect_blocks(a, m, n, tau, room);
  copy_out(tau, 1, all, copy_out(a, m, n, record));
}

// Whether c (m x r) has zeros only below its diagonal.
template <class M>
bool is_upper(M c, int64_t m, int64_t r) {
  for (int p = 0; p < M::kParts; ++p) {
    for (int64_t i = 1; i < m; ++i) {
      for (int64_t j = 0; j < min64(i, r); ++j) {
        if (c.part(p)[i * c.ld + j] != 0) return false;
      }
    }
  }
  return true;
}

// Record: H_1 ... H_k C (m x r), or H_k^H ... H_1^H C with BACK. `in` copies the reflections, below
// the diagonal (m x n), and their taus as one row more; `in_c` copies C. Of an upper triangle the
// first columns stay as they are until their own reflections come.
template <class M, bool BACK, class In, class InC, class T>
void large_reflections(int64_t m, int64_t n, int64_t r, const In& in, const InC& in_c, T* record,
                       Room room) {
  const int64_t all = min64(m, n), blocks = ceil_div(all, kReflections);
  const M a = take_dense<M>(m + 1, n, room), c = take_dense<M>(m + 1, r, room);
  in(a);
  in_c(c);
  const bool upper = !BACK && is_upper(c, m, r);
  for (int64_t step = 0; step < blocks; ++step) {
    const int64_t k = (BACK ? step : blocks - 1 - step) * kReflections, from = upper ? k : 0;
    if (from >= r) continue;
    Room own = room;
    const Joined<M> joined(a.from(k, k).seen(), a.from(m, k), m - k, min64(kReflections, all - k),
                           own);
    joined.template apply<BACK>(c.from(k, from), r - from, own);
  }
  copy_out(c, m, r, record);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_LARGE_QR_H_
