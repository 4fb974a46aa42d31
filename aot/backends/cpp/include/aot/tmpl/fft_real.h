// Transforms of 2 h real numbers by those of h complex ones: what is done after them, or before.
//
// Even numbers are real parts and odd ones imaginary parts of h points. With their transform Z, its
// mirror conj(Z[h - k]) and w = exp(-pi i / h), results are
//   X[k] = (Z[k] + conj(Z[h - k])) / 2 - i w^k (Z[k] - conj(Z[h - k])) / 2
// and the way back solves that for Z. A pair k, h - k is computed together. `turns` are powers of
// w.
#ifndef AOT_TMPL_FFT_REAL_H_
#define AOT_TMPL_FFT_REAL_H_

#include "aot/tmpl/fft_points.h"

namespace aot::tmpl::fft_detail {

template <class T>
struct Both {
  Point<T> near, far;  // of k and of h - k
};

template <class T>
AOT_INLINE Point<T> conjugate(Point<T> x) {
  return {x.re, Lanes<T>(T(0)) - x.im};
}

template <class T>
AOT_INLINE Both<T> unfolded(Point<T> here, Point<T> there, Point<T> root) {
  const Lanes<T> half(T(0.5));
  const Point<T> even = {(here.re + there.re) * half, (here.im - there.im) * half};
  const Point<T> odd = {(here.im + there.im) * half, (there.re - here.re) * half};
  const Point<T> turn = times(odd, root.re, root.im);
  return {even + turn, {even.re - turn.re, turn.im - even.im}};
}
template <class T>
AOT_INLINE Both<T> folded(Point<T> here, Point<T> there, Point<T> root) {
  const Point<T> even = {here.re + there.re, here.im - there.im};
  const Point<T> odd = {here.re - there.re, here.im + there.im};
  const Point<T> turn = times(odd, root.re, Lanes<T>(T(0)) - root.im);
  return {{even.re - turn.im, even.im + turn.re}, {even.re + turn.im, turn.re - even.im}};
}

template <class T>
AOT_INLINE Point<T> root_of(const T* turns, int64_t k) {
  return {Lanes<T>(turns[2 * k]), Lanes<T>(turns[2 * k + 1])};
}

// ---- a lane each ----

// COUNT results, or `count`, from h points; `out` may lie where they do.
template <int64_t COUNT, class T, class Turns, class Out>
AOT_INLINE void unfold(Held<T> z, int64_t h, const Turns& turns, const Out& out,
                       int64_t count = COUNT) {
  const auto put = [&](int64_t k, Point<T> x) {
    out.put(k, x);
    if (k > 0 && 2 * h - k < count) out.put(2 * h - k, conjugate(x));
  };
  const Point<T> first = z.get(0);
  const Lanes<T> zero(T(0));
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Both<T> x = unfolded(z.get(k), z.get(h - k), root_of(turns, k));
    put(k, x.near);
    if (2 * k < h) put(h - k, x.far);
  }
  put(0, {first.re + first.im, zero});
  out.put(h, {first.re - first.im, zero});
}

// h points from h + 1; `to` may lie where they do.
template <class T, class In, class Turns>
AOT_INLINE void fold(const In& in, int64_t h, const Turns& turns, Held<T> to) {
  const Lanes<T> first = in.get(0).re, last = in.get(h).re;
  for (int64_t k = 1; 2 * k <= h; ++k) {
    const Both<T> x = folded(in.get(k), in.get(h - k), root_of(turns, k));
    to.put(k, x.near);
    if (2 * k < h) to.put(h - k, x.far);
  }
  to.put(0, {first + last, first - last});
}

// Real results of neighbouring transforms: rows of even and of odd ones in turn.
template <class T, bool ALL, bool SWAP>
struct Numbers {
  T* at;
  int64_t step, left;
  T scale;
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    const Point<T> made = swapped<SWAP>(scaled(x, scale));
    T *const even = at + 2 * k * step, *const odd = even + step;
    if constexpr (ALL) {
      store(even, made.re);
      store(odd, made.im);
    } else {
      store_n(even, made.re, left);
      store_n(odd, made.im, left);
    }
  }
};

// ---- a row ----

template <class V, int... K>
AOT_INLINE V reversed(V a, std::integer_sequence<int, K...>) {
  constexpr int W = sizeof...(K);
  return picked<V, (W - 1 - K)...>(a, a);
}
template <class T>
AOT_INLINE Point<T> reversed(Point<T> x) {
  using Order = std::make_integer_sequence<int, kLanes<T>>;
  return {reversed(x.re, Order{}), reversed(x.im, Order{})};
}

// Neighbouring powers of w, from one table or, where BLOCK is not 0, from two: w^k of `turns`,
// which has 2 BLOCK then, and w^(BLOCK k) of `leaps`.
template <class T, int64_t BLOCK>
struct Roots {
  const T *turns, *leaps;
  AOT_INLINE Point<T> get(int64_t k) const {
    constexpr int64_t W = kLanes<T>;
    if constexpr (BLOCK == 0) return load_pairs<true>(turns + 2 * k, W);
    const Point<T> leap = root_of(leaps, k / imax(BLOCK, 1));
    return times(load_pairs<true>(turns + 2 * (k % imax(BLOCK, 1)), W), leap.re, leap.im);
  }
};

// Where blocks of W numbers between 1 and h - 1 begin so that they and their mirrors are all of
// these; the last one may overlap others. At least W - 1 numbers.
template <class T, class Block>
AOT_INLINE void mirrored_blocks(int64_t h, const Block& block) {
  constexpr int64_t W = kLanes<T>;
  for (int64_t k = 1; 2 * k <= h; k += W) block(imin(k, h - W));
}

// COUNT pairs `out`, or `count`, from pairs z. At least W points.
template <int64_t COUNT, class T, class Turns>
AOT_INLINE void unfold_row(const T* z, int64_t h, const Turns& turns, T* out,
                           int64_t count = COUNT) {
  constexpr int64_t W = kLanes<T>;
  const auto near = [](const T* p, int64_t k) { return load_pairs<true>(p + 2 * k, W); };
  mirrored_blocks<T>(h, [&](int64_t k) {
    const int64_t mirror = h - k - W + 1;
    const Both<T> x = unfolded(near(z, k), reversed(near(z, mirror)), turns.get(k));
    const Point<T> far = reversed(x.far);
    store_pairs<true>(out + 2 * k, x.near, W);
    store_pairs<true>(out + 2 * mirror, far, W);
    if (count > h + 1) {
      store_pairs<true>(out + 2 * (h + mirror), conjugate(reversed(x.near)), W);
      store_pairs<true>(out + 2 * (h + k), conjugate(x.far), W);
    }
  });
  out[0] = z[0] + z[1];
  out[2 * h] = z[0] - z[1];
  out[1] = out[2 * h + 1] = T(0);
}

// Both parts of h points, apart, from h + 1, whose neighbours are lanes of x. At least W points.
template <FftLanes N, class T, class Turns>
AOT_INLINE void fold_row(const Parts<T>& x, int64_t h, const Turns& turns, T* re, T* im) {
  constexpr int64_t W = kLanes<T>;
  const auto near = [&](int64_t k) { return Given<T, N, true, false>{x.from(k), W}.get(0); };
  const auto put = [&](int64_t k, Point<T> z) {
    store(re + k, z.re);
    store(im + k, z.im);
  };
  mirrored_blocks<T>(h, [&](int64_t k) {
    const int64_t mirror = h - k - W + 1;
    const Both<T> z = folded(near(k), reversed(near(mirror)), turns.get(k));
    put(k, z.near);
    put(mirror, reversed(z.far));
  });
  const T first = x.re.at[0], last = x.re.at[h * x.re.lane];
  re[0] = first + last;
  im[0] = first - last;
}

}  // namespace aot::tmpl::fft_detail

#endif  // AOT_TMPL_FFT_REAL_H_
