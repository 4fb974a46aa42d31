// A = L L^H of Hermitian positive definite matrices, of which the lower triangle is read.
#ifndef AOT_LINALG_CHOLESKY_H_
#define AOT_LINALG_CHOLESKY_H_

#include "aot/linalg/triangular.h"

namespace aot::linalg {

// U^H U of a block of at most a panel, in the upper triangle; 0, or the number of the first column
// whose pivot is not positive, where the block is left.
template <class M>
int64_t cholesky_block(M a, int64_t n) {
  using T = typename M::Element;
  using N = typename M::Number;
  for (int64_t k = 0; k < n; ++k) {
    const T square = real_of(a.get(k, k));
    if (!(square > T(0))) return k + 1;
    const T pivot = sqrt(square);
    a.set(k, k, Real<N>::number(pivot));
    for (int p = 0; p < M::kParts; ++p) {
      T* const row = a.part(p) + k * a.ld;
      for (int64_t j = k + 1; j < n; ++j) row[j] /= pivot;
    }
    for (int64_t i = k + 1; i < n; ++i) {
      const N factor = conjugate(a.get(k, i));
      for (int64_t j = i; j < n; ++j) a.set(i, j, less_product(factor, a.get(k, j), a.get(i, j)));
    }
  }
  return 0;
}

// The same for any size, by halves.
template <class M>
int64_t cholesky_upper(M a, int64_t n, Room room) {
  if (n <= kPanel) return cholesky_block(a, n);
  const int64_t half = round_up(n / 2, kPanel), rest = n - half;
  const int64_t wrong = cholesky_upper(a, half, room);
  if (wrong) return wrong;
  const M beside = a.from(0, half), last = a.from(half, half);
  solve_triangle<Triangle<false, false>>(a.adjoint(), half, beside, rest, room);
  subtract_product<true>(rest, rest, half, beside.adjoint(), beside, last, room);
  const int64_t later = cholesky_upper(last, rest, room);
  return later ? half + later : 0;
}

// Elements (i, j) to (i + R - 1, j) of the factor, side by side, but for the pivot.
template <int R, class M, class V>
AOT_INLINE void cholesky_rows(M a, int64_t i, int64_t j, V factor) {
  using N = typename M::Number;
  N sum[R];
  AOT_UNROLL for (int r = 0; r < R; ++r) sum[r] = a.get(i + r, j);
  for (int64_t k = 0; k < j; ++k) {
    const N known = conjugate(a.get(j, k));
    AOT_UNROLL for (int r = 0; r < R; ++r) sum[r] = less_product(a.get(i + r, k), known, sum[r]);
  }
  AOT_UNROLL for (int r = 0; r < R; ++r) a.set(i + r, j, scaled(factor, sum[r]));
}

// Side by side, in the lower triangle; `info` is as above, in each lane.
template <class M>
Lanes<typename M::Element> cholesky_lanes(M a, int64_t n) {
  using T = typename M::Element;
  using V = Lanes<T>;
  V info(T(0));
  for (int64_t j = 0; j < n; ++j) {
    V pivot = real_of(a.get(j, j));
    for (int64_t k = 0; k < j; ++k) {
      for (int p = 0; p < M::kParts; ++p) {
        const V x = a.part(p).get(j, k);
        pivot = fnma(x, x, pivot);
      }
    }
    const auto good = pivot > V(T(0));
    info = select((info == V(T(0))) & ~good, V(T(j + 1)), info);
    pivot = sqrt(pivot);
    a.set(j, j, Real<typename M::Number>::number(pivot));
    const V factor = V(T(1)) / pivot;
    int64_t i = j + 1;
    for (; i + kRows <= n; i += kRows) cholesky_rows<kRows>(a, i, j, factor);
    for (; i < n; ++i) cholesky_rows<1>(a, i, j, factor);
  }
  return info;
}

// Record: L by rows, info.
template <class Cfg>
struct Cholesky : Finished {
  using T = typename Cfg::A;

  template <class Args>
  static void lanes(const Args& p, int64_t first, int64_t lanes, T* record, Room) {
    const auto a = p.side(record, p.n, p.n);
    gather_lower(p.operand_a(first), p.batches_a(), lanes, p.n, a);
    const Lanes<T> info = cholesky_lanes(a, p.n);
    for (int part = 0; part < a.kParts; ++part) {
      const LaneMatrix<T> own = a.part(part);
      for (int64_t i = 0; i < p.n; ++i) {
        for (int64_t j = i + 1; j < p.n; ++j) own.set(i, j, Lanes<T>(T(0)));
      }
    }
    store(record + a.kParts * p.n * p.n * kLanes<T>, info);
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    const auto a = take_dense<typename Args::Whole>(n, n, room);
    copy_in(p.operand_a(matrix).turned(), n, n, a);
    // The upper triangle of the transposed matrix is that of the conjugate one.
    if constexpr (a.kParts == 2) conjugate_rows(a, n);
    const int64_t info = cholesky_upper(a, n, room);
    if constexpr (a.kParts == 2) conjugate_rows(a, n);
    for (int part = 0; part < a.kParts; ++part, record += n * n) {
      write_lower(a.part(part), a.ld, n, record);
    }
    *record = T(info);
  }

  // The upper triangle as a lower one by rows, zeros above it.
  static void write_lower(const T* from, int64_t ld, int64_t n, T* record) {
    constexpr int64_t kSide = transpose_lanes<T>();
    for (int64_t i0 = 0; i0 < n; i0 += kSide) {
      const int64_t i1 = min64(n, i0 + kSide), whole = i1 - i0 == kSide ? i0 : 0;
      for (int64_t j = 0; j < whole; j += kSide) {
        transpose_block(from + j * ld + i0, ld, record + i0 * n + j, n);
      }
      for (int64_t i = i0; i < i1; ++i) {
        for (int64_t j = whole; j <= i; ++j) record[i * n + j] = from[j * ld + i];
        for (int64_t j = i + 1; j < n; ++j) record[i * n + j] = T(0);
      }
    }
  }

  template <class M>
  static void conjugate_rows(M a, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      T* const row = a.part(1) + i * a.ld;
      for (int64_t j = i; j < n; ++j) row[j] = -row[j];
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_CHOLESKY_H_
