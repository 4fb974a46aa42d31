// A sweep of QR with many shifts at once: a chain of small bulges goes down the matrix, and what it
// does far from the diagonal are products (Braman, Byers, Mathias 2002; LAPACK's laqr5).
#ifndef AOT_LINALG_SWEEP_H_
#define AOT_LINALG_SWEEP_H_

#include "aot/linalg/product.h"
#include "aot/linalg/schur_steps.h"

namespace aot::linalg {

inline constexpr int64_t kMostShifts = 64;  // of a sweep; in template_library.py
inline constexpr int64_t kMostBulges = kMostShifts / 2;
inline constexpr int64_t kReach = 6 * kMostBulges - 3;  // rows that a chain passes at once
inline constexpr int64_t kStrip = 256;                  // rows or columns of a product at once

// a (count x columns) = `by` (count x count) times it.
template <class M, class By>
void multiply_rows(By by, int64_t count, M a, int64_t columns, Room room) {
  const M made = take_dense<M>(count, kStrip, room);
  for (int64_t j = 0; j < columns; j += kStrip) {
    const int64_t wide = min64(kStrip, columns - j);
    for (int64_t i = 0; i < count; ++i) zero_row(made, i, wide);
    subtract_product(count, wide, count, by, a.from(0, j), made, room);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < count; ++i) {
        const auto* const from = made.part(p) + i * made.ld;
        auto* const to = a.part(p) + i * a.ld + j;
        for (int64_t k = 0; k < wide; ++k) to[k] = -from[k];
      }
    }
  }
}

// a (rows x count) = it times `by` (count x count).
template <class M>
void multiply_columns(M a, int64_t rows, M by, int64_t count, Room room) {
  const M made = take_dense<M>(kStrip, count, room);
  for (int64_t i = 0; i < rows; i += kStrip) {
    const int64_t high = min64(kStrip, rows - i);
    for (int64_t k = 0; k < high; ++k) zero_row(made, k, count);
    subtract_product(high, count, count, a.from(i, 0).seen(), by, made, room);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t k = 0; k < high; ++k) {
        const auto* const from = made.part(p) + k * made.ld;
        auto* const to = a.part(p) + (i + k) * a.ld;
        for (int64_t j = 0; j < count; ++j) to[j] = -from[j];
      }
    }
  }
}

// A matrix of Hessenberg's form (h, n x n) and its basis, whose columns are rows of z, or nowhere
// where values alone are wanted: then nothing outside of a block is kept up to date.
template <class M>
struct Spectrum {
  M h, z;
  int64_t n;
  AOT_INLINE bool whole() const { return z.part(0) != nullptr; }

  // Rows and columns [first, first + count) times V, whose columns are rows of v, from `below` on
  // right of these rows, and of columns, above `above`, within [top, bottom].
  void spread_out(M v, int64_t first, int64_t count, int64_t above, int64_t right, int64_t top,
                  int64_t bottom, Room room) const {
    const int64_t begin = whole() ? 0 : top, end = whole() ? n : bottom + 1;
    if (right < end) multiply_rows(v.other(), count, h.from(first, right), end - right, room);
    if (begin < above) {
      const M by = take_dense<M>(count, count, room);
      copy_in(v.seen().turned(), count, count, by);
      multiply_columns(h.from(begin, first), above - begin, by, count, room);
    }
    if (whole()) multiply_rows(v.seen(), count, z.from(first, 0), n, room);
  }
};

// One sweep over rows [top, bottom] by `bulges` pairs of shifts.
template <class M>
struct Sweep {
  using N = typename M::Number;
  using T = typename M::Element;
  Spectrum<M> on;
  int64_t top, bottom, bulges;
  const Complex<T>* shifts;
  M u;  // kReach x kReach
  T none;
  Turn<3, N>* turns;  // of each bulge, numbered from 1 on

  static AOT_INLINE N zero() { return Real<N>::number(0); }

  void run(Room room) const {
    const int64_t pace = 3 * bulges - 2, reach = 6 * bulges - 3;
    for (int64_t c = 3 * (1 - bulges) + top - 1; c <= bottom - 2; c += pace) {
      for (int64_t i = 0; i < reach; ++i) {
        zero_row(u, i, reach);
        u.set(i, i, Real<N>::number(1));
      }
      const int64_t last = min64(c + 3 * bulges - 3, bottom - 2);
      for (int64_t at = c; at <= last; ++at) step(c, at, reach);
      const int64_t from = max64(1, top - c), end = c + reach;
      const int64_t count = reach - max64(0, end - bottom) - from + 1;
      on.spread_out(u.from(from - 1, from - 1), c + from, count, max64(top, c),
                    min64(end, bottom) + 1, top, bottom, room);
    }
  }

  // Every bulge moves on by one row; the first is the lowest that was begun.
  void step(int64_t c, int64_t at, int64_t reach) const {
    const M h = on.h;
    const int64_t first = max64(1, (top - 1 - at + 2) / 3 + 1),
                  last = min64(bulges, (bottom - at) / 3);
    const int64_t two = at + 3 * last;
    const bool ends = last < bulges && two == bottom - 2;
    Turn<2, N> short_turn;
    for (int64_t m = first; m <= last; ++m) turns[m] = find(at + 3 * (m - 1), m);
    if (ends) short_turn = find_short(two, last + 1);
    const int64_t right = min64(c + reach, bottom) + 1, above = max64(top, c);
    const int64_t begin = max64(1, top - c) - 1;
    for (int64_t m = first; m <= last; ++m) {
      const int64_t k = at + 3 * (m - 1);
      turn_rows(h, k + 1, max64(top, k + 1), right, turns[m]);
    }
    if (ends) turn_rows(h, two + 1, max64(top, two + 1), right, short_turn);
    for (int64_t m = first; m <= last; ++m) {
      const int64_t k = at + 3 * (m - 1);
      turn_columns(h, k + 1, above, min64(bottom, k + 3) + 1, turns[m]);
      turn_basis(u, k - c, begin, reach, turns[m]);
    }
    if (ends) {
      turn_columns(h, two + 1, above, min64(bottom, two + 3) + 1, short_turn);
      turn_basis(u, two - c, begin, reach, short_turn);
    }
    deflate(at, first, last + ends);
    fill(at, first);
  }

  // What turns column k of bulge m, or begins it.
  Turn<3, N> find(int64_t k, int64_t m) const {
    const M h = on.h;
    N x[3], beta;
    if (k == top - 1) {
      start(h, top, shifts[2 * m - 2], shifts[2 * m - 1], x);
      return turn_of<3>(x, beta);
    }
    for (int r = 0; r < 3; ++r) x[r] = h.get(k + 1 + r, k);
    Turn<3, N> made = turn_of<3>(x, beta);
    const bool typical = rough_size(h.get(k + 3, k)) != T(0) ||
                         rough_size(h.get(k + 3, k + 1)) != T(0) ||
                         rough_size(h.get(k + 3, k + 2)) == T(0);
    if (!typical) {
      // The bulge has collapsed: it may be begun again, if what that spoils is nothing.
      N y[3], ignored;
      start(h, k + 1, shifts[2 * m - 2], shifts[2 * m - 1], y);
      const Turn<3, N> again = turn_of<3>(y, ignored);
      const N along =
          conjugate(again.tau) * (h.get(k + 1, k) + conjugate(again.v[1]) * h.get(k + 2, k));
      const T spoilt =
          rough_size(h.get(k + 2, k) - along * again.v[1]) + rough_size(along * again.v[2]);
      const T size = rough_size(h.get(k, k)) + rough_size(h.get(k + 1, k + 1)) +
                     rough_size(h.get(k + 2, k + 2));
      if (spoilt <= rounding<T>() * size) {
        beta = h.get(k + 1, k) - along;
        made = again;
      }
    }
    h.set(k + 1, k, beta);
    h.set(k + 2, k, zero());
    h.set(k + 3, k, zero());
    return made;
  }

  // The same where the block ends: of two rows.
  Turn<2, N> find_short(int64_t k, int64_t m) const {
    const M h = on.h;
    N x[3], beta;
    if (k == top - 1) {
      start_of_two(x, shifts[2 * m - 2], shifts[2 * m - 1]);
      return turn_of<2>(x, beta);
    }
    x[0] = h.get(k + 1, k);
    x[1] = h.get(k + 2, k);
    const Turn<2, N> made = turn_of<2>(x, beta);
    h.set(k + 1, k, beta);
    h.set(k + 2, k, zero());
    return made;
  }

  void start_of_two(N* x, Complex<T> one, Complex<T> other) const {
    const M h = on.h;
    const Complex<T> a = as_complex(h.get(top, top)), b = as_complex(h.get(top, top + 1));
    const Complex<T> c = as_complex(h.get(top + 1, top)), d = as_complex(h.get(top + 1, top + 1));
    const Complex<T> far = a - other;
    const T size = rough_size(far) + rough_size(c);
    x[0] = x[1] = zero();
    if (size == T(0)) return;
    const Complex<T> share = T(1) / size * c;
    put(share * b + (a - one) * Complex<T>{far.re / size, far.im / size}, x[0]);
    put(share * (a + d - one - other), x[1]);
  }

  // Elements below the diagonal that have become nothing.
  void deflate(int64_t at, int64_t first, int64_t last) const {
    const int64_t begin = at + 3 * (first - 1) < top ? first + 1 : first;
    const int64_t end = at == bottom - 2 ? last + 1 : last;
    for (int64_t m = begin; m <= end; ++m) {
      const int64_t k = min64(bottom - 1, at + 3 * (m - 1));
      if (rough_size(on.h.get(k + 1, k)) == T(0)) continue;
      if (is_negligible(on.h, k, top, bottom, none)) on.h.set(k + 1, k, zero());
    }
  }

  // The last row of each bulge.
  void fill(int64_t at, int64_t first) const {
    const M h = on.h;
    for (int64_t m = first; m <= min64(bulges, (bottom - at - 1) / 3); ++m) {
      const int64_t k = at + 3 * (m - 1);
      const Turn<3, N>& turn = turns[m];
      const N along = turn.tau * turn.v[2] * h.get(k + 4, k + 3);
      h.set(k + 4, k + 1, -along);
      h.set(k + 4, k + 2, -(along * conjugate(turn.v[1])));
      h.set(k + 4, k + 3, h.get(k + 4, k + 3) - along * conjugate(turn.v[2]));
    }
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SWEEP_H_
