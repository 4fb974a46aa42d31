// Products of float32 and float16 by tiles of bfloat16, on machines that have them (bf16.h).
//
// A float is the sum of three bfloat16: itself rounded to one, what that leaves rounded to one, and
// the rest, which then is one. Of the nine products of two such sums the six greatest are taken,
//   a b = a0 b0 + (a0 b1 + a1 b0) + (a0 b2 + a1 b1 + a2 b0) + less than 2^-25 |a b|,
// each of which is exact in a float, and added in floats. Tiles make 16 products in the time of one
// of vectors, so that six of them take three eighths of it. A float16 is the sum of two, and all
// four products are taken: each is exact.
//
// Tiles take subnormal numbers for zeros, an infinity has no such pieces, and sums of pieces must
// not overflow: rows and panels whose greatest magnitude is out of a range are multiplied by
// vectors. That depends on a row or a panel alone, so not on how work is divided. Of float16 only
// infinities and NaN are out of it.
#ifndef AOT_TMPL_PIECES_H_
#define AOT_TMPL_PIECES_H_

#include "aot/tmpl/bf16.h"

namespace aot::tmpl {

// How pieces lie, so many of an element, and what room they need.
template <int PIECES>
struct PieceSizes {
  static constexpr int64_t kStep = 32;    // k's of a tile
  static constexpr int64_t kTile = 1024;  // bytes of a tile
  static constexpr int64_t kSet = PIECES * kTile;
  static constexpr int64_t kTileRows = 16;
  static constexpr int64_t kStrip = 2 * kTileRows;  // rows that are multiplied at once
  static constexpr int64_t steps(int64_t depth) { return ceil_div(depth, kStep); }
  static constexpr int64_t pairs(int64_t columns) { return ceil_div(columns, 2 * kPanel); }
  // Bytes of scratch beside C: pieces of two strips and of `columns` by `depth` k's at a time, a
  // row of all `k`, and which of `rows` and panels are out of range.
  static constexpr int64_t scratch(int64_t k, int64_t depth, int64_t columns, int64_t rows) {
    return steps(depth) * (4 + 2 * pairs(columns)) * kSet + round_up(k, kStep) * 4 +
           round_up(rows, 64) + round_up(2 * pairs(columns), 64);
  }
};

// Pieces of an element of a type that has them.
template <class E>
inline constexpr int kPiecesOf = std::is_same_v<E, float> ? 3
                                 : std::is_same_v<E, F16> ? 2
                                                          : 0;

#if defined(AOT_TMPL_BF16_UNITS)

typedef float PieceFloats __attribute__((vector_size(64)));
typedef uint32_t PieceWords __attribute__((vector_size(64)));

// Magnitudes, as the bits of floats.
template <int PIECES>
struct PieceRange {
  static constexpr uint32_t kLeast = PIECES == 3 ? (127 - 50) << 23 : 0;
  static constexpr uint32_t kMost = (127 + 50) << 23;

  PieceWords greatest{};

  AOT_INLINE void see(PieceFloats v) {
    const PieceWords bits = PieceWords(v) & 0x7fffffffu;
    greatest = bits > greatest ? bits : greatest;
  }
  // Whether the greatest of each lane is within the range, or zero.
  AOT_INLINE bool each_inside() const { return !any(greatest >= kMost) && !any_little(); }
  // Whether the greatest of all lanes is.
  AOT_INLINE bool inside() const {
    return !any(greatest >= kMost) && (any(greatest >= kLeast) || !any(greatest != 0));
  }

 private:
  AOT_INLINE bool any_little() const { return any((greatest != 0) & (greatest < kLeast)); }
  template <class Mask>
  static AOT_INLINE bool any(Mask mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask(__m512i(mask), __m512i(mask)) != 0;
#else
    int32_t found = 0;
    for (int i = 0; i < 16; ++i) found |= mask[i];
    return found != 0;
#endif
  }
};

// The first n of 16 elements, which alone exist, and zeros.
template <class E>
AOT_INLINE PieceFloats load_piece(const E* at, int64_t n) {
#if defined(__AVX512F__)
  return PieceFloats(load_first<float>(at, n));
#else
  float part[16] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = widen(at[i]);
  PieceFloats v;
  __builtin_memcpy(&v, part, sizeof(v));
  return v;
#endif
}
template <class E>
AOT_INLINE PieceFloats load_piece(const E* at) {
  if constexpr (std::is_same_v<E, float>) {
    PieceFloats v;
    __builtin_memcpy(&v, at, sizeof(v));
    return v;
  } else {
    return load_piece(at, 16);
  }
}

// The pieces of two vectors, a pair of one element of either in each lane; a tile apart. Each but
// the last is rounded, of two the first cut off: the rest has no more digits then.
template <int PIECES>
AOT_INLINE void cut_pieces(PieceFloats low, PieceFloats high, char* out) {
  AOT_UNROLL for (int piece = 0; piece < PIECES; ++piece) {
    const uint32_t half = piece + 1 < PIECES && PIECES > 2 ? 0x8000u : 0;
    const PieceWords l = (PieceWords(low) + half) & 0xffff0000u;
    const PieceWords h = (PieceWords(high) + half) & 0xffff0000u;
    const PieceWords pairs = l >> 16 | h;
    __builtin_memcpy(out + piece * PieceSizes<PIECES>::kTile, &pairs, sizeof(pairs));
    low -= PieceFloats(l);
    high -= PieceFloats(h);
  }
}

// B as the cutter reads it: k's of panel j are rows from b + j * panel_stride on, `step` apart, of
// which those of the first `columns` exist.
template <class E>
struct PiecePanels {
  const E* b;
  int64_t panel_stride, step, columns;
  AOT_INLINE const E* at(int64_t j, int64_t k) const { return b + j * panel_stride + k * step; }
  AOT_INLINE int64_t there(int64_t j) const { return min64(columns - j * kPanel, kPanel); }
};

// C = rows * B, in PIECES of an element. A row is TAPS runs of RUN elements of A, chunks of DEPTH
// k's are multiplied one after the other: all of them, or a multiple of kStep that several runs are
// multiples of, too.
template <int PIECES, class A, class B, int64_t TAPS, int64_t RUN, int64_t DEPTH>
struct PieceProduct {
  using P = PieceSizes<PIECES>;
  using Range = PieceRange<PIECES>;
  static constexpr int64_t kK = TAPS * RUN;
  static constexpr bool kWhole = RUN % P::kStep == 0;
  static constexpr bool kJoined = TAPS > 1 && !kWhole;  // runs are joined into a row of their own
  static constexpr bool kAtOnce = DEPTH >= kK;
  static_assert(kAtOnce || (!kJoined && DEPTH % P::kStep == 0), "chunks are of whole steps");
  static constexpr int64_t kSteps = P::steps(kAtOnce ? kK : DEPTH);

  const A* const* rows;  // rows[t * tap_stride + i] of a strip; of each second kStrip behind
  int64_t tap_stride;
  float* c;  // of a strip where all of K is multiplied at once, else of all rows
  int64_t ldc;
  char* a;           // [2 strips][steps][upper and lower rows][pieces]
  char* b;           // [pairs of panels][steps][2 panels][pieces]
  A* line;           // a row whose runs are joined
  uint8_t* odd_row;  // 1: out of the range
  uint8_t* odd_panel;
  mutable int64_t shape[2] = {0, 0};

  PieceProduct(const A* const* pointers, int64_t stride, float* to, int64_t ld, char* scratch,
               int64_t columns, int64_t most_rows)
      : rows(pointers), tap_stride(stride), c(to), ldc(ld) {
    a = scratch;
    b = a + 4 * kSteps * P::kSet;
    line = reinterpret_cast<A*>(b + 2 * P::pairs(columns) * kSteps * P::kSet);
    odd_row = reinterpret_cast<uint8_t*>(line) + round_up(kK, P::kStep) * 4;
    odd_panel = odd_row + round_up(most_rows, 64);
    if (kJoined) __builtin_memset(line + kK, 0, (round_up(kK, P::kStep) - kK) * sizeof(A));
  }

  // Rows [0, mrows) by `panels` of B. point(i0, i1, place) sets the pointers of some rows from
  // rows[place] on, part(i0, i1, C) gets their results. `fresh`: B's pieces are not those of the
  // last call. While a strip is multiplied, the next one's rows are cut.
  template <class Point, class Part>
  AOT_INLINE void run(int64_t mrows, const PiecePanels<B>& from, int64_t panels, bool fresh,
                      const Point& point, const Part& part) const {
    const int64_t height = ceil_div(mrows, ceil_div(mrows, P::kTileRows)), strip = 2 * height;
    for (int64_t k0 = 0; k0 < kK; k0 += DEPTH) {
      const int64_t depth = min64(DEPTH, kK - k0);
      if (fresh || !kAtOnce) cut_panels(from, panels, k0, depth);
      const auto begin = [&](int64_t i0) {
        const int64_t parity = i0 / strip % 2, place = parity * P::kStrip;
        const int64_t count = max64(0, min64(strip, mrows - i0));
        if (count > 0) point(i0, i0 + count, place);
        return Cutter(*this, place, count, height, k0, depth, odd_row + (kAtOnce ? place : i0));
      };
      begin(0).finish();
      for (int64_t i0 = 0; i0 < mrows; i0 += strip) {
        const int64_t place = i0 / strip % 2 * P::kStrip, count = min64(strip, mrows - i0);
        float* const to = c + (kAtOnce ? 0 : i0 * ldc);
        const Cutter next = begin(i0 + strip);
        configure(min64(count, height), max64(0, count - height));
        multiply(place, count, height, panels, k0, depth, from, i0 / strip, ceil_div(mrows, strip),
                 to, next)
            .finish();
        if (k0 + depth == kK) {
          mend(place, count, from, panels, to, odd_row + (kAtOnce ? place : i0));
          part(i0, i0 + count, to);
        }
      }
    }
  }

  AOT_INLINE void release() const {
    Tiles::release();
    shape[0] = shape[1] = 0;
  }

 private:
  // Tiles 0-3 hold C (upper left, upper right, lower left, lower right), 4-5 A, 6-7 B.
  AOT_INLINE void configure(int64_t upper, int64_t lower) const {
    if (upper == shape[0] && lower == shape[1]) return;  // setting it takes 200 cycles
    shape[0] = upper;
    shape[1] = lower;
    Tiles::Shape tiles{};
    tiles.palette = 1;
    const int64_t heights[8] = {upper, upper, lower, lower, upper, lower, 16, 16};
    for (int i = 0; i < 8; ++i) {
      tiles.rows[i] = uint8_t(heights[i]);
      tiles.row_bytes[i] = heights[i] == 0 ? 0 : 64;
    }
    Tiles::configure(tiles);
  }

  // The pieces of panels of B, k's [k0, k0 + depth).
  void cut_panels(const PiecePanels<B>& from, int64_t panels, int64_t k0, int64_t depth) const {
    for (int64_t j = 0; j < panels; ++j) {
      const int64_t there = from.there(j);
      const B* const at = from.at(j, k0);
      if (there == kPanel) {
        cut_panel(at, from.step, j, k0, depth, [](const B* row) { return load_piece(row); });
      } else {
        cut_panel(at, from.step, j, k0, depth,
                  [there](const B* row) { return load_piece(row, there); });
      }
    }
  }
  template <class Load>
  AOT_INLINE void cut_panel(const B* at, int64_t step, int64_t j, int64_t k0, int64_t depth,
                            const Load& load) const {
    char* out = b + (j / 2 * kSteps * 2 + j % 2) * P::kSet;
    Range range;
    for (int64_t k = 0; k < depth; k += P::kStep, out += 2 * P::kSet) {
      for (int64_t r = 0; r < P::kTileRows; ++r) {
        const int64_t first = k + r, second = first + P::kTileRows;
        const PieceFloats low = first < depth ? load(at + first * step) : PieceFloats{};
        const PieceFloats high = second < depth ? load(at + second * step) : PieceFloats{};
        range.see(low);
        range.see(high);
        cut_pieces<PIECES>(low, high, out + r * 64);
      }
    }
    odd_panel[j] = uint8_t((k0 > 0 && odd_panel[j] != 0) || !range.each_inside());
  }

  // Makes the pieces of a strip's rows, k's [k0, k0 + depth), a step of a row at a time.
  struct Cutter {
    const PieceProduct& p;
    const A* const* rows;
    int64_t count, height, k0, depth;
    uint8_t* odd;
    char* to;
    int64_t i = 0, k = 0;  // what comes next
    const A* at = nullptr;
    char* out = nullptr;
    Range range{};

    AOT_INLINE Cutter(const PieceProduct& product, int64_t place, int64_t rows_of_strip,
                      int64_t tile_rows, int64_t first, int64_t ks, uint8_t* marks)
        : p(product),
          rows(product.rows + place),
          count(rows_of_strip),
          height(tile_rows),
          k0(first),
          depth(ks),
          odd(marks),
          to(product.a + place / P::kStrip * 2 * kSteps * P::kSet) {
      if (count > 0) row();
    }
    AOT_INLINE void row() {
      out = i < height ? to + i * 64 : to + P::kSet + (i - height) * 64;
      range = Range{};
      k = 0;
      if constexpr (kJoined) {
        for (int64_t t = 0; t < TAPS; ++t) {
          __builtin_memcpy(p.line + t * RUN, rows[t * p.tap_stride + i], RUN * sizeof(A));
        }
        at = p.line;
      } else {
        at = rows[k0 / RUN * p.tap_stride + i] + k0 % RUN;
      }
    }
    AOT_INLINE void step() {
      const int64_t left = kWhole || kJoined ? P::kStep : RUN - k0 - k;  // of the row
      PieceFloats low, high;
      if (left >= P::kStep) {
        low = load_piece(at);
        high = load_piece(at + P::kTileRows);
      } else {
        low = load_piece(at, min64(left, P::kTileRows));
        high = load_piece(at + P::kTileRows, max64(left - P::kTileRows, 0));
      }
      range.see(low);
      range.see(high);
      cut_pieces<PIECES>(low, high, out);
      out += 2 * P::kSet;
      at += P::kStep;
      k += P::kStep;
      if (k >= depth) {
        odd[i] = uint8_t((k0 > 0 && odd[i] != 0) || !range.inside());
        if (++i < count) row();
      } else if (TAPS > 1 && !kJoined && (k0 + k) % RUN == 0) {
        at = rows[(k0 + k) / RUN * p.tap_stride + i];
      }
    }
    AOT_INLINE void some(int64_t steps) {
      for (; steps > 0 && i < count; --steps) step();
    }
    __attribute__((noinline)) void finish() {
      while (i < count) step();
    }
  };

  // What is fetched while a block is multiplied, lines of cache a step.
  struct Fetch {
    const char* at;
    int64_t lines, next;  // lines a step; bytes to the next step's
    AOT_INLINE void step() {
      for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(at + i * 64, 0, 2);
      at += next;
    }
  };

  // One block of C, BELOW: it has rows for the lower tiles, RIGHT: two panels.
  template <bool BELOW, bool RIGHT>
  AOT_INLINE void block(const char* strip, const char* pair, int64_t steps, float* ct,
                        float* ct_below, bool onto, Fetch fetch, Fetch fetch_right, Cutter& cutter,
                        int64_t cuts) const {
    constexpr int64_t kRow = 64;
    const int64_t c_bytes = ldc * 4;
    Tiles::zero<0>();
    if (RIGHT) Tiles::zero<1>();
    if (BELOW) Tiles::zero<2>();
    if (BELOW && RIGHT) Tiles::zero<3>();
    const auto load_a = [&](int piece) {
      Tiles::load<4>(strip + piece * P::kTile, kRow);
      if (BELOW) Tiles::load<5>(strip + P::kSet + piece * P::kTile, kRow);
    };
    const auto load_b = [&](int piece) {
      Tiles::load<6>(pair + piece * P::kTile, kRow);
      if (RIGHT) Tiles::load<7>(pair + P::kSet + piece * P::kTile, kRow);
    };
    const auto dot = [&] {
      Tiles::dot<0, 4, 6>();
      if (BELOW) Tiles::dot<2, 5, 6>();
      if (RIGHT) Tiles::dot<1, 4, 7>();
      if (BELOW && RIGHT) Tiles::dot<3, 5, 7>();
    };
    const char *const first_of_strip = strip, *const first_of_pair = pair;
    for (int64_t s = 0; PIECES == 2 && s < steps; ++s) {
      load_a(1);
      load_b(0);
      dot();
      load_a(0);
      dot();
      fetch.step();
      cutter.some(ceil_div(cuts, 2));
      load_b(1);
      dot();
      load_a(1);
      dot();
      fetch_right.step();
      cutter.some(cuts / 2);
      strip += 2 * P::kSet;
      pair += 2 * P::kSet;
    }
    // Small products of all k's first: their sums are rounded to less than what comes then.
    for (int64_t s = 0; PIECES == 3 && s < steps; ++s) {
      load_a(2);
      load_b(0);
      dot();
      load_a(1);
      dot();
      fetch.step();
      cutter.some(ceil_div(cuts, 2));
      load_b(1);
      dot();
      load_a(0);
      dot();
      load_b(2);
      dot();
      fetch_right.step();
      cutter.some(cuts / 2);
      strip += 2 * P::kSet;
      pair += 2 * P::kSet;
    }
    strip = first_of_strip;
    pair = first_of_pair;
    for (int64_t s = 0; PIECES == 3 && s < steps; ++s) {
      load_a(0);
      load_b(0);
      dot();
      strip += 2 * P::kSet;
      pair += 2 * P::kSet;
    }
    alignas(64) float sums[kAtOnce ? 1 : P::kStrip * P::kStrip];
    float* const up = onto ? sums : ct;
    float* const down = onto ? sums + P::kTileRows * P::kStrip : ct_below;
    const int64_t bytes = onto ? P::kStrip * 4 : c_bytes;
    Tiles::store<0>(up, bytes);
    if (RIGHT) Tiles::store<1>(up + kPanel, bytes);
    if (BELOW) Tiles::store<2>(down, bytes);
    if (BELOW && RIGHT) Tiles::store<3>(down + kPanel, bytes);
    if (!kAtOnce && onto) {
      add_rows<RIGHT>(sums, shape[0], ct);
      if (BELOW) add_rows<RIGHT>(sums + P::kTileRows * P::kStrip, shape[1], ct_below);
    }
  }

  // Adds a chunk's sums to C.
  template <bool RIGHT>
  AOT_INLINE void add_rows(const float* sums, int64_t count, float* to) const {
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t n = 0; n < (RIGHT ? 2 : 1) * kPanel; n += kPanel) {
        const PieceFloats sum = load_piece(to + r * ldc + n) + load_piece(sums + r * P::kStrip + n);
        __builtin_memcpy(to + r * ldc + n, &sum, sizeof(sum));
      }
    }
  }

  // A strip by all panels; gives what it leaves of the cutter. Kernels of equal depths share it: it
  // is most of a product's code. Meanwhile the rows behind it are fetched, where all of K is
  // multiplied at once, or this strip's share of B's next chunk.
  AOT_SHARED Cutter multiply(int64_t place, int64_t count, int64_t height, int64_t panels,
                             int64_t k0, int64_t depth, const PiecePanels<B>& from, int64_t strip,
                             int64_t strips, float* to, Cutter cutter) const {
    const int64_t steps = P::steps(depth);
    const char* const pieces = a + place / P::kStrip * 2 * kSteps * P::kSet;
    const int64_t cuts = ceil_div(P::kStrip, ceil_div(panels, 2));
    const bool more = TAPS == 1 && kAtOnce && cutter.count > 0;
    const int64_t wanted = more ? cutter.count * ceil_div(RUN * int64_t(sizeof(A)), 64) : 0;
    const char* ahead = reinterpret_cast<const char*>(rows[place]);
    if (more) ahead = reinterpret_cast<const char*>(cutter.rows[cutter.count - 1] + RUN);
    const int64_t lines = ceil_div(wanted, ceil_div(panels, 2) * steps);
    const int64_t first = P::kStep * strip / strips, last = P::kStep * (strip + 1) / strips;
    for (int64_t j = 0; j < panels; j += 2) {
      const char* const pair = b + j * kSteps * P::kSet;
      float* const ct = to + j * kPanel;
      float* const below = ct + height * ldc;
      Fetch one{ahead, lines, lines * 64}, two{ahead, 0, 0};
      if constexpr (!kAtOnce) {
        if (k0 + depth < kK && from.step * sizeof(B) == 64) {
          const B* const next = from.at(j, k0 + depth + first);
          one = {reinterpret_cast<const char*>(next), last - first, P::kStep * 64};
          two = one;
          if (j + 1 < panels) two.at = reinterpret_cast<const char*>(next + from.panel_stride);
        }
      }
      const bool onto = k0 > 0, right = j + 1 < panels;
      if (count > height && right) {
        block<true, true>(pieces, pair, steps, ct, below, onto, one, two, cutter, cuts);
      } else if (count > height) {
        block<true, false>(pieces, pair, steps, ct, below, onto, one, two, cutter, cuts);
      } else if (right) {
        block<false, true>(pieces, pair, steps, ct, below, onto, one, two, cutter, cuts);
      } else {
        block<false, false>(pieces, pair, steps, ct, below, onto, one, two, cutter, cuts);
      }
      ahead += lines * 64 * steps;
    }
    return cutter;
  }

  // Multiplies by vectors what is out of the range.
  AOT_INLINE void mend(int64_t place, int64_t count, const PiecePanels<B>& from, int64_t panels,
                       float* to, const uint8_t* odd) const {
    uint8_t some = 0;
    for (int64_t i = 0; i < count; ++i) some = uint8_t(some | odd[i]);
    for (int64_t j = 0; j < panels; ++j) some = uint8_t(some | odd_panel[j]);
    if (__builtin_expect(some != 0, 0)) mend_some(place, count, from, panels, to, odd);
  }

  __attribute__((noinline, cold)) void mend_some(int64_t place, int64_t count,
                                                 const PiecePanels<B>& from, int64_t panels,
                                                 float* to, const uint8_t* odd) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < panels; ++j) {
        if (odd[i] == 0 && odd_panel[j] == 0) continue;
        PieceFloats sum{};
        const int64_t there = from.there(j);
        for (int64_t k = 0; k < kK; ++k) {
          const float x = widen(rows[k / RUN * tap_stride + place + i][k % RUN]);
          sum += x * load_piece(from.at(j, k), there);
        }
        __builtin_memcpy(to + i * ldc + j * kPanel, &sum, sizeof(sum));
      }
    }
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_PIECES_H_
