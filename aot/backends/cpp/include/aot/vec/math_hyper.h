// tanh and the other hyperbolic functions.
#ifndef AOT_VEC_MATH_HYPER_H_
#define AOT_VEC_MATH_HYPER_H_

#include "aot/vec/math_log.h"

namespace aot {

// x P(x^2) / Q(x^2) on [-9.02, 9.02], where tanh rounds to 1 at the ends: fit "tanh".
template <int N>
AOT_INLINE Vec<float, N> tanh(Vec<float, N> x) {
  const Vec<float, N> c = detail::limit(x, -9.02f, 9.02f);
  const Vec<float, N> s = c * c;
  const Vec<float, N> p = detail::poly(s, 1.0f, 0x1.1b37cap-3f, 0x1.09a766p-8f, 0x1.0966aep-15f,
                                       0x1.4dacccp-25f, -0x1.3a535p-36f);
  const Vec<float, N> q = detail::poly(s, 1.0f, 0x1.e2f14p-2f, 0x1.c9921ep-6f, 0x1.bedacep-12f,
                                       0x1.9c06f4p-20f);
  return c * p / q;
}

}  // namespace aot

#endif  // AOT_VEC_MATH_HYPER_H_
