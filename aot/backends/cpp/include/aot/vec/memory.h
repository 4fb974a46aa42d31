// Loads and stores. S is the element type in memory (float, double, int*_t, uint8_t, uint16_t,
// bool, bf16, f16, f8…), T that of the lanes; they convert as `convert` does. No alignment is
// assumed, and no byte outside the named elements is touched, not even read.
#ifndef AOT_VEC_MEMORY_H_
#define AOT_VEC_MEMORY_H_

#include <utility>

#include "aot/vec/float8.h"
#include "aot/vec/gather.h"
#include "aot/vec/half.h"

namespace aot {
namespace detail {

template <class S>
using RawType = typename Storage<S>::Raw;
template <class S>
AOT_INLINE const RawType<S>* raw(const S* p) {
  return reinterpret_cast<const RawType<S>*>(p);
}
template <class S>
AOT_INLINE RawType<S>* raw(S* p) {
  return reinterpret_cast<RawType<S>*>(p);
}

// `Bytes` < 16 meaningful bytes through a general register.
template <int Bytes>
AOT_INLINE __m128i load_small(const void* p) {
  if constexpr (Bytes == 8) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(p));
  } else {
    typename IntOf<Bytes, false>::type x;
    __builtin_memcpy(&x, p, Bytes);
    return _mm_cvtsi32_si128(static_cast<int>(x));
  }
}
template <int Bytes>
AOT_INLINE void store_small(void* p, __m128i v) {
  if constexpr (Bytes == 8) {
    _mm_storel_epi64(static_cast<__m128i*>(p), v);
  } else {
    const auto x = static_cast<typename IntOf<Bytes, false>::type>(
        static_cast<uint32_t>(_mm_cvtsi128_si32(v)));
    __builtin_memcpy(p, &x, Bytes);
  }
}

// Copies `bytes` < 2 * Limit bytes (Limit a power of two) in at most log2 moves.
template <int Limit>
AOT_INLINE void copy_bytes(char* to, const char* from, int64_t bytes) {
  if (bytes & Limit) {
    __builtin_memcpy(to, from, Limit);
    to += Limit;
    from += Limit;
  }
  if constexpr (Limit > 1) copy_bytes<Limit / 2>(to, from, bytes);
}

template <class T, int N>
AOT_INLINE Vec<T, N> load_full(const T* p) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    return V::of(load_full<T, N / 2>(p), load_full<T, N / 2>(p + N / 2));
  } else if constexpr (N < V::kRegLanes) {
    return V::of((typename V::R)load_small<N * sizeof(T)>(p));
  } else {
    return V::of(r_load<typename V::R>(p));
  }
}
template <class T, int N>
AOT_INLINE void store_full(T* p, Vec<T, N> v) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    store_full(p, v.lo);
    store_full(p + N / 2, v.hi);
  } else if constexpr (N < V::kRegLanes) {
    store_small<N * sizeof(T)>(p, (__m128i)v.r);
  } else {
    __builtin_memcpy(p, &v.r, sizeof(v.r));
  }
}

// Machine masked moves exist for all lanes under AVX-512, for 4- and 8-byte ones under AVX2.
template <class T>
constexpr bool kMaskedMoves = AOT_ISA_LEVEL >= 4 || (AOT_ISA_LEVEL == 3 && sizeof(T) >= 4);

// Calls run(first, count) for each run of lanes that are set, of which most masks have one.
template <class Run>
AOT_INLINE void each_run(uint64_t bits, const Run& run) {
  while (bits != 0) {
    const int first = __builtin_ctzll(bits);
    const uint64_t behind = ~(bits >> first);
    run(first, behind == 0 ? 64 : __builtin_ctzll(behind));
    bits &= bits + (uint64_t{1} << first);
  }
}

template <class T, int N, int M>
AOT_INLINE Vec<T, N> load_masked(const T* p, Mask<N, M> m) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    return V::of(load_masked(p, lo_half(m)), load_masked(p + N / 2, hi_half(m)));
  } else if constexpr (kMaskedMoves<T>) {
#if AOT_ISA_LEVEL >= 3
    return V::of((typename V::R)MaskedMove<sizeof(T), V::kBytes>::load(p, move_mask<T>(m)));
#endif
  } else {
    const uint64_t bits = mask_bits(m);
    if (bits == ~uint64_t{0} >> (64 - N)) return load_full<T, N>(p);
    T lanes[V::kRegLanes] = {};
    each_run(bits, [&](int first, int count) {
      copy_bytes<V::kBytes / 2>(reinterpret_cast<char*>(lanes + first),
                                reinterpret_cast<const char*>(p + first),
                                count * static_cast<int64_t>(sizeof(T)));
    });
    return V::of(r_load<typename V::R>(lanes));
  }
}
template <class T, int N, int M>
AOT_INLINE void store_masked(T* p, Vec<T, N> v, Mask<N, M> m) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    store_masked(p, v.lo, lo_half(m));
    store_masked(p + N / 2, v.hi, hi_half(m));
  } else if constexpr (kMaskedMoves<T>) {
#if AOT_ISA_LEVEL >= 3
    MaskedMove<sizeof(T), V::kBytes>::store(p, move_mask<T>(m), (RawOf<V>)v.r);
#endif
  } else {
    const uint64_t bits = mask_bits(m);
    if (bits == ~uint64_t{0} >> (64 - N)) return store_full(p, v);
    T lanes[V::kRegLanes];
    __builtin_memcpy(lanes, &v.r, sizeof(v.r));
    each_run(bits, [&](int first, int count) {
      copy_bytes<V::kBytes / 2>(reinterpret_cast<char*>(p + first),
                                reinterpret_cast<const char*>(lanes + first),
                                count * static_cast<int64_t>(sizeof(T)));
    });
  }
}

template <class W>
AOT_INLINE W word_at(const char* p) {
  W word;
  __builtin_memcpy(&word, p, sizeof(W));
  return word;
}
template <class W>
AOT_INLINE void put_word(char* p, uint64_t bits) {
  const W word = static_cast<W>(bits);
  __builtin_memcpy(p, &word, sizeof(W));
}
// The first bytes of a register, fewer than 16 (0 or less: none), zero behind them. Two words that
// overlap: a register that is put together in memory waits for what was stored there.
AOT_INLINE __m128i load_bytes(const char* p, int64_t bytes) {
  uint64_t lo = 0, hi = 0;
  if (bytes >= 8) {
    lo = word_at<uint64_t>(p);
    if (bytes > 8) hi = word_at<uint64_t>(p + bytes - 8) >> 8 * (16 - bytes);
  } else if (bytes >= 4) {
    lo = word_at<uint32_t>(p);
    lo |= uint64_t{word_at<uint32_t>(p + bytes - 4)} << 8 * (bytes - 4);
  } else if (bytes >= 2) {
    lo = word_at<uint16_t>(p);
    lo |= uint64_t{word_at<uint16_t>(p + bytes - 2)} << 8 * (bytes - 2);
  } else if (bytes == 1) {
    lo = word_at<uint8_t>(p);
  }
  return _mm_set_epi64x(static_cast<int64_t>(hi), static_cast<int64_t>(lo));
}
// The same to memory.
AOT_INLINE void store_bytes(char* p, __m128i r, int64_t bytes) {
  const uint64_t lo = static_cast<uint64_t>(_mm_cvtsi128_si64(r));
  if (bytes >= 8) {
    put_word<uint64_t>(p, lo);
    if (bytes > 8) {
      const uint64_t hi = static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(r, r)));
      put_word<uint64_t>(p + bytes - 8, lo >> 8 * (bytes - 8) | hi << 8 * (16 - bytes));
    }
  } else if (bytes >= 4) {
    put_word<uint32_t>(p, lo);
    put_word<uint32_t>(p + bytes - 4, lo >> 8 * (bytes - 4));
  } else if (bytes >= 2) {
    put_word<uint16_t>(p, lo);
    put_word<uint16_t>(p + bytes - 2, lo >> 8 * (bytes - 2));
  } else if (bytes == 1) {
    put_word<uint8_t>(p, lo);
  }
}

template <class T, int N>
AOT_INLINE Vec<T, N> load_first(const T* p, int64_t n) {
  using V = Vec<T, N>;
  if constexpr (kMaskedMoves<T>) {
    return load_masked(p, first_n<N>(n));
  } else if constexpr (V::kSplit) {
    const Vec<T, N / 2> lo = load_first<T, N / 2>(p, n);
    return V::of(lo, load_first<T, N / 2>(p + N / 2, n - N / 2));
  } else {
    if (n >= N) return load_full<T, N>(p);
    if constexpr (V::kBytes > 16) {
      // By halves, for the same reason.
      const Vec<T, N / 2> lo = load_first<T, N / 2>(p, n);
      return join(lo, load_first<T, N / 2>(p + N / 2, n - N / 2));
    } else {
      const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
      return V::of((typename V::R)load_bytes(reinterpret_cast<const char*>(p), bytes));
    }
  }
}
// Lanes [From, From + n) of a register, n < 2 * Part, in at most log2 moves of whole parts.
template <int Part, int From, class R, class T, int... L>
AOT_INLINE void store_parts(T* p, R r, int64_t n, std::integer_sequence<int, L...> lanes) {
  if (n & Part) {
    const R part = __builtin_shufflevector(r, r, (L < Part ? From + L : L)...);
    __builtin_memcpy(p, &part, Part * sizeof(T));
  }
  if constexpr (Part > 1) {
    if (n & Part) {
      store_parts<Part / 2, From + Part>(p + Part, r, n, lanes);
    } else {
      store_parts<Part / 2, From>(p, r, n, lanes);
    }
  }
}
#if AOT_ISA_LEVEL == 3
// The first n < 2 * Part lanes of a register, as store_parts; n is not a constant.
template <int Part, class R, class T, int... L>
AOT_INLINE void store_parts_one_by_one(T* p, R r, int64_t n,
                                       std::integer_sequence<int, L...> lanes) {
  if (n & Part) {
    __builtin_memcpy(p, &r, Part * sizeof(T));
    p += Part;
    r = __builtin_shufflevector(r, r, (L < Part ? Part + L : L)...);
  }
  if constexpr (Part > 1) store_parts_one_by_one<Part / 2>(p, r, n, lanes);
}
#endif
// Masked stores take processors of AMD's long: up to 20 cycles each under AVX2, and under AVX-512
// where what is stored to lies beyond the caches. So whole registers are stored plainly.
template <class T, int N>
AOT_INLINE void store_first(T* p, Vec<T, N> v, int64_t n) {
  using V = Vec<T, N>;
#if AOT_ISA_LEVEL >= 4
  if constexpr (!V::kSplit && N > 1) {
    if (__builtin_constant_p(n) && n > 0 && n < N) {
      constexpr auto kLanes = std::make_integer_sequence<int, V::kRegLanes>();
      return store_parts<N / 2, 0>(p, v.r, n, kLanes);
    }
  }
#endif
  if constexpr (kMaskedMoves<T> && !V::kSplit) {
    if (n >= N) return store_full(p, v);
#if AOT_ISA_LEVEL == 3
    if constexpr (N > 1) {
      constexpr auto kLanes = std::make_integer_sequence<int, V::kRegLanes>();
      if (n > 0) store_parts_one_by_one<N / 2>(p, v.r, n, kLanes);
      return;
    }
#endif
    store_masked(p, v, first_n<N>(n));
  } else if constexpr (V::kSplit) {
    store_first(p, v.lo, n);
    store_first(p + N / 2, v.hi, n - N / 2);
  } else {
    if (n >= N) return store_full(p, v);
    if constexpr (sizeof(v.r) == 16) {
      const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
      return store_bytes(reinterpret_cast<char*>(p), (__m128i)v.r, bytes);
    }
    T lanes[V::kRegLanes];
    __builtin_memcpy(lanes, &v.r, sizeof(v.r));
    if (n > 0) {
      copy_bytes<V::kBytes / 2>(reinterpret_cast<char*>(p), reinterpret_cast<const char*>(lanes),
                                n * static_cast<int64_t>(sizeof(T)));
    }
  }
}

}  // namespace detail

// ---- contiguous ----
// Narrow elements are loaded for each register that they fill: instructions that widen load, too.
template <class T, int N, class S>
AOT_INLINE Vec<T, N> load(const S* p) {
  using Raw = detail::RawType<S>;
  if constexpr (Vec<T, N>::kSplit && sizeof(Raw) < sizeof(T)) {
    return Vec<T, N>::of(load<T, N / 2>(p), load<T, N / 2>(p + N / 2));
  } else {
    return detail::Storage<S>::template widen<T>(detail::load_full<Raw, N>(detail::raw(p)));
  }
}
// The first n lanes from memory (n <= 0: none; n >= N: all), zero elsewhere.
template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_n(const S* p, int64_t n) {
  return detail::Storage<S>::template widen<T>(
      detail::load_first<detail::RawType<S>, N>(detail::raw(p), n));
}
// Lanes where `m` is true from memory, zero elsewhere.
template <class T, int N, class S, int M>
AOT_INLINE Vec<T, N> load_m(const S* p, Mask<N, M> m) {
  return detail::Storage<S>::template widen<T>(detail::load_masked(detail::raw(p), m));
}
template <class S, class T, int N, bool B>
AOT_INLINE void store(S* p, Vec<T, N, B> v) {
  detail::store_full(detail::raw(p), detail::Storage<S>::narrow(v));
}
template <class S, class T, int N, bool B>
AOT_INLINE void store_n(S* p, Vec<T, N, B> v, int64_t n) {
  detail::store_first(detail::raw(p), detail::Storage<S>::narrow(v), n);
}
template <class S, class T, int N, bool B, int M>
AOT_INLINE void store_m(S* p, Vec<T, N, B> v, Mask<N, M> m) {
  detail::store_masked(detail::raw(p), detail::Storage<S>::narrow(v), m);
}

// ---- one element for all lanes ----
template <class T, int N, class S>
AOT_INLINE Vec<T, N> broadcast(const S* p) {
  const detail::RawType<S> x = *detail::raw(p);
  return detail::Storage<S>::template widen<T>(Vec<detail::RawType<S>, N>(x));
}

// ---- elements p[0], p[stride], p[2 * stride], ...; the stride counts elements ----
namespace detail {
template <class T, int N, int... L>
AOT_INLINE Vec<T, N> picked_backwards(Vec<T, N> v, std::integer_sequence<int, L...>) {
  return Vec<T, N>::of(__builtin_shufflevector(v.r, v.r, (L < N ? N - 1 - L : L)...));
}
template <class T, int N, int... L>
AOT_INLINE Vec<T, N> picked_evens(Vec<T, N> a, Vec<T, N> b, std::integer_sequence<int, L...>) {
  constexpr int kSecond = Vec<T, N>::kRegLanes + 1 - N;
  return Vec<T, N>::of(__builtin_shufflevector(a.r, b.r,
                                               (2 * L < N ? 2 * L
                                                : L < N   ? kSecond + 2 * L
                                                          : 0)...));
}
// p[0], p[-1], …: neighbours, turned round.
template <class T, int N>
AOT_INLINE Vec<T, N> load_backwards(const T* p) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(load_backwards<T, N / 2>(p), load_backwards<T, N / 2>(p - N / 2));
  } else {
    constexpr auto kLanes = std::make_integer_sequence<int, Vec<T, N>::kRegLanes>();
    return picked_backwards(load<T, N>(p - (N - 1)), kLanes);
  }
}
// p[0], p[2], …, of two overlapping loads that end with the last of them.
template <class T, int N>
AOT_INLINE Vec<T, N> load_evens(const T* p) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(load_evens<T, N / 2>(p), load_evens<T, N / 2>(p + N));
  } else {
    constexpr auto kLanes = std::make_integer_sequence<int, Vec<T, N>::kRegLanes>();
    return picked_evens(load<T, N>(p), load<T, N>(p + (N - 1)), kLanes);
  }
}
// Lanes of p[0], p[STEP], … by STEP loads of neighbours, the last of which ends with the last lane:
// which load has a lane, and where that load begins.
constexpr int load_of(int lane, int lanes, int step) {
  return lane * step / lanes < step - 1 ? lane * step / lanes : step - 1;
}
constexpr int load_begin(int load, int lanes, int step) {
  return load < step - 1 ? load * lanes : (lanes - 1) * (step - 1);
}
// `v` with the lanes that load LOAD has.
template <int STEP, int LOAD, class T, int N, int... L>
AOT_INLINE Vec<T, N> picked_near(Vec<T, N> v, Vec<T, N> loaded, std::integer_sequence<int, L...>) {
  return Vec<T, N>::of(__builtin_shufflevector(
      v.r, loaded.r,
      (load_of(L, N, STEP) == LOAD ? N + L * STEP - load_begin(LOAD, N, STEP)
       : LOAD > 1                  ? L
       : L * STEP < N              ? L * STEP
                                   : 0)...));
}
template <int STEP, int LOAD, class T, int N>
AOT_INLINE Vec<T, N> load_near_from(const T* p, Vec<T, N> v) {
  if constexpr (LOAD == STEP) {
    return v;
  } else {
    constexpr auto kLanes = std::make_integer_sequence<int, N>();
    const auto loaded = load<T, N>(p + load_begin(LOAD, N, STEP));
    return load_near_from<STEP, LOAD + 1>(p, picked_near<STEP, LOAD>(v, loaded, kLanes));
  }
}
// A gather takes longer where an instruction picks from two registers.
template <class T, int N, int STEP>
AOT_INLINE Vec<T, N> load_near(const T* p) {
  if constexpr (Vec<T, N>::kSplit) {
    constexpr int kHalf = N / 2;
    return Vec<T, N>::of(load_near<T, kHalf, STEP>(p), load_near<T, kHalf, STEP>(p + kHalf * STEP));
  } else {
    return load_near_from<STEP, 1>(p, load<T, N>(p));
  }
}
#if AOT_ISA_LEVEL == 3
// Lanes of p[0], p[STEP], …, an odd number of elements apart: no two of them have the same place in
// loads of neighbours, so blends put these together, and one permutation puts them in order. Of the
// last load no element is read beyond the last lane's. (Of 8 bytes four lanes are as soon loaded
// one by one.)
template <int STEP, int LOAD, class T, int N, int... L>
AOT_INLINE Vec<T, N> blended_odd(const T* p, Vec<T, N> v, std::integer_sequence<int, L...> lanes) {
  if constexpr (LOAD == STEP) {
    return Vec<T, N>::of(__builtin_shufflevector(v.r, v.r, (L * STEP % N)...));
  } else {
    constexpr auto is_here = [](int place) {
      for (int lane = 0; lane < N; ++lane) {
        if (lane * STEP % N == place) return lane * STEP / N == LOAD;
      }
      return false;
    };
    Vec<T, N> loaded;
    if constexpr (LOAD == STEP - 1) {
      typename Vec<SignedOf<T>, N>::R there = {(L <= N - STEP ? -1 : 0)...};
      using Move = MaskedMove<sizeof(T), N * sizeof(T)>;
      loaded.r = (typename Vec<T, N>::R)Move::load(p + LOAD * N, (RawOf<Vec<T, N>>)there);
    } else {
      loaded = load<T, N>(p + LOAD * N);
    }
    const auto both = __builtin_shufflevector(v.r, loaded.r, (is_here(L) ? N + L : L)...);
    return blended_odd<STEP, LOAD + 1>(p, Vec<T, N>::of(both), lanes);
  }
}
template <class T, int N, int STEP>
AOT_INLINE Vec<T, N> load_odd(const T* p) {
  if constexpr (Vec<T, N>::kSplit) {
    constexpr int kHalf = N / 2;
    return Vec<T, N>::of(load_odd<T, kHalf, STEP>(p), load_odd<T, kHalf, STEP>(p + kHalf * STEP));
  } else {
    return blended_odd<STEP, 1>(p, load<T, N>(p), std::make_integer_sequence<int, N>());
  }
}
#endif
template <class T, int N>
inline constexpr bool kLoadsNear = AOT_ISA_LEVEL >= 4 && sizeof(T) >= 4 && sizeof(T) * N >= 64;
}  // namespace detail

template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_strided(const S* p, int64_t stride) {
  using Raw = detail::RawType<S>;
  if constexpr (detail::kLoadsNear<Raw, N>) {
    if (__builtin_constant_p(stride) && stride >= 3 && stride <= 8) {
      const Raw* const raw = detail::raw(p);
      using Wide = detail::Storage<S>;
      if (stride == 3) return Wide::template widen<T>(detail::load_near<Raw, N, 3>(raw));
      if (stride == 4) return Wide::template widen<T>(detail::load_near<Raw, N, 4>(raw));
      if (stride == 5) return Wide::template widen<T>(detail::load_near<Raw, N, 5>(raw));
      if (stride == 6) return Wide::template widen<T>(detail::load_near<Raw, N, 6>(raw));
      if (stride == 7) return Wide::template widen<T>(detail::load_near<Raw, N, 7>(raw));
      return Wide::template widen<T>(detail::load_near<Raw, N, 8>(raw));
    }
  }
#if AOT_ISA_LEVEL == 3
  if constexpr (sizeof(Raw) == 4 && N >= 8) {
    if (__builtin_constant_p(stride) && (stride == 3 || stride == 5)) {
      const Raw* const raw = detail::raw(p);
      return detail::Storage<S>::template widen<T>(stride == 3 ? detail::load_odd<Raw, N, 3>(raw)
                                                               : detail::load_odd<Raw, N, 5>(raw));
    }
  }
#endif
  if (N > 1 && __builtin_constant_p(stride) && (stride == -1 || stride == 2)) {
    const Raw* const raw = detail::raw(p);
    return detail::Storage<S>::template widen<T>(stride == 2 ? detail::load_evens<Raw, N>(raw)
                                                             : detail::load_backwards<Raw, N>(raw));
  }
  return detail::Storage<S>::template widen<T>(
      detail::load_steps<detail::RawType<S>, N>(detail::raw(p), stride));
}
template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_strided_n(const S* p, int64_t stride, int64_t n) {
  if (n >= N) return load_strided<T, N>(p, stride);
  return detail::Storage<S>::template widen<T>(
      detail::load_steps<detail::RawType<S>, N>(detail::raw(p), stride, first_n<N>(n)));
}
template <class T, int N, class S, int M>
AOT_INLINE Vec<T, N> load_strided_m(const S* p, int64_t stride, Mask<N, M> m) {
  if (AOT_LIKELY(all(m))) return load_strided<T, N>(p, stride);
  return detail::Storage<S>::template widen<T>(
      detail::load_steps<detail::RawType<S>, N>(detail::raw(p), stride, m));
}
template <class S, class T, int N, bool B>
AOT_INLINE void store_strided(S* p, int64_t stride, Vec<T, N, B> v) {
  const auto r = detail::Storage<S>::narrow(v);
  AOT_UNROLL
  for (int i = 0; i < N; ++i) detail::raw(p)[i * stride] = r[i];
}
template <class S, class T, int N, bool B, int M>
AOT_INLINE void store_strided_m(S* p, int64_t stride, Vec<T, N, B> v, Mask<N, M> m) {
  const auto r = detail::Storage<S>::narrow(v);
  AOT_UNROLL
  for (int i = 0; i < N; ++i) {
    if (m[i]) detail::raw(p)[i * stride] = r[i];
  }
}
template <class S, class T, int N, bool B>
AOT_INLINE void store_strided_n(S* p, int64_t stride, Vec<T, N, B> v, int64_t n) {
  store_strided_m(p, stride, v, first_n<N>(n));
}

// ---- lanes of two vectors in turn: p[0], p[2], … and p[1], p[3], … ----
namespace detail {
// From lane FROM of (a0, b0, a1, b1, …) on.
template <int FROM, class T, int N, int... L>
AOT_INLINE Vec<T, N> in_turn(Vec<T, N> a, Vec<T, N> b, std::integer_sequence<int, L...>) {
  return Vec<T, N>::of(__builtin_shufflevector(
      a.r, b.r, (L < N ? (FROM + L) / 2 + (FROM + L) % 2 * int(sizeof...(L)) : 0)...));
}
template <class T, int N, class Put>
AOT_INLINE void each_turn(Vec<T, N> a, Vec<T, N> b, const Put& put, int first = 0) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit) {
    each_turn(a.lo, b.lo, put, first);
    each_turn(a.hi, b.hi, put, first + N);
  } else {
    constexpr auto kLanes = std::make_integer_sequence<int, V::kRegLanes>();
    put(in_turn<0>(a, b, kLanes), first);
    put(in_turn<N>(a, b, kLanes), first + N);
  }
}
}  // namespace detail

template <class S, class T, int N, bool B, bool C>
AOT_INLINE void store_pairs(S* p, Vec<T, N, B> low, Vec<T, N, C> high) {
  using W = detail::Storage<S>;
  detail::each_turn(W::narrow(low), W::narrow(high),
                    [&](auto v, int at) { detail::store_full(detail::raw(p) + at, v); });
}
// The first n lanes of either.
template <class S, class T, int N, bool B, bool C>
AOT_INLINE void store_pairs_n(S* p, Vec<T, N, B> low, Vec<T, N, C> high, int64_t n) {
  using W = detail::Storage<S>;
  detail::each_turn(W::narrow(low), W::narrow(high), [&](auto v, int at) {
    detail::store_first(detail::raw(p) + at, v, 2 * n - at);
  });
}

// ---- elements p[index[i]]; indices are int32_t or int64_t and may be negative ----
template <class T, int N, class S, class I, bool B>
AOT_INLINE Vec<T, N> gather(const S* p, Vec<I, N, B> index) {
  return detail::Storage<S>::template widen<T>(detail::gather_raw(detail::raw(p), index));
}
template <class T, int N, class S, class I, bool B, int M>
AOT_INLINE Vec<T, N> gather_m(const S* p, Vec<I, N, B> index, Mask<N, M> m) {
  return detail::Storage<S>::template widen<T>(detail::gather_raw(detail::raw(p), index, m));
}
template <class T, int N, class S, class I, bool B>
AOT_INLINE Vec<T, N> gather_n(const S* p, Vec<I, N, B> index, int64_t n) {
  return gather_m<T, N>(p, index, first_n<N>(n));
}
// Where two indices are equal the later lane wins.
template <class S, class T, class I, int N, bool B, bool C, int M>
AOT_INLINE void scatter_m(S* p, Vec<I, N, B> index, Vec<T, N, C> v, Mask<N, M> m) {
  const auto r = detail::Storage<S>::narrow(v);
  AOT_UNROLL
  for (int i = 0; i < N; ++i) {
    if (m[i]) detail::raw(p)[index[i]] = r[i];
  }
}
template <class S, class T, class I, int N, bool B, bool C>
AOT_INLINE void scatter(S* p, Vec<I, N, B> index, Vec<T, N, C> v) {
  const auto r = detail::Storage<S>::narrow(v);
  AOT_UNROLL
  for (int i = 0; i < N; ++i) detail::raw(p)[index[i]] = r[i];
}
template <class S, class T, class I, int N, bool B, bool C>
AOT_INLINE void scatter_n(S* p, Vec<I, N, B> index, Vec<T, N, C> v, int64_t n) {
  scatter_m(p, index, v, first_n<N>(n));
}

// ---- truth values (bytes, 0 or not) ----
template <int N, class S>
AOT_INLINE MaskOf<uint8_t, N> load_mask(const S* p) {
  return to_mask(load<uint8_t, N>(reinterpret_cast<const uint8_t*>(p)));
}
template <int N, class S>
AOT_INLINE MaskOf<uint8_t, N> load_mask_n(const S* p, int64_t n) {
  return to_mask(load_n<uint8_t, N>(reinterpret_cast<const uint8_t*>(p), n));
}
template <class S, int N, int M>
AOT_INLINE void store(S* p, Mask<N, M> v) {
  store(p, from_mask<uint8_t>(v));
}
template <class S, int N, int M>
AOT_INLINE void store_n(S* p, Mask<N, M> v, int64_t n) {
  store_n(p, from_mask<uint8_t>(v), n);
}

}  // namespace aot

#endif  // AOT_VEC_MEMORY_H_
