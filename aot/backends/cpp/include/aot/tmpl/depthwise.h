// Depthwise convolution (one input channel per group) over channels-last data, 1 to 3 dimensions.
//
//   template <class Cfg, class Epi>
//   void depthwise(const DepthwiseArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                  const Epi& epi);
//
// Vectors run over channels. A few output columns at a time stay in registers beside the weights of
// some taps, and a column of input is loaded once for all of those taps. Rows of a unit pass under
// a run of channels, or of columns, whose input stays in the second level of cache.
//   work    = n * od * oh (output rows)
//   scratch = depthwise_scratch<Cfg>() bytes, a constant; 64-byte aligned
// Epi is called as in conv.h: epi(0, m0, m1, c0, c1, const T* tile, int64_t ld), m = output pixel
// (n, od, oh, ow) flattened, c = channel; columns of the tile beyond c1 are not to be read. With
// TURNED, where the output's pixels are contiguous, tiles are turned as those of conv.h.
//
// Weights: [KD * KH * KW][C] (packing.pack_depthwise_weight). Channels of the input are contiguous.
#ifndef AOT_TMPL_DEPTHWISE_H_
#define AOT_TMPL_DEPTHWISE_H_

#include "aot/tmpl/pack.h"

namespace aot::tmpl {

struct DepthwiseConfig {
  using A = float;                 // element of input and weight
  static constexpr int64_t C = 1;  // channels
  static constexpr int64_t KD = 1, KH = 1, KW = 1;
  static constexpr int64_t SD = 1, SH = 1, SW = 1;
  static constexpr int64_t DD = 1, DH = 1, DW = 1;
  static constexpr int64_t PD = 0, PH = 0, PW = 0;
  static constexpr bool TURNED = false;
};

template <class Cfg>
struct DepthwiseArgs {
  const typename Cfg::A* x;
  int64_t sn, sd, sh, sw;  // strides of the input in elements; channels have stride 1
  const typename Cfg::A* w;
  int64_t n, d, h, wd;
  int64_t od, oh, ow;
};

namespace detail {

inline constexpr int64_t kDepthwiseColumns = 16;       // output columns of a tile
inline constexpr int64_t kDepthwiseTurn = 64;          // the same, where tiles are turned
inline constexpr int64_t kDepthwiseChannels = 512;     // channels of a tile
inline constexpr int64_t kDepthwiseRun = 32;           // and the fewest that are worth a run
inline constexpr int64_t kDepthwiseBytes = 400 << 10;  // of input under a row of output
inline constexpr int64_t kDepthwiseNear = 1 << 20;     // of an input that may stay near
inline constexpr int kStreamVectors = 4;               // of channels, whole lines
inline constexpr int64_t kStreamChannels = 64;         // at most: a pixel of four lines

template <class Cfg>
struct DepthwiseRun {
  using A = typename Cfg::A;
  using T = compute_t<A>;
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int64_t kLd = min64(round_up(Cfg::C, kPanel), kDepthwiseChannels) + kPanel;
  static constexpr int64_t kMost = Cfg::TURNED ? kDepthwiseTurn : kDepthwiseColumns;
  static constexpr int64_t kTurnLd = kMost + kPanel;
  static constexpr int64_t kTile = kMost * kLd;
  static constexpr int64_t kTurned = Cfg::TURNED ? kLd * kTurnLd : 0;
  // Output columns computed together, enough sums to hide how long one takes; and taps of a kernel
  // row whose weights then find room in the registers of every machine.
  static constexpr int kCols = 8, kMostTaps = 5;
  static constexpr int kTaps = int(ceil_div(Cfg::KW, ceil_div(Cfg::KW, kMostTaps)));

  // bfloat16 is widened two vectors at a time, to its even and its odd channels: half of the
  // instructions. That takes twice the sums.
  static constexpr bool kHalves = std::is_same_v<A, Bf16> && kVectorRegisters >= 32;

  // Whether an input that is far is read whole lines at a time, of a few columns, in the order in
  // which it lies: with strides there is little to compute for a line, and memory is what limits.
  // Of pixels of more lines the many columns of a group are the better ones, which ask for more of
  // them at once. Measured with AVX2.
  static constexpr bool kStreams =
      std::is_same_v<A, T> && !Cfg::TURNED && kVectorRegisters == 16 &&
      kStreamVectors * sizeof(V) == 128 && Cfg::SH > 1 && Cfg::SW > 1 && Cfg::KW <= 3 &&
      Cfg::C <= kStreamChannels&& Cfg::C % (kStreamVectors * S::kLanes) == 0;

  const DepthwiseArgs<Cfg>& p;
  T* tile;

  AOT_INLINE bool is_far() const {
    return p.n * p.d * p.h * p.wd * Cfg::C * int64_t(sizeof(A)) > kDepthwiseNear;
  }

  static AOT_INLINE V load(const A* at) { return load_widened<T>(at); }

  // For every kernel row that is inside the data, where its first tap is under output column 0, and
  // its first weight, at the first channel.
  struct Window {
    const A* x[Cfg::KD * Cfg::KH];
    const A* w[Cfg::KD * Cfg::KH];
    int64_t rows = 0;
  };
  // Where the columns of input under output columns from `ow` on begin: `w0`.
  struct Reach {
    int64_t ow, w0;
  };

  AOT_INLINE Window find(const A* image, int64_t d0, int64_t h0, int64_t c0) const {
    Window window;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      const int64_t d = d0 + kd * Cfg::DD;
      if (uint64_t(d) >= uint64_t(p.d)) continue;
      for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
        const int64_t h = h0 + kh * Cfg::DH;
        if (uint64_t(h) >= uint64_t(p.h)) continue;
        window.x[window.rows] = image + d * p.sd + h * p.sh - Cfg::PW * p.sw + c0;
        window.w[window.rows++] = p.w + (kd * Cfg::KH + kh) * Cfg::KW * Cfg::C + c0;
      }
    }
    return window;
  }

  // Adds TAPS taps of kernel row r from kw on to COLS output columns, in order for every sum.
  // INSIDE: all of them are inside the data; PART: only `lanes` channels exist.
  template <int TAPS, int COLS, bool INSIDE, bool PART>
  AOT_INLINE void taps(const Window& window, int64_t r, const Reach& of, int64_t kw, int64_t c,
                       int64_t lanes, V (&acc)[COLS]) const {
    const A* const w = window.w[r] + kw * Cfg::C + c;
    const A* const first = window.x[r] + (of.ow * Cfg::SW + kw * Cfg::DW) * p.sw + c;
    V weights[TAPS];
    AOT_UNROLL for (int k = 0; k < TAPS; ++k) {
      weights[k] = PART ? load_first<T>(w + k * Cfg::C, lanes) : load(w + k * Cfg::C);
    }
    AOT_UNROLL for (int i = 0; i < (COLS - 1) * Cfg::SW + (TAPS - 1) * Cfg::DW + 1; ++i) {
      if (!is_used<TAPS, COLS>(i)) continue;
      if (!INSIDE && uint64_t(of.w0 + kw * Cfg::DW + i) >= uint64_t(p.wd)) continue;
      const A* const at = first + i * p.sw;
      V x = PART ? load_first<T>(at, lanes) : load(at);
      asm("" : "+v"(x));  // compilers would load it again for each tap
      AOT_UNROLL for (int k = 0; k < TAPS; ++k) {
        const int64_t from = i - k * Cfg::DW;
        if (from >= 0 && from % Cfg::SW == 0 && from / Cfg::SW < COLS) {
          acc[from / Cfg::SW] = S::fma(x, weights[k], acc[from / Cfg::SW]);
        }
      }
    }
  }

  // Whether column i of input is under some tap of some column of output.
  template <int TAPS, int COLS>
  static constexpr bool is_used(int64_t i) {
    for (int64_t k = 0; k < TAPS; ++k) {
      const int64_t from = i - k * Cfg::DW;
      if (from >= 0 && from % Cfg::SW == 0 && from / Cfg::SW < COLS) return true;
    }
    return false;
  }

  // One vector of channels, c on from the window's first.
  template <int COLS, bool INSIDE, bool PART>
  AOT_INLINE void columns(const Window& window, const Reach& of, int64_t c, int64_t lanes,
                          T* out) const {
    V acc[COLS];
    AOT_UNROLL for (int j = 0; j < COLS; ++j) acc[j] = S::zero();
    for (int64_t r = 0; r < window.rows; ++r) {
      int64_t kw = 0;
      for (; kw + kTaps <= Cfg::KW; kw += kTaps) {
        taps<kTaps, COLS, INSIDE, PART>(window, r, of, kw, c, lanes, acc);
      }
      constexpr int kRest = int(Cfg::KW % kTaps);
      if constexpr (kRest > 0) taps<kRest, COLS, INSIDE, PART>(window, r, of, kw, c, lanes, acc);
    }
    AOT_UNROLL for (int j = 0; j < COLS; ++j) S::store(out + j * kLd + c, acc[j]);
  }

  // kStreamVectors vectors of channels of COLS columns; weights are read where they lie.
  template <int COLS, bool INSIDE>
  AOT_INLINE void stream(const Window& window, const Reach& of, int64_t c, T* out) const {
    constexpr int kV = kStreamVectors;
    V acc[COLS][kV];
    AOT_UNROLL for (int j = 0; j < COLS; ++j) {
      AOT_UNROLL for (int v = 0; v < kV; ++v) acc[j][v] = S::zero();
    }
    for (int64_t r = 0; r < window.rows; ++r) {
      const A* const w = window.w[r] + c;
      const A* const first = window.x[r] + of.ow * Cfg::SW * p.sw + c;
      AOT_UNROLL for (int i = 0; i < (COLS - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1; ++i) {
        if (!is_used<Cfg::KW, COLS>(i)) continue;
        if (!INSIDE && uint64_t(of.w0 + i) >= uint64_t(p.wd)) continue;
        AOT_UNROLL for (int v = 0; v < kV; ++v) {
          V x = load(first + i * p.sw + v * S::kLanes);
          asm("" : "+v"(x));  // compilers would load it again for each tap
          AOT_UNROLL for (int k = 0; k < Cfg::KW; ++k) {
            const int64_t from = i - k * Cfg::DW, j = from / Cfg::SW;
            if (from >= 0 && from % Cfg::SW == 0 && j < COLS) {
              acc[j][v] = S::fma(x, load(w + k * Cfg::C + v * S::kLanes), acc[j][v]);
            }
          }
        }
      }
    }
    AOT_UNROLL for (int j = 0; j < COLS; ++j) {
      AOT_UNROLL for (int v = 0; v < kV; ++v) {
        S::store(out + j * kLd + c + v * S::kLanes, acc[j][v]);
      }
    }
  }

  // One column, of two vectors of channels: neither sum waits for the other.
  AOT_INLINE void column(const Window& window, const Reach& of, int64_t c, int64_t other,
                         T* out) const {
    V acc[1] = {S::zero()}, beside[1] = {S::zero()};
    const int64_t k0 = of.w0 < 0 ? ceil_div(-of.w0, Cfg::DW) : 0;
    const int64_t k1 = of.w0 < p.wd ? min64(Cfg::KW, ceil_div(p.wd - of.w0, Cfg::DW)) : 0;
    for (int64_t r = 0; r < window.rows; ++r) {
      for (int64_t kw = k0; kw < k1; ++kw) {
        taps<1, 1, true, false>(window, r, of, kw, c, S::kLanes, acc);
        taps<1, 1, true, false>(window, r, of, kw, other, S::kLanes, beside);
      }
    }
    S::store(out + c, acc[0]);
    S::store(out + other, beside[0]);
  }

  // The same of two vectors of bfloat16.
  struct Halves {
    V even, odd;
    explicit AOT_INLINE Halves(const A* at) {
      typename S::Words pairs;
      __builtin_memcpy(&pairs, at, sizeof(pairs));
      even = V(pairs << 16);
      odd = V(pairs & 0xffff0000u);
    }
  };
  template <int TAPS, int COLS, bool INSIDE>
  AOT_INLINE void taps_of_halves(const Window& window, int64_t r, const Reach& of, int64_t kw,
                                 int64_t c, V (&even)[COLS], V (&odd)[COLS]) const {
    const A* const w = window.w[r] + kw * Cfg::C + c;
    const A* const first = window.x[r] + (of.ow * Cfg::SW + kw * Cfg::DW) * p.sw + c;
    V even_w[TAPS], odd_w[TAPS];
    AOT_UNROLL for (int k = 0; k < TAPS; ++k) {
      const Halves weight(w + k * Cfg::C);
      even_w[k] = weight.even;
      odd_w[k] = weight.odd;
    }
    AOT_UNROLL for (int i = 0; i < (COLS - 1) * Cfg::SW + (TAPS - 1) * Cfg::DW + 1; ++i) {
      if (!is_used<TAPS, COLS>(i)) continue;
      if (!INSIDE && uint64_t(of.w0 + kw * Cfg::DW + i) >= uint64_t(p.wd)) continue;
      const Halves x(first + i * p.sw);
      AOT_UNROLL for (int k = 0; k < TAPS; ++k) {
        const int64_t from = i - k * Cfg::DW, j = from / Cfg::SW;
        if (from >= 0 && from % Cfg::SW == 0 && j < COLS) {
          even[j] = S::fma(x.even, even_w[k], even[j]);
          odd[j] = S::fma(x.odd, odd_w[k], odd[j]);
        }
      }
    }
  }
  template <int COLS, bool INSIDE>
  AOT_INLINE void columns_of_halves(const Window& window, const Reach& of, int64_t c,
                                    T* out) const {
    V even[COLS], odd[COLS];
    AOT_UNROLL for (int j = 0; j < COLS; ++j) even[j] = odd[j] = S::zero();
    for (int64_t r = 0; r < window.rows; ++r) {
      int64_t kw = 0;
      for (; kw + kTaps <= Cfg::KW; kw += kTaps) {
        taps_of_halves<kTaps, COLS, INSIDE>(window, r, of, kw, c, even, odd);
      }
      constexpr int kRest = int(Cfg::KW % kTaps);
      if constexpr (kRest > 0) {
        taps_of_halves<kRest, COLS, INSIDE>(window, r, of, kw, c, even, odd);
      }
    }
    constexpr auto kAll = std::make_integer_sequence<int, S::kLanes>{};
    AOT_UNROLL for (int j = 0; j < COLS; ++j) {
      S::store(out + j * kLd + c, zip_lanes<0>(even[j], odd[j], kAll));
      S::store(out + j * kLd + c + S::kLanes, zip_lanes<S::kLanes / 2>(even[j], odd[j], kAll));
    }
  }

  template <int COLS, bool INSIDE>
  AOT_INLINE void channels(const Window& window, const Reach& of, int64_t count, T* out) const {
    if constexpr (kHalves) {
      if (count >= 2 * S::kLanes) {
        for (int64_t c = 0; c < count; c += 2 * S::kLanes) {
          columns_of_halves<COLS, INSIDE>(window, of, min64(c, count - 2 * S::kLanes), out);
        }
        return;
      }
    }
    if (count < S::kLanes) {
      columns<COLS, INSIDE, true>(window, of, 0, count, out);
      return;
    }
    // The last vector overlaps the one before rather than being a part of one.
    const int64_t most = count - S::kLanes;
    if constexpr (COLS == 1) {
      for (int64_t c = 0; c < count; c += 2 * S::kLanes) {
        column(window, of, min64(c, most), min64(c + S::kLanes, most), out);
      }
    } else {
      for (int64_t c = 0; c < count; c += S::kLanes) {
        columns<COLS, INSIDE, false>(window, of, min64(c, most), S::kLanes, out);
      }
    }
  }

  // COLS output columns from ow on, so many channels, to `out`; STREAM: see kStreams.
  template <int COLS, bool STREAM = false>
  void group(const Window& window, int64_t ow, int64_t count, T* out) const {
    const Reach of{ow, ow * Cfg::SW - Cfg::PW};
    constexpr int64_t kWidth = (COLS - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
    const bool inside = of.w0 >= 0 && of.w0 + kWidth <= p.wd;
    if constexpr (STREAM) {
      for (int64_t c = 0; c < count; c += kStreamVectors * S::kLanes) {
        inside ? stream<COLS, true>(window, of, c, out) : stream<COLS, false>(window, of, c, out);
      }
    } else if (inside) {
      channels<COLS, true>(window, of, count, out);
    } else {
      channels<COLS, false>(window, of, count, out);
    }
  }

  // Asks for what the next row of output reads first: that lies behind what this one reads, a part
  // of a row, where nothing else finds it.
  AOT_INLINE void fetch(const Window& window, int64_t ow0, int64_t ow1, int64_t count) const {
    if (window.rows == 0 || !is_far()) return;
    const A* const last = window.x[window.rows - 1] + Cfg::PW * p.sw;
    for (int64_t row = 1; row <= Cfg::SH; ++row) {
      for (int64_t w = ow0 * Cfg::SW; w < ow1 * Cfg::SW; ++w) {
        const char* const at = reinterpret_cast<const char*>(last + row * p.sh + w * p.sw);
        for (int64_t i = 0; i < count * int64_t(sizeof(A)); i += 64)
          __builtin_prefetch(at + i, 0, 2);
      }
    }
  }

  // Output columns [ow0, ow1) of one row, channels [c0, c1), into the tile from row `first` on. The
  // last group begins among those that are done, where that fills it.
  void strip(const A* image, int64_t d0, int64_t h0, int64_t ow0, int64_t ow1, int64_t c0,
             int64_t c1, int64_t first) const {
    const Window window = find(image, d0, h0, c0);
    T* const out = tile + (first - ow0) * kLd;
    if constexpr (kStreams) {
      constexpr int kFew = 2;
      if (ow1 - ow0 >= kFew && is_far()) {
        for (int64_t ow = ow0; ow < ow1; ow += kFew) {
          ow = min64(ow, ow1 - kFew);
          group<kFew, true>(window, ow, c1 - c0, out + ow * kLd);
        }
        return;
      }
    }
    fetch(window, ow0, ow1, c1 - c0);
    for (int64_t ow = ow0; ow < ow1;) {
      const int64_t left = ow1 - ow;
      if (left > kCols / 2 && ow1 - ow0 >= kCols) {
        ow = min64(ow, ow1 - kCols);
        group<kCols>(window, ow, c1 - c0, out + ow * kLd);
        ow += kCols;
      } else if (left > 1 && ow1 - ow0 >= 4) {
        ow = min64(ow, ow1 - 4);
        group<4>(window, ow, c1 - c0, out + ow * kLd);
        ow += 4;
      } else {
        group<1>(window, ow, c1 - c0, out + ow * kLd);
        ow += 1;
      }
    }
  }

  // The tile by channels, behind it; lines beyond the pixels and channels that exist hold anything.
  AOT_INLINE const T* turn(int64_t pixels, int64_t count) const {
    T* const turned = tile + kTile;
    for (int64_t r = 0; r < pixels; r += S::kLanes) {
      for (int64_t c = 0; c < count; c += S::kLanes) {
        transpose_block(tile + r * kLd + c, kLd, turned + c * kTurnLd + r, kTurnLd);
      }
    }
    return turned;
  }
};

}  // namespace detail

template <class Cfg>
constexpr int64_t depthwise_scratch() {
  using R = detail::DepthwiseRun<Cfg>;
  return (R::kTile + R::kTurned) * int64_t(sizeof(typename R::T));
}

namespace detail {

// The input under a row of output, of `columns` columns and so many channels, in bytes.
template <class Cfg>
int64_t depthwise_bytes(int64_t columns, int64_t channels) {
  constexpr int64_t kRows = Cfg::KD * ((Cfg::KH - 1) * Cfg::DH + 1);
  const int64_t under = (columns - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
  return kRows * under * channels * int64_t(sizeof(typename Cfg::A));
}

// Channels, at most `most`, whose input under a row of so many columns is kept for the next row.
template <class Cfg>
int64_t depthwise_run(int64_t columns, int64_t most) {
  while (most > kDepthwiseRun &&
         depthwise_bytes<Cfg>(columns, min64(most, Cfg::C)) > kDepthwiseBytes) {
    most /= 2;
  }
  return most;
}

// Rows [oh, oe) of a plane, of whose image `d0` is the first depth: a run of channels passes down
// the plane, and turned tiles hold a channel's neighbours of several rows, for whole lines.
template <class Cfg, class Epi>
void depthwise_turned(const DepthwiseRun<Cfg>& run, const typename Cfg::A* image, int64_t plane,
                      int64_t d0, int64_t oh, int64_t oe, const Epi& epi) {
  using R = DepthwiseRun<Cfg>;
  const auto& p = run.p;
  const int64_t run_of = depthwise_run<Cfg>(p.ow, kDepthwiseChannels);
  for (int64_t c = 0; c < Cfg::C; c += run_of) {
    const int64_t ce = min64(Cfg::C, c + run_of);
    int64_t done = (plane * p.oh + oh) * p.ow, held = 0;  // pixels; those that the tile has
    const auto finish = [&] {
      epi(0, done, done + held, c, ce, run.turn(held, ce - c), R::kTurnLd);
      done += held;
      held = 0;
    };
    for (int64_t row = oh; row < oe; ++row) {
      for (int64_t ow = 0; ow < p.ow; ow += kDepthwiseColumns) {
        const int64_t stop = min64(p.ow, ow + kDepthwiseColumns);
        if (held + stop - ow > R::kMost) finish();
        run.strip(image, d0, row * Cfg::SH - Cfg::PH, ow, stop, c, ce, held);
        held += stop - ow;
      }
    }
    if (held > 0) finish();
  }
}

// The same where channels are stored side by side: as many as are kept under the columns of a tile,
// since short runs of them are fetched slowly, and then as many columns as are kept with these.
template <class Cfg, class Epi>
void depthwise_plain(const DepthwiseRun<Cfg>& run, const typename Cfg::A* image, int64_t plane,
                     int64_t d0, int64_t oh, int64_t oe, const Epi& epi) {
  constexpr int64_t kStep = kDepthwiseColumns;
  const auto& p = run.p;
  const int64_t run_of = depthwise_run<Cfg>(kStep, round_up(Cfg::C, kDepthwiseChannels));
  int64_t span = kStep;
  while (span < p.ow &&
         depthwise_bytes<Cfg>(span + kStep, min64(run_of, Cfg::C)) <= kDepthwiseBytes) {
    span += kStep;
  }
  for (int64_t first = 0; first < Cfg::C; first += run_of) {
    const int64_t last = min64(Cfg::C, first + run_of);
    for (int64_t from = 0; from < p.ow; from += span) {
      for (int64_t row = oh; row < oe; ++row) {
        for (int64_t ow = from; ow < min64(p.ow, from + span); ow += kStep) {
          const int64_t stop = min64(p.ow, ow + kStep), m = (plane * p.oh + row) * p.ow;
          for (int64_t c = first; c < last; c += kDepthwiseChannels) {
            const int64_t ce = min64(last, c + kDepthwiseChannels);
            run.strip(image, d0, row * Cfg::SH - Cfg::PH, ow, stop, c, ce, 0);
            epi(0, m + ow, m + stop, c, ce, run.tile, DepthwiseRun<Cfg>::kLd);
          }
        }
      }
    }
  }
}

}  // namespace detail

template <class Cfg, class Epi>
void depthwise(const DepthwiseArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
               const Epi& epi) {
  using R = detail::DepthwiseRun<Cfg>;
  const R run{p, static_cast<typename R::T*>(scratch)};
  for (int64_t u = begin; u < end;) {
    const int64_t oh = u % p.oh, plane = u / p.oh, od = plane % p.od, n = plane / p.od;
    const int64_t oe = min64(p.oh, oh + end - u), d0 = od * Cfg::SD - Cfg::PD;
    const typename Cfg::A* image = p.x + n * p.sn;
    if constexpr (Cfg::TURNED) {
      detail::depthwise_turned(run, image, plane, d0, oh, oe, epi);
    } else {
      detail::depthwise_plain(run, image, plane, d0, oh, oe, epi);
    }
    u += oe - oh;
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_DEPTHWISE_H_
