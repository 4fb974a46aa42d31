// bfloat16 and IEEE float16: widening from and rounding to their 16-bit storage.
#ifndef AOT_VEC_HALF_H_
#define AOT_VEC_HALF_H_

#include "aot/vec/mask.h"

namespace aot {
namespace detail {

template <int N>
AOT_INLINE Vec<float, N> bf16_to_float(Vec<uint16_t, N> h) {
  return bitcast<float>(convert<int32_t>(h) << 16);
}

// Round to nearest, ties to even; every NaN becomes 0x7fc0, as in PyTorch.
template <int N>
AOT_INLINE Vec<uint16_t, N> float_to_bf16(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (N == 16) {
    // A bit more where the last one that stays is set, and the upper words in one permutation.
    const __m512i bits = (__m512i)x.r, half = _mm512_set1_epi32(0x7fff);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i even = _mm512_add_epi32(bits, half);
    __m512i rounded = _mm512_mask_add_epi32(even, odd, bits, _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x.r, (__m512)x.r, _CMP_UNORD_Q);
    rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc00000));
    Reg<uint16_t, 32> upper;
    for (int i = 0; i < 32; ++i) upper[i] = uint16_t(2 * (i % 16) + 1);
    const __m512i words = _mm512_maskz_permutexvar_epi16(0xffffffff, (__m512i)upper, rounded);
    __m256i low;
    __builtin_memcpy(&low, &words, sizeof(low));
    return Vec<uint16_t, N>::of((Reg<uint16_t, 16>)low);
  }
#endif
  const Vec<uint32_t, N> bits = bitcast<uint32_t>(x);
  const Vec<uint32_t, N> odd = (bits >> 16) & 1u;
  const Vec<uint32_t, N> rounded = (bits + 0x7fffu + odd) >> 16;
  const auto out = bitcast<int32_t>(select(x != x, 0x7fc0u, rounded));
#if AOT_ISA_LEVEL < 4
  if constexpr (kPacks<int32_t, uint16_t, N>) return pack<uint16_t>(out);
#endif
  return convert<uint16_t>(out);
}

#if AOT_ISA_LEVEL >= 3
AOT_INLINE Reg<float, 4> f16_widen(Reg<uint16_t, 8> h, Reg<float, 4>) {
  return (Reg<float, 4>)_mm_cvtph_ps((__m128i)h);
}
AOT_INLINE Reg<float, 8> f16_widen(Reg<uint16_t, 8> h, Reg<float, 8>) {
  return (Reg<float, 8>)_mm256_cvtph_ps((__m128i)h);
}
AOT_INLINE Reg<uint16_t, 8> f16_round(Reg<float, 4> x) {
  return (Reg<uint16_t, 8>)_mm_cvtps_ph((__m128)x, _MM_FROUND_TO_NEAREST_INT);
}
AOT_INLINE Reg<uint16_t, 8> f16_round(Reg<float, 8> x) {
  return (Reg<uint16_t, 8>)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
}
#if AOT_ISA_LEVEL >= 4
AOT_INLINE Reg<float, 16> f16_widen(Reg<uint16_t, 16> h, Reg<float, 16>) {
  return (Reg<float, 16>)_mm512_cvtph_ps((__m256i)h);
}
AOT_INLINE Reg<uint16_t, 16> f16_round(Reg<float, 16> x) {
  return (Reg<uint16_t, 16>)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
}
#endif

template <int N>
AOT_INLINE Vec<float, N> f16_to_float(Vec<uint16_t, N> h) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(f16_to_float(lo_half(h)), f16_to_float(hi_half(h)));
  } else {
    return Vec<float, N>::of(f16_widen(h.r, typename Vec<float, N>::R{}));
  }
}
template <int N>
AOT_INLINE Vec<uint16_t, N> float_to_f16(Vec<float, N> x) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(float_to_f16(x.lo), float_to_f16(x.hi));
  } else {
    return Vec<uint16_t, N>::of(f16_round(x.r));
  }
}
#else
// The multiplication by 2^112 rebases the exponent of normal and subnormal values alike.
template <int N>
AOT_INLINE Vec<float, N> f16_to_float(Vec<uint16_t, N> half) {
  const Vec<int32_t, N> h = convert<int32_t>(half);
  const Vec<int32_t, N> sign = (h & 0x8000) << 16;
  const Vec<int32_t, N> magnitude = (h & 0x7fff) << 13;
  const Vec<int32_t, N> finite = bitcast<int32_t>(bitcast<float>(magnitude) * 0x1p112f);
  const Vec<int32_t, N> special = magnitude | 0x7f800000;
  return bitcast<float>(sign | select((h & 0x7c00) == 0x7c00, special, finite));
}
template <int N>
AOT_INLINE Vec<uint16_t, N> float_to_f16(Vec<float, N> x) {
  const Vec<int32_t, N> bits = bitcast<int32_t>(x);
  const Vec<int32_t, N> sign = (bits >> 16) & 0x8000;
  const Vec<int32_t, N> a = bits & 0x7fffffff;
  // Adding 0.5 puts the units of a subnormal half at the end of the mantissa, rounded to even.
  const Vec<int32_t, N> tiny =
      bitcast<int32_t>(bitcast<float>(a) + 0.5f) - Vec<int32_t, N>(0x3f000000);
  const Vec<int32_t, N> normal = (a - Vec<int32_t, N>((112 << 23) - 0xfff) + ((a >> 13) & 1)) >> 13;
  Vec<int32_t, N> out = select(a < 0x38800000, tiny, normal);
  out = select(a >= 0x477ff000, Vec<int32_t, N>(0x7c00), out);  // 65520 and more round to inf
  out = select(a > 0x7f800000, ((a >> 13) & 0x3ff) | 0x7e00, out);
  return convert<uint16_t>(out | sign);
}
#endif

// Element types in memory: Raw is what registers hold of them.
template <class S>
struct Storage {
  using Raw = S;
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<S, N> v) {
    return convert<T>(v);
  }
  template <class T, int N>
  AOT_MEMBER static Vec<S, N> narrow(Vec<T, N> v) {
    return convert<S>(v);
  }
};
template <>
struct Storage<bool> {
  using Raw = uint8_t;
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<uint8_t, N> v) {
    return convert<T>(v);
  }
  template <class T, int N>
  AOT_MEMBER static Vec<uint8_t, N> narrow(Vec<T, N> v) {
    return from_mask<uint8_t>(to_mask(v));
  }
};
template <>
struct Storage<bf16> {
  using Raw = uint16_t;
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<uint16_t, N> v) {
    return convert<T>(bf16_to_float(v));
  }
  template <class T, int N>
  AOT_MEMBER static Vec<uint16_t, N> narrow(Vec<T, N> v) {
    return float_to_bf16(convert<float>(v));
  }
};
template <>
struct Storage<f16> {
  using Raw = uint16_t;
  template <class T, int N>
  AOT_MEMBER static Vec<T, N> widen(Vec<uint16_t, N> v) {
    return convert<T>(f16_to_float(v));
  }
  template <class T, int N>
  AOT_MEMBER static Vec<uint16_t, N> narrow(Vec<T, N> v) {
    return float_to_f16(convert<float>(v));
  }
};

}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_HALF_H_
