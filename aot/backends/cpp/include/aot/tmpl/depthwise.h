// Depthwise convolution (one input channel per group) over channels-last data, 1 to 3 dimensions.
//
//   template <class Cfg, class Epi>
//   void depthwise(const DepthwiseArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                  const Epi& epi);
//
// Vectors run over channels, a few output columns at a time stay in registers.
//   work    = n * od * oh (output rows)
//   scratch = depthwise_scratch<Cfg>() bytes, a constant; 64-byte aligned
// Epi is called as in conv.h: epi(0, m0, m1, c0, c1, const T* tile, int64_t ld), m = output pixel
// (n, od, oh, ow) flattened, c = channel; columns of the tile beyond c1 are not to be read.
//
// Weights: [KD * KH * KW][C] (packing.pack_depthwise_weight). Channels of the input are contiguous.
#ifndef AOT_TMPL_DEPTHWISE_H_
#define AOT_TMPL_DEPTHWISE_H_

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

struct DepthwiseConfig {
  using A = float;                 // element of input and weight
  static constexpr int64_t C = 1;  // channels
  static constexpr int64_t KD = 1, KH = 1, KW = 1;
  static constexpr int64_t SD = 1, SH = 1, SW = 1;
  static constexpr int64_t DD = 1, DH = 1, DW = 1;
  static constexpr int64_t PD = 0, PH = 0, PW = 0;
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

inline constexpr int64_t kDepthwiseColumns = 16;    // output columns of a tile
inline constexpr int64_t kDepthwiseChannels = 256;  // channels of a tile

template <class Cfg>
struct DepthwiseRun {
  using A = typename Cfg::A;
  using T = compute_t<A>;
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int64_t kLd = min64(round_up(Cfg::C, kPanel), kDepthwiseChannels) + kPanel;
  // Output columns computed together: as many as leave registers for weights and inputs.
  static constexpr int kCols = kVectorRegisters >= 32 ? 8 : 4;

  static constexpr A kZeros[min64(Cfg::C, kDepthwiseChannels)] = {};

  const DepthwiseArgs<Cfg>& p;
  T* tile;

  static AOT_INLINE V load(const A* at) { return load_widened<T>(at); }

  // The inputs under COLS output columns: for every kernel row inside the data, where its first
  // input column and its first weight are, at the first channel.
  template <int COLS>
  struct Window {
    static constexpr int64_t kWidth = (COLS - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
    const A* x[Cfg::KD * Cfg::KH];
    const A* w[Cfg::KD * Cfg::KH];
    int64_t rows;
    int64_t step;                                // between input columns
    const A* column[Cfg::KD * Cfg::KH][kWidth];  // where some are outside: each, or zeros
    AOT_INLINE const A* inside(int64_t r, int64_t i) const { return x[r] + i * step; }
    AOT_INLINE const A* padded(int64_t r, int64_t i) const { return column[r][i]; }
  };

  template <int COLS>
  AOT_INLINE void find(const A* image, int64_t d0, int64_t h0, int64_t w0, int64_t c0,
                       Window<COLS>& window) const {
    window.rows = 0;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      const int64_t d = d0 + kd * Cfg::DD;
      if (uint64_t(d) >= uint64_t(p.d)) continue;
      for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
        const int64_t h = h0 + kh * Cfg::DH;
        if (uint64_t(h) >= uint64_t(p.h)) continue;
        window.x[window.rows] = image + d * p.sd + h * p.sh + w0 * p.sw + c0;
        window.w[window.rows++] = p.w + (kd * Cfg::KH + kh) * Cfg::KW * Cfg::C + c0;
      }
    }
  }
  template <int COLS>
  AOT_INLINE void find_columns(int64_t w0, Window<COLS>& window) const {
    for (int64_t r = 0; r < window.rows; ++r) {
      for (int64_t i = 0; i < Window<COLS>::kWidth; ++i) {
        const bool in = uint64_t(w0 + i) < uint64_t(p.wd);
        window.column[r][i] = in ? window.x[r] + i * p.sw : kZeros;
      }
    }
  }

  // One vector of channels, c on from the window's first. INSIDE: all columns are inside the data;
  // PART: only `lanes` channels exist.
  template <int COLS, bool INSIDE, bool PART>
  AOT_INLINE void columns(const Window<COLS>& window, int64_t c, int64_t lanes, T* out) const {
    V acc[COLS];
    AOT_UNROLL for (int j = 0; j < COLS; ++j) acc[j] = S::zero();
    for (int64_t r = 0; r < window.rows; ++r) {
      const A* w = window.w[r] + c;
      AOT_UNROLL for (int64_t kw = 0; kw < Cfg::KW; ++kw) {
        const V wv = PART ? load_first<T>(w + kw * Cfg::C, lanes) : load(w + kw * Cfg::C);
        AOT_UNROLL for (int j = 0; j < COLS; ++j) {
          const int64_t i = j * Cfg::SW + kw * Cfg::DW;
          const A* at = (INSIDE ? window.inside(r, i) : window.padded(r, i)) + c;
          acc[j] = S::fma(PART ? load_first<T>(at, lanes) : load(at), wv, acc[j]);
        }
      }
    }
    AOT_UNROLL for (int j = 0; j < COLS; ++j) S::store(out + j * kLd + c, acc[j]);
  }

  template <int COLS, bool INSIDE>
  AOT_INLINE void channels(const Window<COLS>& window, int64_t count, T* out) const {
    if (count < S::kLanes) {
      columns<COLS, INSIDE, true>(window, 0, count, out);
      return;
    }
    for (int64_t c = 0; c < count; c += S::kLanes) {
      // The last vector overlaps the one before rather than being a part of one.
      columns<COLS, INSIDE, false>(window, min64(c, count - S::kLanes), S::kLanes, out);
    }
  }

  // COLS output columns from ow on, channels [c0, c1), to `out`.
  template <int COLS>
  void group(const A* image, int64_t d0, int64_t h0, int64_t ow, int64_t c0, int64_t c1,
             T* out) const {
    Window<COLS> window;
    const int64_t w0 = ow * Cfg::SW - Cfg::PW;
    window.step = p.sw;
    find(image, d0, h0, w0, c0, window);
    if (w0 >= 0 && w0 + Window<COLS>::kWidth <= p.wd) {
      channels<COLS, true>(window, c1 - c0, out);
    } else {
      find_columns(w0, window);
      channels<COLS, false>(window, c1 - c0, out);
    }
  }

  // Output columns [ow0, ow1) of one row, channels [c0, c1), into the tile.
  void strip(const A* image, int64_t d0, int64_t h0, int64_t ow0, int64_t ow1, int64_t c0,
             int64_t c1) const {
    for (int64_t ow = ow0; ow < ow1;) {
      T* out = tile + (ow - ow0) * kLd;
      const int64_t left = ow1 - ow;
      if (left >= kCols) {
        group<kCols>(image, d0, h0, ow, c0, c1, out);
        ow += kCols;
      } else if (left >= 4) {
        group<4>(image, d0, h0, ow, c0, c1, out);
        ow += 4;
      } else {
        group<1>(image, d0, h0, ow, c0, c1, out);
        ow += 1;
      }
    }
  }
};

}  // namespace detail

template <class Cfg>
constexpr int64_t depthwise_scratch() {
  using R = detail::DepthwiseRun<Cfg>;
  return detail::kDepthwiseColumns * R::kLd * int64_t(sizeof(typename R::T));
}

template <class Cfg, class Epi>
void depthwise(const DepthwiseArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
               const Epi& epi) {
  using R = detail::DepthwiseRun<Cfg>;
  const R run{p, static_cast<typename R::T*>(scratch)};
  for (int64_t u = begin; u < end; ++u) {
    const int64_t oh = u % p.oh, plane = u / p.oh, od = plane % p.od, n = plane / p.od;
    const int64_t d0 = od * Cfg::SD - Cfg::PD, h0 = oh * Cfg::SH - Cfg::PH;
    const typename Cfg::A* image = p.x + n * p.sn;
    for (int64_t ow = 0; ow < p.ow; ow += detail::kDepthwiseColumns) {
      const int64_t stop = min64(p.ow, ow + detail::kDepthwiseColumns);
      for (int64_t c = 0; c < Cfg::C; c += detail::kDepthwiseChannels) {
        const int64_t ce = min64(Cfg::C, c + detail::kDepthwiseChannels);
        run.strip(image, d0, h0, ow, stop, c, ce);
        epi(0, u * p.ow + ow, u * p.ow + stop, c, ce, run.tile, R::kLd);
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_DEPTHWISE_H_
