// Few rows by packed panels of float16 or bfloat16: a part of matmul.h.
//
// Where one strip has all rows, widened panels would be written to scratch to be read once: that
// takes longer than memory does to give them. Panels are read where they lie: of float16 by the
// kernels of direct.h, of bfloat16, whose k's lie in pairs, by `few_pairs`.
#ifndef AOT_TMPL_MATMUL_FEW_H_
#define AOT_TMPL_MATMUL_FEW_H_

#include "aot/tmpl/bf16.h"
#include "aot/tmpl/matmul_call.h"

namespace aot::tmpl {

namespace detail {

// Bytes that panels are fetched ahead: machines look ahead no further than a page.
inline constexpr int64_t kFewAhead = 4096;

// A panel of pairs by ROWS rows of floats, `ld` elements apart and whole pairs long. Sums begin
// anew as in direct.h.
template <int ROWS>
__attribute__((noinline)) void few_pairs(const float* a, int64_t ld, const Bf16* panel, int64_t k,
                                         float* c, int64_t ldc) {
  using S = Simd<float>;
  using V = S::V;
  constexpr int kV = S::kPerPanel;
  // Few sums would wait for each other: then both k's of a pair have sums of their own.
  constexpr int kOwn = ROWS * kV >= 8 ? 1 : 2;
  const int64_t pairs = ceil_div(k, 2);
  for (int64_t q = 0; q < pairs;) {
    const int64_t stop = min64(pairs, q + kChain / 2);
    const bool add = q > 0;
    V acc[kOwn][ROWS][kV];
    AOT_UNROLL for (int t = 0; t < kOwn; ++t) {
      AOT_UNROLL for (int i = 0; i < ROWS; ++i) {
        AOT_UNROLL for (int j = 0; j < kV; ++j) acc[t][i][j] = S::zero();
      }
    }
    for (; q < stop; ++q, panel += 2 * kPanel) {
      V even[kV], odd[kV];
      AOT_UNROLL for (int j = 0; j < kV; ++j) {
        S::Words pair;
        __builtin_memcpy(&pair, panel + 2 * j * S::kLanes, sizeof(pair));
        even[j] = V(pair << 16), odd[j] = V(pair & 0xffff0000u);
      }
      __builtin_prefetch(reinterpret_cast<const char*>(panel) + kFewAhead);
      AOT_UNROLL for (int i = 0; i < ROWS; ++i) {
        const V x = S::set1(a[i * ld + 2 * q]), y = S::set1(a[i * ld + 2 * q + 1]);
        AOT_UNROLL for (int j = 0; j < kV; ++j) {
          acc[0][i][j] = S::fma(x, even[j], acc[0][i][j]);
          acc[kOwn - 1][i][j] = S::fma(y, odd[j], acc[kOwn - 1][i][j]);
        }
      }
    }
    AOT_UNROLL for (int i = 0; i < ROWS; ++i) {
      AOT_UNROLL for (int j = 0; j < kV; ++j) {
        float* const to = c + i * ldc + j * S::kLanes;
        const V sum = kOwn > 1 ? acc[0][i][j] + acc[kOwn - 1][i][j] : acc[0][i][j];
        S::store(to, add ? S::load(to) + sum : sum);
      }
    }
  }
}

template <class Cfg, class Epi>
struct FewRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using T = compute_t<A>;
  using Source = PanelsOfB<T, B>;
  static constexpr int kVectors = Simd<T>::kPerPanel;
  static constexpr int64_t kStrip =
      min64(kMostDirectRows, (kVectorRegisters - kDirectRest - kVectors) / kVectors);
  static constexpr int64_t kRows = matmul_few_rows<Cfg>();
  static constexpr bool kMayBe = kRows > 0;
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>(), kRowLd = matmul_few_ld<Cfg>();

  const MatmulArgs<Cfg>& p;
  T* tile;
  const Epi& epi;

  AOT_INLINE int64_t m() const { return p.rows(); }

  // Only sizes of the whole product count. A machine's own units multiply bfloat16 faster.
  AOT_INLINE bool is() const {
#if defined(AOT_TMPL_BF16_UNITS)
    if (std::is_same_v<A, Bf16> && bf16_unit() >= kBf16Dot) return false;
#endif
    return m() > 0 && m() <= kRows;
  }

  // Columns [n0, n1) of all rows of batch element b: panels in turn, each of one long stream, which
  // the strips behind the first find in the first level of cache, or in the second.
  void columns(int64_t b, int64_t n0, int64_t n1) const {
    T* const rows = tile + Cfg::MC * kLd;
    copy_rows(p.a + b * p.a_batch, p.a_row, p.a_col, m(), Cfg::K, rows, kRowLd);
    if constexpr (Cfg::K % 2 != 0) {  // by zeros of the last pair
      for (int64_t i = 0; i < m(); ++i) rows[i * kRowLd + Cfg::K] = T(0);
    }
    constexpr int64_t kPanelElements = packed_rows<B>(Cfg::K) * kPanel;
    const B* at = p.b + b * p.b_batch + n0 / kPanel * kPanelElements;
    const Pieces strips(m(), kStrip);
    for (int64_t nc = n0; nc < n1; nc += Cfg::NC) {
      const int64_t ne = min64(nc + Cfg::NC, n1);
      for (int64_t n = nc; n < ne; n += kPanel, at += kPanelElements) {
        for (int64_t s = 0; s < strips.count; ++s) {
          const int64_t i0 = strips.begin(s);
          strip(strips.size(s), rows + i0 * kRowLd, at, tile + i0 * kLd + n - nc,
                std::make_integer_sequence<int, int(min64(kStrip, kRows))>{});
        }
      }
      epi(b, 0, m(), nc, ne, tile, kLd);
    }
  }

  // Whether there are strips of so many rows.
  static constexpr bool can_be(int64_t rows) {
    const Pieces known(max64(Cfg::M, 1), kStrip);
    return Cfg::M < 0 || rows == known.size(0) || rows == known.size(known.count - 1);
  }

  // The kernel of so many rows.
  template <int... I>
  AOT_INLINE void strip(int64_t count, const T* rows, const B* at, T* c,
                        std::integer_sequence<int, I...>) const {
    (only<I + 1>(count, rows, at, c), ...);
  }
  template <int ROWS>
  AOT_INLINE void only(int64_t count, const T* rows, const B* at, T* c) const {
    if constexpr (can_be(ROWS)) {
      if (count == ROWS) multiply<ROWS>(rows, at, c);
    }
  }
  template <int ROWS>
  AOT_INLINE void multiply(const T* rows, const B* at, T* c) const {
    if constexpr (std::is_same_v<B, Bf16>) {
      few_pairs<ROWS>(rows, kRowLd, at, Cfg::K, c, kLd);
    } else {
      DirectArgs<T, Source> args{rows, kRowLd,          1,    {at, Cfg::K * kPanel}, Cfg::K, c,
                                 kLd,  Simd<T>::kLanes, false};
      args.line = kPanel * int64_t(sizeof(B));
      args.next = reinterpret_cast<const char*>(at) + kFewAhead;
      direct_kernel<T, Source, ROWS, kVectors, false>(args);
    }
  }
};

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_FEW_H_
