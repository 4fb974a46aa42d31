// Copies of operands into the layouts that the micro-kernel reads.
#ifndef AOT_TMPL_PACK_H_
#define AOT_TMPL_PACK_H_

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

// Rows of a packed panel that hold K values of k: bfloat16 stores pairs [K/2][16][2], the layout
// of the machines' bfloat16 dot products, and so rounds K up to even (zero filled).
template <class B>
AOT_INLINE constexpr int64_t packed_rows(int64_t k) {
  return std::is_same_v<B, Bf16> ? (k + 1) / 2 * 2 : k;
}

// dst[i * ld + k] = src[i * row + k * col], widened.
template <class S, class T>
void copy_rows(const S* src, int64_t row, int64_t col, int64_t rows, int64_t kc, T* dst,
               int64_t ld) {
  if (col == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < kc; ++k) dst[i * ld + k] = widen(src[i * row + k]);
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < kc; ++k) dst[i * ld + k] = widen(src[i * row + k * col]);
  }
}

// k's [k0, k0 + kc) of `panels` packed panels of a narrow type, as [panels][kc][16] of T.
template <class B, class T>
void widen_panels(const B* src, int64_t panel_stride, int64_t panels, int64_t k0, int64_t kc,
                  T* dst) {
  for (int64_t p = 0; p < panels; ++p) {
    const B* in = src + p * panel_stride;
    T* out = dst + p * kc * kPanel;
    if constexpr (std::is_same_v<B, Bf16>) {
      for (int64_t k = k0; k < k0 + kc; ++k, out += kPanel) {
        const B* pairs = in + k / 2 * 2 * kPanel + k % 2;
        for (int64_t j = 0; j < kPanel; ++j) out[j] = widen(pairs[2 * j]);
      }
    } else {
      in += k0 * kPanel;
      for (int64_t i = 0; i < kc * kPanel; ++i) out[i] = widen(in[i]);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PACK_H_
