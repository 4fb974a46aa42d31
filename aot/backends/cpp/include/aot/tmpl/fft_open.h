// Discrete Fourier transforms along one axis, of a number of points that only a run knows.
//
//   template <class Cfg, class Rows>
//   void fft_open(const OpenFftArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                 const Rows& rows);
//
// Products of small primes are transformed by factors, as in fft.h: a row of many points in two
// steps whose columns are lanes, neighbours and short rows a lane each. What has a greater prime is
// a convolution with a chirp, as long as this run's number of points needs. An even number of real
// points is half as many complex ones. Work units:
//   of rows whose points are neighbours in memory or anyhow (`inner` is 1): open_group(n) of them
//   else: kFftColumns neighbours of an element of outer, all if WHOLE
//   scratch = Python's formula in template_open_fft.py
#ifndef AOT_TMPL_FFT_OPEN_H_
#define AOT_TMPL_FFT_OPEN_H_

#include "aot/tmpl/fft.h"
#include "aot/tmpl/fft_plan.h"

namespace aot::tmpl {

inline constexpr int64_t kOpenSplit = 64;       // points from which a row takes two steps
inline constexpr int64_t kOpenLanes = 1 << 13;  // up to which neighbours lie in lanes

struct OpenFftConfig {
  using A = float;
  static constexpr auto REAL = FftReal::NONE;
  static constexpr bool INVERSE = false;
  static constexpr bool ROWS = false;    // `inner` is 1
  static constexpr bool WHOLE = false;   // a unit is all neighbours of an element of outer
  static constexpr bool TURNED = false;  // results of a transform are neighbours in memory
  static constexpr bool ALL = false;     // of real numbers: results that are conjugates, too
};

// Strides in elements. Without imaginary parts im is null.
template <class Cfg>
struct OpenFftArgs {
  using T = typename Cfg::A;
  const T *re, *im;
  int64_t re_outer, re_step, re_inner, im_outer, im_step, im_inner;
  int64_t outer, n, inner;
  int64_t apart;  // of TURNED ones, as FftRows have it
  T scale;
};

// Rows of a work unit.
inline int64_t open_group(int64_t n) { return imax(1, imin(kFftRows, 1024 / imax(n, 1))); }

namespace fft_detail {

// Both parts of numbers, apart from each other.
template <class T>
struct Planes {
  T *re, *im;
  Planes swapped() const { return {im, re}; }
};

// Results of a step, W neighbours at a row of both parts.
template <class T>
struct Beside {
  T *re, *im;
  int64_t step;
  AOT_INLINE void put(int64_t k, Point<T> x) const {
    store(re + k * step, x.re);
    store(im + k * step, x.im);
  }
};

// The chirp exp(-pi i k^2 / n) in pairs, and the transform of its conjugate over the size of the
// transforms.
template <class T>
struct Chirp {
  T* at;
  Planes<T> response;
};

// Roots of 2 h points, as products of two tables: what fft_real.h takes.
template <class T>
struct OpenRoots : Roots<T, kPowersNear> {};
template <class T>
AOT_INLINE Point<T> root_of(const OpenRoots<T>& roots, int64_t k) {
  const Point<T> leap = root_of(roots.leaps, k / kPowersNear);
  return times(root_of(roots.turns, k % kPowersNear), leap.re, leap.im);
}

// What all transforms of a call have in common.
template <class Cfg>
struct Open {
  using T = typename Cfg::A;
  static constexpr int W = kLanes<T>;
  static constexpr bool REAL = Cfg::REAL != FftReal::NONE;
  static constexpr bool BACK = Cfg::REAL == FftReal::BACK;
  static constexpr bool SWAP = Cfg::INVERSE;

  const OpenFftArgs<Cfg>& p;
  bool halves;    // pairs of real numbers are the points
  int64_t h;      // complex numbers that are transformed
  int64_t count;  // results of a transform
  bool is_smooth;
  int64_t size;  // points of the transforms by factors
  bool in_lanes;
  Room room;
  Plan<T> plan;
  Chirp<T> chirp;
  OpenRoots<T> turns;
  Planes<T> x, turned;  // of a row, padded
  T *z, *made;          // pairs: of a row's transform, and of its results
  T *a, *b, *c;         // of W transforms

  Open(const OpenFftArgs<Cfg>& args, Room memory)
      : p(args),
        halves(REAL && args.n % 2 == 0),
        h(halves ? args.n / 2 : args.n),
        count(Cfg::REAL == FftReal::THERE && !Cfg::ALL ? args.n / 2 + 1 : args.n),
        is_smooth(Passes(h).are_all()),
        size(is_smooth ? h : chirp_size(2 * h - 1)),
        in_lanes(size < kOpenSplit || (!Cfg::ROWS && args.inner > 1 && size <= kOpenLanes &&
                                       args.re_step > args.re_inner)),
        room(memory),
        plan(size, !in_lanes, room) {
    if (halves) fill_turns();
    const int64_t held = in_lanes ? imax(size, p.n + 1) : imax(plan.n1, plan.n2);
    for (T** one : {&a, &b, &c}) *one = room.take<T>(held * 2 * W);
    if (!in_lanes) {
      x = {room.take<T>(imax(size, p.n + 1)), room.take<T>(imax(size, p.n + 1))};
      turned = {room.take<T>(size), room.take<T>(size)};
      z = room.take<T>(2 * (p.n + 1));
      made = room.take<T>(Cfg::ROWS || Cfg::TURNED ? 0 : 2 * W * (p.n + 1));
    }
    if (!is_smooth) fill_chirp();
  }

  void fill_turns() {
    T* const near = room.take<T>(2 * kPowersNear + 2 * W);
    const int64_t leaps = h / kPowersNear + 1;
    T* const far = room.take<T>(2 * leaps);
    Room spare = room;
    const int64_t some = imin(kPowersNear + W, h + W);
    Turn* const roots = spare.take<Turn>(imax(some, leaps));
    fill_roots(roots, some, 1, p.n);
    for (int64_t k = 0; k < some; ++k) put_turn(near + 2 * k, roots[k]);
    fill_roots(roots, leaps, kPowersNear, p.n);
    for (int64_t k = 0; k < leaps; ++k) put_turn(far + 2 * k, roots[k]);
    turns.turns = near;
    turns.leaps = far;
  }

  void fill_chirp() {
    chirp = {room.take<T>(2 * h), {room.take<T>(size), room.take<T>(size)}};
    const Planes<T>& to = chirp.response;
    Room spare = room;
    const Powers powers(2 * h, spare);
    for (int64_t k = 0; k < size; ++k) to.re[k] = to.im[k] = 0;
    // k^2 mod 2 h, step by step.
    for (int64_t k = 0, power = 0; k < h; ++k) {
      const Turn root = powers.at(power);
      put_turn(chirp.at + 2 * k, root);
      const int64_t mirror = k == 0 ? 0 : size - k;
      to.re[k] = to.re[mirror] = static_cast<T>(root.re / static_cast<double>(size));
      to.im[k] = to.im[mirror] = static_cast<T>(-root.im / static_cast<double>(size));
      power += 2 * k + 1;
      while (power >= 2 * h) power -= 2 * h;
    }
    if (!in_lanes) return row(to, to);
    for (int64_t k = 0; k < size; ++k) held(c, k, to.re[k], to.im[k]);
    every_pass(plan.first, size, plan.roots, Held<T>{c}, Held<T>{c}, a, b);
    for (int64_t k = 0; k < size; ++k) {
      to.re[k] = c[2 * k * W];
      to.im[k] = c[(2 * k + 1) * W];
    }
  }

  static void held(T* buffer, int64_t k, T re, T im) {
    Held<T>{buffer}.put(k, {Lanes<T>(re), Lanes<T>(im)});
  }

  // ---- a row in two steps ----

  void columns(const Planes<T>& from) {
    const int64_t n1 = plan.n1, n2 = plan.n2;
    for (int64_t j = 0; j < n2; j += W) {
      const int64_t left = n2 - j;
      const Apart<T, true> in{from.re + j, from.im + j, n2, left};
      const T *const fine = plan.fine + j, *const coarse = plan.coarse + j;
      if (plan.coarse_rows > 1) {
        const Factored<T, true, true> to{{c}, fine, coarse, n2, plan.fine_rows, plan.coarse_rows,
                                         left};
        every_pass(plan.first, n1, plan.roots, in, to, a, b);
      } else {
        const Factored<T, true, false> to{{c}, fine, coarse, n2, plan.fine_rows, 1, left};
        every_pass(plan.first, n1, plan.roots, in, to, a, b);
      }
      turn(c, 2 * W, n1, left, turned.re + j * n1, n1);
      turn(c + W, 2 * W, n1, left, turned.im + j * n1, n1);
    }
  }

  // The second step's results by `all(k)`, of whole vectors, and `rest(k, left)` from c.
  template <class All, class Rest>
  AOT_INLINE void rows_of_columns(const All& all, const Rest& rest) {
    const int64_t n1 = plan.n1, n2 = plan.n2;
    for (int64_t k = 0; k < n1; k += W) {
      const Apart<T, true> in{turned.re + k, turned.im + k, n1, W};
      if (n1 - k >= W) {
        every_pass(plan.second, n2, plan.others, in, all(k), a, b);
      } else {
        every_pass(plan.second, n2, plan.others, in, Held<T>{c}, a, b);
        rest(k, n1 - k);
      }
    }
  }

  // The transform of `size` points; `to` may be `from`.
  void row(const Planes<T>& from, const Planes<T>& to) {
    const int64_t n1 = plan.n1;
    columns(from);
    rows_of_columns([&](int64_t k) { return Beside<T>{to.re + k, to.im + k, n1}; },
                    [&](int64_t k, int64_t left) {
                      for (int64_t r = 0; r < plan.n2; ++r) {
                        const Point<T> y = Held<T>{c}.get(r);
                        store_n(to.re + r * n1 + k, y.re, left);
                        store_n(to.im + r * n1 + k, y.im, left);
                      }
                    });
  }

  // The same into pairs, times the scale, with both parts exchanged again of an inverse one.
  void row_into_pairs(const Planes<T>& from, T* pairs) {
    const int64_t n1 = plan.n1;
    columns(from);
    rows_of_columns(
        [&](int64_t k) { return Results<T, true, SWAP>{pairs + 2 * k, 2 * n1, W, p.scale}; },
        [&](int64_t k, int64_t left) {
          const Results<T, false, SWAP> out{pairs + 2 * k, 2 * n1, left, p.scale};
          for (int64_t r = 0; r < plan.n2; ++r) out.put(r, Held<T>{c}.get(r));
        });
  }

  // x, whose first h points there are, times the chirp, its transform times the response, back.
  void row_by_chirp(const Planes<T>& from, T* pairs) {
    each(0, h, [&](int64_t k, auto whole, int64_t left) {
      const Point<T> root = load_pairs<whole>(chirp.at + 2 * k, left);
      const Point<T> y = times(apart<whole>(from, k, left), root.re, root.im);
      put_apart<whole>(from, k, left, y);
    });
    for (int64_t k = h; k < size; ++k) from.re[k] = from.im[k] = 0;
    row(from, from);
    each(0, size, [&](int64_t k, auto whole, int64_t left) {
      const Point<T> root = apart<whole>(chirp.response, k, left);
      const Point<T> y = times(apart<whole>(from, k, left), root.re, root.im);
      put_apart<whole>(from, k, left, y);
    });
    row(from.swapped(), from.swapped());
    each(0, h, [&](int64_t k, auto whole, int64_t left) {
      const Point<T> root = load_pairs<whole>(chirp.at + 2 * k, left);
      const Point<T> y = times(apart<whole>(from, k, left), root.re, root.im);
      store_pairs<whole>(pairs + 2 * k, swapped<SWAP>(scaled(y, p.scale)), left);
    });
  }

  // f(k, whether W lanes are left, how many) from `first` on, by vectors.
  template <class F>
  AOT_INLINE static void each(int64_t first, int64_t end, const F& f) {
    int64_t k = first;
    for (; k + W <= end; k += W) f(k, std::true_type{}, W);
    if (k < end) f(k, std::false_type{}, end - k);
  }
  template <bool ALL>
  AOT_INLINE static Point<T> apart(const Planes<T>& of, int64_t k, int64_t left) {
    if constexpr (ALL) return {load<T, W>(of.re + k), load<T, W>(of.im + k)};
    return {load_n<T, W>(of.re + k, left), load_n<T, W>(of.im + k, left)};
  }
  template <bool ALL>
  AOT_INLINE static void put_apart(const Planes<T>& of, int64_t k, int64_t left, Point<T> y) {
    if constexpr (ALL) {
      store(of.re + k, y.re);
      store(of.im + k, y.im);
    } else {
      store_n(of.re + k, y.re, left);
      store_n(of.im + k, y.im, left);
    }
  }

  // ---- what a row is given, and gives ----

  // `points` numbers from both parts of an operand.
  AOT_INLINE static void gather(Part<T> re, Part<T> im, int64_t points, const Planes<T>& to) {
    if (re.step == 2 && im.step == 2 && im.at == re.at + 1) {
      return each(0, points, [&](int64_t k, auto whole, int64_t left) {
        put_apart<whole>(to, k, left, load_pairs<whole>(re.at + 2 * k, left));
      });
    }
    plane(re, points, to.re);
    plane(im, points, to.im);
  }
  AOT_INLINE static void plane(Part<T> from, int64_t points, T* to) {
    if (from.at == nullptr) {
      for (int64_t k = 0; k < points; ++k) to[k] = 0;
    } else if (from.step == 1) {
      for (int64_t k = 0; k < points; ++k) to[k] = from.at[k];
    } else {
      for (int64_t k = 0; k < points; ++k) to[k] = from.at[k * from.step];
    }
  }

  // The operand from a point on.
  Parts<T> operand(int64_t outer, int64_t inner) const {
    const T* const re = p.re + outer * p.re_outer + inner * p.re_inner;
    const T* const im = p.im == nullptr ? nullptr : p.im + outer * p.im_outer + inner * p.im_inner;
    return {{re, p.re_step, p.re_inner}, {im, p.im_step, p.im_inner}};
  }

  void given(const Parts<T>& from) {
    if constexpr (Cfg::REAL == FftReal::THERE) {
      if (halves) {
        const Part<T> even{from.re.at, 2 * from.re.step, 0};
        return gather(even, {from.re.at + from.re.step, 2 * from.re.step, 0}, h, x);
      }
    }
    if constexpr (BACK) {
      const int64_t few = p.n / 2 + 1;
      const Planes<T> here{z, z + few};
      gather(from.re, from.im, few, halves ? here : x);
      if (!halves) return mirror();
      const Parts<T> along{{here.re, 0, 1}, {here.im, 0, 1}};
      return fold_row<FftLanes::PLAIN>(along, h, turns, x.re, x.im);
    }
    gather(from.re, from.im, h, x);
  }

  // The other half of numbers whose transform is real.
  void mirror() {
    x.im[0] = 0;
    for (int64_t k = 1; 2 * k < p.n; ++k) {
      x.re[p.n - k] = x.re[k];
      x.im[p.n - k] = -x.im[k];
    }
  }

  // The results of a row, which are neighbours in memory.
  void row_at(const Parts<T>& from, T* out) {
    given(from);
    const bool direct = Cfg::REAL == FftReal::NONE || (BACK && halves) ||
                        (Cfg::REAL == FftReal::THERE && Cfg::ALL && !halves);
    T* const pairs = direct ? out : z;
    const Planes<T> points = SWAP ? x.swapped() : x;
    if (is_smooth) {
      row_into_pairs(points, pairs);
    } else {
      row_by_chirp(points, pairs);
    }
    if (direct) return;
    if constexpr (BACK) {
      for (int64_t k = 0; k < count; ++k) out[k] = z[2 * k];
    } else if (halves) {
      unfold_row<0>(z, h, turns, out, count);
    } else {
      for (int64_t k = 0; k < 2 * count; ++k) out[k] = z[k];
    }
  }

  // `left` neighbours from `first` on, row by row.
  void one_by_one(int64_t outer, int64_t first, int64_t left, T* out) {
    if (Cfg::ROWS) return row_at(operand(outer, first), out);
    const int64_t apart = Cfg::TURNED ? p.apart : 2 * (p.n + 1);
    T* const at = Cfg::TURNED ? out + first * apart : made;
    for (int64_t l = 0; l < left; ++l) row_at(operand(outer, first + l), at + l * apart);
    if (Cfg::TURNED) return;
    constexpr int PARTS = BACK ? 1 : 2;
    for (int64_t k = 0; k < count; ++k) {
      T* const to = out + PARTS * (k * p.inner + first);
      const T* const from = made + PARTS * k;
      for (int64_t l = 0; l < left; ++l) {
        for (int e = 0; e < PARTS; ++e) to[PARTS * l + e] = from[l * apart + e];
      }
    }
  }

  // ---- a lane each ----

  // Points of `left` transforms in c, by the way they lie.
  void lanes_given(const Parts<T>& from, int64_t left) {
    const int64_t few = BACK ? p.n / 2 + 1 : h;
    constexpr bool THERE = Cfg::REAL == FftReal::THERE;
    const Part<T>&re = from.re, &im = from.im;
    const bool paired = im.at == re.at + 1 && im.step == re.step && im.lane == re.lane;
    const Held<T> to{c};
    if (THERE ? halves && re.step == 1 : paired && re.step == 2) {
      rows_as_lanes(re.at, re.lane, 2 * few, left);
    } else if (THERE && halves) {
      const Part<T> odd = re.from(re.step);
      for (int64_t k = 0; k < few; ++k)
        to.put(k, {lane_of(re, 2 * k, left), lane_of(odd, 2 * k, left)});
    } else if (paired && re.lane == 2 && left >= W) {
      for (int64_t k = 0; k < few; ++k) to.put(k, load_pairs<true>(re.at + k * re.step, left));
    } else {
      for (int64_t k = 0; k < few; ++k) to.put(k, {lane_of(re, k, left), lane_of(im, k, left)});
    }
    lanes_completed();
  }
  AOT_INLINE static Lanes<T> lane_of(const Part<T>& from, int64_t k, int64_t left) {
    if (from.at == nullptr) return Lanes<T>(T(0));
    if (from.lane == 1 && left >= W) return from.template get<true, true>(k, left);
    return from.template get<false, false>(k, left);
  }

  // `left` rows of `count` neighbours as so many vectors of c.
  void rows_as_lanes(const T* at, int64_t row, int64_t elements, int64_t left) {
    for (int64_t e = 0; e < elements; e += W) {
      if (left == W && e + W <= elements) {
        transpose_block<T>(at + e, row, c + e * W, W);
      } else {
        transpose_block_n<T>(at + e, row, c + e * W, W, left, imin(W, elements - e));
      }
    }
  }

  // Of transforms back to real numbers, what follows from half of their points.
  void lanes_completed() {
    if constexpr (BACK) {
      if (halves) return fold(Held<T>{c}, h, turns, Held<T>{c});
      Held<T>{c}.put(0, {Held<T>{c}.get(0).re, Lanes<T>(T(0))});
      for (int64_t k = 1; 2 * k < p.n; ++k) {
        Held<T>{c}.put(p.n - k, conjugate(Held<T>{c}.get(k)));
      }
    }
  }

  // The transforms of what is in c, in place: scaled, and exchanged on the way of inverse ones.
  void lanes_transformed() {
    const Turned<T, SWAP> in{{c}};
    const Finished<T, SWAP> out{{c}, p.scale};
    if (is_smooth) return every_pass(plan.first, size, plan.roots, in, out, a, b);
    const Held<T> own{c};
    for (int64_t k = 0; k < h; ++k) own.put(k, times_root(in.get(k), k));
    for (int64_t k = h; k < size; ++k) held(c, k, T(0), T(0));
    every_pass(plan.first, size, plan.roots, own, own, a, b);
    for (int64_t k = 0; k < size; ++k) {
      const Lanes<T> re(chirp.response.re[k]), im(chirp.response.im[k]);
      own.put(k, swapped<true>(times(own.get(k), re, im)));
    }
    every_pass(plan.first, size, plan.roots, own, own, a, b);
    for (int64_t k = 0; k < h; ++k) out.put(k, times_root(swapped<true>(own.get(k)), k));
  }
  AOT_INLINE Point<T> times_root(Point<T> y, int64_t k) const {
    const Point<T> root = root_of(chirp.at, k);
    return times(y, root.re, root.im);
  }

  // Results of the transforms in c, put(k, point) each; of BACK ones the k-th two real numbers.
  void lanes_results() {
    if constexpr (Cfg::REAL == FftReal::THERE) {
      if (halves) unfold<0>(Held<T>{c}, h, turns, Held<T>{c}, count);
    }
  }

  void lanes(const Parts<T>& from, int64_t left) {
    lanes_given(from, left);
    lanes_transformed();
    lanes_results();
  }

  // `left` neighbours from `first` on.
  void neighbours(int64_t outer, int64_t first, int64_t left, T* out) {
    lanes(operand(outer, first), left);
    if (Cfg::TURNED) return lanes_as_rows(left, out + first * p.apart, p.apart);
    for (int64_t k = 0; k < count; ++k) {
      if constexpr (BACK) {
        const Point<T> y = Held<T>{c}.get(halves ? k / 2 : k);
        store_n(out + k * p.inner + first, halves && k % 2 == 1 ? y.im : y.re, left);
      } else {
        T* const to = out + 2 * (k * p.inner + first);
        if (left >= W) {
          store_pairs<true>(to, Held<T>{c}.get(k), left);
        } else {
          store_pairs<false>(to, Held<T>{c}.get(k), left);
        }
      }
    }
  }

  // `left` rows, which are lanes `apart` from each other in memory.
  void short_rows(int64_t first, int64_t left, T* out, int64_t apart) {
    Parts<T> from = operand(first, 0);
    from.re.lane = p.re_outer;
    from.im.lane = p.im_outer;
    lanes(from, left);
    lanes_as_rows(left, out, apart);
  }

  // The results in c, as rows.
  void lanes_as_rows(int64_t left, T* out, int64_t apart) {
    if (BACK && !halves) {
      for (int64_t k = 0; k < count; ++k) {
        for (int64_t l = 0; l < left; ++l) out[l * apart + k] = c[2 * k * W + l];
      }
    } else {
      turn(c, W, BACK ? count : 2 * count, left, out, apart);
    }
  }
};

}  // namespace fft_detail

template <class Cfg, class Rows>
void fft_open(const OpenFftArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
              const Rows& rows) {
  using T = typename Cfg::A;
  if (begin >= end || p.n < 1) return;
  const auto place = (reinterpret_cast<uintptr_t>(scratch) + 63) / 64 * 64;
  fft_detail::Open<Cfg> open(p, {reinterpret_cast<char*>(place)});
  constexpr int64_t W = fft_detail::kLanes<T>;
  const int64_t group = Cfg::ROWS ? open_group(p.n) : 1;
  const int64_t width = Cfg::WHOLE ? imax(p.inner, 1) : kFftColumns;
  const int64_t parts = Cfg::ROWS ? 1 : (p.inner + width - 1) / width;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t first = unit / parts * group, last = imin(first + group, p.outer);
    if (Cfg::ROWS && open.in_lanes) {
      for (int64_t k = first; k < last; k += W) {
        const int64_t left = imin(W, last - k), apart = left > 1 ? rows.at(k + 1) - rows.at(k) : 0;
        open.short_rows(k, left, rows.at(k), apart);
      }
    } else {
      const int64_t begun = unit % parts * width, over = imin(begun + width, p.inner);
      for (int64_t k = first; k < last; ++k) {
        T* const out = rows.at(k);
        for (int64_t i = begun; i < over; i += W) {
          const int64_t left = imin(W, over - i);
          if (open.in_lanes) {
            open.neighbours(k, i, left, out);
          } else {
            open.one_by_one(k, i, left, out);
          }
        }
      }
    }
    for (int64_t k = first; k < last; ++k) rows.done(k);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_FFT_OPEN_H_
