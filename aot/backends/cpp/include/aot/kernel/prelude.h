// What generated kernels need beside aot/vec: index arithmetic, broadcasts of uniform values,
// checked indices, and addresses that follow no stride.
#ifndef AOT_KERNEL_PRELUDE_H_
#define AOT_KERNEL_PRELUDE_H_

#include "aot/kernel_abi.h"
#include "aot/vec/vec.h"

namespace aot {

// Rows of an epilogue that share what is each column's own: as many as the highest strips have
// where a vector fills a line of memory. Narrower ones come back for the rest of a line, which as
// many rows, often of one set of L1, would have driven out.
inline constexpr int64_t kRowsAtOnce = AOT_REG_BYTES < 64 ? 1 : 14;

AOT_INLINE int64_t imin(int64_t a, int64_t b) { return a < b ? a : b; }
AOT_INLINE int64_t imax(int64_t a, int64_t b) { return a > b ? a : b; }

// Behind the rows from `first` on, of those below `end`: of one row a compiler makes no loop.
AOT_INLINE int64_t last_at_once(int64_t first, int64_t end) {
  return kRowsAtOnce == 1 ? first + 1 : imin(end, first + kRowsAtOnce);
}

// Quotient and remainder that round down; b > 0.
AOT_INLINE int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
AOT_INLINE int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

// The same on lanes of |x| < 2^49: a float64 tells x + 1/2 from every multiple of b.
template <int N>
AOT_INLINE Vec<int64_t, N> floor_div(Vec<int64_t, N> a, int64_t b) {
  const Vec<double, N> middle = convert<double>(a) + 0.5;
  return convert<int64_t>(floor(middle * (1.0 / static_cast<double>(b))));
}
template <int N>
AOT_INLINE Vec<int64_t, N> floor_mod(Vec<int64_t, N> a, int64_t b) {
  return a - floor_div(a, b) * Vec<int64_t, N>(b);
}

// A uniform value in all lanes.
template <int N, class T>
AOT_INLINE Vec<T, N> spread(Vec<T, 1> x) {
  return Vec<T, N>(x[0]);
}
template <int N, int M>
AOT_INLINE Mask<N, M> spread(Mask<1, M> x) {
  return Mask<N, M>(x[0]);
}

// Identities of minimum and maximum.
template <class T>
constexpr T least() {
  if constexpr (detail::kIsFloat<T>) {
    return -detail::kInf<T>;
  } else if constexpr (detail::kIsSigned<T>) {
    return static_cast<T>(detail::UnsignedOf<T>{1} << (8 * sizeof(T) - 1));
  } else {
    return 0;
  }
}
template <class T>
constexpr T greatest() {
  if constexpr (detail::kIsFloat<T>) {
    return detail::kInf<T>;
  } else {
    return static_cast<T>(~least<T>());
  }
}

// A float32 value rounded to what a half type can hold.
template <class S, int N>
AOT_INLINE Vec<float, N> round_to(Vec<float, N> v) {
  return detail::Storage<S>::template widen<float>(detail::Storage<S>::narrow(v));
}

// Adds x to sum, and to `error` what the addition lost. Long sums are added up this way block by
// block, so that their error is that of one block.
template <class T, int N>
AOT_INLINE void add_exactly(Vec<T, N>& sum, Vec<T, N>& error, Vec<T, N> x) {
  const Vec<T, N> total = sum + x;
  const Vec<T, N> added = total - sum;
  error += (sum - (total - added)) + (x - added);
  sum = total;
}
// The sum with its error put right; an infinite sum has no meaningful error.
template <class T, int N>
AOT_INLINE Vec<T, N> settled(Vec<T, N> sum, Vec<T, N> error) {
  return select(isfinite(error), sum + error, sum);
}

// f(lane) for every lane: an index expression without a constant step between lanes.
template <int N, class F>
AOT_INLINE Vec<int64_t, N> lanes_of(const F& f) {
  int64_t x[N];
  for (int i = 0; i < N; ++i) x[i] = f(i);
  return load<int64_t, N>(x);
}

// One element in the lanes of the mask, zero elsewhere; the element is not touched when no lane is
// in the mask.
template <class T, int N, class S, int M>
AOT_INLINE Vec<T, N> broadcast_m(const S* p, Mask<N, M> m) {
  if (!any(m)) return Vec<T, N>(T(0));
  return select(m, broadcast<T, N>(p), Vec<T, N>(T(0)));
}

// Whether one of the first `n` lanes is no index into a dimension of `size`. A negative number is a
// great one without its sign.
template <int N>
AOT_INLINE bool any_outside(Vec<int64_t, N> x, int64_t size, int64_t n) {
  if constexpr (Vec<int64_t, N>::kSplit) {
    return any_outside(lo_half(x), size, n) | any_outside(hi_half(x), size, n - N / 2);
  } else {
    const Vec<uint64_t, N> last(static_cast<uint64_t>(size));
    return any((bitcast<uint64_t>(x) >= last) & first_n<N>(n));
  }
}

// Indices into a dimension of `size`: negative ones count from the end when Wrap. What is still
// out of range in the first `n` lanes flags a fault and is clamped (to 0 when the size is 0).
template <bool Wrap, int N>
AOT_INLINE Vec<int64_t, N> check_index(Vec<int64_t, N> x, int64_t size, int64_t n, int32_t* fault) {
  if (Wrap) x = select(x < 0, x + size, x);
  const bool bad = any_outside(x, size, n);
  if (AOT_UNLIKELY(bad)) *fault = AOT_KERNEL_FAULT_INDEX;
  if (!AOT_UNLIKELY(bad) && n >= N) return x;
  const int64_t last = imax(size - 1, 0);
  x = select(x < 0, int64_t{0}, x);
  return select(x > last, Vec<int64_t, N>(last), x);
}
// The same in 32 bits, for sizes within them.
template <int N>
AOT_INLINE Vec<int32_t, N> check_narrow(Vec<int32_t, N> x, int32_t size, int64_t n,
                                        int32_t* fault) {
  const auto outside = (x < 0) | (x >= size);
  const bool bad = any(n >= N ? outside : outside & first_n<N>(n));
  if (AOT_UNLIKELY(bad)) *fault = AOT_KERNEL_FAULT_INDEX;
  if (!AOT_UNLIKELY(bad) && n >= N) return x;
  const int32_t last = size > 0 ? size - 1 : 0;
  x = select(x < 0, int32_t{0}, x);
  return select(x > last, Vec<int32_t, N>(last), x);
}

// An index in memory as `check_index` gives it, without a word of what is out of range.
template <bool Wrap, class S>
AOT_INLINE int64_t index_at(const S* p, int64_t size) {
  const int64_t x = static_cast<int64_t>(*p);
  return imax(imin(Wrap && x < 0 ? x + size : x, size - 1), 0);
}
// Asks for the cache lines of so many bytes.
template <int64_t BYTES, class S>
AOT_INLINE void fetch(const S* p) {
  for (int64_t b = 0; b < BYTES; b += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(p) + b);
  }
}

// Elements first, first + 1, … of a ring of `size` elements at p: neighbours, unless the lanes pass
// the ring's end.
template <int N>
AOT_INLINE Vec<int64_t, N> ring_places(int64_t first, int64_t size) {
  int64_t x[N];
  for (int64_t i = 0; i < N; ++i) x[i] = (first + i) % size;
  return load<int64_t, N>(x);
}
template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_turned(const S* p, int64_t first, int64_t size) {
  if (first + N <= size) return load<T, N>(p + first);
  return gather<T, N>(p, ring_places<N>(first, size));
}
template <class T, int N, class S>
AOT_INLINE Vec<T, N> load_turned_n(const S* p, int64_t first, int64_t size, int64_t n) {
  if (first + imin(n, N) <= size) return load_n<T, N>(p + first, n);
  return gather_n<T, N>(p, ring_places<N>(first, size), n);
}
template <class T, int N, class S, int M>
AOT_INLINE Vec<T, N> load_turned_m(const S* p, int64_t first, int64_t size, Mask<N, M> m) {
  if (first + N <= size) return load_m<T, N>(p + first, m);
  return gather_m<T, N>(p, ring_places<N>(first, size), m);
}

// Joins the first `n` lanes with as many neighbours in memory.
template <class S, class T, int N, class F>
AOT_INLINE void join(S* p, Vec<T, N> v, int64_t n, const F& f) {
  if (n == N) {
    store(p, f(load<T, N>(p), v));
  } else {
    store_n(p, f(load_n<T, N>(p, n), v), n);
  }
}

// Joins lanes with memory one after the other: several lanes may name one element. When all name
// the same one they are joined first: each would wait until the one before it is stored.
template <class S, class T, int N, class F>
AOT_INLINE void join_at(S* p, Vec<int64_t, N> index, Vec<T, N> v, int64_t n, const F& f) {
  int64_t places[N];
  T values[N];
  store(places, index);
  store(values, v);
  // Lanes are read back from memory: taken out of registers, each is an instruction or two more.
  __asm__("" : "+m"(places), "+m"(values));
  const auto one = [&](int i) {
    S* const at = p + places[i];
    store(at, f(load<T, 1>(at), Vec<T, 1>(values[i])));
  };
  if (n < N) {
    for (int i = 0; i < n; ++i) one(i);
    return;
  }
  // Only then are all of them compared.
  if (N > 1 && AOT_UNLIKELY(places[0] == places[N - 1]) && all(index == places[0])) {
    S* const at = p + places[0];
    store(at, f(load<T, 1>(at), Vec<T, 1>(reduce(f, v))));
    return;
  }
  AOT_UNROLL
  for (int i = 0; i < N; ++i) one(i);
}

// A convolution weight that the model computes, packed as aot/tmpl/conv.h reads it. Strides of the
// weight (per output channel, input channel, depth, height, width) count elements.
template <class S, class T>
inline void pack_conv(const S* w, int64_t groups, int64_t oc, int64_t ic, int64_t kd, int64_t kh,
                      int64_t kw, int64_t so, int64_t si, int64_t sd, int64_t sh, int64_t sw,
                      T* out) {
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t panel = 0; panel < oc; panel += 16) {
      for (int64_t tap = 0; tap < kd * kh * kw; ++tap) {
        const S* at = w + tap / (kh * kw) * sd + tap / kw % kh * sh + tap % kw * sw;
        for (int64_t i = 0; i < ic; ++i) {
          for (int64_t o = panel; o < panel + 16; ++o, ++out) {
            *out = o < oc ? load<T, 1>(at + (g * oc + o) * so + i * si)[0] : T(0);
          }
        }
      }
    }
  }
}

}  // namespace aot

#endif  // AOT_KERNEL_PRELUDE_H_
