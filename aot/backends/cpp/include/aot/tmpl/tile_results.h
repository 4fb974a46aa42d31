// What becomes of results that tiles of bfloat16 have left: a part of matmul.h.
#ifndef AOT_TMPL_TILE_RESULTS_H_
#define AOT_TMPL_TILE_RESULTS_H_

#include "aot/tmpl/matmul_shallow.h"

namespace aot::tmpl::detail {

#if defined(AOT_TMPL_BF16_UNITS)

// Rows from m0 on by columns [n0, n1) of a product. What is only rounded, or has a column's number
// added before, is stored where it belongs by the machine's own conversion: tiles leave no number
// that is too small for a normal one.
template <class Cfg, class Epi>
struct TileResults {
  const MatmulArgs<Cfg>& p;
  const Epi& epi;
  int64_t b, m0, n0, n1;

  // Rows [i0, i1) of them are finished, the first one at `from`.
  AOT_INLINE void operator()(int64_t i0, int64_t i1, const float* from) const {
    if constexpr (Cfg::ROUNDED) {
      rounded(m0 + i0, m0 + i1, from);
    } else {
      epi(b, m0 + i0, m0 + i1, n0, n1, from, kLd);
    }
  }

 private:
  using S = Simd<float>;
  static constexpr int64_t kL = S::kLanes, kLd = matmul_tile_ld<Cfg>();

  AOT_INLINE void rounded(int64_t first, int64_t last, const float* from) const {
    for (int64_t n = n0; n < n1; n += 2 * kL, from += 2 * kL) {
      const int64_t more = n1 - n - kL;
      if (more <= 0) {
        columns<1>(first, last, n, n1 - n, from);
      } else {
        columns<2>(first, last, n, min64(more, kL), from);
      }
    }
  }

  // NV vectors from column n on, of the last one so many elements.
  template <int NV>
  AOT_INLINE void columns(int64_t first, int64_t last, int64_t n, int64_t there,
                          const float* from) const {
    typename S::V addend[NV] = {};
    if constexpr (Cfg::ADDS) {
      AddingPairPanels panels{};
      panels.addend = p.addend + n;
      panels.addends(addend, there);
    }
    char* to = static_cast<char*>(p.out) + first * p.out_row;
    for (int64_t i = first; i < last; ++i, from += kLd, to += p.out_row) {
      typename S::V row[NV];
      AOT_UNROLL for (int j = 0; j < NV; ++j) {
        row[j] = S::load(from + j * kL);
        if (Cfg::ADDS) row[j] += addend[j];
      }
      RoundedPairPanels::store(reinterpret_cast<Bf16*>(to) + n, row, there);
    }
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_TILE_RESULTS_H_
