// Products by pieces of bfloat16 (pieces.h), on machines that have tiles: a part of matmul.h.
//
// Rows of A are cut where they lie, a strip while the one before is multiplied, or from a copy
// where k's are strided. B is cut where its columns are neighbours, packed or not, else from packed
// panels; once for all rows where the pieces of all its k's fit, or a chunk of k's at a time.
#ifndef AOT_TMPL_MATMUL_PIECES_H_
#define AOT_TMPL_MATMUL_PIECES_H_

#include "aot/tmpl/matmul_call.h"

namespace aot::tmpl::detail {

#if defined(AOT_TMPL_BF16_UNITS)

template <class Cfg, class Epi>
struct PieceRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using Room = PieceRoom<Cfg>;
  static_assert(std::is_same_v<A, B> && kPiecesOf<A> > 0, "both operands have pieces");
  static_assert(Cfg::K > 0 && (!Cfg::COPY_A || Room::kAtOnce), "rows are copied whole");
  using Rows = std::conditional_t<Cfg::COPY_A, float, A>;  // what is cut
  using Columns = std::conditional_t<Room::kPacks, float, B>;
  static constexpr int64_t kPanelOfB = packed_rows<B>(Cfg::K) * kPanel;

  // Below it tiles are less than full, and B is cut for few.
  static constexpr int64_t kLeastRows = 16;

  const MatmulArgs<Cfg>& p;
  char* room;
  const Epi& epi;

  void rectangle(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    float* const tile = reinterpret_cast<float*>(room);
    const Rows** const table = reinterpret_cast<const Rows**>(room + Room::kTile);
    float* const copy = reinterpret_cast<float*>(room + Room::kTile + Room::kTable);
    float* const panels = copy + Room::kCopy / 4;
    char* const pieces = room + Room::kTile + Room::kTable + Room::kCopy + Room::kPack;
    const PieceProduct<kPiecesOf<A>, Rows, Columns, 1, Cfg::K, Cfg::PK> product(
        table, 0, tile, Room::kLd, pieces, Cfg::PN, Cfg::PM);
    const A* const first = p.a + b * p.a_batch;
    for (int64_t nc = n0; nc < n1; nc += Cfg::PN) {
      const int64_t ne = min64(nc + Cfg::PN, n1);
      const PiecePanels<Columns> source = columns(b, nc, ne, panels);
      for (int64_t m = m0; m < m1;) {
        const int64_t end = Room::kAtOnce ? m1 : min64(m1, m + Cfg::PM);
        const auto point = [&](int64_t i0, int64_t i1, int64_t place) {
          const A* const from = first + (m + i0) * p.a_row;
          if constexpr (Cfg::COPY_A) {
            float* const to = copy + place * Room::kCopyLd;
            copy_rows(from, p.a_row, p.a_col, i1 - i0, Cfg::K, to, Room::kCopyLd);
            for (int64_t i = 0; i < i1 - i0; ++i) table[place + i] = to + i * Room::kCopyLd;
          } else {
            for (int64_t i = 0; i < i1 - i0; ++i) table[place + i] = from + i * p.a_row;
          }
        };
        const auto part = [&](int64_t i0, int64_t i1, const float* strip) {
          epi(b, m + i0, m + i1, nc, ne, strip, Room::kLd);
        };
        product.run(end - m, source, ceil_div(ne - nc, kPanel), m == m0, point, part);
        m = end;
      }
    }
    product.release();
  }

 private:
  AOT_INLINE PiecePanels<Columns> columns(int64_t b, int64_t n0, int64_t n1, float* panels) const {
    const int64_t whole = round_up(n1 - n0, kPanel);
    if constexpr (!Cfg::STRIDED_B) {
      return {p.b + b * p.b_batch + n0 / kPanel * kPanelOfB, kPanelOfB, kPanel, whole};
    } else {
      const B* const from = p.b + b * p.b_batch + n0 * p.b_col;
      if constexpr (Room::kPacks) {
        pack_any(from, p.b_row, p.b_col, Cfg::K, n1 - n0, panels, Cfg::K * kPanel);
        return {panels, Cfg::K * kPanel, kPanel, whole};
      } else {
        return {from, kPanel, p.b_row, n1 - n0};
      }
    }
  }
};

#endif  // AOT_TMPL_BF16_UNITS

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_MATMUL_PIECES_H_
