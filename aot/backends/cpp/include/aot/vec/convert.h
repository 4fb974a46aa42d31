// Conversions between lane types: convert<B>(Vec<A, N>).
#ifndef AOT_VEC_CONVERT_H_
#define AOT_VEC_CONVERT_H_

#include "aot/vec/type.h"

namespace aot {

template <class B, class A, int N>
AOT_INLINE Vec<B, N> convert(Vec<A, N> v);

namespace detail {

// One register to one register. W is the width in bytes of the wider of the two; the narrower one
// has W * (size ratio) bytes, at least 16.
template <class A, class B, int W>
struct CvtReg;

constexpr int at_least_16(int bytes) { return bytes < 16 ? 16 : bytes; }
template <class A, class B, int W>
struct CvtTypes {
  static constexpr int kWide = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
  using In = Reg<A, at_least_16(W* static_cast<int>(sizeof(A)) / kWide) / sizeof(A)>;
  using Out = Reg<B, at_least_16(W* static_cast<int>(sizeof(B)) / kWide) / sizeof(B)>;
};
#define AOT_CVT(A, B, W, IN, EXPR)             \
  template <>                                  \
  struct CvtReg<A, B, W> : CvtTypes<A, B, W> { \
    AOT_MEMBER static Out run(In reg) {        \
      const IN a = (IN)reg;                    \
      return (Out)(EXPR);                      \
    }                                          \
  };

#if AOT_ISA_LEVEL >= 4
#define AOT_WIDEN(A, B, NAME, IN512)              \
  AOT_CVT(A, B, 16, __m128i, _mm_cvt##NAME(a))    \
  AOT_CVT(A, B, 32, __m128i, _mm256_cvt##NAME(a)) \
  AOT_CVT(A, B, 64, IN512, _mm512_cvt##NAME(a))
#elif AOT_ISA_LEVEL == 3
#define AOT_WIDEN(A, B, NAME, IN512)           \
  AOT_CVT(A, B, 16, __m128i, _mm_cvt##NAME(a)) \
  AOT_CVT(A, B, 32, __m128i, _mm256_cvt##NAME(a))
#else
#define AOT_WIDEN(A, B, NAME, IN512) AOT_CVT(A, B, 16, __m128i, _mm_cvt##NAME(a))
#endif
AOT_WIDEN(uint8_t, int16_t, epu8_epi16, __m256i)
AOT_WIDEN(uint8_t, uint16_t, epu8_epi16, __m256i)
AOT_WIDEN(uint8_t, int32_t, epu8_epi32, __m128i)
AOT_WIDEN(uint8_t, int64_t, epu8_epi64, __m128i)
AOT_WIDEN(int8_t, int16_t, epi8_epi16, __m256i)
AOT_WIDEN(int8_t, uint16_t, epi8_epi16, __m256i)
AOT_WIDEN(int8_t, int32_t, epi8_epi32, __m128i)
AOT_WIDEN(int8_t, int64_t, epi8_epi64, __m128i)
AOT_WIDEN(uint16_t, int32_t, epu16_epi32, __m256i)
AOT_WIDEN(uint16_t, int64_t, epu16_epi64, __m128i)
AOT_WIDEN(int16_t, int32_t, epi16_epi32, __m256i)
AOT_WIDEN(int16_t, int64_t, epi16_epi64, __m128i)
AOT_WIDEN(int32_t, int64_t, epi32_epi64, __m256i)
AOT_WIDEN(uint32_t, int64_t, epu32_epi64, __m256i)
#undef AOT_WIDEN

// Narrowing keeps the low bits.
#if AOT_ISA_LEVEL >= 4
#define AOT_NARROW(A, B, NAME)                    \
  AOT_CVT(A, B, 16, __m128i, _mm_cvt##NAME(a))    \
  AOT_CVT(A, B, 32, __m256i, _mm256_cvt##NAME(a)) \
  AOT_CVT(A, B, 64, __m512i, _mm512_cvt##NAME(a))
#else
// Byte order that packs the low To bytes of every From bytes to the front.
template <int From, int To>
AOT_INLINE __m128i narrow16(__m128i a) {
  Reg<int8_t, 16> order;
  AOT_UNROLL
  for (int i = 0; i < 16; ++i) {
    order[i] = static_cast<int8_t>(i < 16 / From * To ? i / To * From + i % To : -128);
  }
  return _mm_shuffle_epi8(a, (__m128i)order);
}
#if AOT_ISA_LEVEL == 3
template <int From, int To>
AOT_INLINE __m128i narrow32(__m256i a) {
  if constexpr (From == 8 && To == 4) {
    const __m256i pick = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    return _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(a, pick));
  } else {
    const __m128i l = narrow16<From, To>(_mm256_castsi256_si128(a));
    const __m128i h = narrow16<From, To>(_mm256_extracti128_si256(a, 1));
    return From / To == 2   ? _mm_unpacklo_epi64(l, h)
           : From / To == 4 ? _mm_unpacklo_epi32(l, h)
                            : _mm_unpacklo_epi16(l, h);
  }
}
#define AOT_NARROW(A, B, NAME)                                    \
  AOT_CVT(A, B, 16, __m128i, (narrow16<sizeof(A), sizeof(B)>(a))) \
  AOT_CVT(A, B, 32, __m256i, (narrow32<sizeof(A), sizeof(B)>(a)))
#else
#define AOT_NARROW(A, B, NAME) AOT_CVT(A, B, 16, __m128i, (narrow16<sizeof(A), sizeof(B)>(a)))
#endif
#endif
AOT_NARROW(int64_t, int32_t, epi64_epi32)
AOT_NARROW(int64_t, int16_t, epi64_epi16)
AOT_NARROW(int64_t, uint16_t, epi64_epi16)
AOT_NARROW(int64_t, int8_t, epi64_epi8)
AOT_NARROW(int64_t, uint8_t, epi64_epi8)
AOT_NARROW(int32_t, int16_t, epi32_epi16)
AOT_NARROW(int32_t, uint16_t, epi32_epi16)
AOT_NARROW(int32_t, int8_t, epi32_epi8)
AOT_NARROW(int32_t, uint8_t, epi32_epi8)
AOT_NARROW(int16_t, int8_t, epi16_epi8)
AOT_NARROW(int16_t, uint8_t, epi16_epi8)
AOT_NARROW(uint16_t, int8_t, epi16_epi8)
AOT_NARROW(uint16_t, uint8_t, epi16_epi8)
#undef AOT_NARROW

AOT_CVT(int32_t, float, 16, __m128i, _mm_cvtepi32_ps(a))
AOT_CVT(float, int32_t, 16, __m128, _mm_cvttps_epi32(a))
AOT_CVT(int32_t, double, 16, __m128i, _mm_cvtepi32_pd(a))
AOT_CVT(double, int32_t, 16, __m128d, _mm_cvttpd_epi32(a))
AOT_CVT(float, double, 16, __m128, _mm_cvtps_pd(a))
AOT_CVT(double, float, 16, __m128d, _mm_cvtpd_ps(a))
#if AOT_ISA_LEVEL >= 3
AOT_CVT(int32_t, float, 32, __m256i, _mm256_cvtepi32_ps(a))
AOT_CVT(float, int32_t, 32, __m256, _mm256_cvttps_epi32(a))
AOT_CVT(int32_t, double, 32, __m128i, _mm256_cvtepi32_pd(a))
AOT_CVT(double, int32_t, 32, __m256d, _mm256_cvttpd_epi32(a))
AOT_CVT(float, double, 32, __m128, _mm256_cvtps_pd(a))
AOT_CVT(double, float, 32, __m256d, _mm256_cvtpd_ps(a))
#endif
#if AOT_ISA_LEVEL >= 4
AOT_CVT(int32_t, float, 64, __m512i, _mm512_cvtepi32_ps(a))
AOT_CVT(float, int32_t, 64, __m512, _mm512_cvttps_epi32(a))
AOT_CVT(int32_t, double, 64, __m256i, _mm512_cvtepi32_pd(a))
AOT_CVT(double, int32_t, 64, __m512d, _mm512_cvttpd_epi32(a))
AOT_CVT(float, double, 64, __m256, _mm512_cvtps_pd(a))
AOT_CVT(double, float, 64, __m512d, _mm512_cvtpd_ps(a))
AOT_CVT(int64_t, float, 16, __m128i, _mm_cvtepi64_ps(a))
AOT_CVT(float, int64_t, 16, __m128, _mm_cvttps_epi64(a))
AOT_CVT(int64_t, double, 16, __m128i, _mm_cvtepi64_pd(a))
AOT_CVT(double, int64_t, 16, __m128d, _mm_cvttpd_epi64(a))
AOT_CVT(int64_t, float, 32, __m256i, _mm256_cvtepi64_ps(a))
AOT_CVT(float, int64_t, 32, __m128, _mm256_cvttps_epi64(a))
AOT_CVT(int64_t, double, 32, __m256i, _mm256_cvtepi64_pd(a))
AOT_CVT(double, int64_t, 32, __m256d, _mm256_cvttpd_epi64(a))
AOT_CVT(int64_t, float, 64, __m512i, _mm512_cvtepi64_ps(a))
AOT_CVT(float, int64_t, 64, __m256, _mm512_cvttps_epi64(a))
AOT_CVT(int64_t, double, 64, __m512i, _mm512_cvtepi64_pd(a))
AOT_CVT(double, int64_t, 64, __m512d, _mm512_cvttpd_epi64(a))
#else
// Without AVX-512DQ the 64-bit integer conversions run lane by lane, except int64 -> double.
template <class A, class B, int W>
AOT_INLINE typename CvtTypes<A, B, W>::Out cvt_lanes(typename CvtTypes<A, B, W>::In a) {
  typename CvtTypes<A, B, W>::Out out{};
  AOT_UNROLL
  for (int i = 0; i < W / 8; ++i) out[i] = static_cast<B>(a[i]);
  return out;
}
// The low 32 bits become the mantissa of 2^52 + lo, the high ones that of 2^84 + 2^63 + hi * 2^32;
// removing the offsets leaves one rounding, in the last addition.
template <int L>
AOT_INLINE Reg<double, L> int64_to_double(Reg<int64_t, L> a) {
  using U = Reg<uint64_t, L>;
  const U bits = (U)a;
  const U lo = (bits & 0xffffffffu) | 0x4330000000000000u;
  const U hi = (bits >> 32) ^ 0x4530000080000000u;
  const Reg<double, L> offset = (Reg<double, L>)(U{} + 0x4530000080100000u);
  return ((Reg<double, L>)hi - offset) + (Reg<double, L>)lo;
}
#define AOT_CVT_LANES(W)                                              \
  AOT_CVT(int64_t, float, W, In, (cvt_lanes<int64_t, float, W>(a)))   \
  AOT_CVT(float, int64_t, W, In, (cvt_lanes<float, int64_t, W>(a)))   \
  AOT_CVT(double, int64_t, W, In, (cvt_lanes<double, int64_t, W>(a))) \
  AOT_CVT(int64_t, double, W, In, int64_to_double<W / 8>(a))
AOT_CVT_LANES(16)
#if AOT_ISA_LEVEL >= 3
AOT_CVT_LANES(32)
#endif
#undef AOT_CVT_LANES
#endif
#undef AOT_CVT

template <class T>
constexpr bool kIsSmallInt = !kIsFloat<T> && sizeof(T) < 4;
// The unsigned types that have no instructions of their own: their bits are converted as signed
// ones, where both mean the same.
template <class T>
constexpr bool kIsWideUnsigned = !kIsFloat<T> && !kIsSigned<T> && sizeof(T) >= 4;

#if AOT_ISA_LEVEL < 4
// Lanes as the low halves of their bits, of two registers at once: one instruction packs both,
// where each by itself takes three. (AVX-512 has an instruction that narrows a register.)
template <class A, class B, int N>
constexpr bool kPacks = !kIsFloat<A> && !kIsFloat<B> &&
                        sizeof(A) > sizeof(B) && N * sizeof(A) >= 2 * AOT_REG_BYTES;

// Of lanes of less than 8 bytes the bits above the low halves are zero.
template <class B, class A, int N>
AOT_INLINE Vec<B, N> pack_low(Vec<A, N> v) {
  using R = typename Vec<B, N>::R;
#if AOT_ISA_LEVEL == 3
  const auto l = (__m256i)v.lo.r, h = (__m256i)v.hi.r;
  const __m256i packed = sizeof(A) == 8   ? (__m256i)_mm256_shuffle_ps((__m256)l, (__m256)h, 0x88)
                         : sizeof(A) == 4 ? _mm256_packus_epi32(l, h)
                                          : _mm256_packus_epi16(l, h);
  return Vec<B, N>::of((R)_mm256_permute4x64_epi64(packed, 0xd8));
#else
  const auto l = (__m128i)v.lo.r, h = (__m128i)v.hi.r;
  return Vec<B, N>::of((R)(sizeof(A) == 8   ? (__m128i)_mm_shuffle_ps((__m128)l, (__m128)h, 0x88)
                           : sizeof(A) == 4 ? _mm_packus_epi32(l, h)
                                            : _mm_packus_epi16(l, h)));
#endif
}
// The same down to any width, of any number of registers.
template <class B, class A, int N>
AOT_INLINE Vec<B, N> pack(Vec<A, N> v) {
  using Half = typename IntOf<sizeof(A) / 2, true>::type;
  if constexpr (sizeof(A) == 8 && sizeof(B) < 4) {
    const auto low = UnsignedOf<B>(~UnsignedOf<B>{0});
    return pack<B>(pack<int32_t>(v) & static_cast<int32_t>(low));
  } else if constexpr (N * sizeof(A) < 2 * AOT_REG_BYTES) {
    return convert<B>(v);
  } else if constexpr (N * sizeof(A) > 2 * AOT_REG_BYTES) {
    const auto half = join(pack<Half>(v.lo), pack<Half>(v.hi));
    if constexpr (sizeof(Half) > sizeof(B)) {
      return pack<B>(half);
    } else {
      return bitcast<B>(half);
    }
  } else if constexpr (sizeof(Half) > sizeof(B)) {
    return pack<B>(pack_low<Half>(v));
  } else {
    return pack_low<B>(v);
  }
}
#endif

// uint64: halves of values from 2^63 on, whose last bit keeps what was lost above a tie.
template <class B, int N>
AOT_INLINE Vec<B, N> float_of_uint64(Vec<uint64_t, N> v);
// Values from 2^63 on less 2^63; all others as int64, of which the bits are kept.
template <class A, int N>
AOT_INLINE Vec<uint64_t, N> uint64_of_float(Vec<A, N> v);

}  // namespace detail

// C-like conversion of every lane, as PyTorch's `to` on CPU does it:
// - integer to narrower integer keeps the low bits; same width reinterprets;
// - float to integer truncates, to uint32 through int64, to uint64 as far as that reaches; NaN and
// values out of range give INT_MIN / INT64_MIN (the x86
//   "indefinite" value), and then the low bits of that for 8- and 16-bit targets: uint8(-1.0f) is
//   255, uint8(300.0f) is 44. float to 8/16 bits goes through int32, double to unsigned through
//   int64 as PyTorch's static_cast_with_inter_type does;
// - integer to float and double to float round to nearest even.
template <class B, class A, int N>
AOT_INLINE Vec<B, N> convert(Vec<A, N> v) {
  using detail::kIsFloat;
  using detail::kIsSmallInt;
  if constexpr (detail::kSame<A, B>) {
    return v;
  } else if constexpr (!kIsFloat<A> && !kIsFloat<B> && sizeof(A) == sizeof(B)) {
    return bitcast<B>(v);
  } else if constexpr (!kIsFloat<A> && detail::kIsWideUnsigned<B>) {
    return bitcast<B>(convert<detail::SignedOf<B>>(v));
  } else if constexpr (detail::kIsWideUnsigned<A> && !kIsFloat<B> && sizeof(B) < sizeof(A)) {
    return convert<B>(bitcast<detail::SignedOf<A>>(v));
  } else if constexpr (detail::kIsWideUnsigned<A> && kIsFloat<B>) {
    if constexpr (sizeof(A) == 4) {
      return convert<B>(convert<int64_t>(v));
    } else {
      return detail::float_of_uint64<B>(v);
    }
  } else if constexpr (kIsFloat<A> && detail::kIsWideUnsigned<B>) {
    if constexpr (sizeof(B) == 4) {
      return convert<B>(convert<int64_t>(v));
    } else {
      return detail::uint64_of_float(v);
    }
  } else if constexpr (kIsFloat<A> && kIsSmallInt<B>) {
    if constexpr (detail::kSame<A, double> && !detail::kIsSigned<B>) {
      return convert<B>(convert<int64_t>(v));
    } else {
      return convert<B>(convert<int32_t>(v));
    }
  } else if constexpr (kIsFloat<B> && kIsSmallInt<A>) {
    return convert<B>(convert<int32_t>(v));
#if AOT_ISA_LEVEL < 4
  } else if constexpr (detail::kPacks<A, B, N>) {
    if constexpr (sizeof(A) < 8) {
      const auto low = detail::UnsignedOf<B>(~detail::UnsignedOf<B>{0});
      return detail::pack<B>(v & static_cast<A>(low));
    } else {
      return detail::pack<B>(v);
    }
#endif
  } else if constexpr (Vec<A, N>::kSplit || Vec<B, N>::kSplit) {
    return join(convert<B>(lo_half(v)), convert<B>(hi_half(v)));
  } else {
    constexpr int kA = N * static_cast<int>(sizeof(A));
    constexpr int kB = N * static_cast<int>(sizeof(B));
    constexpr int kW = detail::at_least_16(kA > kB ? kA : kB);
    return Vec<B, N>::of(detail::CvtReg<A, B, kW>::run(v.r));
  }
}

}  // namespace aot

#endif  // AOT_VEC_CONVERT_H_
