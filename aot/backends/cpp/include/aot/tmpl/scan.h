// Running sums and products along the rows of a matrix.
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

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

inline constexpr int64_t kScanRows = 4;

struct ScanConfig {
  using A = float;                     // element in memory
  static constexpr bool PROD = false;  // products instead of sums
};

template <class Cfg>
struct ScanArgs {
  const typename Cfg::A* x;
  int64_t row, col;  // strides in elements
  int64_t m, n;
};

namespace detail {

// Integers wrap, so they accumulate without a sign.
template <class T>
struct ScanAccumulator {
  using type = uint64_t;
};
template <>
struct ScanAccumulator<float> {
  using type = double;
};
template <>
struct ScanAccumulator<double> {
  using type = double;
};

template <class Cfg, int ROWS>
AOT_INLINE void scan_rows(const ScanArgs<Cfg>& p, int64_t m0, compute_t<typename Cfg::A>* tile,
                          int64_t ld) {
  using T = compute_t<typename Cfg::A>;
  using Acc = typename ScanAccumulator<T>::type;
  Acc acc[ROWS];
  AOT_UNROLL for (int r = 0; r < ROWS; ++r) acc[r] = Acc(Cfg::PROD ? 1 : 0);
  const typename Cfg::A* x = p.x + m0 * p.row;
  for (int64_t j = 0; j < p.n; ++j) {
    AOT_UNROLL for (int r = 0; r < ROWS; ++r) {
      const Acc value = Acc(widen(x[r * p.row + j * p.col]));
      acc[r] = Cfg::PROD ? acc[r] * value : acc[r] + value;
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
