// Running sums, products, extrema and sums of logarithms along the rows of a matrix.
//
//   template <class Cfg, class Epi>
//   void scan(const ScanArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi);
//
// Work units are blocks of ROWS rows: work = ceil(m / ROWS). Sums and extrema are taken within
// vectors of a row's neighbours, which also leaves nothing in the tile that is written in elements
// and read in vectors; other operations take kScanRows rows together, which hides the latency of
// the one operation that each element waits for. Where no element of a vector goes beyond the
// extremum so far, as is the rule far from a row's beginning, there is nothing to combine. Sums of
// floats accumulate in double, as eager's do. The epilogue takes kScanColumns columns at a time,
// from the cache. Units of more rows than kScanRows have no more columns than that: the epilogue
// takes them together, as what reads a short row at once after it was written, in vectors of
// another width, waits for it.
//
// COLUMNS: n, where few are known; their loop is then written out.
//   scratch = ROWS * min(n rounded up to 16, kScanColumns) * sizeof(compute_t<A>)
//   epi(0, m0, m1, n0, n1, const compute_t<A>* tile, int64_t ld)    tile[(m - m0) * ld + j - n0]
// LANES: rows are neighbours in memory (p.row is 1). So many of them are a work unit, each a lane
// of vectors that go from column to column, so that every line of memory is read once.
//   scratch = LANES * kScanLaneColumns * sizeof(compute_t<A>)
//   epi(…)                                                          tile[(j - n0) * ld + m - m0]
#ifndef AOT_TMPL_SCAN_H_
#define AOT_TMPL_SCAN_H_

#include <limits>
#include <type_traits>

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

inline constexpr int64_t kScanRows = 4;
inline constexpr int64_t kScanColumns = 1024;
inline constexpr int64_t kScanLaneColumns = 16;

enum class Combine { sum, prod, max, min, logaddexp };

struct ScanConfig {
  using A = float;  // element in memory
  static constexpr Combine COMBINE = Combine::sum;
  static constexpr int64_t ROWS = kScanRows;
  static constexpr int64_t COLUMNS = 0;
  static constexpr int64_t LANES = 0;
};

template <class Cfg>
struct ScanArgs {
  const typename Cfg::A* x;
  int64_t row, col;  // strides in elements
  int64_t m, n;
};

namespace detail {

// Sums and products of integers wrap, so they accumulate without a sign; extrema are elements.
template <class T, Combine C>
struct ScanAccumulator {
  using Wide = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, Wide>;
  using type = std::conditional_t<C == Combine::max || C == Combine::min, T, Sum>;
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

template <class Cfg>
using scan_accumulator = typename ScanAccumulator<compute_t<typename Cfg::A>, Cfg::COMBINE>::type;

// ROWS rows from x on, `n` columns, behind what acc holds of each.
template <class Cfg, int ROWS>
AOT_INLINE void scan_rows(const ScanArgs<Cfg>& p, const typename Cfg::A* x, int64_t n,
                          scan_accumulator<Cfg> (&acc)[ROWS], compute_t<typename Cfg::A>* tile,
                          int64_t ld) {
  using T = compute_t<typename Cfg::A>;
  for (int64_t j = 0; j < n; ++j) {
    AOT_UNROLL for (int r = 0; r < ROWS; ++r) {
      const auto value = scan_accumulator<Cfg>(widen(x[r * p.row + j * p.col]));
      acc[r] = combined<Cfg::COMBINE>(acc[r], value);
      tile[r * ld + j] = T(acc[r]);
    }
  }
}

// Running values of a vector of one row's elements at a time, where they can be combined in another
// order: each lane with the lanes 1, 2, 4 … before it.
template <class Cfg>
struct RowVector {
  using A = typename Cfg::A;
  using T = compute_t<A>;
  using Acc = scan_accumulator<Cfg>;
  static constexpr Combine C = Cfg::COMBINE;
  static constexpr int kLanes = Simd<Acc>::kLanes;
  using V = typename Simd<Acc>::V;
  // Of halves, which are classes here, there are none: they are widened to floats first.
  using Element = std::conditional_t<std::is_arithmetic_v<A>, A, T>;
  typedef Element Elements
      __attribute__((vector_size(kLanes * sizeof(Element)), aligned(alignof(A)), may_alias));
  typedef T Results
      __attribute__((vector_size(kLanes * sizeof(T)), aligned(alignof(T)), may_alias));

  static AOT_INLINE V combine(V a, V b) {
    if constexpr (C == Combine::sum) return a + b;
    if constexpr (C == Combine::prod) return a * b;
    if constexpr (C == Combine::max) return (a != a) | (a >= b) ? a : b;
    if constexpr (C == Combine::min) return (a != a) | (a <= b) ? a : b;
    for (int l = 0; l < kLanes; ++l) a[l] = combined<C, Acc>(a[l], b[l]);
    return a;
  }
  template <int S, int... L>
  static AOT_INLINE V shifted(V v, V before, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(before, v, (L < S ? L : kLanes + L - S)...);
  }
  template <int... L>
  static AOT_INLINE V last(V v, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(v, v, (L * 0 + kLanes - 1)...);
  }
  template <int S = 1>
  static AOT_INLINE V running(V v, V before) {
    if constexpr (S < kLanes) {
      const V moved = shifted<S>(v, before, std::make_integer_sequence<int, kLanes>());
      return running<2 * S>(combine(moved, v), before);
    } else {
      return v;
    }
  }
  // Whether so many columns are enough to ask `keeps`: near its beginning a row's extrema change
  // at places that nobody can predict.
  static AOT_INLINE bool asks(int64_t n) { return n >= 16 * kLanes; }
  // Whether running extrema behind `carry` are all the same: no lane of v goes beyond it.
  static AOT_INLINE bool keeps(V carry, V v) {
    if constexpr (C != Combine::max && C != Combine::min) return false;
    // As combine has it: a NaN stays, the first one is new, and equal values change nothing.
    const auto same = (carry != carry) | (C == Combine::max ? carry >= v : carry <= v);
    if constexpr (sizeof(V) == 16) return _mm_movemask_epi8(__m128i(same)) == 0xffff;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      return _mm512_test_epi64_mask(~__m512i(same), ~__m512i(same)) == 0;
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      return _mm256_testc_si256(__m256i(same), _mm256_set1_epi32(-1)) != 0;
    }
#endif
  }
  static AOT_INLINE V load(const A* x, int64_t col) {
    if constexpr (std::is_same_v<Acc, float>) {
      if (col == 1) return load_widened<float>(x);
    }
    // Compilers convert floats to doubles in two halves, so these are asked for by name.
#if defined(__AVX512F__)
    if constexpr (sizeof(A) <= 4 && std::is_same_v<Acc, double>) {
      if (col == 1) return V(_mm512_maskz_cvtps_pd(0xff, eight_floats(x)));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(A) <= 4 && std::is_same_v<Acc, double>) {
      if (col == 1) return V(_mm256_cvtps_pd(four_floats(x)));
    }
#endif
    if constexpr (std::is_arithmetic_v<A>) {
      if (col == 1) return __builtin_convertvector(*reinterpret_cast<const Elements*>(x), V);
    }
    V v;
    for (int l = 0; l < kLanes; ++l) v[l] = Acc(widen(x[l * col]));
    return v;
  }
#if defined(__AVX512F__)
  static AOT_INLINE __m256 eight_floats(const A* x) {
    if constexpr (sizeof(A) == 4) return _mm256_loadu_ps(reinterpret_cast<const float*>(x));
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    if constexpr (std::is_same_v<A, F16>) return _mm256_cvtph_ps(bits);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
#elif defined(__AVX2__)
  static AOT_INLINE __m128 four_floats(const A* x) {
    if constexpr (sizeof(A) == 4) return _mm_loadu_ps(reinterpret_cast<const float*>(x));
    const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    if constexpr (std::is_same_v<A, F16>) return _mm_cvtph_ps(bits);
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(bits), 16));
  }
#endif

  static constexpr int steps(int lanes) { return lanes > 1 ? 1 + steps(lanes / 2) : 0; }
  // Operations of a row's first vector, which may take twice as long, and of an element by itself.
  static constexpr int kOperations = 2 * (2 * steps(kLanes) + 4), kOfElement = 4;

  // All COUNT columns, in whole vectors: as far as these go there are elements, be they other rows.
  template <int64_t COUNT>
  static AOT_INLINE void scan_known(const A* x, int64_t col, T* tile) {
    const V before = Simd<Acc>::set1(neutral<C, Acc>());
    V carry = before;
    AOT_UNROLL for (int64_t j = 0; j < COUNT; j += kLanes) {
      const V out = combine(carry, running(load(x + j * col, col), before));
      *reinterpret_cast<Results*>(tile + j) = __builtin_convertvector(out, Results);
      if (j + kLanes < COUNT) carry = last(out, std::make_integer_sequence<int, kLanes>());
    }
  }

  // Columns of `n` in whole vectors; how many columns these are. `there`: elements from x on that
  // exist, of this row and those behind it: where they fill the last vector, all columns are done.
  static AOT_INLINE int64_t scan(const A* x, int64_t col, int64_t n, int64_t there, Acc& acc,
                                 T* tile) {
    const V before = Simd<Acc>::set1(neutral<C, Acc>());
    V carry = Simd<Acc>::set1(acc);
    int64_t j = 0;
    for (; j < n && j + kLanes <= there; j += kLanes) {
      V v = load(x + j * col, col);
      if (asks(n) && keeps(carry, v)) {
        *reinterpret_cast<Results*>(tile + j) = __builtin_convertvector(carry, Results);
        continue;
      }
      v = running(v, before);
      const V out = combine(carry, v);
      *reinterpret_cast<Results*>(tile + j) = __builtin_convertvector(out, Results);
      carry = combine(carry, last(v, std::make_integer_sequence<int, kLanes>()));
    }
    acc = carry[0];
    return min64(j, n);
  }
};

// ROWS rows from m on, `n` columns from j on, each row's in vectors.
template <class Cfg, int ROWS>
AOT_INLINE void scan_in_vectors(const ScanArgs<Cfg>& p, int64_t m, int64_t j, int64_t n,
                                scan_accumulator<Cfg> (&acc)[ROWS],
                                compute_t<typename Cfg::A>* tile, int64_t ld) {
  for (int r = 0; r < ROWS; ++r) {
    const auto* const x = p.x + (m + r) * p.row + j * p.col;
    const bool follow = p.col == 1 && p.row >= p.n;
    const int64_t there = follow ? (p.m - 1 - m - r) * p.row + p.n - j : n;
    if constexpr (Cfg::COLUMNS > 0) {
      if (round_up(Cfg::COLUMNS, RowVector<Cfg>::kLanes) <= there) {
        RowVector<Cfg>::template scan_known<Cfg::COLUMNS>(x, p.col, tile + r * ld);
        continue;
      }
    }
    scan_accumulator<Cfg> one[1] = {acc[r]};
    const int64_t done = RowVector<Cfg>::scan(x, p.col, n, there, one[0], tile + r * ld);
    scan_rows<Cfg, 1>(p, x + done * p.col, n - done, one, tile + r * ld + done, 0);
    acc[r] = one[0];
  }
}

// ROWS rows from m on, columns j to stop, behind what acc holds of each.
template <class Cfg, int ROWS>
AOT_INLINE void scan_columns(const ScanArgs<Cfg>& p, int64_t m, int64_t j, int64_t stop,
                             scan_accumulator<Cfg> (&acc)[ROWS], compute_t<typename Cfg::A>* tile,
                             int64_t ld) {
  constexpr Combine C = Cfg::COMBINE;
  using Row = RowVector<Cfg>;
  if constexpr (0 < Cfg::COLUMNS && Cfg::COLUMNS * Row::kOfElement <= Row::kOperations) {
    scan_rows<Cfg, ROWS>(p, p.x + m * p.row, Cfg::COLUMNS, acc, tile, ld);
  } else if constexpr (C == Combine::sum || C == Combine::max || C == Combine::min) {
    scan_in_vectors<Cfg, ROWS>(p, m, j, stop - j, acc, tile, ld);
  } else {
    scan_rows<Cfg, ROWS>(p, p.x + m * p.row + j * p.col, stop - j, acc, tile, ld);
  }
}

template <class Cfg, int ROWS>
AOT_INLINE void set_neutral(scan_accumulator<Cfg> (&acc)[ROWS]) {
  for (auto& a : acc) a = neutral<Cfg::COMBINE, scan_accumulator<Cfg>>();
}

// ROWS rows from m on, as far as the epilogue takes them at a time.
template <class Cfg, int ROWS, class Epi>
AOT_INLINE void scan_block(const ScanArgs<Cfg>& p, int64_t m, compute_t<typename Cfg::A>* tile,
                           const Epi& epi) {
  const int64_t ld = min64(round_up(p.n, 16), kScanColumns);
  scan_accumulator<Cfg> acc[ROWS];
  set_neutral<Cfg>(acc);
  for (int64_t j = 0; j < p.n; j += kScanColumns) {
    const int64_t stop = min64(j + kScanColumns, p.n);
    scan_columns<Cfg, ROWS>(p, m, j, stop, acc, tile, ld);
    epi(0, m, m + ROWS, j, stop, tile, ld);
  }
}

// ROWS short rows from m on, into the tile alone.
template <class Cfg, int ROWS>
AOT_INLINE void scan_short(const ScanArgs<Cfg>& p, int64_t m, compute_t<typename Cfg::A>* tile,
                           int64_t ld) {
  scan_accumulator<Cfg> acc[ROWS];
  set_neutral<Cfg>(acc);
  scan_columns<Cfg, ROWS>(p, m, 0, p.n, acc, tile, ld);
}

// Rows m0 to m1, at most ROWS, no longer than kScanColumns.
template <class Cfg, class Epi>
AOT_INLINE void scan_short_rows(const ScanArgs<Cfg>& p, int64_t m0, int64_t m1,
                                compute_t<typename Cfg::A>* tile, const Epi& epi) {
  const int64_t ld = round_up(p.n, 16);
  int64_t m = m0;
  for (; m + kScanRows <= m1; m += kScanRows) {
    scan_short<Cfg, int(kScanRows)>(p, m, tile + (m - m0) * ld, ld);
  }
  for (; m < m1; ++m) scan_short<Cfg, 1>(p, m, tile + (m - m0) * ld, ld);
  epi(0, m0, m1, 0, p.n, tile, ld);
}

// `n` columns of `m` neighbouring rows, behind what acc holds of each.
template <class Cfg>
AOT_INLINE void scan_lanes(const typename Cfg::A* x, int64_t col, int64_t m, int64_t n,
                           scan_accumulator<Cfg>* acc, compute_t<typename Cfg::A>* tile) {
  using Acc = scan_accumulator<Cfg>;
  using Row = RowVector<Cfg>;
  using Results = typename Row::Results;
  for (int64_t j = 0; j < n; ++j, x += col, tile += Cfg::LANES) {
    int64_t r = 0;
    for (; r + Row::kLanes <= m; r += Row::kLanes) {
      const auto v = Row::combine(Simd<Acc>::load(acc + r), Row::load(x + r, 1));
      Simd<Acc>::store(acc + r, v);
      *reinterpret_cast<Results*>(tile + r) = __builtin_convertvector(v, Results);
    }
    for (; r < m; ++r) {
      acc[r] = combined<Cfg::COMBINE>(acc[r], Acc(widen(x[r])));
      tile[r] = compute_t<typename Cfg::A>(acc[r]);
    }
  }
}

// Rows m0 to m1, at most LANES.
template <class Cfg, class Epi>
AOT_INLINE void scan_side_by_side(const ScanArgs<Cfg>& p, int64_t m0, int64_t m1,
                                  compute_t<typename Cfg::A>* tile, const Epi& epi) {
  using Acc = scan_accumulator<Cfg>;
  Acc acc[Cfg::LANES];
  for (Acc& a : acc) a = neutral<Cfg::COMBINE, Acc>();
  for (int64_t j = 0; j < p.n; j += kScanLaneColumns) {
    const int64_t stop = min64(j + kScanLaneColumns, p.n);
    scan_lanes<Cfg>(p.x + m0 + j * p.col, p.col, m1 - m0, stop - j, acc, tile);
    epi(0, m0, m1, j, stop, tile, Cfg::LANES);
  }
}

}  // namespace detail

template <class Cfg, class Epi>
AOT_INLINE void scan(const ScanArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                     const Epi& epi) {
  auto* const tile = static_cast<compute_t<typename Cfg::A>*>(scratch);
  for (int64_t unit = begin; unit < end; ++unit) {
    if constexpr (Cfg::LANES > 0) {
      const int64_t m0 = unit * Cfg::LANES, m1 = min64(m0 + Cfg::LANES, p.m);
      detail::scan_side_by_side<Cfg>(p, m0, m1, tile, epi);
      continue;
    }
    const int64_t m0 = unit * Cfg::ROWS, m1 = min64(m0 + Cfg::ROWS, p.m);
    if constexpr (Cfg::ROWS > kScanRows) {
      detail::scan_short_rows<Cfg>(p, m0, m1, tile, epi);
    } else if (m1 - m0 == kScanRows) {
      detail::scan_block<Cfg, int(kScanRows)>(p, m0, tile, epi);
    } else {
      for (int64_t m = m0; m < m1; ++m) detail::scan_block<Cfg, 1>(p, m, tile, epi);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SCAN_H_
