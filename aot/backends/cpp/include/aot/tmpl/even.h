// Products of rows that lie evenly in memory by packed panels that are read in place, by the
// kernels of direct.h: their rows need no pointers, so more of them are computed at once than by
// those of micro.h.
#ifndef AOT_TMPL_EVEN_H_
#define AOT_TMPL_EVEN_H_

#include "aot/tmpl/direct.h"
#include "aot/tmpl/gemm.h"

namespace aot::tmpl {

// C[0..rows) x [0..panels*16) = A * B. C is written whole panels wide.
template <class T>
struct EvenBlock {
  const T* a;
  int64_t a_row;  // elements from a row to the next; a row's own are neighbours
  int64_t rows, k;
  PackedB<T> b;
  int64_t panels;
  T* c;
  int64_t ldc;
  // Where an epilogue stores what becomes of C, in bytes; null: not known, or not worth fetching.
  const char* out = nullptr;
  int64_t out_row = 0, out_panel = 0;
};

// The pieces that blocks are cut into where units of `unit` rows, of `rows` in all, are joined and
// cut into blocks as `heights_of_units` says, and blocks as `shape` says.
template <class T>
constexpr DirectCuts even_cuts(const DirectShape& shape, int64_t rows, int64_t unit,
                               int64_t block) {
  const int64_t units = ceil_div(rows, unit);
  DirectCuts found{0, (uint32_t{2} << shape.vectors) - 2};
  if (units > kMostUnits) return {(uint32_t{2} << shape.rows) - 2, found.vectors};
  for (int64_t n = 1; n <= units; ++n) {
    for (const int64_t all : {min64(n * unit, rows), rows - (units - n) * unit}) {
      const Blocks blocks(all, block);
      found.rows |= sizes_of(Pieces(all / blocks.count, shape.rows));
      found.rows |= sizes_of(Pieces(ceil_div(all, blocks.count), shape.rows));
    }
  }
  return found;
}

// What the calls of a block's kernels share.
template <class T, class Source>
AOT_INLINE DirectArgs<T, Source> even_args(const EvenBlock<T>& e) {
  return {nullptr, e.a_row, 1, {{e.b.b, e.b.panel_stride}}, e.k, nullptr, e.ldc, 0, false};
}

// Groups of a strip that one call computes at most, whose results are fetched together.
inline constexpr int64_t kGroups = 8;

// Strips outermost, as `block_by_strips`: done(i0, i1) gets rows that are C's first ones. For all
// of K, and B that is warm.
template <uint32_t ROWS, uint32_t VECTORS, class T, class Done>
AOT_INLINE void even_by_strips(const EvenBlock<T>& e, const DirectShape& shape, const Done& done) {
  using Source = FarPanelsOfB<T>;
  constexpr int64_t kL = Simd<T>::kLanes, kPer = Simd<T>::kPerPanel;
  const Pieces strips(e.rows, shape.rows), groups(e.panels * kPer, shape.vectors);
  DirectArgs<T, Source> args = even_args<T, Source>(e);
  for (int64_t s = 0; s < strips.count; ++s) {
    const int64_t i0 = strips.begin(s), mr = strips.size(s);
    args.a = e.a + i0 * e.a_row;
    // The first group fetches the next strip's rows, which mostly follow each other.
    args.next = reinterpret_cast<const char*>(args.a + mr * e.a_row);
    args.line = 64;
    for (int64_t g = 0, count; g < groups.count; g += count, args.line = 0) {
      const int64_t j0 = groups.begin(g), nv = groups.size(g);
      // Some groups of whole panels at once; more would fetch too many results together.
      count = nv % kPer == 0 && j0 % kPer == 0 ? min64(groups.alike(g), kGroups) : 1;
      if (e.out != nullptr) {
        const char* row = e.out + i0 * e.out_row + j0 * e.out_panel / kPer;
        for (int64_t i = 0; i < mr; ++i, row += e.out_row) {
          for (int64_t q = 0; q < count * nv * e.out_panel / kPer; q += 64) {
            __builtin_prefetch(row + q, 1, 3);
          }
        }
      }
      args.pieces = count;
      args.b_next = nv / kPer * e.b.panel_stride;
      args.c_next = nv * kL;
      args.b.first = j0;
      args.c = e.c + j0 * kL;
      kDirectTable<T, Source, ROWS, VECTORS>.fn[mr][nv](args);
    }
    done(i0, i0 + mr);
  }
}

// Panels outermost, as `block_by_panels`: a chunk's panels of a group stay in L1 while the strips
// pass, which fetch the next group's together. Behind the last group come the panels at `after`.
template <uint32_t ROWS, uint32_t VECTORS, class T>
AOT_INLINE void even_by_panels(const EvenBlock<T>& e, const DirectShape& shape, int64_t kb,
                               const T* after) {
  using Source = FarPanelsOfB<T>;
  constexpr int64_t kL = Simd<T>::kLanes, kPer = Simd<T>::kPerPanel;
  const Pieces strips(e.rows, shape.rows), groups(e.panels * kPer, shape.vectors);
  const int64_t fetched = ceil_div(shape.vectors, kPer);  // panels of a group
  const int64_t parts = max64(1, min64(strips.count, kFetchers) / fetched);
  DirectArgs<T, Source> args = even_args<T, Source>(e);
  for (int64_t k = 0; k < e.k; k += kb) {
    args.k = min64(kb, e.k - k);
    args.b = Source{{e.b.b + k * kPanel, e.b.panel_stride}};
    args.add = k > 0;
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t nv = groups.size(g);
      args.b.first = groups.begin(g);
      const T* next = args.b.b + (args.b.first + nv) / kPer * e.b.panel_stride;
      if (g + 1 == groups.count) next = k + kb < e.k ? args.b.b + kb * kPanel : after;
      for (int64_t s = 0, count; s < strips.count; s += count) {
        const int64_t panel = s / parts, part = s % parts, mr = strips.size(s);
        const bool fetches = panel < fetched;
        count = min64(strips.alike(s), fetches ? parts - part : strips.count);
        args.pieces = count;
        args.fetch = fetches ? count : 0;
        args.a = e.a + strips.begin(s) * e.a_row + k;
        args.a_next = mr * e.a_row;
        args.c = e.c + strips.begin(s) * e.ldc + args.b.first * kL;
        args.c_next = mr * e.ldc;
        // A line is asked for several times: once it is on its way that is cheap.
        const T* line = next + panel * e.b.panel_stride + args.k * part / parts * kPanel;
        args.next = reinterpret_cast<const char*>(fetches ? line : args.a);
        args.line = ceil_div(kPanel, parts) * int64_t(sizeof(T));
        args.fetch_next = ceil_div(args.k, parts) * kPanel * int64_t(sizeof(T));
        kDirectTable<T, Source, ROWS, VECTORS>.fn[mr][nv](args);
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_EVEN_H_
