// The functions of this library on plain numbers: one-lane calls, so results are bit-identical to
// those of any lane.
#ifndef AOT_VEC_SCALAR_H_
#define AOT_VEC_SCALAR_H_

#include "aot/vec/arith.h"
#include "aot/vec/integer.h"
#include "aot/vec/math_double.h"
#include "aot/vec/math_exp.h"
#include "aot/vec/math_hyper.h"
#include "aot/vec/math_log.h"
#include "aot/vec/math_pow.h"
#include "aot/vec/math_pow_double.h"
#include "aot/vec/math_special.h"
#include "aot/vec/math_trig.h"

namespace aot {

// Templates, though of one type each: what a plain function calls, a compiler instantiates for
// every unit that reads this header, and of these that is the whole library.
#define AOT_SCALAR_1(NAME, T)    \
  template <class V = Vec<T, 1>> \
  AOT_INLINE T NAME(T x) {       \
    return NAME(V(x))[0];        \
  }
#define AOT_SCALAR_2(NAME, T)    \
  template <class V = Vec<T, 1>> \
  AOT_INLINE T NAME(T x, T y) {  \
    return NAME(V(x), V(y))[0];  \
  }
#define AOT_SCALAR_FLOATS(MACRO, NAME) MACRO(NAME, float) MACRO(NAME, double)
#define AOT_SCALAR_NUMBERS(MACRO, NAME) \
  MACRO(NAME, float)                    \
  MACRO(NAME, double)                   \
  MACRO(NAME, int64_t)                  \
  MACRO(NAME, int32_t)                  \
  MACRO(NAME, uint64_t)                 \
  MACRO(NAME, uint32_t)                 \
  MACRO(NAME, uint16_t)                 \
  MACRO(NAME, int16_t) MACRO(NAME, int8_t) MACRO(NAME, uint8_t)

#define AOT_SCALAR_ROW(NAME) AOT_SCALAR_FLOATS(AOT_SCALAR_1, NAME)
AOT_SCALAR_ROW(sqrt)
AOT_SCALAR_ROW(rsqrt)
AOT_SCALAR_ROW(reciprocal)
AOT_SCALAR_ROW(exp)
AOT_SCALAR_ROW(exp2)
AOT_SCALAR_ROW(expm1)
AOT_SCALAR_ROW(log)
AOT_SCALAR_ROW(log2)
AOT_SCALAR_ROW(log10)
AOT_SCALAR_ROW(log1p)
AOT_SCALAR_ROW(sin)
AOT_SCALAR_ROW(cos)
AOT_SCALAR_ROW(tan)
AOT_SCALAR_ROW(asin)
AOT_SCALAR_ROW(acos)
AOT_SCALAR_ROW(atan)
AOT_SCALAR_ROW(sinh)
AOT_SCALAR_ROW(cosh)
AOT_SCALAR_ROW(tanh)
AOT_SCALAR_ROW(asinh)
AOT_SCALAR_ROW(acosh)
AOT_SCALAR_ROW(atanh)
AOT_SCALAR_ROW(erf)
AOT_SCALAR_ROW(erfc)
AOT_SCALAR_ROW(erfinv)
AOT_SCALAR_ROW(lgamma)
AOT_SCALAR_ROW(digamma)
AOT_SCALAR_ROW(sigmoid)
AOT_SCALAR_ROW(cbrt)
AOT_SCALAR_ROW(i0)
AOT_SCALAR_ROW(i0e)
AOT_SCALAR_ROW(i1)
AOT_SCALAR_ROW(i1e)
#undef AOT_SCALAR_ROW
#define AOT_SCALAR_ROW(NAME) AOT_SCALAR_FLOATS(AOT_SCALAR_2, NAME)
AOT_SCALAR_ROW(pow)
AOT_SCALAR_ROW(atan2)
AOT_SCALAR_ROW(hypot)
AOT_SCALAR_ROW(copysign)
AOT_SCALAR_ROW(nextafter)
#undef AOT_SCALAR_ROW
#define AOT_SCALAR_ROW(NAME) AOT_SCALAR_NUMBERS(AOT_SCALAR_1, NAME)
AOT_SCALAR_ROW(abs)
AOT_SCALAR_ROW(neg)
AOT_SCALAR_ROW(sign)
AOT_SCALAR_ROW(relu)
AOT_SCALAR_ROW(floor)
AOT_SCALAR_ROW(ceil)
AOT_SCALAR_ROW(trunc)
AOT_SCALAR_ROW(round)
#undef AOT_SCALAR_ROW
#define AOT_SCALAR_ROW(NAME) AOT_SCALAR_NUMBERS(AOT_SCALAR_2, NAME)
AOT_SCALAR_ROW(minimum)
AOT_SCALAR_ROW(maximum)
AOT_SCALAR_ROW(fmin)
AOT_SCALAR_ROW(fmax)
AOT_SCALAR_ROW(div_trunc)
AOT_SCALAR_ROW(div_floor)
AOT_SCALAR_ROW(remainder)
AOT_SCALAR_ROW(fmod)
#undef AOT_SCALAR_ROW
AOT_SCALAR_2(pow, int64_t)
AOT_SCALAR_2(pow, int32_t)
AOT_SCALAR_2(gcd, int64_t)
AOT_SCALAR_2(gcd, int32_t)
AOT_SCALAR_2(shift_left, int64_t)
AOT_SCALAR_2(shift_left, int32_t)
AOT_SCALAR_2(shift_right, int64_t)
AOT_SCALAR_2(shift_right, int32_t)
#undef AOT_SCALAR_1
#undef AOT_SCALAR_2
#undef AOT_SCALAR_FLOATS
#undef AOT_SCALAR_NUMBERS

template <class V = Vec<float, 1>>
AOT_INLINE float fma(float a, float b, float c) {
  return fma(V(a), V(b), V(c))[0];
}
template <class V = Vec<double, 1>>
AOT_INLINE double fma(double a, double b, double c) {
  return fma(V(a), V(b), V(c))[0];
}
AOT_INLINE bool isnan(float x) { return x != x; }
AOT_INLINE bool isnan(double x) { return x != x; }
// b ? x : y on numbers, so that scalar code reads like lane code.
template <class T>
AOT_INLINE T select(bool m, T a, T b) {
  return m ? a : b;
}
// C-like conversion with the rules of `convert` on lanes.
template <class B, class A>
AOT_INLINE B convert_scalar(A x) {
  return convert<B>(Vec<A, 1>(x))[0];
}

}  // namespace aot

#endif  // AOT_VEC_SCALAR_H_
