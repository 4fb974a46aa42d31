// One machine register: the operations for which GNU vector syntax is not enough, as overloads
// over register types. Nothing outside aot/vec calls these.
#ifndef AOT_VEC_REG_H_
#define AOT_VEC_REG_H_

#include "aot/vec/isa.h"

namespace aot {
namespace detail {

// Comparison codes; the values are those of the AVX-512 integer predicates.
enum : int { kEq = 0, kLt = 1, kLe = 2, kNe = 4, kNotLt = 5 };

// x86 float predicates: ordered and quiet, except "not equal", which is true for NaN.
template <int Op>
constexpr int kFloatPredicate = Op == kEq   ? _CMP_EQ_OQ
                                : Op == kLt ? _CMP_LT_OQ
                                : Op == kLe ? _CMP_LE_OQ
                                : Op == kNe ? _CMP_NEQ_UQ
                                            : _CMP_NLT_UQ;

template <class R>
AOT_INLINE R r_load(const void* p) {
  R r;
  __builtin_memcpy(&r, p, sizeof(R));
  return r;
}

// sqrt, min and max as the instruction defines them (the second operand wins when either is NaN),
// rounding with an immediate, fused multiply-add (v3 up).
#define AOT_FLOAT_REG(T, L, M, V, S)                                                 \
  AOT_INLINE Reg<T, L> r_sqrt(Reg<T, L> a) { return (Reg<T, L>)M##_sqrt_##S((V)a); } \
  AOT_INLINE Reg<T, L> r_min(Reg<T, L> a, Reg<T, L> b) {                             \
    return (Reg<T, L>)M##_min_##S((V)a, (V)b);                                       \
  }                                                                                  \
  AOT_INLINE Reg<T, L> r_max(Reg<T, L> a, Reg<T, L> b) {                             \
    return (Reg<T, L>)M##_max_##S((V)a, (V)b);                                       \
  }
#define AOT_FLOAT_ROUND(T, L, M, V, S, NAME)        \
  template <int Mode>                               \
  AOT_INLINE Reg<T, L> r_round(Reg<T, L> a) {       \
    return (Reg<T, L>)M##_##NAME##_##S((V)a, Mode); \
  }
#define AOT_FLOAT_FMA(T, L, M, V, S)                                   \
  AOT_INLINE Reg<T, L> r_fma(Reg<T, L> a, Reg<T, L> b, Reg<T, L> c) {  \
    return (Reg<T, L>)M##_fmadd_##S((V)a, (V)b, (V)c);                 \
  }                                                                    \
  AOT_INLINE Reg<T, L> r_fnma(Reg<T, L> a, Reg<T, L> b, Reg<T, L> c) { \
    return (Reg<T, L>)M##_fnmadd_##S((V)a, (V)b, (V)c);                \
  }
// Lane masks (below AVX-512): every lane all ones or all zeros.
#define AOT_LANE_BLEND(T, L, M, V, S)                                             \
  AOT_INLINE Reg<T, L> r_blend(Reg<SignedOf<T>, L> m, Reg<T, L> a, Reg<T, L> b) { \
    return (Reg<T, L>)M##_blendv_##S((V)b, (V)a, (V)m);                           \
  }
// Bit masks (AVX-512).
#define AOT_MASK_FLOAT(T, L, M, V, S, K)                                                        \
  template <int Op>                                                                             \
  AOT_INLINE K r_cmp(Reg<T, L> a, Reg<T, L> b) {                                                \
    return (K)M##_cmp_##S##_mask((V)a, (V)b, kFloatPredicate<Op>);                              \
  }                                                                                             \
  AOT_INLINE Reg<T, L> r_select(uint64_t m, Reg<T, L> a, Reg<T, L> b) {                         \
    return (Reg<T, L>)M##_mask_blend_##S((K)m, (V)b, (V)a);                                     \
  }                                                                                             \
  AOT_INLINE Reg<T, L> r_scalef(Reg<T, L> a, Reg<T, L> b) {                                     \
    return (Reg<T, L>)M##_scalef_##S((V)a, (V)b);                                               \
  }                                                                                             \
  AOT_INLINE Reg<T, L> r_rsqrt14(Reg<T, L> a) { return (Reg<T, L>)M##_rsqrt14_##S((V)a); }      \
  AOT_INLINE Reg<T, L> r_scalef_where(K m, Reg<T, L> a, Reg<T, L> b) { /* else zero */          \
    return (Reg<T, L>)M##_maskz_scalef_##S(m, (V)a, (V)b);                                      \
  }                                                                                             \
  AOT_INLINE Reg<T, L> r_limit_abs(Reg<T, L> a, Reg<T, L> b) { /* a, its magnitude at most b */ \
    return (Reg<T, L>)M##_range_##S((V)a, (V)b, 2);                                             \
  }                                                                                             \
  AOT_INLINE Reg<T, L> r_getexp(Reg<T, L> a) { return (Reg<T, L>)M##_getexp_##S((V)a); }        \
  AOT_INLINE Reg<T, L> r_getmant(Reg<T, L> a) { /* mantissa in [0.75, 1.5) */                   \
    return (Reg<T, L>)M##_getmant_##S((V)a, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);         \
  }                                                                                             \
  template <int Kinds>                                                                          \
  AOT_INLINE K r_class(Reg<T, L> a) {                                                           \
    return (K)M##_fpclass_##S##_mask((V)a, Kinds);                                              \
  }
#define AOT_MASK_INT(T, L, M, V, C, S, K)                               \
  template <int Op>                                                     \
  AOT_INLINE K r_cmp(Reg<T, L> a, Reg<T, L> b) {                        \
    return (K)M##_cmp_##C##_mask((V)a, (V)b, Op);                       \
  }                                                                     \
  AOT_INLINE Reg<T, L> r_select(uint64_t m, Reg<T, L> a, Reg<T, L> b) { \
    return (Reg<T, L>)M##_mask_blend_##S((K)m, (V)b, (V)a);             \
  }

#define AOT_MASK_ALL(M, W, VF, VD, VI)                               \
  AOT_MASK_FLOAT(float, W / 32, M, VF, ps, __mmask##W##f)            \
  AOT_MASK_FLOAT(double, W / 64, M, VD, pd, __mmask8)                \
  AOT_MASK_INT(int64_t, W / 64, M, VI, epi64, epi64, __mmask8)       \
  AOT_MASK_INT(uint64_t, W / 64, M, VI, epu64, epi64, __mmask8)      \
  AOT_MASK_INT(int32_t, W / 32, M, VI, epi32, epi32, __mmask##W##f)  \
  AOT_MASK_INT(uint32_t, W / 32, M, VI, epu32, epi32, __mmask##W##f) \
  AOT_MASK_INT(int16_t, W / 16, M, VI, epi16, epi16, __mmask##W##h)  \
  AOT_MASK_INT(uint16_t, W / 16, M, VI, epu16, epi16, __mmask##W##h) \
  AOT_MASK_INT(int8_t, W / 8, M, VI, epi8, epi8, __mmask##W##b)      \
  AOT_MASK_INT(uint8_t, W / 8, M, VI, epu8, epi8, __mmask##W##b)

AOT_FLOAT_REG(float, 4, _mm, __m128, ps)
AOT_FLOAT_REG(double, 2, _mm, __m128d, pd)
#if AOT_ISA_LEVEL >= 3
AOT_FLOAT_REG(float, 8, _mm256, __m256, ps)
AOT_FLOAT_REG(double, 4, _mm256, __m256d, pd)
AOT_FLOAT_FMA(float, 4, _mm, __m128, ps)
AOT_FLOAT_FMA(double, 2, _mm, __m128d, pd)
AOT_FLOAT_FMA(float, 8, _mm256, __m256, ps)
AOT_FLOAT_FMA(double, 4, _mm256, __m256d, pd)
#endif
#if AOT_ISA_LEVEL >= 4
AOT_FLOAT_REG(float, 16, _mm512, __m512, ps)
AOT_FLOAT_REG(double, 8, _mm512, __m512d, pd)
AOT_FLOAT_FMA(float, 16, _mm512, __m512, ps)
AOT_FLOAT_FMA(double, 8, _mm512, __m512d, pd)
AOT_FLOAT_ROUND(float, 4, _mm, __m128, ps, roundscale)
AOT_FLOAT_ROUND(double, 2, _mm, __m128d, pd, roundscale)
AOT_FLOAT_ROUND(float, 8, _mm256, __m256, ps, roundscale)
AOT_FLOAT_ROUND(double, 4, _mm256, __m256d, pd, roundscale)
AOT_FLOAT_ROUND(float, 16, _mm512, __m512, ps, roundscale)
AOT_FLOAT_ROUND(double, 8, _mm512, __m512d, pd, roundscale)
using __mmask128f = __mmask8;
using __mmask256f = __mmask8;
using __mmask512f = __mmask16;
using __mmask128h = __mmask8;
using __mmask256h = __mmask16;
using __mmask512h = __mmask32;
using __mmask128b = __mmask16;
using __mmask256b = __mmask32;
using __mmask512b = __mmask64;
AOT_MASK_ALL(_mm, 128, __m128, __m128d, __m128i)
AOT_MASK_ALL(_mm256, 256, __m256, __m256d, __m256i)
AOT_MASK_ALL(_mm512, 512, __m512, __m512d, __m512i)
#else
AOT_FLOAT_ROUND(float, 4, _mm, __m128, ps, round)
AOT_FLOAT_ROUND(double, 2, _mm, __m128d, pd, round)
AOT_LANE_BLEND(float, 4, _mm, __m128, ps)
AOT_LANE_BLEND(double, 2, _mm, __m128d, pd)
AOT_LANE_BLEND(int64_t, 2, _mm, __m128i, epi8)
AOT_LANE_BLEND(uint64_t, 2, _mm, __m128i, epi8)
AOT_LANE_BLEND(int32_t, 4, _mm, __m128i, epi8)
AOT_LANE_BLEND(uint32_t, 4, _mm, __m128i, epi8)
AOT_LANE_BLEND(int16_t, 8, _mm, __m128i, epi8)
AOT_LANE_BLEND(uint16_t, 8, _mm, __m128i, epi8)
AOT_LANE_BLEND(int8_t, 16, _mm, __m128i, epi8)
AOT_LANE_BLEND(uint8_t, 16, _mm, __m128i, epi8)
#if AOT_ISA_LEVEL == 3
AOT_FLOAT_ROUND(float, 8, _mm256, __m256, ps, round)
AOT_FLOAT_ROUND(double, 4, _mm256, __m256d, pd, round)
AOT_LANE_BLEND(float, 8, _mm256, __m256, ps)
AOT_LANE_BLEND(double, 4, _mm256, __m256d, pd)
AOT_LANE_BLEND(int64_t, 4, _mm256, __m256i, epi8)
AOT_LANE_BLEND(uint64_t, 4, _mm256, __m256i, epi8)
AOT_LANE_BLEND(int32_t, 8, _mm256, __m256i, epi8)
AOT_LANE_BLEND(uint32_t, 8, _mm256, __m256i, epi8)
AOT_LANE_BLEND(int16_t, 16, _mm256, __m256i, epi8)
AOT_LANE_BLEND(uint16_t, 16, _mm256, __m256i, epi8)
AOT_LANE_BLEND(int8_t, 32, _mm256, __m256i, epi8)
AOT_LANE_BLEND(uint8_t, 32, _mm256, __m256i, epi8)
#endif
#endif

#undef AOT_FLOAT_REG
#undef AOT_FLOAT_ROUND
#undef AOT_FLOAT_FMA
#undef AOT_LANE_BLEND
#undef AOT_MASK_FLOAT
#undef AOT_MASK_INT
#undef AOT_MASK_ALL

// The halves of a register of N meaningful lanes, and the way back. Registers narrower than 16
// bytes live in the low end of a 16-byte one.
template <int Bytes>  // meaningful bytes of the whole
struct Halves;
#define AOT_SMALL_HALVES(BYTES, UNPACK)                                                          \
  template <>                                                                                    \
  struct Halves<BYTES> {                                                                         \
    AOT_MEMBER static __m128i hi(__m128i a) { return _mm_srli_si128(a, BYTES / 2); }             \
    AOT_MEMBER static __m128i lo(__m128i a) { return a; }                                        \
    AOT_MEMBER static __m128i join(__m128i l, __m128i h) { return _mm_unpacklo_##UNPACK(l, h); } \
  }
AOT_SMALL_HALVES(2, epi8);
AOT_SMALL_HALVES(4, epi16);
AOT_SMALL_HALVES(8, epi32);
AOT_SMALL_HALVES(16, epi64);
#undef AOT_SMALL_HALVES
#if AOT_ISA_LEVEL >= 3
template <>
struct Halves<32> {
  AOT_MEMBER static __m128i lo(__m256i a) { return _mm256_castsi256_si128(a); }
  AOT_MEMBER static __m128i hi(__m256i a) { return _mm256_extracti128_si256(a, 1); }
  AOT_MEMBER static __m256i join(__m128i l, __m128i h) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(l), h, 1);
  }
};
#endif
#if AOT_ISA_LEVEL >= 4
template <>
struct Halves<64> {
  AOT_MEMBER static __m256i lo(__m512i a) { return _mm512_castsi512_si256(a); }
  AOT_MEMBER static __m256i hi(__m512i a) { return _mm512_extracti64x4_epi64(a, 1); }
  AOT_MEMBER static __m512i join(__m256i l, __m256i h) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(l), h, 1);
  }
};
#endif

}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_REG_H_
