// Few columns of bfloat16 by the machine's dot products of pairs: a part of matmul.h.
//
// Vectors of columns would be empty for the most part. They run along k instead, and a vector's
// lanes are summed for as many results at once as it has lanes.
#ifndef AOT_TMPL_MATMUL_COLUMNS_H_
#define AOT_TMPL_MATMUL_COLUMNS_H_

#include "aot/tmpl/matmul_shallow.h"

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

namespace detail {

template <class Cfg, class Epi>
struct ColumnsRun {
  using S = Simd<float>;
  using V = S::V;
  static constexpr int kL = S::kLanes;
  static constexpr int64_t kStep = 2 * kL, kSteps = ceil_div(Cfg::K, kStep);  // k's of a vector
  static constexpr int kColumns = Cfg::N > 0 && Cfg::N <= kL ? int(Cfg::N) : 1;
  static constexpr int kRows = kL / kColumns;
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>();

  // In cycles of a row: rows begin anywhere, so that a load takes two; sums of lanes. Beside a
  // broadcast pair by a panel, which should take a third more.
  static constexpr int64_t kPrice = kSteps * (Cfg::N + 2) + 3 * Cfg::N;
  static constexpr bool kIs =
      std::is_same_v<typename Cfg::A, Bf16> && std::is_same_v<typename Cfg::B, Bf16> &&
      Cfg::STRIDED_B && Cfg::PACKED > 0 && !Cfg::COPY_A && Cfg::A_ALONG == Along::kDepth &&
      Cfg::M >= kPanel && Cfg::N > 0 && Cfg::N <= Cfg::NB&& Cfg::NB <= Cfg::NC &&
      4 * kPrice <= 3 * (Cfg::K / 2);

  const MatmulArgs<Cfg>& p;
  float* tile;
  float* copy;
  float* panels;  // room for columns of B
  const Epi& epi;

  void rectangle(int64_t b, int64_t m0, int64_t m1, int64_t, int64_t) const {
    Bf16* const columns = reinterpret_cast<Bf16*>(panels);
    bring_columns(p.b + b * p.b_batch, columns);
    for (int64_t m = m0; m < m1; m += Cfg::MC) {
      const int64_t end = min64(m1, m + Cfg::MC);
      const Bf16* const rows = p.a + b * p.a_batch + m * p.a_row;
      for (int64_t i = 0; i < end - m; i += kRows) {
        alignas(64) float found[kL];
        S::store(found, sums(rows, i, end - m, columns));
        for (int64_t q = 0; q < min64(kRows, end - m - i); ++q) {
          __builtin_memcpy(tile + (i + q) * kLd, found + q * kColumns, kColumns * sizeof(float));
        }
      }
      epi(b, m, end, 0, Cfg::N, tile, kLd);
    }
  }

 private:
  // Whole steps of each column's k's, with zeros behind them.
  AOT_INLINE void bring_columns(const Bf16* from, Bf16* to) const {
    for (int64_t n = 0; n < Cfg::N; ++n, from += p.b_col, to += kSteps * kStep) {
      for (int64_t k = 0; k < Cfg::K; ++k) to[k] = from[k * p.b_row];
      zero_row(to + Cfg::K, kSteps * kStep - Cfg::K);
    }
  }

  // Of row i on, of which `count` exist: results of a row are neighbours.
  AOT_INLINE V sums(const Bf16* rows, int64_t i, int64_t count, const Bf16* columns) const {
    const Bf16* at[kRows];
    AOT_UNROLL for (int q = 0; q < kRows; ++q) at[q] = rows + min64(i + q, count - 1) * p.a_row;
    V acc[kL];
    AOT_UNROLL for (int q = 0; q < kL; ++q) acc[q] = S::zero();
    const auto multiply = [&](int64_t k, const auto& load) __attribute__((always_inline)) {
      V b[kColumns];
      AOT_UNROLL for (int n = 0; n < kColumns; ++n) {
        b[n] = S::load(reinterpret_cast<const float*>(columns + n * kSteps * kStep + k));
      }
      AOT_UNROLL for (int q = 0; q < kRows; ++q) {
        const V a = load(at[q] + k);
        AOT_UNROLL for (int n = 0; n < kColumns; ++n) {
          acc[q * kColumns + n] = Bf16Dot::apply(a, b[n], acc[q * kColumns + n]);
        }
      }
    };
    constexpr int64_t kWhole = Cfg::K / kStep * kStep;
    for (int64_t k = 0; k < kWhole; k += kStep) {
      multiply(k, [](const Bf16* from) __attribute__((always_inline)) {
        return S::load(reinterpret_cast<const float*>(from));
      });
    }
    if constexpr (kWhole < Cfg::K) {
      multiply(kWhole, [](const Bf16* from) __attribute__((always_inline)) {
        return load_first_halves(from, Cfg::K - kWhole);
      });
    }
    return sums_of<kL / 2, float>(acc);
  }
};

// How products of bfloat16 go that need neither tiles nor panels.
template <class Cfg, class Epi>
using PairsRun =
    std::conditional_t<ColumnsRun<Cfg, Epi>::kIs, ColumnsRun<Cfg, Epi>, ShallowRun<Cfg, Epi>>;

}  // namespace detail

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_COLUMNS_H_
