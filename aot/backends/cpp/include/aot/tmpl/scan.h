// Running sums, products, extrema and sums of logarithms along the rows of a matrix.
//
//   template <class Cfg, class Epi>
//   void scan(const ScanArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi);
//
// Work units are blocks of kScanRows rows: work = ceil(m / kScanRows). The rows of a block advance
// together, which hides the latency of the one addition that each element waits for. Sums of floats
// accumulate in double, as eager's do.
//   scratch = kScanRows * (n rounded up to 16) * sizeof(compute_t<A>)
//   epi(0, m0, m1, 0, n, const compute_t<A>* tile, int64_t ld)    tile[(m - m0) * ld + j]
#ifndef AOT_TMPL_SCAN_H_
#define AOT_TMPL_SCAN_H_

#include <limits>
#include <type_traits>

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

inline constexpr int64_t kScanRows = 4;

enum class Combine { sum, prod, max, min, logaddexp };

struct ScanConfig {
  using A = float;  // element in memory
  static constexpr Combine COMBINE = Combine::sum;
};

template <class Cfg>
struct ScanArgs {
  const typename Cfg::A* x;
  int64_t row, col;  // strides in elements
  int64_t m, n;
};

namespace detail {

// Sums and products of integers wrap, so they accumulate without a sign.
template <class T, Combine C>
struct ScanAccumulator {
  using type = std::conditional_t<C == Combine::max || C == Combine::min, int64_t, uint64_t>;
};
template <Combine C>
struct ScanAccumulator<float, C> {
  using type = double;
};
template <Combine C>
struct ScanAccumulator<double, C> {
  using type = double;
};

// The first element combined with this is itself.
template <Combine C, class Acc>
constexpr Acc neutral() {
  using Limits = std::numeric_limits<Acc>;
  if (C == Combine::sum || C == Combine::prod) return Acc(C == Combine::prod ? 1 : 0);
  const Acc least = Limits::has_infinity ? Acc(-Limits::infinity()) : Limits::lowest();
  const Acc greatest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  return C == Combine::min ? greatest : least;
}

// NaN stays, as eager has it.
template <Combine C, class Acc>
AOT_INLINE Acc combined(Acc a, Acc b) {
  if (C == Combine::sum) return a + b;
  if (C == Combine::prod) return a * b;
  if (C == Combine::max) return a != a || a >= b ? a : b;
  if (C == Combine::min) return a != a || a <= b ? a : b;
  if (a != a || b != b) return a + b;
  const Acc top = a >= b ? a : b, low = a >= b ? b : a;
  if (top == low) return top + Acc(0.69314718055994530942);  // also of two infinities
  return top + Acc(__builtin_log1p(__builtin_exp(double(low - top))));
}

template <class Cfg, int ROWS>
AOT_INLINE void scan_rows(const ScanArgs<Cfg>& p, int64_t m0, compute_t<typename Cfg::A>* tile,
                          int64_t ld) {
  using T = compute_t<typename Cfg::A>;
  using Acc = typename ScanAccumulator<T, Cfg::COMBINE>::type;
  Acc acc[ROWS];
  AOT_UNROLL for (int r = 0; r < ROWS; ++r) acc[r] = neutral<Cfg::COMBINE, Acc>();
  const typename Cfg::A* x = p.x + m0 * p.row;
  for (int64_t j = 0; j < p.n; ++j) {
    AOT_UNROLL for (int r = 0; r < ROWS; ++r) {
      const Acc value = Acc(widen(x[r * p.row + j * p.col]));
      acc[r] = combined<Cfg::COMBINE>(acc[r], value);
      tile[r * ld + j] = T(acc[r]);
    }
  }
}

}  // namespace detail

template <class Cfg, class Epi>
AOT_INLINE void scan(const ScanArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                     const Epi& epi) {
  using T = compute_t<typename Cfg::A>;
  T* const tile = static_cast<T*>(scratch);
  const int64_t ld = round_up(p.n, 16);
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m0 = unit * kScanRows, m1 = min64(m0 + kScanRows, p.m);
    if (m1 - m0 == kScanRows) {
      detail::scan_rows<Cfg, int(kScanRows)>(p, m0, tile, ld);
    } else {
      for (int64_t m = m0; m < m1; ++m) detail::scan_rows<Cfg, 1>(p, m, tile + (m - m0) * ld, ld);
    }
    epi(0, m0, m1, 0, p.n, tile, ld);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SCAN_H_
