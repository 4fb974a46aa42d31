// Lane-wise arithmetic beyond the operators. NaN, infinities and signed zeros behave as in PyTorch.
#ifndef AOT_VEC_ARITH_H_
#define AOT_VEC_ARITH_H_

#include "aot/vec/mask.h"

namespace aot {

// Applies `f` to both halves of a split Vec, or returns from `whole` on one register.
#define AOT_SPLIT_1(F)                      \
  if constexpr (Vec<T, N>::kSplit) {        \
    return Vec<T, N>::of(F(a.lo), F(a.hi)); \
  }
#define AOT_SPLIT_2(F)                                  \
  if constexpr (Vec<T, N>::kSplit) {                    \
    return Vec<T, N>::of(F(a.lo, b.lo), F(a.hi, b.hi)); \
  }
#define AOT_SPLIT_3(F)                                              \
  if constexpr (Vec<T, N>::kSplit) {                                \
    return Vec<T, N>::of(F(a.lo, b.lo, c.lo), F(a.hi, b.hi, c.hi)); \
  }

// ---- sign bits and classes (floats) ----
namespace detail {
template <class T>
constexpr SignedOf<T> kSignBit = static_cast<SignedOf<T>>(UnsignedOf<T>{1} << (8 * sizeof(T) - 1));
template <class T>
constexpr SignedOf<T> kInfBits = sizeof(T) == 4 ? static_cast<SignedOf<T>>(0x7f800000)
                                                : static_cast<SignedOf<T>>(0x7ff0000000000000);
template <class T>
constexpr T kInf = static_cast<T>(__builtin_inf());
template <class T>
constexpr T kNaN = static_cast<T>(__builtin_nan(""));

template <class T, int N>
AOT_INLINE Vec<SignedOf<T>, N> bits_of(Vec<T, N> a) {
  return bitcast<SignedOf<T>>(a);
}
}  // namespace detail

template <class T, int N>
AOT_INLINE Vec<T, N> abs(Vec<T, N> a) {
  using I = detail::SignedOf<T>;
  if constexpr (detail::kIsFloat<T>) {
    return bitcast<T>(detail::bits_of(a) & static_cast<I>(~detail::kSignBit<T>));
  } else if constexpr (!detail::kIsSigned<T>) {
    return a;
  } else {
    AOT_SPLIT_1(abs) else {
      using W = typename detail::Wrapping<T, Vec<T, N>::kRegLanes>::type;
      using R = typename Vec<T, N>::R;
      return Vec<T, N>::of(a.r < R{} ? (R)(-(W)a.r) : a.r);
    }
  }
}
namespace detail {
// -|a|, and y >= 0 with the sign of x: one operation each, for floats.
template <class T, int N>
AOT_INLINE Vec<T, N> neg_abs(Vec<T, N> a) {
  return bitcast<T>(bits_of(a) | kSignBit<T>);
}
template <class T, int N>
AOT_INLINE Vec<T, N> with_sign(Vec<T, N> y, Vec<T, N> x) {
  return bitcast<T>(bits_of(y) | (bits_of(x) & kSignBit<T>));
}
}  // namespace detail
template <class T, int N>
AOT_INLINE Vec<T, N> neg(Vec<T, N> a) {
  return -a;
}
// |a| with the sign of b.
template <class T, int N>
AOT_INLINE Vec<T, N> copysign(Vec<T, N> a, Vec<T, N> b) {
  using I = detail::SignedOf<T>;
  const auto magnitude = detail::bits_of(a) & static_cast<I>(~detail::kSignBit<T>);
  return bitcast<T>(magnitude | (detail::bits_of(b) & detail::kSignBit<T>));
}
template <class T, int N>
AOT_INLINE MaskOf<T, N> signbit(Vec<T, N> a) {
  if constexpr (detail::kIsFloat<T>) {
    return detail::bits_of(a) < detail::SignedOf<T>(0);
  } else {
    return a < T(0);
  }
}
template <class T, int N>
AOT_INLINE MaskOf<T, N> isnan(Vec<T, N> a) {
  return a != a;
}
template <class T, int N>
AOT_INLINE MaskOf<T, N> isinf(Vec<T, N> a) {
  if constexpr (detail::kIsFloat<T>) {
    return abs(a) == detail::kInf<T>;
  } else {
    return MaskOf<T, N>(false);
  }
}
template <class T, int N>
AOT_INLINE MaskOf<T, N> isfinite(Vec<T, N> a) {
  if constexpr (detail::kIsFloat<T>) {
    return abs(a) < detail::kInf<T>;
  } else {
    return MaskOf<T, N>(true);
  }
}
// -1, 0 or 1; 0 for NaN and for -0.0 (torch.sign).
template <class T, int N>
AOT_INLINE Vec<T, N> sign(Vec<T, N> a) {
  if constexpr (detail::kIsSigned<T>) {
    const Vec<T, N> zero(T(0));
    return select(a > T(0), T(1), select(a < T(0), T(-1), zero));
  } else {
    return from_mask<T>(to_mask(a));
  }
}

// ---- min and max ----
namespace detail {
// The instruction: b where either is NaN. For integers the minimum.
template <class T, int N>
AOT_INLINE Vec<T, N> min_or_second(Vec<T, N> a, Vec<T, N> b) {
  AOT_SPLIT_2(min_or_second) else if constexpr (kIsFloat<T>) {
    return Vec<T, N>::of(r_min(a.r, b.r));
  }
  else {
    return Vec<T, N>::of(a.r < b.r ? a.r : b.r);
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> max_or_second(Vec<T, N> a, Vec<T, N> b) {
  AOT_SPLIT_2(max_or_second) else if constexpr (kIsFloat<T>) {
    return Vec<T, N>::of(r_max(a.r, b.r));
  }
  else {
    return Vec<T, N>::of(a.r > b.r ? a.r : b.r);
  }
}
// x limited to [lo, hi]; NaN stays.
template <class T, int N>
AOT_INLINE Vec<T, N> limit(Vec<T, N> x, Same<T> lo, Same<T> hi) {
  return min_or_second(Vec<T, N>(hi), max_or_second(Vec<T, N>(lo), x));
}
}  // namespace detail

// NaN if either is NaN (torch.minimum, torch.maximum).
template <class T, int N>
AOT_INLINE Vec<T, N> minimum(Vec<T, N> a, Vec<T, N> b) {
  const Vec<T, N> m = detail::min_or_second(a, b);
  if constexpr (detail::kIsFloat<T>) {
    return select(a != a, a, m);
  } else {
    return m;
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> maximum(Vec<T, N> a, Vec<T, N> b) {
  const Vec<T, N> m = detail::max_or_second(a, b);
  if constexpr (detail::kIsFloat<T>) {
    return select(a != a, a, m);
  } else {
    return m;
  }
}
// The same by a limit that is neither NaN nor zero: one instruction. Of zeros, which are equal, the
// second would be given, whatever its sign.
template <class T, int N>
AOT_INLINE Vec<T, N> at_most(Vec<T, N> x, Vec<T, N> limit) {
  return detail::min_or_second(limit, x);
}
template <class T, int N>
AOT_INLINE Vec<T, N> at_least(Vec<T, N> x, Vec<T, N> limit) {
  return detail::max_or_second(limit, x);
}

// The other one if one is NaN (C fmin, fmax).
template <class T, int N>
AOT_INLINE Vec<T, N> fmin(Vec<T, N> a, Vec<T, N> b) {
  return select(b != b, a, detail::min_or_second(a, b));
}
template <class T, int N>
AOT_INLINE Vec<T, N> fmax(Vec<T, N> a, Vec<T, N> b) {
  return select(b != b, a, detail::max_or_second(a, b));
}
// min(max(a, lo), hi); NaN in any of them gives NaN (torch.clamp).
template <class T, int N>
AOT_INLINE Vec<T, N> clamp(Vec<T, N> a, Vec<T, N> lo, Vec<T, N> hi) {
  return minimum(maximum(a, lo), hi);
}
// max(a, 0); NaN stays.
template <class T, int N>
AOT_INLINE Vec<T, N> relu(Vec<T, N> a) {
  return detail::max_or_second(Vec<T, N>(T(0)), a);
}

// ---- fused and rounded ----
// a * b + c; fused from v3 on, two roundings on v2 (which has no such instruction).
template <class T, int N>
AOT_INLINE Vec<T, N> fma(Vec<T, N> a, Vec<T, N> b, Vec<T, N> c) {
#if AOT_ISA_LEVEL >= 3
  if constexpr (detail::kIsFloat<T>) {
    AOT_SPLIT_3(fma) else { return Vec<T, N>::of(detail::r_fma(a.r, b.r, c.r)); }
  } else {
    return a * b + c;
  }
#else
  return a * b + c;
#endif
}
// c - a * b, likewise.
template <class T, int N>
AOT_INLINE Vec<T, N> fnma(Vec<T, N> a, Vec<T, N> b, Vec<T, N> c) {
#if AOT_ISA_LEVEL >= 3
  if constexpr (detail::kIsFloat<T>) {
    AOT_SPLIT_3(fnma) else { return Vec<T, N>::of(detail::r_fnma(a.r, b.r, c.r)); }
  } else {
    return c - a * b;
  }
#else
  return c - a * b;
#endif
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> fma(Vec<T, N, S> a, Vec<T, N, S> b, detail::Same<T> c) {
  return fma(a, b, Vec<T, N>(c));
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> fma(Vec<T, N, S> a, detail::Same<T> b, Vec<T, N, S> c) {
  return fma(a, Vec<T, N>(b), c);
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> fma(Vec<T, N, S> a, detail::Same<T> b, detail::Same<T> c) {
  return fma(a, Vec<T, N>(b), Vec<T, N>(c));
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> fnma(Vec<T, N, S> a, detail::Same<T> b, Vec<T, N, S> c) {
  return fnma(a, Vec<T, N>(b), c);
}

template <class T, int N>
AOT_INLINE Vec<T, N> sqrt(Vec<T, N> a) {
  AOT_SPLIT_1(sqrt) else { return Vec<T, N>::of(detail::r_sqrt(a.r)); }
}
template <class T, int N>
AOT_INLINE Vec<T, N> reciprocal(Vec<T, N> a) {
  return T(1) / a;
}

// Rounding to integral values; integers pass through. `round` takes ties to even (torch.round).
#define AOT_ROUNDING(NAME, MODE)                                                \
  template <class T, int N>                                                     \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> a) {                                      \
    if constexpr (!detail::kIsFloat<T>) {                                       \
      return a;                                                                 \
    } else {                                                                    \
      AOT_SPLIT_1(NAME)                                                         \
      else {                                                                    \
        return Vec<T, N>::of(detail::r_round<(MODE) | _MM_FROUND_NO_EXC>(a.r)); \
      }                                                                         \
    }                                                                           \
  }
AOT_ROUNDING(round, _MM_FROUND_TO_NEAREST_INT)
AOT_ROUNDING(floor, _MM_FROUND_TO_NEG_INF)
AOT_ROUNDING(ceil, _MM_FROUND_TO_POS_INF)
AOT_ROUNDING(trunc, _MM_FROUND_TO_ZERO)
#undef AOT_ROUNDING

namespace detail {
// f on every lane by itself: for rare functions and rare arguments.
template <class F, class T, int N>
AOT_INLINE Vec<T, N> map_lanes(F f, Vec<T, N> a) {
  T x[N];
  __builtin_memcpy(x, &a, sizeof(x));
  for (int i = 0; i < N; ++i) x[i] = f(x[i]);
  Vec<T, N> out(T(0));
  __builtin_memcpy(&out, x, sizeof(x));
  return out;
}
template <class F, class T, int N>
AOT_INLINE Vec<T, N> map_lanes(F f, Vec<T, N> a, Vec<T, N> b) {
  T x[N], y[N];
  __builtin_memcpy(x, &a, sizeof(x));
  __builtin_memcpy(y, &b, sizeof(y));
  for (int i = 0; i < N; ++i) x[i] = f(x[i], y[i]);
  Vec<T, N> out(T(0));
  __builtin_memcpy(&out, x, sizeof(x));
  return out;
}
}  // namespace detail

}  // namespace aot

#endif  // AOT_VEC_ARITH_H_
