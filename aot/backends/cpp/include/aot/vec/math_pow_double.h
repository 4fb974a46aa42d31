// float64, from v3 on: logarithms in two doubles and what is made of them (pow, log2, log10), exp2,
// hypot and the inverse hyperbolic functions; before, lane by lane with libm.
#ifndef AOT_VEC_MATH_POW_DOUBLE_H_
#define AOT_VEC_MATH_POW_DOUBLE_H_

#include "aot/vec/math_double.h"
#include "aot/vec/math_pow.h"

namespace aot {

#if AOT_ISA_LEVEL >= 3
namespace detail {

// hi + lo, which is hi once rounded.
template <int N>
struct Two {
  Vec<double, N> hi, lo;
};

// The rounding of a product, x y = product + rounding.
template <int N>
AOT_INLINE Vec<double, N> rounding_of(Vec<double, N> x, Vec<double, N> y, Vec<double, N> product) {
  return fma(x, y, -product);
}

// x y, both of which are two doubles, but for what lies 2^-104 below it.
template <int N>
AOT_INLINE Two<N> times(Two<N> x, Two<N> y) {
  const Vec<double, N> hi = x.hi * y.hi;
  return {hi, fma(x.hi, y.lo, fma(x.lo, y.hi, rounding_of(x.hi, y.hi, hi)))};
}

// log(m + below) for m in [0.75, 1.5), with a relative error of 2^-63: with q = (m - 1) / (m + 1)
// it is 2 q + 2/3 q^3 in two doubles, and q^5 P(q^2) in one. Fit "log_two64".
template <int N>
AOT_INLINE Two<N> log_two(Vec<double, N> m, Vec<double, N> below) {
  using V = Vec<double, N>;
  const V f = m - 1.0, d = m + 1.0;  // f is exact, as is what d leaves out
  const V rest = (m - (d - 1.0)) + below;
  const V inverse = 1.0 / d, high = f * inverse;
  const Two<N> q{high, (fnma(high, rest, fnma(high, d, f)) + below) * inverse};
  const Two<N> s = times(q, q), cube = times(s, q);
  const Two<N> third = times(cube, {V(0x1.5555555555555p-1), V(0x1.5555555555555p-55)});
  const V p = poly(s.hi, 0x1.9999999999967p-2, 0x1.2492492498f15p-2, 0x1.c71c71bc4ee63p-3,
                   0x1.745d1bd156f06p-3, 0x1.3b12963ae2868p-3, 0x1.113a55c34a455p-3,
                   0x1.dac9385e0101ep-4, 0x1.0193a94395959p-3);
  const V twice = q.hi + q.hi, sum = twice + third.hi;
  const V low = fma(cube.hi * s.hi, p, q.lo + q.lo + third.lo);
  return {sum, (twice - sum) + third.hi + low};
}

// 2^n exp(high + low), rounded nearly once, for n = sum - kMagic and |high| <= ln2 / 2.
template <int N>
AOT_INLINE Vec<double, N> exp_rest(Vec<double, N> high, Vec<double, N> low, Vec<double, N> sum) {
  const Vec<double, N> r = high + low, rest = (high - r) + low;
  const Vec<double, N> p = poly(r, 0x1p-1, 0x1.5555555555559p-3, 0x1.555555555555cp-5,
                                0x1.111111110f627p-7, 0x1.6c16c16c11f3fp-10, 0x1.a01a01b0224ccp-13,
                                0x1.a01a01c4935a3p-16, 0x1.71ddf7a8636a3p-19, 0x1.27e48a26abedbp-22,
                                0x1.af6005f2fb088p-26, 0x1.200941b7dd1c8p-29);
  const Vec<double, N> small = fma(r * r, p, fma(rest, r, rest)), one = r + 1.0;
  return scale_by_power(one + ((1.0 - one) + r + small), sum, 0);
}

// e two + m, where e two.hi is exact and zero or greater than m.
template <int N>
AOT_INLINE Two<N> add_exponent(Vec<double, N> e, Two<N> two, Two<N> m) {
  const Vec<double, N> whole = e * two.hi, sum = whole + m.hi;
  const Vec<double, N> low = (whole - sum) + m.hi + fma(e, two.lo, m.lo), hi = sum + low;
  return {hi, (sum - hi) + low};
}
template <int N>
AOT_INLINE Two<N> ln2_parts() {
  return {Vec<double, N>(kLn2Hi64), Vec<double, N>(kLn2Lo64)};
}

// a^y for a > 0, subnormal or not; of a = 0 and inf the limits.
template <int N>
AOT_INLINE Vec<double, N> pow_positive(Vec<double, N> a, Vec<double, N> y) {
  using V = Vec<double, N>;
  const auto parts = parts_of(a);
  const Two<N> log = add_exponent(parts.exponent, ln2_parts<N>(), log_two(parts.mantissa, V(0.0)));
  // Of 0 the logarithm is -inf; inf and NaN stay.
  const V high = select(a == 0.0, V(-kInf<double>), select(a < kInf<double>, log.hi, a));
  const V product = y * high, t = limit(product, -800.0, 800.0);
  const V below = select(t == product, fma(y, log.lo, rounding_of(y, high, product)), V(0.0));
  const V sum = fma(t, kLog2E64, V(kMagic<double>)), n = sum - kMagic<double>;
  const V left = fnma(n, kLn2Hi64, t), r = fnma(n, kLn2Lo64, left);  // `left` is exact
  return exp_rest(r, fnma(n, kLn2Lo64, left - r) + below, sum);
}

// x's logarithm to a base of which `unit` is log(e), and `two` log(2).
template <int N>
AOT_INLINE Vec<double, N> log_of_base(Vec<double, N> x, Two<N> unit, Two<N> two) {
  const auto parts = parts_of(x);
  const Two<N> m = times(log_two(parts.mantissa, Vec<double, N>(0.0)), unit);
  return log_specials(x, add_exponent(parts.exponent, two, m).hi);
}

// log((1 + a) / (1 - a)) for 0 <= a < 1.
template <int N>
AOT_INLINE Vec<double, N> log_of_ratio(Vec<double, N> a) {
  using V = Vec<double, N>;
  const V above = a + 1.0, under = 1.0 - a, more = a - (above - 1.0), less = (1.0 - under) - a;
  const V inverse = 1.0 / under, ratio = above * inverse;
  const V low = (fnma(ratio, less, fnma(ratio, under, above)) + more) * inverse;
  const auto parts = parts_of(ratio);
  const V down = power_of_two<double>(bitcast<int64_t>(V(kMagic<double>) - parts.exponent), 0);
  return add_exponent(parts.exponent, ln2_parts<N>(), log_two(parts.mantissa, low * down)).hi;
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<double, N> pow(Vec<double, N> x, Vec<double, N> y) {
  return detail::pow_signed(x, y, detail::pow_positive(abs(x), y));
}
template <int N>
AOT_INLINE Vec<double, N> log2(Vec<double, N> x) {
  using V = Vec<double, N>;
  return detail::log_of_base<N>(x, {V(0x1.71547652b82fep0), V(0x1.777d0ffda0d24p-56)},
                                {V(1.0), V(0.0)});
}
template <int N>
AOT_INLINE Vec<double, N> log10(Vec<double, N> x) {
  using V = Vec<double, N>;
  return detail::log_of_base<N>(x, {V(0x1.bcb7b1526e50ep-2), V(0x1.95355baaafad3p-57)},
                                {V(0x1.34413509f7p-2), V(0x1.3fde623e2566bp-43)});
}
template <int N>
AOT_INLINE Vec<double, N> exp2(Vec<double, N> x) {
  using V = Vec<double, N>;
  x = detail::limit(x, -1100.0, 1100.0);
  const V sum = x + detail::kMagic<double>, part = x - (sum - detail::kMagic<double>);
  const detail::Two<N> r =
      detail::times<N>({part, V(0.0)}, {V(0x1.62e42fefa39efp-1), V(0x1.abc9e3b39803fp-56)});
  return detail::exp_rest(r.hi, r.lo, sum);
}
// sqrt(x^2 + y^2) without overflow or underflow on the way; inf wins over NaN.
template <int N>
AOT_INLINE Vec<double, N> hypot(Vec<double, N> x, Vec<double, N> y) {
  using V = Vec<double, N>;
  const V a = abs(x), b = abs(y), most = detail::max_or_second(a, b);
  const auto large = most > 0x1p500, small = most < 0x1p-450;
  const V down = select(large, V(0x1p-600), select(small, V(0x1p600), V(1.0)));
  const V up = select(large, V(0x1p600), select(small, V(0x1p-600), V(1.0)));
  const V low = detail::min_or_second(a, b) * down, high = most * down;
  const V out = sqrt(fma(high, high, low * low)) * up;
  const V known = select(isnan(x) | isnan(y), x + y, out);
  return select(isinf(x) | isinf(y), detail::kInf<double>, known);
}
template <int N>
AOT_INLINE Vec<double, N> atanh(Vec<double, N> x) {
  using V = Vec<double, N>;
  const V a = abs(x), y = detail::log_of_ratio(a) * 0.5;
  const V near = select(a < 0x1p-28, a, select(a == 1.0, V(detail::kInf<double>), y));
  return copysign(select(a <= 1.0, near, V(detail::kNaN<double>)), x);
}
// Beyond 2^60 the logarithm of 2 a.
template <int N>
AOT_INLINE Vec<double, N> asinh(Vec<double, N> x) {
  const Vec<double, N> a = abs(x);
  const auto far = a > 0x1p60;
  const Vec<double, N> near = fma(a, a / (sqrt(fma(a, a, Vec<double, N>(1.0))) + 1.0), a);
  const Vec<double, N> y = log1p(select(far, a, near));
  return copysign(select(far, y + detail::kLn2Hi64 + detail::kLn2Lo64, y), x);
}
template <int N>
AOT_INLINE Vec<double, N> acosh(Vec<double, N> x) {
  const auto far = x > 0x1p60;
  const Vec<double, N> t = x - 1.0;
  const Vec<double, N> y = log1p(select(far, x, t + sqrt(fma(t, t, t + t))));
  const Vec<double, N> out = select(far, y + detail::kLn2Hi64 + detail::kLn2Lo64, y);
  return select(x < 1.0, Vec<double, N>(detail::kNaN<double>), out);
}
#endif

}  // namespace aot

#endif  // AOT_VEC_MATH_POW_DOUBLE_H_
