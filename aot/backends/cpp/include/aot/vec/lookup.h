// AVX-512: floats looked up in registers, and functions as one polynomial per interval.
#ifndef AOT_VEC_LOOKUP_H_
#define AOT_VEC_LOOKUP_H_

#include "aot/vec/arith.h"
#include "aot/vec/math_tables.h"

#if AOT_ISA_LEVEL >= 4

namespace aot {
namespace detail {

// The low register of a full-width result, and the full-width form of an index register.
template <int N>
AOT_INLINE __m512i widen_index(Vec<int32_t, N> v) {
  if constexpr (Vec<int32_t, N>::kBytes == 16) {
    return _mm512_castsi128_si512((__m128i)v.r);
  } else if constexpr (Vec<int32_t, N>::kBytes == 32) {
    return _mm512_castsi256_si512((__m256i)v.r);
  } else {
    return (__m512i)v.r;
  }
}
template <int N>
AOT_INLINE Vec<float, N> low_part(__m512 v) {
  using R = typename Vec<float, N>::R;
  if constexpr (Vec<float, N>::kBytes == 16) {
    return Vec<float, N>::of((R)_mm512_castps512_ps128(v));
  } else if constexpr (Vec<float, N>::kBytes == 32) {
    return Vec<float, N>::of((R)_mm512_castps512_ps256(v));
  } else {
    return Vec<float, N>::of((R)v);
  }
}

// row[index & 15] and row[index & 31].
template <int N>
AOT_INLINE Vec<float, N> lookup(const float (&row)[16], Vec<int32_t, N> index) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(lookup(row, index.lo), lookup(row, index.hi));
  } else {
    return low_part<N>(_mm512_permutexvar_ps(widen_index(index), _mm512_load_ps(row)));
  }
}
template <int N>
AOT_INLINE Vec<float, N> lookup(const float (&row)[32], Vec<int32_t, N> index) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(lookup(row, index.lo), lookup(row, index.hi));
  } else {
    const __m512 lo = _mm512_load_ps(row), hi = _mm512_load_ps(row + 16);
    return low_part<N>(_mm512_permutex2var_ps(lo, widen_index(index), hi));
  }
}

// The odd function that a table of math_tables.h describes, for any x. The table begins at
// `lowest`; from `highest` (below its end) on the function is constant.
template <int N>
AOT_INLINE Vec<float, N> odd_by_table(const float (&table)[7][32], Vec<float, N> x, float lowest,
                                      float highest) {
  const Vec<float, N> a = min_or_second(Vec<float, N>(highest), abs(x));
  const Vec<int32_t, N> i = bitcast<int32_t>(max_or_second(Vec<float, N>(lowest), a)) >> 21;
  const Vec<float, N> d = a - lookup(table[0], i);
  Vec<float, N> y = fma(lookup(table[6], i), d, lookup(table[5], i));
  y = fma(y, d, lookup(table[4], i));
  y = fma(y, d, lookup(table[3], i));
  y = fma(y, d, lookup(table[2], i));
  y = fma(y, d, lookup(table[1], i));
  return with_sign(y, x);  // y is never negative
}

}  // namespace detail
}  // namespace aot

#endif
#endif  // AOT_VEC_LOOKUP_H_
