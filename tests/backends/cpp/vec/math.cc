// The math functions of aot/vec over arrays, for test_math.py. `f32_NAME` runs full vectors and
// a masked tail, `one_NAME` one lane at a time, `scalar_NAME` the plain-number form.
#include "aot/vec/vec.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kLanes = aot::native_lanes<float>();

}  // namespace

#define UNARY(T, PREFIX, NAME)                               \
  EXPORT void PREFIX##_##NAME(const T* x, T* y, int64_t n) { \
    for (int64_t i = 0; i < n; i += kLanes) {                \
      const auto v = aot::load_n<T, kLanes>(x + i, n - i);   \
      aot::store_n(y + i, aot::NAME(v), n - i);              \
    }                                                        \
  }
#define UNARY_ONE(NAME)                                            \
  EXPORT void one_##NAME(const float* x, float* y, int64_t n) {    \
    for (int64_t i = 0; i < n; ++i) {                              \
      aot::store(y + i, aot::NAME(aot::load<float, 1>(x + i)));    \
    }                                                              \
  }                                                                \
  EXPORT void scalar_##NAME(const float* x, float* y, int64_t n) { \
    for (int64_t i = 0; i < n; ++i) y[i] = aot::NAME(x[i]);        \
  }
#define BINARY(T, PREFIX, NAME)                                          \
  EXPORT void PREFIX##_##NAME(const T* x, const T* y, T* z, int64_t n) { \
    for (int64_t i = 0; i < n; i += kLanes) {                            \
      const auto v = aot::load_n<T, kLanes>(x + i, n - i);               \
      const auto w = aot::load_n<T, kLanes>(y + i, n - i);               \
      aot::store_n(z + i, aot::NAME(v, w), n - i);                       \
    }                                                                    \
  }
#define BOTH(NAME) UNARY(float, f32, NAME) UNARY(double, f64, NAME)
#define BOTH_2(NAME) BINARY(float, f32, NAME) BINARY(double, f64, NAME)

BOTH(exp)
BOTH(exp2)
BOTH(expm1)
BOTH(log)
BOTH(log2)
BOTH(log10)
BOTH(log1p)
BOTH(sin)
BOTH(cos)
BOTH(tan)
BOTH(asin)
BOTH(acos)
BOTH(atan)
BOTH(sinh)
BOTH(cosh)
BOTH(tanh)
BOTH(asinh)
BOTH(acosh)
BOTH(atanh)
BOTH(erf)
BOTH(erfc)
BOTH(erfinv)
BOTH(lgamma)
BOTH(digamma)
BOTH(sigmoid)
BOTH(rsqrt)
BOTH(sqrt)
BOTH(cbrt)
BOTH(i0)
BOTH(i0e)
BOTH(i1)
BOTH(i1e)
BOTH_2(pow)
BOTH_2(atan2)
BOTH_2(hypot)
BOTH_2(fmod)
BOTH_2(remainder)
BOTH_2(div_floor)
BOTH_2(nextafter)
BOTH_2(minimum)
BOTH_2(maximum)
BOTH_2(fmin)
BOTH_2(fmax)
BOTH_2(copysign)
BOTH_2(igamma)
BOTH_2(igammac)
BOTH_2(chebyshev_t)
BOTH_2(chebyshev_w)
BOTH_2(hermite_h)
BOTH_2(laguerre_l)
UNARY_ONE(exp)
UNARY_ONE(log)
UNARY_ONE(log1p)
UNARY_ONE(tanh)
UNARY_ONE(sigmoid)
UNARY_ONE(erf)
UNARY_ONE(sin)
UNARY_ONE(tan)
UNARY_ONE(rsqrt)
UNARY_ONE(atan)
