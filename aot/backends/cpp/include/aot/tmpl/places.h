// Where the running extrema of a matrix's rows were met last.
//
//   template <class Cfg, class Epi>
//   void places(const PlacesArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//               const Epi& epi);
//
// A place is that of the last element so far that equals the extremum up to it, or is NaN. Up to
// eight elements of a row give as many bits, and these a row of a table: how far back from each of
// them the last one of them is. Work units, tiles and the epilogue are those of scan.h, with LANES,
// too: there bits say which of neighbouring rows have a new place.
#ifndef AOT_TMPL_PLACES_H_
#define AOT_TMPL_PLACES_H_

#include <cstdint>
#include <type_traits>

#include "aot/tmpl/scan.h"

namespace aot::tmpl {

struct PlacesConfig : ScanConfig {};

template <class Cfg>
using PlacesArgs = ScanArgs<Cfg>;

namespace detail {

constexpr int kBits = 8;  // of a row of the table

// Rows of integers that are shorter are looked at element by element, several at once: a vector has
// few elements for what its places take. Measured with AVX2: 0.85 of the time for 44 and 100
// elements, no difference for 200 to 400.
constexpr int64_t kShortRow = 128;

// By bits: the last of those set up to each of eight places; -1 where there is none.
struct LastSet {
  int32_t of[1 << kBits][kBits];
};
constexpr LastSet make_last_set() {
  LastSet table{};
  for (int bits = 0; bits < 1 << kBits; ++bits) {
    int32_t last = -1;
    for (int l = 0; l < kBits; ++l) {
      if (bits >> l & 1) last = l;
      table.of[bits][l] = last;
    }
  }
  return table;
}
inline constexpr LastSet kLastSet = make_last_set();

// Of lanes that are all ones or none.
template <int SIZE, class Mask>
AOT_INLINE uint32_t bits_of(const Mask& mask) {
  if constexpr (sizeof(Mask) == 16) {
    const __m128i held = __m128i(mask);
    if constexpr (SIZE == 8) return uint32_t(_mm_movemask_pd(_mm_castsi128_pd(held)));
    if constexpr (SIZE == 4) return uint32_t(_mm_movemask_ps(_mm_castsi128_ps(held)));
    if constexpr (SIZE == 1) return uint32_t(_mm_movemask_epi8(held));
    return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(held, _mm_setzero_si128())));
  }
#if defined(__AVX2__)
  if constexpr (sizeof(Mask) == 32) {
    const __m256i held = __m256i(mask);
    if constexpr (SIZE == 8) return uint32_t(_mm256_movemask_pd(_mm256_castsi256_pd(held)));
    if constexpr (SIZE == 4) return uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(held)));
    const __m128i low = _mm256_castsi256_si128(held), high = _mm256_extracti128_si256(held, 1);
    return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
  }
#endif
#if defined(__AVX512F__)
  if constexpr (sizeof(Mask) == 64) {
    const __m512i held = __m512i(mask);
    if constexpr (SIZE == 8) return _mm512_test_epi64_mask(held, held);
    return _mm512_test_epi32_mask(held, held);
  }
#endif
}

// Of a vector of elements and the extrema up to each: which ones are met there.
template <class Cfg, class V>
AOT_INLINE uint32_t met(V own, V extrema) {
  return bits_of<int(sizeof(scan_accumulator<Cfg>))>((own == extrema) | (own != own));
}

using VectorOfPlaces = typename Simd<int64_t>::V;

template <int... L>
AOT_INLINE VectorOfPlaces last_lane(VectorOfPlaces v, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(v, v, (L * 0 + int(sizeof...(L)) - 1)...);
}

// The last places of `N` neighbours, from `bits` of them; `last` has in all lanes what it was
// before them, and then what it is behind them. Nothing branches: near a row's beginning nobody can
// predict whether there is a new place.
template <int N>
AOT_INLINE void store_places(int64_t* tile, uint32_t bits, int64_t j, VectorOfPlaces& last) {
  constexpr int kLanes = Simd<int64_t>::kLanes;
  typedef int32_t Few __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
  const VectorOfPlaces before = last, from = Simd<int64_t>::set1(j);
  AOT_UNROLL for (int l = 0; l < N; l += kLanes) {
    const Few& few = *reinterpret_cast<const Few*>(kLastSet.of[bits] + l);
    const VectorOfPlaces own = __builtin_convertvector(few, VectorOfPlaces);
    last = own < 0 ? before : own + from;
    Simd<int64_t>::store(tile + l, last);
  }
  last = last_lane(last, std::make_integer_sequence<int, kLanes>());
}

// What a row has come to.
template <class Acc>
struct LastPlace {
  Acc extremum;
  int64_t at = 0;
};

// Columns j to stop of one row.
template <class Cfg>
AOT_INLINE void places_of_row(const PlacesArgs<Cfg>& p, int64_t m, int64_t j, int64_t stop,
                              LastPlace<scan_accumulator<Cfg>>& last, int64_t* tile) {
  using Row = RowVector<Cfg>;
  using Acc = scan_accumulator<Cfg>;
  constexpr int kN = Row::kLanes < kBits ? Row::kLanes : kBits;
  const auto* x = p.x + m * p.row + j * p.col;
  const auto first = Simd<Acc>::set1(neutral<Cfg::COMBINE, Acc>());
  auto carry = Simd<Acc>::set1(last.extremum);
  VectorOfPlaces at = Simd<int64_t>::set1(last.at);
  const bool asks = Row::asks(stop - j), follow = p.col == 1 && p.row >= p.n;
  // Elements up to here exist, be they other rows': they fill the last vector.
  const int64_t there = follow ? (p.m - 1 - m) * p.row + p.n : stop;
  for (; j < stop && j + Row::kLanes <= there; j += Row::kLanes, x += Row::kLanes * p.col) {
    const auto own = Row::load(x, p.col);
    auto extrema = carry;
    if (!asks || !Row::keeps(carry, own)) {
      const auto running = Row::running(own, first);
      extrema = Row::combine(carry, running);
      carry =
          Row::combine(carry, Row::last(running, std::make_integer_sequence<int, Row::kLanes>()));
    }
    const uint32_t bits = met<Cfg>(own, extrema);
    AOT_UNROLL for (int l = 0; l < Row::kLanes; l += kN, tile += kN) {
      const uint32_t here = bits >> l & ((1u << kN) - 1);
      store_places<kN>(tile, here, j + l, at);
    }
  }
  last = {carry[0], at[0]};
  for (; j < stop; ++j, x += p.col) {
    const Acc own = Acc(widen(*x));
    last.extremum = combined<Cfg::COMBINE>(last.extremum, own);
    last.at = own == last.extremum || own != own ? j : last.at;
    *tile++ = last.at;
  }
}

// kScanRows rows of integers from m on, element by element: none waits for another row's.
template <class Cfg>
AOT_INLINE void places_of_short_rows(const PlacesArgs<Cfg>& p, int64_t m, int64_t* tile,
                                     int64_t ld) {
  using Acc = scan_accumulator<Cfg>;
  LastPlace<Acc> last[kScanRows];
  for (auto& row : last) row = {neutral<Cfg::COMBINE, Acc>()};
  const auto* x = p.x + m * p.row;
  for (int64_t j = 0; j < p.n; ++j, x += p.col) {
    AOT_UNROLL for (int64_t r = 0; r < kScanRows; ++r) {
      const Acc own = Acc(x[r * p.row]);
      last[r].extremum = combined<Cfg::COMBINE>(own, last[r].extremum);
      last[r].at = own == last[r].extremum ? j : last[r].at;
      tile[r * ld + j] = last[r].at;
    }
  }
}

// Rows m0 to m1, at most Cfg::ROWS: together where they are short, else as far as the epilogue
// takes them at a time.
template <class Cfg, class Epi>
AOT_INLINE void places_of_rows(const PlacesArgs<Cfg>& p, int64_t m0, int64_t m1, int64_t* tile,
                               const Epi& epi) {
  const int64_t ld = min64(round_up(p.n, 16), kScanColumns);
  LastPlace<scan_accumulator<Cfg>> last[Cfg::ROWS];
  for (auto& row : last) row = {neutral<Cfg::COMBINE, scan_accumulator<Cfg>>()};
  for (int64_t j = 0; j < p.n; j += kScanColumns) {
    const int64_t stop = min64(j + kScanColumns, p.n);
    int64_t r = 0;
    if constexpr (std::is_integral_v<scan_accumulator<Cfg>>) {
      for (; p.n < kShortRow && r + kScanRows <= m1 - m0; r += kScanRows) {
        places_of_short_rows<Cfg>(p, m0 + r, tile + r * ld, ld);
      }
    }
    for (; r < m1 - m0; ++r) {
      places_of_row<Cfg>(p, m0 + r, j, stop, last[r], tile + r * ld);
    }
    epi(0, m0, m1, j, stop, tile, ld);
  }
}

// Rows m0 to m1, at most LANES, which are neighbours in memory.
template <class Cfg, class Epi>
AOT_INLINE void places_side_by_side(const PlacesArgs<Cfg>& p, int64_t m0, int64_t m1, int64_t* tile,
                                    const Epi& epi) {
  using Row = RowVector<Cfg>;
  using Acc = scan_accumulator<Cfg>;
  Acc extrema[Cfg::LANES];
  int64_t last[Cfg::LANES] = {};
  for (Acc& e : extrema) e = neutral<Cfg::COMBINE, Acc>();
  const int64_t count = m1 - m0;
  for (int64_t j = 0; j < p.n; ++j) {
    const auto* const x = p.x + m0 + j * p.col;
    int64_t r = 0;
    for (; r + Row::kLanes <= count; r += Row::kLanes) {
      const auto own = Row::load(x + r, 1);
      const auto found = Row::combine(Simd<Acc>::load(extrema + r), own);
      Simd<Acc>::store(extrema + r, found);
      uint32_t bits = met<Cfg>(own, found);
      for (; bits != 0; bits &= bits - 1) last[r + __builtin_ctz(bits)] = j;
    }
    for (; r < count; ++r) {
      const Acc own = Acc(widen(x[r]));
      extrema[r] = combined<Cfg::COMBINE>(extrema[r], own);
      last[r] = own == extrema[r] || own != own ? j : last[r];
    }
    const int64_t column = j % kScanLaneColumns;
    __builtin_memcpy(tile + column * Cfg::LANES, last, uint64_t(count) * sizeof(int64_t));
    if (column == kScanLaneColumns - 1 || j == p.n - 1) {
      epi(0, m0, m1, j - column, j + 1, tile, Cfg::LANES);
    }
  }
}

}  // namespace detail

template <class Cfg, class Epi>
AOT_INLINE void places(const PlacesArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                       const Epi& epi) {
  auto* const tile = static_cast<int64_t*>(scratch);
  for (int64_t unit = begin; unit < end; ++unit) {
    if constexpr (Cfg::LANES > 0) {
      const int64_t m0 = unit * Cfg::LANES;
      detail::places_side_by_side<Cfg>(p, m0, min64(m0 + Cfg::LANES, p.m), tile, epi);
    } else {
      const int64_t m0 = unit * Cfg::ROWS;
      detail::places_of_rows<Cfg>(p, m0, min64(m0 + Cfg::ROWS, p.m), tile, epi);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PLACES_H_
