// Functions of two operands whose loops depend on the data, one lane at a time in float64: the
// incomplete gamma functions and orthogonal polynomials. DLMF: NIST Digital Library of Mathematical
// Functions.
#ifndef AOT_VEC_MATH_LOOPS_H_
#define AOT_VEC_MATH_LOOPS_H_

#include "aot/vec/arith.h"
#include "aot/vec/math_special.h"

namespace aot {
namespace detail {

// x**a exp(-x) / gamma(a + 1). From a = 10 on by Stirling's series (DLMF 5.11.1) around x = a,
// where the three factors would cancel.
AOT_RARE double gamma_density(double a, double x) {
  if (a < 10) return __builtin_exp(a * __builtin_log(x) - x - lgamma_of(a + 1));
  const double u = (x - a) / a, i = 1 / (a * a);
  const double tail =
      (1.0 / 12 - i * (1.0 / 360 - i * (1.0 / 1260 - i * (1.0 / 1680 - i / 1188)))) / a;
  const double shape = u > -1 ? u - __builtin_log1p(u) : __builtin_inf();
  return __builtin_exp(-a * shape - tail) / __builtin_sqrt(2 * kPi * a);
}

// The area under the density from x outwards on its shorter side, for large a, by Gauss and
// Legendre's rule of 24 points (W. Press et al., Numerical Recipes, 6.2, does it with other
// points).
AOT_RARE double gamma_tail(double a, double x) {
  constexpr double kPoint[] = {0.06405689286260563, 0.1911188674736163, 0.3150426796961634,
                               0.4337935076260451,  0.5454214713888396, 0.6480936519369755,
                               0.7401241915785544,  0.820001985973903,  0.8864155270044011,
                               0.9382745520027328,  0.9747285559713095, 0.9951872199970213};
  constexpr double kWeight[] = {0.12793819534675202, 0.12583745634682825, 0.1216704729278033,
                                0.11550566805372552, 0.10744427011596556, 0.09761865210411393,
                                0.0861901615319532,  0.07334648141108016, 0.05929858491543636,
                                0.04427743881741941, 0.02853138862893356, 0.01234122979998869};
  const double b = a - 1, root = __builtin_sqrt(b);
  const double right = __builtin_fmax(b + 11 * root, x + 5.5 * root);
  const double left = __builtin_fmax(0, __builtin_fmin(b - 8.8 * root, x - 5.5 * root));
  const double half = ((x > b ? right : left) - x) / 2;
  double sum = 0;
  for (int k = 0; k < 24; ++k) {
    const double point = 1 + (k < 12 ? kPoint[k] : -kPoint[k - 12]);
    const double u = (x + half * point - b) / b;
    if (u > -1) sum += kWeight[k % 12] * __builtin_exp(-b * (u - __builtin_log1p(u)));
  }
  const double tail = (1.0 / 12 - (1.0 / 360 - 1 / (1260 * b * b)) / (b * b)) / b;
  return sum * __builtin_fabs(half) * __builtin_exp(-tail) / __builtin_sqrt(2 * kPi * b);
}

// P (lower) or Q (upper) for finite a, x > 0: the power series (DLMF 8.11.4) left of a + 1, the
// continued fraction (DLMF 8.9.2, by W. Lentz's method) right of it.
AOT_RARE double igamma_of(double a, double x, bool upper) {
  double value;
  bool is_upper;
  if (!(a > 0) || !(x > 0)) return __builtin_nan("");
  if (a > 200) {
    value = gamma_tail(a, x);
    is_upper = x > a - 1;
  } else if (x < a + 1) {
    double term = 1, sum = 1;
    for (double n = a + 1; term > sum * 1e-17; n += 1) sum += term *= x / n;
    value = gamma_density(a, x) * sum;
    is_upper = false;
  } else {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 10000; ++k) {
      const double an = -k * (k - a);
      b += 2;
      d = an * d + b;
      d = 1 / (d == 0 ? 1e-300 : d);
      c = b + an / c;
      if (c == 0) c = 1e-300;
      h *= c * d;
      if (__builtin_fabs(c * d - 1) < 5e-16) break;
    }
    value = gamma_density(a, x) * a * h;
    is_upper = true;
  }
  return is_upper == upper ? value : 1 - value;
}

constexpr double kMostDegree = 2147483648.0;  // a loop of several seconds

// p(k + 1) = (alpha p(k) - beta p(k - 1)) from p(0) = 1 and p(1) = first, DLMF 18.9; `step` gives
// p(k + 1).
template <class F>
AOT_INLINE double recurrence(double first, double n, F step) {
  if (!(n < kMostDegree)) return __builtin_nan("");
  if (n < 1) return 1;
  double before = 1, last = first;
  for (double k = 1; k < n && last == last; k += 1) {
    const double next = step(k, last, before);
    before = last;
    last = next;
  }
  return last;
}

}  // namespace detail

#define AOT_LANEWISE_2(NAME, CALL)                                                 \
  template <class T, int N>                                                        \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> a, Vec<T, N> b) {                            \
    return detail::map_lanes([](T x, T y) { return static_cast<T>(CALL); }, a, b); \
  }
AOT_LANEWISE_2(igamma, detail::igamma_of(x, y, false))
AOT_LANEWISE_2(igammac, detail::igamma_of(x, y, true))
#undef AOT_LANEWISE_2

// Polynomials of degree n at x; n is whole.
#define AOT_POLYNOMIAL(NAME, FIRST, NEXT)                                                      \
  template <class T, int N>                                                                    \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> x, Vec<T, N> n) {                                        \
    const auto lane = [](double x, double n) {                                                 \
      return detail::recurrence(FIRST, n, [x](double k, double p, double q) { return NEXT; }); \
    };                                                                                         \
    return detail::map_lanes([=](T v, T w) { return static_cast<T>(lane(v, w)); }, x, n);      \
  }
AOT_POLYNOMIAL(hermite_h, 2 * x, 2 * (x * p - k * q))
AOT_POLYNOMIAL(hermite_he, x, x* p - k * q)
AOT_POLYNOMIAL(laguerre_l, 1 - x, ((2 * k + 1 - x) * p - k * q) / (k + 1))
AOT_POLYNOMIAL(legendre_p, x, ((2 * k + 1) * x * p - k * q) / (k + 1))
#undef AOT_POLYNOMIAL

}  // namespace aot

#endif  // AOT_VEC_MATH_LOOPS_H_
