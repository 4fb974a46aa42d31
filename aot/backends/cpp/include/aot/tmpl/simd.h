// Vectors of one panel width or less, for the matrix templates.
//
// A packed matrix is a row of panels, each 16 columns wide whatever the machine. Simd<T> gives the
// widest vector of T that the ISA level has and that divides a panel; kPerPanel of them make one.
// All functions are unaligned, total, and compile to single instructions.
#ifndef AOT_TMPL_SIMD_H_
#define AOT_TMPL_SIMD_H_

#include <stdint.h>

#include <type_traits>
#include <utility>

#include "aot/vec/intrinsics.h"

#if !defined(AOT_INLINE)
#define AOT_INLINE inline __attribute__((always_inline))
#endif
// Of such a function a library has one copy, whichever kernels call it: units do not change it.
#if defined(__clang__)
#define AOT_SHARED __attribute__((noinline))
#else
#define AOT_SHARED __attribute__((noinline, noclone))
#endif
// Register arrays live in registers only when every loop over them is unrolled completely.
#if defined(__clang__)
#define AOT_UNROLL _Pragma("clang loop unroll(full)")
#define AOT_UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define AOT_UNROLL _Pragma("GCC unroll 64")
#define AOT_UNROLL_4 _Pragma("GCC unroll 4")
#endif

namespace aot::tmpl {

inline constexpr int64_t kPanel = 16;  // columns of a panel: the packed layout of every ISA level

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kVectorRegisters = 32;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kVectorRegisters = 16;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kVectorRegisters = 16;
#endif

// Strips are low then, so that B is read often; and most such machines have 32 KiB of the first
// level of cache.
inline constexpr bool kFewRegisters = kVectorRegisters < 32;

// Storage-only 16-bit floats: bits as they lie in memory. Arithmetic happens in float.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <class T>
struct Simd {
  static constexpr int kLanes =
      kVectorBytes / int(sizeof(T)) < int(kPanel) ? kVectorBytes / int(sizeof(T)) : int(kPanel);
  static constexpr int kPerPanel = int(kPanel) / kLanes;
  typedef T V __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T Unaligned
      __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
  typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));  // 16 and 32 bits a lane
  typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));

  static AOT_INLINE V zero() { return V{}; }
  static AOT_INLINE V set1(T x) { return x - V{}; }
  static AOT_INLINE V load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static AOT_INLINE void store(T* p, V v) { *reinterpret_cast<Unaligned*>(p) = v; }
  // a > b ? a : b, so that a NaN in b passes. Floats only.
  static AOT_INLINE V max(V a, V b) {
    static_assert(std::is_floating_point_v<T>);
#if defined(__AVX512F__)
    // With a full mask: g++ 12 warns about the undefined operand inside the unmasked ones.
    if constexpr (sizeof(T) == 4) {
      return V(_mm512_mask_max_ps(__m512(a), 0xffff, __m512(a), __m512(b)));
    }
    if constexpr (sizeof(T) == 8) {
      return V(_mm512_mask_max_pd(__m512d(a), 0xff, __m512d(a), __m512d(b)));
    }
#elif defined(__AVX__)
    if constexpr (sizeof(T) == 4) return V(_mm256_max_ps(__m256(a), __m256(b)));
    if constexpr (sizeof(T) == 8) return V(_mm256_max_pd(__m256d(a), __m256d(b)));
#else
    if constexpr (sizeof(T) == 4) return V(_mm_max_ps(__m128(a), __m128(b)));
    if constexpr (sizeof(T) == 8) return V(_mm_max_pd(__m128d(a), __m128d(b)));
#endif
  }
  // Lane l of the result is lane l ^ H of v.
  template <int H>
  static AOT_INLINE V swap_lanes(V v) {
    return permute<H>(v, std::make_integer_sequence<int, kLanes>{});
  }
  template <int H, int... L>
  static AOT_INLINE V permute(V v, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(v, v, (L ^ H)...);
  }
  // op over all lanes, pairwise.
  template <int H = kLanes / 2, class Op>
  static AOT_INLINE T reduce(V v, const Op& op) {
    if constexpr (H == 0) {
      return v[0];
    } else {
      return reduce<H / 2>(op(v, swap_lanes<H>(v)), op);
    }
  }
  // a * b + c; one rounding where the machine has a fused multiply-add. Integers wrap.
  static AOT_INLINE V fma(V a, V b, V c) {
    if constexpr (std::is_same_v<T, float>) {
#if defined(__AVX512F__)
      return V(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c)));
#elif defined(__FMA__)
      return V(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#else
      return a * b + c;
#endif
    } else if constexpr (std::is_same_v<T, double>) {
#if defined(__AVX512F__)
      return V(_mm512_fmadd_pd(__m512d(a), __m512d(b), __m512d(c)));
#elif defined(__FMA__)
      return V(_mm256_fmadd_pd(__m256d(a), __m256d(b), __m256d(c)));
#else
      return a * b + c;
#endif
    } else {
      return a * b + c;
    }
  }
};

AOT_INLINE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
AOT_INLINE constexpr int64_t round_up(int64_t a, int64_t b) { return (a + b - 1) / b * b; }
AOT_INLINE constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
AOT_INLINE constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// One element of a storage type as its compute type (16-bit floats widen to float).
template <class S>
struct Compute {
  using type = S;
};
template <>
struct Compute<Bf16> {
  using type = float;
};
template <>
struct Compute<F16> {
  using type = float;
};
template <class S>
using compute_t = typename Compute<S>::type;

AOT_INLINE float widen(Bf16 x) {
  uint32_t bits = uint32_t(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  return f;
}

AOT_INLINE float widen(F16 x) {
#if defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(x.bits)));
#else
  // Shift the fields into place and let a multiplication by 2^112 rebias the exponent: it also
  // normalises subnormals. Infinities and NaNs get the exponent that the product cannot reach.
  const uint32_t sign = uint32_t(x.bits & 0x8000u) << 16;
  uint32_t bits = uint32_t(x.bits & 0x7fffu) << 13;
  float f;
  __builtin_memcpy(&f, &bits, 4);
  f *= 0x1p112f;
  __builtin_memcpy(&bits, &f, 4);
  if ((x.bits & 0x7c00u) == 0x7c00u) bits |= 0x7f800000u;
  bits |= sign;
  __builtin_memcpy(&f, &bits, 4);
  return f;
#endif
}

template <class T>
AOT_INLINE T widen(T x) {
  return x;
}

// 16-bit elements, one in each 32-bit lane. Compilers widen a vector of them in halves.
AOT_INLINE Simd<float>::Words load_words(const void* at) {
#if defined(__AVX512F__)
  return Simd<float>::Words(
      _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(static_cast<const __m256i*>(at))));
#elif defined(__AVX2__)
  return Simd<float>::Words(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(at))));
#else
  Simd<float>::Halves bits;
  __builtin_memcpy(&bits, at, sizeof(bits));
  return __builtin_convertvector(bits, Simd<float>::Words);
#endif
}

// One vector of T from elements of a storage type.
template <class T, class S>
AOT_INLINE typename Simd<T>::V load_widened(const S* at) {
  if constexpr (std::is_same_v<S, T>) {
    return Simd<T>::load(at);
  } else if constexpr (std::is_same_v<S, Bf16>) {
    return typename Simd<T>::V(load_words(at) << 16);
  } else {
    static_assert(std::is_same_v<S, F16>);
#if defined(__AVX512F__)
    return typename Simd<T>::V(
        _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))));
#elif defined(__F16C__)
    return
        typename Simd<T>::V(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at))));
#else
    typename Simd<T>::V v{};
    for (int i = 0; i < Simd<T>::kLanes; ++i) v[i] = widen(at[i]);
    return v;
#endif
  }
}

// One vector of T as elements of a storage type: rounded to nearest, ties to even; NaN stays.
template <class T>
AOT_INLINE void store_rounded(T* out, typename Simd<T>::V v) {
  Simd<T>::store(out, v);
}
AOT_INLINE void store_rounded(Bf16* out, Simd<float>::V v) {
  using S = Simd<float>;
  const S::Words bits = S::Words(v), nan = S::Words(v != v);
  const S::Words rounded = (bits + (0x7fff + (bits >> 16 & 1))) >> 16;
  const auto halves = __builtin_convertvector((rounded & ~nan) | (0x7fc0 & nan), S::Halves);
  __builtin_memcpy(out, &halves, sizeof(halves));
}

// The first n of a vector's elements, which alone exist, and zeros; all of them for n = lanes.
template <class T, class S>
AOT_INLINE typename Simd<T>::V load_first(const S* at, int64_t n) {
  if (n == Simd<T>::kLanes) return load_widened<T>(at);
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<S, float>) {
    return typename Simd<T>::V(_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), at));
  }
  if constexpr (std::is_same_v<S, double>) {
    return typename Simd<T>::V(_mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), at));
  }
  if constexpr (std::is_same_v<S, Bf16> || std::is_same_v<S, F16>) {
    const __m256i bits = _mm256_maskz_loadu_epi16(__mmask16((1u << n) - 1), at);
    if constexpr (std::is_same_v<S, F16>) {
      return typename Simd<T>::V(_mm512_maskz_cvtph_ps(0xffff, bits));
    }
    const auto words = typename Simd<T>::Words(_mm512_maskz_cvtepu16_epi32(0xffff, bits));
    return typename Simd<T>::V(words << 16);
  }
#endif
  S part[Simd<T>::kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = at[i];
  return load_widened<T>(part);
}

// Stores the first n of a vector's elements, and nothing else.
template <class T>
AOT_INLINE void store_first(T* to, int64_t n, typename Simd<T>::V v) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float>) {
    return _mm512_mask_storeu_ps(to, __mmask16((1u << n) - 1), __m512(v));
  }
  if constexpr (std::is_same_v<T, double>) {
    return _mm512_mask_storeu_pd(to, __mmask8((1u << n) - 1), __m512d(v));
  }
#endif
  for (int64_t i = 0; i < n; ++i) to[i] = v[i];
}

// Whether this level loads and stores the first elements of a vector in an instruction or two.
template <class T>
inline constexpr bool kTakesFirst =
#if defined(__AVX512F__)
    std::is_floating_point_v<T>;
#else
    false;
#endif

// out[i] = in[i], widened, for i < n. The loops of this kind are spelled in vectors, because
// kernels are compiled at -O2, where compilers leave loops of unknown length scalar.
template <class S, class T>
AOT_INLINE void widen_row(const S* in, int64_t n, T* out) {
  const int64_t whole = n - n % Simd<T>::kLanes;
  for (int64_t i = 0; i < whole; i += Simd<T>::kLanes) {
    Simd<T>::store(out + i, load_widened<T>(in + i));
  }
  if constexpr (kTakesFirst<T>) {
    if (whole < n) store_first(out + whole, n - whole, load_first<T>(in + whole, n - whole));
    return;
  }
  for (int64_t i = whole; i < n; ++i) out[i] = widen(in[i]);
}

// out[i] = 0 for i < n; all bits clear is zero in every type.
template <class T>
AOT_INLINE void zero_row(T* out, int64_t n) {
  __builtin_memset(out, 0, uint64_t(n) * sizeof(T));
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SIMD_H_
