// Convolutions whose taps have few k's, over rows of a patch, and the order of groups: a part of
// conv.h.
//
// Pixels of a row of output that are neighbours read a patch evenly, so that one pointer serves a
// tap of all of them. The micro-kernel has one for each pixel and tap, of which most are loaded
// again at every k, and its strips are lower by that: with three k's a tap it multiplies a quarter
// of what registers do.
#ifndef AOT_TMPL_CONV_ROWS_H_
#define AOT_TMPL_CONV_ROWS_H_

#include "aot/tmpl/conv_patch.h"

namespace aot::tmpl {

namespace detail {

// Bytes of the weights that a strip reads, which stay near while the strips of a block pass.
inline constexpr int64_t kNearWeights = kFewRegisters ? 32 << 10 : 64 << 10;

// How rows of a patch are cut: pixels at once, and vectors of each.
template <class T>
struct PatchCut {
  int64_t rows, vectors;
  // The most vectors of so many that go at once: as the micro-kernel's panels, or half a panel.
  // `columns`: pixels of a row, -1: not a constant. Of strips that are one too few the last begins
  // earlier, so they are as high as makes that little.
  static constexpr PatchCut of(int64_t vectors, int64_t columns, int64_t k) {
    const int64_t near = kNearWeights / (k * kVectorBytes);
    const int64_t widest = max64(1, min64(near, kFewRegisters ? 2 : 3));
    const int64_t groups = ceil_div(vectors, widest), at_once = ceil_div(vectors, groups);
    const int64_t most = min64(kMostDirectRows, (kVectorRegisters - 1 - at_once) / at_once);
    if (columns <= 0) return {most, at_once};
    return {ceil_div(columns, ceil_div(columns, most)), at_once};
  }
};

// A row of `pixels`, at least MR of them, by NV vectors: C = sum over taps of row * B. `taps`:
// where the first pixel of each is, null: all of its k's are zeros.
template <class T>
struct PatchRow {
  const T* const* taps;
  int64_t pixels;
  const T* b[4];  // vectors of the first k
  T* c;
  int64_t ldc;
  // Where an epilogue stores what becomes of C, in bytes; null: not known, or not worth fetching.
  const char* out = nullptr;
  int64_t out_row = 0;
};

template <class P, int MR, int NV>
__attribute__((noinline)) void patch_row_kernel(const PatchRow<typename P::T>& args) {
  using T = typename P::T;
  using V = typename Simd<T>::V;
  constexpr int kL = Simd<T>::kLanes;
  constexpr int64_t kRun = P::S::kRun, kPart = P::kPart;
  const PatchRow<T> own = args;  // which no store to C can change
  for (int64_t i = 0;;) {
    T* const c = own.c + i * own.ldc;
    const T* b[NV];
    AOT_UNROLL for (int j = 0; j < NV; ++j) b[j] = own.b[j];
    V acc[MR][NV];
    AOT_UNROLL for (int q = 0; q < MR; ++q) {
      AOT_UNROLL for (int j = 0; j < NV; ++j) acc[q][j] = Simd<T>::zero();
    }
    if (own.out != nullptr) {
      AOT_UNROLL for (int q = 0; q < MR; ++q) {
        for (int64_t at = 0; at < NV * kL * int64_t(sizeof(T)); at += 64) {
          __builtin_prefetch(own.out + (i + q) * own.out_row + at, 1, 3);
        }
      }
    }
    bool add = false;
    const auto flush = [&]() __attribute__((always_inline)) {
      AOT_UNROLL for (int q = 0; q < MR; ++q) {
        AOT_UNROLL for (int j = 0; j < NV; ++j) {
          T* const to = c + q * own.ldc + j * kL;
          Simd<T>::store(to, add ? Simd<T>::load(to) + acc[q][j] : acc[q][j]);
        }
      }
    };
    int64_t left = kChain;
    for (int64_t t = 0; t < P::S::kTaps; ++t) {
      const T* at = own.taps[t];
      if (at == nullptr) {
        AOT_UNROLL for (int j = 0; j < NV; ++j) b[j] += kRun * kPanel;
        continue;
      }
      at += i * P::kStep;
      for (int64_t k = 0; k < kRun; k += kPart) {
        if (left < kPart) {
          flush();
          AOT_UNROLL for (int q = 0; q < MR; ++q) {
            AOT_UNROLL for (int j = 0; j < NV; ++j) acc[q][j] = Simd<T>::zero();
          }
          add = true, left = kChain;
        }
        left -= kPart;
        const int64_t count = kRun % kPart == 0 ? kPart : min64(kPart, kRun - k);
        const auto one = [&](int64_t k) __attribute__((always_inline)) {
          V bv[NV];
          AOT_UNROLL for (int j = 0; j < NV; ++j) bv[j] = Simd<T>::load(b[j] + k * kPanel);
          AOT_UNROLL for (int q = 0; q < MR; ++q) {
            const V x = Simd<T>::set1(at[q * P::kStep + k]);
            AOT_UNROLL for (int j = 0; j < NV; ++j) {
              acc[q][j] = Simd<T>::fma(x, bv[j], acc[q][j]);
            }
          }
        };
        if constexpr (kRun <= 4) {
          AOT_UNROLL for (int64_t k = 0; k < kRun; ++k) one(k);
        } else {
          AOT_UNROLL_4 for (int64_t k = 0; k < count; ++k) one(k);
        }
        at += count;
        AOT_UNROLL for (int j = 0; j < NV; ++j) b[j] += count * kPanel;
      }
    }
    flush();
    if (i + MR == own.pixels) return;
    i = min64(i + MR, own.pixels - MR);
  }
}

// The same by as many vectors as there are, of those that a convolution has.
template <class P, int NV = int(P::kCut.vectors)>
AOT_INLINE void patch_row(int64_t vectors, const PatchRow<typename P::T>& args) {
  if constexpr (NV > 1) {
    constexpr bool kOthers = P::kChunks > 1 || P::kVectors % P::kCut.vectors != 0;
    if (kOthers && vectors < NV) return patch_row<P, NV - 1>(vectors, args);
  }
  patch_row_kernel<P, int(P::kCut.rows), NV>(args);
}

// A convolution whose rows go so: its sizes, and how a block does.
template <class Cfg>
struct PatchRows {
  using S = ConvShape<Cfg>;
  using T = typename S::T;
  static constexpr int64_t kChunks = ceil_div(Cfg::OC, Cfg::NC);
  static constexpr int64_t kVectors = ceil_div(min64(Cfg::NC, Cfg::OC), int64_t(Simd<T>::kLanes));
  static constexpr PatchCut<T> kCut =
      PatchCut<T>::of(kVectors, Cfg::COLS > 0 ? -1 : Cfg::COLUMNS, S::kK);
  // Elements from a pixel to the next one, and k's of a tap that are added before a sum goes to C.
  static constexpr int64_t kStep = Cfg::SW * S::kIc;
  static constexpr int64_t kPart = ceil_div(S::kRun, ceil_div(S::kRun, kChain));
  // Whether a convolution's rows may: with units for pairs, pairs go otherwise, and longer sums are
  // those of panels that stay in L1 a chunk at a time.
  static constexpr bool kMay = Cfg::PATCH && !S::kPairs && !S::kWidenB &&
                               std::is_floating_point_v<T> &&
                               S::kK * kCut.vectors * kVectorBytes <= kNearWeights;

  // Whether pixels [m0, m1) do: all of their pieces of rows are long enough.
  static AOT_INLINE bool goes(const ConvArgs<Cfg>& p, int64_t m0, int64_t m1) {
    if constexpr (!kMay) return false;
    const int64_t count = m1 - m0, begin = p.ow - m0 % p.ow, end = (m1 - 1) % p.ow + 1;
    return min64(count, min64(begin, end)) >= kCut.rows;
  }

  // These, in `patch` at `input`, times `columns` columns of w; `out`: as BlockArgs has it, of the
  // first. Calls part(i0, i1) with a row as it is finished: of a tile that begins with it, or which
  // all rows are in with TURNED.
  template <class Part>
  static AOT_INLINE void run(const ConvPatch<Cfg>& patch, const T* input, int64_t m0, int64_t m1,
                             const PackedB<T>& w, int64_t columns, T* tile, const char* out,
                             const Part& part) {
    constexpr int64_t kL = Simd<T>::kLanes, kPer = Simd<T>::kPerPanel, kMost = kCut.vectors;
    const ConvArgs<Cfg>& p = patch.p;
    const T* taps[S::kTaps];
    const int64_t vectors = ceil_div(columns, kL);
    for (int64_t m = m0, end; m < m1; m = end) {
      end = min64(m1, m + p.ow - m % p.ow);
      patch.taps(m, input, taps);
      PatchRow<T> row{taps, end - m, {}, nullptr, S::kLd, nullptr, p.out_row};
      for (int64_t j = 0; j < vectors; j += kMost) {
        for (int64_t q = 0; q < min64(kMost, vectors - j); ++q) {
          row.b[q] = w.b + (j + q) / kPer * w.panel_stride + (j + q) % kPer * kL;
        }
        row.c = tile + (Cfg::TURNED ? (m - m0) * S::kLd : 0) + j * kL;
        if (out != nullptr) row.out = out + (m - m0) * p.out_row + j * kL * p.out_column;
        patch_row<PatchRows>(vectors - j, row);
      }
      part(m - m0, end - m0);
    }
  }
};

// Whether all groups pass some pixels before the next ones: where one has a few lines of a pixel's
// channels, which others are in, too, and all weights stay near. Else each group would bring all
// lines of input and results again.
template <class Cfg>
constexpr bool groups_together() {
  constexpr int64_t kFewBytes = 256, kNear = 1 << 18;
  using T = typename ConvShape<Cfg>::T;
  constexpr int64_t weights = Cfg::G * round_up(Cfg::OC, kPanel) * ConvShape<Cfg>::kK;
  return Cfg::G > 1 && !Cfg::TURNED && Cfg::OC <= Cfg::NB &&
         Cfg::OC * int64_t(sizeof(T)) < kFewBytes && weights * int64_t(sizeof(T)) <= kNear;
}

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_ROWS_H_
