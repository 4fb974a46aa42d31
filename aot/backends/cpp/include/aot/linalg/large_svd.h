// A = U diag(s) V^H of one matrix, real or complex, with at least as many rows as columns:
// reflections to a bidiagonal one, which is real, and its values and vectors by divide and conquer.
#ifndef AOT_LINALG_LARGE_SVD_H_
#define AOT_LINALG_LARGE_SVD_H_

#include "aot/linalg/bidiagonal.h"
#include "aot/linalg/large_eigh.h"

namespace aot::linalg {

template <class M, bool VALUES>
struct LargeSvd {
  using T = typename M::Element;
  int64_t m, n;

  // `in` copies the matrix. Record: s, descending, and but for VALUES U^T (n x m) and V^H (n x n)
  // by rows, part after part; NaN where an element is none.
  template <class In>
  void find(const In& in, T* record, Room room) const {
    const M a = take_dense<M>(m, n, room);
    const M left = take_dense<M>(1, n, room), right = take_dense<M>(1, n, room);
    T* const e = room.take<T>(n);
    in(a);
    const T by = prepare(a);
    if (by == T(0)) {
      const int64_t all = VALUES ? n : n * (1 + M::kParts * (m + n));
      for (int64_t i = 0; i < all; ++i) record[i] = T(0) / T(0);
      return;
    }
    reduce(Bidiagonal<M>{a, m, n, record, e, left, right}, room);
    const int64_t u_ld = leading(m), v_ld = leading(n + 1);
    const int64_t u_all = VALUES ? 0 : n * u_ld, v_all = VALUES ? 2 * n + 2 : (n + 1) * v_ld;
    T *const even = room.take<T>(u_all), *const odd = room.take<T>(u_all);
    T *const v_even = room.take<T>(v_all), *const v_odd = room.take<T>(v_all);
    for (int64_t i = 0; i < u_all; ++i) even[i] = odd[i] = T(0);
    for (int64_t i = 0; i < v_all; ++i) v_even[i] = v_odd[i] = T(0);
    const Halves<T> u{{VALUES ? nullptr : even, odd}, u_ld};
    const Halves<T> v{{v_even, v_odd}, v_ld, VALUES};
    int64_t* const order = room.take<int64_t>(n);
    conquer(Conquer<T, true>{record, e, order, u, v, room}, n);
    for (int64_t i = 0; i < n; ++i) e[i] = record[order[n - 1 - i]] / by;
    for (int64_t i = 0; i < n; ++i) record[i] = e[i];
    if constexpr (VALUES) return;
    const M made_u = with_imaginary_parts<M>(even, u_ld, n, room);
    const M made_v = with_imaginary_parts<M>(v_even, v_ld, n + 1, room);
    turn_back(a.seen(), left, m, n, made_u, n, room);
    turn_back(a.from(0, 1).seen().turned(), right, n - 1, n - 1, made_v.from(0, 1), n, room);
    conjugate_rows(made_v, n, n);
    rows_out(made_v, n, order, rows_out(made_u, m, order, record + n));
  }

  // By a power of two that makes the greatest element ordinary, as sums of squares are; that power,
  // or 0 where an element is none.
  T prepare(M a) const {
    T most(0);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < m; ++i) {
        const T* const row = a.part(p) + i * a.ld;
        for (int64_t j = 0; j < n; ++j) most = maximum(most, abs(row[j]));
      }
    }
    const T by = ordinary(most);
    if (by == T(0) || by == T(1)) return by;
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < m; ++i) scale_row(by, a.part(p) + i * a.ld, n);
    }
    return by;
  }

  // Vectors by descending values; where the record's next part begins.
  T* rows_out(M vectors, int64_t wide, const int64_t* order, T* out) const {
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < n; ++i) {
        const T* const row = vectors.part(p) + order[n - 1 - i] * vectors.ld;
        for (int64_t j = 0; j < wide; ++j) *out++ = row[j];
      }
    }
    return out;
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_LARGE_SVD_H_
