// exp and its family.
//
// exp(x): x = n ln2 + r with |r| <= ln2/2 (Cody-Waite: ln2 in two parts, the first short enough
// that n times it is exact), exp(r) by a minimax polynomial, scaled by 2^n. Coefficients come
// from tools/minimax.py; each block names its fit.
#ifndef AOT_VEC_MATH_EXP_H_
#define AOT_VEC_MATH_EXP_H_

#include "aot/vec/arith.h"

namespace aot {
namespace detail {

// c0 + c1 x + ... + cn x^n by Horner's rule; coefficients lowest degree first.
template <class T, int N>
AOT_INLINE Vec<T, N> poly(Vec<T, N>, Same<T> c) {
  return Vec<T, N>(c);
}
template <class T, int N, class... C>
AOT_INLINE Vec<T, N> poly(Vec<T, N> x, Same<T> c, C... rest) {
  return fma(poly(x, rest...), x, Vec<T, N>(c));
}

// a * 2^n for integral n in [-300, 300] (float) or [-2200, 2200] (double); rounds once, also into
// the subnormals, when a is near 1.
template <class T, int N>
AOT_INLINE Vec<T, N> scale_by_power(Vec<T, N> a, Vec<T, N> n) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(scale_by_power(a.lo, n.lo), scale_by_power(a.hi, n.hi));
  } else {
#if AOT_ISA_LEVEL >= 4
    return Vec<T, N>::of(r_scalef(a.r, n.r));
#else
    // 2^n as 2^h * 2^(n - h), both normal. The low mantissa bits of n + magic are n itself.
    constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
    using I = SignedOf<T>;
    constexpr T kMagic = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
    const I one = bitcast<I>(Vec<T, N>(T(1)))[0];
    const Vec<T, N> half = floor(n * T(0.5));
    const Vec<T, N> rest = n - half;
    const auto p = (bitcast<I>(half + kMagic) << kMantissa) + one;
    const auto q = (bitcast<I>(rest + kMagic) << kMantissa) + one;
    return a * bitcast<T>(p) * bitcast<T>(q);
#endif
  }
}

// Nearest integral value of x for |x| < 2^21; cheaper than a rounding instruction.
template <class T, int N>
AOT_INLINE Vec<T, N> nearest(Vec<T, N> x) {
  const T magic = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
  return (x + magic) - Vec<T, N>(magic);
}

// exp(r) for |r| <= 0.3466: fit "exp".
template <int N>
AOT_INLINE Vec<float, N> exp_poly(Vec<float, N> r) {
  return poly(r, 1.0f, 1.0f, 0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.555858p-5f, 0x1.123dc6p-7f,
              0x1.6ac4a2p-10f);
}

template <int N>
AOT_INLINE Vec<float, N> exp_float(Vec<float, N> x) {
  // Outside these bounds the result is 0 or inf anyway.
  x = limit(x, -104.5f, 89.0f);
  const Vec<float, N> magic(0x1.8p23f);
  const Vec<float, N> n = fma(x, 0x1.715476p0f, magic) - magic;
  Vec<float, N> r = fnma(n, 0x1.62e4p-1f, x);  // ln2, 14 bits: exact products for |n| < 2^10
  r = fnma(n, 0x1.7f7d1cp-20f, r);             // ln2 - 0x1.62e4p-1
  return scale_by_power(exp_poly(r), n);
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<float, N> exp(Vec<float, N> x) {
  return detail::exp_float(x);
}

// 1 / (1 + exp(-x)), accurate (relatively) down to the subnormals.
template <int N>
AOT_INLINE Vec<float, N> sigmoid(Vec<float, N> x) {
  const Vec<float, N> e = detail::exp_float(-abs(x));
  return select(x < 0.0f, e, Vec<float, N>(1.0f)) / (e + 1.0f);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_EXP_H_
