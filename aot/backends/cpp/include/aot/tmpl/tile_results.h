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
      char* const to = static_cast<char*>(p.out) + (m0 + i0) * p.out_row + n0 * sizeof(Bf16);
      const Bf16* const addend = Cfg::ADDS ? p.addend + n0 : nullptr;
      Rounded::rows<Cfg::ADDS>(from, kLd, i1 - i0, n1 - n0, to, p.out_row, addend);
    } else {
      epi(b, m0 + i0, m0 + i1, n0, n1, from, kLd);
    }
  }

 private:
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>();
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_TILE_RESULTS_H_
