// The order of a block's pixels in a convolution whose taps often meet padding: a part of conv.h.
//
// A micro-kernel leaves out a tap that meets padding at all rows of its strip (MicroArgs::zeros).
// So pixels that miss the same taps along a row, and of these those along a column, are neighbours
// in the tile while it is computed; then its rows go where they belong.
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
};

template <class Cfg>
class PixelOrder {
 public:
  // Runs of k's as long as a kernel row have columns of padding between others.
  static constexpr bool kMay = !Cfg::EVEN && !Cfg::PIECES && !ConvShape<Cfg>::kWidenB &&
                               !ConvShape<Cfg>::kRuns && Cfg::PW > 0 && Cfg::KW > 1 &&
                               ConvShape<Cfg>::kK >= 256 && Cfg::MC < 1 << 15;

  explicit PixelOrder(const ConvArgs<Cfg>& p) : p_(p) {
    constexpr int64_t kLongest = 256, kLeastPart = 24;
    if (!kMay || p.ow > kLongest || p.oh > kLongest) return;
    columns_ = Columns(p.ow, p.wd), rows_ = Rows(p.oh, p.h);
    pays_ = columns_.missed * kLeastPart > p.ow * Cfg::KW;
  }

  // Pixels stay where they are: for tiles, which read those that lie evenly.
  AOT_INLINE void leave() { pays_ = false; }
  AOT_INLINE bool pays() const { return kMay && pays_; }
  // Where pixel i of the block is; null: where it is anyway.
  AOT_INLINE const int16_t* places() const { return pays() ? place_ : nullptr; }

  // Finds the order of pixels [m0, m1).
  void find(int64_t m0, int64_t m1) {
    int64_t next = 0;
    const int64_t first = m0 / p_.ow, last = (m1 - 1) / p_.ow;
    for (int64_t c = 0; c < columns_.count; ++c) {
      for (int64_t r = 0; r < rows_.count; ++r) {
        for (int64_t row = first; row <= last; ++row) {
          const int64_t oh = row % p_.oh;
          if (oh < rows_.begin[r] || oh >= rows_.begin[r + 1]) continue;
          const int64_t from = max64(m0, row * p_.ow + columns_.begin[c]);
          const int64_t to = min64(m1, row * p_.ow + columns_.begin[c + 1]);
          for (int64_t m = from; m < to; ++m) place_[m - m0] = int16_t(next++);
        }
      }
    }
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
  static constexpr int64_t kPlaces = kMay ? Cfg::MC : 1;
  const ConvArgs<Cfg>& p_;
  Columns columns_{0, 0};
  Rows rows_{0, 0};
  bool pays_ = false;
  int16_t place_[kPlaces];
};

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONV_ORDER_H_
