// Convolution of planes: few channels in a group, 1 to 3 dimensions, where the pixels of a row are
// neighbours in the input as in the output (channels first), or its channels are (LAST).
//
//   template <class Cfg, class Epi>
//   void planes(const PlanesArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//               const Epi& epi);
//
// Vectors run along the output's pixels and every weight is broadcast, so that no channel is
// computed in vain and nothing is turned. The rows of input that a block needs are first copied
// into scratch, padded and widened; with a stride, columns of equal remainder lie side by side.
//   work    = n * bundles * od * ceil(oh / ROWS), bundles = ceil(G / BUNDLE)
//                                              (unit = ((n * bundles + b) * steps + step) * od + d)
//   scratch = planes_scratch<Cfg>() bytes, a constant; 64-byte aligned. Python's twin of the
//   formula
//             is conv_heuristic.PlanesBlocking.scratch_bytes.
// Epi is called as in conv.h with TURNED: epi(0, m0, m1, c0, c1, tile, ld), the tile being
// tile[(c - c0) * ld + (m - m0)], of one plane. With one channel a group that is an ordinary tile
// whose rows are one element apart, and LONE says that it is wanted so (ld = 1). With LAST,
// channels are turned on the way in and out, and Epi gets tiles as conv.h's without TURNED.
//
// Weights: [G][IC * KD * KH * KW][OC] (packing.pack_planes_weight).
#ifndef AOT_TMPL_PLANES_H_
#define AOT_TMPL_PLANES_H_

#include "aot/tmpl/pack.h"

namespace aot::tmpl {

struct PlanesConfig {
  using A = float;                          // element of input and weight
  static constexpr int64_t G = 1;           // groups
  static constexpr int64_t IC = 1, OC = 1;  // channels of one group
  // Input channels that lines are copied of at a time, or -1: all. Fewer for at most 16 outputs,
  // and not with LAST.
  static constexpr int64_t IB = -1;
  static constexpr int64_t KD = 1, KH = 1, KW = 1;
  static constexpr int64_t SD = 1, SH = 1, SW = 1;
  static constexpr int64_t DD = 1, DH = 1, DW = 1;
  static constexpr int64_t PD = 0, PH = 0, PW = 0;
  static constexpr int64_t ROWS = 1;   // the most output rows of a block
  static constexpr int64_t COLS = 64;  // the most output columns; wider rows go piece by piece
  static constexpr bool LONE = false;
  static constexpr bool LAST = false;
  static constexpr int64_t BUNDLE =
      1;  // groups of a block: with LAST, of at most 16 outputs in all
};

template <class Cfg>
struct PlanesArgs {
  const typename Cfg::A* x;
  int64_t sn, sc, sd, sh, sw;  // strides of the input in elements
  const typename Cfg::A* w;
  int64_t n, d, h, wd;
  int64_t od, oh, ow;
};

namespace detail {

inline constexpr int64_t kPlanesChannels = 16;  // output channels of a tile
inline constexpr int64_t kPlanesTurn = 64;      // pixels that are turned together
// Rows of a strip: enough sums that none waits for another; more make longer programs.
inline constexpr int64_t kLeastStripRows = 4, kMostStripRows = 16;

// Sizes that follow from a configuration, in elements.
template <class Cfg>
struct PlanesShape {
  using T = compute_t<typename Cfg::A>;
  static constexpr int64_t kTaps = Cfg::KD * Cfg::KH * Cfg::KW, kK = Cfg::IC * kTaps;
  static constexpr int64_t kUsed = (Cfg::ROWS - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
  static constexpr int64_t kInputs = Cfg::IB > 0 ? Cfg::IB : Cfg::IC;
  static constexpr bool kChunks = kInputs < Cfg::IC;
  // Columns of one remainder: whole vectors from every tap on.
  static constexpr int64_t kPhase =
      round_up(Cfg::COLS, kPanel) + round_up((Cfg::KW - 1) * Cfg::DW / Cfg::SW + 1, kPanel);
  static constexpr int64_t kLine = Cfg::SW * kPhase;
  static constexpr int64_t kChannel = Cfg::KD * kUsed * kLine;
  static constexpr int64_t kLines = Cfg::BUNDLE * kInputs * kChannel;
  static constexpr int64_t kLd = round_up(Cfg::ROWS * Cfg::COLS, kPanel) + kPanel;
  static constexpr int64_t kTile =
      (Cfg::LAST ? kPlanesChannels : min64(Cfg::OC, kPlanesChannels)) * kLd;
  static constexpr int64_t kTiles = kChunks ? 2 * kTile : kTile;
  static constexpr int64_t kTurned = Cfg::LAST ? kPlanesTurn * kPlanesChannels : 0;
  // Output planes that follow each other share planes of input, which stay where they lie.
  static constexpr bool kRing = (Cfg::KD > Cfg::SD) && Cfg::DD == 1 && !Cfg::LAST && !kChunks;
  static constexpr bool kWiden = !std::is_same_v<typename Cfg::A, T>;
  static constexpr int64_t kWeights = kWiden ? round_up(Cfg::BUNDLE * kK * Cfg::OC, kPanel) : 0;
};

// Every second lane of a and b, from lane FROM on.
template <int FROM, class V, int... L>
AOT_INLINE V every_second(V a, V b, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(a, b, (2 * L + FROM)...);
}

template <class Cfg, class Epi>
struct PlanesRun {
  using A = typename Cfg::A;
  using S = PlanesShape<Cfg>;
  using T = typename S::T;
  using Vec = Simd<T>;
  using V = typename Vec::V;
  static constexpr int64_t kL = Vec::kLanes;
  // Vectors whose sums for so many channels stay in registers, with the vectors themselves and one
  // weight; of a single channel's, each vector is used once and need not stay.
  static constexpr int vectors_for(int channels) {
    if (channels == 1) return 8;
    const int most = (kVectorRegisters - 1) / (channels + 1);
    return most < 16 / channels ? most : 16 / channels;
  }

  const PlanesArgs<Cfg>& p;
  T* tile;
  T* lines;
  T* widened;  // weights of a bundle
  T* turned;
  const Epi& epi;
  bool bordered;  // lines are zeros where all rows have them: rows are whole

  // `count` columns of a row from column `first` on, of which those outside the data are zeros.
  void line(const A* row, int64_t first, int64_t count, T* out) const {
    const int64_t left = min64(max64(-first, 0), count);
    const int64_t right = max64(left, min64(count, p.wd - first));
    // Whole vectors of zeros at both ends, which what lies inside then overwrites in part.
    for (int64_t phase = 0; phase < Cfg::SW && !bordered; ++phase) {
      T* const at = out + phase * S::kPhase;
      for (int64_t i = 0; i * Cfg::SW < left; i += kL) Vec::store(at + i, Vec::zero());
      for (int64_t i = right / Cfg::SW / kL * kL; i < S::kPhase; i += kL) {
        Vec::store(at + i, Vec::zero());
      }
    }
    if constexpr (Cfg::SW == 1) {
      if (p.sw == 1 && right - left >= kL) {
        for (int64_t i = left; i < right; i += kL) {
          const int64_t from = min64(i, right - kL);  // the last ones overlap those before
          Vec::store(out + from, load_widened<T>(row + first + from));
        }
        return;
      }
    }
    int64_t i = left;
    if constexpr (Cfg::SW == 2) {
      if (p.sw == 1 && right - left >= 2 * kL) {
        for (; i < right; i += 2 * kL) {
          const int64_t from = min64(i, right - 2 * kL);  // the last ones overlap those before
          const A* const in = row + first + from;
          part(load_widened<T>(in), load_widened<T>(in + kL), from, out);
        }
        return;
      }
    }
    if constexpr (Cfg::SW == 4) {
      if (p.sw == 1 && right - left >= 4 * kL) {
        for (; i < right; i += 4 * kL) {
          const int64_t from = min64(i, right - 4 * kL);
          in_quarters(row + first + from, from, out);
        }
        return;
      }
    }
    for (int64_t q = 0; q < Cfg::SW; ++q) {  // what goes to one phase, without a division each
      T* to = out + (i + q) % Cfg::SW * S::kPhase + (i + q) / Cfg::SW;
      for (int64_t j = i + q; j < right; j += Cfg::SW) *to++ = at(row, first + j);
    }
  }
  AOT_INLINE T at(const A* row, int64_t column) const { return as<T>(row[column * p.sw]); }

  // Two vectors of a row from column `from` on to its even and its odd columns.
  static AOT_INLINE void part(const V& a, const V& b, int64_t from, T* out) {
    constexpr auto kAll = std::make_integer_sequence<int, int(kL)>{};
    parted(every_second<0>(a, b, kAll), every_second<1>(a, b, kAll), from, out);
  }
  static AOT_INLINE void parted(const V& here, const V& next, int64_t from, T* out) {
    Vec::store(out + from % 2 * S::kPhase + from / 2, here);
    Vec::store(out + (from + 1) % 2 * S::kPhase + (from + 1) / 2, next);
  }

  // Four vectors of a row from column `from` on, to columns of the four remainders by four.
  static AOT_INLINE void in_quarters(const A* in, int64_t from, T* out) {
    constexpr auto kAll = std::make_integer_sequence<int, int(kL)>{};
    const V a = load_widened<T>(in), b = load_widened<T>(in + kL);
    const V c = load_widened<T>(in + 2 * kL), d = load_widened<T>(in + 3 * kL);
    const V even[2] = {every_second<0>(a, b, kAll), every_second<0>(c, d, kAll)};
    const V odd[2] = {every_second<1>(a, b, kAll), every_second<1>(c, d, kAll)};
    const V all[4] = {
        every_second<0>(even[0], even[1], kAll), every_second<0>(odd[0], odd[1], kAll),
        every_second<1>(even[0], even[1], kAll), every_second<1>(odd[0], odd[1], kAll)};
    AOT_UNROLL for (int q = 0; q < 4; ++q) {
      Vec::store(out + (from + q) % 4 * S::kPhase + (from + q) / 4, all[q]);
    }
  }

  // Rows of which a vector of each remainder holds all `there` elements that exist, to columns from
  // `left` on; zeros behind them are those that lie there.
  void brief_lines(const A* row, int64_t rows, int64_t left, int64_t there, T* out) const {
    for (; rows > 0; --rows, row += p.sh, out += S::kLine) {
      if constexpr (Cfg::SW == 1) {
        Vec::store(out + left, load_first<T>(row, there));
      } else if constexpr (std::is_same_v<A, Bf16>) {
        // A pair is a word: what its lower half becomes, and what its upper half is.
        const auto pairs = typename Vec::Words(load_first_halves(row, there));
        parted(V(pairs << 16), V(pairs & 0xffff0000u), left, out);
      } else {
        const V a = load_first<T>(row, min64(there, kL));
        part(a, there > kL ? load_first<T>(row + kL, there - kL) : Vec::zero(), left, out);
      }
    }
  }

  // The same of `channels` contiguous ones, to lines kChannel apart.
  void turned_line(const A* row, int64_t first, int64_t count, int64_t channels, T* out) const {
    const int64_t most = min64(channels, kL);
    for (int64_t phase = 0; phase < Cfg::SW; ++phase) {
      for (int64_t j = 0; j * Cfg::SW + phase < count; j += kL) {
        for (int64_t next = 0; next < channels; next += kL) {
          const int64_t c = max64(0, min64(next, channels - kL));  // the last overlap those before
          V r[kL];
          AOT_UNROLL for (int64_t i = 0; i < kL; ++i) {
            const int64_t column = first + phase + (j + i) * Cfg::SW;
            const bool in = uint64_t(column) < uint64_t(p.wd);
            r[i] = in ? load_first<T>(row + column * p.sw + c, most) : Vec::zero();
          }
          transpose_rows<kL / 2, T>(r);
          T* const to = out + c * S::kChannel + phase * S::kPhase + j;
          AOT_UNROLL for (int64_t i = 0; i < kL; ++i) {
            if (i < most) Vec::store(to + i * S::kChannel, r[i]);
          }
        }
      }
    }
  }

  // fill, of channels that are contiguous.
  void fill_turned(const A* image, int64_t od, int64_t oh, int64_t rows, int64_t ow,
                   int64_t columns, int64_t channels) const {
    const int64_t used = (rows - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    const int64_t count = (columns - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
    for (int64_t kd = 0; kd < Cfg::KD; ++kd) {
      const int64_t d = od * Cfg::SD - Cfg::PD + kd * Cfg::DD;
      for (int64_t r = 0; r < used; ++r) {
        const int64_t h = oh * Cfg::SH - Cfg::PH + r;
        T* const out = lines + (kd * S::kUsed + r) * S::kLine;
        if (uint64_t(d) < uint64_t(p.d) && uint64_t(h) < uint64_t(p.h)) {
          turned_line(image + d * p.sd + h * p.sh, ow * Cfg::SW - Cfg::PW, count, channels, out);
        } else {
          for (int64_t c = 0; c < channels; ++c) zero_row(out + c * S::kChannel, S::kLine);
        }
      }
    }
  }

  // What `rows` output rows from (od, oh) on read of so many channels, for columns
  // [ow, ow + columns); of the first `held` planes of input what the block before has left there.
  void fill(const A* image, int64_t od, int64_t oh, int64_t rows, int64_t ow, int64_t columns,
            int64_t channels, int64_t held) const {
    const int64_t used = (rows - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    const int64_t count = (columns - 1) * Cfg::SW + (Cfg::KW - 1) * Cfg::DW + 1;
    const int64_t h = oh * Cfg::SH - Cfg::PH, first = ow * Cfg::SW - Cfg::PW;
    const int64_t above = min64(max64(-h, 0), used), end = max64(above, min64(used, p.h - h));
    const int64_t left = min64(max64(-first, 0), count), there = min64(count, p.wd - first) - left;
    const bool brief = Cfg::SW <= 2 && kTakesFirst<T> && bordered && p.sw == 1 && there > 0 &&
                       there <= Cfg::SW * kL && left / Cfg::SW + kL < S::kPhase;
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t kd = held; kd < Cfg::KD; ++kd) {
        const int64_t d = od * Cfg::SD - Cfg::PD + kd * Cfg::DD;
        T* const out = lines + (c * Cfg::KD + slot(od, kd)) * S::kUsed * S::kLine;
        const bool in = uint64_t(d) < uint64_t(p.d);
        const int64_t from = in ? above : used, to = in ? end : used;
        if (from > 0) zero_row(out, from * S::kLine);
        if (to < used) zero_row(out + to * S::kLine, (used - to) * S::kLine);
        const A* const at = image + c * p.sc + d * p.sd + h * p.sh;
        if constexpr (Cfg::SW <= 2 && kTakesFirst<T>) {
          if (brief) {
            brief_lines(at + from * p.sh + first + left, to - from, left, there,
                        out + from * S::kLine);
            continue;
          }
        }
        for (int64_t r = from; r < to; ++r) line(at + r * p.sh, first, count, out + r * S::kLine);
      }
    }
  }

  // Where the plane of input lies that is under kernel plane kd: it stays there for the next output
  // planes.
  static AOT_INLINE int64_t slot(int64_t od, int64_t kd) {
    return S::kRing ? (od * Cfg::SD + kd) % Cfg::KD : kd;
  }

  // Where vectors of a block lie: `across` in each row, the last within it where there is room; in
  // which place the first plane of input does; of how many input channels there are lines; and how
  // far sums of those before are from where these go, or 0: there are none.
  struct Block {
    int64_t columns, rows, across, vectors, slot, inputs, before;
    AOT_INLINE int64_t planes() const { return (S::kChunks ? inputs : Cfg::IC) * Cfg::KD; }
  };
  struct Place {
    int64_t row, across;
  };

  // Sums of NV vectors from `place` on, which moves behind them, for CH channels.
  template <int CH, int NV>
  AOT_INLINE void sums(const Block& block, Place& place, const T* from_lines, const T* w,
                       T* out) const {
    const T* in[NV];
    T* to[NV];
    AOT_UNROLL for (int j = 0; j < NV; ++j) {
      const int64_t column = max64(0, min64(place.across * kL, block.columns - kL));
      in[j] = from_lines + place.row * Cfg::SH * S::kLine + column;
      to[j] = out + place.row * block.columns + column;
      if (++place.across == block.across) place = {place.row + 1, 0};
    }
    V acc[CH][NV];
    AOT_UNROLL for (int c = 0; c < CH; ++c) {
      AOT_UNROLL for (int j = 0; j < NV; ++j) acc[c][j] = Vec::zero();
    }
    int64_t kd = block.slot;
    for (int64_t k = 0; k < block.planes(); ++k) {
      const int64_t plane = k - k % Cfg::KD + kd;
      kd = next_slot(kd);
      for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
        const int64_t from = (plane * S::kUsed + kh * Cfg::DH) * S::kLine;
        AOT_UNROLL for (int64_t kw = 0; kw < Cfg::KW; ++kw, w += Cfg::OC) {
          const int64_t tap = from + tap_at(kw);
          V x[NV];
          AOT_UNROLL for (int j = 0; j < NV; ++j) x[j] = Vec::load(in[j] + tap);
          AOT_UNROLL for (int c = 0; c < CH; ++c) {
            const V weight = Vec::set1(w[c]);
            AOT_UNROLL for (int j = 0; j < NV; ++j) acc[c][j] = Vec::fma(x[j], weight, acc[c][j]);
          }
        }
      }
    }
    AOT_UNROLL for (int c = 0; c < CH; ++c) {
      // In order: what reaches beyond a narrow row is written again by the next one.
      AOT_UNROLL for (int j = 0; j < NV; ++j) put(block, to[j] + c * S::kLd, acc[c][j]);
    }
  }

  // Sums of a vector, with those of the channels before: these lie elsewhere, as vectors overlap.
  static AOT_INLINE void put(const Block& block, T* to, V sum) {
    if (S::kChunks && block.before != 0) sum += Vec::load(to + block.before);
    Vec::store(to, sum);
  }

  static AOT_INLINE int64_t next_slot(int64_t kd) { return kd + 1 == Cfg::KD ? 0 : kd + 1; }
  // Where the columns under a tap begin in a line.
  static AOT_INLINE int64_t tap_at(int64_t kw) {
    return kw * Cfg::DW % Cfg::SW * S::kPhase + kw * Cfg::DW / Cfg::SW;
  }

  // Rows of output that a lone channel computes at once: of equal strips, whose sums stay in
  // registers with the weights of a kernel column. 0: vectors go one by one.
  static constexpr int strip_rows() {
    const int64_t most = min64(kVectorRegisters - 2 - Cfg::KH, kMostStripRows);
    if (Cfg::KH == 1 || most < kLeastStripRows || Cfg::ROWS < kLeastStripRows) return 0;
    return int(ceil_div(Cfg::ROWS, ceil_div(Cfg::ROWS, most)));
  }

  // Sums of NV rows of one vector of columns, for one channel. Most vectors of input begin between
  // lines of cache: each is loaded once for all the rows that it is under.
  template <int NV>
  AOT_INLINE void strip(const Block& block, const T* in, const T* w, T* to) const {
    constexpr int64_t kRead = (NV - 1) * Cfg::SH + (Cfg::KH - 1) * Cfg::DH + 1;
    V acc[NV];
    AOT_UNROLL for (int j = 0; j < NV; ++j) acc[j] = Vec::zero();
    int64_t kd = block.slot;
    for (int64_t k = 0; k < block.planes(); ++k, w += Cfg::KH * Cfg::KW * Cfg::OC) {
      const T* const plane = in + (k - k % Cfg::KD + kd) * S::kUsed * S::kLine;
      kd = next_slot(kd);
      for (int64_t kw = 0; kw < Cfg::KW; ++kw) {
        V weight[Cfg::KH];
        AOT_UNROLL for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
          weight[kh] = Vec::set1(w[(kh * Cfg::KW + kw) * Cfg::OC]);
        }
        const T* const at = plane + tap_at(kw);
        AOT_UNROLL for (int64_t r = 0; r < kRead; ++r) {
          const V x = Vec::load(at + r * S::kLine);
          AOT_UNROLL for (int64_t kh = 0; kh < Cfg::KH; ++kh) {
            const int64_t row = r - kh * Cfg::DH, j = row / Cfg::SH;
            if (row >= 0 && row % Cfg::SH == 0 && j < NV) acc[j] = Vec::fma(x, weight[kh], acc[j]);
          }
        }
      }
    }
    // In order: what reaches beyond a narrow row is written again by the next one.
    AOT_UNROLL for (int j = 0; j < NV; ++j) put(block, to + j * block.columns, acc[j]);
  }

  // All vectors of a block for one channel. Of fewer rows than a strip has those behind them are
  // computed, too: there is room.
  template <int NV>
  __attribute__((noinline)) void strips(const Block& block, const T* from, const T* w,
                                        T* out) const {
    for (int64_t row = 0; row < block.rows; row += NV) {
      // The last strip overlaps the one before.
      const int64_t at = max64(0, min64(row, block.rows - NV));
      for (int64_t v = 0; v < block.across; ++v) {
        const int64_t column = max64(0, min64(v * kL, block.columns - kL));
        strip<NV>(block, from + at * Cfg::SH * S::kLine + column, w,
                  out + at * block.columns + column);
      }
    }
  }

  // All vectors of a block for CH channels.
  template <int CH>
  __attribute__((noinline)) void channels(const Block& block, const T* from, const T* w,
                                          T* out) const {
    if constexpr (CH == 1 && strip_rows() > 0) {
      // What lies behind a block's rows is zeros or of blocks before, where rows are bordered.
      constexpr int kStrip = strip_rows();
      const bool most = bordered && 2 * block.rows > kStrip;
      if (most || block.rows >= kStrip) return strips<kStrip>(block, from, w, out);
    }
    constexpr int kV = vectors_for(CH);
    Place place{0, 0};
    int64_t v = 0;
    for (; v + kV <= block.vectors; v += kV) sums<CH, kV>(block, place, from, w, out);
    if (v < block.vectors && v > 0) {  // the last group overlaps the one before
      v = block.vectors - kV;
      place = {v / block.across, v % block.across};
      sums<CH, kV>(block, place, from, w, out);
      return;
    }
    for (; v < block.vectors; ++v) sums<CH, 1>(block, place, from, w, out);
  }

  // Channels [o0, o1) of a group, from its lines and weights, into rows of the tile.
  void tile_of(const Block& block, const T* from, const T* w, int64_t o0, int64_t o1,
               T* rows) const {
    for (int64_t o = o0; o < o1;) {
      T* const out = rows + (o - o0) * S::kLd;
      if (o1 - o >= 4) {
        channels<4>(block, from, w + o, out);
        o += 4;
      } else if (o1 - o >= 2) {
        channels<2>(block, from, w + o, out);
        o += 2;
      } else {
        channels<1>(block, from, w + o, out);
        o += 1;
      }
    }
  }

  // Of `groups` groups from g on.
  const T* weights(int64_t g, int64_t groups) const {
    const A* const own = p.w + g * S::kK * Cfg::OC;
    if constexpr (S::kWiden) {
      widen_row(own, groups * S::kK * Cfg::OC, widened);
      return widened;
    } else {
      return own;
    }
  }

  // Hands pixels m on, of which the tile has `count` from `at` on, to the epilogue: channels
  // [c0, c1), turned.
  void hand_turned(int64_t m, int64_t count, int64_t c0, int64_t c1, const T* at) const {
    constexpr int64_t kTo = kPlanesChannels;
    for (int64_t i = 0; i < count; i += kPlanesTurn) {
      const int64_t pixels = min64(kPlanesTurn, count - i);
      for (int64_t r = 0; r < pixels; r += kL) {
        for (int64_t c = 0; c < c1 - c0; c += kL) {
          transpose_block(at + c * S::kLd + i + r, S::kLd, turned + r * kTo + c, kTo);
        }
      }
      epi(0, m + i, m + i + pixels, c0, c1, turned, kTo);
    }
  }

  // Hands a block's pixels from m on to the epilogue: channels [c0, c1), which lie at `at`. Rows
  // that are pieces of the output's are no run of pixels: they go one by one.
  void hand(int64_t m, const Block& block, int64_t c0, int64_t c1, const T* at) const {
    const bool whole = block.columns == p.ow;
    const int64_t count = whole ? block.rows * block.columns : block.columns;
    for (int64_t row = 0; row < (whole ? 1 : block.rows); ++row, m += p.ow, at += block.columns) {
      if constexpr (Cfg::LAST) {
        hand_turned(m, count, c0, c1, at);
      } else {
        epi(0, m, m + count, c0, c1, at, Cfg::LONE ? 1 : S::kLd);
      }
    }
  }

  // Output rows [oh, oh + rows) of one plane, its columns [ow, ow + columns), of some groups;
  // `held`: planes of input that are there.
  void block(int64_t n, int64_t g, int64_t groups, int64_t od, int64_t oh, int64_t rows, int64_t ow,
             int64_t columns, const T* w, int64_t held = 0) const {
    const A* const image = p.x + n * p.sn + g * Cfg::IC * p.sc;
    const int64_t inputs = groups * Cfg::IC;
    const int64_t across = ceil_div(columns, kL);
    const int64_t m = ((n * p.od + od) * p.oh + oh) * p.ow + ow;
    if constexpr (S::kChunks) {
      Block part{columns, rows, across, rows * across, 0, 0, 0};
      T* to = tile;
      for (int64_t c = 0; c < Cfg::IC; c += S::kInputs) {
        part.inputs = min64(S::kInputs, Cfg::IC - c);
        fill(image + c * p.sc, od, oh, rows, ow, columns, part.inputs, 0);
        tile_of(part, lines, w + c * S::kTaps * Cfg::OC, 0, Cfg::OC, to);
        part.before = to == tile ? -S::kTile : S::kTile;
        to -= part.before;
      }
      hand(m, part, g * Cfg::OC, (g + 1) * Cfg::OC, to + part.before);
      return;
    }
    if (Cfg::LAST && 4 * inputs >= kL) {
      fill_turned(image, od, oh, rows, ow, columns, inputs);
    } else {
      fill(image, od, oh, rows, ow, columns, inputs, held);
    }
    const Block all{columns, rows, across, rows * across, slot(od, 0), inputs, 0};
    for (int64_t o = 0; o < Cfg::OC; o += kPlanesChannels) {
      const int64_t end = min64(o + kPlanesChannels, Cfg::OC);
      for (int64_t k = 0; k < groups; ++k) {
        tile_of(all, lines + k * Cfg::IC * S::kChannel, w + k * S::kK * Cfg::OC, o, end,
                tile + k * Cfg::OC * S::kLd);
      }
      hand(m, all, g * Cfg::OC + o, (g + groups - 1) * Cfg::OC + end, tile);
    }
  }
};

}  // namespace detail

template <class Cfg>
constexpr int64_t planes_scratch() {
  using S = detail::PlanesShape<Cfg>;
  return (S::kTiles + S::kLines + S::kWeights + S::kTurned) * int64_t(sizeof(typename S::T));
}

template <class Cfg, class Epi>
void planes(const PlanesArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi) {
  static_assert(!Cfg::LONE || Cfg::OC == 1, "a lone channel is a group's only one");
  static_assert(Cfg::BUNDLE == 1 || (Cfg::LAST && Cfg::BUNDLE * Cfg::OC <= detail::kPlanesChannels),
                "a bundle is one tile, which is turned");
  static_assert(
      !detail::PlanesShape<Cfg>::kChunks || (!Cfg::LAST && Cfg::OC <= detail::kPlanesChannels),
      "channels of chunks are added in one tile");
  using R = detail::PlanesRun<Cfg, Epi>;
  using T = typename R::T;
  T* const at = static_cast<T*>(scratch);
  using S = typename R::S;
  T* const weights = at + S::kTiles + S::kLines;
  const bool bordered = !Cfg::LAST && p.ow <= Cfg::COLS;
  const R run{p, at, at + S::kTiles, weights, weights + S::kWeights, epi, bordered};
  if (bordered && begin < end) zero_row(run.lines, S::kLines);
  const int64_t steps = ceil_div(p.oh, Cfg::ROWS), bundles = ceil_div(Cfg::G, Cfg::BUNDLE);
  int64_t group = -1;
  const T* w = nullptr;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t od = u % p.od, block = u / p.od, image = block / steps;
    const int64_t g = image % bundles * Cfg::BUNDLE, n = image / bundles;
    const int64_t groups = min64(Cfg::BUNDLE, Cfg::G - g);
    const int64_t first = block % steps * Cfg::ROWS, last = min64(p.oh, first + Cfg::ROWS);
    if (g != group) w = run.weights(group = g, groups);
    if (p.ow <= Cfg::COLS) {
      const bool follows = S::kRing && od > 0 && u > begin;
      const int64_t held = follows ? Cfg::KD - Cfg::SD : 0;
      run.block(n, g, groups, od, first, last - first, 0, p.ow, w, held);
      continue;
    }
    for (int64_t ow = 0; ow < p.ow; ow += Cfg::COLS) {
      run.block(n, g, groups, od, first, last - first, ow, min64(Cfg::COLS, p.ow - ow), w);
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PLANES_H_
