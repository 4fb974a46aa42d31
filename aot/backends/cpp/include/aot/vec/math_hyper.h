// Hyperbolic functions, their inverses, and erf: all built from expm1 and log1p, float32.
#ifndef AOT_VEC_MATH_HYPER_H_
#define AOT_VEC_MATH_HYPER_H_

#include "aot/vec/lookup.h"
#include "aot/vec/math_log.h"

namespace aot {

// Under AVX-512 by table: no division, half the latency. Otherwise
// t / (t + 2) with t = expm1(2|x|). The reduction works on |x| itself, with ln2 halved; fit
// "expm1_2": expm1(2r) = 2r + r^2 P(r).
template <int N>
AOT_INLINE Vec<float, N> tanh(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 4
  return detail::odd_by_table(detail::kTanhTable, x, 0x1p-4f, 15.5f);
#else
  const Vec<float, N> a = detail::min_or_second(Vec<float, N>(10.0f), abs(x));
  const Vec<float, N> sum = fma(a, 2.0f * detail::kLog2E, detail::kMagic<float>);
  const Vec<float, N> n = sum - detail::kMagic<float>;
  const Vec<float, N> r = fnma(n, 0.5f * detail::kLn2Lo, fnma(n, 0.5f * detail::kLn2Hi, a));
  const Vec<float, N> p = fma(
      r * r,
      detail::poly(r, 0x1.fffffep0f, 0x1.5554aap0f, 0x1.55579cp-1f, 0x1.122c84p-2f, 0x1.6ab326p-4f),
      r + r);
  const Vec<float, N> scale = detail::power_of_two<float>(bitcast<int32_t>(sum), 0);
  const Vec<float, N> t = fma(scale, p, scale - 1.0f);
  return copysign(t / (t + 2.0f), x);
#endif
}

// Under AVX-512 by table. Otherwise 1 - exp(-g) with g = -log(1 - erf(|x|)), a smooth function: g =
// |x| P(|x|), fit "erf".
template <int N>
AOT_INLINE Vec<float, N> erf(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 4
  return detail::odd_by_table(detail::kErfTable, x, 0x1p-5f, 7.5f);
#else
  const Vec<float, N> a = detail::min_or_second(Vec<float, N>(3.95f), abs(x));
  const Vec<float, N> p = detail::poly(a, -0x1.20dd76p0f, -0x1.45f2fap-1f, -0x1.a4fa5ep-4f,
                                       0x1.39cdc8p-6f, 0x1.505dc6p-13f, -0x1.b4fffep-10f,
                                       0x1.4bc982p-11f, -0x1.ed6b48p-14f, 0x1.36959ap-17f);
  return copysign(detail::expm1_scaled(a * p, 0), x);
#endif
}

// (t + t / (t + 1)) / 2 with t = expm1(|x|), arranged so that only the result can overflow.
template <int N>
AOT_INLINE Vec<float, N> sinh(Vec<float, N> x) {
  const Vec<float, N> a = detail::min_or_second(Vec<float, N>(89.5f), abs(x));
  const Vec<float, N> quarter = detail::expm1_scaled(a, 2);
  const Vec<float, N> half = quarter + quarter;
  const Vec<float, N> h = detail::min_or_second(Vec<float, N>(0x1p60f), half);
  const Vec<float, N> y = half + h / fma(h, 2.0f, 1.0f);
  return copysign(select(a < 0x1p-64f, a, y), x);  // the quarter of a subnormal loses bits
}

template <int N>
AOT_INLINE Vec<float, N> cosh(Vec<float, N> x) {
  const Vec<float, N> a = detail::min_or_second(Vec<float, N>(89.5f), abs(x));
  const Vec<float, N> half = detail::exp_scaled(a, -1);
  return half + 0.25f / half;
}

// log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))); for huge x log(|x|) + ln2.
template <int N>
AOT_INLINE Vec<float, N> asinh(Vec<float, N> x) {
  const Vec<float, N> a = abs(x);
  const auto huge = a > 0x1p28f;
  const Vec<float, N> s = a * a;
  const Vec<float, N> t = a + s / (sqrt(s + 1.0f) + 1.0f);
  const Vec<float, N> y = log1p(select(huge, a, t));
  return copysign(select(huge, y + 0x1.62e43p-1f, y), x);
}

// log1p(t + sqrt(2t + t^2)) with t = x - 1; for huge x log(x) + ln2.
template <int N>
AOT_INLINE Vec<float, N> acosh(Vec<float, N> x) {
  const auto huge = x > 0x1p28f;
  const Vec<float, N> t = x - 1.0f;
  const Vec<float, N> u = t + sqrt(fma(t, t, t + t));
  const Vec<float, N> y = log1p(select(huge, x, u));
  return select(x < 1.0f, detail::kNaN<float>, select(huge, y + 0x1.62e43p-1f, y));
}

template <int N>
AOT_INLINE Vec<float, N> atanh(Vec<float, N> x) {
  const Vec<float, N> a = abs(x);
  return copysign(log1p((a + a) / (1.0f - a)) * 0.5f, x);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_HYPER_H_
