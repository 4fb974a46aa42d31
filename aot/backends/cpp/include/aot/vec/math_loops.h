// Functions of two operands whose loops depend on the data, in float64: the incomplete gamma
// functions and orthogonal polynomials. A loop goes on while a lane needs it; the others keep what
// they have. DLMF: NIST Digital Library of Mathematical Functions.
#ifndef AOT_VEC_MATH_LOOPS_H_
#define AOT_VEC_MATH_LOOPS_H_

#include "aot/vec/arith.h"
#include "aot/vec/math_special.h"

namespace aot {
namespace detail {

// What a term of a sum, or a step of a fraction, may change in results of a type: float32 results
// are rounded from float64.
template <class T>
constexpr double kSeriesEnds = sizeof(T) == 4 ? 1e-9 : 1e-17;
template <class T>
constexpr double kFractionEnds = sizeof(T) == 4 ? 1e-9 : 5e-16;

// u - log(1 + u).
template <int N>
AOT_INLINE Vec<double, N> excess(Vec<double, N> u) {
  return select(u > -1.0, u - log1p(u), kInf<double>);
}

// x**a exp(-x) / gamma(a + 1). From a = 10 on by Stirling's series (DLMF 5.11.1) around x = a,
// where the three factors would cancel.
template <int N>
AOT_INLINE Vec<double, N> gamma_density(Vec<double, N> a, Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto small = a < 10.0;
  V out(0.0);
  if (any(small)) {
    const V near = select(small, a, 1.0);
    out = exp(near * log(x) - x - lgamma_positive(near + 1.0));
  }
  if (!all(small)) {
    const V i = V(1.0) / a, s = i * i, u = (x - a) * i;
    const V tail = i * poly(s, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188);
    const V far = exp(-a * excess(u) - tail) / sqrt(a * (2 * kPi));
    out = select(small, out, far);
  }
  return out;
}

// The area under the density from x outwards on its shorter side, for large a, by Gauss and
// Legendre's rule of 24 points (W. Press et al., Numerical Recipes, 6.2, does it with other
// points).
template <int N>
AOT_INLINE Vec<double, N> gamma_tail(Vec<double, N> a, Vec<double, N> x) {
  using V = Vec<double, N>;
  static constexpr double kPoint[] = {0.06405689286260563, 0.1911188674736163, 0.3150426796961634,
                                      0.4337935076260451,  0.5454214713888396, 0.6480936519369755,
                                      0.7401241915785544,  0.820001985973903,  0.8864155270044011,
                                      0.9382745520027328,  0.9747285559713095, 0.9951872199970213};
  static constexpr double kWeight[] = {
      0.12793819534675202, 0.12583745634682825, 0.1216704729278033,  0.11550566805372552,
      0.10744427011596556, 0.09761865210411393, 0.0861901615319532,  0.07334648141108016,
      0.05929858491543636, 0.04427743881741941, 0.02853138862893356, 0.01234122979998869};
  const V b = a - 1.0, root = sqrt(b), inverse = V(1.0) / b;
  const V right = maximum(b + 11.0 * root, x + 5.5 * root);
  const V left = maximum(V(0.0), minimum(b - 8.8 * root, x - 5.5 * root));
  const V half = (select(x > b, right, left) - x) * 0.5;
  V sum(0.0);
  for (int k = 0; k < 12; ++k) {
    const V u = (x + half * (1 + kPoint[k]) - b) * inverse;
    const V v = (x + half * (1 - kPoint[k]) - b) * inverse;
    sum = fma(exp(-b * excess(u)) + exp(-b * excess(v)), V(kWeight[k]), sum);
  }
  const V s = inverse * inverse;
  const V tail = inverse * poly(s, 1.0 / 12, -1.0 / 360, 1.0 / 1260);
  return sum * abs(half) * exp(-tail) / sqrt(b * (2 * kPi));
}

// The lower side's power series (DLMF 8.11.4), relative to the density. A lane's sum ends with its
// own last term, whatever the others do.
template <class T, int N>
AOT_INLINE Vec<double, N> gamma_series(Vec<double, N> a, Vec<double, N> x) {
  using V = Vec<double, N>;
  V n = a, term(1.0), sum(1.0);
  MaskOf<double, N> going(true);
  while (any(going)) {
    n = n + 1.0;
    term = term * x / n;
    sum = select(going, sum + term, sum);
    going = going & (term > sum * kSeriesEnds<T>);
  }
  return sum;
}

// The upper side's continued fraction (DLMF 8.9.2), relative to a times the density, by W. Lentz's
// method.
template <class T, int N>
AOT_INLINE Vec<double, N> gamma_fraction(Vec<double, N> a, Vec<double, N> x) {
  using V = Vec<double, N>;
  V b = x + 1.0 - a, c(1e300), d = V(1.0) / b, h = d;
  MaskOf<double, N> going(true);
  for (double k = 1; k < 10000 && any(going); k += 1) {
    const V step = (a - k) * k;
    b = b + 2.0;
    d = fma(step, d, b);
    d = V(1.0) / select(d == 0.0, 1e-300, d);
    c = b + step / c;
    c = select(c == 0.0, 1e-300, c);
    const V change = c * d;
    h = select(going, h * change, h);
    going = going & ~(abs(change - 1.0) < kFractionEnds<T>);
  }
  return h;
}

// P (lower) or Q (upper) for finite a, x > 0: left of a + 1 by the series, right of it by the
// fraction. T: the type of the result.
template <class T, bool UPPER, int N>
AOT_INLINE Vec<double, N> incomplete_gamma(Vec<double, N> a, Vec<double, N> x) {
  using V = Vec<double, N>;
  const auto good = (a > 0.0) & (x > 0.0) & isfinite(a) & isfinite(x);
  a = select(good, a, 1.0);
  x = select(good, x, 1.0);
  const auto large = a > 200.0, upper = select(large, x > a - 1.0, x >= a + 1.0);
  V area(0.0), value(0.0);
  if (any(large)) area = gamma_tail(select(large, a, 300.0), select(large, x, 300.0));
  if (!all(large)) {
    // Lanes of another side take operands that need no steps.
    const V s = select(large, 1.0, a), t = select(large, 1.0, x);
    const auto right = upper & ~large;
    V sum(1.0), fraction(1.0);
    if (!all(right | large)) sum = gamma_series<T>(s, select(right, 0.0, t));
    if (any(right)) {
      fraction = s * gamma_fraction<T>(select(right, s, 1.0), select(right, t, 2.0));
    }
    value = gamma_density(s, t) * select(right, fraction, sum);
  }
  value = select(large, area, value);
  return select(good, select(UPPER ? upper : ~upper, value, 1.0 - value), kNaN<double>);
}

// Few lanes at a time: all wait for the slowest.
template <class T, bool UPPER, int N>
AOT_INLINE Vec<T, N> incomplete_gamma_of(Vec<T, N> a, Vec<T, N> x) {
  if constexpr (N > 2 * native_lanes<double>()) {
    return join(incomplete_gamma_of<T, UPPER>(lo_half(a), lo_half(x)),
                incomplete_gamma_of<T, UPPER>(hi_half(a), hi_half(x)));
  } else {
    return convert<T>(incomplete_gamma<T, UPPER>(convert<double>(a), convert<double>(x)));
  }
}

constexpr double kMostDegree = 2147483648.0;  // a loop of several seconds

// p(n) of p(0) = 1, p(1) = first and p(k + 1) = step(k, p(k), p(k - 1)), DLMF 18.9.
template <int N, class F>
AOT_INLINE Vec<double, N> recurrence(Vec<double, N> first, Vec<double, N> n, F step) {
  using V = Vec<double, N>;
  const auto ends = n < kMostDegree;
  V before(1.0), last = first;
  MaskOf<double, N> going = ends & (n > 1.0) & (last == last);
  for (double k = 1; any(going);) {
    const V next = step(k, last, before);
    before = last;
    last = select(going, next, last);
    k += 1;
    going = going & (n > k) & (last == last);
  }
  return select(ends, select(n < 1.0, 1.0, last), kNaN<double>);
}

}  // namespace detail

template <class T, int N>
AOT_INLINE Vec<T, N> igamma(Vec<T, N> a, Vec<T, N> x) {
  return detail::incomplete_gamma_of<T, false>(a, x);
}
template <class T, int N>
AOT_INLINE Vec<T, N> igammac(Vec<T, N> a, Vec<T, N> x) {
  return detail::incomplete_gamma_of<T, true>(a, x);
}

// Polynomials of degree n at x; n is whole.
#define AOT_POLYNOMIAL(NAME, FIRST, NEXT)                                                         \
  template <class T, int N>                                                                       \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> at, Vec<T, N> degree) {                                     \
    using V = Vec<double, N>;                                                                     \
    const V x = convert<double>(at), n = convert<double>(degree);                                 \
    return convert<T>(                                                                            \
        detail::recurrence(FIRST, n, [x]([[maybe_unused]] double k, V p, V q) { return NEXT; })); \
  }
AOT_POLYNOMIAL(chebyshev_t, x, 2.0 * x * p - q)
AOT_POLYNOMIAL(chebyshev_u, 2.0 * x, 2.0 * x * p - q)
AOT_POLYNOMIAL(chebyshev_v, 2.0 * x - 1.0, 2.0 * x * p - q)
AOT_POLYNOMIAL(chebyshev_w, 2.0 * x + 1.0, 2.0 * x * p - q)
AOT_POLYNOMIAL(hermite_h, 2.0 * x, 2.0 * (x * p - k * q))
AOT_POLYNOMIAL(hermite_he, x, x* p - k * q)
AOT_POLYNOMIAL(laguerre_l, 1.0 - x, ((2 * k + 1 - x) * p - k * q) / (k + 1))
AOT_POLYNOMIAL(legendre_p, x, ((2 * k + 1) * x * p - k * q) / (k + 1))
#undef AOT_POLYNOMIAL

}  // namespace aot

#endif  // AOT_VEC_MATH_LOOPS_H_
