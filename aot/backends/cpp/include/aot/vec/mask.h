// Mask<N>: one truth value per lane, with lanes as wide as what was compared; comparisons and
// selection.
#ifndef AOT_VEC_MASK_H_
#define AOT_VEC_MASK_H_

#include "aot/vec/convert.h"

namespace aot {
namespace detail {

// The bytes of a mask's lanes: those of what was compared, so that neither comparing nor selecting
// converts. Under AVX-512 masks are bits, which is 0 here.
#if AOT_ISA_LEVEL >= 4
inline constexpr int kMaskBytes = 0;
template <class T>
inline constexpr int kMaskBytesOf = 0;
#else
inline constexpr int kMaskBytes = 4;
template <class T>
inline constexpr int kMaskBytesOf = static_cast<int>(sizeof(T));
#endif
// Of two masks that meet: theirs, or that of the most common lanes.
constexpr int mask_bytes(int a, int b) { return a == b ? a : kMaskBytes; }

// The representation: bits, or integer lanes of 0 or -1.
template <int N, int Bytes>
struct MaskRep {
  using type = Vec<typename IntOf<Bytes, true>::type, N>;
};
#if AOT_ISA_LEVEL >= 4
template <int N>
struct MaskRep<N, 0> {
  static_assert(N <= 64, "a mask has at most 64 lanes");
  using type = typename IntOf<(N <= 8 ? 1 : N / 8), false>::type;
};
#else
// Lanes of a mask as lanes of another size. Two registers become one by instructions that saturate,
// which keep 0 and -1.
template <class B, class A, int N>
AOT_INLINE Vec<B, N> mask_lanes(Vec<A, N> v) {
  using Narrow = typename IntOf<(sizeof(A) > 1 ? sizeof(A) / 2 : 1), true>::type;
  constexpr bool kPair = sizeof(A) > sizeof(B) && N * sizeof(A) == 2 * AOT_REG_BYTES;
  if constexpr (kPair && (sizeof(A) == 4 || sizeof(A) == 2)) {
    using R = typename Vec<Narrow, N>::R;
#if AOT_ISA_LEVEL == 3
    const auto l = (__m256i)v.lo.r, h = (__m256i)v.hi.r;
    const __m256i packed = sizeof(A) == 4 ? _mm256_packs_epi32(l, h) : _mm256_packs_epi16(l, h);
    return mask_lanes<B>(Vec<Narrow, N>::of((R)_mm256_permute4x64_epi64(packed, 0xd8)));
#else
    const auto l = (__m128i)v.lo.r, h = (__m128i)v.hi.r;
    return mask_lanes<B>(
        Vec<Narrow, N>::of((R)(sizeof(A) == 4 ? _mm_packs_epi32(l, h) : _mm_packs_epi16(l, h))));
#endif
  } else if constexpr (sizeof(A) > sizeof(B) && N * sizeof(A) > 2 * AOT_REG_BYTES) {
    const auto narrow = join(mask_lanes<Narrow>(v.lo), mask_lanes<Narrow>(v.hi));
    return mask_lanes<B>(narrow);
  } else {
    return convert<B>(v);
  }
}
#endif

}  // namespace detail

// `Bytes`: those of the lanes, of which a caller says nothing where it makes no difference.
template <int N, int Bytes = detail::kMaskBytes>
struct Mask {
  static constexpr int kLanes = N;
  using Rep = typename detail::MaskRep<N, Bytes>::type;
  Rep m;  // bits from N on are garbage

  Mask() = default;
  AOT_MEMBER explicit Mask(bool x) {
#if AOT_ISA_LEVEL >= 4
    m = x ? static_cast<Rep>(~Rep{0}) : Rep{0};
#else
    m = Rep(static_cast<typename Rep::Elem>(x ? -1 : 0));
#endif
  }
#if AOT_ISA_LEVEL < 4
  template <int Other>
  AOT_MEMBER Mask(Mask<N, Other> x) : m(detail::mask_lanes<typename Rep::Elem>(x.m)) {}
#endif
  AOT_MEMBER static Mask of(Rep x) {
    Mask out;
    out.m = x;
    return out;
  }
  // One lane; `i` should be a constant.
  AOT_MEMBER bool operator[](int i) const {
#if AOT_ISA_LEVEL >= 4
    return (m >> i) & 1;
#else
    return m[i] != 0;
#endif
  }
};

// The mask that comparing N lanes of T gives.
template <class T, int N>
using MaskOf = Mask<N, detail::kMaskBytesOf<T>>;

#define AOT_MASK_BINARY(OP)                                       \
  template <int N, int A, int B>                                  \
  AOT_INLINE auto operator OP(Mask<N, A> a, Mask<N, B> b) {       \
    using M = Mask<N, detail::mask_bytes(A, B)>;                  \
    return M::of(static_cast<typename M::Rep>(M(a).m OP M(b).m)); \
  }
AOT_MASK_BINARY(&)
AOT_MASK_BINARY(|)
AOT_MASK_BINARY(^)
#undef AOT_MASK_BINARY
template <int N, int B>
AOT_INLINE Mask<N, B> operator~(Mask<N, B> a) {
  return Mask<N, B>::of(static_cast<typename Mask<N, B>::Rep>(~a.m));
}

template <int N, int B>
AOT_INLINE Mask<N / 2, B> lo_half(Mask<N, B> a) {
#if AOT_ISA_LEVEL >= 4
  return Mask<N / 2>::of(static_cast<typename Mask<N / 2>::Rep>(a.m));
#else
  return Mask<N / 2, B>::of(lo_half(a.m));
#endif
}
template <int N, int B>
AOT_INLINE Mask<N / 2, B> hi_half(Mask<N, B> a) {
#if AOT_ISA_LEVEL >= 4
  return Mask<N / 2>::of(static_cast<typename Mask<N / 2>::Rep>(a.m >> (N / 2)));
#else
  return Mask<N / 2, B>::of(hi_half(a.m));
#endif
}
template <int N, int B>
AOT_INLINE Mask<2 * N, B> join(Mask<N, B> l, Mask<N, B> h) {
#if AOT_ISA_LEVEL >= 4
  using Rep = typename Mask<2 * N>::Rep;
  constexpr Rep kLow = static_cast<Rep>((Rep{1} << N) - 1);
  return Mask<2 * N>::of(static_cast<Rep>((Rep{h.m} << N) | (Rep{l.m} & kLow)));
#else
  return Mask<2 * N, B>::of(join(l.m, h.m));
#endif
}

// Lane i is true when i < n (n may be negative, or more than N).
template <int N>
AOT_INLINE Mask<N> first_n(int64_t n) {
#if AOT_ISA_LEVEL >= 4
  using Rep = typename Mask<N>::Rep;
  const uint32_t count = n < 0 ? 0 : n > N ? N : static_cast<uint32_t>(n);
  if constexpr (N == 64) {
    return Mask<N>::of(_bzhi_u64(~uint64_t{0}, count));
  } else {
    return Mask<N>::of(static_cast<Rep>(_bzhi_u64(~uint64_t{0}, count)));
  }
#else
  const int32_t count = n < 0 ? 0 : n > N ? N : static_cast<int32_t>(n);
  return iota<int32_t, N>() < Vec<int32_t, N>(count);
#endif
}

namespace detail {
// Only the bits of real lanes.
#if AOT_ISA_LEVEL >= 4
template <int N>
AOT_INLINE uint64_t mask_bits(Mask<N> a) {
  return a.m & (~uint64_t{0} >> (64 - N));
}
#else
template <int N, int B>
AOT_INLINE uint64_t mask_bits(Mask<N, B> a) {
  using Lanes = typename Mask<N, B>::Rep;
  if constexpr (Lanes::kSplit) {
    return mask_bits(lo_half(a)) | mask_bits(hi_half(a)) << (N / 2);
  } else if constexpr (B == 2) {
    return mask_bits(Mask<N, 1>(a));
  } else {
    constexpr uint64_t kReal = ~uint64_t{0} >> (64 - N);
#if AOT_ISA_LEVEL == 3
    if constexpr (Lanes::kBytes == 32) {
      const int bits = B == 1   ? _mm256_movemask_epi8((__m256i)a.m.r)
                       : B == 4 ? _mm256_movemask_ps((__m256)a.m.r)
                                : _mm256_movemask_pd((__m256d)a.m.r);
      return static_cast<uint32_t>(bits);
    }
#endif
    if constexpr (Lanes::kBytes == 16) {
      const int bits = B == 1   ? _mm_movemask_epi8((__m128i)a.m.r)
                       : B == 4 ? _mm_movemask_ps((__m128)a.m.r)
                                : _mm_movemask_pd((__m128d)a.m.r);
      return static_cast<uint32_t>(bits) & kReal;
    }
  }
}
#endif
}  // namespace detail

template <int N, int B>
AOT_INLINE bool any(Mask<N, B> a) {
  return detail::mask_bits(a) != 0;
}
template <int N, int B>
AOT_INLINE bool all(Mask<N, B> a) {
  return detail::mask_bits(a) == (~uint64_t{0} >> (64 - N));
}
template <int N, int B>
AOT_INLINE int count(Mask<N, B> a) {
  return __builtin_popcountll(detail::mask_bits(a));
}

// ---- comparisons ----
namespace detail {

template <int Op, class T, int N>
AOT_INLINE MaskOf<T, N> compare(Vec<T, N> a, Vec<T, N> b) {
#if AOT_ISA_LEVEL >= 4
  if constexpr (Vec<T, N>::kSplit) {
    return join(compare<Op>(a.lo, b.lo), compare<Op>(a.hi, b.hi));
  } else {
    return Mask<N>::of(static_cast<typename Mask<N>::Rep>(r_cmp<Op>(a.r, b.r)));
  }
#else
  using L = Vec<SignedOf<T>, N>;
  if constexpr (Vec<T, N>::kSplit) {
    return join(compare<Op>(a.lo, b.lo), compare<Op>(a.hi, b.hi));
  } else {
    L lanes;
    if constexpr (Op == kEq) {
      lanes.r = (typename L::R)(a.r == b.r);
    } else if constexpr (Op == kNe) {
      lanes.r = (typename L::R)(a.r != b.r);
    } else if constexpr (Op == kLt) {
      lanes.r = (typename L::R)(a.r < b.r);
    } else {
      lanes.r = (typename L::R)(a.r <= b.r);
    }
    return MaskOf<T, N>::of(lanes);
  }
#endif
}
}  // namespace detail

#define AOT_COMPARE(OP, CODE, A, B)                                        \
  template <class T, int N>                                                \
  AOT_INLINE MaskOf<T, N> operator OP(Vec<T, N> a, Vec<T, N> b) {          \
    return detail::compare<detail::CODE>(A, B);                            \
  }                                                                        \
  template <class T, int N, bool S>                                        \
  AOT_INLINE MaskOf<T, N> operator OP(Vec<T, N, S> x, detail::Same<T> y) { \
    const Vec<T, N> a = x, b(y);                                           \
    return detail::compare<detail::CODE>(A, B);                            \
  }
AOT_COMPARE(==, kEq, a, b)
AOT_COMPARE(!=, kNe, a, b)
AOT_COMPARE(<, kLt, a, b)
AOT_COMPARE(<=, kLe, a, b)
AOT_COMPARE(>, kLt, b, a)
AOT_COMPARE(>=, kLe, b, a)
#undef AOT_COMPARE

// ---- selection ----
// mask ? a : b, lane by lane; neither side can trap.
template <class T, int N, int B>
AOT_INLINE Vec<T, N> select(Mask<N, B> m, Vec<T, N> a, Vec<T, N> b) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(select(lo_half(m), a.lo, b.lo), select(hi_half(m), a.hi, b.hi));
  } else {
#if AOT_ISA_LEVEL >= 4
    return Vec<T, N>::of(detail::r_select(m.m, a.r, b.r));
#else
    return Vec<T, N>::of(detail::r_blend(MaskOf<T, N>(m).m.r, a.r, b.r));
#endif
  }
}
namespace detail {
// Whether x is known to be +0 when this code is compiled.
template <class T>
AOT_INLINE bool is_constant_zero(T x) {
  return __builtin_constant_p(x) && x == T(0) && !(kIsFloat<T> && __builtin_signbit(double(x)));
}
// v where the mask has `Keep`, zero elsewhere: cheaper than a blend.
template <bool Keep, class T, int N, int B>
AOT_INLINE Vec<T, N> zero_unless(Mask<N, B> m, Vec<T, N> v) {
#if AOT_ISA_LEVEL >= 4
  return Keep ? select(m, v, Vec<T, N>(T(0))) : select(m, Vec<T, N>(T(0)), v);
#else
  using I = SignedOf<T>;
  const Vec<I, N> lanes = MaskOf<T, N>(m).m;
  return bitcast<T>(bitcast<I>(v) & (Keep ? lanes : ~lanes));
#endif
}
}  // namespace detail
template <class T, int N, bool S, int B>
AOT_INLINE Vec<T, N> select(Mask<N, B> m, Vec<T, N, S> a, detail::Same<T> b) {
  if (detail::is_constant_zero<T>(b)) return detail::zero_unless<true>(m, a);
  return select(m, a, Vec<T, N>(b));
}
template <class T, int N, bool S, int B>
AOT_INLINE Vec<T, N> select(Mask<N, B> m, detail::Same<T> a, Vec<T, N, S> b) {
  if (detail::is_constant_zero<T>(a)) return detail::zero_unless<false>(m, b);
  return select(m, Vec<T, N>(a), b);
}
template <int N, int M, int A, int B>
AOT_INLINE auto select(Mask<N, M> m, Mask<N, A> a, Mask<N, B> b) {
  return (m & a) | (~m & b);
}
// One of two masks.
template <int N, int A, int B>
AOT_INLINE auto either(bool first, Mask<N, A> a, Mask<N, B> b) {
  using M = Mask<N, detail::mask_bytes(A, B)>;
  return first ? M(a) : M(b);
}

// ---- truth values as numbers ----
// x != 0 (NaN is true).
template <class T, int N>
AOT_INLINE MaskOf<T, N> to_mask(Vec<T, N> v) {
  return v != Vec<T, N>(T(0));
}
template <int N, int B>
AOT_INLINE Mask<N, B> to_mask(Mask<N, B> m) {
  return m;
}
// 1 where true, 0 elsewhere.
template <class T, int N, int B>
AOT_INLINE Vec<T, N> from_mask(Mask<N, B> m) {
#if AOT_ISA_LEVEL >= 4
  return select(m, Vec<T, N>(T(1)), Vec<T, N>(T(0)));
#else
  return detail::zero_unless<true>(m, Vec<T, N>(T(1)));
#endif
}
template <class T, int N, int B>
AOT_INLINE Vec<T, N> convert(Mask<N, B> m) {
  return from_mask<T>(m);
}

namespace detail {
template <class B, int N>
AOT_INLINE Vec<B, N> float_of_uint64(Vec<uint64_t, N> v) {
  const Vec<int64_t, N> bits = bitcast<int64_t>(v);
  const Vec<B, N> half = convert<B>(bitcast<int64_t>((v >> 1) | (v & uint64_t{1})));
  return select(bits < int64_t{0}, half + half, convert<B>(bits));
}
template <class A, int N>
AOT_INLINE Vec<uint64_t, N> uint64_of_float(Vec<A, N> v) {
  const Vec<A, N> end(A(0x1p63));
  const auto large = v >= end;
  const auto rest = bitcast<uint64_t>(convert<int64_t>(select(large, v - end, v)));
  return select(large, rest ^ (uint64_t{1} << 63), rest);
}
}  // namespace detail

}  // namespace aot

#endif  // AOT_VEC_MASK_H_
