// Shallow products of bfloat16 by the machine's dot products of pairs: a part of matmul.h.
//
// What is done once for each result or element of an operand takes as long here as the products.
// So rows of A whose k's lie across are not turned: pairs of two k's are neighbours for all rows,
// like B's. And results that are only rounded go from registers to where they belong.
#ifndef AOT_TMPL_MATMUL_SHALLOW_H_
#define AOT_TMPL_MATMUL_SHALLOW_H_

#include "aot/tmpl/matmul_call.h"
#include "aot/tmpl/rounded.h"

namespace aot::tmpl {

#if defined(AOT_TMPL_BF16_UNITS)

// B in panels of pairs, of which results are sums in float.
struct PairPanels : PanelsOfB<float> {
  using Op = Bf16Dot;
};

// The same where results are bfloat16. Dot products of pairs leave no number that is too small for
// a normal one, so that rounding loses none, as the instruction otherwise would.
struct RoundedPairPanels : PairPanels {
  using Result = Bf16;
  using V = Simd<float>::V;
  static constexpr int kL = Simd<float>::kLanes;

  // As Rounded has it.
  template <int NV>
  static AOT_INLINE void store(Bf16* to, const V (&row)[NV], int64_t last) {
    Rounded::store(to, row, last);
  }
};

// The same of sums to each of which its column's own number is added.
struct AddingPairPanels : RoundedPairPanels {
  static constexpr bool kAdds = true;
  const Bf16* addend;  // of the first panel's first column

  // Of NV vectors of columns, of the last one `last` elements.
  template <int NV>
  AOT_INLINE void addends(V (&to)[NV], int64_t last) const {
    const Bf16* const from = addend + first * kL;
    AOT_UNROLL for (int j = 0; j + 1 < NV; ++j) to[j] = load_widened<float>(from + j * kL);
    to[NV - 1] = V(load_first_words(from + (NV - 1) * kL, last) << 16);
  }
};

// dst[k * ld + i]: elements 2 k and 2 k + 1 of row i of `rows` that are neighbours, k's `col`
// apart, the last one completed by a zero. Up to a whole vector is written behind the last row.
inline void pair_rows(const Bf16* src, int64_t col, int64_t rows, int64_t kc, float* dst,
                      int64_t ld) {
  using S = Simd<float>;
  for (int64_t k = 0; k < kc; k += 2, src += 2 * col, dst += ld) {
    for (int64_t i = 0; i < rows; i += S::kLanes) {
      S::Words pair = load_first_words(src + i, rows - i);
      if (k + 1 < kc) pair |= load_first_words(src + col + i, rows - i) << 16;
      S::store(dst + i, S::V(pair));
    }
  }
}

namespace detail {

template <class Cfg, class Epi>
struct ShallowRun {
  static constexpr int64_t kPairs = ceil_div(Cfg::K, 2);
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>(), kCopyLd = Cfg::KB + kPanel;
  static constexpr bool kAcross = Cfg::A_ALONG == Along::kAcross;
  static constexpr int64_t kRows = min64(Cfg::M, Cfg::MB);
  static constexpr int64_t kRowsLd = round_up(kRows, kPanel) + kPanel;  // of pairs across
  // Columns at a time: those that a tile has room for, or that B is packed for.
  static constexpr int64_t kMost = Cfg::ROUNDED && !Cfg::STRIDED_B ? Cfg::NB : Cfg::NC;
  static constexpr int64_t kColumns = min64(min64(Cfg::NB, Cfg::N), kMost);

  // Whether strips are finished one by one: an epilogue may read as much as it writes, which a
  // whole tile of a small product reads in longer runs.
  static constexpr bool kByStrips = Cfg::ROUNDED || (Cfg::M > Cfg::MC && kPairs <= kChain / 2);

  // Whether products of a configuration are such: all of K is one chain of sums in registers. Of
  // few rows it is the reading of B that counts.
  static constexpr bool kIs = std::is_same_v<typename Cfg::A, Bf16> &&
                              std::is_same_v<typename Cfg::B, Bf16> && Cfg::M > 9 && Cfg::N > 0 &&
                              Cfg::K > 0 && kPairs <= min64(kChain, Cfg::KB) && kByStrips &&
                              (!Cfg::STRIDED_B || (Cfg::PACKED > 0 && Cfg::NB <= Cfg::NC)) &&
                              (!kAcross || kPairs * kRowsLd <= Cfg::MC * kCopyLd);

  static constexpr DirectShape kShape = direct_shape<float>(kRows, kColumns, kPairs);
  static constexpr Pieces strips_of(int64_t rows) { return {rows, kShape.rows}; }
  static constexpr Pieces groups_of(int64_t columns) {
    return {ceil_div(columns, Simd<float>::kLanes), kShape.vectors};
  }
  static constexpr DirectCuts sizes() {
    DirectCuts found{0, 0};
    for (const int64_t rows : {kRows, Cfg::M % Cfg::MB}) {
      if (rows > 0) found.rows |= sizes_of(strips_of(rows));
    }
    for (const int64_t unit : {min64(Cfg::NB, Cfg::N), Cfg::N % Cfg::NB}) {
      for (const int64_t columns : {min64(kColumns, unit), unit % kColumns}) {
        if (columns > 0) found.vectors |= sizes_of(groups_of(columns));
      }
    }
    return found;
  }

  using Rounded = std::conditional_t<Cfg::ADDS, AddingPairPanels, RoundedPairPanels>;
  using Source = std::conditional_t<Cfg::ROUNDED, Rounded, PairPanels>;
  using Args = DirectArgs<float, Source>;
  using Result = typename Source::Result;

  const MatmulArgs<Cfg>& p;
  float* tile;
  float* copy;    // of rows of A
  float* panels;  // of B
  const Epi& epi;

  void rectangle(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    if constexpr (Cfg::STRIDED_B) {
      for (int64_t n = n0; n < n1; n += Cfg::NB) {
        const int64_t end = min64(n1, n + Cfg::NB);
        const Bf16* const from = p.b + b * p.b_batch + n * p.b_col;
        pack_pairs(from, p.b_row, p.b_col, Cfg::K, end - n, panels, kPairs * kPanel);
        rows(b, m0, m1, n, end, panels);
      }
    } else {
      const Bf16* const from =
          p.b + b * p.b_batch + n0 / kPanel * packed_rows<Bf16>(Cfg::K) * kPanel;
      rows(b, m0, m1, n0, n1, reinterpret_cast<const float*>(from));
    }
  }

 private:
  // All rows by columns whose panels are at `from`.
  AOT_INLINE void rows(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                       const float* from) const {
    for (int64_t m = m0; m < m1; m += Cfg::MB) {
      const int64_t end = min64(m1, m + Cfg::MB);
      Args args{};
      bring_a(p.a + b * p.a_batch + m * p.a_row, end - m, args);
      args.k = kPairs;
      for (int64_t unit = n0; unit < n1; unit += Cfg::NB) {
        const int64_t last = min64(n1, unit + Cfg::NB);
        for (int64_t n = unit; n < last; n += kColumns) {
          args.b.b = from + (n - n0) * kPairs;
          args.b.panel = kPairs * kPanel;
          if constexpr (Source::kAdds) args.b.addend = p.addend + n;
          block(b, m, end, n, min64(last, n + kColumns), args);
        }
      }
    }
  }

  // Where pairs of so many rows lie, or are brought to.
  AOT_INLINE void bring_a(const Bf16* first, int64_t rows, Args& args) const {
    if constexpr (kAcross) {
      pair_rows(first, p.a_col, rows, Cfg::K, copy, kRowsLd);
      args.a = copy, args.a_row = 1, args.a_col = kRowsLd;
      return;
    }
    args.a = reinterpret_cast<const float*>(first), args.a_row = p.a_row / 2, args.a_col = 1;
    if (Cfg::COPY_A || Cfg::K % 2 != 0 || p.a_row % 2 != 0) {
      copy_pairs(first, p.a_row, p.a_col, rows, Cfg::K, copy, kCopyLd);
      args.a = copy, args.a_row = kCopyLd;
    }
  }

  // Rows [m0, m1) by columns [n0, n1), strip by strip.
  AOT_INLINE void block(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                        Args& args) const {
    constexpr int64_t kL = Simd<float>::kLanes;
    constexpr DirectCuts kSizes = sizes();
    constexpr auto& kTable = kDirectTable<float, Source, kSizes.rows, kSizes.vectors>;
    const Pieces strips = strips_of(m1 - m0), groups = groups_of(n1 - n0);
    char* const out = static_cast<char*>(p.out);
    const float* const a = args.a;
    for (int64_t s = 0; s < strips.count; ++s) {
      const int64_t i0 = m0 + strips.begin(s), mr = strips.size(s);
      args.a = a + (i0 - m0) * args.a_row;
      args.next = reinterpret_cast<const char*>(args.a);
      for (int64_t g = 0; g < groups.count; ++g) {
        const int64_t j = groups.begin(g) * kL, nv = groups.size(g);
        fetch_results(out + i0 * p.out_row + (n0 + j) * p.out_column, mr, nv * kL * p.out_column);
        args.b.first = groups.begin(g);
        args.last = min64(n1 - n0 - j - (nv - 1) * kL, kL);
        if constexpr (Cfg::ROUNDED) {
          args.c = reinterpret_cast<Bf16*>(out + i0 * p.out_row) + n0 + j;
          args.ldc = p.out_row / int64_t(sizeof(Bf16));
        } else {
          args.c = tile + j;
          args.ldc = kLd;
        }
        kTable.fn[mr][nv](args);
      }
      if constexpr (!Cfg::ROUNDED) epi(b, i0, i0 + mr, n0, n1, tile, kLd);
    }
    args.a = a;
  }

  // Asks for the lines that results will be stored to.
  AOT_INLINE void fetch_results(const char* at, int64_t rows, int64_t bytes) const {
    for (int64_t i = 0; i < rows; ++i, at += p.out_row) {
      for (int64_t q = 0; q < bytes; q += 64) __builtin_prefetch(at + q, 1, 3);
    }
  }
};

}  // namespace detail

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_SHALLOW_H_
