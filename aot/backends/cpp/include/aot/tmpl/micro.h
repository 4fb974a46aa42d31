// The micro-kernel of all matrix templates: MR rows by NP panels of C in registers.
//
//   C[i][n] (+)= sum over taps t, k < kc of  rows[t][i][k] * B[t * kc + k][n]
//
// Rows are addressed through pointers, so the same code serves a dense matrix (one tap, equally
// spaced pointers), an implicit-GEMM convolution (one tap per kernel position, padding points to
// zeros) and rows copied into scratch. A row's elements are contiguous along k.
#ifndef AOT_TMPL_MICRO_H_
#define AOT_TMPL_MICRO_H_

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

template <class T>
struct MicroArgs {
  const T* const* rows;  // rows[t * tap_stride + i]: row i of the tile at tap t
  int64_t tap_stride;
  int64_t taps;
  int64_t k0;            // first k inside every row
  int64_t kc;            // k's per tap
  const T* b;            // panels, at the first k of this call
  int64_t panel_stride;  // elements between panels, and between the k's of one
  int64_t step;
  T* c;  // tile, row-major
  int64_t ldc;
  const T* prefetch;  // a cache line a k is fetched from here, and from so many elements on for
  int64_t prefetch_stride;                 // every further panel; any address is harmless
  bool accumulate;                         // add to C instead of overwriting it
  int64_t prefetch_step = 64 / sizeof(T);  // elements from a k's line to the next k's
  const T* zeros = nullptr;  // a row of zeros: a tap whose rows are all this one is left out
};

// Products that are summed before the sum goes to C: a chain of n additions of like terms errs by
// about n / sqrt(2) roundings of a term, in pieces of p by sqrt(n p / 2) (Higham, Accuracy and
// Stability of Numerical Algorithms, 4.2), and adding a piece to C costs 1 % of its products.
inline constexpr int64_t kChain = 128;

template <class T>
using MicroFn = void (*)(const MicroArgs<T>&);

// Whether the last panel's upper half can be left out where several panels go at a time: by vectors
// of half the bytes, which some machines with the widest ones multiply two at a time.
template <class T>
inline constexpr bool kHalvesVectors =
#if defined(__AVX512F__)
    std::is_same_v<T, float>;
#else
    false;
#endif

// The lower half of a vector.
template <class T>
struct HalfVector {
  using S = Simd<T>;
  static constexpr int kLanes = S::kLanes / 2 > 0 ? S::kLanes / 2 : 1;
  typedef T V __attribute__((vector_size(kLanes * sizeof(T))));
  typedef T Unaligned
      __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));
  static AOT_INLINE V load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static AOT_INLINE V of(typename S::V v) {
    V low;
    __builtin_memcpy(&low, &v, sizeof(low));
    return low;
  }
  // The upper half is zeros.
  static AOT_INLINE typename S::V whole(V low) {
    if constexpr (kHalvesVectors<T>) {
      return both(low, V{}, std::make_integer_sequence<int, S::kLanes>{});
    }
    return S::zero();  // of no use without
  }
  template <int... L>
  static AOT_INLINE typename S::V both(V low, V high, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(low, high, L...);
  }
  // The lower halves of two vectors, lane by lane in turn.
  static AOT_INLINE typename S::V zip(typename S::V a, typename S::V b) {
    return zip(a, b, std::make_integer_sequence<int, S::kLanes>{});
  }
  template <int... L>
  static AOT_INLINE typename S::V zip(typename S::V a, typename S::V b,
                                      std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, (L / 2 + L % 2 * S::kLanes)...);
  }
  // Each lane of an even number and the next one, added.
  static AOT_INLINE V add_pairs(typename S::V v) {
    return add_pairs(v, std::make_integer_sequence<int, kLanes>{});
  }
  template <int... L>
  static AOT_INLINE V add_pairs(typename S::V v, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(v, v, (2 * L)...) +
           __builtin_shufflevector(v, v, (2 * L + 1)...);
  }
  // Two neighbours, in turn in all lanes.
  static AOT_INLINE typename S::V set2(const T* at) {
    double both;
    static_assert(2 * sizeof(T) == sizeof(both));
    __builtin_memcpy(&both, at, sizeof(both));
    return typename S::V(Simd<double>::set1(both));
  }
  static AOT_INLINE V fma(V a, V b, V c) {
#if defined(__AVX512F__)
    if constexpr (kHalvesVectors<T>) return V(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c)));
#endif
    return a * b + c;
  }
};

// How a micro-kernel multiplies and adds. Another such type may read the operands' bits otherwise
// (bf16.h: pairs of bfloat16 in the place of a float). `kChains`: sums of an element that take the
// k's by turns, where the operation's latency needs more of them than there are elements.
// `kFromMemory`: of rows of one vector it multiplies by elements where they are (`apply_at`).
template <class T>
struct MultiplyAdd {
  using Type = T;
  static constexpr int kChains = 1;
  static constexpr bool kFromMemory = false;
  static AOT_INLINE typename Simd<T>::V apply(typename Simd<T>::V a, typename Simd<T>::V b,
                                              typename Simd<T>::V c) {
    return Simd<T>::fma(a, b, c);
  }
  static AOT_INLINE typename HalfVector<T>::V apply_half(typename HalfVector<T>::V a,
                                                         typename HalfVector<T>::V b,
                                                         typename HalfVector<T>::V c) {
    return HalfVector<T>::fma(a, b, c);
  }
};

// Parts of a panel's columns that go through all of K one after the other: where a panel is many
// vectors and registers are few, two vectors of more rows need fewer loads.
template <class T>
inline constexpr int kPanelParts =
    kVectorRegisters < 32 && Simd<T>::kPerPanel > 2 ? Simd<T>::kPerPanel / 2 : 1;

// Half of a panel's columns can be left out: where they are whole vectors, and where a strip of the
// greatest height takes one panel at a time.
template <class T>
inline constexpr bool kHalvesPanels = kVectorRegisters < 32 && Simd<T>::kPerPanel > 1;

// A panel and the lower half of the next one, of three vectors, are then multiplied together, by
// half a strip's rows at a time: half a panel alone takes a load of A for each operation.
template <class T>
inline constexpr bool kJoinsHalves =
    kHalvesPanels<T> && kPanelParts<T> == 1 && Simd<T>::kPerPanel == 2;

// Whether a tap has the row of zeros, which there may not be, at all rows of a strip.
template <int MR, class T>
AOT_INLINE bool only_zeros(const T* const* rows, const T* zeros) {
  if (__builtin_expect(rows[0] != zeros, 1)) return false;
  for (int i = 1; i < MR; ++i) {
    if (rows[i] != zeros) return false;
  }
  return true;
}

// One part of the panels, kPer vectors of each, of the last one FEWER less; moves `prefetch` on.
// HALF: of the last vector only the lower half has columns, and the upper one's results are zeros.
template <class Op, int MR, int NP, class T = typename Op::Type,
          int kPer = Simd<T>::kPerPanel / kPanelParts<T>, bool HALF = false, int FEWER = 0>
AOT_INLINE void micro_body(const MicroArgs<T>& m, int part, const T*& prefetch) {
  using S = Simd<T>;
  using V = typename S::V;
  using Half = HalfVector<T>;
  constexpr int kVecs = NP * kPer - FEWER, kWhole = kVecs - HALF;
  // Half a panel's vectors have two k's side by side, so that a load of A is for both.
  constexpr bool kTwos = HALF && NP == 1;
  constexpr int kNeeded = 8;  // sums that hide the latency of an operation
  constexpr int kChains = kTwos ? 1
                          : kPer < S::kPerPanel / kPanelParts<T> && MR * kVecs < kNeeded
                              ? 2
                              : Op::kChains;
  // A k's operations take some 6 cycles and the loop's own half of one: then four k's a turn. With
  // fewer operations sums wait for each other, with more the loop's own do not show.
  constexpr bool kShort = kChains == 1 && MR * kVecs >= 8 && MR * kVecs <= 12;
  // Pointers that have a register. Compilers keep others in vector registers, and each move from
  // there takes the place of a multiplication; a load takes none.
  constexpr bool kFromMemory = Op::kFromMemory && kVecs == 1 && !HALF;
  constexpr int kMostNear = kFromMemory ? 7 : 5;
  constexpr int kNear = MR < kMostNear ? MR : kMostNear;
  const int64_t first = part * kPer * S::kLanes;
  const T* b = m.b + first;
  const int64_t ps = m.panel_stride;
  bool add = m.accumulate;
  int64_t t = 0, k = 0;
  do {
    V acc[MR][kVecs], other[MR][kVecs];  // of which HALF leaves out the last ones
    typename Half::V low[MR], low_other[MR];
    AOT_UNROLL for (int i = 0; i < MR; ++i) {
      AOT_UNROLL for (int j = 0; j < kVecs; ++j) acc[i][j] = other[i][j] = S::zero();
      low[i] = low_other[i] = typename Half::V{};
    }
    for (int64_t left = kChain; t < m.taps && left > 0;) {
      const int64_t stop = min64(m.kc, k + left);
      left -= stop - k;
      const T* const* const rows = m.rows + t * m.tap_stride;
      if (only_zeros<MR>(rows, m.zeros)) {
        b += (stop - k) * m.step;
        k = stop == m.kc ? 0 : stop;
        t += stop == m.kc;
        continue;
      }
      const T* near[kNear];
      const T* volatile far[MR > kNear ? MR - kNear : 1];
      AOT_UNROLL for (int i = 0; i < MR; ++i) {
        const T* const row = rows[i] + m.k0;
        if (i < kNear) {
          near[i] = row;
        } else {
          far[i - kNear] = row;
        }
      }
      const auto step = [&](V(&acc)[MR][kVecs], typename Half::V(&low)[MR],
                            int64_t k) __attribute__((always_inline)) {
        V bv[kVecs];
        AOT_UNROLL for (int j = 0; j < kWhole; ++j) {
          bv[j] = S::load(b + (j / kPer) * ps + (j % kPer) * S::kLanes);
        }
        [[maybe_unused]] typename Half::V b_low;
        if constexpr (HALF) b_low = Half::load(b + (NP - 1) * ps);
        // Few rows read B as fast as memory gives it: straight into L1. Many must not disturb L1.
        AOT_UNROLL for (int j = 0; j < NP; ++j) {
          __builtin_prefetch(prefetch + j * m.prefetch_stride, 0, MR <= 4 ? 3 : 2);
        }
        prefetch += m.prefetch_step;
        AOT_UNROLL for (int i = 0; i < MR; ++i) {
          if constexpr (kFromMemory) {
            const T* const at = (i < kNear ? near[i] : far[i - kNear]) + k;
            acc[i][0] = Op::apply_at(at, bv[0], acc[i][0]);
          } else {
            const V a = S::set1(i < kNear ? near[i][k] : far[i - kNear][k]);
            AOT_UNROLL for (int j = 0; j < kWhole; ++j) acc[i][j] = Op::apply(a, bv[j], acc[i][j]);
            if constexpr (HALF) low[i] = Op::apply_half(Half::of(a), b_low, low[i]);
          }
        }
        b += m.step;
      };
      if constexpr (kTwos) {
        const auto two = [&](int64_t k, const auto& load, typename S::V second)
                             __attribute__((always_inline)) {
                               const V both = Half::zip(S::load(b), second);
                               __builtin_prefetch(prefetch, 0, MR <= 4 ? 3 : 2);
                               prefetch += m.prefetch_step;
                               AOT_UNROLL for (int i = 0; i < MR; ++i) {
                                 const V a = load((i < kNear ? near[i] : far[i - kNear]) + k);
                                 acc[i][0] = Op::apply(a, both, acc[i][0]);
                               }
                             };
        for (; k + 1 < stop; k += 2, b += 2 * m.step) two(k, Half::set2, S::load(b + m.step));
        for (; k < stop; ++k, b += m.step) {
          two(k, [](const T* at) { return Half::zip(S::set1(*at), S::zero()); }, S::zero());
        }
      }
      if constexpr (kChains == 2) {
        for (; k + 1 < stop; k += 2) {
          step(acc, low, k);
          step(other, low_other, k + 1);
        }
      }
      if constexpr (kShort) {
        AOT_UNROLL_4 for (; k < stop; ++k) step(acc, low, k);
      }
      for (; k < stop; ++k) step(acc, low, k);
      if (k == m.kc) {
        k = 0;
        ++t;
      }
    }
    T* const corner = m.c + first;  // what is stored may be `m`, for all that compilers know
    const int64_t ldc = m.ldc;
    AOT_UNROLL for (int i = 0; i < MR; ++i) {
      if constexpr (kTwos) low[i] = Half::add_pairs(acc[i][0]);
      if constexpr (HALF) {
        acc[i][kWhole] = Half::whole(low[i]);
        if constexpr (kChains == 2) other[i][kWhole] = Half::whole(low_other[i]);
      }
      AOT_UNROLL for (int j = 0; j < kVecs; ++j) {
        const int64_t column = (j / kPer) * kPanel + (j % kPer) * S::kLanes;
        T* const c = corner + i * ldc + column;
        if constexpr (kChains == 2) acc[i][j] += other[i][j];
        S::store(c, add ? S::load(c) + acc[i][j] : acc[i][j]);
      }
    }
    add = true;
  } while (t < m.taps);
}

template <class Op, int MR, int NP>
__attribute__((noinline)) void micro_kernel(const MicroArgs<typename Op::Type>& m) {
  const auto* prefetch = m.prefetch;
  for (int part = 0; part < kPanelParts<typename Op::Type>; ++part) {
    micro_body<Op, MR, NP>(m, part, prefetch);
  }
}

// Whole panels, of the last one the lower half.
template <class Op, int MR, int NP>
__attribute__((noinline)) void half_last_kernel(const MicroArgs<typename Op::Type>& m) {
  using T = typename Op::Type;
  const auto* prefetch = m.prefetch;
  micro_body<Op, MR, NP, T, Simd<T>::kPerPanel, true>(m, 0, prefetch);
}

// The lower half of one panel's columns: half of its parts, or half of its vectors.
template <class Op, int MR>
__attribute__((noinline)) void half_kernel(const MicroArgs<typename Op::Type>& m) {
  using T = typename Op::Type;
  constexpr int kHalf = kPanelParts<T> / 2;
  const auto* prefetch = m.prefetch;
  if constexpr (kHalf > 0) {
    for (int part = 0; part < kHalf; ++part) micro_body<Op, MR, 1>(m, part, prefetch);
  } else {
    micro_body<Op, MR, 1, T, Simd<T>::kPerPanel / 2>(m, 0, prefetch);
  }
}

// So many rows of a panel and the lower half of the next one. A function of its own: kernels of
// one height have it twice, and those of two heights mostly share it.
template <class Op, int MR>
__attribute__((noinline)) void joined_rows(const MicroArgs<typename Op::Type>& m) {
  using T = typename Op::Type;
  constexpr int kPer = Simd<T>::kPerPanel;
  const auto* prefetch = m.prefetch;
  micro_body<Op, MR, 2, T, kPer, false, kPer / 2>(m, 0, prefetch);
}

// A panel and the lower half of the next one.
template <class Op, int MR>
__attribute__((noinline)) void joined_kernel(const MicroArgs<typename Op::Type>& m) {
  constexpr int kUpper = (MR + 1) / 2, kLower = MR - kUpper;
  joined_rows<Op, kUpper>(m);
  if constexpr (kLower > 0) {
    auto lower = m;
    lower.rows += kUpper;
    lower.c += kUpper * m.ldc;
    lower.prefetch_stride = lower.prefetch_step = 0;
    joined_rows<Op, kLower>(lower);
  }
}

// The register block of this ISA level for compute type T: the accumulators, one row of B and one
// broadcast of A must fit into the vector registers, and the row pointers into the general ones.
template <class T>
struct RegisterBlock {
  static constexpr int kPer = Simd<T>::kPerPanel / kPanelParts<T>;
  static constexpr bool fits(int rows, int panels) {
    return rows * panels * kPer + panels * kPer + 1 <= kVectorRegisters;
  }
  static constexpr int kPanels = fits(9, 3) ? 3 : 1;
  static constexpr int rows_for(int panels) {
    int rows = 9;
    while (rows > 1 && !fits(rows, panels)) --rows;
    return rows;
  }
  static constexpr int kRows = rows_for(kPanels);
  // The most panels that `rows` rows can take: short tiles go wide to keep the adders busy.
  static constexpr int panels_for(int rows) {
    int panels = 4;
    while (panels > 1 && !fits(rows, panels)) --panels;
    return panels;
  }
};

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MICRO_H_
