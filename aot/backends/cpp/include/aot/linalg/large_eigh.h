// A = V diag(w) V^H of one symmetric or Hermitian matrix: reflections to a tridiagonal one, which
// is real, and its values and vectors by divide and conquer.
#ifndef AOT_LINALG_LARGE_EIGH_H_
#define AOT_LINALG_LARGE_EIGH_H_

#include "aot/linalg/conquer.h"
#include "aot/linalg/tridiagonal.h"

namespace aot::linalg {

// Vectors that lie as rows of a real matrix as those of either kind of numbers; complex ones get
// their imaginary parts here. `rows` of `ld` numbers.
template <class M, class T>
M with_imaginary_parts(T* at, int64_t ld, int64_t rows, Room& room) {
  if constexpr (M::kParts == 1) {
    return {at, ld};
  } else {
    T* const im = room.take<T>(rows * ld);
    for (int64_t i = 0; i < rows * ld; ++i) im[i] = T(0);
    return {at, im, ld};
  }
}

template <class M, bool VALUES>
struct LargeEigh {
  using T = typename M::Element;
  int64_t n;

  // `in` copies the matrix, turned: of it the upper triangle counts. Record: w, ascending, and but
  // for VALUES V by rows, part after part, with eigenvectors as its columns; NaN where an element
  // is none.
  template <class In>
  void find(const In& in, T* record, Room room) const {
    const M a = take_dense<M>(n, n, room), tau = take_dense<M>(1, n, room);
    T* const e = room.take<T>(n);
    in(a);
    const T by = prepare(a);
    if (by == T(0)) {
      const int64_t all = VALUES ? n : n * (1 + M::kParts * n);
      for (int64_t i = 0; i < all; ++i) record[i] = T(0) / T(0);
      return;
    }
    reduce(Tridiagonal<M>{a, n, record, e, tau}, room);
    const int64_t ld = leading(n);
    const Halves<T> none{{nullptr, nullptr}, ld};
    int64_t* const order = room.take<int64_t>(n);
    const int64_t each = VALUES ? 2 * n : n * ld;
    T *const even = room.take<T>(each), *const odd = VALUES ? even : room.take<T>(each);
    for (int64_t i = 0; i < each; ++i) even[i] = odd[i] = T(0);
    const Halves<T> v{{even, odd}, ld, VALUES};
    conquer(Conquer<T, false>{record, e, order, none, v, room}, n);
    for (int64_t i = 0; i < n; ++i) e[i] = record[order[i]] / by;
    for (int64_t i = 0; i < n; ++i) record[i] = e[i];
    if constexpr (!VALUES) {
      const M made = with_imaginary_parts<M>(even, ld, n, room);
      turn_back(a.from(0, 1).seen().turned(), tau, n - 1, n - 1, made.from(0, 1), n, room);
      columns_out(made, order, record + n);
    }
  }

  // The upper triangle of `a`, zeros beside it, by a power of two that makes its greatest element
  // ordinary; that power, or 0 where an element is none. Of a turned Hermitian matrix the
  // conjugate.
  T prepare(M a) const {
    T most(0);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < n; ++i) {
        T* const row = a.part(p) + i * a.ld;
        for (int64_t j = 0; j < i + p; ++j) row[j] = T(0);
        for (int64_t j = i; j < n; ++j) most = maximum(most, abs(row[j]));
      }
    }
    conjugate_rows(a, n, n);
    const T by = ordinary(most);
    if (by == T(0) || by == T(1)) return by;
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < n; ++i) scale_row(by, a.part(p) + i * a.ld, n);
    }
    return by;
  }

  void columns_out(M v, const int64_t* order, T* out) const {
    constexpr int64_t kTile = 32;
    for (int p = 0; p < M::kParts; ++p, out += n * n) {
      for (int64_t j0 = 0; j0 < n; j0 += kTile) {
        for (int64_t i0 = 0; i0 < n; i0 += kTile) {
          for (int64_t i = i0; i < min64(n, i0 + kTile); ++i) {
            for (int64_t j = j0; j < min64(n, j0 + kTile); ++j) {
              out[i * n + j] = v.part(p)[order[j] * v.ld + i];
            }
          }
        }
      }
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_LARGE_EIGH_H_
