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
  using A = float;  // element of input and weight
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

inline constexpr int64_t kDepthwiseColumns = 16;   // output columns of a tile
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

  const DepthwiseArgs<Cfg>& p;
  T* tile;

  static AOT_INLINE V load(const A* at) {
    if constexpr (std::is_same_v<A, T>) {
      return S::load(at);
    } else {
      T wide[S::kLanes];
      for (int i = 0; i < S::kLanes; ++i) wide[i] = widen(at[i]);
      return S::load(wide);
    }
  }
  // Only the first `lanes` elements exist.
  static AOT_INLINE V load_some(const A* at, int64_t lanes) {
    T wide[S::kLanes] = {};
    for (int64_t i = 0; i < lanes; ++i) wide[i] = widen(at[i]);
    return S::load(wide);
  }

  // COLS output columns from ow on, one vector of channels. CHECK: some inputs may be outside.
  template <int COLS, bool CHECK>
  AOT_INLINE void columns(const A* line0, const A* w, int64_t w0, int64_t d0, int64_t h0, T* out,
                          int64_t lanes) const {
    V acc[COLS];
    AOT_UNROLL for (int j = 0; j < COLS; ++j) acc[j] = S::zero();
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      if (uint64_t(d0 + kd * Cfg::DD) >= uint64_t(p.d)) continue;
      for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
        if (uint64_t(h0 + kh * Cfg::DH) >= uint64_t(p.h)) continue;
        const A* line = line0 + kd * Cfg::DD * p.sd + kh * Cfg::DH * p.sh;
        const A* wk = w + (kd * Cfg::KH + kh) * Cfg::KW * Cfg::C;
        for (int64_t kw = 0; kw < Cfg::KW; ++kw) {
          const V wv = lanes < S::kLanes ? load_some(wk + kw * Cfg::C, lanes) : load(wk + kw * Cfg::C);
          AOT_UNROLL for (int j = 0; j < COLS; ++j) {
            const int64_t column = j * Cfg::SW + kw * Cfg::DW;
            if (CHECK && uint64_t(w0 + column) >= uint64_t(p.wd)) continue;
            const A* at = line + column * p.sw;
            const V xv = lanes < S::kLanes ? load_some(at, lanes) : load(at);
            acc[j] = S::fma(xv, wv, acc[j]);
          }
        }
      }
    }
    AOT_UNROLL for (int j = 0; j < COLS; ++j) S::store(out + j * kLd, acc[j]);
  }

  // Output columns [ow0, ow1) of one row, channels [c0, c1), into the tile.
  void strip(const A* image, const A* w, int64_t d0, int64_t h0, int64_t ow0, int64_t ow1,
             int64_t c0, int64_t c1) const {
    const A* line0 = image + d0 * p.sd + h0 * p.sh;
    for (int64_t ow = ow0; ow < ow1;) {
      const int64_t w0 = ow * Cfg::SW - Cfg::PW;
      const int64_t last = w0 + (kCols - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW;
      const bool full = ow + kCols <= ow1, inside = w0 >= 0 && last < p.wd;
      for (int64_t c = c0; c < c1; c += S::kLanes) {
        const int64_t lanes = min64(S::kLanes, c1 - c);
        const A* line = line0 + w0 * p.sw + c;
        T* out = tile + (ow - ow0) * kLd + (c - c0);
        if (full && inside && lanes == S::kLanes) {
          columns<kCols, false>(line, w + c, w0, d0, h0, out, S::kLanes);
        } else if (full && lanes == S::kLanes) {
          columns<kCols, true>(line, w + c, w0, d0, h0, out, S::kLanes);
        } else {
          for (int64_t j = 0; j < min64(kCols, ow1 - ow); ++j) {
            columns<1, true>(line + j * Cfg::SW * p.sw, w + c, w0 + j * Cfg::SW, d0, h0,
                             out + j * kLd, lanes);
          }
        }
      }
      ow += kCols;
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
        run.strip(image, p.w, d0, h0, ow, stop, c, ce);
        epi(0, u * p.ow + ow, u * p.ow + stop, c, ce, run.tile, R::kLd);
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_DEPTHWISE_H_
