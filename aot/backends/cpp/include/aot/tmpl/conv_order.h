// The order of a block's pixels in a convolution whose taps often meet padding: a part of conv.h.
//
// A micro-kernel leaves out a tap that meets padding at all rows of its strip (MicroArgs::zeros).
// So pixels that miss the same taps along a row, of these those along a column, and of these those
// along the depth, are neighbours in the tile while it is computed; then its rows go where they
// belong.
#ifndef AOT_TMPL_CONV_ORDER_H_
#define AOT_TMPL_CONV_ORDER_H_

#include "aot/tmpl/conv_call.h"

namespace aot::tmpl {

namespace detail {

// Ranges of places along a dimension of outputs that miss the same taps.
template <int64_t K, int64_t STRIDE, int64_t DILATION, int64_t PADDING>
struct TapRanges {
  static constexpr int64_t kMost = 2 * K + 1;
  int64_t begin[kMost + 1];
  int64_t count = 0;
  int64_t missed = 0;  // taps of all places

  TapRanges(int64_t outputs, int64_t size) {
    int64_t last = -1;
    for (int64_t i = 0; i < outputs; ++i) {
      int64_t before = 0, behind = 0;
      for (int64_t k = 0; k < K; ++k) {
        const int64_t at = i * STRIDE - PADDING + k * DILATION;
        before += at < 0, behind += at >= size;
      }
      missed += before + behind;
      const int64_t pattern = before * (K + 1) + behind;
      if (pattern != last && count < kMost) begin[count++] = i;
      last = pattern;
    }
    begin[count] = outputs;
  }

  // The range that a place is in.
  AOT_INLINE int64_t range_of(int64_t place) const {
    int64_t range = 0;
    while (place >= begin[range + 1]) ++range;
    return range;
  }
};

template <class Cfg>
class PixelOrder {
 public:
  // Runs of k's as long as a kernel row have columns of padding between others, and pieces of rows
  // need not begin with padding.
  static constexpr bool kMay = !Cfg::EVEN && !ConvShape<Cfg>::kWidenB && !ConvShape<Cfg>::kRuns &&
                               Cfg::COLS == 0 && Cfg::PW > 0 && Cfg::KW > 1 &&
                               ConvShape<Cfg>::kK >= 128 && Cfg::MC < 1 << 15;

  explicit PixelOrder(const ConvArgs<Cfg>& p) : p_(p) {
    // Of a pixel, k's that are left out: they outweigh bringing its row of results to its place.
    constexpr int64_t kLongest = 256, kLeastSaved = 11;
    if (!kMay || max64(p.ow, max64(p.oh, p.od)) > kLongest) return;
    columns_ = Columns(p.ow, p.wd), rows_ = Rows(p.oh, p.h), planes_ = Planes(p.od, p.d);
    pays_ = columns_.missed * ConvShape<Cfg>::kK > kLeastSaved * p.ow * Cfg::KW;
  }

  // Pixels stay where they are: for tiles, which read those that lie evenly.
  AOT_INLINE void leave() { pays_ = false; }
  AOT_INLINE bool pays() const { return kMay && pays_; }
  // Where pixel i of the block is; null: where it is anyway.
  AOT_INLINE const int16_t* places() const { return pays() ? place_ : nullptr; }

  // Finds the order of pixels [m0, m1).
  void find(int64_t m0, int64_t m1) {
    int16_t next[kKinds] = {};
    each_run(m0, m1, [&](int64_t kind, int64_t from, int64_t to) { next[kind] += to - from; });
    int64_t before = 0;
    for (int64_t kind = 0; kind < columns_.count * rows_.count * planes_.count; ++kind) {
      const int64_t count = next[kind];
      next[kind] = int16_t(before), before += count;
    }
    each_run(m0, m1, [&](int64_t kind, int64_t from, int64_t to) {
      for (int64_t m = from; m < to; ++m) place_[m - m0] = next[kind]++;
    });
  }

  // Brings `count` rows of a tile, of so many elements, to where they belong.
  template <class T>
  void restore(T* tile, int64_t ld, int64_t count, int64_t elements) const {
    alignas(64) T kept[Cfg::NC + kPanel];
    bool done[kPlaces] = {};
    const uint64_t bytes = uint64_t(elements) * sizeof(T);
    for (int64_t i = 0; i < count; ++i) {
      if (done[i] || place_[i] == i) continue;
      __builtin_memcpy(kept, tile + i * ld, bytes);
      int64_t at = i;
      for (done[i] = true; place_[at] != i; done[at] = true) {
        __builtin_memcpy(tile + at * ld, tile + place_[at] * ld, bytes);
        at = place_[at];
      }
      __builtin_memcpy(tile + at * ld, kept, bytes);
    }
  }

 private:
  using Columns = TapRanges<Cfg::KW, Cfg::SW, Cfg::DW, Cfg::PW>;
  using Rows = TapRanges<Cfg::KH, Cfg::SH, Cfg::DH, Cfg::PH>;
  using Planes = TapRanges<Cfg::KD, Cfg::SD, Cfg::DD, Cfg::PD>;
  static constexpr int64_t kPlaces = kMay ? Cfg::MC : 1;
  static constexpr int64_t kKinds = Columns::kMost * Rows::kMost * Planes::kMost;

  // Calls f(kind, from, to) with pixels of [m0, m1) that follow each other and miss the same taps.
  template <class F>
  AOT_INLINE void each_run(int64_t m0, int64_t m1, const F& f) const {
    for (int64_t row = m0 / p_.ow; row * p_.ow < m1; ++row) {
      const int64_t r = rows_.range_of(row % p_.oh), d = planes_.range_of(row / p_.oh % p_.od);
      for (int64_t c = 0; c < columns_.count; ++c) {
        const int64_t from = max64(m0, row * p_.ow + columns_.begin[c]);
        const int64_t to = min64(m1, row * p_.ow + columns_.begin[c + 1]);
        if (from < to) f((c * rows_.count + r) * planes_.count + d, from, to);
      }
    }
  }

  const ConvArgs<Cfg>& p_;
  Columns columns_{0, 0};
  Rows rows_{0, 0};
  Planes planes_{0, 0};
  bool pays_ = false;
  int16_t place_[kPlaces];
};

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_ORDER_H_
