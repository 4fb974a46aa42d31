// Loads, stores, conversions and masks of aot/vec over arrays, for test_memory.py.
#include "aot/vec/vec.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kLanes = aot::native_lanes<float>();

// Every STEP-th element, the step being known to the compiler.
template <class T, int L, int STEP, class S>
void near_steps(const S* x, S* y, int64_t n) {
  int64_t i = 0;
  for (; i + L <= n; i += L) aot::store(y + i, aot::load_strided<T, L>(x + i * STEP, STEP));
  aot::store_n(y + i, aot::load_strided_n<T, L>(x + i * STEP, STEP, n - i), n - i);
}

}  // namespace

// NAME is the element type S in a name; T is the lane type it travels through; L the lanes.
#define MEMORY(NAME, S, T, L)                                                             \
  EXPORT void copy_##NAME(const S* x, S* y, int64_t n) {                                  \
    int64_t i = 0;                                                                        \
    for (; i + L <= n; i += L) aot::store(y + i, aot::load<T, L>(x + i));                 \
    aot::store_n(y + i, aot::load_n<T, L>(x + i, n - i), n - i);                          \
  }                                                                                       \
  EXPORT void stream_##NAME(const S* x, S* y, int64_t n) { /* as copy, past the caches */ \
    const aot::Streaming streaming;                                                       \
    int64_t i = 0;                                                                        \
    for (; i + L <= n; i += L) aot::stream(y + i, aot::load<T, L>(x + i));                \
    aot::stream_n(y + i, aot::load_n<T, L>(x + i, n - i), n - i);                         \
  }                                                                                       \
  EXPORT void tail_##NAME(const S* x, S* y, int64_t n) { /* one Vec; n may be anything */ \
    aot::store_n(y, aot::load_n<T, L>(x, n), n);                                          \
  }                                                                                       \
  EXPORT void masked_##NAME(const S* x, S* y, S* all, const uint8_t* m, int64_t n) {      \
    for (int64_t i = 0; i < n; i += L) {                                                  \
      const auto mask = aot::load_mask_n<L>(m + i, n - i);                                \
      const auto v = aot::load_m<T, L>(x + i, mask);                                      \
      aot::store_m(y + i, v, mask);                                                       \
      aot::store_n(all + i, v, n - i);                                                    \
    }                                                                                     \
  }                                                                                       \
  EXPORT void strided_##NAME(const S* x, int64_t dx, S* y, int64_t dy, int64_t n) {       \
    int64_t i = 0;                                                                        \
    for (; i + L <= n; i += L) {                                                          \
      aot::store_strided(y + i * dy, dy, aot::load_strided<T, L>(x + i * dx, dx));        \
    }                                                                                     \
    const auto v = aot::load_strided_n<T, L>(x + i * dx, dx, n - i);                      \
    aot::store_strided_n(y + i * dy, dy, v, n - i);                                       \
  }                                                                                       \
  EXPORT void near_##NAME(const S* x, int64_t step, S* y, int64_t n) {                    \
    if (step == 2) near_steps<T, L, 2>(x, y, n);                                          \
    if (step == 3) near_steps<T, L, 3>(x, y, n);                                          \
    if (step == 4) near_steps<T, L, 4>(x, y, n);                                          \
    if (step == 5) near_steps<T, L, 5>(x, y, n);                                          \
    if (step == 6) near_steps<T, L, 6>(x, y, n);                                          \
    if (step == 7) near_steps<T, L, 7>(x, y, n);                                          \
    if (step == 8) near_steps<T, L, 8>(x, y, n);                                          \
  }                                                                                       \
  EXPORT void gather32_##NAME(const S* x, const int32_t* index, S* y, int64_t n) {        \
    for (int64_t i = 0; i < n; i += L) {                                                  \
      const auto at = aot::load_n<int32_t, L>(index + i, n - i);                          \
      aot::store_n(y + i, aot::gather_n<T, L>(x, at, n - i), n - i);                      \
    }                                                                                     \
  }                                                                                       \
  EXPORT void gather64_##NAME(const S* x, const int64_t* index, S* y, int64_t n) {        \
    int64_t i = 0;                                                                        \
    for (; i + L <= n; i += L) {                                                          \
      aot::store(y + i, aot::gather<T, L>(x, aot::load<int64_t, L>(index + i)));          \
    }                                                                                     \
    const auto at = aot::load_n<int64_t, L>(index + i, n - i);                            \
    aot::store_n(y + i, aot::gather_n<T, L>(x, at, n - i), n - i);                        \
  }                                                                                       \
  EXPORT void scatter_##NAME(const S* x, const int64_t* index, S* y, int64_t n) {         \
    for (int64_t i = 0; i < n; i += L) {                                                  \
      const auto at = aot::load_n<int64_t, L>(index + i, n - i);                          \
      aot::scatter_n(y, at, aot::load_n<T, L>(x + i, n - i), n - i);                      \
    }                                                                                     \
  }                                                                                       \
  EXPORT void broadcast_##NAME(const S* x, S* y) { aot::store(y, aot::broadcast<T, L>(x)); }

MEMORY(float32, float, float, kLanes)
MEMORY(float64, double, double, kLanes)
MEMORY(int64, int64_t, int64_t, kLanes)
MEMORY(int32, int32_t, int32_t, kLanes)
MEMORY(int16, int16_t, int16_t, kLanes)
MEMORY(uint16, uint16_t, uint16_t, kLanes)
MEMORY(int8, int8_t, int8_t, kLanes)
MEMORY(uint8, uint8_t, uint8_t, kLanes)
MEMORY(uint8_wide, uint8_t, uint8_t, AOT_REG_BYTES)
MEMORY(uint8_float, uint8_t, float, kLanes)
MEMORY(int8_int64, int8_t, int64_t, kLanes)
MEMORY(bool_float, bool, float, kLanes)
MEMORY(bfloat16, aot::bf16, float, kLanes)
MEMORY(float16, aot::f16, float, kLanes)
MEMORY(float32_one, float, float, 1)
MEMORY(float64_one, double, double, 1)
MEMORY(uint8_one, uint8_t, uint8_t, 1)
MEMORY(int64_two, int64_t, int64_t, 2)
MEMORY(float32_two, float, float, 2)

#define CONVERT(FROM, A, TO, B)                                    \
  EXPORT void convert_##FROM##_##TO(const A* x, B* y, int64_t n) { \
    for (int64_t i = 0; i < n; i += kLanes) {                      \
      const auto v = aot::load_n<A, kLanes>(x + i, n - i);         \
      aot::store_n(y + i, aot::convert<B>(v), n - i);              \
    }                                                              \
  }
#define CONVERT_TO_ALL(FROM, A)                                          \
  CONVERT(FROM, A, float32, float)                                       \
  CONVERT(FROM, A, float64, double)                                      \
  CONVERT(FROM, A, int64, int64_t)                                       \
  CONVERT(FROM, A, int32, int32_t)                                       \
  CONVERT(FROM, A, int16, int16_t)                                       \
  CONVERT(FROM, A, int8, int8_t)                                         \
  CONVERT(FROM, A, uint8, uint8_t)                                       \
  EXPORT void truth_##FROM(const A* x, uint8_t* y, A* z, int64_t n) {    \
    for (int64_t i = 0; i < n; i += kLanes) {                            \
      const auto m = aot::to_mask(aot::load_n<A, kLanes>(x + i, n - i)); \
      aot::store_n(y + i, m, n - i);                                     \
      aot::store_n(z + i, aot::from_mask<A>(m), n - i);                  \
    }                                                                    \
  }
CONVERT_TO_ALL(float32, float)
CONVERT_TO_ALL(float64, double)
CONVERT_TO_ALL(int64, int64_t)
CONVERT_TO_ALL(int32, int32_t)
CONVERT_TO_ALL(int16, int16_t)
CONVERT_TO_ALL(int8, int8_t)
CONVERT_TO_ALL(uint8, uint8_t)

// Stores of float and double lanes into half types.
#define NARROW(NAME, S, T)                                              \
  EXPORT void narrow_##NAME(const T* x, S* y, int64_t n) {              \
    for (int64_t i = 0; i < n; i += kLanes) {                           \
      aot::store_n(y + i, aot::load_n<T, kLanes>(x + i, n - i), n - i); \
    }                                                                   \
  }
NARROW(float32_bfloat16, aot::bf16, float)
NARROW(float32_float16, aot::f16, float)
NARROW(int64_bfloat16, aot::bf16, int64_t)
EXPORT void widen_bfloat16(const aot::bf16* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) aot::store(y + i, aot::load<float, kLanes>(x + i));
}
EXPORT void widen_float16(const aot::f16* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) aot::store(y + i, aot::load<float, kLanes>(x + i));
}

// out: any, all, count of (x > 0) over one Vec whose lanes from n on are switched off.
EXPORT void mask_facts(const float* x, int64_t n, int64_t* out) {
  const auto on = aot::first_n<kLanes>(n);
  const auto m = (aot::load_n<float, kLanes>(x, n) > 0.0f) & on;
  out[0] = aot::any(m);
  out[1] = aot::all(m | ~on);
  out[2] = aot::count(m);
  out[3] = aot::count(m ^ on);
  out[4] = aot::any(~aot::Mask<kLanes>(true));
  out[5] = aot::count(aot::Mask<1>(true)) + aot::all(~aot::Mask<2>(false));
}

#define TRANSPOSE(NAME, T)                                                                    \
  EXPORT int64_t side_##NAME() { return aot::transpose_lanes<T>(); }                          \
  EXPORT void transpose_##NAME(const T* x, int64_t dx, T* y, int64_t dy) {                    \
    aot::transpose_block(x, dx, y, dy);                                                       \
  }                                                                                           \
  EXPORT void corner_##NAME(const T* x, int64_t dx, T* y, int64_t dy, int64_t h, int64_t w) { \
    aot::transpose_block_n(x, dx, y, dy, h, w);                                               \
  }
TRANSPOSE(uint8, uint8_t)
TRANSPOSE(uint16, aot::bf16)
TRANSPOSE(float32, float)
TRANSPOSE(int64, int64_t)
