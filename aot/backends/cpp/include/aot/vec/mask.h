// Mask<N>: one truth value per lane, whatever the lane type; comparisons and selection.
#ifndef AOT_VEC_MASK_H_
#define AOT_VEC_MASK_H_

#include "aot/vec/convert.h"

namespace aot {
namespace detail {

// The representation: bits under AVX-512, otherwise int32 lanes of 0 or -1 (float kernels, by far
// the most common ones, then need no conversion).
template <int N>
struct MaskRep {
#if AOT_ISA_LEVEL >= 4
  static_assert(N <= 64, "a mask has at most 64 lanes");
  using type = typename IntOf<(N <= 8 ? 1 : N / 8), false>::type;
#else
  using type = Vec<int32_t, N>;
#endif
};

}  // namespace detail

template <int N>
struct Mask {
  static constexpr int kLanes = N;
  using Rep = typename detail::MaskRep<N>::type;
  Rep m;  // bits from N on are garbage

  Mask() = default;
  AOT_MEMBER explicit Mask(bool x) {
#if AOT_ISA_LEVEL >= 4
    m = x ? static_cast<Rep>(~Rep{0}) : Rep{0};
#else
    m = Vec<int32_t, N>(x ? -1 : 0);
#endif
  }
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

template <int N>
AOT_INLINE Mask<N> operator&(Mask<N> a, Mask<N> b) {
  return Mask<N>::of(static_cast<typename Mask<N>::Rep>(a.m & b.m));
}
template <int N>
AOT_INLINE Mask<N> operator|(Mask<N> a, Mask<N> b) {
  return Mask<N>::of(static_cast<typename Mask<N>::Rep>(a.m | b.m));
}
template <int N>
AOT_INLINE Mask<N> operator^(Mask<N> a, Mask<N> b) {
  return Mask<N>::of(static_cast<typename Mask<N>::Rep>(a.m ^ b.m));
}
template <int N>
AOT_INLINE Mask<N> operator~(Mask<N> a) {
  return Mask<N>::of(static_cast<typename Mask<N>::Rep>(~a.m));
}

template <int N>
AOT_INLINE Mask<N / 2> lo_half(Mask<N> a) {
#if AOT_ISA_LEVEL >= 4
  return Mask<N / 2>::of(static_cast<typename Mask<N / 2>::Rep>(a.m));
#else
  return Mask<N / 2>::of(lo_half(a.m));
#endif
}
template <int N>
AOT_INLINE Mask<N / 2> hi_half(Mask<N> a) {
#if AOT_ISA_LEVEL >= 4
  return Mask<N / 2>::of(static_cast<typename Mask<N / 2>::Rep>(a.m >> (N / 2)));
#else
  return Mask<N / 2>::of(hi_half(a.m));
#endif
}
template <int N>
AOT_INLINE Mask<2 * N> join(Mask<N> l, Mask<N> h) {
#if AOT_ISA_LEVEL >= 4
  using Rep = typename Mask<2 * N>::Rep;
  constexpr Rep kLow = static_cast<Rep>((Rep{1} << N) - 1);
  return Mask<2 * N>::of(static_cast<Rep>((Rep{h.m} << N) | (Rep{l.m} & kLow)));
#else
  return Mask<2 * N>::of(join(l.m, h.m));
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
template <int N>
AOT_INLINE uint64_t mask_bits(Mask<N> a) {
  if constexpr (Vec<int32_t, N>::kSplit) {
    return mask_bits(lo_half(a)) | mask_bits(hi_half(a)) << (N / 2);
  } else {
#if AOT_ISA_LEVEL == 3
    if constexpr (Vec<int32_t, N>::kRegLanes == 8) {
      return static_cast<uint32_t>(_mm256_movemask_ps((__m256)a.m.r));
    }
#endif
    if constexpr (Vec<int32_t, N>::kRegLanes == 4) {
      return static_cast<uint32_t>(_mm_movemask_ps((__m128)a.m.r)) & ((1u << N) - 1);
    }
  }
}
#endif
}  // namespace detail

template <int N>
AOT_INLINE bool any(Mask<N> a) {
  return detail::mask_bits(a) != 0;
}
template <int N>
AOT_INLINE bool all(Mask<N> a) {
  return detail::mask_bits(a) == (~uint64_t{0} >> (64 - N));
}
template <int N>
AOT_INLINE int count(Mask<N> a) {
  return __builtin_popcountll(detail::mask_bits(a));
}

// ---- comparisons ----
namespace detail {

template <int Op, class T, int N>
AOT_INLINE Mask<N> compare(Vec<T, N> a, Vec<T, N> b) {
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
    return Mask<N>::of(convert<int32_t>(lanes));
  }
#endif
}
}  // namespace detail

#define AOT_COMPARE(OP, CODE, A, B)                                   \
  template <class T, int N>                                           \
  AOT_INLINE Mask<N> operator OP(Vec<T, N> a, Vec<T, N> b) {          \
    return detail::compare<detail::CODE>(A, B);                       \
  }                                                                   \
  template <class T, int N, bool S>                                   \
  AOT_INLINE Mask<N> operator OP(Vec<T, N, S> x, detail::Same<T> y) { \
    const Vec<T, N> a = x, b(y);                                      \
    return detail::compare<detail::CODE>(A, B);                       \
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
template <class T, int N>
AOT_INLINE Vec<T, N> select(Mask<N> m, Vec<T, N> a, Vec<T, N> b) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(select(lo_half(m), a.lo, b.lo), select(hi_half(m), a.hi, b.hi));
  } else {
#if AOT_ISA_LEVEL >= 4
    return Vec<T, N>::of(detail::r_select(m.m, a.r, b.r));
#else
    return Vec<T, N>::of(detail::r_blend(convert<detail::SignedOf<T> >(m.m).r, a.r, b.r));
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
template <bool Keep, class T, int N>
AOT_INLINE Vec<T, N> zero_unless(Mask<N> m, Vec<T, N> v) {
#if AOT_ISA_LEVEL >= 4
  return Keep ? select(m, v, Vec<T, N>(T(0))) : select(m, Vec<T, N>(T(0)), v);
#else
  using I = SignedOf<T>;
  const Vec<I, N> lanes = convert<I>(m.m);
  return bitcast<T>(bitcast<I>(v) & (Keep ? lanes : ~lanes));
#endif
}
}  // namespace detail
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> select(Mask<N> m, Vec<T, N, S> a, detail::Same<T> b) {
  if (detail::is_constant_zero<T>(b)) return detail::zero_unless<true>(m, a);
  return select(m, a, Vec<T, N>(b));
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> select(Mask<N> m, detail::Same<T> a, Vec<T, N, S> b) {
  if (detail::is_constant_zero<T>(a)) return detail::zero_unless<false>(m, b);
  return select(m, Vec<T, N>(a), b);
}
template <int N>
AOT_INLINE Mask<N> select(Mask<N> m, Mask<N> a, Mask<N> b) {
  return (m & a) | (~m & b);
}

// ---- truth values as numbers ----
// x != 0 (NaN is true).
template <class T, int N>
AOT_INLINE Mask<N> to_mask(Vec<T, N> v) {
  return v != Vec<T, N>(T(0));
}
template <int N>
AOT_INLINE Mask<N> to_mask(Mask<N> m) {
  return m;
}
// 1 where true, 0 elsewhere.
template <class T, int N>
AOT_INLINE Vec<T, N> from_mask(Mask<N> m) {
#if AOT_ISA_LEVEL >= 4
  return select(m, Vec<T, N>(T(1)), Vec<T, N>(T(0)));
#else
  if constexpr (detail::kIsFloat<T>) {
    return select(m, Vec<T, N>(T(1)), Vec<T, N>(T(0)));
  } else {
    return convert<T>(m.m & Vec<int32_t, N>(1));
  }
#endif
}
template <class B, int N>
AOT_INLINE Vec<B, N> convert(Mask<N> m) {
  return from_mask<B>(m);
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
  const Mask<N> large = v >= end;
  const auto rest = bitcast<uint64_t>(convert<int64_t>(select(large, v - end, v)));
  return select(large, rest ^ (uint64_t{1} << 63), rest);
}
}  // namespace detail

}  // namespace aot

#endif  // AOT_VEC_MASK_H_
