// The row operations of a blocked softmax, for the attention template.
#ifndef AOT_TMPL_SOFTMAX_H_
#define AOT_TMPL_SOFTMAX_H_

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

// exp(x) for x <= 0 and NaN, which stays. Within 2 ulp in float; results below 2^-126 become 0.
AOT_INLINE Simd<float>::V exp_nonpositive(Simd<float>::V x) {
  using S = Simd<float>;
  using V = S::V;
  typedef int32_t I __attribute__((vector_size(sizeof(V))));
  x = S::max(S::set1(-200.0f), x);
  // n = round(x / ln 2): adding 1.5 * 2^23 leaves n in the low bits of the mantissa.
  const V magic = S::set1(12582912.0f);
  const V shifted = S::fma(x, S::set1(1.44269504088896341f), magic);
  const V n = shifted - magic;
  V r = S::fma(n, S::set1(-0.693145751953125f), x);
  r = S::fma(n, S::set1(-1.42860682030941723e-6f), r);
  V y = S::set1(1.9875691500e-4f);
  y = S::fma(y, r, S::set1(1.3981999507e-3f));
  y = S::fma(y, r, S::set1(8.3334519073e-3f));
  y = S::fma(y, r, S::set1(4.1665795894e-2f));
  y = S::fma(y, r, S::set1(1.6666665459e-1f));
  y = S::fma(y, r, S::set1(5.0000001201e-1f));
  y = S::fma(y, r * r, r) + S::set1(1.0f);
  I exponent = I(shifted) - I(magic) + 127;
  exponent = exponent < 0 ? I{} : exponent;
  return y * V(exponent << 23);
}

// Within 1 ulp; results below 2^-1022 become 0.
AOT_INLINE Simd<double>::V exp_nonpositive(Simd<double>::V x) {
  using S = Simd<double>;
  using V = S::V;
  typedef int64_t I __attribute__((vector_size(sizeof(V))));
  x = S::max(S::set1(-1000.0), x);
  const V magic = S::set1(6755399441055744.0);  // 1.5 * 2^52
  const V shifted = S::fma(x, S::set1(1.44269504088896341), magic);
  const V n = shifted - magic;
  V r = S::fma(n, S::set1(-0x1.62e42feep-1), x);  // ln 2 in 32 bits, and the rest of it
  r = S::fma(n, S::set1(-1.90821492927058770002e-10), r);
  // The series to r^13: |r| <= ln 2 / 2 leaves 4e-18.
  V y = S::set1(1.0 / 6227020800);
  y = S::fma(y, r, S::set1(1.0 / 479001600));
  y = S::fma(y, r, S::set1(1.0 / 39916800));
  y = S::fma(y, r, S::set1(1.0 / 3628800));
  y = S::fma(y, r, S::set1(1.0 / 362880));
  y = S::fma(y, r, S::set1(1.0 / 40320));
  y = S::fma(y, r, S::set1(1.0 / 5040));
  y = S::fma(y, r, S::set1(1.0 / 720));
  y = S::fma(y, r, S::set1(1.0 / 120));
  y = S::fma(y, r, S::set1(1.0 / 24));
  y = S::fma(y, r, S::set1(1.0 / 6));
  y = S::fma(y, r, S::set1(0.5));
  y = S::fma(y, r * r, r) + S::set1(1.0);
  I exponent = I(shifted) - I(magic) + 1023;
  exponent = exponent < 0 ? I{} : exponent;
  return y * V(exponent << 52);
}

template <class T>
inline constexpr T kMinusInfinity = -T(__builtin_huge_val());

// The greatest of s[0..n), n a multiple of 16; NaN is passed over.
template <class T>
AOT_INLINE T row_max(const T* s, int64_t n) {
  using S = Simd<T>;
  typename S::V best = S::set1(kMinusInfinity<T>);
  for (int64_t i = 0; i < n; i += S::kLanes) best = S::max(S::load(s + i), best);
  return S::reduce(best, [](auto a, auto b) { return S::max(a, b); });
}

// out[i] = exp(s[i] * scale - shift) for i < n, n a multiple of 16, rounded to W; returns the sum
// of what was not rounded. `out` may be where `s` is.
template <class T, class W>
AOT_INLINE T row_exp(const T* s, int64_t n, T scale, T shift, W* out) {
  using S = Simd<T>;
  typename S::V sum = S::zero();
  const typename S::V by = S::set1(scale), less = S::set1(-shift);
  for (int64_t i = 0; i < n; i += S::kLanes) {
    const typename S::V e = exp_nonpositive(S::fma(S::load(s + i), by, less));
    store_rounded(out + i, e);
    sum += e;
  }
  return S::reduce(sum, [](auto a, auto b) { return a + b; });
}

// s[i] *= factor for i < n, n a multiple of 16.
template <class T>
AOT_INLINE void row_scale(T* s, int64_t n, T factor) {
  using S = Simd<T>;
  const typename S::V by = S::set1(factor);
  for (int64_t i = 0; i < n; i += S::kLanes) S::store(s + i, S::load(s + i) * by);
}

// out[i] = exp(x[i]) for i < n; x[i] <= 0. Whole vectors are read and written: n rounds up to 16.
template <class T>
AOT_INLINE void array_exp(const T* x, int64_t n, T* out) {
  using S = Simd<T>;
  for (int64_t i = 0; i < n; i += S::kLanes) S::store(out + i, exp_nonpositive(S::load(x + i)));
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SOFTMAX_H_
