// Discrete Fourier transforms along one axis, by factors of the number of points.
//
//   template <class Cfg, class Rows>
//   void fft(const FftArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Rows& rows);
//
// Each lane of a vector holds a transform of its own, so that passes need no shuffles: neighbours
// along `inner` or, of a long row of n1 * n2 points, its n2 columns and then its n1 rows; short
// rows are turned, a lane each. Of real numbers, and back to them, pairs are the points, and what
// they give is taken apart where it lies, or put together first (fft_real.h). Work units:
//   SPLIT  a row;  LANES  kFftColumns columns of an element of outer, all if WHOLE;  ROWS  kFftRows
// FftRows say where results of an element of outer go, n * inner pairs, and what is done then.
//   scratch = Python's formula in template_fft.py
#ifndef AOT_TMPL_FFT_H_
#define AOT_TMPL_FFT_H_

#include "aot/tmpl/fft_real.h"

namespace aot::tmpl {

inline constexpr int64_t kFftColumns = 64;  // a multiple of all vectors' lanes
inline constexpr int64_t kFftRows = 16;
inline constexpr int64_t kFar = 1 << 19;  // bytes of columns that no near cache keeps

enum class FftShape { SPLIT, LANES, ROWS };
// What numbers are: complex; given as pairs of real ones; results that are such pairs.
enum class FftReal { NONE, THERE, BACK };

struct FftConfig {
  using A = float;
  static constexpr FftShape SHAPE = FftShape::SPLIT;
  using First = Radices<2>;   // of n1 points
  using Second = Radices<2>;  // of n2 points
  static constexpr int64_t N1 = 0, N2 = 0;
  static constexpr FftLanes GIVEN = FftLanes::STRIDED;
  static constexpr auto REAL = FftReal::NONE;
  static constexpr int64_t COUNT = 0;  // results of a transform THERE
  static constexpr int64_t BLOCK = 0;  // where roots of long rows come in two tables
  static constexpr bool INVERSE = false;
  static constexpr bool COARSE = false;  // factors come in two tables
  static constexpr bool WHOLE = false;
  static constexpr bool TURNED = false;  // of LANES: results of a transform are neighbours
};

// at(outer) of TURNED ones is where the first transform's results go; `apart` is to the next one's.
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
  const T *turns, *leaps;  // powers of w = exp(-pi i / (n1 n2)) of REAL ones, and of w^BLOCK
  int64_t apart;           // of TURNED ones
  T scale;
};

namespace fft_detail {

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
template <class Cfg, FftLanes N, bool ALL, class Out, class There = Nothing, class Next = Nothing>
AOT_INLINE void from_given(const FftArgs<Cfg>& p, const Parts<typename Cfg::A>& all, int64_t lane,
                           int64_t left, const Out& out, typename Cfg::A* a, typename Cfg::A* b,
                           const There& there = {}, const Next& next = {}) {
  using T = typename Cfg::A;
  const Parts<T> x = all.from(lane);
  passes(First<Cfg>{}, p.n1, p.n1, 1, p.roots, Given<T, N, ALL, Cfg::INVERSE>{x, left}, out, a, b,
         there, next);
}

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

// Vectors of results, a transform a lane, as rows.
template <class Cfg>
AOT_INLINE void separate(const typename Cfg::A* c, int64_t lanes, typename Cfg::A* out,
                         int64_t apart) {
  constexpr int64_t width = 2 * (Cfg::REAL == FftReal::THERE ? Cfg::COUNT : Cfg::N1);
  turn(c, kLanes<typename Cfg::A>, width, lanes, out, apart);
}

// The transforms of W lanes from `lane` on, `left` of which there are, into `results`.
template <class Cfg, bool ALL, class Out>
AOT_INLINE void lanes_into(const FftArgs<Cfg>& p, const Parts<typename Cfg::A>& x, int64_t lane,
                           int64_t left, const Out& results, typename Cfg::A* a, typename Cfg::A* b,
                           typename Cfg::A* c) {
  using T = typename Cfg::A;
  if constexpr (Cfg::REAL == FftReal::NONE) {
    from_given<Cfg, Cfg::GIVEN, ALL>(p, x, lane, left, results, a, b);
  } else if constexpr (Cfg::REAL == FftReal::THERE) {
    from_given<Cfg, Cfg::GIVEN, ALL>(p, x, lane, left, Held<T>{c}, a, b);
    unfold<Cfg::COUNT>(Held<T>{c}, p.n1, p.turns, results);
  } else {
    fold(Given<T, Cfg::GIVEN, ALL, false>{x.from(lane), left}, p.n1, p.turns, Held<T>{c});
    passes(First<Cfg>{}, p.n1, p.n1, 1, p.roots, Turned<T, Cfg::INVERSE>{{c}}, results, a, b);
  }
}

// The same, and where they go.
template <class Cfg, bool ALL>
AOT_INLINE void neighbours(const FftArgs<Cfg>& p, const Parts<typename Cfg::A>& x, int64_t lane,
                           int64_t left, typename Cfg::A* out, typename Cfg::A* a) {
  using T = typename Cfg::A;
  constexpr bool SWAP = Cfg::INVERSE && Cfg::REAL != FftReal::THERE;
  T *const b = a + p.n1 * 2 * kLanes<T>, *const c = b + p.n1 * 2 * kLanes<T>;
  if constexpr (Cfg::TURNED) {
    lanes_into<Cfg, ALL>(p, x, lane, left, Finished<T, SWAP>{{c}, p.scale}, a, b, c);
    separate<Cfg>(c, left, out + lane * p.apart, p.apart);
  } else if constexpr (Cfg::REAL == FftReal::BACK) {
    const Numbers<T, ALL, SWAP> results{out + lane, p.inner, left, p.scale};
    lanes_into<Cfg, ALL>(p, x, lane, left, results, a, b, c);
  } else {
    const Results<T, ALL, SWAP> results{out + 2 * lane, 2 * p.inner, left, p.scale};
    if constexpr (Cfg::REAL == FftReal::NONE && Cfg::GIVEN == FftLanes::PAIRS) {
      constexpr int64_t kItem = sizeof(T);
      if (p.n1 * p.re_step * kItem > kFar) {
        const Written there{{results.at, results.step * kItem}};
        const Read next{{x.re.at + (lane + kLanes<T>)*x.re.lane, x.re.step * kItem}};
        from_given<Cfg, Cfg::GIVEN, ALL>(p, x, lane, left, results, a, b, there, next);
        return;
      }
    }
    lanes_into<Cfg, ALL>(p, x, lane, left, results, a, b, c);
  }
}

template <class Cfg, class Rows>
AOT_INLINE void columns(const FftArgs<Cfg>& p, int64_t begin, int64_t end, typename Cfg::A* a,
                        const Rows& rows) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  const int64_t width = Cfg::WHOLE ? imax(p.inner, 1) : kFftColumns;
  const int64_t groups = (p.inner + width - 1) / width;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t outer = unit / groups, first = unit % groups * width;
    const int64_t last = imin(first + width, p.inner);
    T* const out = rows.at(outer);
    const Parts<T> x = operand(p, outer);
    for (int64_t i = first; i < last; i += W) {
      const int64_t left = last - i;
      if (left >= W) {
        neighbours<Cfg, true>(p, x, i, left, out, a);
      } else {
        neighbours<Cfg, false>(p, x, i, left, out, a);
      }
    }
    rows.done(outer);
  }
}

// ---- long rows ----

// Of columns `x`, which lie as N says.
template <class Cfg, FftLanes N>
inline void long_row(const FftArgs<Cfg>& p, const Parts<typename Cfg::A>& x, typename Cfg::A* out,
                     typename Cfg::A* room) {
  using T = typename Cfg::A;
  constexpr int W = kLanes<T>;
  constexpr bool SWAP = Cfg::INVERSE;
  const int64_t n1 = p.n1, n2 = p.n2, greatest = imax(n1, n2);
  T *const a = room, *const b = a + greatest * 2 * W, *const c = b + greatest * 2 * W;
  T *const turned_re = c + greatest * 2 * W, *const turned_im = turned_re + n1 * n2;
  for (int64_t j = 0; j < n2; j += W) {
    const int64_t left = n2 - j;
    const T *const fine = p.fine + j, *const coarse = p.coarse + j;
    if (Cfg::N2 % W == 0 || left >= W) {
      const Factored<T, true, Cfg::COARSE> to{{c},         fine,          coarse, n2,
                                              p.fine_rows, p.coarse_rows, left};
      from_given<Cfg, N, true>(p, x, j, left, to, a, b);
    } else if constexpr (Cfg::N2 % W != 0) {
      const Factored<T, false, Cfg::COARSE> to{{c},         fine,          coarse, n2,
                                               p.fine_rows, p.coarse_rows, left};
      from_given<Cfg, N, false>(p, x, j, left, to, a, b);
    }
    turn(c, 2 * W, n1, left, turned_re + j * n1, n1);
    turn(c + W, 2 * W, n1, left, turned_im + j * n1, n1);
  }
  for (int64_t k = 0; k < n1; k += W) {
    const int64_t left = n1 - k;
    T* const to = out + 2 * k;
    const T *const re = turned_re + k, *const im = turned_im + k;
    if (Cfg::N1 % W == 0 || left >= W) {
      passes(Second<Cfg>{}, n2, n2, 1, p.others, Apart<T, true>{re, im, n1, left},
             Results<T, true, SWAP>{to, 2 * n1, left, p.scale}, a, b);
    } else if constexpr (Cfg::N1 % W != 0) {
      passes(Second<Cfg>{}, n2, n2, 1, p.others, Apart<T, false>{re, im, n1, left},
             Results<T, false, SWAP>{to, 2 * n1, left, p.scale}, a, b);
    }
  }
}

template <class Cfg>
AOT_INLINE void any_row(const FftArgs<Cfg>& p, int64_t outer, typename Cfg::A* out,
                        typename Cfg::A* room) {
  using T = typename Cfg::A;
  const Parts<T> x = operand(p, outer);
  const int64_t half = p.n1 * p.n2;
  T* const behind = room + 2 * half;
  if constexpr (Cfg::REAL == FftReal::NONE) {
    long_row<Cfg, Cfg::GIVEN>(p, x, out, room);
  } else if constexpr (Cfg::REAL == FftReal::THERE) {
    long_row<Cfg, Cfg::GIVEN>(p, x, room, behind);
    unfold_row<Cfg::COUNT>(room, half, Roots<T, Cfg::BLOCK>{p.turns, p.leaps}, out);
  } else {
    T *const re = room, *const im = room + half;
    const Parts<T> along = {{x.re.at, 0, p.re_step}, {x.im.at, 0, p.im_step}};
    fold_row<Cfg::GIVEN>(along, half, Roots<T, Cfg::BLOCK>{p.turns, p.leaps}, re, im);
    long_row<Cfg, FftLanes::PLAIN>(p, {{re, p.n2, 1}, {im, p.n2, 1}}, out, behind);
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
  const int64_t n = Cfg::REAL == FftReal::BACK ? p.n1 + 1 : p.n1;
  if constexpr (Cfg::GIVEN == FftLanes::PAIRS) {
    for (int64_t e = 0; e < 2 * n; e += W) {
      if (lanes == W && e + W <= 2 * n) {
        transpose_block<T>(re + e, p.re_outer, to + e * W, W);
      } else {
        const int64_t width = imin(W, 2 * n - e);
        transpose_block_n<T>(re + e, p.re_outer, to + e * W, W, lanes, width);
      }
    }
    return;
  }
  for (int64_t k = 0; k < n; ++k) {
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
  constexpr bool SWAP = Cfg::INVERSE;
  const int64_t n = p.n1, last = imin(end * kFftRows, p.outer);
  T *const b = a + n * 2 * W, *const c = b + n * 2 * W;
  for (int64_t first = begin * kFftRows; first < last; first += W) {
    const int64_t lanes = imin(W, last - first);
    if (lanes < W) {
      for (int64_t e = 0; e < 2 * (n + 1) * W; ++e) c[e] = 0;
    }
    gather(p, first, lanes, c);
    if constexpr (Cfg::REAL == FftReal::BACK) fold(Held<T>{c}, n, p.turns, Held<T>{c});
    // The last pass writes where the first one read: a pass alone reads all before it writes.
    if constexpr (Cfg::REAL == FftReal::THERE) {
      passes(First<Cfg>{}, n, n, 1, p.roots, Held<T>{c}, Held<T>{c}, a, b);
      unfold<Cfg::COUNT>(Held<T>{c}, n, p.turns, Finished<T, false>{{c}, p.scale});
    } else {
      passes(First<Cfg>{}, n, n, 1, p.roots, Turned<T, SWAP>{{c}}, Finished<T, SWAP>{{c}, p.scale},
             a, b);
    }
    const int64_t apart = lanes > 1 ? rows.at(first + 1) - rows.at(first) : 0;
    T* const out = rows.at(first);
    separate<Cfg>(c, lanes, out, apart);
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
      fft_detail::any_row(p, k, rows.at(k), room);
      rows.done(k);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_FFT_H_
