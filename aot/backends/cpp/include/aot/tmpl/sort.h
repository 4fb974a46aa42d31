// Positions of the first k elements of each row of a matrix in sorted order, stable, but the
// `first` ones.
//
//   template <class Cfg, class Epi>
//   void argsort(const SortArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi&
//   epi);
//
// Work units are rows: work = m. Elements become unsigned keys that order as the elements do (NaN
// above everything, -0.0 equal to 0.0; inverted when descending). A whole row is sorted by a
// least-significant-digit radix sort (Knuth, TAOCP 3, 5.2.5), whose passes over digits that all
// keys share are skipped. For few of many (4 k <= n), elements beyond the k-th best so far are
// dropped as they come, floats that are neighbours a vector at a time, and the survivors sorted
// whenever their room is full; very few are kept in order by insertion. Of a long row of
// which the first ones are left out, elements whose leading digits belong to none of the wanted
// ranks are dropped before anything is sorted, digit by digit: n steps for a few ranks. A single
// rank is looked for by pivots first (select.h).
//   scratch = 2 * room * 16 + (k rounded up to 16) * 8, room = sort_room(n, k) items
// GROUP: so many rows that lie side by side in memory (p.row is 1) are copied at a time, each to a
// place of its own behind all that, so that every line of memory is read once; n is N.
//   scratch += GROUP * sort_pitch(N) * sizeof(A)
//   epi(0, m, m + 1, 0, k - first, const int64_t* tile, int64_t ld)  tile[j]: position in the row
#ifndef AOT_TMPL_SORT_H_
#define AOT_TMPL_SORT_H_

#include "aot/tmpl/select.h"
#include "aot/tmpl/simd.h"

namespace aot::tmpl {

struct SortConfig {
  using A = float;  // element in memory
  static constexpr bool DESCENDING = false;
  static constexpr int64_t GROUP = 0;
  static constexpr int64_t N = 0;
};

template <class Cfg>
struct SortArgs {
  const typename Cfg::A* x;
  int64_t row, col;   // strides in elements
  int64_t m, n, k;    // k <= n
  int64_t first = 0;  // of the k
};

// Items that the two halves of the scratch hold. Python's twin: template_rows.sort_room.
AOT_INLINE int64_t sort_room(int64_t n, int64_t k) { return min64(n, max64(4 * k, 64)); }

// Elements from one copied row to the next: off the powers of two, whose places share cache sets.
AOT_INLINE constexpr int64_t sort_pitch(int64_t n) { return round_up(n, 64) + 64; }

namespace detail {

struct SortItem {
  uint64_t key;
  int64_t position;
};

// float and double: the bits, with negative numbers mirrored below the positive ones. Without a
// branch by the sign, which nobody can predict.
template <class Bits, class T>
AOT_INLINE uint64_t float_key(T x) {
  constexpr Bits kSign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (x != x) return Bits(~Bits(0));
  x = x + T(0);  // -0.0 + 0.0 is 0.0
  Bits bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const Bits mirror = Bits(0) - (bits >> (8 * sizeof(Bits) - 1));
  return Bits(bits ^ (mirror | kSign));
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

// Items of a row whose ranks may be wanted, in their order, and how many are known to come before.
struct Candidates {
  int64_t count, before;
};

// How often each value of a digit occurs, and the values between which wanted ranks lie.
template <int BITS>
struct DigitRange {
  static constexpr int64_t kValues = int64_t(1) << BITS;
  int64_t counts[kValues] = {};
  int64_t low = 0, high = 0;  // inclusive
  int64_t below = 0;          // elements below `low`

  // Of the ranks [first, last), of those counted.
  AOT_INLINE void find(int64_t first, int64_t last) {
    int64_t total = 0;
    for (int64_t value = 0; value < kValues; ++value) {
      if (total <= first) low = value, below = total;
      if (total < last) high = value;
      total += counts[value];
    }
  }
};

// The elements of a row that may have the ranks [first, last), by the digits of their keys.
template <int BYTES, class Key>
AOT_INLINE Candidates candidates(const Key& key_of, int64_t n, int64_t first, int64_t last,
                                 SortItem* items) {
  constexpr int kBits = BYTES == 1 ? 8 : 11;
  constexpr uint64_t kMask = (uint64_t(1) << kBits) - 1;
  int shift = 8 * BYTES - kBits;
  Candidates found{0, 0};
  {
    DigitRange<kBits> range;
    for (int64_t j = 0; j < n; ++j) ++range.counts[key_of(j) >> shift & kMask];
    range.find(first, last);
    for (int64_t j = 0; j < n; ++j) {
      const uint64_t key = key_of(j);
      const int64_t digit = int64_t(key >> shift & kMask);
      items[found.count] = {key, j};
      found.count += digit >= range.low && digit <= range.high;
    }
    found.before = range.below;
    if (range.low != range.high) return found;
  }
  while (shift > 0 && found.count > DigitRange<kBits>::kValues) {
    shift = shift > kBits ? shift - kBits : 0;
    DigitRange<kBits> range;
    for (int64_t i = 0; i < found.count; ++i) ++range.counts[items[i].key >> shift & kMask];
    range.find(first - found.before, last - found.before);
    int64_t left = 0;
    for (int64_t i = 0; i < found.count; ++i) {
      const SortItem item = items[i];
      const int64_t digit = int64_t(item.key >> shift & kMask);
      items[left] = item;
      left += digit >= range.low && digit <= range.high;
    }
    found = {left, found.before + range.below};
    if (range.low != range.high) break;
  }
  return found;
}

// The first ones are kept in order by insertion where they are no more than these.
constexpr int64_t kInserted = 16;

// The best k of what is offered, in two halves of scratch of `room` items each.
template <int BYTES>
struct Best {
  SortItem *items, *other;
  int64_t room, k;
  int64_t count = 0;
  bool bounded = false;
  uint64_t bound = ~uint64_t(0);  // where bounded: such keys and greater ones are not among them

  // Items come in the order of their positions.
  AOT_INLINE void offer(uint64_t key, int64_t position) {
    if (bounded && key >= bound) return;
    if (k <= kInserted) return insert({key, position});
    if (count == room) {
      sort();
      count = k;
      bounded = true;
      bound = items[k - 1].key;
      if (key >= bound) return;
    }
    items[count++] = {key, position};
  }
  AOT_INLINE void insert(const SortItem& item) {
    if (k == 0) return;
    int64_t j = count < k ? count++ : k - 1;
    for (; j > 0 && items[j - 1].key > item.key; --j) items[j] = items[j - 1];
    items[j] = item;
    bounded = count == k;
    bound = items[k - 1].key;
  }
  AOT_INLINE void sort() {
    SortItem* const sorted = sort_items<BYTES>(items, other, count);
    if (sorted != items) other = items;
    items = sorted;
  }
};

// As bits, which of a vector's elements order before x or are not numbers.
template <bool DESCENDING, class T>
AOT_INLINE uint32_t lanes_before(const T* at, T x) {
  using S = Simd<T>;
  const auto v = S::load(at), limit = S::set1(x);
#if defined(__AVX512F__)
  constexpr int kNotBehind = DESCENDING ? _CMP_NLE_UQ : _CMP_NGE_UQ;
  if constexpr (sizeof(T) == 4) return _mm512_cmp_ps_mask(__m512(v), __m512(limit), kNotBehind);
  if constexpr (sizeof(T) == 8) return _mm512_cmp_pd_mask(__m512d(v), __m512d(limit), kNotBehind);
#else
  const auto behind = DESCENDING ? v <= limit : v >= limit;
  uint32_t bits = 0;
  AOT_UNROLL for (int i = 0; i < S::kLanes; ++i) bits |= uint32_t(behind[i] == 0) << i;
  return bits;
#endif
}

// All n elements of a row, `step` apart.
template <class Cfg, class Key, class Best>
AOT_INLINE void offer_all(const typename Cfg::A* at, int64_t step, int64_t n, const Key& key_of,
                          Best& best) {
  using T = typename Cfg::A;
  int64_t j = 0;
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    constexpr int64_t kL = Simd<T>::kLanes;
    if (step == 1) {
      for (; j < n && !best.bounded; ++j) best.offer(key_of(j), j);
      for (; j + kL <= n; j += kL) {
        const T limit = at[best.items[best.k - 1].position];
        uint32_t bits = lanes_before<Cfg::DESCENDING>(at + j, limit);
        for (; bits != 0; bits &= bits - 1) {
          const int64_t i = j + __builtin_ctz(bits);
          best.offer(key_of(i), i);
        }
      }
    }
  }
  for (; j < n; ++j) best.offer(key_of(j), j);
}

// Rows m0 to m1, side by side at p.x, to `copies`.
template <class Cfg>
AOT_INLINE void copy_group(const SortArgs<Cfg>& p, int64_t m0, int64_t m1,
                           typename Cfg::A* copies) {
  for (int64_t j = 0; j < Cfg::N; ++j) {
    const typename Cfg::A* const at = p.x + m0 + j * p.col;
    for (int64_t g = 0; g < m1 - m0; ++g) copies[g * sort_pitch(Cfg::N) + j] = at[g];
  }
}

}  // namespace detail

// Elements of the shortest row whose candidates are looked for by digits.
constexpr int64_t kSelectedRow = 4096;

namespace detail {

// Whether one rank among n is worth finding by itself: in insertion's place, and where a key has
// more digits than one or two, all but one of which the elements may share.
template <int BYTES>
AOT_INLINE bool finds_rank(int64_t n) {
  return n > kCounted && (BYTES > 2 || n < kSelectedRow);
}

// The place of the element of rank `rank` among n, or -1: that is not found soon.
template <int BYTES, class Key>
AOT_INLINE int64_t place_of_rank(const Key& key_of, int64_t n, int64_t rank, SortItem* items) {
  using K = SelectKey<BYTES>;
  K* const keys = reinterpret_cast<K*>(items);
  for (int64_t j = 0; j < n; ++j) keys[j] = K(key_of(j));
  const Selected<K> found = select(keys, n, rank, keys + n, keys + 2 * n);
  return found.less < 0 ? -1 : place_of(keys, found.key, rank - found.less);
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
  auto* const copies = reinterpret_cast<typename Cfg::A*>(tile + round_up(p.k, 16));
  for (int64_t m = begin; m < end; ++m) {
    const typename Cfg::A* at = p.x + m * p.row;
    if constexpr (Cfg::GROUP > 0) {
      const int64_t place = (m - begin) % Cfg::GROUP;
      if (place == 0) detail::copy_group(p, m, min64(m + Cfg::GROUP, end), copies);
      at = copies + place * sort_pitch(Cfg::N);
    }
    const int64_t step = Cfg::GROUP > 0 ? 1 : p.col;
    detail::Best<kBytes> best{first, second, room, p.k};
    const auto key_of = [&](int64_t j) { return detail::sort_key(widen(at[j * step])) ^ kInvert; };
    int64_t skipped = p.first;
    const int64_t kept = p.k - p.first;
    const bool whole = p.first > 0 && room == p.n;
    if (whole && kept == 1 && detail::finds_rank<kBytes>(p.n)) {
      tile[0] = detail::place_of_rank<kBytes>(key_of, p.n, p.first, first);
      if (tile[0] >= 0) {
        epi(0, m, m + 1, 0, 1, tile, 1);
        continue;
      }
    }
    const bool selects = whole && p.n >= kSelectedRow;
    if (selects) {
      const auto found = detail::candidates<kBytes>(key_of, p.n, p.first, p.k, first);
      best.count = found.count;
      skipped -= found.before;
    } else {
      detail::offer_all<Cfg>(at, step, p.n, key_of, best);
    }
    if (selects || p.k > detail::kInserted) best.sort();
    const detail::SortItem* const sorted = best.items;
    for (int64_t j = 0; j < kept; ++j) tile[j] = sorted[skipped + j].position;
    epi(0, m, m + 1, 0, kept, tile, kept);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_SORT_H_
