// Vec<T, N>: N lanes of T, and its lane-wise operators.
#ifndef AOT_VEC_TYPE_H_
#define AOT_VEC_TYPE_H_

#include "aot/vec/isa.h"
#include "aot/vec/reg.h"

namespace aot {

// A Vec wider than one register is a pair of halves, never an array: the compiler keeps pairs in
// registers, while arrays (and GNU vectors wider than a register) travel through the stack.
template <class T, int N, bool Split = (N * static_cast<int>(sizeof(T)) > AOT_REG_BYTES)>
struct Vec;

template <class T, int N>
struct Vec<T, N, false> {
  static_assert((N & (N - 1)) == 0, "lanes must be a power of two");
  using Elem = T;
  static constexpr int kLanes = N;
  static constexpr bool kSplit = false;
  // Lanes of the register; those from N on are garbage (but never trap).
  static constexpr int kRegLanes =
      N * static_cast<int>(sizeof(T)) < 16 ? 16 / static_cast<int>(sizeof(T)) : N;
  static constexpr int kBytes = kRegLanes * static_cast<int>(sizeof(T));
  using R = detail::Reg<T, kRegLanes>;

  R r;

  Vec() = default;
  AOT_MEMBER explicit Vec(T x) : r(splat(x)) {}
  AOT_MEMBER static Vec of(R x) {
    Vec v;
    v.r = x;
    return v;
  }
  // One lane; `i` should be a constant.
  AOT_MEMBER T operator[](int i) const { return r[i]; }

 private:
  AOT_MEMBER static R splat(T x) {
    if constexpr (detail::kIsFloat<T>) {
      return x - R{};  // not `x + R{}`, which loses the sign of -0.0
    } else {
      return R{} + x;
    }
  }
};

template <class T, int N>
struct Vec<T, N, true> {
  static_assert((N & (N - 1)) == 0, "lanes must be a power of two");
  using Elem = T;
  static constexpr int kLanes = N;
  static constexpr bool kSplit = true;
  using Half = Vec<T, N / 2>;

  Half lo, hi;

  Vec() = default;
  AOT_MEMBER explicit Vec(T x) : lo(x), hi(x) {}
  AOT_MEMBER static Vec of(Half l, Half h) {
    Vec v;
    v.lo = l;
    v.hi = h;
    return v;
  }
  AOT_MEMBER T operator[](int i) const { return i < N / 2 ? lo[i] : hi[i - N / 2]; }
};

template <class T, int N>
AOT_INLINE Vec<T, N> splat(detail::Same<T> x) {
  return Vec<T, N>(x);
}

namespace detail {

template <class R, int Bytes>
struct Raw;  // the __m type that holds a register of Bytes bytes
template <class R>
struct Raw<R, 16> {
  using type = __m128i;
};
template <class R>
struct Raw<R, 32> {
  using type = __m256i;
};
#if AOT_ISA_LEVEL >= 4
template <class R>
struct Raw<R, 64> {
  using type = __m512i;
};
#endif
template <class V>
using RawOf = typename Raw<void, V::kBytes>::type;

}  // namespace detail

// Lower and upper halves, and the way back.
template <class T, int N>
AOT_INLINE Vec<T, N / 2> lo_half(Vec<T, N> v) {
  if constexpr (Vec<T, N>::kSplit) {
    return v.lo;
  } else {
    using Raw = detail::RawOf<Vec<T, N>>;
    using H = detail::Halves<N* static_cast<int>(sizeof(T))>;
    return Vec<T, N / 2>::of((typename Vec<T, N / 2>::R) H::lo((Raw)v.r));
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N / 2> hi_half(Vec<T, N> v) {
  if constexpr (Vec<T, N>::kSplit) {
    return v.hi;
  } else {
    using Raw = detail::RawOf<Vec<T, N>>;
    using H = detail::Halves<N* static_cast<int>(sizeof(T))>;
    return Vec<T, N / 2>::of((typename Vec<T, N / 2>::R) H::hi((Raw)v.r));
  }
}
template <class T, int N>
AOT_INLINE Vec<T, 2 * N> join(Vec<T, N> l, Vec<T, N> h) {
  using Out = Vec<T, 2 * N>;
  if constexpr (Out::kSplit) {
    return Out::of(l, h);
  } else {
    using Raw = detail::RawOf<Vec<T, N>>;
    using H = detail::Halves<2 * N* static_cast<int>(sizeof(T))>;
    return Out::of((typename Out::R)H::join((Raw)l.r, (Raw)h.r));
  }
}

// The same bits as lanes of another type of the same size.
template <class B, class A, int N>
AOT_INLINE Vec<B, N> bitcast(Vec<A, N> v) {
  static_assert(sizeof(A) == sizeof(B), "bitcast keeps the lane size");
  if constexpr (Vec<A, N>::kSplit) {
    return Vec<B, N>::of(bitcast<B>(v.lo), bitcast<B>(v.hi));
  } else {
    return Vec<B, N>::of((typename Vec<B, N>::R)v.r);
  }
}

namespace detail {
// Register type on which integer arithmetic wraps instead of being undefined.
template <class T, int N, bool IsFloat = kIsFloat<T>>
struct Wrapping {
  using type = Reg<UnsignedOf<T>, N>;
};
template <class T, int N>
struct Wrapping<T, N, true> {
  using type = Reg<T, N>;
};
}  // namespace detail

// + - *: integers wrap. & | ^: integers only. Mixed forms broadcast the scalar.
#define AOT_BINARY(OP)                                                    \
  template <class T, int N>                                               \
  AOT_INLINE Vec<T, N> operator OP(Vec<T, N> a, Vec<T, N> b) {            \
    if constexpr (Vec<T, N>::kSplit) {                                    \
      return Vec<T, N>::of(a.lo OP b.lo, a.hi OP b.hi);                   \
    } else {                                                              \
      using W = typename detail::Wrapping<T, Vec<T, N>::kRegLanes>::type; \
      return Vec<T, N>::of((typename Vec<T, N>::R)((W)a.r OP(W) b.r));    \
    }                                                                     \
  }                                                                       \
  template <class T, int N, bool S>                                       \
  AOT_INLINE Vec<T, N> operator OP(Vec<T, N, S> a, detail::Same<T> b) {   \
    return a OP Vec<T, N>(b);                                             \
  }                                                                       \
  template <class T, int N, bool S>                                       \
  AOT_INLINE Vec<T, N> operator OP(detail::Same<T> a, Vec<T, N, S> b) {   \
    return Vec<T, N>(a) OP b;                                             \
  }                                                                       \
  template <class T, int N>                                               \
  AOT_INLINE Vec<T, N>& operator OP## = (Vec<T, N> & a, Vec<T, N> b) {    \
    a = a OP b;                                                           \
    return a;                                                             \
  }
AOT_BINARY(+)
AOT_BINARY(-)
AOT_BINARY(*)
AOT_BINARY(&)
AOT_BINARY(|)
AOT_BINARY(^)
#undef AOT_BINARY

// True division of floats. For integers see div_trunc and div_floor.
template <class T, int N>
AOT_INLINE Vec<T, N> operator/(Vec<T, N> a, Vec<T, N> b) {
  static_assert(detail::kIsFloat<T>, "use div_trunc or div_floor for integers");
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(a.lo / b.lo, a.hi / b.hi);
  } else {
    return Vec<T, N>::of(a.r / b.r);
  }
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> operator/(Vec<T, N, S> a, detail::Same<T> b) {
  return a / Vec<T, N>(b);
}
template <class T, int N, bool S>
AOT_INLINE Vec<T, N> operator/(detail::Same<T> a, Vec<T, N, S> b) {
  return Vec<T, N>(a) / b;
}

template <class T, int N>
AOT_INLINE Vec<T, N> operator-(Vec<T, N> a) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(-a.lo, -a.hi);
  } else {
    using W = typename detail::Wrapping<T, Vec<T, N>::kRegLanes>::type;
    return Vec<T, N>::of((typename Vec<T, N>::R)(-(W)a.r));
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> operator~(Vec<T, N> a) {
  static_assert(!detail::kIsFloat<T>, "bitwise operators are for integers");
  return a ^ Vec<T, N>(static_cast<T>(-1));
}

// Shifts of every lane by one uniform count in [0, bits); right shifts keep the sign of signed
// lanes. For counts that are data see shift_left and shift_right.
template <class T, int N>
AOT_INLINE Vec<T, N> operator<<(Vec<T, N> a, int count) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(a.lo << count, a.hi << count);
  } else {
    using W = typename detail::Wrapping<T, Vec<T, N>::kRegLanes>::type;
    return Vec<T, N>::of((typename Vec<T, N>::R)((W)a.r << count));
  }
}
template <class T, int N>
AOT_INLINE Vec<T, N> operator>>(Vec<T, N> a, int count) {
  if constexpr (Vec<T, N>::kSplit) {
    return Vec<T, N>::of(a.lo >> count, a.hi >> count);
  } else {
    return Vec<T, N>::of(a.r >> count);
  }
}

// The lanes 0, 1, 2, ... times `step`, plus `start`.
template <class T, int N>
AOT_INLINE Vec<T, N> iota(detail::Same<T> start = T(0), detail::Same<T> step = T(1)) {
  if constexpr (Vec<T, N>::kSplit) {
    const T mid = static_cast<T>(start + static_cast<T>(N / 2) * step);
    return Vec<T, N>::of(iota<T, N / 2>(start, step), iota<T, N / 2>(mid, step));
  } else {
    typename Vec<T, N>::R r;
    AOT_UNROLL
    for (int i = 0; i < Vec<T, N>::kRegLanes; ++i) r[i] = static_cast<T>(i);
    return Vec<T, N>::of(r) * Vec<T, N>(step) + Vec<T, N>(start);
  }
}

}  // namespace aot

#endif  // AOT_VEC_TYPE_H_
