// Where one-sided Jacobi begins: with eigenvectors of A^H A, side by side. They lack digits of
// small singular values, which two sweeps or three find.
#ifndef AOT_LINALG_SVD_START_H_
#define AOT_LINALG_SVD_START_H_

#include <type_traits>

#include "aot/linalg/eigh.h"

namespace aot::linalg {

// R x C sums over k < depth of left(r, k) * right(c, k), to where `to` has rows from i and columns
// from j on.
template <int R, int C, class M, class Left, class Right>
AOT_INLINE void multiply_tile(int64_t depth, const Left& left, const Right& right, int64_t i,
                              int64_t j, M to) {
  using N = typename M::Number;
  N sum[R][C];
  AOT_UNROLL for (int r = 0; r < R; ++r) { AOT_UNROLL for (int c = 0; c < C; ++c) sum[r][c] = N{}; }
  for (int64_t k = 0; k < depth; ++k) {
    N other[C];
    AOT_UNROLL for (int c = 0; c < C; ++c) other[c] = right(c, k);
    AOT_UNROLL for (int r = 0; r < R; ++r) {
      const N own = left(r, k);
      AOT_UNROLL for (int c = 0; c < C; ++c) sum[r][c] = more_product(own, other[c], sum[r][c]);
    }
  }
  AOT_UNROLL for (int r = 0; r < R; ++r) {
    AOT_UNROLL for (int c = 0; c < C; ++c) to.set(i + r, j + c, sum[r][c]);
  }
}

// f(R, i) for rows i .. i + R - 1 of n, R an integral constant.
template <int MOST, class F>
AOT_INLINE void by_rows_of(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + MOST <= n; i += MOST) f(std::integral_constant<int, MOST>{}, i);
  for (; i < n; ++i) f(std::integral_constant<int, 1>{}, i);
}

inline constexpr int64_t kBegun = 12;  // columns from which it is quicker than more sweeps

// Rows of v become those vectors, and rows of w, the columns of A, those of A times them.
template <class M, class T = typename M::Element>
void begin_with_squares(M w, int64_t n, M v, Room room) {
  const int64_t m = w.columns;
  const M held = lanes_at<M>(room.take<T>(M::kParts * n * m * kLanes<T>), n, m);
  const M squares = lanes_at<M>(held.part(0).at, n, n);  // m is at least n
  by_rows_of<2>(n, [&](auto r, int64_t i) {
    const auto own = [=](int q, int64_t k) { return conjugate(w.get(i + q, k)); };
    by_rows_of<2>(i + r, [&](auto c, int64_t j) {
      const auto other = [=](int q, int64_t k) { return w.get(j + q, k); };
      multiply_tile<r(), c()>(m, own, other, i, j, squares);
    });
  });
  steps_lanes(squares, v, LaneRow<T>{room.take<T>(n * kLanes<T>)}, room);
  for (int p = 0; p < M::kParts; ++p) {
    const T* const from = w.part(p).at;
    T* const to = held.part(p).at;
    for (int64_t k = 0; k < n * m * kLanes<T>; k += kLanes<T>) {
      store(to + k, load<T, int(kLanes<T>)>(from + k));
    }
  }
  by_rows_of<2>(n, [&](auto r, int64_t i) {
    const auto own = [=](int q, int64_t k) { return v.get(i + q, k); };
    by_rows_of<4>(m, [&](auto c, int64_t j) {
      const auto other = [=](int q, int64_t k) { return held.get(k, j + q); };
      multiply_tile<r(), c()>(n, own, other, i, j, w);
    });
  });
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_SVD_START_H_
