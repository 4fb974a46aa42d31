// Trigonometric functions and their inverses, float32.
//
// sin and cos: x = n pi/2 + r with |r| <= pi/4. From v3 on, pi/2 comes in three floats and the
// reduction is fused: x - n c1 is exact (both are multiples of 2^-23 and the result is below 1),
// and each further step rounds once, so r keeps its relative accuracy up to |x| = 2^17. On v2 the
// reduction runs in float64. Beyond the bound libm's float64 function does it, lane by lane.
#ifndef AOT_VEC_MATH_TRIG_H_
#define AOT_VEC_MATH_TRIG_H_

#include "aot/vec/math_exp.h"

namespace aot {
namespace detail {

template <int N>
struct Reduced {
  Vec<float, N> r;
  Vec<int32_t, N> n;  // quadrant, in the low bits
};

constexpr float kTrigBound = 0x1p17f;

template <int N>
AOT_INLINE Reduced<N> reduce_half_pi(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 3
  const Vec<float, N> sum = fma(x, 0x1.45f306p-1f, kMagic<float>);
  const Vec<float, N> n = sum - kMagic<float>;
  // All three parts are positive: -0.0 then stays -0.0.
  const Vec<float, N> r = fnma(n, 0x1.4442dp-24f, fnma(n, 0x1.921fb4p0f, x));
  return {fnma(n, 0x1.846988p-48f, r), bitcast<int32_t>(sum)};
#else
  const Vec<double, N> wide = convert<double>(x);
  const Vec<double, N> sum = wide * 0x1.45f306dc9c883p-1 + kMagic<double>;
  const Vec<double, N> n = sum - kMagic<double>;
  const Vec<double, N> r = (wide - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  return {convert<float>(r), convert<int32_t>(bitcast<int64_t>(sum))};
#endif
}

// sin and cos of |r| <= pi/4: fits "sin" and "cos". sin keeps the sign of zero.
template <int N>
AOT_INLINE Vec<float, N> sin_poly(Vec<float, N> r, Vec<float, N> s) {
  return r * poly(s, 1.0f, -0x1.555556p-3f, 0x1.111174p-7f, -0x1.a05956p-13f, 0x1.7c2d62p-19f);
}
template <int N>
AOT_INLINE Vec<float, N> cos_poly(Vec<float, N> s) {
  return poly(s, 1.0f, -0.5f, 0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e80ep-16f);
}

// sin(x + turns pi/2).
template <int N>
AOT_INLINE Vec<float, N> sin_turned(Vec<float, N> x, int turns) {
  const Reduced<N> a = reduce_half_pi(x);
  const Vec<float, N> s = a.r * a.r;
  const Vec<int32_t, N> n = turns == 0 ? a.n : a.n + turns;
  const auto odd = (n & 1) != 0;
  const Vec<float, N> y = select(odd, cos_poly(s), sin_poly(a.r, s));
  return bitcast<float>(bitcast<int32_t>(y) ^ ((n & 2) << 30));
}

// y, except where |x| is beyond the reduction: there f, on each lane.
template <class F, int N>
AOT_INLINE Vec<float, N> beyond_bound(F f, Vec<float, N> x, Vec<float, N> y) {
  const auto far = abs(x) > kTrigBound;
  if (AOT_UNLIKELY(any(far))) {
    y = select(far, map_lanes([f](float v) { return static_cast<float>(f(v)); }, x), y);
  }
  return y;
}

// atan(t) for |t| <= 1: fit "atan".
template <int N>
AOT_INLINE Vec<float, N> atan_poly(Vec<float, N> t) {
  const Vec<float, N> s = t * t;
  const Vec<float, N> p =
      poly(s, -0x1.55553ep-2f, 0x1.9991e4p-3f, -0x1.242086p-3f, 0x1.c08c46p-4f, -0x1.5808d8p-4f,
           0x1.da2854p-5f, -0x1.fd78acp-6f, 0x1.641c96p-7f, -0x1.d34680p-10f);
  return fma(t * s, p, t);
}

constexpr float kHalfPi = 0x1.921fb6p0f;
constexpr float kHalfPiLow = -0x1.777a5cp-25f;

// asin of 0 <= a <= 1/2, or (for a > 1/2) asin(sqrt((1 - a) / 2)): fit "asin".
template <int N>
AOT_INLINE Vec<float, N> asin_core(Vec<float, N> a, MaskOf<float, N> large) {
  const Vec<float, N> z = select(large, (1.0f - a) * 0.5f, a * a);
  const Vec<float, N> t = select(large, sqrt(z), a);
  const Vec<float, N> p = poly(z, 0x1.55554cp-3f, 0x1.3338acp-4f, 0x1.6ca756p-5f, 0x1.04d33ep-5f,
                               0x1.d510f2p-7f, 0x1.34d214p-5f);
  return fma(t * z, p, t);
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<float, N> sin(Vec<float, N> x) {
  return detail::beyond_bound([](double v) { return __builtin_sin(v); }, x,
                              detail::sin_turned(x, 0));
}
template <int N>
AOT_INLINE Vec<float, N> cos(Vec<float, N> x) {
  return detail::beyond_bound([](double v) { return __builtin_cos(v); }, x,
                              detail::sin_turned(x, 1));
}
template <int N>
AOT_INLINE Vec<float, N> tan(Vec<float, N> x) {
  const detail::Reduced<N> a = detail::reduce_half_pi(x);
  const Vec<float, N> s = a.r * a.r;
  const Vec<float, N> sine = detail::sin_poly(a.r, s), cosine = detail::cos_poly(s);
  const auto odd = (a.n & 1) != 0;
  const Vec<float, N> y = select(odd, -cosine, sine) / select(odd, sine, cosine);
  return detail::beyond_bound([](double v) { return __builtin_tan(v); }, x, y);
}

template <int N>
AOT_INLINE Vec<float, N> asin(Vec<float, N> x) {
  const Vec<float, N> a = abs(x);
  const auto large = a > 0.5f;
  const Vec<float, N> p = detail::asin_core(a, large);
  const Vec<float, N> rest = (detail::kHalfPi - (p + p)) + detail::kHalfPiLow;
  return copysign(select(large, rest, p), x);
}
template <int N>
AOT_INLINE Vec<float, N> acos(Vec<float, N> x) {
  const Vec<float, N> a = abs(x);
  const auto large = a > 0.5f;
  const Vec<float, N> p = detail::asin_core(a, large), twice = p + p;
  const Vec<float, N> far = (2.0f * detail::kHalfPi - twice) + 2.0f * detail::kHalfPiLow;
  const Vec<float, N> middle = detail::kHalfPi - (copysign(p, x) - detail::kHalfPiLow);
  return select(large, select(x < 0.0f, far, twice), middle);
}

template <int N>
AOT_INLINE Vec<float, N> atan(Vec<float, N> x) {
  const Vec<float, N> a = abs(x);
  const auto large = a > 1.0f;
  const Vec<float, N> y = detail::atan_poly(select(large, -1.0f / a, a));
  return copysign(select(large, y + detail::kHalfPi, y), x);
}

// The angle of (x, y), as C's atan2: every combination of zeros and infinities included.
template <int N>
AOT_INLINE Vec<float, N> atan2(Vec<float, N> y, Vec<float, N> x) {
  const Vec<float, N> a = abs(y), b = abs(x);
  const Vec<float, N> low = detail::min_or_second(a, b), high = detail::max_or_second(a, b);
  Vec<float, N> t = low / high;
  t = select(high == 0.0f, 0.0f, select(low == detail::kInf<float>, 1.0f, t));
  Vec<float, N> p = detail::atan_poly(t);
  p = select(a > b, (detail::kHalfPi - p) + detail::kHalfPiLow, p);
  p = select(signbit(x), (2.0f * detail::kHalfPi - p) + 2.0f * detail::kHalfPiLow, p);
  return select(isnan(x) | isnan(y), x + y, copysign(p, y));
}

}  // namespace aot

#endif  // AOT_VEC_MATH_TRIG_H_
