// Rarely used functions, one lane at a time in float64: gamma, Bessel and inverse error functions.
// Each series is summed to float64 accuracy; float32 results are those rounded.
#ifndef AOT_VEC_MATH_SPECIAL_H_
#define AOT_VEC_MATH_SPECIAL_H_

#include "aot/vec/arith.h"

extern "C" double lgamma_r(double x, int* sign) noexcept(true);  // libm's, without its global

namespace aot {
namespace detail {

#define AOT_RARE static __attribute__((noinline, unused))

constexpr double kPi = 3.14159265358979323846;

AOT_RARE double lgamma_of(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// Recurrence up to x >= 12, then the asymptotic series; reflection for x < 0.
AOT_RARE double digamma_of(double x) {
  constexpr double kBernoulli[] = {1.0 / 12,  -1.0 / 120,     1.0 / 252, -1.0 / 240,
                                   1.0 / 132, -691.0 / 32760, 1.0 / 12};
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double shift = 0;
  if (x < 0) {
    const double whole = __builtin_trunc(x);
    if (whole == x) return __builtin_nan("");
    shift = -kPi / __builtin_tan(kPi * (x - whole));
    x = 1 - x;
  }
  for (; x < 12; x += 1) shift -= 1 / x;
  const double inverse = 1 / (x * x);
  double power = inverse, series = 0;
  for (double b : kBernoulli) {
    series += b * power;
    power *= inverse;
  }
  return shift + __builtin_log(x) - 0.5 / x - series;
}

// Winitzki's closed form (relative error 4e-3), then Halley's iteration, which triples the digits.
// Near 1 the residual is taken from erfc, where nothing cancels.
AOT_RARE double erfinv_of(double y) {
  const double a = __builtin_fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), y) : __builtin_nan("");
  if (a < 1e-8) return y * 0.88622692545275801365;  // sqrt(pi) / 2
  const double l = __builtin_log1p(-a * a), k = 2 / (kPi * 0.147) + l / 2;
  double x = __builtin_sqrt(__builtin_sqrt(k * k - l / 0.147) - k);
  for (int i = 0; i < 3; ++i) {
    const double residual = a < 0.5 ? __builtin_erf(x) - a : (1 - a) - __builtin_erfc(x);
    const double u = residual * 0.88622692545275801365 * __builtin_exp(x * x);
    x -= u / (1 + x * u);
  }
  return __builtin_copysign(x, y);
}

// Modified Bessel function of order 0 or 1, times exp(-|x|) if `scaled`. The power series has
// positive terms only; the asymptotic one is accurate from |x| = 20 on.
AOT_RARE double bessel_i(double x, int order, bool scaled) {
  const double a = __builtin_fabs(x);
  double out;
  if (a < 20) {
    const double q = a * a / 4;
    double term = order == 0 ? 1 : a / 2, sum = 0;
    for (int k = 1; term > sum * 1e-17; ++k) {
      sum += term;
      term *= q / (static_cast<double>(k) * (k + order));
    }
    out = scaled ? sum * __builtin_exp(-a) : sum;
  } else {
    double term = 1, sum = 0;
    for (int k = 1; k < 30 && __builtin_fabs(term) > 1e-17; ++k) {
      sum += term;
      const double odd = 2 * k - 1;
      term *= (odd * odd - 4 * order * order) / (8 * k * a);
    }
    const double root = __builtin_exp(a / 2);  // its square may overflow before the product does
    out = sum / __builtin_sqrt(2 * kPi * a);
    if (!scaled) out = out * root * root;
    if (a == __builtin_inf()) out = scaled ? 0 : a;
  }
  if (x != x) return x;
  return order == 1 && x < 0 ? -out : out;
}

}  // namespace detail

#define AOT_LANEWISE(NAME, CALL)                                           \
  template <class T, int N>                                                \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> x) {                                 \
    return detail::map_lanes([](T v) { return static_cast<T>(CALL); }, x); \
  }
AOT_LANEWISE(lgamma, detail::lgamma_of(v))
AOT_LANEWISE(digamma, detail::digamma_of(v))
AOT_LANEWISE(erfinv, detail::erfinv_of(v))
AOT_LANEWISE(i0, detail::bessel_i(v, 0, false))
AOT_LANEWISE(i0e, detail::bessel_i(v, 0, true))
AOT_LANEWISE(i1, detail::bessel_i(v, 1, false))
AOT_LANEWISE(i1e, detail::bessel_i(v, 1, true))
#undef AOT_LANEWISE

template <int N>
AOT_INLINE Vec<float, N> erfc(Vec<float, N> x) {
  return detail::map_lanes([](float v) { return static_cast<float>(__builtin_erfc(v)); }, x);
}
template <int N>
AOT_INLINE Vec<float, N> cbrt(Vec<float, N> x) {
  return detail::map_lanes([](float v) { return __builtin_cbrtf(v); }, x);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_SPECIAL_H_
