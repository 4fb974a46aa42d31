// exp and its family, float32.
//
// exp(x): x = n ln2 + r with |r| <= ln2/2 (Cody-Waite: ln2 in two parts, the first short enough
// that n times it is exact), exp(r) by a minimax polynomial, scaled by 2^n. Coefficients are those
// of tools/minimax.py; each use names its fit.
#ifndef AOT_VEC_MATH_EXP_H_
#define AOT_VEC_MATH_EXP_H_

#include "aot/vec/arith.h"
#include "aot/vec/lookup.h"

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

// Adding this to |x| < 2^21 (2^50) rounds x to an integer, which the low bits of the sum hold.
template <class T>
constexpr T kMagic = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);
template <class T>
constexpr int kMantissaBits = sizeof(T) == 4 ? 23 : 52;
template <class T>
constexpr int kExponentBias = sizeof(T) == 4 ? 127 : 1023;

// 2^(n + plus), a normal number, where the low bits of `bits` are n.
template <class T, int N>
AOT_INLINE Vec<T, N> power_of_two(Vec<SignedOf<T>, N> bits, int plus) {
  using I = SignedOf<T>;
  const I bias = static_cast<I>(kExponentBias<T> + plus) << kMantissaBits<T>;
  return bitcast<T>((bits << kMantissaBits<T>)+bias);
}

#if AOT_ISA_LEVEL >= 4
// a * 2^floor(n), rounded once, for any n.
template <class T, int N>
AOT_INLINE Vec<T, N> scale_by(Vec<T, N> a, Vec<T, N> n) {
  if constexpr (Vec<T, N>::kSplit) {
    return join(scale_by(a.lo, n.lo), scale_by(a.hi, n.hi));
  } else {
    return Vec<T, N>::of(r_scalef(a.r, n.r));
  }
}
#endif

// a * 2^(n + plus) for n = sum - kMagic, |n| <= 300 (float) or 2200 (double); rounds once, also
// into the subnormals, when a is near 1.
template <class T, int N>
AOT_INLINE Vec<T, N> scale_by_power(Vec<T, N> a, Vec<T, N> sum, int plus) {
#if AOT_ISA_LEVEL >= 4
  return scale_by(a, sum - Vec<T, N>(kMagic<T> - static_cast<T>(plus)));
#else
  // In two steps, each by a normal power: n/2 and the rest.
  using I = SignedOf<T>;
  const Vec<I, N> bits = bitcast<I>(sum);
  if constexpr (sizeof(T) == 4) {
    const Vec<I, N> half = bits >> 1;
    return a * power_of_two<T>(half, 0) * power_of_two<T>(bits - half, plus);
  } else {
    const Vec<I, N> half = bitcast<I>(bitcast<uint64_t>(bits << 32) >> 33);  // no 64-bit sra
    const Vec<I, N> half_signed = (half ^ (I(1) << 30)) - (I(1) << 30);
    return a * power_of_two<T>(half_signed, 0) * power_of_two<T>(bits - half_signed, plus);
  }
#endif
}

// Parts of ln2: the first has 15 bits.
constexpr float kLn2Hi = 0x1.62e4p-1f;
constexpr float kLn2Lo = 0x1.7f7d1cp-20f;
constexpr float kLog2E = 0x1.715476p0f;

#if AOT_ISA_LEVEL >= 4
// r with |r| limited; a NaN may become the limit.
template <int N>
AOT_INLINE Vec<float, N> limit_abs(Vec<float, N> r, float most) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(limit_abs(r.lo, most), limit_abs(r.hi, most));
  } else {
    return Vec<float, N>::of(r_limit_abs(r.r, Vec<float, N>(most).r));
  }
}

// a * 2^floor(n) where not x < bound, else 0.
template <int N>
AOT_INLINE Vec<float, N> scale_unless_below(Vec<float, N> x, float bound, Vec<float, N> a,
                                            Vec<float, N> n) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(scale_unless_below(x.lo, bound, a.lo, n.lo),
                scale_unless_below(x.hi, bound, a.hi, n.hi));
  } else {
    const auto keep = r_cmp<kNotLt>(x.r, Vec<float, N>(bound).r);
    return Vec<float, N>::of(r_scalef_where(keep, a.r, n.r));
  }
}

// exp(x) * 2^plus for any x: x = (k + i/16) ln2 + r, 2^(i/16) from a table, fit "exp16". Far out
// r is meaningless; limited, it leaves the result to the scaling, which saturates.
// What underflows to zero (masked scores of a softmax) is set aside: computing it would take the
// machine's slow path for tiny results.
template <int N>
AOT_INLINE Vec<float, N> exp_scaled(Vec<float, N> x, int plus) {
  const Vec<float, N> sum = fma(x, kLog2E, 0x1.8p19f);  // its last bits count sixteenths
  const Vec<float, N> n = sum - 0x1.8p19f;
  const Vec<float, N> r = limit_abs(fnma(n, kLn2Lo, fnma(n, kLn2Hi, x)), 0.0625f);
  const Vec<float, N> t = lookup(kPowerTable, bitcast<int32_t>(sum));
  const Vec<float, N> q = fma(r * r, poly(r, 0x1.000222p-1f, 0x1.555764p-3f), r);
  const Vec<float, N> shift = plus == 0 ? n : n + static_cast<float>(plus);
  return scale_unless_below(x, -104.0f, fma(t, q, t), shift);
}
#else
// exp(x) * 2^plus for any x. Fit "exp". As above for what underflows to zero.
template <int N>
AOT_INLINE Vec<float, N> exp_scaled(Vec<float, N> x, int plus) {
  const auto gone = x < -104.0f;
  x = select(gone, 0.0f, min_or_second(Vec<float, N>(90.0f), x));  // beyond: inf
  const Vec<float, N> sum = fma(x, kLog2E, kMagic<float>);
  const Vec<float, N> n = sum - kMagic<float>;
  const Vec<float, N> r = fnma(n, kLn2Lo, fnma(n, kLn2Hi, x));
  const Vec<float, N> p = poly(r, 1.0f, 1.0f, 0x1.fffffcp-2f, 0x1.55548cp-3f, 0x1.555858p-5f,
                               0x1.123de8p-7f, 0x1.6ac7f8p-10f);
  return select(gone, 0.0f, scale_by_power(p, sum, plus));
}
#endif

// expm1(x) * 2^-down for x in [-80, 89 + ln2 * (down - 1)] or NaN; the sign of zero is lost.
// Fit "expm1": expm1(r) = r + r^2 P(r); expm1(x) = 2^n expm1(r) + (2^n - 1).
template <int N>
AOT_INLINE Vec<float, N> expm1_scaled(Vec<float, N> x, int down) {
  const Vec<float, N> sum = fma(x, kLog2E, kMagic<float>);
  const Vec<float, N> n = sum - kMagic<float>;
  const Vec<float, N> r = fnma(n, kLn2Lo, fnma(n, kLn2Hi, x));
  const Vec<float, N> p = fma(
      r * r,
      poly(r, 0x1.fffffep-2f, 0x1.5554aap-3f, 0x1.55579cp-5f, 0x1.122c84p-7f, 0x1.6ab326p-10f), r);
  const Vec<float, N> scale = power_of_two<float>(bitcast<int32_t>(sum), -down);
  const float one = 1.0f / static_cast<float>(1 << down);
  return fma(scale, p, scale - one);
}

#if AOT_ISA_LEVEL >= 4
// One Newton step from 14 bits: y + y (1 - x y^2) / 2. Zero and inf keep the estimate.
template <int N>
AOT_INLINE Vec<float, N> rsqrt_newton(Vec<float, N> x) {
  if constexpr (Vec<float, N>::kSplit) {
    return join(rsqrt_newton(x.lo), rsqrt_newton(x.hi));
  } else {
    constexpr int kZeroOrInf = 0x02 | 0x04 | 0x08;
    const Vec<float, N> y = Vec<float, N>::of(r_rsqrt14(x.r));
    const Vec<float, N> e = fnma(x * y, y, Vec<float, N>(1.0f));
    const auto exact = static_cast<typename Mask<N>::Rep>(r_class<kZeroOrInf>(x.r));
    return select(Mask<N>::of(exact), y, fma(y * 0.5f, e, y));
  }
}
#endif

}  // namespace detail

template <int N>
AOT_INLINE Vec<float, N> exp(Vec<float, N> x) {
  return detail::exp_scaled(x, 0);
}

// Fit "exp2": 2^r = 1 + r P(r).
template <int N>
AOT_INLINE Vec<float, N> exp2(Vec<float, N> x) {
  x = detail::limit(x, -151.0f, 129.0f);
  const Vec<float, N> sum = x + detail::kMagic<float>;
  const Vec<float, N> r = x - (sum - detail::kMagic<float>);
  const Vec<float, N> p = detail::poly(r, 1.0f, 0x1.62e43p-1f, 0x1.ebfb94p-3f, 0x1.c6af9ep-5f,
                                       0x1.3b681ap-7f, 0x1.5ef4cep-10f, 0x1.17937ep-13f);
  return detail::scale_by_power(p, sum, 0);
}

template <int N>
AOT_INLINE Vec<float, N> expm1(Vec<float, N> x) {
  const Vec<float, N> y = detail::expm1_scaled(detail::limit(x, -18.0f, 88.9f), 1);
  return copysign(select(abs(x) < 0x1p-64f, x, y + y), x);  // half a subnormal loses a bit
}

// 1 / (1 + exp(-x)), accurate (relatively) down to the subnormals.
template <int N>
AOT_INLINE Vec<float, N> sigmoid(Vec<float, N> x) {
  const Vec<float, N> e = detail::exp_scaled(detail::neg_abs(x), 0);
  return select(x < 0.0f, e, Vec<float, N>(1.0f)) / (e + 1.0f);
}

// 1 / sqrt(x).
template <class T, int N>
AOT_INLINE Vec<T, N> rsqrt(Vec<T, N> x) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (detail::kSame<T, float>) {
    return detail::rsqrt_newton(x);
  }
#endif
  return T(1) / sqrt(x);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_EXP_H_
