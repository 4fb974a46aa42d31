// lgamma and digamma: float64 in registers; float32 results are those rounded.
//
// Both are an asymptotic series (DLMF 5.11.1, 5.11.2) from 8 on, reached by recurrence from below,
// and reflected for negative arguments (DLMF 5.5.3, 5.5.4). DLMF: NIST Digital Library of
// Mathematical Functions.
#ifndef AOT_VEC_MATH_GAMMA_H_
#define AOT_VEC_MATH_GAMMA_H_

#include "aot/vec/math_double.h"

namespace aot {
namespace detail {

constexpr double kPi = 3.14159265358979323846;

// sin(pi r) / (pi r) and cos(pi r) for |r| <= 1/2, of s = (pi r)^2: Taylor's series.
template <int N>
AOT_INLINE Vec<double, N> sinc_poly(Vec<double, N> s) {
  return poly(s, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
              1.0 / 6227020800.0, -1.0 / 1307674368000.0, 1.0 / 355687428096000.0,
              -1.0 / 121645100408832000.0, 1.0 / 51090942171709440000.0);
}
template <int N>
AOT_INLINE Vec<double, N> cos_pi_poly(Vec<double, N> s) {
  return poly(s, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
              -1.0 / 87178291200.0, 1.0 / 20922789888000.0, -1.0 / 6402373705728000.0,
              1.0 / 2432902008176640000.0, -1.0 / 1124000727777607680000.0);
}

// log(gamma(x)) for x > 0. Below 8: y = x + a whole number in [1.5, 2.5), lgamma(y) by fit
// "lgamma64", and the logarithm of the factors between; at 1 and 2 each part keeps its digits.
template <int N>
AOT_INLINE Vec<double, N> lgamma_positive(Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto far = x >= 8.0, small = x < 0.5, low = x < 1.5;
  V y = x - 2.0, factors(1.0);
  AOT_UNROLL for (int k = 1; k <= 6; ++k) {
    const V factor = x - static_cast<double>(k);
    const auto above = factor >= 1.5;
    factors = select(above, factors * factor, factors);
    y = select(above, factor - 2.0, y);
  }
  y = select(small, x, select(low, x - 1.0, y));
  factors = select(small, x * (x + 1.0), select(low, x, factors));
  const V near = poly(y, 0x1.b0ee6072093cep-2, 0x1.4a34cc4a60fa6p-2, -0x1.13e001a557606p-4,
                      0x1.51322ac7d849ap-6, -0x1.e404fc218f85fp-8, 0x1.7add6eadb2e8bp-9,
                      -0x1.38ac5c2bd8367p-10, 0x1.0b36af889ebc9p-11, -0x1.d3fd4c92fcda1p-13,
                      0x1.a127af4f62f34p-14, -0x1.78de54c57bbe3p-15, 0x1.580e244cb6a34p-16,
                      -0x1.3cbdb07effb5cp-17, 0x1.258cc045f2911p-18, -0x1.1196da704114fp-19,
                      0x1.0143c5c03bf17p-20, -0x1.e5eb3c7282004p-22, 0x1.b1cf209afac77p-23,
                      -0x1.8c877223e343ep-24, 0x1.15be170feb837p-24, -0x1.1f79217af60d9p-25);
  const V log_of = log(select(far, x, factors));
  const V i = V(1.0) / x, s = i * i;
  const V series = i * poly(s, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                            -691.0 / 360360, 1.0 / 156, -3617.0 / 122400);
  const V stirling = fma(x - 0.5, log_of - 1.0, series + 0.41893853320467274178);
  return select(far, stirling, fma(y, near, select(low, -log_of, log_of)));
}

// Recurrence by 8 steps at once for x < 8: the sum of 1 / (x + k) as one fraction.
template <int N>
AOT_INLINE Vec<double, N> digamma_positive(Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto near = x < 8.0;
  V above(1.0), below = x;
  AOT_UNROLL for (int k = 1; k < 8; ++k) {
    const V factor = x + static_cast<double>(k);
    above = fma(above, factor, below);
    below = below * factor;
  }
  const V shift = select(near, above / below, V(0.0));
  x = select(near, x + 8.0, x);
  const V i = V(1.0) / x, s = i * i;
  const V series = s * poly(s, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132,
                            -691.0 / 32760, 1.0 / 12, -3617.0 / 8160);
  return log(x) - 0.5 * i - series - shift;
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<double, N> lgamma(Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto left = ~(x > 0.0);
  if (!any(left)) return detail::lgamma_positive(x);
  // log(|r| sin(pi r) / (pi r)) from the nearest whole number; a pole at r = 0.
  const V r = abs(x - round(x)), t = r * detail::kPi;
  const V value = detail::lgamma_positive(select(left, 1.0 - x, x));
  const V mirrored = -log(r * detail::sinc_poly(t * t)) - value;
  return select(isinf(x), detail::kInf<double>, select(left, mirrored, value));
}

template <int N>
AOT_INLINE Vec<double, N> digamma(Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto left = ~(x > 0.0);
  if (!any(left)) return detail::digamma_positive(x);
  const V value = detail::digamma_positive(select(left, 1.0 - x, x));
  const V r = x - round(x), t = r * detail::kPi, s = t * t;
  const V mirrored = value - detail::cos_pi_poly(s) / (r * detail::sinc_poly(s));
  const V pole = select(x == 0.0, copysign(V(detail::kInf<double>), -x), detail::kNaN<double>);
  return select(left, select(r == 0.0, pole, mirrored), value);
}

template <int N>
AOT_INLINE Vec<float, N> lgamma(Vec<float, N> x) {
  return convert<float>(lgamma(convert<double>(x)));
}
template <int N>
AOT_INLINE Vec<float, N> digamma(Vec<float, N> x) {
  return convert<float>(digamma(convert<double>(x)));
}

}  // namespace aot

#endif  // AOT_VEC_MATH_GAMMA_H_
