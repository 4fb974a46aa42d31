// log and its family.
//
// x = m 2^e with m in [0.75, 1.5), f = m - 1 exactly; log(x) = e ln2 + f - f^2/2 + f^3 P(f) with P a
// minimax polynomial (tools/minimax.py, fit "log") and ln2 in two parts, added small to large.
#ifndef AOT_VEC_MATH_LOG_H_
#define AOT_VEC_MATH_LOG_H_

#include "aot/vec/math_exp.h"

namespace aot {
namespace detail {

template <class T, int N>
struct Split {
  Vec<T, N> mantissa;  // in [0.75, 1.5)
  Vec<T, N> exponent;  // integral
};

// Exponent and mantissa of |x|; any nonzero finite x, subnormals too.
template <int N>
AOT_INLINE Split<float, N> split_float(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (Vec<float, N>::kSplit) {
    const auto l = split_float(x.lo), h = split_float(x.hi);
    return {join(l.mantissa, h.mantissa), join(l.exponent, h.exponent)};
  } else {
    using V = Vec<float, N>;
    const V m = V::of(r_getmant(x.r));
    return {m, V::of(r_getexp(x.r)) - V::of(r_getexp(m.r))};
  }
#else
  const Mask<N> tiny = x < 0x1p-126f;
  x = select(tiny, x * 0x1p25f, x);
  const Vec<int32_t, N> bits = bitcast<int32_t>(x);
  const Vec<int32_t, N> e = (bits - Vec<int32_t, N>(0x3f400000)) >> 23;
  const Vec<float, N> m = bitcast<float>(bits - (e << 23));
  return {m, convert<float>(e) - select(tiny, Vec<float, N>(25.0f), 0.0f)};
#endif
}

// log1p(f) - f for f in [-0.25, 0.5].
template <int N>
AOT_INLINE Vec<float, N> log_tail(Vec<float, N> f) {
  const Vec<float, N> p =
      poly(f, 0x1.5555a4p-2f, -0x1.000046p-2f, 0x1.99695ep-3f, -0x1.54ed86p-3f, 0x1.288482p-3f,
           -0x1.0da4c2p-3f, 0x1.ad097ap-4f, -0x1.71e646p-5f);
  const Vec<float, N> f2 = f * f;
  return fnma(f2, 0.5f, f2 * f * p);
}

// The special cases of a logarithm: 0 -> -inf, negative -> NaN, inf and NaN stay.
template <class T, int N>
AOT_INLINE Vec<T, N> log_specials(Vec<T, N> x, Vec<T, N> y) {
  y = select(x < kInf<T>, y, x);
  y = select(x == T(0), Vec<T, N>(-kInf<T>), y);
  return select(x < T(0), Vec<T, N>(kNaN<T>), y);
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<float, N> log(Vec<float, N> x) {
  const auto s = detail::split_float(x);
  const Vec<float, N> f = s.mantissa - Vec<float, N>(1.0f);
  Vec<float, N> y = fma(s.exponent, 0x1.7f7d1cp-20f, detail::log_tail(f));
  y = fma(s.exponent, 0x1.62e4p-1f, y + f);
  return detail::log_specials(x, y);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_LOG_H_
