// Transposition of tiles that fit in registers.
#ifndef AOT_VEC_TRANSPOSE_H_
#define AOT_VEC_TRANSPOSE_H_

#include "aot/vec/memory.h"

namespace aot {
namespace detail {

// Within every 128-bit part: a0 b0 a1 b1 ... of the lower (upper) halves.
#define AOT_INTERLEAVE(V, M, S)                    \
  template <int Size>                              \
  AOT_INLINE V interleave_lo(V a, V b) {           \
    return Size == 1   ? M##_unpacklo_epi8(a, b)   \
           : Size == 2 ? M##_unpacklo_epi16(a, b)  \
           : Size == 4 ? M##_unpacklo_epi32(a, b)  \
                       : M##_unpacklo_epi64(a, b); \
  }                                                \
  template <int Size>                              \
  AOT_INLINE V interleave_hi(V a, V b) {           \
    return Size == 1   ? M##_unpackhi_epi8(a, b)   \
           : Size == 2 ? M##_unpackhi_epi16(a, b)  \
           : Size == 4 ? M##_unpackhi_epi32(a, b)  \
                       : M##_unpackhi_epi64(a, b); \
  }
AOT_INTERLEAVE(__m128i, _mm, 16)
#if AOT_ISA_LEVEL >= 3
AOT_INTERLEAVE(__m256i, _mm256, 32)
#endif
#if AOT_ISA_LEVEL >= 4
AOT_INTERLEAVE(__m512i, _mm512, 64)
#endif
#undef AOT_INTERLEAVE

// 16 bytes of each of the rows that make up one register: p, p + step, ...
AOT_INLINE void load_parts(const char* p, int64_t, __m128i* out) {
  *out = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
#if AOT_ISA_LEVEL >= 3
AOT_INLINE void load_parts(const char* p, int64_t step, __m256i* out) {
  __m128i lo, hi;
  load_parts(p, 0, &lo);
  load_parts(p + step, 0, &hi);
  *out = Halves<32>::join(lo, hi);
}
#endif
#if AOT_ISA_LEVEL >= 4
AOT_INLINE void load_parts(const char* p, int64_t step, __m512i* out) {
  __m128i part[4];
  AOT_UNROLL
  for (int k = 0; k < 4; ++k) load_parts(p + k * step, 0, &part[k]);
  *out = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
  *out = _mm512_inserti32x4(*out, part[2], 2);
  *out = _mm512_inserti32x4(*out, part[3], 3);
}
#endif

// Transposes the K parts of `rows` (L rows of L elements in each) at once: log2(L) perfect
// shuffles, row i with row i + L/2.
template <int Size, class R, int L>
AOT_INLINE void transpose_parts(R (&rows)[L]) {
  AOT_UNROLL
  for (int round = 1; round < L; round *= 2) {
    R next[L];
    AOT_UNROLL
    for (int i = 0; i < L / 2; ++i) {
      next[2 * i] = interleave_lo<Size>(rows[i], rows[i + L / 2]);
      next[2 * i + 1] = interleave_hi<Size>(rows[i], rows[i + L / 2]);
    }
    AOT_UNROLL
    for (int i = 0; i < L; ++i) rows[i] = next[i];
  }
}

}  // namespace detail

// Side of the square tile that transpose_block moves: as many elements as one register holds, 16
// at most (more rows would not stay in registers).
template <class T>
constexpr int transpose_lanes() {
  return native_lanes<T>() < 16 ? native_lanes<T>() : 16;
}

// dst[j * dst_stride + i] = src[i * src_stride + j] for i, j < transpose_lanes<T>(); strides count
// elements. T: 1 to 8 bytes, bf16 and f16 too (bits are moved, not converted).
template <class T>
AOT_INLINE void transpose_block(const T* src, int64_t src_stride, T* dst, int64_t dst_stride) {
  constexpr int N = transpose_lanes<T>();
  constexpr int kSize = static_cast<int>(sizeof(T));
  constexpr int L = 16 / kSize;  // elements of a 128-bit part
  using R = detail::RawOf<Vec<detail::UnsignedOf<T>, N>>;
  AOT_UNROLL
  for (int column = 0; column < N; column += L) {
    // Register i holds this column group of the rows i, i + L, i + 2 L, ...
    R rows[L];
    AOT_UNROLL
    for (int i = 0; i < L; ++i) {
      detail::load_parts(reinterpret_cast<const char*>(src + i * src_stride + column),
                         L * src_stride * kSize, &rows[i]);
    }
    detail::transpose_parts<kSize>(rows);
    AOT_UNROLL
    for (int i = 0; i < L; ++i) {
      __builtin_memcpy(dst + (column + i) * dst_stride, &rows[i], sizeof(R));
    }
  }
}

// The same for the first `height` rows and `width` columns of the source tile, by way of a tile on
// the stack.
template <class T>
AOT_INLINE void transpose_block_n(const T* src, int64_t src_stride, T* dst, int64_t dst_stride,
                                  int64_t height, int64_t width) {
  constexpr int N = transpose_lanes<T>();
  using Raw = detail::UnsignedOf<T>;
  alignas(64) Raw in[N * N];
  alignas(64) Raw out[N * N];
  for (int i = 0; i < N; ++i) {
    const Raw* row = reinterpret_cast<const Raw*>(src + (i < height ? i * src_stride : 0));
    detail::store_full(in + i * N, detail::load_first<Raw, N>(row, i < height ? width : 0));
  }
  transpose_block<Raw>(in, N, out, N);
  for (int i = 0; i < N && i < width; ++i) {
    Raw* row = reinterpret_cast<Raw*>(dst + i * dst_stride);
    detail::store_first(row, detail::load_full<Raw, N>(out + i * N), height);
  }
}

// tile[j * L + i] = src[i * stride + j] as lanes of T, for the first `height` rows and `width`
// columns of L each, L being transpose_lanes<T>(); lines beyond them hold anything.
template <class T, int L, class S>
AOT_INLINE void load_tile(const S* src, int64_t stride, int64_t height, int64_t width, T* tile) {
  static_assert(L == transpose_lanes<T>(), "a tile is a square of registers");
  const bool whole = height == L && width == L;
  if constexpr (std::is_same_v<S, T>) {
    if (whole) {
      transpose_block(src, stride, tile, L);
      return;
    }
  }
  alignas(64) T rows[L * L];
  if (whole) {
    for (int i = 0; i < L; ++i) store(rows + i * L, load<T, L>(src + i * stride));
  } else {
    for (int64_t i = 0; i < L; ++i) {
      const int64_t row = i < height ? i : height - 1;
      store(rows + i * L, load_n<T, L>(src + row * stride, width));
    }
  }
  transpose_block(rows, L, tile, L);
}

}  // namespace aot

#endif  // AOT_VEC_TRANSPOSE_H_
