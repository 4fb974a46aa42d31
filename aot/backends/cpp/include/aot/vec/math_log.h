// log and its family, float32.
//
// x = m 2^e with m in [0.75, 1.5), f = m - 1 exactly; log(x) = e ln2 + f - f^2/2 + f^3 P(f) with P
// a minimax polynomial (tools/minimax.py, fit "log") and ln2 in two parts, added small to large.
#ifndef AOT_VEC_MATH_LOG_H_
#define AOT_VEC_MATH_LOG_H_

#include "aot/vec/math_exp.h"

namespace aot {
namespace detail {

template <class T, int N>
struct Parts {
  Vec<T, N> mantissa;  // in [0.75, 1.5)
  Vec<T, N> exponent;  // integral
};

// Mantissa and exponent of x > 0, finite, subnormal or not; no trap for any other x.
template <int N>
AOT_INLINE Parts<float, N> parts_of(Vec<float, N> x) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (Vec<float, N>::kSplit) {
    const auto l = parts_of(x.lo), h = parts_of(x.hi);
    return {join(l.mantissa, h.mantissa), join(l.exponent, h.exponent)};
  } else {
    using V = Vec<float, N>;
    const V m = V::of(r_getmant(x.r));
    return {m, V::of(r_getexp(x.r)) - V::of(r_getexp(m.r))};
  }
#else
  const auto tiny = x < 0x1p-126f;
  x = select(tiny, x * 0x1p25f, x);
  const Vec<int32_t, N> bits = bitcast<int32_t>(x);
  const Vec<int32_t, N> e = (bits - 0x3f400000) >> 23;
  const Vec<float, N> m = bitcast<float>(bits - (e << 23));
  return {m, convert<float>(e) - select(tiny, Vec<float, N>(25.0f), 0.0f)};
#endif
}

// log1p(f) - f for f in [-0.25, 0.5].
template <int N>
AOT_INLINE Vec<float, N> log_tail(Vec<float, N> f) {
  const Vec<float, N> p = poly(f, 0x1.5555a4p-2f, -0x1.000046p-2f, 0x1.99695cp-3f, -0x1.54ed82p-3f,
                               0x1.2884a4p-3f, -0x1.0da4dap-3f, 0x1.ad06b2p-4f, -0x1.71ddb4p-5f);
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

// e ln2 + f + tail.
template <int N>
AOT_INLINE Vec<float, N> log_sum(Vec<float, N> e, Vec<float, N> f, Vec<float, N> tail) {
  return fma(e, kLn2Hi, fma(e, kLn2Lo, tail) + f);
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<float, N> log(Vec<float, N> x) {
  const auto p = detail::parts_of(x);
  const Vec<float, N> f = p.mantissa - 1.0f;
  return detail::log_specials(x, detail::log_sum(p.exponent, f, detail::log_tail(f)));
}

// log2(x) = e + log(m) log2(e), the factor in two parts.
template <int N>
AOT_INLINE Vec<float, N> log2(Vec<float, N> x) {
  const auto p = detail::parts_of(x);
  const Vec<float, N> f = p.mantissa - 1.0f, tail = detail::log_tail(f);
  const Vec<float, N> low = fma(f, 0x1.4ae0cp-26f, tail * 0x1.715476p0f);
  return detail::log_specials(x, fma(f, 0x1.715476p0f, low) + p.exponent);
}

template <int N>
AOT_INLINE Vec<float, N> log10(Vec<float, N> x) {
  const auto p = detail::parts_of(x);
  const Vec<float, N> f = p.mantissa - 1.0f, tail = detail::log_tail(f);
  // log10(2) in a part of 13 bits and the rest; log10(e) in two parts as well.
  Vec<float, N> y = fma(tail, 0x1.bcb7b2p-2f, p.exponent * 0x1.3509f8p-18f);
  y = fma(f, -0x1.5b235ep-27f, y);
  y = fma(f, 0x1.bcb7b2p-2f, y);
  return detail::log_specials(x, fma(p.exponent, 0x1.344p-2f, y));
}

// log(u) for u = 1 + x rounded, corrected by what the rounding lost: f = (m - 1) + lost 2^-e.
template <int N>
AOT_INLINE Vec<float, N> log1p(Vec<float, N> x) {
  const Vec<float, N> u = x + 1.0f;
  const Vec<float, N> back = u - 1.0f;
  const Vec<float, N> lost = (1.0f - (u - back)) + (x - back);
  const auto p = detail::parts_of(u);
  const Vec<float, N> down = detail::max_or_second(-p.exponent, Vec<float, N>(-126.0f));
  const Vec<float, N> scale = detail::power_of_two<float>(convert<int32_t>(down), 0);
  const Vec<float, N> f = fma(lost, scale, p.mantissa - 1.0f);
  const Vec<float, N> y = detail::log_sum(p.exponent, f, detail::log_tail(f));
  return select(x == 0.0f, x, detail::log_specials(u, y));
}

}  // namespace aot

#endif  // AOT_VEC_MATH_LOG_H_
