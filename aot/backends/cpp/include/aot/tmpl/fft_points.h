// Points of Fourier transforms, where they come from and go to, and the passes over them.
//
// Each lane of a vector holds a transform of its own: passes need no shuffles (fft.h).
#ifndef AOT_TMPL_FFT_POINTS_H_
#define AOT_TMPL_FFT_POINTS_H_

#include <type_traits>
#include <utility>

#include "aot/kernel/prelude.h"

namespace aot::tmpl {

// How neighbouring lanes of the operand lie: both parts in turn; beside each other; anyhow.
enum class FftLanes { PAIRS, PLAIN, STRIDED };

template <int... R>
struct Radices {};

namespace fft_detail {

template <class T>
inline constexpr int kLanes = native_lanes<T>();
template <class T>
using Lanes = Vec<T, kLanes<T>>;

template <class T>
struct Point {
  Lanes<T> re, im;
};

template <class V, int... I>
AOT_INLINE V picked(V a, V b) {
  return V::of(__builtin_shufflevector(a.r, b.r, I...));
}
template <int FIRST, class V, int... K>
AOT_INLINE V every_second(V a, V b, std::integer_sequence<int, K...>) {
  return picked<V, (2 * K + FIRST)...>(a, b);
}
template <int FIRST, int W, class V, int... K>
AOT_INLINE V alternating(V a, V b, std::integer_sequence<int, K...>) {
  return picked<V, (FIRST + K / 2 + K % 2 * W)...>(a, b);
}

// W pairs in memory, the first `left` of which there are, unless ALL.
template <bool ALL, class T>
AOT_INLINE Point<T> load_pairs(const T* p, int64_t left) {
  constexpr int W = kLanes<T>;
  using Order = std::make_integer_sequence<int, W>;
  const Lanes<T> a = ALL ? load<T, W>(p) : load_n<T, W>(p, 2 * left);
  const Lanes<T> b = ALL ? load<T, W>(p + W) : load_n<T, W>(p + W, 2 * left - W);
  return {every_second<0>(a, b, Order{}), every_second<1>(a, b, Order{})};
}
template <bool ALL, class T>
AOT_INLINE void store_pairs(T* p, Point<T> x, int64_t left) {
  constexpr int W = kLanes<T>;
  using Order = std::make_integer_sequence<int, W>;
  const Lanes<T> a = alternating<0, W>(x.re, x.im, Order{});
  const Lanes<T> b = alternating<W / 2, W>(x.re, x.im, Order{});
  if constexpr (ALL) {
    store(p, a);
    store(p + W, b);
  } else {
    store_n(p, a, 2 * left);
    store_n(p + W, b, 2 * left - W);
  }
}

template <bool SWAP, class T>
AOT_INLINE Point<T> swapped(Point<T> x) {
  if constexpr (SWAP) return {x.im, x.re};
  return x;
}
template <class T>
AOT_INLINE Point<T> scaled(Point<T> x, T by) {
  return {x.re * Lanes<T>(by), x.im * Lanes<T>(by)};
}
template <class T>
AOT_INLINE Point<T> times(Point<T> x, Lanes<T> re, Lanes<T> im) {
  return {fnma(x.im, im, x.re * re), fma(x.im, re, x.re * im)};
}
template <class T>
AOT_INLINE Point<T> operator+(Point<T> a, Point<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
AOT_INLINE Point<T> operator-(Point<T> a, Point<T> b) {
  return {a.re - b.re, a.im - b.im};
}
// -i x
template <class T>
AOT_INLINE Point<T> turned(Point<T> x) {
  return {x.im, Lanes<T>(T(0)) - x.re};
}

// ---- where points come from and go to ----

// A buffer of the points of W transforms: both parts of each, a vector each.
template <class T>
struct Held {
  T* at;
  AOT_INLINE Point<T> get(int64_t k) const {
    const T* const p = at + k * 2 * kLanes<T>;
    return {load<T, kLanes<T>>(p), load<T, kLanes<T>>(p + kLanes<T>)};
  }
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    T* const p = at + k * 2 * kLanes<T>;
    store(p, x.re);
    store(p + kLanes<T>, x.im);
  }
};

// A part of the operand: points are `step` apart, lanes `lane`.
template <class T>
struct Part {
  const T* at;  // nullptr: zeros
  int64_t step, lane;
  AOT_INLINE Part from(int64_t offset) const {
    return {at == nullptr ? at : at + offset, step, lane};
  }
  template <bool ALL, bool DENSE>
  AOT_INLINE Lanes<T> get(int64_t k, int64_t left) const {
    constexpr int W = kLanes<T>;
    if (at == nullptr) return Lanes<T>(T(0));
    const T* const p = at + k * step;
    if constexpr (DENSE) {
      return ALL ? load<T, W>(p) : load_n<T, W>(p, left);
    } else {
      return ALL ? load_strided<T, W>(p, lane) : load_strided_n<T, W>(p, lane, left);
    }
  }
};
template <class T>
struct Parts {
  Part<T> re, im;
  // The lanes from a number on.
  AOT_INLINE Parts from(int64_t first) const {
    return {re.from(first * re.lane), im.from(first * im.lane)};
  }
};

template <class T, FftLanes N, bool ALL, bool SWAP>
struct Given {
  Parts<T> x;
  int64_t left;
  AOT_INLINE Point<T> get(int64_t k) const {
    if constexpr (N == FftLanes::PAIRS) {
      return swapped<SWAP>(load_pairs<ALL>(x.re.at + k * x.re.step, left));
    } else {
      constexpr bool DENSE = N == FftLanes::PLAIN;
      return swapped<SWAP>(
          Point<T>{x.re.template get<ALL, DENSE>(k, left), x.im.template get<ALL, DENSE>(k, left)});
    }
  }
};

// Results: pairs of neighbouring transforms beside each other.
template <class T, bool ALL, bool SWAP>
struct Results {
  T* at;
  int64_t step, left;
  T scale;
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    store_pairs<ALL>(at + k * step, swapped<SWAP>(scaled(x, scale)), left);
  }
};

// A buffer of operands that were turned before.
template <class T, bool SWAP>
struct Turned {
  Held<T> of;
  AOT_INLINE Point<T> get(int64_t k) const { return swapped<SWAP>(of.get(k)); }
};

// A buffer of results that are turned afterwards.
template <class T, bool SWAP>
struct Finished {
  Held<T> to;
  T scale;
  AOT_INLINE void put(int64_t k, Point<T> x) const { to.put(k, swapped<SWAP>(scaled(x, scale))); }
};

// Rows of both parts of all points, apart: the columns' results, turned.
template <class T, bool ALL>
struct Apart {
  const T *re, *im;
  int64_t step, left;
  AOT_INLINE Point<T> get(int64_t k) const {
    constexpr int W = kLanes<T>;
    const T *const p = re + k * step, *const q = im + k * step;
    if constexpr (ALL) return {load<T, W>(p), load<T, W>(q)};
    return {load_n<T, W>(p, left), load_n<T, W>(q, left)};
  }
};

// A buffer of results times their factors.
template <class T, bool ALL, bool COARSE>
struct Factored {
  Held<T> to;
  const T *fine, *coarse;
  int64_t n, fine_rows, coarse_rows, left;
  AOT_INLINE Point<T> multiplied(Point<T> x, const T* table, int64_t rows, int64_t row) const {
    constexpr int W = kLanes<T>;
    const T *const p = table + row * n, *const q = p + rows * n;
    if constexpr (ALL) return times(x, load<T, W>(p), load<T, W>(q));
    return times(x, load_n<T, W>(p, left), load_n<T, W>(q, left));
  }
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    if constexpr (COARSE) {
      x = multiplied(x, coarse, coarse_rows, k / fine_rows);
      x = multiplied(x, fine, fine_rows, k % fine_rows);
    } else {
      x = multiplied(x, fine, fine_rows, k);
    }
    to.put(k, x);
  }
};

// ---- small transforms ----

// The roots that a transform of R points needs: cosines and sines of 2 pi k / R, k up to R / 2.
template <class T, int R>
struct Constants {
  Lanes<T> cos[R / 2 + 1], sin[R / 2 + 1];
  AOT_INLINE explicit Constants(const T* roots, int64_t n) {
    if constexpr (R > 8 || R % 2 == 1) {
      AOT_UNROLL for (int k = 1; k <= R / 2; ++k) {
        cos[k] = Lanes<T>(roots[2 * k * (n / R)]);
        sin[k] = Lanes<T>(-roots[2 * k * (n / R) + 1]);
      }
    }
  }
};

template <class T>
AOT_INLINE void transform(Point<T> (&x)[2], const Constants<T, 2>&) {
  const Point<T> a = x[0], b = x[1];
  x[0] = a + b;
  x[1] = a - b;
}

template <class T>
AOT_INLINE void transform_4(Point<T>& x0, Point<T>& x1, Point<T>& x2, Point<T>& x3) {
  const Point<T> a = x0 + x2, b = x0 - x2, c = x1 + x3, d = turned(x1 - x3);
  x0 = a + c;
  x1 = b + d;
  x2 = a - c;
  x3 = b - d;
}
template <class T>
AOT_INLINE void transform(Point<T> (&x)[4], const Constants<T, 4>&) {
  transform_4(x[0], x[1], x[2], x[3]);
}

template <class T>
AOT_INLINE void transform(Point<T> (&x)[8], const Constants<T, 8>&) {
  transform_4(x[0], x[2], x[4], x[6]);
  transform_4(x[1], x[3], x[5], x[7]);
  const Lanes<T> half(T(0.70710678118654752440));
  const Point<T> b = x[3], d = x[7], c = turned(x[5]);
  const Point<T> y1 = {(b.re + b.im) * half, (b.im - b.re) * half};
  const Point<T> y3 = {(d.im - d.re) * half, (Lanes<T>(T(0)) - d.re - d.im) * half};
  const Point<T> e0 = x[0], e1 = x[2], e2 = x[4], e3 = x[6], y0 = x[1];
  x[0] = e0 + y0;
  x[4] = e0 - y0;
  x[1] = e1 + y1;
  x[5] = e1 - y1;
  x[2] = e2 + c;
  x[6] = e2 - c;
  x[3] = e3 + y3;
  x[7] = e3 - y3;
}

// Odd: sums and differences of x[j] and x[R - j] share their products.
template <class T, int R>
AOT_INLINE void transform(Point<T> (&x)[R], const Constants<T, R>& roots) {
  constexpr int H = R / 2;
  Point<T> sum[H + 1], difference[H + 1];
  Point<T> total = x[0];
  AOT_UNROLL for (int j = 1; j <= H; ++j) {
    sum[j] = x[j] + x[R - j];
    difference[j] = x[j] - x[R - j];
    total = total + sum[j];
  }
  const Point<T> first = x[0];
  x[0] = total;
  AOT_UNROLL for (int k = 1; k <= H; ++k) {
    Point<T> even = first, odd;
    AOT_UNROLL for (int j = 1; j <= H; ++j) {
      const int turn = j * k % R, at = turn > H ? R - turn : turn;
      const Lanes<T> cos = roots.cos[at];
      const Lanes<T> sin = turn > H ? Lanes<T>(T(0)) - roots.sin[at] : roots.sin[at];
      even = {fma(sum[j].re, cos, even.re), fma(sum[j].im, cos, even.im)};
      if (j == 1) {
        odd = {difference[j].re * sin, difference[j].im * sin};
      } else {
        odd = {fma(difference[j].re, sin, odd.re), fma(difference[j].im, sin, odd.im)};
      }
    }
    const Point<T> t = turned(odd);
    x[k] = even + t;
    x[R - k] = even - t;
  }
}

// One pass: n / R transforms of points m * s apart. TURN: results are multiplied by powers of w.
template <bool TURN, class T, int R, class In, class Out>
AOT_INLINE void butterflies(int64_t p, int64_t m, int64_t s, const Constants<T, R>& constants,
                            const T* roots, const In& in, const Out& out) {
  Lanes<T> re[R], im[R];
  if constexpr (TURN) {
    AOT_UNROLL for (int k = 1; k < R; ++k) {
      re[k] = Lanes<T>(roots[2 * (p * k * s)]);
      im[k] = Lanes<T>(roots[2 * (p * k * s) + 1]);
    }
  }
  for (int64_t q = 0; q < s; ++q) {
    Point<T> x[R];
    AOT_UNROLL for (int j = 0; j < R; ++j) x[j] = in.get(q + s * (p + m * j));
    transform(x, constants);
    out.put(q + s * (R * p), x[0]);
    AOT_UNROLL for (int k = 1; k < R; ++k) {
      if constexpr (TURN) x[k] = times(x[k], re[k], im[k]);
      out.put(q + s * (R * p + k), x[k]);
    }
  }
}
template <class T, int R, class In, class Out>
inline void pass(int64_t n, int64_t m, int64_t s, const T* roots, const In& in, const Out& out) {
  const Constants<T, R> constants(roots, n);
  butterflies<false>(0, m, s, constants, roots, in, out);
  for (int64_t p = 1; p < m; ++p) butterflies<true>(p, m, s, constants, roots, in, out);
}

// What the first pass, as it puts a point, and the last one, as it gets one, fetch for later.
struct Nothing {
  AOT_INLINE void operator()(int64_t) const {}
};
// The cache lines of W pairs at a row, but for one that the pairs before them share: a stride from
// row to row is more than hardware guesses.
struct Lines {
  const void* at;
  int64_t row;  // bytes
  template <bool WRITTEN>
  AOT_INLINE void fetch(int64_t k) const {
    const uintptr_t first = (reinterpret_cast<uintptr_t>(at) + k * row + 63) / 64 * 64;
    __builtin_prefetch(reinterpret_cast<const void*>(first), WRITTEN, WRITTEN ? 3 : 2);
    __builtin_prefetch(reinterpret_cast<const void*>(first + 64), WRITTEN, WRITTEN ? 3 : 2);
  }
};
struct Read : Lines {
  AOT_INLINE void operator()(int64_t k) const { fetch<false>(k); }
};
struct Written : Lines {
  AOT_INLINE void operator()(int64_t k) const { fetch<true>(k); }
};
template <class T, class Ahead>
struct Fetching {
  Held<T> of;
  Ahead ahead;
  AOT_INLINE Point<T> get(int64_t k) const {
    ahead(k);
    return of.get(k);
  }
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    ahead(k);
    of.put(k, x);
  }
};

// All passes of n points, by way of two buffers.
template <class T, class In, class Out, class There = Nothing, class Next = Nothing>
AOT_INLINE void passes(Radices<>, int64_t, int64_t, int64_t, const T*, const In& in, const Out& out,
                       T*, T*, const There& = {}, const Next& = {}) {
  out.put(0, in.get(0));
}
template <class T, int R, int... REST, class In, class Out, class There = Nothing,
          class Next = Nothing>
AOT_INLINE void passes(Radices<R, REST...>, int64_t n, int64_t left, int64_t s, const T* roots,
                       const In& in, const Out& out, T* a, T* b, const There& there = {},
                       const Next& next = {}) {
  const int64_t m = left / R;
  if constexpr (sizeof...(REST) == 0) {
    pass<T, R>(n, m, s, roots, in, out);
  } else {
    pass<T, R>(n, m, s, roots, in, Fetching<T, There>{{a}, there});
    if constexpr (sizeof...(REST) == 1) {
      passes(Radices<REST...>{}, n, m, s * R, roots, Fetching<T, Next>{{a}, next}, out, b, a);
    } else {
      passes(Radices<REST...>{}, n, m, s * R, roots, Held<T>{a}, out, b, a, Nothing{}, next);
    }
  }
}

}  // namespace fft_detail
}  // namespace aot::tmpl

#endif  // AOT_TMPL_FFT_POINTS_H_
