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
      const int64_t end = k0 + kc;
      for (int64_t k = k0 - k0 % 2; k < end; k += 2) {
        // Little-endian: the first of a pair is the low half.
        uint32_t pair[kPanel], first[kPanel], second[kPanel];
        __builtin_memcpy(pair, in + k * kPanel, sizeof(pair));
        for (int64_t j = 0; j < kPanel; ++j) {
          first[j] = pair[j] << 16;
          second[j] = pair[j] & 0xffff0000u;
        }
        if (k >= k0) __builtin_memcpy(out + (k - k0) * kPanel, first, sizeof(first));
        if (k + 1 < end) __builtin_memcpy(out + (k + 1 - k0) * kPanel, second, sizeof(second));
      }
    } else {
      in += k0 * kPanel;
      for (int64_t i = 0; i < kc * kPanel; ++i) out[i] = widen(in[i]);
    }
  }
}

// The L x L block at src (rows `row` apart), transposed, to dst (rows of a panel apart); L is the
// lanes of a vector.
template <class T>
AOT_INLINE void transpose_block(const T* src, int64_t row, T* dst) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int kL = S::kLanes;
  using Lane = std::conditional_t<sizeof(T) == 8, int64_t,
               std::conditional_t<sizeof(T) == 4, int32_t,
               std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;
  typedef Lane Index __attribute__((vector_size(kL * sizeof(T))));
  V r[kL];
  AOT_UNROLL for (int i = 0; i < kL; ++i) r[i] = S::load(src + i * row);
  AOT_UNROLL for (int h = kL / 2; h > 0; h /= 2) {
    Index low, high;  // swap the off-diagonal h x h blocks
    AOT_UNROLL for (int l = 0; l < kL; ++l) {
      low[l] = Lane(l & h ? kL + l - h : l);
      high[l] = Lane(l & h ? kL + l : l + h);
    }
    AOT_UNROLL for (int i = 0; i < kL; ++i) {
      if (i & h) continue;
      const V a = r[i], b = r[i + h];
      r[i] = __builtin_shuffle(a, b, low);
      r[i + h] = __builtin_shuffle(a, b, high);
    }
  }
  AOT_UNROLL for (int i = 0; i < kL; ++i) S::store(dst + i * kPanel, r[i]);
}

// Columns that are contiguous along k: dst[p][k][j] = src[(16 p + j) * column + k], zero from
// column n on; `panel_stride` elements between the panels of dst.
template <class S, class T>
void pack_columns(const S* src, int64_t column, int64_t kc, int64_t n, T* dst,
                  int64_t panel_stride) {
  constexpr int64_t kL = Simd<T>::kLanes;
  for (int64_t n0 = 0; n0 < n; n0 += kPanel) {
    T* out = dst + n0 / kPanel * panel_stride;
    for (int64_t j = 0; j < kPanel; j += kL) {
      const S* in = src + (n0 + j) * column;
      int64_t k = 0;
      if constexpr (std::is_same_v<S, T>) {
        if (n0 + j + kL <= n) {
          for (; k + kL <= kc; k += kL) transpose_block(in + k, column, out + k * kPanel + j);
        }
      }
      for (int64_t i = 0; i < kL; ++i) {
        if (n0 + j + i < n) {
          for (int64_t q = k; q < kc; ++q) out[q * kPanel + j + i] = widen(in[i * column + q]);
        } else {
          for (int64_t q = k; q < kc; ++q) out[q * kPanel + j + i] = 0;
        }
      }
    }
  }
}

// Rows that are contiguous along n: dst[p][k][j] = src[k * row + 16 p + j], zero from column n on.
template <class S, class T>
void pack_rows(const S* src, int64_t row, int64_t kc, int64_t n, T* dst, int64_t panel_stride) {
  const int64_t full = n / kPanel;
  for (int64_t k = 0; k < kc; ++k) {
    const S* in = src + k * row;
    T* out = dst + k * kPanel;
    for (int64_t p = 0; p < full; ++p) {
      for (int64_t j = 0; j < kPanel; ++j) {
        out[p * panel_stride + j] = widen(in[p * kPanel + j]);
      }
    }
    for (int64_t j = full * kPanel; j < round_up(n, kPanel); ++j) {
      out[full * panel_stride + j - full * kPanel] = j < n ? T(widen(in[j])) : T(0);
    }
  }
}

// Any strides: dst[p][k][j] = src[k * row + (16 p + j) * column], zero from column n on.
template <class S, class T>
void pack_any(const S* src, int64_t row, int64_t column, int64_t kc, int64_t n, T* dst,
              int64_t panel_stride) {
  if (column == 1) {
    pack_rows(src, row, kc, n, dst, panel_stride);
  } else if (row == 1) {
    pack_columns(src, column, kc, n, dst, panel_stride);
  } else {
    for (int64_t j = 0; j < round_up(n, kPanel); ++j) {
      T* out = dst + j / kPanel * panel_stride + j % kPanel;
      for (int64_t k = 0; k < kc; ++k) {
        out[k * kPanel] = j < n ? T(widen(src[k * row + j * column])) : T(0);
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PACK_H_
