// Functions computed lane by lane with libm.
#ifndef AOT_VEC_MATH_LIBM_H_
#define AOT_VEC_MATH_LIBM_H_

#include "aot/vec/math_hyper.h"

namespace aot {

#define AOT_LIBM_1(NAME, T, CALL)                                                         \
  template <int N>                                                                        \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> x) {                                                \
    return detail::map_lanes([](T v) { return CALL(v); }, x);                             \
  }
#define AOT_LIBM_2(NAME, T, CALL)                                                         \
  template <int N>                                                                        \
  AOT_INLINE Vec<T, N> NAME(Vec<T, N> x, Vec<T, N> y) {                                   \
    return detail::map_lanes([](T v, T w) { return CALL(v, w); }, x, y);                  \
  }
AOT_LIBM_1(exp2, float, __builtin_exp2f)
AOT_LIBM_1(expm1, float, __builtin_expm1f)
AOT_LIBM_1(log2, float, __builtin_log2f)
AOT_LIBM_1(log10, float, __builtin_log10f)
AOT_LIBM_1(log1p, float, __builtin_log1pf)
AOT_LIBM_1(sin, float, __builtin_sinf)
AOT_LIBM_1(cos, float, __builtin_cosf)
AOT_LIBM_1(tan, float, __builtin_tanf)
AOT_LIBM_1(asin, float, __builtin_asinf)
AOT_LIBM_1(acos, float, __builtin_acosf)
AOT_LIBM_1(atan, float, __builtin_atanf)
AOT_LIBM_1(sinh, float, __builtin_sinhf)
AOT_LIBM_1(cosh, float, __builtin_coshf)
AOT_LIBM_1(asinh, float, __builtin_asinhf)
AOT_LIBM_1(acosh, float, __builtin_acoshf)
AOT_LIBM_1(atanh, float, __builtin_atanhf)
AOT_LIBM_1(erf, float, __builtin_erff)
AOT_LIBM_1(erfc, float, __builtin_erfcf)
AOT_LIBM_1(lgamma, float, __builtin_lgammaf)
AOT_LIBM_1(cbrt, float, __builtin_cbrtf)
AOT_LIBM_1(exp2, double, __builtin_exp2)
AOT_LIBM_1(expm1, double, __builtin_expm1)
AOT_LIBM_1(log2, double, __builtin_log2)
AOT_LIBM_1(log10, double, __builtin_log10)
AOT_LIBM_1(log1p, double, __builtin_log1p)
AOT_LIBM_1(sin, double, __builtin_sin)
AOT_LIBM_1(cos, double, __builtin_cos)
AOT_LIBM_1(tan, double, __builtin_tan)
AOT_LIBM_1(asin, double, __builtin_asin)
AOT_LIBM_1(acos, double, __builtin_acos)
AOT_LIBM_1(atan, double, __builtin_atan)
AOT_LIBM_1(sinh, double, __builtin_sinh)
AOT_LIBM_1(cosh, double, __builtin_cosh)
AOT_LIBM_1(asinh, double, __builtin_asinh)
AOT_LIBM_1(acosh, double, __builtin_acosh)
AOT_LIBM_1(atanh, double, __builtin_atanh)
AOT_LIBM_1(erf, double, __builtin_erf)
AOT_LIBM_1(erfc, double, __builtin_erfc)
AOT_LIBM_1(lgamma, double, __builtin_lgamma)
AOT_LIBM_1(cbrt, double, __builtin_cbrt)
AOT_LIBM_1(exp, double, __builtin_exp)
AOT_LIBM_1(log, double, __builtin_log)
AOT_LIBM_1(tanh, double, __builtin_tanh)
AOT_LIBM_2(pow, float, __builtin_powf)
AOT_LIBM_2(pow, double, __builtin_pow)
AOT_LIBM_2(atan2, float, __builtin_atan2f)
AOT_LIBM_2(atan2, double, __builtin_atan2)
AOT_LIBM_2(hypot, float, __builtin_hypotf)
AOT_LIBM_2(hypot, double, __builtin_hypot)
AOT_LIBM_2(fmod, float, __builtin_fmodf)
AOT_LIBM_2(fmod, double, __builtin_fmod)
AOT_LIBM_2(nextafter, float, __builtin_nextafterf)
AOT_LIBM_2(nextafter, double, __builtin_nextafter)
#undef AOT_LIBM_1
#undef AOT_LIBM_2

template <int N>
AOT_INLINE Vec<double, N> sigmoid(Vec<double, N> x) {
  const Vec<double, N> e = exp(-abs(x));
  return select(x < 0.0, e, Vec<double, N>(1.0)) / (e + 1.0);
}
template <class T, int N>
AOT_INLINE Vec<T, N> rsqrt(Vec<T, N> x) {
  return T(1) / sqrt(x);
}

}  // namespace aot

#endif  // AOT_VEC_MATH_LIBM_H_
