// Moves of some lanes as calls, for the tails of long loop bodies.
//
// A tail runs once a row, yet what compilers do for its moves in line is most of what they do for a
// long body: without masked moves a load of n lanes is a tree of branches, one of lanes apart many
// instructions. What has an instruction stays in line: rows shorter than a vector are tails alone,
// and calls took 1.3 of their time.
#ifndef AOT_VEC_APART_H_
#define AOT_VEC_APART_H_

#include "aot/vec/gather.h"
#include "aot/vec/mask.h"
#include "aot/vec/memory.h"

namespace aot::apart {

// One copy in a unit, whichever bodies call it.
#if defined(__clang__)
#define AOT_CALLED __attribute__((noinline))
#else
#define AOT_CALLED __attribute__((noinline, noclone))
#endif

namespace called {
template <class T, int N, class S>
AOT_CALLED Vec<T, N> load_n(const S* p, int64_t n) {
  return aot::load_n<T, N>(p, n);
}
template <class T, int N, class S, int M>
AOT_CALLED Vec<T, N> load_m(const S* p, Mask<N, M> m) {
  return aot::load_m<T, N>(p, m);
}
template <class S, class T, int N, bool B>
AOT_CALLED void store_n(S* p, Vec<T, N, B> v, int64_t n) {
  aot::store_n(p, v, n);
}
}  // namespace called

template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_n(const S* p, int64_t n) {
  if constexpr (detail::kMaskedMoves<detail::RawType<S>>) {
    return aot::load_n<T, N>(p, n);
  } else {
    return called::load_n<T, N>(p, n);
  }
}
template <class T, int N, class S, int M>
AOT_INLINE Vec<T, N> load_m(const S* p, Mask<N, M> m) {
  if constexpr (detail::kMaskedMoves<detail::RawType<S>>) {
    return aot::load_m<T, N>(p, m);
  } else {
    return called::load_m<T, N>(p, m);
  }
}
template <class S, class T, int N, bool B>
AOT_INLINE void store_n(S* p, Vec<T, N, B> v, int64_t n) {
  if constexpr (AOT_ISA_LEVEL >= 4) {
    aot::store_n(p, v, n);
  } else {
    called::store_n(p, v, n);
  }
}
template <class T, int N, class S>
AOT_CALLED Vec<T, N> load_strided_n(const S* p, int64_t stride, int64_t n) {
  return aot::load_strided_n<T, N>(p, stride, n);
}
template <class T, int N, class S, int M>
AOT_CALLED Vec<T, N> load_strided_m(const S* p, int64_t stride, Mask<N, M> m) {
  return aot::load_strided_m<T, N>(p, stride, m);
}
template <class S, class T, int N, bool B>
AOT_CALLED void store_strided_n(S* p, int64_t stride, Vec<T, N, B> v, int64_t n) {
  aot::store_strided_n(p, stride, v, n);
}
template <class T, int N, class S, class I, bool B>
AOT_CALLED Vec<T, N> gather_n(const S* p, Vec<I, N, B> index, int64_t n) {
  return aot::gather_n<T, N>(p, index, n);
}
template <class T, int N, class S, class I, bool B, int M>
AOT_CALLED Vec<T, N> gather_m(const S* p, Vec<I, N, B> index, Mask<N, M> m) {
  return aot::gather_m<T, N>(p, index, m);
}

}  // namespace aot::apart

#endif  // AOT_VEC_APART_H_
