// Positions of the first k elements of each row of a matrix in sorted order, stable.
//
//   template <class Cfg, class Epi>
//   void argsort(const SortArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi&
//   epi);
//
// Work units are rows: work = m. Elements become unsigned keys that order as the elements do (NaN
// above everything, -0.0 equal to 0.0; inverted when descending). A whole row is sorted by a
// least-significant-digit radix sort (Knuth, TAOCP 3, 5.2.5), whose passes over digits that all
// keys share are skipped. For few of many (4 k <= n), elements beyond the k-th best so far are
// dropped as they come, and the survivors sorted whenever their room is full.
//   scratch = 2 * room * 16 + (k rounded up to 16) * 8, room = sort_room(n, k) items
//   epi(0, m, m + 1, 0, k, const int64_t* tile, int64_t ld)       tile[j]: position in the row
#ifndef AOT_TMPL_SORT_H_
#define AOT_TMPL_SORT_H_

#include "aot/tmpl/simd.h"

namespace aot::tmpl {

struct SortConfig {
  using A = float;  // element in memory
  static constexpr bool DESCENDING = false;
};

template <class Cfg>
struct SortArgs {
  const typename Cfg::A* x;
  int64_t row, col;  // strides in elements
  int64_t m, n, k;   // k <= n
};

// Items that the two halves of the scratch hold. Python's twin: template_rows.sort_room.
AOT_INLINE int64_t sort_room(int64_t n, int64_t k) { return min64(n, max64(4 * k, 64)); }

namespace detail {

struct SortItem {
  uint64_t key;
  int64_t position;
};

// float and double: the bits, with negative numbers mirrored below the positive ones.
template <class Bits, class T>
AOT_INLINE uint64_t float_key(T x) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (x != x) return Bits(~Bits(0));
  x = x + T(0);  // -0.0 + 0.0 is 0.0
  Bits bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return Bits(bits & kSign ? ~bits : bits | kSign);
}

AOT_INLINE uint64_t sort_key(float x) { return float_key<uint32_t>(x); }
AOT_INLINE uint64_t sort_key(double x) { return float_key<uint64_t>(x); }
template <class T>
AOT_INLINE uint64_t sort_key(T x) {
  using U = std::make_unsigned_t<T>;
  constexpr U kFlip = std::is_signed_v<T> ? U(1) << (8 * sizeof(U) - 1) : 0;
  return U(U(x) ^ kFlip);
}

// Bytes of a key.
template <class T>
inline constexpr int kKeyBytes = int(sizeof(T));

// Sorts `count` items by key, stable; `other` is room for as many. Returns where they ended.
template <int BYTES>
AOT_INLINE SortItem* radix_sort(SortItem* items, SortItem* other, int64_t count) {
  for (int digit = 0; digit < BYTES; ++digit) {
    int64_t starts[256] = {};
    const int shift = 8 * digit;
    for (int64_t i = 0; i < count; ++i) ++starts[items[i].key >> shift & 255];
    if (count == 0 || starts[items[0].key >> shift & 255] == count) continue;
    int64_t total = 0;
    for (int64_t& start : starts) {
      const int64_t size = start;
      start = total;
      total += size;
    }
    for (int64_t i = 0; i < count; ++i) other[starts[items[i].key >> shift & 255]++] = items[i];
    SortItem* const swap = items;
    items = other;
    other = swap;
  }
  return items;
}

// A few items: insertion keeps them in order without histograms.
AOT_INLINE void insertion_sort(SortItem* items, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const SortItem item = items[i];
    int64_t j = i;
    for (; j > 0 && items[j - 1].key > item.key; --j) items[j] = items[j - 1];
    items[j] = item;
  }
}

template <int BYTES>
AOT_INLINE SortItem* sort_items(SortItem* items, SortItem* other, int64_t count) {
  if (count > 48) return radix_sort<BYTES>(items, other, count);
  insertion_sort(items, count);
  return items;
}

}  // namespace detail

template <class Cfg, class Epi>
AOT_INLINE void argsort(const SortArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                        const Epi& epi) {
  using T = compute_t<typename Cfg::A>;
  constexpr int kBytes = detail::kKeyBytes<T>;
  constexpr uint64_t kInvert = Cfg::DESCENDING ? ~uint64_t(0) >> (64 - 8 * kBytes) : uint64_t(0);
  const int64_t room = sort_room(p.n, p.k);
  detail::SortItem* const first = static_cast<detail::SortItem*>(scratch);
  detail::SortItem* const second = first + room;
  int64_t* const tile = reinterpret_cast<int64_t*>(second + room);
  for (int64_t m = begin; m < end; ++m) {
    detail::SortItem *items = first, *other = second;
    int64_t count = 0;
    uint64_t bound = ~uint64_t(0);  // keys of this size and above are not among the first k
    bool bounded = false;
    for (int64_t j = 0; j < p.n; ++j) {
      const uint64_t key = detail::sort_key(widen(p.x[m * p.row + j * p.col])) ^ kInvert;
      if (bounded && key >= bound) continue;
      if (count == room) {
        detail::SortItem* const sorted = detail::sort_items<kBytes>(items, other, count);
        other = sorted == first ? second : first;
        items = sorted;
        count = p.k;
        bounded = true;
        bound = p.k > 0 ? items[p.k - 1].key : 0;
        if (key >= bound) continue;
      }
      items[count++] = {key, j};
    }
    const detail::SortItem* const sorted = detail::sort_items<kBytes>(items, other, count);
    for (int64_t j = 0; j < p.k; ++j) tile[j] = sorted[j].position;
    epi(0, m, m + 1, 0, p.k, tile, p.k);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SORT_H_
