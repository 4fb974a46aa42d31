// The element of one rank among the keys of a row.
//
// Quickselect (Hoare, 1961): what a pivot leaves is copied to either of two places without a
// branch by the comparison, as nobody can predict it; of few keys it is counted how many are less
// than each.
#ifndef AOT_TMPL_SELECT_H_
#define AOT_TMPL_SELECT_H_

#include <cstdint>
#include <type_traits>

#include "aot/tmpl/simd.h"

namespace aot::tmpl::detail {

// Keys of so many bytes, in a row's scratch.
template <int BYTES>
using SelectKey = std::conditional_t<BYTES <= 4, uint32_t, uint64_t>;

// Keys of which ranks are counted.
constexpr int64_t kCounted = 16;

// Comparisons that a row of n may take before its keys are taken for ones that were chosen to
// take long: n times so many. Random ones take about three.
constexpr int64_t kSelectSteps = 12;

template <class K>
struct Selected {
  K key;
  int64_t less;  // keys below it; negative: not found in as many steps as there are
};

template <class K>
AOT_INLINE K middle_of(K a, K b, K c) {
  const K low = a < b ? a : b, high = a < b ? b : a;
  const K top = high < c ? high : c;
  return low > top ? low : top;
}

// A key near the middle: of three, or of nine by threes.
template <class K>
AOT_INLINE K pivot_of(const K* keys, int64_t n) {
  if (n < 128) return middle_of(keys[n / 4], keys[n / 2], keys[n / 4 * 3]);
  K found[3];
  const K* at = keys + n / 10;
  for (K& key : found) {
    key = middle_of(at[0], at[n / 10], at[n / 10 * 2]);
    at += n / 10 * 3;
  }
  return middle_of(found[0], found[1], found[2]);
}

// Of at most kCounted keys.
template <class K>
AOT_INLINE Selected<K> select_of_few(const K* keys, int64_t n, int64_t rank) {
  constexpr int kLanes = kVectorBytes / int(sizeof(K));
  typedef K Keys __attribute__((vector_size(kVectorBytes), aligned(sizeof(K)), may_alias));
  typedef std::make_signed_t<K> Counts __attribute__((vector_size(kVectorBytes)));
  K held[kCounted];
  for (K& key : held) key = K(~K(0));  // below nothing; only such keys equal it
  for (int64_t i = 0; i < n; ++i) held[i] = keys[i];
  for (int64_t i = 0; i < n; ++i) {
    const Keys own = held[i] - Keys{};
    Counts less{}, same{};
    AOT_UNROLL for (int64_t j = 0; j < kCounted; j += kLanes) {
      const Keys other = *reinterpret_cast<const Keys*>(held + j);
      less -= Counts(other < own);
      same -= Counts(other == own);
    }
    int64_t below = 0, equal = 0;
    AOT_UNROLL for (int l = 0; l < kLanes; ++l) {
      below += less[l];
      equal += same[l];
    }
    if (below <= rank && rank < below + equal) return {held[i], below};
  }
  return {held[0], 0};  // of no keys
}

// Of n keys, which stay as they are; `low` and `high`: room for as many each.
template <class K>
AOT_INLINE Selected<K> select(const K* keys, int64_t n, int64_t rank, K* low, K* high) {
  int64_t less = 0, steps = kSelectSteps * n;
  while (n > kCounted) {
    if ((steps -= n) < 0) return {keys[0], -1};
    const K pivot = pivot_of(keys, n);
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < n; ++i) {
      const K key = keys[i];
      low[below] = key;
      below += key < pivot;
      high[above] = key;
      above += key > pivot;
    }
    if (rank < below) {
      keys = low;
      n = below;
    } else if (rank >= n - above) {
      rank -= n - above;
      less += n - above;
      keys = high;
      n = above;
      high = low;  // what is read next may be overwritten as it is read, by one of the two
      low = const_cast<K*>(keys);
    } else {
      return {pivot, less + below};
    }
  }
  const Selected<K> found = select_of_few(keys, n, rank);
  return {found.key, less + found.less};
}

// Where the key is that so many equal ones come before.
template <class K>
AOT_INLINE int64_t place_of(const K* keys, K key, int64_t before) {
  for (int64_t j = 0;; ++j) {
    if (keys[j] == key && before-- == 0) return j;
  }
}

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_SELECT_H_
