// Discrete Fourier transforms along one axis, by factors of the number of points.
//
//   template <class Cfg, class Rows>
//   void fft(const FftArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Rows& rows);
//
// Each lane of a vector holds a transform of its own, so that passes need no shuffles: neighbours
// along `inner` or, of a long row of n1 * n2 points, its n2 columns and then its n1 rows; short
// rows are turned, a lane each. Work units:
//   SPLIT  a row;  LANES  kFftColumns columns of an element of outer, all if WHOLE;  ROWS  kFftRows
// FftRows say where results of an element of outer go, n * inner pairs, and what is done then.
//   scratch = Python's formula in template_fft.py
#ifndef AOT_TMPL_FFT_H_
#define AOT_TMPL_FFT_H_

#include <type_traits>
#include <utility>

#include "aot/kernel/prelude.h"

namespace aot::tmpl {

inline constexpr int64_t kFftColumns = 64;  // a multiple of all vectors' lanes
inline constexpr int64_t kFftRows = 16;

enum class FftShape { SPLIT, LANES, ROWS };
// How neighbouring lanes of the operand lie: both parts in turn; beside each other; anyhow.
enum class FftLanes { PAIRS, PLAIN, STRIDED };

template <int... R>
struct Radices {};

struct FftConfig {
  using A = float;
  static constexpr FftShape SHAPE = FftShape::SPLIT;
  using First = Radices<2>;   // of n1 points
  using Second = Radices<2>;  // of n2 points
  static constexpr int64_t N1 = 0, N2 = 0;
  static constexpr FftLanes GIVEN = FftLanes::STRIDED;
  static constexpr bool INVERSE = false;
  static constexpr bool COARSE = false;  // factors come in two tables
  static constexpr bool WHOLE = false;
};

template <class At, class Done>
struct FftRows {
  const At& at;      // T* at(int64_t outer)
  const Done& done;  // void done(int64_t outer)
};

// Strides in elements. Without imaginary parts im is null.
template <class Cfg>
struct FftArgs {
  using T = typename Cfg::A;
  const T *re, *im;
  int64_t re_outer, re_step, re_inner, im_outer, im_step, im_inner;
  static constexpr int64_t n1 = Cfg::N1, n2 = Cfg::N2;
  int64_t outer, inner;
  const T *roots, *others;  // powers of w for n1 and for n2 points, in pairs
  const T *fine, *coarse;   // both parts of factors: (2, fine_rows, n2), (2, coarse_rows, n2)
  int64_t fine_rows, coarse_rows;
  T scale;
};

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

// All passes of n points, by way of two buffers.
template <class T, class In, class Out>
AOT_INLINE void passes(Radices<>, int64_t, int64_t, int64_t, const T*, const In& in, const Out& out,
                       T*, T*) {
  out.put(0, in.get(0));
}
template <class T, int R, int... REST, class In, class Out>
AOT_INLINE void passes(Radices<R, REST...>, int64_t n, int64_t left, int64_t s, const T* roots,
                       const In& in, const Out& out, T* a, T* b) {
  const int64_t m = left / R;
  if constexpr (sizeof...(REST) == 0) {
    pass<T, R>(n, m, s, roots, in, out);
  } else {
    pass<T, R>(n, m, s, roots, in, Held<T>{a});
    passes(Radices<REST...>{}, n, m, s * R, roots, Held<T>{a}, out, b, a);
  }
}

template <class Cfg>
using First = typename Cfg::First;
template <class Cfg>
using Second = typename Cfg::Second;

// ---- neighbours as lanes ----

// The operand from an element of outer on, its lanes along `inner` or, of a long row, n2 columns.
template <class Cfg>
AOT_INLINE Parts<typename Cfg::A> operand(const FftArgs<Cfg>& p, int64_t outer) {
  using T = typename Cfg::A;
  const T* const im = p.im == nullptr ? p.im : p.im + outer * p.im_outer;
  if constexpr (Cfg::SHAPE == FftShape::SPLIT) {
    return {{p.re + outer * p.re_outer, p.n2 * p.re_step, p.re_step},
            {im, p.n2 * p.im_step, p.im_step}};
  } else {
    return {{p.re + outer * p.re_outer, p.re_step, p.re_inner}, {im, p.im_step, p.im_inner}};
  }
}

// The first step's transforms of W lanes from `lane` on.
template <class Cfg, bool ALL, class Out>
AOT_INLINE void from_given(const FftArgs<Cfg>& p, const Parts<typename Cfg::A>& all, int64_t lane,
                           int64_t left, const Out& out, typename Cfg::A* a, typename Cfg::A* b) {
  using T = typename Cfg::A;
  constexpr bool SWAP = Cfg::INVERSE;
  const Parts<T> x = {all.re.from(lane * all.re.lane), all.im.from(lane * all.im.lane)};
  passes(First<Cfg>{}, p.n1, p.n1, 1, p.roots, Given<T, Cfg::GIVEN, ALL, SWAP>{x, left}, out, a, b);
}

template <class Cfg, class Rows>
AOT_INLINE void columns(const FftArgs<Cfg>& p, int64_t begin, int64_t end, typename Cfg::A* a,
                        const Rows& rows) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  T* const b = a + p.n1 * 2 * W;
  const int64_t width = Cfg::WHOLE ? imax(p.inner, 1) : kFftColumns;
  const int64_t groups = (p.inner + width - 1) / width;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t outer = unit / groups, first = unit % groups * width;
    const int64_t last = imin(first + width, p.inner);
    T* const out = rows.at(outer);
    const Parts<T> x = operand(p, outer);
    for (int64_t i = first; i < last; i += W) {
      const int64_t left = last - i, step = 2 * p.inner;
      T* const to = out + 2 * i;
      if (left >= W) {
        const Results<T, true, Cfg::INVERSE> results{to, step, left, p.scale};
        from_given<Cfg, true>(p, x, i, left, results, a, b);
      } else {
        const Results<T, false, Cfg::INVERSE> results{to, step, left, p.scale};
        from_given<Cfg, false>(p, x, i, left, results, a, b);
      }
    }
    rows.done(outer);
  }
}

// ---- long rows ----

// `count` rows of W elements, `step` apart, as W rows of `count`; the first `left` there are.
template <class T>
AOT_INLINE void turn(const T* from, int64_t step, int64_t count, int64_t left, T* to, int64_t ld) {
  constexpr int W = kLanes<T>;
  for (int64_t k = 0; k < count; k += W) {
    if (left >= W && k + W <= count) {
      transpose_block<T>(from + k * step, step, to + k, ld);
    } else {
      transpose_block_n<T>(from + k * step, step, to + k, ld, imin(W, count - k), imin(W, left));
    }
  }
}

template <class Cfg>
inline void long_row(const FftArgs<Cfg>& p, int64_t outer, typename Cfg::A* out,
                     typename Cfg::A* room) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  constexpr bool SWAP = Cfg::INVERSE;
  const int64_t n1 = p.n1, n2 = p.n2, greatest = imax(n1, n2);
  T *const a = room, *const b = a + greatest * 2 * W, *const c = b + greatest * 2 * W;
  T *const turned_re = c + greatest * 2 * W, *const turned_im = turned_re + n1 * n2;
  const Parts<T> x = operand(p, outer);
  for (int64_t j = 0; j < n2; j += W) {
    const int64_t left = n2 - j;
    const T *const fine = p.fine + j, *const coarse = p.coarse + j;
    if (Cfg::N2 % W == 0 || left >= W) {
      const Factored<T, true, Cfg::COARSE> to{{c},         fine,          coarse, n2,
                                              p.fine_rows, p.coarse_rows, left};
      from_given<Cfg, true>(p, x, j, left, to, a, b);
    } else if constexpr (Cfg::N2 % W != 0) {
      const Factored<T, false, Cfg::COARSE> to{{c},         fine,          coarse, n2,
                                               p.fine_rows, p.coarse_rows, left};
      from_given<Cfg, false>(p, x, j, left, to, a, b);
    }
    turn(c, 2 * W, n1, left, turned_re + j * n1, n1);
    turn(c + W, 2 * W, n1, left, turned_im + j * n1, n1);
  }
  for (int64_t k = 0; k < n1; k += W) {
    const int64_t left = n1 - k;
    T* const to = out + 2 * k;
    const T *const x = turned_re + k, *const y = turned_im + k;
    if (Cfg::N1 % W == 0 || left >= W) {
      passes(Second<Cfg>{}, n2, n2, 1, p.others, Apart<T, true>{x, y, n1, left},
             Results<T, true, SWAP>{to, 2 * n1, left, p.scale}, a, b);
    } else if constexpr (Cfg::N1 % W != 0) {
      passes(Second<Cfg>{}, n2, n2, 1, p.others, Apart<T, false>{x, y, n1, left},
             Results<T, false, SWAP>{to, 2 * n1, left, p.scale}, a, b);
    }
  }
}

// ---- short rows ----

// Both parts of `lanes` rows of n points, a vector each.
template <class Cfg>
AOT_INLINE void gather(const FftArgs<Cfg>& p, int64_t first, int64_t lanes, typename Cfg::A* to) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  const T* const re = p.re + first * p.re_outer;
  const T* const im = p.im == nullptr ? nullptr : p.im + first * p.im_outer;
  if constexpr (Cfg::GIVEN == FftLanes::PAIRS) {
    for (int64_t e = 0; e < 2 * p.n1; e += W) {
      if (lanes == W && e + W <= 2 * p.n1) {
        transpose_block<T>(re + e, p.re_outer, to + e * W, W);
      } else {
        const int64_t width = imin(W, 2 * p.n1 - e);
        transpose_block_n<T>(re + e, p.re_outer, to + e * W, W, lanes, width);
      }
    }
    return;
  }
  for (int64_t k = 0; k < p.n1; ++k) {
    for (int64_t l = 0; l < lanes; ++l) {
      to[2 * k * W + l] = re[l * p.re_outer + k * p.re_step];
      to[(2 * k + 1) * W + l] = im == nullptr ? T(0) : im[l * p.im_outer + k * p.im_step];
    }
  }
}

template <class Cfg, class Rows>
AOT_INLINE void short_rows(const FftArgs<Cfg>& p, int64_t begin, int64_t end, typename Cfg::A* a,
                           const Rows& rows) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  const int64_t n = p.n1, last = imin(end * kFftRows, p.outer);
  T *const b = a + n * 2 * W, *const c = b + n * 2 * W;
  for (int64_t first = begin * kFftRows; first < last; first += W) {
    const int64_t lanes = imin(W, last - first);
    if (lanes < W) {
      for (int64_t e = 0; e < 2 * n * W; ++e) c[e] = 0;
    }
    gather(p, first, lanes, c);
    // The last pass writes where the first one read: a pass alone reads all before it writes.
    passes(First<Cfg>{}, n, n, 1, p.roots, Turned<T, Cfg::INVERSE>{{c}},
           Finished<T, Cfg::INVERSE>{{c}, p.scale}, a, b);
    const int64_t apart = lanes > 1 ? rows.at(first + 1) - rows.at(first) : 0;
    T* const out = rows.at(first);
    for (int64_t e = 0; e < 2 * n; e += W) {
      if (lanes == W && e + W <= 2 * n) {
        transpose_block<T>(c + e * W, W, out + e, apart);
      } else {
        transpose_block_n<T>(c + e * W, W, out + e, apart, imin(W, 2 * n - e), lanes);
      }
    }
    for (int64_t l = 0; l < lanes; ++l) rows.done(first + l);
  }
}

}  // namespace fft_detail

template <class Cfg, class Rows>
AOT_INLINE void fft(const FftArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                    const Rows& rows) {
  using T = typename Cfg::A;
  T* const room = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64);
  if constexpr (Cfg::SHAPE == FftShape::LANES) {
    fft_detail::columns(p, begin, end, room, rows);
  } else if constexpr (Cfg::SHAPE == FftShape::ROWS) {
    fft_detail::short_rows(p, begin, end, room, rows);
  } else {
    for (int64_t k = begin; k < end; ++k) {
      fft_detail::long_row(p, k, rows.at(k), room);
      rows.done(k);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_FFT_H_
