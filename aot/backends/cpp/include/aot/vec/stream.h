// Stores past the caches, for what nobody reads soon: a line that is written whole need not be
// fetched before. Called as `store` and `store_n` are. Registers whose place is not aligned, and
// last ones that are not whole, are stored as ever.
#ifndef AOT_VEC_STREAM_H_
#define AOT_VEC_STREAM_H_

#include "aot/vec/memory.h"

namespace aot {

// While one lives, a function may store past the caches; then others see what it has stored.
struct Streaming {
  AOT_MEMBER Streaming() {}
  AOT_MEMBER ~Streaming() { _mm_sfence(); }
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;
};

namespace detail {

// One whole register at an aligned place.
template <class R>
AOT_INLINE void stream_register(void* p, R r) {
  static_assert(sizeof(R) >= 16);
  if constexpr (sizeof(R) == 16) {
    _mm_stream_si128(static_cast<__m128i*>(p), (__m128i)r);
#if AOT_ISA_LEVEL >= 3
  } else if constexpr (sizeof(R) == 32) {
    _mm256_stream_si256(static_cast<__m256i*>(p), (__m256i)r);
#endif
#if AOT_ISA_LEVEL >= 4
  } else {
    _mm512_stream_si512(static_cast<__m512i*>(p), (__m512i)r);
#endif
  }
}

template <class T, int N>
AOT_INLINE void stream_full(T* p, Vec<T, N> v) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    stream_full(p, v.lo);
    stream_full(p + N / 2, v.hi);
  } else if constexpr (N < V::kRegLanes) {
    store_full(p, v);
  } else if (AOT_LIKELY(reinterpret_cast<uintptr_t>(p) % sizeof(v.r) == 0)) {
    stream_register(p, v.r);
  } else {
    store_full(p, v);
  }
}

}  // namespace detail

template <class S, class T, int N, bool B>
AOT_INLINE void stream(S* p, Vec<T, N, B> v) {
  detail::stream_full(detail::raw(p), detail::Storage<S>::narrow(v));
}
template <class S, class T, int N, bool B>
AOT_INLINE void stream_n(S* p, Vec<T, N, B> v, int64_t n) {
  if (AOT_LIKELY(n >= N)) return stream(p, v);
  store_n(p, v, n);
}

}  // namespace aot

#endif  // AOT_VEC_STREAM_H_
