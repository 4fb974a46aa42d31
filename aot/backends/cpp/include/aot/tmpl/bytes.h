// Vectors of bytes in lanes of 16, as many lanes as a level's vectors have. Every function works
// lane by lane; `gather` and `scatter` read and write each lane at a place of its own.
#ifndef AOT_TMPL_BYTES_H_
#define AOT_TMPL_BYTES_H_

#include <stdint.h>

#include "aot/kernel/prelude.h"

namespace aot::tmpl::detail {

#if defined(__AVX512BW__)
inline constexpr int kByteLanes = 4;
using ByteVector = __m512i;
AOT_INLINE ByteVector byte_zero() { return _mm512_setzero_si512(); }
AOT_INLINE ByteVector byte_set(int32_t x) { return _mm512_set1_epi32(x); }
AOT_INLINE ByteVector byte_all(__m128i x) { return _mm512_broadcast_i32x4(x); }
AOT_INLINE ByteVector byte_load(const uint8_t* p) { return _mm512_loadu_si512(p); }
AOT_INLINE void byte_store(uint8_t* p, ByteVector x) { _mm512_storeu_si512(p, x); }
AOT_INLINE ByteVector byte_gather(const uint8_t* const (&p)[4], int64_t at) {
  const auto lane = [&](int k) { return _mm_loadu_si128((const __m128i*)(p[k] + at)); };
  __m512i x = _mm512_castsi128_si512(lane(0));
  x = _mm512_inserti32x4(x, lane(1), 1);
  x = _mm512_inserti32x4(x, lane(2), 2);
  return _mm512_inserti32x4(x, lane(3), 3);
}
AOT_INLINE ByteVector byte_shuffle(ByteVector x, ByteVector by) {
  return _mm512_shuffle_epi8(x, by);
}
AOT_INLINE ByteVector byte_low8(ByteVector a, ByteVector b) { return _mm512_unpacklo_epi8(a, b); }
AOT_INLINE ByteVector byte_high8(ByteVector a, ByteVector b) { return _mm512_unpackhi_epi8(a, b); }
AOT_INLINE ByteVector byte_low32(ByteVector a, ByteVector b) { return _mm512_unpacklo_epi32(a, b); }
AOT_INLINE ByteVector byte_high32(ByteVector a, ByteVector b) {
  return _mm512_unpackhi_epi32(a, b);
}
AOT_INLINE ByteVector byte_low64(ByteVector a, ByteVector b) { return _mm512_unpacklo_epi64(a, b); }
AOT_INLINE ByteVector byte_high64(ByteVector a, ByteVector b) {
  return _mm512_unpackhi_epi64(a, b);
}
AOT_INLINE ByteVector byte_add(ByteVector a, ByteVector b) { return _mm512_add_epi32(a, b); }
AOT_INLINE ByteVector byte_madd(ByteVector a, ByteVector b) { return _mm512_madd_epi16(a, b); }
AOT_INLINE ByteVector byte_shift(ByteVector a, __m128i by) { return _mm512_sra_epi32(a, by); }
AOT_INLINE ByteVector byte_pack(ByteVector a, ByteVector b, ByteVector c, ByteVector d) {
  return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}
AOT_INLINE void byte_scatter(ByteVector x, uint8_t* const (&p)[4], int64_t at) {
  _mm_storeu_si128((__m128i*)(p[0] + at), _mm512_castsi512_si128(x));
  _mm_storeu_si128((__m128i*)(p[1] + at), _mm512_extracti32x4_epi32(x, 1));
  _mm_storeu_si128((__m128i*)(p[2] + at), _mm512_extracti32x4_epi32(x, 2));
  _mm_storeu_si128((__m128i*)(p[3] + at), _mm512_extracti32x4_epi32(x, 3));
}
#elif defined(__AVX2__)
inline constexpr int kByteLanes = 2;
using ByteVector = __m256i;
AOT_INLINE ByteVector byte_zero() { return _mm256_setzero_si256(); }
AOT_INLINE ByteVector byte_set(int32_t x) { return _mm256_set1_epi32(x); }
AOT_INLINE ByteVector byte_all(__m128i x) { return _mm256_broadcastsi128_si256(x); }
AOT_INLINE ByteVector byte_load(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
AOT_INLINE void byte_store(uint8_t* p, ByteVector x) { _mm256_storeu_si256((__m256i*)p, x); }
AOT_INLINE ByteVector byte_gather(const uint8_t* const (&p)[2], int64_t at) {
  const __m128i low = _mm_loadu_si128((const __m128i*)(p[0] + at));
  const __m128i high = _mm_loadu_si128((const __m128i*)(p[1] + at));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
AOT_INLINE ByteVector byte_shuffle(ByteVector x, ByteVector by) {
  return _mm256_shuffle_epi8(x, by);
}
AOT_INLINE ByteVector byte_low8(ByteVector a, ByteVector b) { return _mm256_unpacklo_epi8(a, b); }
AOT_INLINE ByteVector byte_high8(ByteVector a, ByteVector b) { return _mm256_unpackhi_epi8(a, b); }
AOT_INLINE ByteVector byte_low32(ByteVector a, ByteVector b) { return _mm256_unpacklo_epi32(a, b); }
AOT_INLINE ByteVector byte_high32(ByteVector a, ByteVector b) {
  return _mm256_unpackhi_epi32(a, b);
}
AOT_INLINE ByteVector byte_low64(ByteVector a, ByteVector b) { return _mm256_unpacklo_epi64(a, b); }
AOT_INLINE ByteVector byte_high64(ByteVector a, ByteVector b) {
  return _mm256_unpackhi_epi64(a, b);
}
AOT_INLINE ByteVector byte_add(ByteVector a, ByteVector b) { return _mm256_add_epi32(a, b); }
AOT_INLINE ByteVector byte_madd(ByteVector a, ByteVector b) { return _mm256_madd_epi16(a, b); }
AOT_INLINE ByteVector byte_shift(ByteVector a, __m128i by) { return _mm256_sra_epi32(a, by); }
AOT_INLINE ByteVector byte_pack(ByteVector a, ByteVector b, ByteVector c, ByteVector d) {
  return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}
AOT_INLINE void byte_scatter(ByteVector x, uint8_t* const (&p)[2], int64_t at) {
  _mm_storeu_si128((__m128i*)(p[0] + at), _mm256_castsi256_si128(x));
  _mm_storeu_si128((__m128i*)(p[1] + at), _mm256_extracti128_si256(x, 1));
}
#else
inline constexpr int kByteLanes = 1;
using ByteVector = __m128i;
AOT_INLINE ByteVector byte_zero() { return _mm_setzero_si128(); }
AOT_INLINE ByteVector byte_set(int32_t x) { return _mm_set1_epi32(x); }
AOT_INLINE ByteVector byte_all(__m128i x) { return x; }
AOT_INLINE ByteVector byte_load(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
AOT_INLINE void byte_store(uint8_t* p, ByteVector x) { _mm_storeu_si128((__m128i*)p, x); }
AOT_INLINE ByteVector byte_gather(const uint8_t* const (&p)[1], int64_t at) {
  return byte_load(p[0] + at);
}
AOT_INLINE ByteVector byte_shuffle(ByteVector x, ByteVector by) { return _mm_shuffle_epi8(x, by); }
AOT_INLINE ByteVector byte_low8(ByteVector a, ByteVector b) { return _mm_unpacklo_epi8(a, b); }
AOT_INLINE ByteVector byte_high8(ByteVector a, ByteVector b) { return _mm_unpackhi_epi8(a, b); }
AOT_INLINE ByteVector byte_low32(ByteVector a, ByteVector b) { return _mm_unpacklo_epi32(a, b); }
AOT_INLINE ByteVector byte_high32(ByteVector a, ByteVector b) { return _mm_unpackhi_epi32(a, b); }
AOT_INLINE ByteVector byte_low64(ByteVector a, ByteVector b) { return _mm_unpacklo_epi64(a, b); }
AOT_INLINE ByteVector byte_high64(ByteVector a, ByteVector b) { return _mm_unpackhi_epi64(a, b); }
AOT_INLINE ByteVector byte_add(ByteVector a, ByteVector b) { return _mm_add_epi32(a, b); }
AOT_INLINE ByteVector byte_madd(ByteVector a, ByteVector b) { return _mm_madd_epi16(a, b); }
AOT_INLINE ByteVector byte_shift(ByteVector a, __m128i by) { return _mm_sra_epi32(a, by); }
AOT_INLINE ByteVector byte_pack(ByteVector a, ByteVector b, ByteVector c, ByteVector d) {
  return _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d));
}
AOT_INLINE void byte_scatter(ByteVector x, uint8_t* const (&p)[1], int64_t at) {
  byte_store(p[0] + at, x);
}
#endif

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_BYTES_H_
