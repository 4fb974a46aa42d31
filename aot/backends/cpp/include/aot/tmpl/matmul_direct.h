// Products whose operands are read where they lie, or whose B alone is packed: a part of matmul.h.
#ifndef AOT_TMPL_MATMUL_DIRECT_H_
#define AOT_TMPL_MATMUL_DIRECT_H_

#include <tuple>

#include "aot/tmpl/matmul_call.h"

namespace aot::tmpl::detail {

// Where results that are stored as they are begin, and elements between their rows.
template <class Cfg, class Epi, class T = compute_t<typename Cfg::A>>
AOT_INLINE std::pair<T*, int64_t> results_corner(const MatmulArgs<Cfg>& p, const Epi& epi,
                                                 int64_t b, int64_t m0, int64_t n0) {
  if constexpr (kStoresRows<Epi>) {
    return {epi.c + b * epi.c_batch + m0 * epi.c_row + n0, epi.c_row};
  } else {
    char* const row = static_cast<char*>(p.out) + m0 * p.out_row;
    return {reinterpret_cast<T*>(row) + n0, p.out_row / int64_t(sizeof(T))};
  }
}

// How often kernels ask at a k for what comes next, in all strips and groups of a matrix.
template <class Cfg>
AOT_INLINE int64_t asked_of(int64_t m, int64_t n, int64_t k) {
  using T = compute_t<typename Cfg::A>;
  if (matmul_way<Cfg>() == Way::kCopies) {
    return ceil_div(m, RegisterBlock<T>::kRows) * ceil_div(n, kPanel) * k;
  }
  const bool turned = matmul_way<Cfg>() == Way::kTurned;
  const DirectShape shape = turned ? direct_shape<T>(n, m, k) : direct_shape<T>(m, n, k);
  const int64_t vectors = ceil_div(turned ? m : n, Simd<T>::kLanes);
  return ceil_div(turned ? n : m, shape.rows) * ceil_div(vectors, shape.vectors) * k;
}

// What the next matrices of a batch are made of, where they are dense: for so many of a matrix's
// units.
template <class Cfg>
AOT_INLINE Ahead next_matrices(const MatmulArgs<Cfg>& p, int64_t m, int64_t n, int64_t k,
                               int64_t count, int64_t units) {
  Ahead ahead;
  if constexpr (Cfg::BATCH && !kFewRegisters) {
    const auto size = int64_t(sizeof(typename Cfg::A));
    if (p.b_next != 0 && (p.b_row == n || p.b_col == k)) ahead.add(p.b + p.b_next, n * k * size);
    if (p.a_next != 0 && (p.a_row == k || p.a_col == m)) ahead.add(p.a + p.a_next, m * k * size);
    if (p.out_next != 0 && p.out_row == n * p.out_column) {
      ahead.add(static_cast<const char*>(p.out) + p.out_next, m * p.out_row);
    }
    ahead.spread(max64(asked_of<Cfg>(m, n, k) * count / units, 1));
  }
  return ahead;
}

// Units of a product, one by one.
template <class Cfg, class Epi>
struct DirectRun {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using T = compute_t<A>;
  static constexpr int64_t kLd = matmul_tile_ld<Cfg>(), kCopyLd = Cfg::KB + kPanel;
  static constexpr Way kWay = matmul_way<Cfg>();

  const MatmulArgs<Cfg>& p;
  T* tile;
  T* packed;
  const Epi& epi;
  Ahead* ahead;

  AOT_INLINE int64_t n() const { return p.columns(); }
  AOT_INLINE int64_t k() const { return p.depth(); }
  AOT_INLINE int64_t b_panel() const { return packed_rows<B>(k()) * kPanel; }
  AOT_INLINE const B* b_from(int64_t b, int64_t n0) const {
    return p.b + b * p.b_batch + n0 * p.b_col;
  }

  static constexpr auto kCuts = direct_cuts_of<Cfg>();

  // Whether all of B was asked for while the matrix before was multiplied.
  AOT_INLINE bool is_near() const {
    constexpr int64_t kBytes = Cfg::K * Cfg::N * int64_t(sizeof(B));
    return p.follows && kBytes <= Ahead::kLine * asked_of<Cfg>(Cfg::M, Cfg::N, Cfg::K);
  }

  // A unit by kernels that read both operands in place.
  void direct(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    const DirectCut& cut =
        kCuts.of[m1 - m0 < min64(Cfg::M, Cfg::MB)][n1 - n0 < min64(Cfg::N, Cfg::NB)];
    if constexpr (kWay == Way::kDots) {
      const A* const first = p.a + b * p.a_batch + m0 * p.a_row;
      DotsFor<Cfg>{first, p.a_row, b_from(b, n0), p.b_col, k()}.run(m1 - m0, n1 - n0, tile, kLd);
      epi(b, m0, m1, n0, n1, tile, kLd);
    } else if constexpr (kWay == Way::kDirect) {
      if (m0 == 0 && n0 == 0 && brings_b<Cfg>(cut) && !is_near()) {
        bring_near(b_from(b, 0), p.b_row, k(), n());
      }
      straight(cut, b, m0, m1, n0, n1);
    } else if constexpr (kWay == Way::kTurned) {
      turned(cut, b, m0, m1, n0, n1);
    }
  }

  // Vectors of B's columns by elements of A's rows: K's in pieces, in each strip by strip.
  AOT_INLINE void straight(const DirectCut& cut, int64_t b, int64_t m0, int64_t m1, int64_t n0,
                           int64_t n1) const {
    constexpr bool kPacks = direct_packs<Cfg>(), kInC = direct_in_c<Cfg>();
    using Source =
        std::conditional_t<Cfg::STRIDED_B && !kPacks, RowsOfB<T, B, Cfg::BATCH>, PanelsOfB<T>>;
    constexpr DirectCuts kSizes = direct_cuts<T>(Cfg::M, Cfg::N, Cfg::K, Cfg::MB, Cfg::NB);
    const A* const first = p.a + b * p.a_batch + m0 * p.a_row;
    const T* a = nullptr;
    int64_t a_row = p.a_row, a_col = p.a_col;
    if constexpr (std::is_same_v<A, T>) a = first;
    if constexpr (!std::is_same_v<A, T>) {
      T* const copy = tile + Cfg::MC * kLd;
      copy_rows(first, p.a_row, p.a_col, m1 - m0, k(), copy, kCopyLd);
      a = copy, a_row = kCopyLd, a_col = 1;
    }
    const int64_t from_col = a_col;
    if constexpr (brings_a<Cfg>()) a_col = kAcrossLd<Cfg>;
    DirectArgs<T, Source> args{nullptr, a_row, a_col, {}, k(), nullptr, kLd, 0, false};
    if constexpr (kPacks) {
      pack_any(b_from(b, n0), p.b_row, p.b_col, k(), n1 - n0, packed, k() * kPanel);
      args.b = {packed, k() * kPanel};
    } else if constexpr (Cfg::STRIDED_B) {
      args.b = {b_from(b, n0), p.b_row};
    } else {
      args.b = {p.b + b * p.b_batch + n0 / kPanel * b_panel(), b_panel()};
    }
    constexpr int64_t kDepth = direct_depth<Cfg>();
    constexpr bool kGroupsFirst = direct_groups_first<Cfg>();
    const bool across = a_col != 1;
    args.line = a_col * int64_t(sizeof(T));
    const auto first_b = args.b;
    for (int64_t k0 = 0; k0 < k(); k0 += kDepth) {
      args.k = min64(kDepth, k() - k0), args.add = k0 > 0, args.b = first_b.from(k0);
      const T* from = a + k0 * from_col;
      if constexpr (brings_a<Cfg>()) {
        T* const copy = tile + Cfg::MC * kLd;
        copy_across(from, p.a_col, m1 - m0, args.k, copy);
        from = copy;
      }
      const bool last = k0 + kDepth >= k();
      auto ahead = args.b.b;
      // Some neighbouring groups of a strip, to where its results are.
      const auto multiply = [&](int64_t s, int64_t g0, int64_t g1) {
        const int64_t i0 = cut.strips.begin(s), mr = cut.strips.size(s);
        args.a = from + i0 * a_row;
        // What follows: these rows' next k's, or the next strip, or the next matrix.
        args.next = reinterpret_cast<const char*>(args.a + (across ? kDepth * a_col : mr * a_row));
        if (!across) args.line = direct_line<T>(mr);
        if (kGroupsFirst && s == 0 && g1 < cut.groups.count) {
          args.next = reinterpret_cast<const char*>(ahead);
          args.line = args.b.step() * int64_t(sizeof(*ahead));
        }
        T* const results = tile + (kGroupsFirst || kDepth < k() ? i0 * kLd : 0);
        T* c = results;
        if constexpr (kInC) std::tie(c, args.ldc) = results_corner(p, epi, b, m0 + i0, n0);
        each_group<kSizes.rows, kSizes.vectors>(args, cut.groups, g0, g1, mr, n1 - n0, c);
        return results;
      };
      if constexpr (kGroupsFirst) {
        // The first strip fetches the next group: its lines are as far apart as B's rows, where
        // machines guess nothing.
        for (int64_t g = 0; g < cut.groups.count; ++g) {
          const int64_t after = cut.groups.begin(min64(g + 2, cut.groups.count)) * Simd<T>::kLanes;
          ahead = args.b.at(0) - args.b.first * Simd<T>::kLanes + min64(after, n1 - n0) - 1;
          for (int64_t s = 0; s < cut.strips.count; ++s) multiply(s, g, g + 1);
        }
        if (!kInC && last) epi(b, m0, m1, n0, n1, tile, kLd);
        continue;
      }
      for (int64_t s = 0; s < cut.strips.count; ++s) {
        const T* const results = multiply(s, 0, cut.groups.count);
        if (kInC || !last) continue;
        epi(b, m0 + cut.strips.begin(s), m0 + cut.strips.begin(s + 1), n0, n1, results, kLd);
      }
    }
  }

  // A's `count` rows of so many k's, which lie across, next to each other: a row of k's after the
  // other.
  static AOT_INLINE void copy_across(const T* from, int64_t a_col, int64_t count, int64_t depth,
                                     T* to) {
    constexpr int64_t kL = Simd<T>::kLanes;
    const int64_t whole = count / kL * kL;
    for (int64_t i = 0; i < depth; ++i) {
      const T* const at = from + i * a_col;
      T* const row = to + i * kAcrossLd<Cfg>;
      for (int64_t j = 0; j < whole; j += kL) Simd<T>::store(row + j, Simd<T>::load(at + j));
      for (int64_t j = whole; j < count; ++j) row[j] = at[j];
    }
  }

  // Vectors of A's rows by elements of B's columns; each group's results are turned.
  AOT_INLINE void turned(const DirectCut& cut, int64_t b, int64_t m0, int64_t m1, int64_t n0,
                         int64_t n1) const {
    constexpr int64_t kL = Simd<T>::kLanes;
    using Source = RowsOfB<T, A, Cfg::BATCH>;
    constexpr DirectCuts kSizes = direct_cuts<T>(Cfg::N, Cfg::M, Cfg::K, Cfg::NB, Cfg::MB);
    const DirectTable<T, Source>& table = kDirectTable<T, Source, kSizes.rows, kSizes.vectors>;
    T* const room = packed + Cfg::PACKED;
    const A* const columns = p.a + b * p.a_batch + m0 * p.a_row;
    for (int64_t g = 0; g < cut.groups.count; ++g) {
      const int64_t j0 = cut.groups.begin(g) * kL, nv = cut.groups.size(g);
      const int64_t j1 = min64(j0 + nv * kL, m1 - m0);
      DirectArgs<T, Source> args{nullptr,   p.b_col,
                                 p.b_row,   {columns + j0, p.a_col},
                                 k(),       nullptr,
                                 kTurnedLd, j1 - j0 - (nv - 1) * kL,
                                 false,     reinterpret_cast<const char*>(columns)};
      for (int64_t s = 0; s < cut.strips.count; ++s) {
        const int64_t i0 = cut.strips.begin(s);
        args.a = b_from(b, n0 + i0);
        args.c = room + i0 * kTurnedLd;
        fetch_ahead(*ahead, nv, args);
        table.fn[cut.strips.size(s)][nv](args);
      }
      turn_tile(room, kTurnedLd, n1 - n0, j1 - j0, tile, kLd);
      epi(b, m0 + j0, m0 + j1, n0, n1, tile, kLd);
    }
  }

  // A strip's groups [g0, g1) of vectors, where c is its first column.
  template <uint32_t ROWS, uint32_t VECTORS, class Source>
  AOT_INLINE void each_group(DirectArgs<T, Source>& args, const Pieces& groups, int64_t g0,
                             int64_t g1, int64_t mr, int64_t columns, T* c) const {
    constexpr int64_t kL = Simd<T>::kLanes;
    for (int64_t g = g0; g < g1; ++g) {
      const int64_t j0 = groups.begin(g) * kL, nv = groups.size(g);
      args.b.first = groups.begin(g);
      args.c = c + j0;
      args.last = min64(columns - j0 - (nv - 1) * kL, kL);
      fetch_ahead(*ahead, nv, args);
      kDirectTable<T, Source, ROWS, VECTORS, direct_in_c<Cfg>()>.fn[mr][nv](args);
    }
  }
};

}  // namespace aot::tmpl::detail

#endif  // AOT_TMPL_MATMUL_DIRECT_H_
