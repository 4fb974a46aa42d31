// From lanes to one value. The order of combination is fixed (halves, recursively), so results do
// not depend on the machine that runs the code, only on N.
#ifndef AOT_VEC_REDUCE_H_
#define AOT_VEC_REDUCE_H_

#include "aot/vec/arith.h"

namespace aot {
namespace detail {

struct Add {
  template <class V>
  AOT_MEMBER V operator()(V a, V b) const {
    return a + b;
  }
};
struct Mul {
  template <class V>
  AOT_MEMBER V operator()(V a, V b) const {
    return a * b;
  }
};
struct Xor {
  template <class V>
  AOT_MEMBER V operator()(V a, V b) const {
    return a ^ b;
  }
};
struct Minimum {
  template <class V>
  AOT_MEMBER V operator()(V a, V b) const {
    return minimum(a, b);
  }
};
struct Maximum {
  template <class V>
  AOT_MEMBER V operator()(V a, V b) const {
    return maximum(a, b);
  }
};

}  // namespace detail

// f over all lanes; f takes two Vec of any length and is associative up to rounding.
template <class F, class T, int N, bool S>
AOT_INLINE T reduce(F f, Vec<T, N, S> v) {
  if constexpr (N == 1) {
    return v[0];
  } else {
    return reduce(f, f(lo_half(v), hi_half(v)));
  }
}

// f over all lanes of both, the first of which has as many or more: one reduction of the fewer.
template <class F, class T, int N, bool S, int M, bool U>
AOT_INLINE T reduce(F f, Vec<T, N, S> v, Vec<T, M, U> w) {
  static_assert(N >= M);
  if constexpr (N == M) {
    return reduce(f, f(v, w));
  } else {
    return reduce(f, f(lo_half(v), hi_half(v)), w);
  }
}

template <class T, int... N>
AOT_INLINE T reduce_sum(Vec<T, N>... v) {
  return reduce(detail::Add{}, v...);
}
template <class T, int... N>
AOT_INLINE T reduce_prod(Vec<T, N>... v) {
  return reduce(detail::Mul{}, v...);
}
template <class T, int... N>
AOT_INLINE T reduce_xor(Vec<T, N>... v) {
  return reduce(detail::Xor{}, v...);
}
// NaN if any lane is NaN.
template <class T, int... N>
AOT_INLINE T reduce_min(Vec<T, N>... v) {
  return reduce(detail::Minimum{}, v...);
}
template <class T, int... N>
AOT_INLINE T reduce_max(Vec<T, N>... v) {
  return reduce(detail::Maximum{}, v...);
}

// ---- arg-reductions ----
// Whether (a, i) beats (b, j) under PyTorch's rules: NaN beats numbers, then the larger (Max) or
// smaller value, then the smaller index.
template <bool Max, class T, class I, int N>
AOT_INLINE MaskOf<T, N> arg_better(Vec<T, N> a, Vec<I, N> i, Vec<T, N> b, Vec<I, N> j) {
  MaskOf<T, N> wins = Max ? a > b : a < b;
  MaskOf<T, N> ties = a == b;
  if constexpr (detail::kIsFloat<T>) {
    const auto nan_a = a != a, nan_b = b != b;
    wins = (wins & ~nan_b) | (nan_a & ~nan_b);
    ties = ties | (nan_a & nan_b);
  }
  return wins | (ties & (i < j));
}

// Running arg-max (Max) or arg-min of N lanes: values and the indices they came from. Start from
// the first elements (or from `none`), then `add` the others in any order.
template <bool Max, class T, class I, int N>
struct ArgLanes {
  Vec<T, N> value;
  Vec<I, N> index;

  // No element yet: loses against everything (index is the largest, value the identity).
  AOT_MEMBER static ArgLanes none() {
    using U = detail::UnsignedOf<I>;
    const I last = static_cast<I>(static_cast<U>(~U{0}) >> 1);
    return {Vec<T, N>(worst()), Vec<I, N>(last)};
  }
  AOT_MEMBER void add(Vec<T, N> v, Vec<I, N> i) { take(arg_better<Max>(v, i, value, index), v, i); }
  // Only the lanes of `m`.
  AOT_MEMBER void add_m(Vec<T, N> v, Vec<I, N> i, MaskOf<T, N> m) {
    take(m & arg_better<Max>(v, i, value, index), v, i);
  }
  AOT_MEMBER I reduce_index() const { return best().index[0]; }
  AOT_MEMBER T reduce_value() const { return best().value[0]; }
  // The winner, as one lane.
  AOT_MEMBER ArgLanes<Max, T, I, 1> best() const {
    if constexpr (N == 1) {
      return *this;
    } else {
      ArgLanes<Max, T, I, N / 2> half{lo_half(value), lo_half(index)};
      half.add(hi_half(value), hi_half(index));
      return half.best();
    }
  }

 private:
  AOT_MEMBER void take(MaskOf<T, N> m, Vec<T, N> v, Vec<I, N> i) {
    value = select(m, v, value);
    index = select(m, i, index);
  }
  AOT_MEMBER static constexpr T worst() {
    if constexpr (detail::kIsFloat<T>) {
      return Max ? -detail::kInf<T> : detail::kInf<T>;
    } else {
      using U = detail::UnsignedOf<T>;
      constexpr T kMin = detail::kIsSigned<T> ? static_cast<T>(U{1} << (8 * sizeof(T) - 1)) : T(0);
      return Max ? kMin : static_cast<T>(~kMin);
    }
  }
};

}  // namespace aot

#endif  // AOT_VEC_REDUCE_H_
