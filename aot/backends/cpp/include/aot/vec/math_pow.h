// pow and hypot, float32, computed through float64 registers.
#ifndef AOT_VEC_MATH_POW_H_
#define AOT_VEC_MATH_POW_H_

#include "aot/vec/math_log.h"

namespace aot {
namespace detail {

// 2^(y log2(a)) for a > 0 as a float64 that is 0 or inf when converted to float32 wherever that
// is the result. A relative error of 2^-32 in the logarithm is below half an ulp after
// multiplication by |y log2(a)| <= 150. Fits "pow_log" and "pow_exp".
template <int N>
AOT_INLINE Vec<double, N> pow_positive(Vec<float, N> a, Vec<double, N> y) {
  const Parts<float, N> parts = parts_of(a);
  const Vec<double, N> f = convert<double>(parts.mantissa - 1.0f);
  const Vec<double, N> p =
      poly(f, 0x1.555553b75449fp-2, -0x1.00000d9a338d4p-2, 0x1.999b761664c3ep-3,
           -0x1.555031e9286e5p-3, 0x1.243d6310b4689p-3, -0x1.ffdd6fc831833p-4, 0x1.d259ec84639a4p-4,
           -0x1.b0f37e3cdda58p-4, 0x1.49c3ceedd69f4p-4, -0x1.0439043eb2149p-5);
  const Vec<double, N> f2 = f * f;
  const Vec<double, N> log = fma(fma(f, p, -0.5), f2, f);
  Vec<double, N> log2 = fma(log, 0x1.71547652b82fep0, convert<double>(parts.exponent));
  const Vec<double, N> wide = convert<double>(a);
  log2 = select(wide == 0.0, Vec<double, N>(-kInf<double>), log2);
  log2 = select(wide < kInf<double>, log2, wide);  // inf and NaN
  const Vec<double, N> t = limit(y * log2, -300.0, 300.0);
  const Vec<double, N> sum = t + kMagic<double>;
  const Vec<double, N> r = t - (sum - kMagic<double>);
  const Vec<double, N> e =
      poly(r, 1.0, 0x1.62e430af38d25p-1, 0x1.ebfbdc3c49c0cp-3, 0x1.c6aee87fd93d3p-5,
           0x1.3b2d4cdd3ba8fp-7, 0x1.5f3e58675cfffp-10, 0x1.41fbcbe47a129p-13);
  return e * power_of_two<double>(bitcast<int64_t>(sum), 0);
}

// x^y with all special cases of C, from |x|^y.
template <class T, int N>
AOT_INLINE Vec<T, N> pow_signed(Vec<T, N> x, Vec<T, N> y, Vec<T, N> out) {
  const Vec<T, N> a = abs(x), half = y * T(0.5);
  const auto integral = trunc(y) == y;
  const auto odd = integral & (trunc(half) != half);
  out = select(odd, copysign(out, x), out);
  out = select((x < T(0)) & ~integral & (a < kInf<T>), Vec<T, N>(kNaN<T>), out);
  const auto one = (x == T(1)) | (y == T(0)) | ((a == T(1)) & isinf(y));
  return select(one, Vec<T, N>(T(1)), out);
}

}  // namespace detail

// C's pow with all its special cases.
template <int N>
AOT_INLINE Vec<float, N> pow(Vec<float, N> x, Vec<float, N> y) {
  const Vec<double, N> out = detail::pow_positive(abs(x), convert<double>(y));
  return detail::pow_signed(x, y, convert<float>(out));
}

// sqrt(x^2 + y^2) without overflow or underflow on the way; inf wins over NaN.
template <int N>
AOT_INLINE Vec<float, N> hypot(Vec<float, N> x, Vec<float, N> y) {
  const Vec<double, N> a = convert<double>(x), b = convert<double>(y);
  const Vec<float, N> out = convert<float>(sqrt(fma(a, a, b * b)));
  return select(isinf(x) | isinf(y), detail::kInf<float>, out);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_POW_H_
