// Reductions over bags: runs of points whose ends are data, each point a row of a matrix.
//
//   template <class Cfg, class Epi>
//   void bags(const BagsArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi);
//
// Work units are bags. A block of columns stays in registers while the points of a bag are walked,
// in order; rows that later points name are fetched meanwhile, also those of the bags that follow.
//   scratch = kBagTile * (n rounded up to 16) * sizeof(compute_t<A>)
//   epi(0, m0, m1, 0, n, const compute_t<A>* tile, int64_t ld)    tile[(m - m0) * ld + j]
// What is out of range was reported by who checked it, and counts for nothing here.
#ifndef AOT_TMPL_BAGS_H_
#define AOT_TMPL_BAGS_H_

#include <type_traits>

#include "aot/kernel/prelude.h"
#include "aot/tmpl/scan.h"

namespace aot::tmpl {

inline constexpr int64_t kBagTile = 16;   // bags whose results are handed on together
inline constexpr int64_t kBagAhead = 24;  // points between the one that is read and the one fetched

struct BagsConfig {
  using A = float;  // element of x, as the vectors name it
  using W = float;  // element of the weights
  static constexpr Combine COMBINE = Combine::sum;
  static constexpr bool DENSE = true;     // neighbours along a row are neighbours in memory
  static constexpr bool ROWS = true;      // points name rows
  static constexpr bool WEIGHTS = false;  // points have weights
  static constexpr bool SKIPS = false;    // points of the row `skipped` do not count
};

template <class Cfg>
struct BagsArgs {
  const typename Cfg::A* x;
  int64_t row, col;               // strides in elements
  int64_t count, n;               // rows and columns of x
  int64_t points;                 // how many there are
  const int64_t *begins, *ends;   // of bags
  int64_t begin_step, end_step;   // strides
  const int64_t* rows = nullptr;  // of points
  int64_t row_step = 0;
  const typename Cfg::W* weights = nullptr;
  int64_t weight_step = 0;
  int64_t skipped = 0;
};

namespace detail {

// Elements as lanes: half floats widen to float, and integers are 64 bits.
template <class A>
using BagLane = std::conditional_t<std::is_same_v<A, double>, double,
                                   std::conditional_t<std::is_integral_v<A>, int64_t, float>>;

template <Combine C, class V>
AOT_INLINE V bag_combined(V a, V b) {
  if constexpr (C == Combine::sum) return a + b;
  if constexpr (C == Combine::prod) return a * b;
  if constexpr (C == Combine::max) return aot::maximum(a, b);
  if constexpr (C == Combine::min) return aot::minimum(a, b);
}

// The points of one bag, cut to those that there are.
struct BagRun {
  int64_t begin, end;
};
template <class Cfg>
AOT_INLINE BagRun bag_run(const BagsArgs<Cfg>& p, int64_t bag) {
  const int64_t begin = p.begins[bag * p.begin_step], end = p.ends[bag * p.end_step];
  return {max64(begin, 0), min64(end, p.points)};
}

// N elements of a row, the first `left` of which there are.
template <class Cfg, int N, bool ALL>
AOT_INLINE auto bag_row(const typename Cfg::A* at, int64_t step, int64_t left) {
  using T = BagLane<typename Cfg::A>;
  if constexpr (Cfg::DENSE && ALL)
    return load<T, N>(at);
  else if constexpr (Cfg::DENSE)
    return load_n<T, N>(at, left);
  else if constexpr (ALL)
    return load_strided<T, N>(at, step);
  else
    return load_strided_n<T, N>(at, step, left);
}

// K vectors of N columns from `column` on; ALL: there are as many, else the first `left` of one.
template <class Cfg, int N, int K, bool ALL>
AOT_INLINE void bag_block(const BagsArgs<Cfg>& p, BagRun run, int64_t column, int64_t left,
                          BagLane<typename Cfg::A>* out) {
  using A = typename Cfg::A;
  using T = BagLane<A>;
  using V = Vec<T, N>;
  V total[K];
  AOT_UNROLL for (int k = 0; k < K; ++k) total[k] = V(neutral<Cfg::COMBINE, T>());
  const A* const x = p.x + column * p.col;
  for (int64_t i = run.begin; i < run.end; ++i) {
    int64_t row = i;
    if constexpr (Cfg::ROWS) {
      row = p.rows[i * p.row_step];
      const int64_t later = i + kBagAhead;
      if (later < p.points) {
        // An address outside is no fault here.
        const uint64_t skip = uint64_t(p.rows[later * p.row_step]) * uint64_t(p.row) * sizeof(A);
        const uintptr_t at = reinterpret_cast<uintptr_t>(x) + skip;
        AOT_UNROLL for (int64_t line = 0; line < int64_t(K * N * sizeof(A)); line += 64) {
          __builtin_prefetch(reinterpret_cast<const void*>(at + uint64_t(line)));
        }
      }
      if (AOT_UNLIKELY(uint64_t(row) >= uint64_t(p.count))) continue;
    }
    if constexpr (Cfg::SKIPS) {
      if (row == p.skipped) continue;
    }
    const A* const at = x + row * p.row;
    Vec<T, 1> factor;
    if constexpr (Cfg::WEIGHTS) factor = broadcast<T, 1>(p.weights + i * p.weight_step);
    AOT_UNROLL for (int k = 0; k < K; ++k) {
      const V value = bag_row<Cfg, N, ALL>(at + k * N * p.col, p.col, left);
      if constexpr (Cfg::WEIGHTS) {
        total[k] = aot::fma(value, spread<N>(factor), total[k]);
      } else {
        total[k] = bag_combined<Cfg::COMBINE>(total[k], value);
      }
    }
  }
  AOT_UNROLL for (int k = 0; k < K; ++k) store(out + column + k * N, total[k]);
}

// The columns from `column` on by blocks of K * N, then by narrower ones.
template <class Cfg, int N, int K>
AOT_INLINE void bag_columns(const BagsArgs<Cfg>& p, BagRun run, int64_t column,
                            BagLane<typename Cfg::A>* out) {
  constexpr int kLeast = 4, kBytes = N * int(sizeof(BagLane<typename Cfg::A>));
  for (; column + K * N <= p.n; column += K * N) {
    bag_block<Cfg, N, K, true>(p, run, column, N, out);
  }
  if (column == p.n) return;
  if constexpr (K > 1) {
    bag_columns<Cfg, N, K / 2>(p, run, column, out);
  } else {
    const int64_t left = p.n - column;
    if constexpr (N > kLeast) {
      if (left <= N / 2 || kBytes > 2 * kVectorBytes) {
        bag_columns<Cfg, N / 2, 1>(p, run, column, out);
        return;
      }
    }
    bag_block<Cfg, N, 1, false>(p, run, column, left, out);
  }
}

}  // namespace detail

template <class Cfg, class Epi>
AOT_INLINE void bags(const BagsArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                     const Epi& epi) {
  using T = detail::BagLane<typename Cfg::A>;
  // Half of the registers hold results; a Vec has 64 lanes at most.
  constexpr int kHeld = kVectorRegisters / 2 * kVectorBytes / int(sizeof(T));
  constexpr int kWidest = int(min64(64, kHeld)), kBlocks = kHeld / kWidest;
  T* const tile = static_cast<T*>(scratch);
  const int64_t ld = round_up(p.n, 16);
  for (int64_t m0 = begin; m0 < end; m0 += kBagTile) {
    const int64_t m1 = min64(m0 + kBagTile, end);
    for (int64_t m = m0; m < m1; ++m) {
      T* const out = tile + (m - m0) * ld;
      const detail::BagRun run = detail::bag_run(p, m);
      if (p.n == 1) {
        detail::bag_block<Cfg, 1, 1, true>(p, run, 0, 1, out);
      } else {
        detail::bag_columns<Cfg, kWidest, kBlocks>(p, run, 0, out);
      }
    }
    epi(0, m0, m1, 0, p.n, tile, ld);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_BAGS_H_
