// What the compiler was told about the machine (-march=x86-64-v2, -v3 or -v4), as macros and
// constants. Everything in aot/vec is freestanding: compiler builtins, intrinsics and a few
// libm symbols (called lane by lane for rare functions) are all that it needs.
#ifndef AOT_VEC_ISA_H_
#define AOT_VEC_ISA_H_

#include <stddef.h>
#include <stdint.h>

#include "aot/vec/intrinsics.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define AOT_ISA_LEVEL 4
#define AOT_REG_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define AOT_ISA_LEVEL 3
#define AOT_REG_BYTES 32
#elif defined(__SSE4_2__)
#define AOT_ISA_LEVEL 2
#define AOT_REG_BYTES 16
#else
#error "aot/vec needs at least -march=x86-64-v2"
#endif

// Forced inlining: a helper that stays a call would pass vectors through memory.
#define AOT_INLINE inline __attribute__((always_inline))
#define AOT_MEMBER inline __attribute__((always_inline))
#define AOT_UNROLL _Pragma("GCC unroll 64")
#define AOT_LIKELY(x) __builtin_expect(!!(x), 1)
#define AOT_UNLIKELY(x) __builtin_expect(!!(x), 0)

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wignored-attributes"  // __m512 as a template argument
#pragma GCC diagnostic ignored "-Wpsabi"               // never called across translation units
#endif

namespace aot {

// Lanes of T in one full register of this ISA level.
template <class T>
constexpr int native_lanes() {
  return AOT_REG_BYTES / static_cast<int>(sizeof(T));
}

// Half types exist in memory only: loads widen them, stores round them.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};

namespace detail {

template <class A, class B>
struct IsSame {
  static constexpr bool value = false;
};
template <class A>
struct IsSame<A, A> {
  static constexpr bool value = true;
};
template <class A, class B>
constexpr bool kSame = IsSame<A, B>::value;

// Blocks template deduction, so that `v * 2` converts 2 to the lane type of v.
template <class T>
struct NoDeduce {
  using type = T;
};
template <class T>
using Same = typename NoDeduce<T>::type;

template <class T>
constexpr bool kIsFloat = kSame<T, float> || kSame<T, double>;
template <class T>
constexpr bool kIsSigned = T(-1) < T(0);

template <int Bytes, bool Signed>
struct IntOf;
template <>
struct IntOf<1, true> {
  using type = int8_t;
};
template <>
struct IntOf<2, true> {
  using type = int16_t;
};
template <>
struct IntOf<4, true> {
  using type = int32_t;
};
template <>
struct IntOf<8, true> {
  using type = int64_t;
};
template <>
struct IntOf<1, false> {
  using type = uint8_t;
};
template <>
struct IntOf<2, false> {
  using type = uint16_t;
};
template <>
struct IntOf<4, false> {
  using type = uint32_t;
};
template <>
struct IntOf<8, false> {
  using type = uint64_t;
};
template <class T>
using SignedOf = typename IntOf<sizeof(T), true>::type;
template <class T>
using UnsignedOf = typename IntOf<sizeof(T), false>::type;

template <class T, int L>
struct RegOf {
  typedef T type __attribute__((vector_size(sizeof(T) * L)));
};
// A GNU vector of exactly L lanes; 16, 32 or 64 bytes.
template <class T, int L>
using Reg = typename RegOf<T, L>::type;

}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_ISA_H_
