// Division, remainders and shifts by data, for integers and floats; none of them can trap.
#ifndef AOT_VEC_INTEGER_H_
#define AOT_VEC_INTEGER_H_

#include "aot/vec/arith.h"

namespace aot {
namespace detail {

// Any 64-bit quotient; b = 0 gives 0, the one overflow (INT64_MIN / -1) wraps.
AOT_INLINE int64_t div64(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  return a / b;
}

AOT_INLINE uint64_t div64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }

// Euclid's algorithm on magnitudes.
template <class T>
AOT_INLINE T gcd_of(T a, T b) {
  while (a != 0) {
    const T rest = static_cast<T>(b % a);
    b = a;
    a = rest;
  }
  return b;
}

// By squaring, modulo 2^bits. Below 0, the reciprocal rounded to 0, of 0 too.
template <class T>
AOT_INLINE T pow_of(T base, T exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return static_cast<T>(base == T(-1) ? (exponent % 2 != 0 ? -1 : 1) : 0);
  }
  uint64_t result = 1;
  uint64_t power = static_cast<uint64_t>(base);
  for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
    if ((rest & 1) != 0) result *= power;
    power *= power;
  }
  return static_cast<T>(result);
}

// Integers of up to 24 (float) or 53 (double) bits divide exactly in floating point: the rounded
// quotient never reaches the next integer.
template <class F, class T, int N>
AOT_INLINE Vec<T, N> div_in(Vec<T, N> a, Vec<T, N> b) {
  return convert<T>(convert<F>(a) / convert<F>(b));
}

// Integers of 64 bits below 2^50 in magnitude lie in the low bits of 1.5 * 2^52 and themselves, a
// double, so that an addition converts them; before AVX-512 no instruction does.
template <class T, int N>
AOT_INLINE bool all_below_2_50(Vec<T, N> a, Vec<T, N> b) {
  const T bound = T(1) << 50;
  if constexpr (kIsSigned<T>) return all((((a + bound) | (b + bound)) & ~(2 * bound - 1)) == T(0));
  return all(((a | b) & ~(bound - 1)) == T(0));
}
template <class T, int N>
AOT_INLINE Vec<T, N> div_below_2_50(Vec<T, N> a, Vec<T, N> b) {
  const T zero = T(0x4338000000000000);
  const double held = 0x1.8p52;
  const auto in_double = [&](Vec<T, N> v) { return bitcast<double>(v + zero) - held; };
  return bitcast<T>(trunc(in_double(a) / in_double(b)) + held) - zero;
}

template <class T, int N>
AOT_INLINE Vec<T, N> div_nonzero(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (sizeof(T) <= 2) {
    return div_in<float>(a, b);
  } else if constexpr (sizeof(T) == 4) {
    return div_in<double>(a, b);
  } else {
#if AOT_ISA_LEVEL >= 4
    const Vec<T, N> bound(T(1) << 52);
    const auto small = (abs(a) < bound) & (abs(b) < bound);
    if (AOT_LIKELY(all(kIsSigned<T> ? small & (a >= -(T(1) << 52)) : small))) {
      return div_in<double>(a, b);
    }
#else
    if constexpr (N > 1) {
      if (AOT_LIKELY(all_below_2_50(a, b))) return div_below_2_50(a, b);
    }
#endif
    return map_lanes([](T x, T y) { return div64(x, y); }, a, b);
  }
}

// Whether the signs of two values differ.
template <class T, int N>
AOT_INLINE MaskOf<T, N> signs_differ(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (!kIsSigned<T>) {
    return MaskOf<T, N>(false);
  } else {
    return (a < T(0)) ^ (b < T(0));
  }
}

}  // namespace detail

// ---- integers ----
// Quotient rounded towards zero; x / 0 is 0, INT_MIN / -1 is INT_MIN.
template <class T, int N>
AOT_INLINE Vec<T, N> div_trunc(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (detail::kIsFloat<T>) {
    return trunc(a / b);
  } else {
    const Vec<T, N> zero(T(0)), one(T(1));
    const auto bad = b == zero;
    return select(bad, zero, detail::div_nonzero(a, select(bad, one, b)));
  }
}

template <class T, int N>
AOT_INLINE Vec<T, N> fmod(Vec<T, N> a, Vec<T, N> b);

// Integers; floats have overloads of their own.
template <class T, int N>
AOT_INLINE Vec<T, N> pow(Vec<T, N> a, Vec<T, N> b) {
  return detail::map_lanes([](T x, T y) { return detail::pow_of(x, y); }, a, b);
}

// Greatest common divisor, by Euclid's algorithm; |INT_MIN| is INT_MIN.
template <class T, int N>
AOT_INLINE Vec<T, N> gcd(Vec<T, N> a, Vec<T, N> b) {
  return detail::map_lanes([](T x, T y) { return detail::gcd_of(x, y); }, abs(a), abs(b));
}

// Remainder with the sign of the divisor (Python's %); x % 0 is 0 for integers, NaN for floats.
template <class T, int N>
AOT_INLINE Vec<T, N> remainder(Vec<T, N> a, Vec<T, N> b) {
  const Vec<T, N> r = fmod(a, b);
  return select((r != T(0)) & detail::signs_differ(r, b), r + b, r);
}

// Quotient rounded towards minus infinity. Floats follow PyTorch: exact even where a / b rounds.
template <class T, int N>
AOT_INLINE Vec<T, N> div_floor(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (detail::kIsFloat<T>) {
    const Vec<T, N> r = fmod(a, b), plain = a / b;
    Vec<T, N> q = (a - r) / b;
    q = select((r != T(0)) & detail::signs_differ(r, b), q - T(1), q);
    const Vec<T, N> down = floor(q);
    const Vec<T, N> near = select(q - down > T(0.5), down + T(1), down);
    const Vec<T, N> out = select(q == T(0), copysign(Vec<T, N>(T(0)), plain), near);
    return select(b == T(0), plain, out);
  } else {
    const Vec<T, N> zero(T(0)), one(T(1));
    const auto bad = b == zero;
    const Vec<T, N> divisor = select(bad, one, b);
    const Vec<T, N> q = detail::div_nonzero(a, divisor);
    const Vec<T, N> r = a - q * divisor;
    const auto lower = (r != zero) & detail::signs_differ(r, divisor);
    return select(bad, zero, select(lower, q - one, q));
  }
}

// Remainder with the sign of the dividend (C's % and fmod); x % 0 is 0 for integers, NaN for
// floats. Exact.
template <class T, int N>
AOT_INLINE Vec<T, N> fmod(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (!detail::kIsFloat<T>) {
    const Vec<T, N> zero(T(0)), one(T(1));
    const auto bad = b == zero;
    const Vec<T, N> divisor = select(bad, one, b);
    return select(bad, zero, a - detail::div_nonzero(a, divisor) * divisor);
  } else {
    const auto by_libm = [](T x, T y) {
      return sizeof(T) == 4 ? T(__builtin_fmodf(float(x), float(y))) : T(__builtin_fmod(x, y));
    };
#if AOT_ISA_LEVEL >= 3
    // With a quotient below 2^22 (2^51) its rounding is off by at most one, upwards, and the
    // fused subtraction is exact.
    const T bound = sizeof(T) == 4 ? T(0x1p22) : T(0x1p51);
    const Vec<T, N> q = trunc(a / b);
    if (AOT_LIKELY(all(abs(q) < bound))) {
      const Vec<T, N> zero(T(0));
      Vec<T, N> r = fnma(q, b, a);
      const auto over = (r != zero) & ((r < zero) ^ (a < zero));
      r = select(over, r + copysign(b, a), r);
      r = select(abs(a) < abs(b), a, r);  // also b = inf
      return copysign(r, a);
    }
#endif
    return detail::map_lanes(by_libm, a, b);
  }
}

// ---- shifts by data, as PyTorch defines them ----
// a << b; 0 where b is negative or not less than the width.
template <class T, int N>
AOT_INLINE Vec<T, N> shift_left(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (sizeof(T) < 4) {
    const Vec<int32_t, N> count = convert<int32_t>(b);
    const auto good = (count >= 0) & (count < static_cast<int32_t>(8 * sizeof(T)));
    return convert<T>(shift_left(convert<int32_t>(a), select(good, count, 32)));
  } else if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(shift_left(a.lo, b.lo), shift_left(a.hi, b.hi));
  } else {
    using W = typename detail::Wrapping<T, Vec<T, N>::kRegLanes>::type;
    using R = typename Vec<T, N>::R;
    constexpr T kLast = 8 * sizeof(T) - 1;
    const auto good = (b >= T(0)) & (b <= kLast);
    const Vec<T, N> shifted = Vec<T, N>::of((R)((W)a.r << (W)(b & kLast).r));
    return select(good, shifted, T(0));
  }
}
// a >> b, keeping the sign; where b is out of range, what is left after all bits: 0 or -1.
template <class T, int N>
AOT_INLINE Vec<T, N> shift_right(Vec<T, N> a, Vec<T, N> b) {
  if constexpr (sizeof(T) < 4) {
    const Vec<int32_t, N> count = convert<int32_t>(b);
    const auto good = (count >= 0) & (count < static_cast<int32_t>(8 * sizeof(T)));
    return convert<T>(shift_right(convert<int32_t>(a), select(good, count, 31)));
  } else if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(shift_right(a.lo, b.lo), shift_right(a.hi, b.hi));
  } else {
    constexpr T kLast = 8 * sizeof(T) - 1;
    const auto good = (b >= T(0)) & (b <= kLast);
    return Vec<T, N>::of(a.r >> select(good, b, kLast).r);
  }
}

// ---- the same by one count for all lanes ----
namespace detail {
// Bytes have no shifts: those of words, without the bits that come from a neighbour.
template <class T, int N>
AOT_INLINE Vec<T, N> shift_bytes_left(Vec<T, N> a, int count) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(shift_bytes_left(a.lo, count), shift_bytes_left(a.hi, count));
  } else {
    using W = Reg<uint16_t, Vec<T, N>::kBytes / 2>;
    const Vec<T, N> kept(static_cast<T>(0xff << count));
    return Vec<T, N>::of((typename Vec<T, N>::R)((W)a.r << count)) & kept;
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> shift_bytes_right(Vec<T, N> a, int count) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(shift_bytes_right(a.lo, count), shift_bytes_right(a.hi, count));
  } else {
    using W = Reg<uint16_t, Vec<T, N>::kBytes / 2>;
    const Vec<T, N> kept(static_cast<T>(0xff >> count));
    const Vec<T, N> moved = Vec<T, N>::of((typename Vec<T, N>::R)((W)a.r >> count)) & kept;
    if constexpr (!kIsSigned<T>) return moved;
    const Vec<T, N> sign(static_cast<T>(0x80 >> count));
    return (moved ^ sign) - sign;
  }
}
}  // namespace detail
template <class T, int N>
AOT_INLINE Vec<T, N> shift_left(Vec<T, N> a, detail::Same<T> by) {
  constexpr int64_t kBits = 8 * sizeof(T);
  const int64_t count = static_cast<int64_t>(by);
  if (count < 0 || count >= kBits) return Vec<T, N>(T(0));
  if constexpr (sizeof(T) == 1) {
    return detail::shift_bytes_left(a, static_cast<int>(count));
  } else {
    return a << static_cast<int>(count);
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> shift_right(Vec<T, N> a, detail::Same<T> by) {
  constexpr int64_t kBits = 8 * sizeof(T);
  int64_t count = static_cast<int64_t>(by);
  if (count < 0 || count >= kBits) {
    if constexpr (!detail::kIsSigned<T>) return Vec<T, N>(T(0));
    count = kBits - 1;
  }
  if constexpr (sizeof(T) == 1) {
    return detail::shift_bytes_right(a, static_cast<int>(count));
  } else {
    return a >> static_cast<int>(count);
  }
}

// The next representable value after a in the direction of b.
template <class T, int N>
AOT_INLINE Vec<T, N> nextafter(Vec<T, N> a, Vec<T, N> b) {
  using I = detail::SignedOf<T>;
  const Vec<T, N> zero(T(0));
  const Vec<I, N> bits = bitcast<I>(a);
  const auto away = (a > zero) ^ (a > b);  // from zero, for a != 0: the magnitude grows
  const Vec<I, N> moved = select(away, bits + I(1), bits - Vec<I, N>(I(1)));
  const Vec<T, N> tiny = copysign(bitcast<T>(Vec<I, N>(I(1))), b);
  Vec<T, N> out = select(a == zero, tiny, bitcast<T>(moved));
  out = select(a == b, b, out);
  return select((a != a) | (b != b), a + b, out);
}

}  // namespace aot

#endif  // AOT_VEC_INTEGER_H_
