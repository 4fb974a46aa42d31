// Machine instructions for masked moves and indexed loads (AVX2, AVX-512), one lane at a time
// where there are none.
#ifndef AOT_VEC_GATHER_H_
#define AOT_VEC_GATHER_H_

#include "aot/vec/mask.h"

namespace aot {
namespace detail {

#if AOT_ISA_LEVEL >= 3
// MaskedMove<lane bytes, register bytes>: load and store of the lanes that a mask selects.
template <int LaneBytes, int Bytes>
struct MaskedMove;
// GatherMove<lane bytes, index bytes, bytes of the wider register>.
template <int LaneBytes, int IndexBytes, int Bytes>
struct GatherMove;

#if AOT_ISA_LEVEL >= 4
#define AOT_MASKED_MOVE(LANE, BYTES, V, M, S, K)             \
  template <>                                                \
  struct MaskedMove<LANE, BYTES> {                           \
    AOT_MEMBER static V load(const void* p, uint64_t m) {    \
      return M##_maskz_loadu_##S(static_cast<K>(m), p);      \
    }                                                        \
    AOT_MEMBER static void store(void* p, uint64_t m, V v) { \
      M##_mask_storeu_##S(p, static_cast<K>(m), v);          \
    }                                                        \
  };
#define AOT_MASKED_MOVES(LANE, S, K128, K256, K512)   \
  AOT_MASKED_MOVE(LANE, 16, __m128i, _mm, S, K128)    \
  AOT_MASKED_MOVE(LANE, 32, __m256i, _mm256, S, K256) \
  AOT_MASKED_MOVE(LANE, 64, __m512i, _mm512, S, K512)
AOT_MASKED_MOVES(1, epi8, __mmask16, __mmask32, __mmask64)
AOT_MASKED_MOVES(2, epi16, __mmask8, __mmask16, __mmask32)
AOT_MASKED_MOVES(4, epi32, __mmask8, __mmask8, __mmask16)
AOT_MASKED_MOVES(8, epi64, __mmask8, __mmask8, __mmask8)
#undef AOT_MASKED_MOVES
#undef AOT_MASKED_MOVE

template <class T, int N, int M>
AOT_INLINE uint64_t move_mask(Mask<N, M> m) {
  // Garbage bits matter only where the register has more lanes than the Vec.
  return N < Vec<T, N>::kRegLanes ? mask_bits(m) : m.m;
}

#define AOT_GATHER(LANE, INDEX, BYTES, OUT, IN, NAME, S, K)              \
  template <>                                                            \
  struct GatherMove<LANE, INDEX, BYTES> {                                \
    AOT_MEMBER static OUT run(const void* p, IN index, uint64_t m) {     \
      return NAME##gather_##S(OUT{}, static_cast<K>(m), index, p, LANE); \
    }                                                                    \
  };
AOT_GATHER(4, 4, 16, __m128i, __m128i, _mm_mmask_i32, epi32, __mmask8)
AOT_GATHER(4, 4, 32, __m256i, __m256i, _mm256_mmask_i32, epi32, __mmask8)
AOT_GATHER(4, 4, 64, __m512i, __m512i, _mm512_mask_i32, epi32, __mmask16)
AOT_GATHER(4, 8, 16, __m128i, __m128i, _mm_mmask_i64, epi32, __mmask8)
AOT_GATHER(4, 8, 32, __m128i, __m256i, _mm256_mmask_i64, epi32, __mmask8)
AOT_GATHER(4, 8, 64, __m256i, __m512i, _mm512_mask_i64, epi32, __mmask8)
AOT_GATHER(8, 4, 16, __m128i, __m128i, _mm_mmask_i32, epi64, __mmask8)
AOT_GATHER(8, 4, 32, __m256i, __m128i, _mm256_mmask_i32, epi64, __mmask8)
AOT_GATHER(8, 4, 64, __m512i, __m256i, _mm512_mask_i32, epi64, __mmask8)
AOT_GATHER(8, 8, 16, __m128i, __m128i, _mm_mmask_i64, epi64, __mmask8)
AOT_GATHER(8, 8, 32, __m256i, __m256i, _mm256_mmask_i64, epi64, __mmask8)
AOT_GATHER(8, 8, 64, __m512i, __m512i, _mm512_mask_i64, epi64, __mmask8)
#undef AOT_GATHER
#else
template <>
struct MaskedMove<4, 16> {
  AOT_MEMBER static __m128i load(const void* p, __m128i m) {
    return _mm_maskload_epi32(static_cast<const int*>(p), m);
  }
  AOT_MEMBER static void store(void* p, __m128i m, __m128i v) {
    _mm_maskstore_epi32(static_cast<int*>(p), m, v);
  }
};
template <>
struct MaskedMove<4, 32> {
  AOT_MEMBER static __m256i load(const void* p, __m256i m) {
    return _mm256_maskload_epi32(static_cast<const int*>(p), m);
  }
  AOT_MEMBER static void store(void* p, __m256i m, __m256i v) {
    _mm256_maskstore_epi32(static_cast<int*>(p), m, v);
  }
};
template <>
struct MaskedMove<8, 16> {
  AOT_MEMBER static __m128i load(const void* p, __m128i m) {
    return _mm_maskload_epi64(static_cast<const long long*>(p), m);
  }
  AOT_MEMBER static void store(void* p, __m128i m, __m128i v) {
    _mm_maskstore_epi64(static_cast<long long*>(p), m, v);
  }
};
template <>
struct MaskedMove<8, 32> {
  AOT_MEMBER static __m256i load(const void* p, __m256i m) {
    return _mm256_maskload_epi64(static_cast<const long long*>(p), m);
  }
  AOT_MEMBER static void store(void* p, __m256i m, __m256i v) {
    _mm256_maskstore_epi64(static_cast<long long*>(p), m, v);
  }
};

// Lane mask of T's width, with the lanes past N off.
template <class T, int N, int M>
AOT_INLINE RawOf<Vec<T, N>> move_mask(Mask<N, M> m) {
  const Vec<SignedOf<T>, N> lanes = MaskOf<T, N>(m).m;
  if constexpr (N < Vec<T, N>::kRegLanes) {
    using R = typename Vec<SignedOf<T>, N>::R;
    R keep{};
    AOT_UNROLL
    for (int i = 0; i < N; ++i) keep[i] = -1;
    return (RawOf<Vec<T, N>>)(lanes.r & keep);
  } else {
    return (RawOf<Vec<T, N>>)lanes.r;
  }
}

#define AOT_GATHER(LANE, INDEX, BYTES, OUT, IN, P, NAME, S)                     \
  template <>                                                                   \
  struct GatherMove<LANE, INDEX, BYTES> {                                       \
    AOT_MEMBER static OUT run(const void* p, IN index, OUT m) {                 \
      return NAME##gather_##S(OUT{}, static_cast<const P*>(p), index, m, LANE); \
    }                                                                           \
  };
AOT_GATHER(4, 4, 16, __m128i, __m128i, int, _mm_mask_i32, epi32)
AOT_GATHER(4, 4, 32, __m256i, __m256i, int, _mm256_mask_i32, epi32)
AOT_GATHER(4, 8, 16, __m128i, __m128i, int, _mm_mask_i64, epi32)
AOT_GATHER(4, 8, 32, __m128i, __m256i, int, _mm256_mask_i64, epi32)
AOT_GATHER(8, 4, 16, __m128i, __m128i, long long, _mm_mask_i32, epi64)
AOT_GATHER(8, 4, 32, __m256i, __m128i, long long, _mm256_mask_i32, epi64)
AOT_GATHER(8, 8, 16, __m128i, __m128i, long long, _mm_mask_i64, epi64)
AOT_GATHER(8, 8, 32, __m256i, __m256i, long long, _mm256_mask_i64, epi64)
#undef AOT_GATHER
#endif
#endif

// p[index[i]] where m, zero (and no access) elsewhere.
template <class T, class I, int N, int M>
AOT_INLINE Vec<T, N> gather_raw(const T* p, Vec<I, N> index, Mask<N, M> m) {
  using V = Vec<T, N>;
  if constexpr (V::kSplit || Vec<I, N>::kSplit) {
    return join(gather_raw(p, lo_half(index), lo_half(m)),
                gather_raw(p, hi_half(index), hi_half(m)));
  } else if constexpr (AOT_ISA_LEVEL >= 3 && sizeof(T) >= 4) {
#if AOT_ISA_LEVEL >= 3
    constexpr int kBytes = V::kBytes > Vec<I, N>::kBytes ? V::kBytes : Vec<I, N>::kBytes;
    using Move = GatherMove<sizeof(T), sizeof(I), kBytes>;
    const auto raw_index = (RawOf<Vec<I, N>>)index.r;
    return V::of((typename V::R)Move::run(p, raw_index, move_mask<T>(m)));
#endif
  } else {
    typename V::R r{};
    AOT_UNROLL
    for (int i = 0; i < N; ++i) {
      if (m[i]) r[i] = p[index[i]];
    }
    return V::of(r);
  }
}

template <class T, int N, int M>
AOT_INLINE Vec<T, N> load_steps(const T* p, int64_t stride, Mask<N, M> m) {
  return gather_raw(p, iota<int64_t, N>(0, stride), m);
}

// at(0), at(1), ... of scalars, loaded one by one and joined. An instruction that gathers takes two
// to three times as long on Zen 4, and on processors that guard it against speculation far longer.
template <class T, int N, int kFirst = 0, class At>
AOT_INLINE Vec<T, N> one_by_one(const At& at) {
  using V = Vec<T, N>;
  constexpr int kHalf = N / 2;
  if constexpr (V::kSplit) {
    return join(one_by_one<T, kHalf, kFirst>(at), one_by_one<T, kHalf, kFirst + kHalf>(at));
#if AOT_ISA_LEVEL >= 4
  } else if constexpr (N * sizeof(T) == 64) {
    // By halves: compilers fill the widest registers by way of memory.
    const auto low = (__m256i)one_by_one<T, kHalf, kFirst>(at).r;
    const auto high = (__m256i)one_by_one<T, kHalf, kFirst + kHalf>(at).r;
    return V::of((typename V::R)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1));
#endif
  } else {
    typename V::R r{};
    AOT_UNROLL
    for (int i = 0; i < N; ++i) r[i] = at(kFirst + i);
    return V::of(r);
  }
}

template <class T, int N>
AOT_INLINE Vec<T, N> load_steps(const T* p, int64_t stride) {
  return one_by_one<T, N>([=](int i) { return p[i * stride]; });
}

// p[index[i]] of all lanes.
template <class T, class I, int N>
AOT_INLINE Vec<T, N> gather_raw(const T* p, Vec<I, N> index) {
  if constexpr (Vec<I, N>::kSplit) {
    return join(gather_raw(p, lo_half(index)), gather_raw(p, hi_half(index)));
  } else {
    alignas(64) I at[sizeof(index.r) / sizeof(I)];
    __builtin_memcpy(at, &index.r, sizeof(index.r));
    return one_by_one<T, N>([&](int i) { return p[at[i]]; });
  }
}

}  // namespace detail
}  // namespace aot

#endif  // AOT_VEC_GATHER_H_
