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
        using V = Simd<float>;
        AOT_UNROLL for (int j = 0; j < kPanel; j += V::kLanes) {
          V::Words pair;
          __builtin_memcpy(&pair, in + k * kPanel + 2 * j, sizeof(pair));
          T* at = out + (k - k0) * kPanel + j;
          if (k >= k0) V::store(at, V::V(pair << 16));
          if (k + 1 < end) V::store(at + kPanel, V::V(pair & 0xffff0000u));
        }
      }
    } else {
      widen_row(in + k0 * kPanel, kc * kPanel, out);
    }
  }
}

// The blocks of h x h elements beside the diagonal of rows a (upper) and b, exchanged.
template <int H, class V, int... L>
AOT_INLINE void exchange(V& a, V& b, std::integer_sequence<int, L...>) {
  constexpr int kL = int(sizeof...(L));
  const V upper = __builtin_shufflevector(a, b, (L & H ? kL + L - H : L)...);
  const V lower = __builtin_shufflevector(a, b, (L & H ? kL + L : L + H)...);
  a = upper;
  b = lower;
}

template <int H, class T>
AOT_INLINE void transpose_rows(typename Simd<T>::V* r) {
  constexpr int kL = Simd<T>::kLanes;
  if constexpr (H > 0) {
    AOT_UNROLL for (int i = 0; i < kL; ++i) {
      if (!(i & H)) exchange<H>(r[i], r[i + H], std::make_integer_sequence<int, kL>{});
    }
    transpose_rows<H / 2, T>(r);
  }
}

// The L x L block at src (rows `row` apart), widened and transposed, to dst (rows `to` apart); L is
// the lanes of a vector.
template <class E, class T>
AOT_INLINE void transpose_block(const E* src, int64_t row, T* dst, int64_t to = kPanel) {
  using S = Simd<T>;
  typename S::V r[S::kLanes];
  AOT_UNROLL for (int i = 0; i < S::kLanes; ++i) r[i] = load_widened<T>(src + i * row);
  transpose_rows<S::kLanes / 2, T>(r);
  AOT_UNROLL for (int i = 0; i < S::kLanes; ++i) S::store(dst + i * to, r[i]);
}

// Every second lane of a and b from both sides: (a0, b0, a1, b1, …), the upper half after H lanes.
template <int H, class V, int... L>
AOT_INLINE V zip_lanes(V a, V b, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(a, b, (L % 2 * int(sizeof...(L)) + L / 2 + H)...);
}

// transpose_block of units of S neighbours: dst has, for each S columns of src, the units of all
// rows. S is 2 or 4, and at most a vector.
template <int S, class T>
AOT_INLINE void transpose_units(const T* src, int64_t row, T* dst, int64_t to) {
  constexpr int kL = Simd<T>::kLanes;
  constexpr auto kAll = std::make_integer_sequence<int, kL>{};
  typename Simd<T>::V r[kL];
  AOT_UNROLL for (int i = 0; i < kL; ++i) r[i] = Simd<T>::load(src + i * row);
  transpose_rows<kL / 2, T>(r);
  AOT_UNROLL for (int u = 0; u < kL; u += S) {
    // Of two vectors apart by half of a unit's the lanes alternate; twice for units of four.
    typename Simd<T>::V* const v = r + u;
    if constexpr (S == 2) {
      const auto low = zip_lanes<0>(v[0], v[1], kAll), high = zip_lanes<kL / 2>(v[0], v[1], kAll);
      v[0] = low, v[1] = high;
    } else {
      const auto a = zip_lanes<0>(v[0], v[2], kAll), b = zip_lanes<kL / 2>(v[0], v[2], kAll);
      const auto c = zip_lanes<0>(v[1], v[3], kAll), d = zip_lanes<kL / 2>(v[1], v[3], kAll);
      v[0] = zip_lanes<0>(a, c, kAll), v[1] = zip_lanes<kL / 2>(a, c, kAll);
      v[2] = zip_lanes<0>(b, d, kAll), v[3] = zip_lanes<kL / 2>(b, d, kAll);
    }
    AOT_UNROLL for (int i = 0; i < S; ++i) Simd<T>::store(dst + u / S * to + i * kL, v[i]);
  }
}

// dst[i * ld + k] = src[i * row + k * col], widened. Rows that are neighbours in memory go in
// blocks, transposed, of which the last ones overlap; fewer k's are blocks with zeros.
template <class S, class T>
void copy_rows(const S* src, int64_t row, int64_t col, int64_t rows, int64_t kc, T* dst,
               int64_t ld) {
  constexpr int64_t kL = Simd<T>::kLanes;
  if (col == 1) {
    for (int64_t i = 0; i < rows; ++i) widen_row(src + i * row, kc, dst + i * ld);
    return;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (row == 1 && rows >= kL && kc > 1 && kc < kL) {
      for (int64_t i = 0; i < rows; i = i + kL < rows ? min64(i + kL, rows - kL) : rows) {
        typename Simd<T>::V r[kL];
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
          r[q] = q < kc ? load_widened<T>(src + i + q * col) : Simd<T>::zero();
        }
        transpose_rows<kL / 2, T>(r);
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) store_first(dst + (i + q) * ld, kc, r[q]);
      }
      return;
    }
    if (row == 1 && rows >= kL && kc >= kL) {
      for (int64_t k = 0; k < kc; k = k + kL < kc ? min64(k + kL, kc - kL) : kc) {
        for (int64_t i = 0; i < rows; i = i + kL < rows ? min64(i + kL, rows - kL) : rows) {
          typename Simd<T>::V r[kL];
          AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
            r[q] = load_widened<T>(src + i + (k + q) * col);
          }
          transpose_rows<kL / 2, T>(r);
          AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
            Simd<T>::store(dst + (i + q) * ld + k, r[q]);
          }
        }
      }
      return;
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < kc; ++k) dst[i * ld + k] = widen(src[i * row + k * col]);
  }
}

// The first n of a vector's 16-bit elements, one in each 32-bit lane, and zeros.
AOT_INLINE Simd<float>::Words load_first_words(const Bf16* at, int64_t n) {
  if (n >= Simd<float>::kLanes) return load_words(at);
#if defined(__AVX512F__)
  return Simd<float>::Words(_mm512_maskz_cvtepu16_epi32(
      0xffff, _mm256_maskz_loadu_epi16(__mmask16((1u << max64(n, 0)) - 1), at)));
#else
  Bf16 part[Simd<float>::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = at[i];
  return load_words(part);
#endif
}

// The first n of a vector's neighbours, which alone exist, and zeros.
AOT_INLINE Simd<float>::V load_first_halves(const Bf16* at, int64_t n) {
  using S = Simd<float>;
  constexpr int64_t kAll = 2 * S::kLanes;
  const int64_t there = max64(min64(n, kAll), 0);
#if defined(__AVX512F__)
  const auto mask = __mmask32((uint64_t{1} << there) - 1);
  return S::V(_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, at)));
#else
  float part[S::kLanes] = {};
  __builtin_memcpy(part, at, uint64_t(there) * sizeof(Bf16));
  return S::load(part);
#endif
}

// Rows of bfloat16 as pairs in the places of floats: pair k of row i is dst[i * ld + k], the last
// one completed by a zero. Strides of src as in copy_rows. Up to whole vectors of a row of dst are
// written.
inline void copy_pairs(const Bf16* src, int64_t row, int64_t col, int64_t rows, int64_t kc,
                       float* dst, int64_t ld) {
  using S = Simd<float>;
  constexpr int64_t kL = S::kLanes;
  // Rows that are neighbours: blocks of pairs, transposed.
  const auto block = [&](int64_t i, auto there) {
    for (int64_t k = 0; k < kc; k += 2 * kL) {
      S::V r[kL];
      AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
        const Bf16* const at = src + i + (k + 2 * q) * col;
        S::Words pair{};
        if (k + 2 * q < kc) pair = load_first_words(at, there);
        if (k + 2 * q + 1 < kc) pair |= load_first_words(at + col, there) << 16;
        r[q] = S::V(pair);
      }
      transpose_rows<kL / 2, float>(r);
      AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
        if (q < there) S::store(dst + (i + q) * ld + k / 2, r[q]);
      }
    }
  };
  if (row == 1 && rows >= kL) {  // the last blocks overlap
    constexpr std::integral_constant<int64_t, kL> kAll{};
    for (int64_t i = 0; i < rows; i = i + kL < rows ? min64(i + kL, rows - kL) : rows) {
      block(i, kAll);
    }
    return;
  }
  if (row == 1 && rows > 1) return block(0, rows);
  for (int64_t i = 0; i < rows; ++i) {
    Bf16* const out = reinterpret_cast<Bf16*>(dst + i * ld);
    const Bf16* const in = src + i * row;
    if (col == 1) {
      int64_t k = 0;
      for (; k + 2 * kL <= kc; k += 2 * kL) {
        S::store(dst + i * ld + k / 2, S::load(reinterpret_cast<const float*>(in + k)));
      }
      if (k < kc) S::store(dst + i * ld + k / 2, load_first_halves(in + k, kc - k));
    } else {
      for (int64_t k = 0; k < kc; ++k) out[k] = in[k * col];
      if (kc % 2 != 0) out[kc] = Bf16{};
    }
  }
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
      if constexpr (std::is_floating_point_v<T> || std::is_same_v<S, T>) {
        if (n0 + j + kL <= n) {
          for (; k + kL <= kc; k += kL) transpose_block(in + k, column, out + k * kPanel + j);
        }
      }
      if constexpr (std::is_floating_point_v<T>) {
        // Blocks of fewer columns or k's: zeros in their places.
        for (; k < kc; k += kL) {
          const int64_t there = min64(kL, kc - k);
          typename Simd<T>::V r[kL];
          AOT_UNROLL for (int64_t i = 0; i < kL; ++i) {
            r[i] = n0 + j + i < n ? load_first<T>(in + i * column + k, there) : Simd<T>::zero();
          }
          transpose_rows<kL / 2, T>(r);
          for (int64_t i = 0; i < there; ++i) Simd<T>::store(out + (k + i) * kPanel + j, r[i]);
        }
        continue;
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

// The first n columns of kc rows, at most a panel of them, as a panel with zeros from column n on.
template <class S, class T>
AOT_INLINE void pack_panel(const S* src, int64_t row, int64_t kc, int64_t n, T* dst) {
  constexpr int64_t kL = Simd<T>::kLanes;
  for (int64_t k = 0; k < kc; ++k, src += row, dst += kPanel) {
    if (n == kPanel) {
      AOT_UNROLL for (int64_t j = 0; j < kPanel; j += kL) {
        Simd<T>::store(dst + j, load_widened<T>(src + j));
      }
    } else {
      AOT_UNROLL for (int64_t j = 0; j < kPanel; j += kL) {
        Simd<T>::store(dst + j, load_first<T>(src + j, min64(max64(n - j, 0), kL)));
      }
    }
  }
}

// Rows that are contiguous along n: dst[p][k][j] = src[k * row + 16 p + j], zero from column n on.
// Panel by panel where one is several vectors, which are whole lines; else in the rows' order.
template <class S, class T>
void pack_rows(const S* src, int64_t row, int64_t kc, int64_t n, T* dst, int64_t panel_stride) {
  if constexpr (kFewRegisters && std::is_same_v<S, T>) {
    for (int64_t j = 0; j < n; j += kPanel) {
      const int64_t columns = min64(n - j, kPanel);
      T* const to = dst + j / kPanel * panel_stride;
      if (columns == kPanel) {  // a constant, for a loop without a choice
        pack_panel(src + j, row, kc, kPanel, to);
      } else {
        pack_panel(src + j, row, kc, columns, to);
      }
    }
    return;
  }
  const int64_t full = n / kPanel;
  for (int64_t k = 0; k < kc; ++k) {
    const S* in = src + k * row;
    T* out = dst + k * kPanel;
    for (int64_t p = 0; p < full; ++p) {
      AOT_UNROLL for (int64_t j = 0; j < kPanel; j += Simd<T>::kLanes) {
        Simd<T>::store(out + p * panel_stride + j, load_widened<T>(in + p * kPanel + j));
      }
    }
    if (full * kPanel == n) continue;
    AOT_UNROLL for (int64_t j = 0; j < kPanel; j += Simd<T>::kLanes) {
      const int64_t left = min64(max64(n - full * kPanel - j, 0), Simd<T>::kLanes);
      Simd<T>::store(out + full * panel_stride + j, load_first<T>(in + full * kPanel + j, left));
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

// A matrix of bfloat16 of any strides as packed pairs in the places of floats: dst[p][k][j] holds
// src[2 k * row + (16 p + j) * column] and the element a row on, zeros from row kc and column n on.
inline void pack_pairs(const Bf16* src, int64_t row, int64_t column, int64_t kc, int64_t n,
                       float* dst, int64_t panel_stride) {
  using S = Simd<float>;
  constexpr int64_t kL = S::kLanes;
  const int64_t whole = kc / 2;
  for (int64_t n0 = 0; n0 < n; n0 += kL) {
    const Bf16* const in = src + n0 * column;
    float* const out = dst + n0 / kPanel * panel_stride + n0 % kPanel;
    const int64_t columns = n - n0;
    int64_t k = 0;
    if (column == 1) {
      for (; k < whole; ++k) {
        const auto low = load_first_words(in + 2 * k * row, columns);
        const auto high = load_first_words(in + (2 * k + 1) * row, columns);
        S::store(out + k * kPanel, S::V(low | high << 16));
      }
    } else if (row == 1) {
      for (; k < whole; k += kL) {
        S::V r[kL];
        AOT_UNROLL for (int64_t j = 0; j < kL; ++j) {
          r[j] =
              j < columns ? load_first_halves(in + j * column + 2 * k, 2 * (whole - k)) : S::zero();
        }
        transpose_rows<kL / 2, float>(r);
        const int64_t there = min64(kL, whole - k);
        for (int64_t i = 0; i < there; ++i) S::store(out + (k + i) * kPanel, r[i]);
      }
      k = whole;
    }
    for (; k < ceil_div(kc, 2); ++k) {
      for (int64_t j = 0; j < kL; ++j) {
        const bool there = j < columns;
        const Bf16* const at = in + 2 * k * row + j * column;
        const Bf16 pair[2] = {there ? at[0] : Bf16{}, there && 2 * k + 1 < kc ? at[row] : Bf16{}};
        __builtin_memcpy(out + k * kPanel + j, pair, sizeof(pair));
      }
    }
  }
  for (int64_t j = round_up(n, kL); j < round_up(n, kPanel);
       ++j) {  // vectors that are all beyond n
    for (int64_t k = 0; k < ceil_div(kc, 2); ++k) {
      dst[j / kPanel * panel_stride + k * kPanel + j % kPanel] = 0;
    }
  }
}

// One element of a storage type as E: itself, or widened.
template <class E, class S>
AOT_INLINE E as(S x) {
  if constexpr (std::is_same_v<E, S>) {
    return x;
  } else {
    return E(widen(x));
  }
}

// out[i] = in[i] for i < n, as E.
template <class S, class E>
AOT_INLINE void copy_row(const S* in, int64_t n, E* out) {
  if constexpr (std::is_same_v<S, E>) {
    __builtin_memcpy(out, in, uint64_t(n) * sizeof(S));
  } else {
    widen_row(in, n, out);
  }
}

// Pixels of an odd number C of contiguous 16-bit channels, as they are, with a zero behind each.
template <int64_t C, class E>
AOT_INLINE void pad_channels(const E* in, int64_t pixels, E* out) {
  static_assert(sizeof(E) == 2 && C % 2 == 1);
  int64_t i = 0;
  if constexpr (C == 1) {
    using S = Simd<float>;
    for (; i + S::kLanes <= pixels; i += S::kLanes) {
      S::store(reinterpret_cast<float*>(out + 2 * i), S::V(load_words(in + i)));
    }
  } else if constexpr (C == 3) {
    for (; i + 1 < pixels; ++i) {  // four elements, of which the last is the next pixel's
      uint64_t bits;
      __builtin_memcpy(&bits, in + 3 * i, sizeof(bits));
      bits &= 0xffffffffffffu;
      __builtin_memcpy(out + 4 * i, &bits, sizeof(bits));
    }
  }
  for (; i < pixels; ++i) {
    __builtin_memcpy(out + i * (C + 1), in + i * C, C * sizeof(E));
    out[i * (C + 1) + C] = E{};
  }
}

// Pixels of at most eight 16-bit channels, `step` elements apart, as they are, with zeros behind
// them up to LD. A whole register is read and written while that stays inside both.
template <int64_t C, int64_t LD, class E>
AOT_INLINE void copy_few_channels(const E* in, int64_t step, int64_t pixels, E* out) {
  static_assert(sizeof(E) == 2 && C <= LD && LD <= 8);
  int64_t i = 0;
  if (step >= C) {
    typedef uint16_t Eight __attribute__((vector_size(16)));
    Eight there;
    for (int64_t c = 0; c < 8; ++c) there[c] = c < C ? 0xffff : 0;
    for (; i * step + 8 <= (pixels - 1) * step + C && i * LD + 8 <= pixels * LD; ++i) {
      Eight pixel;
      __builtin_memcpy(&pixel, in + i * step, sizeof(pixel));
      pixel &= there;
      __builtin_memcpy(out + i * LD, &pixel, sizeof(pixel));
    }
  }
  for (; i < pixels; ++i) {
    for (int64_t c = 0; c < LD; ++c) out[i * LD + c] = c < C ? in[i * step + c] : E{};
  }
}

// What interleave moves at once: an element, or two of 16 bits that stay so.
template <class S, class E>
struct Interleaved {
  static constexpr int kEach = std::is_same_v<S, E> && sizeof(S) == 2 ? 2 : 1;
  using T = compute_t<S>;
  using V = typename Simd<T>::V;

  // Unit u of the first n of a vector's columns, zeros in the place of elements from C on.
  template <int64_t C>
  static AOT_INLINE V load(const S* line, int64_t row, int64_t u, int64_t n) {
    if constexpr (kEach == 1) {
      return u < C ? load_first<T>(line + u * row, n) : V{};
    } else {
      const Bf16* const bits = reinterpret_cast<const Bf16*>(line);  // of any type of so many
      const auto low = load_first_words(bits + 2 * u * row, n);
      if (2 * u + 1 >= C) return V(low);
      return V(low | load_first_words(bits + (2 * u + 1) * row, n) << 16);
    }
  }
};

// Units from `next` on, as many as a vector has lanes, of the first `there` columns of a vector of
// interleave's, a constant where that is all of them.
template <int64_t C, int64_t LD, class S, class E, class Count>
AOT_INLINE void interleave_block(const S* line, int64_t row, int64_t next, Count there, E* out) {
  using I = Interleaved<S, E>;
  using T = typename I::T;
  constexpr int64_t kL = Simd<T>::kLanes, kUnits = LD / I::kEach;
  const int64_t first = min64(next, kUnits - kL);  // the last block overlaps the one before
  typename Simd<T>::V r[kL];
  AOT_UNROLL for (int64_t u = 0; u < kL; ++u) {
    r[u] = I::template load<C>(line, row, first + u, there);
  }
  transpose_rows<kL / 2, T>(r);
  AOT_UNROLL for (int64_t k = 0; k < kL; ++k) {
    if (k < there) Simd<T>::store(reinterpret_cast<T*>(out) + k * kUnits + first, r[k]);
  }
}

// Columns that are moved together, of some rows at a time: rows of a long line lie pages apart, and
// what is asked for in each is then a run, not one vector.
inline constexpr int64_t kInterleavedRun = 64;
template <int64_t C, int64_t LD, class S, class E>
AOT_INLINE void interleave_run(const S* line, int64_t row, E* out) {
  using I = Interleaved<S, E>;
  constexpr int64_t kL = Simd<typename I::T>::kLanes, kVectors = kInterleavedRun / kL;
  constexpr std::integral_constant<int64_t, kL> kAll{};
  for (int64_t next = 0; next < LD / I::kEach; next += kL) {
    for (int64_t v = 0; v < kVectors; ++v) {
      interleave_block<C, LD>(line + v * kL, row, next, kAll, out + v * kL * LD);
    }
  }
}

// The first `there` columns of a vector of interleave's.
template <int64_t C, int64_t LD, class S, class E, class Count>
AOT_INLINE void interleave_vector(const S* line, int64_t row, Count there, E* out) {
  using I = Interleaved<S, E>;
  using T = typename I::T;
  constexpr int64_t kL = Simd<T>::kLanes, kUnits = LD / I::kEach;
  T* const to = reinterpret_cast<T*>(out);
  if constexpr (kUnits == 1) {
    const auto r = I::template load<C>(line, row, 0, there);
    __builtin_memcpy(to, &r, uint64_t(there) * sizeof(T));
  } else if constexpr (kUnits < kL) {
    typename Simd<T>::V r[kL] = {};
    T block[kL * kL];
    AOT_UNROLL for (int64_t u = 0; u < kUnits; ++u) {
      r[u] = I::template load<C>(line, row, u, there);
    }
    transpose_rows<kL / 2, T>(r);
    AOT_UNROLL for (int64_t k = 0; k < kL; ++k) Simd<T>::store(block + k * kL, r[k]);
    AOT_UNROLL for (int64_t k = 0; k < kL; ++k) {
      if (k < there) __builtin_memcpy(to + k * kUnits, block + k * kL, kUnits * sizeof(T));
    }
  } else {
    for (int64_t next = 0; next < kUnits; next += kL) {
      interleave_block<C, LD>(line, row, next, there, out);
    }
  }
}

// out[i * LD + c] = line[c * row + i] for i < n and c < C, as E, and zero for C <= c < LD. LD is
// even for pairs. The last vector of columns overlaps the one before; where there are fewer than
// a vector, its first elements are.
template <int64_t C, int64_t LD, class S, class E>
void interleave(const S* line, int64_t row, int64_t n, E* out) {
  using T = typename Interleaved<S, E>::T;
  constexpr int64_t kL = Simd<T>::kLanes;
  int64_t i = 0;
  if constexpr (LD / Interleaved<S, E>::kEach >= kL) {
    for (; i + kInterleavedRun <= n; i += kInterleavedRun) {
      interleave_run<C, LD>(line + i, row, out + i * LD);
    }
    if (i > 0 && i < n) i = min64(i, n - kL);
  }
  for (; n >= kL && i < n; i = i + kL < n ? min64(i + kL, n - kL) : n) {
    constexpr std::integral_constant<int64_t, kL> kAll{};
    interleave_vector<C, LD>(line + i, row, kAll, out + i * LD);
  }
  if (i < n && 4 * n >= kL) {
    interleave_vector<C, LD>(line, row, n, out);
    i = n;
  }
  for (; i < n; ++i) {
    for (int64_t c = 0; c < LD; ++c) out[i * LD + c] = as<E>(c < C ? line[c * row + i] : S{});
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PACK_H_
