// Arithmetic, comparisons, shifts and reductions of aot/vec over arrays, for test_arith.py.
#include "aot/vec/vec.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kLanes = aot::native_lanes<float>();

template <class T>
using V = aot::Vec<T, kLanes>;

}  // namespace

#define UNARY(TYPE, T, NAME, EXPR)                         \
  EXPORT void NAME##_##TYPE(const T* x, T* y, int64_t n) { \
    for (int64_t i = 0; i < n; i += kLanes) {              \
      const V<T> a = aot::load_n<T, kLanes>(x + i, n - i); \
      aot::store_n(y + i, EXPR, n - i);                    \
    }                                                      \
  }
#define BINARY(TYPE, T, OUT, NAME, EXPR)                                 \
  EXPORT void NAME##_##TYPE(const T* x, const T* y, OUT* z, int64_t n) { \
    for (int64_t i = 0; i < n; i += kLanes) {                            \
      const V<T> a = aot::load_n<T, kLanes>(x + i, n - i);               \
      const V<T> b = aot::load_n<T, kLanes>(y + i, n - i);               \
      aot::store_n(z + i, EXPR, n - i);                                  \
    }                                                                    \
  }
#define SHIFT(TYPE, T, NAME)                                                                 \
  EXPORT void NAME##_all_##TYPE(const T* x, T* y, int64_t n, int64_t count) {                \
    for (int64_t i = 0; i < n; i += kLanes) {                                                \
      aot::store_n(y + i, aot::NAME(aot::load_n<T, kLanes>(x + i, n - i), T(count)), n - i); \
    }                                                                                        \
  }
#define CLASS(TYPE, T, NAME)                                                       \
  EXPORT void NAME##_##TYPE(const T* x, uint8_t* y, int64_t n) {                   \
    for (int64_t i = 0; i < n; i += kLanes) {                                      \
      aot::store_n(y + i, aot::NAME(aot::load_n<T, kLanes>(x + i, n - i)), n - i); \
    }                                                                              \
  }
#define REDUCE(TYPE, T, NAME) \
  EXPORT void NAME##_##TYPE(const T* x, T* y) { *y = aot::NAME(aot::load<T, kLanes>(x)); }
#define ARG(TYPE, T, NAME, MAX, I)                                               \
  EXPORT void NAME##_##TYPE(const T* x, int64_t n, I* index, T* value) {         \
    auto best = aot::ArgLanes<MAX, T, I, kLanes>::none();                        \
    int64_t i = 0;                                                               \
    for (; i + kLanes <= n; i += kLanes) {                                       \
      best.add(aot::load<T, kLanes>(x + i), aot::iota<I, kLanes>(I(i)));         \
    }                                                                            \
    best.add_m(aot::load_n<T, kLanes>(x + i, n - i), aot::iota<I, kLanes>(I(i)), \
               aot::first_n<kLanes>(n - i));                                     \
    *index = best.reduce_index();                                                \
    *value = best.reduce_value();                                                \
  }

#define NUMBER(TYPE, T)                                        \
  BINARY(TYPE, T, T, add, a + b)                               \
  BINARY(TYPE, T, T, sub, a - b)                               \
  BINARY(TYPE, T, T, mul, a* b)                                \
  BINARY(TYPE, T, T, minimum, aot::minimum(a, b))              \
  BINARY(TYPE, T, T, maximum, aot::maximum(a, b))              \
  BINARY(TYPE, T, uint8_t, eq, a == b)                         \
  BINARY(TYPE, T, uint8_t, ne, a != b)                         \
  BINARY(TYPE, T, uint8_t, lt, a < b)                          \
  BINARY(TYPE, T, uint8_t, le, a <= b)                         \
  BINARY(TYPE, T, uint8_t, gt, a > b)                          \
  BINARY(TYPE, T, uint8_t, ge, a >= b)                         \
  BINARY(TYPE, T, T, select, aot::select(a < b, a, T(7)))      \
  BINARY(TYPE, T, T, fma, aot::fma(a, b, a))                   \
  UNARY(TYPE, T, neg, -a)                                      \
  UNARY(TYPE, T, abs, aot::abs(a))                             \
  UNARY(TYPE, T, sign, aot::sign(a))                           \
  UNARY(TYPE, T, relu, aot::relu(a))                           \
  UNARY(TYPE, T, clamp, aot::clamp(a, V<T>(T(2)), V<T>(T(5)))) \
  UNARY(TYPE, T, floor, aot::floor(a))                         \
  UNARY(TYPE, T, ceil, aot::ceil(a))                           \
  UNARY(TYPE, T, trunc, aot::trunc(a))                         \
  UNARY(TYPE, T, round, aot::round(a))                         \
  REDUCE(TYPE, T, reduce_sum)                                  \
  REDUCE(TYPE, T, reduce_prod)                                 \
  REDUCE(TYPE, T, reduce_min)                                  \
  REDUCE(TYPE, T, reduce_max)                                  \
  ARG(TYPE, T, argmax, true, int64_t)                          \
  ARG(TYPE, T, argmin, false, int64_t)                         \
  EXPORT void iota_##TYPE(T start, T step, T* y) {             \
    aot::store(y, aot::iota<T, kLanes>(start, step));          \
  }
#define INTEGER(TYPE, T)                                                     \
  NUMBER(TYPE, T)                                                            \
  BINARY(TYPE, T, T, and, a& b)                                              \
  BINARY(TYPE, T, T, or, a | b)                                              \
  BINARY(TYPE, T, T, xor, a ^ b)                                             \
  UNARY(TYPE, T, not, ~a)                                                    \
  UNARY(TYPE, T, left3, a << 3)                                              \
  UNARY(TYPE, T, right3, a >> 3)                                             \
  BINARY(TYPE, T, T, div_trunc, aot::div_trunc(a, b))                        \
  BINARY(TYPE, T, T, div_floor, aot::div_floor(a, b))                        \
  BINARY(TYPE, T, T, fmod, aot::fmod(a, b))                                  \
  BINARY(TYPE, T, T, remainder, aot::remainder(a, b))                        \
  BINARY(TYPE, T, T, shift_left, aot::shift_left(a, b))                      \
  BINARY(TYPE, T, T, shift_right, aot::shift_right(a, b))                    \
  SHIFT(TYPE, T, shift_left)                                                 \
  SHIFT(TYPE, T, shift_right)                                                \
  EXPORT void scalar_floor_##TYPE(const T* x, const T* y, T* z, int64_t n) { \
    for (int64_t i = 0; i < n; ++i) z[i] = aot::div_floor(x[i], y[i]);       \
  }
#define FLOATING(TYPE, T)        \
  NUMBER(TYPE, T)                \
  BINARY(TYPE, T, T, div, a / b) \
  CLASS(TYPE, T, isnan)          \
  CLASS(TYPE, T, isinf)          \
  CLASS(TYPE, T, isfinite)       \
  CLASS(TYPE, T, signbit)        \
  BINARY(TYPE, T, uint8_t, mixed, (~(a < b) & (a != T(1))) | ((a == b) ^ aot::Mask<kLanes>(true)))

FLOATING(float32, float)
FLOATING(float64, double)
INTEGER(int64, int64_t)
INTEGER(int32, int32_t)
INTEGER(int16, int16_t)
INTEGER(int8, int8_t)
INTEGER(uint8, uint8_t)
ARG(float32_i32, float, argmax, true, int32_t)

// Several registers as lanes of fewer bytes, of 64 elements and of fewer.
#define NARROW_LANES(FROM, A, TO, B, N)                      \
  EXPORT void narrow_##FROM##_##TO##_##N(const A* x, B* y) { \
    aot::store(y, aot::convert<B>(aot::load<A, N>(x)));      \
  }
#define NARROW(FROM, A, TO, B)     \
  NARROW_LANES(FROM, A, TO, B, 64) \
  NARROW_LANES(FROM, A, TO, B, 16) \
  NARROW_LANES(FROM, A, TO, B, 8)
NARROW(int64, int64_t, int32, int32_t)
NARROW(int64, int64_t, int16, int16_t)
NARROW(int64, int64_t, uint8, uint8_t)
NARROW(uint64, uint64_t, int8, int8_t)
NARROW(int32, int32_t, uint16, uint16_t)
NARROW(int32, int32_t, int8, int8_t)
NARROW(uint32, uint32_t, uint8, uint8_t)
NARROW(int16, int16_t, int8, int8_t)
NARROW(uint16, uint16_t, uint8, uint8_t)
NARROW(float32, float, uint8, uint8_t)
NARROW(float64, double, int8, int8_t)

// Bytes of the lanes of masks: of comparisons, of such as meet, of bytes not 0, and of none of
// these.
EXPORT void mask_widths(int64_t* widths) {
  const auto width = [](auto mask) -> int64_t {
#if AOT_ISA_LEVEL >= 4
    return 0 * sizeof(mask);
#else
    return sizeof(typename decltype(mask.m)::Elem);
#endif
  };
  const auto bytes = aot::Vec<int8_t, 16>(1) < int8_t{2};
  const auto doubles = aot::Vec<double, 16>(1) < 2.0;
  widths[0] = width(bytes);
  widths[1] = width(aot::Vec<int16_t, 16>(1) < int16_t{2});
  widths[2] = width(aot::Vec<float, 16>(1) < 2.0f);
  widths[3] = width(doubles);
  widths[4] = width(bytes & ~bytes);
  widths[5] = width(bytes | doubles);
  widths[6] = width(aot::to_mask(aot::Vec<uint8_t, 16>(1)));
  widths[7] = width(aot::Mask<16>(true));
}
// Lanes of FIRST bytes as those of 1, 2, 4 and 8: as numbers, and as bits.
#define MASK_LANES(N, FIRST, A)                                                     \
  EXPORT void mask_lanes_##N##_##FIRST(const uint8_t* x, uint8_t* y, uint64_t* z) { \
    const auto given = aot::convert<A>(aot::load<uint8_t, N>(x)) != A{0};           \
    const auto each = [&](auto mask, int i) {                                       \
      aot::store(y + i * N, mask);                                                  \
      z[i] = aot::detail::mask_bits(mask);                                          \
    };                                                                              \
    each(aot::MaskOf<int8_t, N>(given), 0);                                         \
    each(aot::MaskOf<int16_t, N>(given), 1);                                        \
    each(aot::MaskOf<int32_t, N>(given), 2);                                        \
    each(aot::MaskOf<int64_t, N>(given), 3);                                        \
  }
#define MASK_LANES_OF(N)    \
  MASK_LANES(N, 1, int8_t)  \
  MASK_LANES(N, 2, int16_t) \
  MASK_LANES(N, 4, int32_t) \
  MASK_LANES(N, 8, int64_t)
MASK_LANES_OF(4)
MASK_LANES_OF(8)
MASK_LANES_OF(16)
MASK_LANES_OF(32)
MASK_LANES_OF(64)
