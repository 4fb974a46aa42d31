// Complementary and inverse error functions and modified Bessel functions, in registers. The Bessel
// functions are summed in float64 for both types.
#ifndef AOT_VEC_MATH_SPECIAL_H_
#define AOT_VEC_MATH_SPECIAL_H_

#include "aot/vec/math_gamma.h"

namespace aot {
namespace detail {

// erfinv(x) = x P(w), w = -log(1 - x^2), on pieces of w (M. Giles, "Approximating the erfinv
// function", 2012); far out P is a function of sqrt(w). Fits "erfinv" and "erfinv64", the pieces
// further out "_tail" and "_far". What lies beyond +-1 is NaN as its logarithm is.
template <int N>
AOT_INLINE Vec<float, N> erfinv_quotient(Vec<float, N> w) {
  const Vec<float, N> t = w - 2.5f, r = sqrt(w) - 3.1f;
  const Vec<float, N> near =
      poly(t, 0x1.805c5ep0f, 0x1.f91e8ap-3f, -0x1.11c4ecp-8f, -0x1.486616p-10f, 0x1.c9e6c8p-13f,
           -0x1.4d15a2p-18f, -0x1.d0c19ep-19f, 0x1.f48be8p-22f, 0x1.8f2214p-26f, -0x1.2e0eb4p-27f);
  const Vec<float, N> far =
      poly(r, 0x1.777422p1f, 0x1.00dbcap0f, 0x1.e8cc9cp-8f, -0x1.72e8aap-8f, 0x1.0ed9ecp-8f,
           -0x1.788d34p-9f, 0x1.562e16p-10f, -0x1.7bb668p-15f, -0x1.4f26dap-13f);
  return select(w < 5.0f, near, far);
}
template <int N>
AOT_INLINE Vec<double, N> erfinv_quotient(Vec<double, N> w) {
  const Vec<double, N> t = w - 3.125;
  const Vec<double, N> near = poly(
      t, 0x1.a755e7c99ae87p0, 0x1.ebd80d9b13e23p-3, -0x1.8b6c33114fb89p-8, -0x1.845769484d9bap-11,
      0x1.879c2a214402ep-13, -0x1.d1d1f7b9a6298p-17, -0x1.6e8a5445c9134p-20, 0x1.c6b4f5f6d1781p-22,
      -0x1.f36cd3452f418p-26, -0x1.1a9e3e3283727p-28, 0x1.20f4614642737p-30, -0x1.dc5759fbdd5a4p-35,
      -0x1.c88177f38ee32p-37, 0x1.729f370ebc14fp-39, -0x1.6f87a19488befp-44, -0x1.6d1b0796fb3c3p-45,
      0x1.df15140047ffp-48, 0x1.72cf4872ad20ep-56, -0x1.3558e1dda30b3p-53, 0x1.9d1a916b55fd9p-57,
      0x1.8641b381d748cp-60, -0x1.8fab5ea81492p-63, -0x1.46b5fc7cf0905p-68);
  const auto beyond = w >= 6.25;
  if (!any(beyond)) return near;
  const Vec<double, N> root = sqrt(w), r = root - 3.25, q = root - 5.0;
  const Vec<double, N> tail = poly(
      r, 0x1.8abcc380d5a47p1, 0x1.0158a6d641d3bp0, 0x1.5ffcfe5b7a377p-8, -0x1.ebadabb8a20bbp-9,
      0x1.468eeca3e3f0dp-9, -0x1.ba92412fd0f07p-10, 0x1.f3cc560d3e44fp-11, -0x1.7448a9296e8e8p-12,
      0x1.932c6779b5ff6p-16, 0x1.1e6859b536c7dp-14, -0x1.8cee0566a45f6p-15, 0x1.a298bc6db930cp-17,
      0x1.882ba122e5049p-19, -0x1.0d58c12167f92p-18, 0x1.941e5ba1744eep-20, 0x1.34609063b5cd4p-26,
      -0x1.2a3aee516eca8p-22, 0x1.864f5c4ebe935p-24, 0x1.bbd0cbeed2a92p-29);
  const Vec<double, N> far = poly(
      q, 0x1.3664ddd1ad7fbp2, 0x1.02a30d1fba104p0, -0x1.22ea5df0467c3p-13, -0x1.c2f36a9e57ec3p-13,
      0x1.3ebf4eb1350dcp-14, -0x1.4a34919898326p-16, 0x1.2fbd2908b3eap-18, -0x1.0a8fb2f9e5b46p-20,
      0x1.ebc940ef0194cp-23, -0x1.2250873f4261bp-24, 0x1.f4b64f631fd96p-26, -0x1.04d3979e4a67dp-26,
      0x1.05cfb0f302301p-27, -0x1.e7ff91515a0c6p-29, 0x1.9d96fb24fcf5bp-30, -0x1.af13060ad5914p-32,
      -0x1.cd15648810b52p-36, 0x1.1aef6d80f9ed2p-35);
  return select(beyond, select(w < 16.0, tail, far), near);
}

// 1 / (k! (k + order)!) for k < kBesselNear, and ((2 k)! / k!)^2-like products of odd squares over
// k! 8^k for k < kBesselFar (DLMF 10.25.2 and 10.40.1).
constexpr int kBesselNear = 36;
constexpr int kBesselFar = 26;
struct BesselSeries {
  double near[kBesselNear] = {}, far[kBesselFar] = {};
  constexpr explicit BesselSeries(int order) {
    near[0] = far[0] = 1;
    for (int k = 1; k < kBesselNear; ++k) near[k] = near[k - 1] / (double(k) * (k + order));
    for (int k = 1; k < kBesselFar; ++k) {
      far[k] = far[k - 1] * ((2 * k - 1) * (2 * k - 1) - 4 * order * order) / (8.0 * k);
    }
  }
};

// As many as a result of type T has use for: what is left out is 1e-8 of it, or 1e-16.
template <class T>
constexpr int kBesselNearTerms = sizeof(T) == 4 ? 26 : kBesselNear;
template <class T>
constexpr int kBesselFarTerms = sizeof(T) == 4 ? 8 : kBesselFar;

// The sum of the first COUNT c[k] x^k: even and odd powers apart, which halves the wait of each
// term for the last.
template <int COUNT, int SIZE, int N>
AOT_INLINE Vec<double, N> power_series(const double (&c)[SIZE], Vec<double, N> x) {
  static_assert(COUNT % 2 == 0 && COUNT <= SIZE);
  const Vec<double, N> square = x * x;
  Vec<double, N> even(c[COUNT - 2]), odd(c[COUNT - 1]);
  for (int k = COUNT - 4; k >= 0; k -= 2) {
    even = fma(even, square, c[k]);
    odd = fma(odd, square, c[k + 1]);
  }
  return fma(odd, x, even);
}

// Modified Bessel function of order 0 or 1, times exp(-|x|) if SCALED. The power series has
// positive terms only; the asymptotic one is accurate from |x| = 20 on. T: of the result.
template <class T, int ORDER, bool SCALED, int N>
AOT_INLINE Vec<double, N> bessel_i(Vec<double, N> x) {
  static constexpr BesselSeries kSeries(ORDER);
  using V = Vec<double, N>;
  const V a = abs(x), half = a * 0.5;
  const auto beyond = a >= 20.0;
  const V limited = select(beyond, 0.0, half);
  V out = power_series<kBesselNearTerms<T>>(kSeries.near, limited * limited);
  if (ORDER == 1) out = out * half;
  if (SCALED) out = out * exp(-a);
  if (any(beyond)) {
    const V inverse = V(1.0) / a;  // the only division: it takes as long as half of a series
    V far = power_series<kBesselFarTerms<T>>(kSeries.far, inverse) * sqrt(inverse * (0.5 / kPi));
    if (!SCALED) {
      const V root = exp(half);  // its square may overflow before the product does
      far = select(a == kInf<double>, a, far * root * root);
    }
    out = select(beyond, far, out);
  }
  return ORDER == 1 ? copysign(out, x) : out;
}

#if AOT_ISA_LEVEL >= 3
// (1 + 2 a) exp(a^2) erfc(a) of t = 1 - 7.5 / (a + 3.75): the Chebyshev series ERFCX of
// tools/chebyshev.py.
constexpr double kScaledErfc[] = {
    1.1775789345674017,     -0.004590054580646478,   -0.08424913336651792,
    0.05920993999819189,    -0.026658668435305753,   0.009074997670705265,
    -0.002413163540417608,  0.0004907758365258086,   -6.916973302501207e-05,
    4.13902798607301e-06,   7.74038306619849e-07,    -2.1886401049234397e-07,
    1.076499946567091e-08,  4.521959811218287e-09,   -7.754400208831351e-10,
    -6.318088340886684e-11, 2.86879501093067e-11,    1.9455868545777347e-13,
    -9.65469674843344e-13,  3.25254814814874e-14,    3.3478119482868056e-14,
    -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17};
// Its first terms, which float32 has use for, as powers of t.
constexpr float kScaledErfcPowers[] = {
    1.2375125885009766f,    -0.1402406543493271f,   0.0035862703807651997f,
    0.08227842301130295f,   -0.10881426930427551f,  0.09229076653718948f,
    -0.05864685773849487f,  0.02840925194323063f,   -0.009844494983553886f,
    0.0016759121790528297f, 0.0003963076160289347f, -0.00022411675308831036f};

// exp(a^2) erfc(a) for a in [0, 30]. t is -1 + 2 a / (a + 3.75), exact where a is small.
template <int N>
AOT_INLINE Vec<float, N> scaled_erfc(Vec<float, N> a) {
  using V = Vec<float, N>;
  constexpr int kTerms = sizeof(kScaledErfcPowers) / sizeof(float);
  const V u = a + 3.75f, w = a + a + 1.0f;
  const V both = 1.0f / (u * w);  // a division takes as long as all of the series
  const V t = fma(a + a, w * both, splat<float, N>(-1));
  V y = splat<float, N>(kScaledErfcPowers[kTerms - 1]);
  AOT_UNROLL for (int k = kTerms - 2; k >= 0; --k) {
    y = fma(y, t, splat<float, N>(kScaledErfcPowers[k]));
  }
  return y * (u * both);
}
template <int N>
AOT_INLINE Vec<double, N> scaled_erfc(Vec<double, N> a) {
  using V = Vec<double, N>;
  constexpr int kTerms = sizeof(kScaledErfc) / sizeof(double);
  const V t = 1.0 - 7.5 / (a + 3.75), twice = t + t;
  V last = splat<double, N>(kScaledErfc[kTerms - 1]), before = splat<double, N>(0);
  AOT_UNROLL for (int k = kTerms - 2; k > 0; --k) {
    const V next = fma(twice, last, kScaledErfc[k] - before);
    before = last;
    last = next;
  }
  return fma(t, last, kScaledErfc[0] - before) / (a + a + 1.0);
}

#endif

}  // namespace detail

template <class T, int N>
AOT_INLINE Vec<T, N> erfinv(Vec<T, N> x) {
  const Vec<T, N> a = abs(x);
  const Vec<T, N> w = -log((T(1) - a) * (a + T(1)));
  const Vec<T, N> y = x * detail::erfinv_quotient(w);
  return select(a == T(1), copysign(Vec<T, N>(detail::kInf<T>), x), y);
}

#define AOT_BESSEL(NAME, ORDER, SCALED)                                        \
  template <class T, int N>                                                    \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> x) {                                     \
    return convert<T>(detail::bessel_i<T, ORDER, SCALED>(convert<double>(x))); \
  }
AOT_BESSEL(i0, 0, false)
AOT_BESSEL(i0e, 0, true)
AOT_BESSEL(i1, 1, false)
AOT_BESSEL(i1e, 1, true)
#undef AOT_BESSEL

#if AOT_ISA_LEVEL >= 3
// erfc(x) = exp(-x^2) times that, mirrored for x < 0; x^2 in two parts.
template <class T, int N>
AOT_INLINE Vec<T, N> erfc(Vec<T, N> x) {
  using V = Vec<T, N>;
  const V a = detail::min_or_second(splat<T, N>(30), abs(x));
  const V scaled = detail::scaled_erfc(a);
  const V square = a * a, low = fma(a, a, -square);
  const V right = exp(-square) * fnma(scaled, low, scaled);
  return select(x < T(0), T(2) - right, right);
}
#else
template <int N>
AOT_INLINE Vec<float, N> erfc(Vec<float, N> x) {
  return detail::map_lanes([](float v) { return static_cast<float>(__builtin_erfc(v)); }, x);
}
#endif
template <int N>
AOT_INLINE Vec<float, N> cbrt(Vec<float, N> x) {
  return detail::map_lanes([](float v) { return __builtin_cbrtf(v); }, x);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_SPECIAL_H_
