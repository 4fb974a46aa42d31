// float64: exp, expm1, log, log1p, tanh and sigmoid in registers, from v3 on sin, cos, tan, their
// inverses, sinh, cosh, erf, erfc (math_special.h), and what math_pow_double.h has; the rest lane
// by lane with libm.
#ifndef AOT_VEC_MATH_DOUBLE_H_
#define AOT_VEC_MATH_DOUBLE_H_

#include "aot/vec/integer.h"
#include "aot/vec/math_log.h"

namespace aot {
namespace detail {

constexpr double kLn2Hi64 = 0x1.62e42ffp-1;  // 32 bits
constexpr double kLn2Lo64 = -0x1.718432a1b0e26p-35;
constexpr double kLog2E64 = 0x1.71547652b82fep0;

template <int N>
struct Expm1Parts {
  Vec<double, N> p;    // expm1(r)
  Vec<double, N> sum;  // n + kMagic, x = n ln2 + r
};

// Fit "exp64": expm1(r) = r + r^2 P(r).
template <int N>
AOT_INLINE Expm1Parts<N> expm1_parts(Vec<double, N> x) {
  const Vec<double, N> sum = fma(x, kLog2E64, kMagic<double>);
  const Vec<double, N> n = sum - kMagic<double>;
  const Vec<double, N> r = fnma(n, kLn2Lo64, fnma(n, kLn2Hi64, x));
  const Vec<double, N> p = poly(r, 0x1p-1, 0x1.5555555555559p-3, 0x1.555555555555cp-5,
                                0x1.111111110f627p-7, 0x1.6c16c16c11f3fp-10, 0x1.a01a01b0224ccp-13,
                                0x1.a01a01c4935a3p-16, 0x1.71ddf7a8636a3p-19, 0x1.27e48a26abedbp-22,
                                0x1.af6005f2fb088p-26, 0x1.200941b7dd1c8p-29);
  return {fma(r * r, p, r), sum};
}

// expm1(x) * 2^-down for x in [-700, 709 + ln2 (down - 1)] or NaN; the sign of zero is lost.
template <int N>
AOT_INLINE Vec<double, N> expm1_scaled(Vec<double, N> x, int down) {
  const Expm1Parts<N> e = expm1_parts(x);
  const Vec<double, N> scale = power_of_two<double>(bitcast<int64_t>(e.sum), -down);
  return fma(scale, e.p, scale - 1.0 / static_cast<double>(1 << down));
}

// As the float32 version.
template <int N>
AOT_INLINE Parts<double, N> parts_of(Vec<double, N> x) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (Vec<double, N>::kSplit) {
    const auto l = parts_of(x.lo), h = parts_of(x.hi);
    return {join(l.mantissa, h.mantissa), join(l.exponent, h.exponent)};
  } else {
    using V = Vec<double, N>;
    const V m = V::of(r_getmant(x.r));
    return {m, V::of(r_getexp(x.r)) - V::of(r_getexp(m.r))};
  }
#else
  const auto tiny = x < 0x1p-1022;
  x = select(tiny, x * 0x1p54, x);
  const Vec<uint64_t, N> bits = bitcast<uint64_t>(x);
  // The exponent of x / 0.75, biased; it becomes the low bits of 2^52 + exponent.
  const Vec<uint64_t, N> biased = (bits - 0x3fe8000000000000u + (uint64_t{1023} << 52)) >> 52;
  const Vec<uint64_t, N> e = biased - 1023u;
  const Vec<double, N> m = bitcast<double>(bits - (e << 52));
  const Vec<double, N> value = bitcast<double>(biased | 0x4330000000000000u) - (0x1p52 + 1023.0);
  return {m, value - select(tiny, Vec<double, N>(54.0), 0.0)};
#endif
}

}  // namespace detail

template <int N>
AOT_INLINE Vec<double, N> exp(Vec<double, N> x) {
  const auto e = detail::expm1_parts(detail::limit(x, -746.0, 710.0));
  return detail::scale_by_power(e.p + 1.0, e.sum, 0);
}
template <int N>
AOT_INLINE Vec<double, N> expm1(Vec<double, N> x) {
  const Vec<double, N> y = detail::expm1_scaled(detail::limit(x, -40.0, 709.9), 1);
  return copysign(select(abs(x) < 0x1p-500, x, y + y), x);  // half a subnormal loses a bit
}
template <int N>
AOT_INLINE Vec<double, N> tanh(Vec<double, N> x) {
  const Vec<double, N> a = detail::min_or_second(Vec<double, N>(20.0), abs(x));
  const Vec<double, N> t = detail::expm1_scaled(a + a, 0);
  return copysign(t / (t + 2.0), x);
}
template <int N>
AOT_INLINE Vec<double, N> sigmoid(Vec<double, N> x) {
  const Vec<double, N> e = exp(detail::neg_abs(x));
  return select(x < 0.0, e, Vec<double, N>(1.0)) / (e + 1.0);
}
// log1p(f) = f - (h - z (h + z^2 P(z^2))) with z = f / (2 + f), h = f^2 / 2: fit "log64".
template <int N>
AOT_INLINE Vec<double, N> log(Vec<double, N> x) {
  const auto parts = detail::parts_of(x);
  const Vec<double, N> f = parts.mantissa - 1.0;
  const Vec<double, N> z = f / (f + 2.0), s = z * z, h = f * f * 0.5;
  const Vec<double, N> p =
      detail::poly(s, 0x1.5555555555555p-1, 0x1.9999999999b86p-2, 0x1.24924924746e8p-2,
                   0x1.c71c71e22e184p-3, 0x1.745d10f5cc326p-3, 0x1.3b14669c83a68p-3,
                   0x1.110d50aac2457p-3, 0x1.df7b2be63de51p-4, 0x1.e91478590efa2p-4);
  const Vec<double, N> low = fma(parts.exponent, detail::kLn2Lo64, z * fma(s, p, h));
  const Vec<double, N> y = fma(parts.exponent, detail::kLn2Hi64, f - (h - low));
  return detail::log_specials(x, y);
}

// log(w), w = 1 + x rounded, and what the rounding left out.
template <int N>
AOT_INLINE Vec<double, N> log1p(Vec<double, N> x) {
  const Vec<double, N> w = x + 1.0;
  const Vec<double, N> y = log(w) + (x - (w - 1.0)) / w;
  return select((w == 0.0) | (w == detail::kInf<double>), log(w), select(abs(x) < 0x1p-54, x, y));
}

#if AOT_ISA_LEVEL >= 3
namespace detail {
// As in math_trig.h, with pi/2 in three doubles; sin and cos of |r| <= pi/4 by Taylor's series.
template <int N>
struct Reduced64 {
  Vec<double, N> sine, cosine;
  MaskOf<double, N> odd;    // the quadrant is 1 or 3
  Vec<int64_t, N> negated;  // the sign of quadrants 2 and 3, as a sign bit
};
template <int N>
AOT_INLINE Reduced64<N> reduce_half_pi(Vec<double, N> x, int turns) {
  const Vec<double, N> sum = fma(x, 0x1.45f306dc9c883p-1, kMagic<double>);
  const Vec<double, N> n = sum - kMagic<double>;
  const Vec<double, N> first = fnma(n, 0x1.921fb54442d18p0, x);
  const Vec<double, N> r = fnma(n, -0x1.f1976b7ed8fbcp-110, fnma(n, 0x1.1a62633145c07p-54, first)),
                       s = r * r;
  const Vec<double, N> p =
      poly(s, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0,
           -1.0 / 1307674368000.0, 1.0 / 355687428096000.0);
  const Vec<double, N> q =
      poly(s, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
           -1.0 / 87178291200.0, 1.0 / 20922789888000.0, -1.0 / 6402373705728000.0);
  const Vec<int64_t, N> quadrant = bitcast<int64_t>(sum) + int64_t{turns};
  const Vec<double, N> cosine = fma(s * s, q, fma(s, -0.5, Vec<double, N>(1.0)));
  return {fma(r * s, p, r), cosine, (quadrant & 1) != 0, (quadrant & 2) << 62};
}
// y, except where |x| is beyond the reduction: there libm's, on each lane.
template <class F, int N>
AOT_INLINE Vec<double, N> beyond_bound(F f, Vec<double, N> x, Vec<double, N> y) {
  const auto far = ~(abs(x) <= 0x1p17);
  if (AOT_UNLIKELY(any(far))) y = select(far, map_lanes(f, x), y);
  return y;
}
template <int N>
AOT_INLINE Vec<double, N> sin_turned(Vec<double, N> x, int turns) {
  const Reduced64<N> a = reduce_half_pi(x, turns);
  const Vec<double, N> y = select(a.odd, a.cosine, a.sine);
  return bitcast<double>(bitcast<int64_t>(y) ^ a.negated);
}
}  // namespace detail

template <int N>
AOT_INLINE Vec<double, N> sin(Vec<double, N> x) {
  const Vec<double, N> y = select(x == 0.0, x, detail::sin_turned(x, 0));  // -0.0 stays
  return detail::beyond_bound([](double v) { return __builtin_sin(v); }, x, y);
}
template <int N>
AOT_INLINE Vec<double, N> cos(Vec<double, N> x) {
  return detail::beyond_bound([](double v) { return __builtin_cos(v); }, x,
                              detail::sin_turned(x, 1));
}
template <int N>
AOT_INLINE Vec<double, N> tan(Vec<double, N> x) {
  const detail::Reduced64<N> a = detail::reduce_half_pi(x, 0);
  const Vec<double, N> y = select(a.odd, -a.cosine, a.sine) / select(a.odd, a.sine, a.cosine);
  return detail::beyond_bound([](double v) { return __builtin_tan(v); }, x, select(x == 0.0, x, y));
}
#endif

#if AOT_ISA_LEVEL >= 3
// 1 - exp(-g) as in math_hyper.h, fit "erf64".
template <int N>
AOT_INLINE Vec<double, N> erf(Vec<double, N> x) {
  const Vec<double, N> a = detail::min_or_second(Vec<double, N>(5.93), abs(x));
  const Vec<double, N> p = detail::poly(
      a, -0x1.20dd750429b6dp0, -0x1.45f306dc9c97cp-1, -0x1.a4f4e2a195bc9p-4, 0x1.39668588eb943p-6,
      0x1.b6b6d25ba7ca3p-13, -0x1.bca6c07db5364p-10, 0x1.3568142ac0ba6p-11, -0x1.b36c39f6eccd9p-16,
      -0x1.0dabca53b1633p-14, 0x1.ec19dd78e87e9p-16, -0x1.78aed652f71b8p-19, -0x1.dcf68ad07ce08p-19,
      0x1.44ebce7da67adp-19, -0x1.c74697e61de7cp-21, 0x1.6fbcad80818e7p-23, -0x1.f255781532a47p-28,
      -0x1.172585afd314ap-27, 0x1.bc5e0ce244ae5p-29, -0x1.7e2df073d369ep-31, 0x1.abd561bf750cdp-34,
      -0x1.38585f8910d4bp-37, 0x1.105845566f04bp-41, -0x1.b06b0715f1be9p-47);
  return copysign(detail::expm1_scaled(a * p, 0), x);
}
#endif

#if AOT_ISA_LEVEL >= 3
// The inverse and the hyperbolic functions are those of math_trig.h and math_hyper.h with longer
// fits: "asin64" and "atan64".
namespace detail {
constexpr double kHalfPi64 = 0x1.921fb54442d18p0, kHalfPiLow64 = 0x1.1a62633145c07p-54;

template <int N>
AOT_INLINE Vec<double, N> asin_core(Vec<double, N> a, MaskOf<double, N> large) {
  const Vec<double, N> z = select(large, (1.0 - a) * 0.5, a * a);
  const Vec<double, N> t = select(large, sqrt(z), a);
  const Vec<double, N> p =
      poly(z, 0x1.5555555555577p-3, 0x1.333333332e132p-4, 0x1.6db6db7212569p-5,
           0x1.f1c71a94fa3b6p-6, 0x1.6e8bdedf6e866p-6, 0x1.1c49f06b04288p-6, 0x1.ca1f8c3523b32p-7,
           0x1.758592be34b30p-7, 0x1.613c5f9545884p-7, 0x1.e5f7cf762d292p-9, 0x1.639bdd8fa33b5p-6,
           -0x1.57fcd1f1f1fa4p-6, 0x1.0b46949b2ff42p-5);
  return fma(t * z, p, t);
}
// Of 0 <= t <= 1. Even and odd powers apart: the chain of all of them is what it would wait for.
template <int N>
AOT_INLINE Vec<double, N> atan_poly(Vec<double, N> t) {
  const Vec<double, N> s = t * t, q = s * s;
  const Vec<double, N> even = poly(
      q, -0x1.555555555554dp-2, -0x1.2492492457697p-3, -0x1.745d15d2c9461p-4, -0x1.11103358caf9ap-4,
      -0x1.aeda863855c72p-5, -0x1.5f262b500333fp-5, -0x1.0c9bdfa3cf64fp-5, -0x1.3110d26dae2f6p-6,
      -0x1.700069c99c576p-8, -0x1.370f2eb5d84a1p-11, -0x1.229bcfbf33dfdp-17);
  const Vec<double, N> odd =
      poly(q, 0x1.9999999998c65p-3, 0x1.c71c71b650befp-4, 0x1.3b139bec195ecp-4,
           0x1.e1d49271197ecp-5, 0x1.84b50a414f18fp-5, 0x1.3908cf1501994p-5, 0x1.ac8d9ec9cb7fap-6,
           0x1.7301d9dfe807ep-7, 0x1.1a2f1b12ee602p-9, 0x1.b3fdd5681b229p-14);
  return fma(t * s, fma(s, odd, even), t);
}
}  // namespace detail

template <int N>
AOT_INLINE Vec<double, N> asin(Vec<double, N> x) {
  const Vec<double, N> a = abs(x);
  const auto large = a > 0.5;
  const Vec<double, N> p = detail::asin_core(a, large);
  const Vec<double, N> rest = (detail::kHalfPi64 - (p + p)) + detail::kHalfPiLow64;
  return copysign(select(large, rest, p), x);
}
template <int N>
AOT_INLINE Vec<double, N> acos(Vec<double, N> x) {
  const Vec<double, N> a = abs(x);
  const auto large = a > 0.5;
  const Vec<double, N> p = detail::asin_core(a, large), twice = p + p;
  const Vec<double, N> far = (2.0 * detail::kHalfPi64 - twice) + 2.0 * detail::kHalfPiLow64;
  const Vec<double, N> middle = detail::kHalfPi64 - (copysign(p, x) - detail::kHalfPiLow64);
  return select(large, select(x < 0.0, far, twice), middle);
}
template <int N>
AOT_INLINE Vec<double, N> atan(Vec<double, N> x) {
  const Vec<double, N> a = abs(x);
  const auto large = a > 1.0;
  const Vec<double, N> y = detail::atan_poly(select(large, 1.0 / a, a));
  const Vec<double, N> rest = (detail::kHalfPi64 - y) + detail::kHalfPiLow64;
  return copysign(select(large, rest, y), x);
}
template <int N>
AOT_INLINE Vec<double, N> atan2(Vec<double, N> y, Vec<double, N> x) {
  const Vec<double, N> a = abs(y), b = abs(x);
  const Vec<double, N> low = detail::min_or_second(a, b), high = detail::max_or_second(a, b);
  Vec<double, N> t = low / high;
  t = select(high == 0.0, 0.0, select(low == detail::kInf<double>, 1.0, t));
  Vec<double, N> p = detail::atan_poly(t);
  p = select(a > b, (detail::kHalfPi64 - p) + detail::kHalfPiLow64, p);
  p = select(signbit(x), (2.0 * detail::kHalfPi64 - p) + 2.0 * detail::kHalfPiLow64, p);
  return select(isnan(x) | isnan(y), x + y, copysign(p, y));
}
template <int N>
AOT_INLINE Vec<double, N> sinh(Vec<double, N> x) {
  const Vec<double, N> a = detail::min_or_second(Vec<double, N>(711.0), abs(x));
  const Vec<double, N> half = detail::expm1_scaled(a, 4) * 8.0;
  const Vec<double, N> h = detail::min_or_second(Vec<double, N>(0x1p500), half);
  const Vec<double, N> y = half + h / fma(h, 2.0, Vec<double, N>(1.0));
  return copysign(select(a < 0x1p-500, a, y), x);
}
template <int N>
AOT_INLINE Vec<double, N> cosh(Vec<double, N> x) {
  const auto e = detail::expm1_parts(detail::min_or_second(Vec<double, N>(711.0), abs(x)));
  const Vec<double, N> half = detail::scale_by_power(e.p + 1.0, e.sum, -1);
  return half + 0.25 / half;
}
#endif

#define AOT_LIBM(NAME)                                                         \
  template <int N>                                                             \
  AOT_INLINE Vec<double, N> NAME(Vec<double, N> x) {                           \
    return detail::map_lanes([](double v) { return __builtin_##NAME(v); }, x); \
  }
#define AOT_LIBM_2(NAME)                                                                       \
  template <int N>                                                                             \
  AOT_INLINE Vec<double, N> NAME(Vec<double, N> x, Vec<double, N> y) {                         \
    return detail::map_lanes([](double v, double w) { return __builtin_##NAME(v, w); }, x, y); \
  }
#if AOT_ISA_LEVEL < 3
AOT_LIBM(exp2)
AOT_LIBM(log2)
AOT_LIBM(log10)
AOT_LIBM(sin)
AOT_LIBM(cos)
AOT_LIBM(tan)
AOT_LIBM(asin)
AOT_LIBM(acos)
AOT_LIBM(atan)
AOT_LIBM(sinh)
AOT_LIBM(cosh)
AOT_LIBM(asinh)
AOT_LIBM(acosh)
AOT_LIBM(atanh)
AOT_LIBM(erf)
AOT_LIBM(erfc)
AOT_LIBM_2(pow)
AOT_LIBM_2(atan2)
AOT_LIBM_2(hypot)
#endif
AOT_LIBM(cbrt)
#undef AOT_LIBM
#undef AOT_LIBM_2

}  // namespace aot

#endif  // AOT_VEC_MATH_DOUBLE_H_
