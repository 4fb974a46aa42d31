// Matrix multiplication: C[b] = A[b] (M x K) * B[b] (K x N), with generated code on each tile.
//
//   template <class Cfg, class Epi>
//   void matmul(const MatmulArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi&
//   epi);
//
// Cfg derives from MatmulConfig and overrides what differs. Dimensions that are -1 there come from
// the arguments. Work units are tiles of MB x NB:
//   work    = batch * ceil(N / NB) * ceil(M / MB)        (unit = (b * nt + ni) * mt + mi)
//   scratch = matmul_scratch<Cfg>() bytes, 64-byte aligned; gemm_heuristic has Python's twin of it
// Epi is called with finished results, every (b, m, n) once:
//   epi(b, m0, m1, n0, n1, const T* tile, int64_t ld)    tile[(m - m0) * ld + (n - n0)]
// where tile is hot in cache, its rows are padded to whole panels (columns from n1 on may be read:
// zeros or products of padding), and T = compute_t<Cfg::A>.
// StoreRows<T> is the epilogue that only stores; it is recognised and writes C directly.
//
// B is packed: [ceil(N/16)][K][16], zero beyond N (packing.pack_matmul_weight), 64-byte aligned;
// or, with STRIDED_B, a matrix of any strides that is packed on the way (an activation): NC columns
// for all rows of a rectangle (PACKED), or for each tile.
#ifndef AOT_TMPL_MATMUL_H_
#define AOT_TMPL_MATMUL_H_

#include "aot/tmpl/matmul_columns.h"
#include "aot/tmpl/matmul_direct.h"
#include "aot/tmpl/matmul_few.h"
#include "aot/tmpl/matmul_pieces.h"
#include "aot/tmpl/tile_results.h"
#include "aot/tmpl/tile_strips.h"

namespace aot::tmpl {

namespace detail {

// One rectangle of the result: rows [m0, m1), columns [n0, n1) of batch element b.
template <class Cfg, class Epi>
struct MatmulRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using T = compute_t<A>;
  static_assert(std::is_same_v<T, compute_t<B>>, "A and B must share their compute type");
  static constexpr bool kCopyA = matmul_copies_a<Cfg>();
  static constexpr bool kCopyB = matmul_copies_b<Cfg>();
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>();
  static constexpr int64_t kCopyLd = Cfg::KB + kPanel;
  static constexpr int64_t kShallow = 64;  // pairs of bfloat16
  static constexpr bool kRows = kStoresRows<Epi> && !kCopyA;
  // Whether whole panels are always written where they belong, ahead of what is left (`block`).
  static constexpr bool kAhead = kRows || (Cfg::PLAIN && Cfg::K >= 0 && Cfg::K <= Cfg::KB);
  static constexpr Heights kHeights = heights_of_units<T>(Cfg::M, Cfg::MB, Cfg::MC) |
                                      half_of<T>(Cfg::N, Cfg::NC, kAhead) | kSharing<Cfg>;

  // Rows from which on results that need no tile are finished by strips: B is read often enough.
  static constexpr int64_t kFewRows = 4 * RegisterBlock<T>::kRows;
  // Bytes of B that stay in the second level of cache while rows pass.
  static constexpr int64_t kWarm = 3 << 18;
  // K's that lie apart of which the first level keeps a line each until the next strip's rows.
  static constexpr int64_t kMostAcross = 256;

  const MatmulArgs<Cfg>& p;
  T* tile;
  const Epi& epi;
  Ahead* ahead = nullptr;

  AOT_INLINE int64_t m() const { return p.rows(); }
  AOT_INLINE int64_t n() const { return p.columns(); }
  AOT_INLINE int64_t k() const { return p.depth(); }
  AOT_INLINE int64_t b_panel() const { return packed_rows<B>(k()) * kPanel; }

  void rectangle(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (Cfg::PIECES) {
      if (in_pieces()) {
        char* const room = reinterpret_cast<char*>(tile) + matmul_room<Cfg>();
        return PieceRun<Cfg, Epi>{p, room, epi}.rectangle(b, m0, m1, n0, n1);
      }
    }
    if constexpr (PairsRun<Cfg, Epi>::kIs) {
      const PairsRun<Cfg, Epi> run{p, tile, tile + Cfg::MC * kLd, packed_b(), epi};
      if (bf16_unit() == kBf16Dot) return run.rectangle(b, m0, m1, n0, n1);
    }
#endif
    if constexpr (FewRun<Cfg, Epi>::kMayBe) {
      const FewRun<Cfg, Epi> run{p, tile, epi};
      if (run.is()) return run.columns(b, n0, n1);
    }
    const Blocks blocks(m1 - m0, Cfg::MC);
    const auto all = [&](const auto& block) {
      for (int64_t i = 0; i < blocks.count; ++i) {
        block(m0 + blocks.begin(i), m0 + blocks.begin(i + 1));
      }
    };
    if (goes_wide()) {
      const int64_t wide = wide_columns();
      for (int64_t n = n0; n < n1; n += wide) {
        all([&](int64_t mc, int64_t me) { wide_block(b, mc, me, n, min64(n + wide, n1)); });
      }
      return;
    }
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (std::is_same_v<A, Bf16> && std::is_same_v<B, Bf16>) {
      if (bf16_unit() >= kBf16Dot) return native_columns(b, m0, m1, n0, n1, all);
    }
#endif
    for (int64_t nc = n0; nc < n1; nc += Cfg::NC) {
      const int64_t ne = min64(nc + Cfg::NC, n1);
      if constexpr (Cfg::PACKED > 0) {
        if (packs_for_few<Cfg>() || blocks.count > 1 || by_strips()) {
          const int64_t panel = k() * kPanel;
          pack_any(b_from(b, nc), p.b_row, p.b_col, k(), ne - nc, packed_b(), panel);
          const PackedB<T> whole{packed_b(), panel};
          all([&](int64_t mc, int64_t me) { block(b, mc, me, nc, ne, from_panels(whole, nc)); });
          continue;
        }
      }
      const auto here = [&](int64_t n) { return source(b, n); };
      all([&](int64_t mc, int64_t me) { block(b, mc, me, nc, ne, here); });
    }
  }

  // Whether columns of several tiles pass a block of rows before the next one, where B is packed
  // and a chunk is all of K: rows that are copied are so once, and plain results, which need no
  // tile, are written in longer runs.
  AOT_INLINE bool goes_wide() const {
    if constexpr (Cfg::STRIDED_B) return false;
    if (n() <= Cfg::NC || k() > Cfg::KB) return false;
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (std::is_same_v<A, Bf16> && std::is_same_v<B, Bf16>) {
      if (bf16_unit() >= kBf16Dot) return false;
    }
#endif
    return kCopyA || (Cfg::PLAIN && by_strips());
  }

  // Whole tiles of columns whose panels stay in the second level of cache.
  AOT_INLINE int64_t wide_columns() const {
    constexpr int64_t kNear = kFewRegisters ? 1 << 18 : kWarm;
    const int64_t tile = Cfg::NC * max64(k(), 1) * int64_t(sizeof(B));
    return max64(kNear / tile, 1) * Cfg::NC;
  }

  // Rows [m0, m1) by columns [n0, n1), as many as `wide_columns`.
  void wide_block(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    const A* const first = p.a + b * p.a_batch + m0 * p.a_row;
    if constexpr (kCopyA) copy_a(first, m1 - m0, 0, k());
    const auto here = [&](int64_t n) { return source(b, n); };
    // Whole panels of plain results need no tile, so all of them are a row's.
    const int64_t wide = Cfg::PLAIN ? n1 - n0 : Cfg::NC;
    for (int64_t nc = n0; nc < n1; nc += wide) {
      block<true>(b, m0, m1, nc, min64(nc + wide, n1), here);
    }
  }

  // B from a column of the panels on that begin at column `nc`.
  static AOT_INLINE auto from_panels(const PackedB<T>& whole, int64_t nc) {
    return [=](int64_t n) {
      const int64_t stride = whole.panel_stride;
      return PackedB<T>{whole.b + (n - nc) / kPanel * stride, stride};
    };
  }
  AOT_INLINE const B* b_from(int64_t b, int64_t n0) const {
    return p.b + b * p.b_batch + n0 * p.b_col;
  }
  AOT_INLINE T* packed_b() const { return copy_of_b() + panel_copy_elements(Cfg::KB); }
  static constexpr Way kWay = matmul_way<Cfg>();

  // Whether tiles multiply pieces of the operands. Only sizes of the whole product count.
  AOT_INLINE bool in_pieces() const {
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (Cfg::PIECES) {
      return bf16_unit() == kBf16Tiles && m() >= PieceRun<Cfg, Epi>::kLeastRows;
    }
#endif
    return false;
  }

  // Whether units go one by one, without copies.
  AOT_INLINE bool is_direct() const {
    if (in_pieces()) return false;
#if defined(AOT_TMPL_BF16_UNITS)
    if constexpr (std::is_same_v<A, Bf16> && std::is_same_v<B, Bf16>) {
      if (bf16_unit() >= kBf16Dot) return false;
    }
#endif
    return kWay != Way::kCopies;
  }

  AOT_INLINE T* copy_of_b() const { return tile + Cfg::MC * (kLd + (kCopyA ? kCopyLd : 0)); }

  AOT_INLINE auto source(int64_t b, int64_t n0) const {
    T* const copy = copy_of_b();
    if constexpr (Cfg::STRIDED_B) {
      // Packing pays when several strips of rows use what was packed.
      const bool in_place = m() <= RegisterBlock<T>::kRows;
      return StridedB<T, B>{
          p.b + b * p.b_batch + n0 * p.b_col, p.b_row, p.b_col, n() - n0, in_place, copy};
    } else {
      const B* panels = p.b + b * p.b_batch + n0 / kPanel * b_panel();
      if constexpr (kCopyB) {
        return NarrowB<T, B>{panels, b_panel(), copy};
      } else {
        return PackedB<T>{panels, b_panel()};
      }
    }
  }

#if defined(AOT_TMPL_BF16_UNITS)
  // Rows [m0, m1) by columns [n0, n1), a tile of columns after the other. Where all panels stay in
  // the second level of cache, a strip of rows has all of its columns first: results that lie apart
  // by rows are written in long runs, which memory gives several times as fast as half a KiB each.
  template <class All>
  AOT_INLINE void native_columns(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                                 const All& all) const {
    const auto columns = [&](const auto& rows) {
      for (int64_t nc = n0; nc < n1; nc += Cfg::NC) native(b, nc, min64(nc + Cfg::NC, n1), rows);
    };
    if (!long_runs(n1 - n0)) return columns(all);
    for (int64_t m = m0; m < m1; m += TileStrips::kRows) {
      columns([&](const auto& block) { block(m, min64(m + TileStrips::kRows, m1)); });
    }
  }
  AOT_INLINE bool long_runs(int64_t columns) const {
    return !Cfg::STRIDED_B && columns > Cfg::NC && strips_of_tiles() &&
           round_up(columns, kPanel) * k() * int64_t(sizeof(Bf16)) <= kWarm;
  }

  // Columns [n0, n1) on a machine's own bfloat16 units, which one does not depend on how rows are
  // divided.
  template <class All>
  AOT_INLINE void native(int64_t b, int64_t n0, int64_t n1, const All& all) const {
    const int64_t pairs = ceil_div(k(), 2);
    if constexpr (Cfg::STRIDED_B) {
      if (Cfg::PACKED > 0 && (m() > Cfg::MC || strips_of_tiles())) {
        // Whole tiles, with zeros at their ends.
        const int64_t whole_pairs = k() > 0 ? TileDepth(k()).all() / 2 : 0;
        const int64_t panel = whole_pairs * kPanel;
        pack_pairs(b_from(b, n0), p.b_row, p.b_col, k(), n1 - n0, packed_b(), panel);
        for (int64_t j = 0; pairs < whole_pairs && j < ceil_div(n1 - n0, kPanel); ++j) {
          float* const rest = packed_b() + j * panel + pairs * kPanel;
          __builtin_memset(rest, 0, uint64_t(whole_pairs - pairs) * kPanel * sizeof(float));
        }
        const PackedB<float> whole{packed_b(), panel};
        all([&](int64_t m0, int64_t m1) { native_block(b, m0, m1, n0, n1, whole); });
        return;
      }
      const PairsB parts{b_from(b, n0), p.b_row, p.b_col, n() - n0, k(), copy_of_b()};
      all([&](int64_t m0, int64_t m1) { native_block(b, m0, m1, n0, n1, parts); });
    } else {
      const B* const panels = p.b + b * p.b_batch + n0 / kPanel * b_panel();
      const PackedB<float> whole{reinterpret_cast<const float*>(panels), b_panel() / 2};
      all([&](int64_t m0, int64_t m1) { native_block(b, m0, m1, n0, n1, whole); });
    }
  }

  // Rows [m0, m1) by a source of pairs: in tiles, where the machine has them.
  template <class Source>
  AOT_INLINE void native_block(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                               const Source& source) const {
    if (k() == 0 || bf16_unit() != kBf16Tiles) return dots(b, m0, m1, n0, n1, source);
    if constexpr (std::is_same_v<Source, PackedB<float>>) {
      if (strips_of_tiles()) return tile_strips(b, m0, m1, n0, n1, source);
    }
    in_tiles(p.a + b * p.a_batch + m0 * p.a_row, m1 - m0, ceil_div(n1 - n0, kPanel), source);
    TileResults<Cfg, Epi>{p, epi, b, m0, n0, n1}(0, m1 - m0, tile);
  }

  // Whether rows are finished strip by strip: there are several strips, B stays in the second level
  // of cache meanwhile, and a copied strip has room. Only sizes of the whole product count.
  AOT_INLINE bool strips_of_tiles() const {
    const int64_t panels = ceil_div(min64(n(), Cfg::NC), kPanel);
    const bool reads = !Cfg::COPY_A || (Cfg::A_ALONG == Along::kAcross && k() <= kMostAcross);
    return reads && bf16_unit() == kBf16Tiles && k() > 0 && m() > TileStrips::kRows &&
           (!Cfg::STRIDED_B || Cfg::PACKED > 0) && panels * k() * kPanel * 2 <= kWarm &&
           TileStrips::kRows * TileStrips::copy_row(k()) <= Cfg::MC * kCopyLd;
  }

  AOT_INLINE void tile_strips(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                              const PackedB<float>& source) const {
    const int64_t panels = ceil_div(n1 - n0, kPanel), stride = 2 * source.panel_stride;
    const Bf16* const pairs = reinterpret_cast<const Bf16*>(source.b);
    const bool copies = Cfg::COPY_A || TileStrips::copies(k(), p.a_row, panels);
    Bf16* last = nullptr;
    if (!Cfg::STRIDED_B && TileDepth(k()).all() > round_up(k(), 2)) {
      last = reinterpret_cast<Bf16*>(copy_of_b());
      TileStrips::copy_last(pairs, stride, panels, k(), last);
    }
    const A* const from = p.a + b * p.a_batch + m0 * p.a_row;
    float* const copy = copies ? tile + Cfg::MC * kLd : nullptr;
    const TileStrips strips{from, p.a_row, m1 - m0, k(), pairs, stride,
                            last, panels,  tile,    kLd, copy,  p.a_col};
    strips.run(TileResults<Cfg, Epi>{p, epi, b, m0, n0, n1});
  }

  // `count` rows from `first` on by so many panels. Rows lie where they are, or are copied, a chunk
  // of k's at a time; B that is no packed matrix is packed a chunk at a time, too.
  template <class Source>
  AOT_INLINE void in_tiles(const A* first, int64_t count, int64_t panels,
                           const Source& source) const {
    constexpr bool kWhole = std::is_same_v<Source, PackedB<float>>;
    // A tile whose rows cross lines takes five times as long to load: where most do, and several
    // pairs of panels load it, a copy takes less.
    const bool copies = Cfg::COPY_A || (panels >= 8 && 2 * p.a_row % 32 != 0);
    const int64_t most = kWhole && !copies ? k() + k() % 2 : 2 * Cfg::KB;
    const int64_t group = kWhole ? panels : 4;  // what panel_copy_elements has room for
    float* const copy = tile + Cfg::MC * kLd;
    for (int64_t k0 = 0; k0 < k(); k0 += most) {
      const int64_t depth = min64(most, k() - k0);
      TileRows rows{first + k0 * p.a_col, p.a_row};
      if (copies) rows = copied(rows, count, depth, copy);
      const int64_t equal = Bf16Tiles::equal_step(depth, 1);
      const int64_t tail = equal > 0 ? 0 : depth % Bf16Tiles::kStep, whole = depth - tail;
      TileRows last{rows.at + whole, rows.row};
      // The half pair at the end of an odd row is completed by a zero.
      if (!copies && tail % 2 != 0) last = copied(last, count, tail, copy);
      for (int64_t j = 0; j < panels; j += group) {
        const int np = int(min64(group, panels - j));
        const auto view = source.view(j, np, panels, k0 / 2, ceil_div(depth, 2));
        const Bf16* const pairs = reinterpret_cast<const Bf16*>(view.b);
        const auto multiply = [&](const TileRows& a, int64_t from, int64_t deep, int64_t step) {
          if (deep == 0) return;
          const Bf16* const b = pairs + from * kPanel;
          float* const c = tile + j * kPanel;
          const int64_t stride = 2 * view.panel_stride;
          Bf16Tiles{a.at, a.row, count, deep, step, b, stride, np, c, kLd, k0 + from > 0}.run();
        };
        multiply(rows, 0, whole, equal > 0 ? equal : Bf16Tiles::kStep);
        multiply(last, whole, round_up(tail, 2), round_up(tail, 2));
      }
    }
    Tiles::release();
  }

  // Rows of A as tiles read them: elements of a row are neighbours.
  struct TileRows {
    const Bf16* at;
    int64_t row;
  };
  AOT_INLINE TileRows copied(const TileRows& rows, int64_t count, int64_t depth,
                             float* copy) const {
    copy_pairs(rows.at, rows.row, p.a_col, count, depth, copy, kCopyLd);
    return {reinterpret_cast<const Bf16*>(copy), 2 * kCopyLd};
  }

  // Rows [m0, m1) by a source of pairs, which take the places of floats.
  template <class Source>
  AOT_INLINE void dots(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                       const Source& source) const {
    const A* const first = p.a + b * p.a_batch + m0 * p.a_row;
    const int64_t count = m1 - m0, pairs = ceil_div(k(), 2);
    const bool copied = Cfg::COPY_A || k() % 2 != 0;
    using Dot = Bf16DotFor<(Cfg::N >= 0 && Cfg::N <= kPanel)>;
    float* const copy = tile + Cfg::MC * kLd;
    const float* rows[Cfg::MC];
    for (int64_t i = 0; i < count; ++i) {
      rows[i] = copied ? copy + i * kCopyLd : reinterpret_cast<const float*>(first + i * p.a_row);
    }
    const BlockArgs<float, Source> args{
        rows, 0, count, 1, pairs, source, ceil_div(n1 - n0, kPanel), tile, kLd};
    // Pairs that are neighbours, the last with a zero.
    const auto copy_from = [&](int64_t at, int64_t depth) {
      copy_pairs(first + 2 * at * p.a_col, p.a_row, p.a_col, count, min64(2 * depth, k() - 2 * at),
                 copy, kCopyLd);
    };
    if constexpr (std::is_same_v<Source, PackedB<float>>) {
      // Shallow products are as soon computed as stored: results leave the first level of cache
      // in their own type. B is warm.
      if (pairs <= kShallow && m() > Cfg::MC) {
        if (copied) copy_from(0, pairs);
        return block_by_strips<Dot, kHeights>(args, [&](int64_t i0, int64_t i1) {
          epi(b, m0 + i0, m0 + i1, n0, n1, tile + i0 * kLd, kLd);
        });
      }
    }
    if (copied) {
      block_by_panels<Dot, Cfg::KB, kHeights>(args, [&](MicroArgs<float>& m) {
        copy_from(m.k0, m.kc);
        m.k0 = 0;
      });
    } else {
      block_by_panels<Dot, Cfg::KB, kHeights>(args, RowsInPlace());
    }
    epi(b, m0, m1, n0, n1, tile, kLd);
  }
#endif

  // `source`: (first column) -> B from there on. READY: rows are copied.
  template <bool READY = false, class Source>
  void block(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
             const Source& source) const {
    const T* rows[Cfg::MC];
    const A* const first = p.a + b * p.a_batch + m0 * p.a_row;
    for (int64_t i = 0; i < m1 - m0; ++i) {
      if constexpr (kCopyA) {
        rows[i] = tile + Cfg::MC * kLd + i * kCopyLd;
      } else {
        rows[i] = first + i * p.a_row;
      }
    }
    // Whole panels need no tile: they are written where they belong. Results of several chunks are
    // read again, so of plain ones only those of a single chunk.
    const bool one_chunk = k() <= Cfg::KB, copied = kCopyA && (READY || (Cfg::PLAIN && one_chunk));
    if (copied && !READY) copy_a(first, m1 - m0, 0, k());
    if constexpr (kRows || Cfg::PLAIN) {
      const int64_t full = kRows || one_chunk ? (n1 - n0) / kPanel : 0;
      if (full > 0) {
        const auto [c, ldc] = results_corner(p, epi, b, m0, n0);
        run<false>(
            BlockArgs<T, decltype(source(n0))>{rows, 0, m1 - m0, 1, k(), source(n0), full, c, ldc,
                                               false, false, nullptr, 0, 0, nullptr, ahead},
            first, copied, [](int64_t, int64_t, int64_t, int64_t) {});
      }
      n0 += full * kPanel;
      if (n0 >= n1) return;
    }
    const char* const out =
        p.out == nullptr ? nullptr
                         : static_cast<const char*>(p.out) + m0 * p.out_row + n0 * p.out_column;
    run<true>(
        BlockArgs<T, decltype(source(n0))>{
            rows, 0, m1 - m0, 1, k(), source(n0), ceil_div(n1 - n0, kPanel), tile, kLd,
            half_last(n1 - n0), false, out, p.out_row, p.out_column * kPanel, nullptr, ahead},
        first, copied, [&](int64_t i0, int64_t i1, int64_t j, int64_t count) {
          const int64_t from = n0 + j * kPanel;
          epi(b, m0 + i0, m0 + i1, from, min64(n1, from + count * kPanel), tile + i0 * kLd, kLd);
        });
  }

  // A's rows from `first` on, k's [k0, k0 + depth), to where the micro-kernel reads them.
  AOT_INLINE void copy_a(const A* first, int64_t count, int64_t k0, int64_t depth) const {
    T* const to = tile + Cfg::MC * kLd;
    copy_rows(first + k0 * p.a_col, p.a_row, p.a_col, count, depth, to, kCopyLd);
  }

  // done(first row, last row, first panel, panels): finished results, in the tile's corner where
  // `kInTile`, else where they belong. `copied`: rows are copies already.
  template <bool kInTile, class Source, class Done>
  AOT_INLINE void run(const BlockArgs<T, Source>& a, const A* first, bool copied,
                      const Done& done) const {
    if constexpr (kCopyA && Cfg::PLAIN && std::is_same_v<Source, PackedB<T>>) {
      if (copied && by_strips()) {
        return block_by_strips<MultiplyAdd<T>, kHeights>(
            a, [&](int64_t i0, int64_t i1) { done(i0, i1, 0, a.panels); });
      }
    }
    if constexpr (kCopyA) {
      // Rows pass through scratch, a chunk of K at a time.
      in_chunks<kInTile>(
          a,
          [&](MicroArgs<T>& m) {
            if (!copied) copy_a(first, a.mrows, m.k0, m.kc);
            m.k0 = 0;
          },
          done);
    } else if constexpr (!std::is_same_v<Source, PackedB<T>>) {
      in_chunks<kInTile>(a, RowsInPlace(), done);
    } else if (by_strips()) {
      block_by_strips<MultiplyAdd<T>, kHeights>(
          a, [&](int64_t i0, int64_t i1) { done(i0, i1, 0, a.panels); });
    } else {
      in_chunks<kInTile>(a, RowsInPlace(), done);
    }
  }

  // Many rows per unit of B mean that B is warm: rows are finished strip by strip, over the whole
  // depth. Only sizes of the whole product count: who computes which part changes no bits, whether
  // B was packed for all rows or for a tile.
  AOT_INLINE bool by_strips() const {
    const int64_t panels = ceil_div(min64(n(), Cfg::NC), kPanel);
    const bool few = Cfg::PLAIN && (Cfg::STRIDED_B || (kCopyA && k() <= Cfg::KB));
    const int64_t least = few ? kFewRows : 2 * Cfg::MC;
    return m() > least && panels * k() * kPanel * int64_t(sizeof(T)) <= kWarm &&
           (!Cfg::STRIDED_B || k() <= Cfg::KB);
  }

  // Panels outermost. Where K is one chunk, and a tile large beside what it is made of, results are
  // finished while they are in L1; of a smaller one whole rows are stored faster.
  template <bool kInTile, class Source, class Prepare, class Done>
  AOT_INLINE void in_chunks(const BlockArgs<T, Source>& a, const Prepare& prepare,
                            const Done& done) const {
    constexpr bool kLarge = Cfg::MC * Cfg::NC * int64_t(sizeof(T)) > 3 << 16;
    if constexpr (kInTile && kLarge && Cfg::K >= 0 && Cfg::K <= Cfg::KB) {
      MicroArgs<T> m{a.rows, 0, 1, 0, k(), nullptr, 0, kPanel, a.c, a.ldc, nullptr, 0, false};
      prepare(m);
      const auto finish = [&](int64_t j, int64_t count) { done(0, a.mrows, j, count); };
      chunk_by_panels<MultiplyAdd<T>, kHeights>(a, m, 0, finish);
    } else {
      block_by_panels<MultiplyAdd<T>, chunk_of(Cfg::K, Cfg::KB), kHeights>(a, prepare);
      done(0, a.mrows, 0, a.panels);
    }
  }
};

}  // namespace detail

template <class Cfg, class Epi>
void matmul(const MatmulArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch, const Epi& epi) {
  using T = compute_t<typename Cfg::A>;
  const int64_t m = p.rows(), n = p.columns();
  const int64_t mt = ceil_div(m, Cfg::MB), nt = ceil_div(n, Cfg::NB);
  Ahead ahead = detail::next_matrices(p, m, n, p.depth(), end - begin, mt * nt);
  constexpr bool kAsks = Cfg::BATCH && !kFewRegisters;
  const detail::MatmulRun<Cfg, Epi> run{p, static_cast<T*>(scratch), epi, kAsks ? &ahead : nullptr};
  for (int64_t u = begin; u < end;) {
    // Units are joined into the largest rectangle: whole columns of units where possible.
    const int64_t column = u / mt, b = column / nt, ni = column % nt, mi = u % mt;
    int64_t rows = min64(mt - mi, end - u), cols = 1;
    if (run.is_direct()) {
      const detail::DirectRun<Cfg, Epi> unit{p, run.tile, run.packed_b(), epi, &ahead};
      unit.direct(b, mi * Cfg::MB, min64(m, (mi + 1) * Cfg::MB), ni * Cfg::NB,
                  min64(n, (ni + 1) * Cfg::NB));
      ++u;
      continue;
    }
    if (mi == 0 && rows == mt) cols = min64(nt - ni, (end - u) / mt);
    run.rectangle(b, mi * Cfg::MB, min64(m, (mi + rows) * Cfg::MB), ni * Cfg::NB,
                  min64(n, (ni + cols) * Cfg::NB));
    u += rows * cols;
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_H_
