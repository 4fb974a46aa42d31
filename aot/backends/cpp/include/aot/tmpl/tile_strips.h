// Products of bfloat16 in tiles, strip by strip: 32 rows by all panels, finished while they are in
// the first level of cache.
//
// Rows whose tiles would cross cache lines, or end inside one, are copied, a strip at a time: both
// tile registers' loads and the copy itself, which reads memory in its order, then take the least.
// So are rows whose k's lie apart.
// The last tiles of a depth are completed by zeros, so that a sum stays in its register for all of
// it. Strips are of one height; the last one begins earlier, and computes some rows again.
#ifndef AOT_TMPL_TILE_STRIPS_H_
#define AOT_TMPL_TILE_STRIPS_H_

#include "aot/tmpl/bf16.h"

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

// A depth as equal tiles: of its own k's where two more at most make them, else with zeros beyond.
struct TileDepth {
  int64_t count, step;
  explicit constexpr AOT_INLINE TileDepth(int64_t k)
      : count(ceil_div(k, Bf16Tiles::kStep)), step(round_up(ceil_div(k, count), 2)) {
    const int64_t equal = Bf16Tiles::equal_step(k, 1);
    if (equal > 0) {
      step = equal;
      count = k / equal;
    }
  }
  constexpr AOT_INLINE int64_t all() const { return count * step; }
};

// The first of 32 elements, and zeros in the place of the others.
struct FirstHalves {
#if defined(__AVX512F__)
  __mmask32 mask;
  explicit AOT_INLINE FirstHalves(int64_t n) : mask(__mmask32((uint64_t{1} << n) - 1)) {}
  AOT_INLINE void copy(const Bf16* from, float* to) const {
    _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
  }
#else
  int64_t n;
  explicit AOT_INLINE FirstHalves(int64_t n) : n(n) {}
  AOT_INLINE void copy(const Bf16* from, float* to) const {
    __builtin_memset(to, 0, 64);
    __builtin_memcpy(to, from, uint64_t(n) * sizeof(Bf16));
  }
#endif
};

// `b` has `all` k's of each panel, zeros beyond k; or what it has of the last tile is in `last`,
// a tile for each panel.
struct TileStrips {
  const Bf16* a;
  int64_t a_row;  // elements between rows
  int64_t mrows;
  int64_t k;
  const Bf16* b;
  int64_t panel_stride;  // elements
  const Bf16* last;      // or null
  int64_t panels;
  float* c;  // of one strip
  int64_t ldc;
  float* copy;  // of the rows of one strip, `copy_row` each; null: they are read where they lie
  int64_t a_col = 1;  // elements between k's; where those lie apart, rows are neighbours

  static constexpr int64_t kRows = 32;

  // Floats of a copied row: whole lines, an odd number of them, as rows of equal places in their
  // pages share sets of the first level of cache.
  static constexpr AOT_INLINE int64_t copy_row(int64_t k) {
    const int64_t lines = TileDepth(k).count;
    return (lines + 1 - lines % 2) * 16;
  }
  // Whether rows are copied first: what their last tiles have beyond them must be zeros, and tiles
  // whose rows cross lines take long to load, where many panels load them.
  static AOT_INLINE bool copies(int64_t k, int64_t row, int64_t panels) {
    return TileDepth(k).all() != k || (panels >= 8 && row % Bf16Tiles::kStep != 0);
  }
  // The last tile of each panel of a packed matrix, completed by zeros, to `to`.
  static void copy_last(const Bf16* b, int64_t panel_stride, int64_t panels, int64_t k, Bf16* to) {
    const TileDepth depth(k);
    const int64_t from = (depth.count - 1) * depth.step, there = (round_up(k, 2) - from) * kPanel;
    for (int64_t j = 0; j < panels; ++j, to += depth.step * kPanel) {
      __builtin_memcpy(to, b + j * panel_stride + from * kPanel, uint64_t(there) * sizeof(Bf16));
      __builtin_memset(to + there, 0, uint64_t(depth.step * kPanel - there) * sizeof(Bf16));
    }
  }

  struct Rows {
    const Bf16 *upper, *lower;
    int64_t row, piece;  // elements between rows, and between tiles
  };

  template <bool BELOW, bool RIGHT>
  AOT_INLINE void block(const Rows& rows, int64_t j, float* below, const char*& fetch,
                        int64_t lines) const {
    const TileDepth depth(k);
    const int64_t a_bytes = rows.row * 2, c_bytes = ldc * 4, tile = depth.step * kPanel;
    const Bf16* bt = b + j * panel_stride;
    int64_t right = panel_stride;
    Tiles::zero<0>();
    if (RIGHT) Tiles::zero<1>();
    if (BELOW) Tiles::zero<2>();
    if (BELOW && RIGHT) Tiles::zero<3>();
    for (int64_t s = 0; s < depth.count; ++s) {
      if (last != nullptr && s + 1 == depth.count) {
        bt = last + j * tile;
        right = tile;
      }
      Tiles::load<6>(bt, 64);
      Tiles::load<4>(rows.upper + s * rows.piece, a_bytes);
      Tiles::dot<0, 4, 6>();
      if (BELOW) {
        Tiles::load<5>(rows.lower + s * rows.piece, a_bytes);
        Tiles::dot<2, 5, 6>();
      }
      if (RIGHT) {
        Tiles::load<7>(bt + right, 64);
        Tiles::dot<1, 4, 7>();
        if (BELOW) Tiles::dot<3, 5, 7>();
      }
      for (int64_t i = 0; i < lines; ++i) __builtin_prefetch(fetch + i * 64, 0, 2);
      fetch += lines * 64;
      bt += tile;
    }
    float* const ct = c + j * kPanel;
    Tiles::store<0>(ct, c_bytes);
    if (RIGHT) Tiles::store<1>(ct + kPanel, c_bytes);
    if (BELOW) Tiles::store<2>(below + j * kPanel, c_bytes);
    if (BELOW && RIGHT) Tiles::store<3>(below + j * kPanel + kPanel, c_bytes);
  }

  // `count` rows from `from` on, each tile of them beginning in a line.
  AOT_INLINE void copy_rows(const Bf16* from, int64_t count) const {
    const TileDepth depth(k);
    const int64_t ld = copy_row(k), whole = depth.count - 1;
    const FirstHalves piece(depth.step), end(k - whole * depth.step);
    float* to = copy;
    for (int64_t i = 0; i < count; ++i, from += a_row, to += ld) {
      for (int64_t s = 0; s < whole; ++s) piece.copy(from + s * depth.step, to + s * 16);
      end.copy(from + whole * depth.step, to + whole * 16);
    }
  }

  // Asks for the line of each of `ks` k's of the next strip's rows, which are neighbours.
  AOT_INLINE void bring_lines(const Bf16* from, int64_t ks) const {
    for (int64_t q = 0; q < ks; ++q) __builtin_prefetch(from + q * a_col);
  }

  // done(first row, last row, C's first row's results).
  template <class Done>
  void run(const Done& done) const {
    const TileDepth depth(k);
    const int64_t height = ceil_div(mrows, ceil_div(mrows, 16)), strip = 2 * height;
    Tiles::Shape shape{};
    shape.palette = 1;
    for (int i = 0; i < 8; ++i) {
      shape.rows[i] = uint8_t(i < 6 ? height : depth.step / 2);
      shape.row_bytes[i] = i == 4 || i == 5 ? uint16_t(2 * depth.step) : 64;
    }
    Tiles::configure(shape);
    const int64_t steps = ceil_div(panels, 2) * depth.count;
    const int64_t lines = a_col == 1 ? ceil_div(strip * a_row * 2, 64 * steps) : 0;
    for (int64_t i = 0; i < mrows; i += strip) {
      const int64_t count = min64(strip, mrows - i), first = count < height ? mrows - height : i;
      const bool under = count > height;
      const int64_t lower = under ? count - height : 0;  // from `first` on
      Rows rows{a + first * a_row, a + (first + lower) * a_row, a_row, depth.step};
      if (copy != nullptr) {
        const int64_t ld = 2 * copy_row(k), copied = under ? count : height;
        if (a_col == 1) {
          copy_rows(rows.upper, copied);
        } else {
          copy_pairs(rows.upper, 1, a_col, copied, k, copy, copy_row(k));
          bring_lines(a + i + strip, i + strip < mrows ? k : 0);
        }
        const Bf16* const at = reinterpret_cast<const Bf16*>(copy);
        rows = {at, at + lower * ld, ld, a_col == 1 ? Bf16Tiles::kStep : depth.step};
      }
      float* const below = c + lower * ldc;
      const char* fetch = reinterpret_cast<const char*>(a + (i + strip) * a_row);
      for (int64_t j = 0; j < panels; j += 2) {
        const bool right = j + 1 < panels;
        if (under && right) {
          block<true, true>(rows, j, below, fetch, lines);
        } else if (under) {
          block<true, false>(rows, j, below, fetch, lines);
        } else if (right) {
          block<false, true>(rows, j, below, fetch, lines);
        } else {
          block<false, false>(rows, j, below, fetch, lines);
        }
      }
      done(i, i + count, c + (i - first) * ldc);
    }
    Tiles::release();
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_TILE_STRIPS_H_
