// Cache blocking around the micro-kernel: one block of rows by a run of packed panels.
#ifndef AOT_TMPL_GEMM_H_
#define AOT_TMPL_GEMM_H_

#include <utility>

#include "aot/tmpl/ahead.h"
#include "aot/tmpl/micro.h"
#include "aot/tmpl/pack.h"

namespace aot::tmpl {

// A few panels of a chunk of K as the micro-kernel reads them; `next` is worth fetching meanwhile.
template <class T>
struct Panels {
  const T* b;
  int64_t panel_stride, step;
  const T* next;
};

// Elements of scratch that NarrowB and StridedB need: the widest group of panels, one chunk of K.
constexpr int64_t panel_copy_elements(int64_t kb) { return 4 * kPanel * kb; }

// B as packed panels of T, read in place. The views of all sources: panels [j, j + np) of `count`,
// k's [k, k + depth).
template <class T>
struct PackedB {
  const T* b;  // the first panel at k = 0
  int64_t panel_stride;
  AOT_INLINE Panels<T> view(int64_t j, int np, int64_t count, int64_t k, int64_t depth) const {
    const T* at = b + j * panel_stride + k * kPanel;
    if (j + np < count) return {at, panel_stride, kPanel, at + np * panel_stride};
    // Behind the last panel comes the next chunk; behind all chunks the panels of other columns.
    const int64_t end = (k + depth) * kPanel;
    return {at, panel_stride, kPanel, b + (end < panel_stride ? end : count * panel_stride)};
  }
};

// B as packed panels of a type narrower than T, widened into `copy`.
template <class T, class B>
struct NarrowB {
  const B* b;
  int64_t panel_stride;
  T* copy;
  AOT_INLINE Panels<T> view(int64_t j, int np, int64_t, int64_t k, int64_t depth) const {
    widen_panels(b + j * panel_stride, panel_stride, np, k, depth, copy);
    return {copy, depth * kPanel, kPanel, copy};
  }
};

// B as a matrix of any strides, packed into `copy`. When few rows will use it and its own rows are
// contiguous, whole panels are read where they lie.
template <class T, class B>
struct StridedB {
  const B* b;           // the first column at k = 0
  int64_t row, column;  // strides in elements
  int64_t n;            // columns that exist from b on
  bool in_place;
  T* copy;
  AOT_INLINE Panels<T> view(int64_t j, int np, int64_t, int64_t k, int64_t depth) const {
    const B* at = b + k * row + j * kPanel * column;
    const int64_t columns = min64(np * kPanel, n - j * kPanel);
    if constexpr (std::is_same_v<T, B>) {
      if (in_place && column == 1 && columns == np * kPanel) return {at, kPanel, row, at};
    }
    pack_any(at, row, column, depth, columns, copy, depth * kPanel);
    return {copy, depth * kPanel, kPanel, copy};
  }
};

// C[0..mrows) x [0..panels*16) = rows * B. C is written whole panels wide.
template <class T, class Source>
struct BlockArgs {
  const T* const* rows;  // rows[t * tap_stride + i]
  int64_t tap_stride;
  int64_t mrows;
  int64_t taps;
  int64_t kc;  // k's per tap; K = taps * kc
  Source b;
  int64_t panels;
  T* c;
  int64_t ldc;
  bool half = false;       // nobody reads the upper half of the last panel of C
  bool one_strip = false;  // by strips: each takes C's first rows, which stay in L1 so
  // Where an epilogue stores what becomes of C, in bytes; null: not known, or not worth fetching.
  const char* out = nullptr;
  int64_t out_row = 0, out_panel = 0;
  const T* zeros = nullptr;  // as MicroArgs has it
  Ahead* ahead = nullptr;    // what is used next, brought near where B is already
};

// Has `np` panels' micro-kernel ask for what is used next, if there is more of it.
template <class T>
AOT_INLINE void fetch_ahead(Ahead* ahead, int np, int64_t depth, MicroArgs<T>& m) {
  if (ahead == nullptr || !ahead->any()) return;
  m.prefetch_step = ahead->step() / int64_t(sizeof(T));
  m.prefetch_stride = depth * m.prefetch_step;
  m.prefetch = reinterpret_cast<const T*>(ahead->take(np * depth));
}

template <class Op, int MR, int... NP>
constexpr MicroFn<typename Op::Type> micro_for(int panels, std::integer_sequence<int, NP...>) {
  MicroFn<typename Op::Type> fn = nullptr;
  ((panels == NP + 1 ? void(fn = micro_kernel<Op, MR, NP + 1>) : void()), ...);
  return fn;
}

// Heights of strips: bit h is set where there are some of h + 1 rows. Where a call's sizes are
// constants, it names those that it cuts, and only their micro-kernels are compiled for it: for the
// widest vectors they are most of what a compiler has to do for a product.
using Heights = uint32_t;
// Set where a call may leave out half of a last panel (BlockArgs::half).
inline constexpr Heights kHalfLast = Heights{1} << 31;
// Set where tables of all heights are in another unit of the library (SharedTables).
inline constexpr Heights kInSharedTables = Heights{1} << 30;
inline constexpr Heights kAllHeights = (Heights{1} << 16) - 1;

// Whether so many columns leave half of their last panel empty.
constexpr bool half_last(int64_t columns) {
  return columns > 0 && (columns - 1) % kPanel < kPanel / 2;
}

// The next group of panels: the widest the strip height allows, but two pairs rather than 3 + 1,
// because a single panel leaves the adders waiting for each other.
constexpr AOT_INLINE int next_panels(int64_t left, int widest) {
  if (left == widest + 1 && widest > 2) return int(left + 1) / 2;
  return int(min64(left, widest));
}

// Panels whose multiples units and chunks of columns begin at (`_STEP` in gemm_heuristic.py).
inline constexpr int64_t kStepPanels = 3;

// The same of a block's `count` panels, of which the last one may be multiplied by half, by
// micro-kernels of these heights: then with the one before it, where a division of the columns
// among threads could not come between both, as sums must not depend on that.
template <class T, Heights kHeights>
AOT_INLINE int next_panels(int64_t left, int widest, bool half, int64_t count) {
  constexpr bool kJoins = kJoinsHalves<T> && (kHeights & kHalfLast) != 0;
  if (kJoins && half && left == 2 && (count - 1) % kStepPanels != 0) return 2;
  return next_panels(left, widest);
}

// Set as bits from here on: how many panels go together with a last one that is half empty.
inline constexpr int kHalfGroups = 20;
// Set where half a panel may be multiplied alone, or together with the one before it.
inline constexpr Heights kHalfAlone = Heights{1} << 25;
inline constexpr Heights kHalfJoined = Heights{1} << 26;

// These two for blocks of `count` panels, or of fewer by multiples of `step`, in strips of any
// height, the last panel half empty.
template <class T>
constexpr Heights half_kinds(int64_t count, int64_t step) {
  Heights found = 0;
  for (; count > 0; count -= step) {
    for (int widest = 1; widest <= 4; ++widest) {
      int64_t left = count, last = 0;
      for (; left > 0; left -= last) {
        const bool joins = kJoinsHalves<T> && left == 2 && (count - 1) % kStepPanels != 0;
        last = joins ? 2 : next_panels(left, widest);
      }
      if (last == 1) found |= kHalfAlone;
      if (last == 2) found |= kHalfJoined;
    }
  }
  return found;
}

// What heights name where so many columns, `most` at a time, leave half of their last panel empty.
// `apart`: whole panels are multiplied ahead of it.
template <class T>
constexpr Heights half_of(int64_t columns, int64_t most, bool apart = false) {
  if (!half_last(columns)) return 0;
  const bool steps = columns <= most || most % (kStepPanels * kPanel) == 0;
  const int64_t all = ceil_div(columns, kPanel), largest = ceil_div(most, kPanel);
  int64_t ends = all;  // the most panels of a block at the end of the columns
  while (ends > largest) ends -= steps ? kStepPanels : 1;
  Heights found = kHalfLast | half_kinds<T>(apart ? 1 : ends, steps ? kStepPanels : 1);
  const int64_t panels = ceil_div((columns - 1) % most + 1, kPanel);
  for (int widest = 1; widest <= 4; ++widest) {
    int64_t left = panels, last = 0;
    for (; left > 0; left -= last) last = next_panels(left, widest);
    found |= Heights{1} << (kHalfGroups + last);
  }
  return found;
}

// fn[rows - 1][panels - 1]; null where the register block does not fit or the height is not named.
template <class T>
struct MicroTable {
  MicroFn<T> fn[RegisterBlock<T>::kRows][4];
};

template <class Op, Heights kHeights, int... MR>
constexpr auto make_micro_table(std::integer_sequence<int, MR...>) {
  using T = typename Op::Type;
  MicroTable<T> table{};
  (
      [&] {
        if constexpr ((kHeights >> MR & 1) != 0) {
          constexpr int kMax = RegisterBlock<T>::panels_for(MR + 1);
          for (int p = 1; p <= kMax; ++p) {
            table.fn[MR][p - 1] = micro_for<Op, MR + 1>(p, std::make_integer_sequence<int, kMax>{});
          }
        }
      }(),
      ...);
  return table;
}

template <class Op, Heights kHeights>
inline constexpr MicroTable<typename Op::Type> kMicroTable = make_micro_table<Op, kHeights>(
    std::make_integer_sequence<int, RegisterBlock<typename Op::Type>::kRows>{});

// fn[rows - 1][panels - 1] where half of the last panel is left out.
template <class Op, Heights kHeights, int... AT>
constexpr auto make_half_last_table(std::integer_sequence<int, AT...>) {
  using T = typename Op::Type;
  MicroTable<T> table{};
  (
      [&] {
        constexpr int kMr = AT / 4 + 1, kNp = AT % 4 + 1;
        if constexpr ((kHeights >> (kMr - 1) & 1) != 0 &&
                      (kHeights >> (kHalfGroups + kNp) & 1) != 0 &&
                      kNp <= RegisterBlock<T>::panels_for(kMr)) {
          table.fn[kMr - 1][kNp - 1] = half_last_kernel<Op, kMr, kNp>;
        }
      }(),
      ...);
  return table;
}

template <class Op, Heights kHeights>
inline constexpr MicroTable<typename Op::Type> kHalfLastTable = make_half_last_table<Op, kHeights>(
    std::make_integer_sequence<int, 4 * RegisterBlock<typename Op::Type>::kRows>{});

// fn[panels - 1][rows - 1] for half a panel, alone or behind a whole one; null where that is never.
template <class T>
struct HalfTable {
  MicroFn<T> fn[kJoinsHalves<T> ? 2 : 1][RegisterBlock<T>::kRows];
};

template <class Op, Heights kHeights, int... MR>
constexpr auto make_half_table(std::integer_sequence<int, MR...>) {
  HalfTable<typename Op::Type> table{};
  (
      [&] {
        if constexpr ((kHeights >> MR & 1) != 0) {
          if constexpr ((kHeights & kHalfAlone) != 0) {
            table.fn[0][MR] = half_kernel<Op, MR + 1>;
          }
          if constexpr (kJoinsHalves<typename Op::Type> && (kHeights & kHalfJoined) != 0) {
            table.fn[1][MR] = joined_kernel<Op, MR + 1>;
          }
        }
      }(),
      ...);
  return table;
}

template <class Op, Heights kHeights>
inline constexpr auto kHalfTable = make_half_table<Op, kHeights>(
    std::make_integer_sequence<int, RegisterBlock<typename Op::Type>::kRows>{});

// The tables of all heights, which take a compiler longer than the rest of a product. Calls whose
// configuration says SHARED share those of a unit of their library that defines them, as
//   template <> const MicroTable<float> SharedTables<MultiplyAdd<float>>::whole =
//       kMicroTable<MultiplyAdd<float>, kAllHeights>;
//   template <> const HalfTable<float> SharedTables<MultiplyAdd<float>>::half =
//       all_halves<MultiplyAdd<float>>();
// Each has a section of its own: the linker leaves out what no call of the library reads.
template <class Op>
struct __attribute__((visibility("hidden"))) SharedTables {
  static const MicroTable<typename Op::Type> whole;
  static const HalfTable<typename Op::Type> half;
};

template <class Op>
inline constexpr bool kSharable = false;
template <class T>
inline constexpr bool kSharable<MultiplyAdd<T>> = true;

template <class Op, class T = typename Op::Type>
constexpr HalfTable<T> all_halves() {
  if constexpr (kHalvesPanels<T>) return kHalfTable<Op, kAllHeights | kHalfAlone | kHalfJoined>;
  return {};
}

template <class Cfg>
inline constexpr Heights kSharing = Cfg::SHARED ? kInSharedTables : 0;

#if defined(AOT_TMPL_ONLY_NAMED_HEIGHTS)
inline constexpr bool kOnlyNamed = true;  // tests: a height that is not named ends the process
#else
inline constexpr bool kOnlyNamed = false;
#endif

// A strip of any height by the smallest micro-kernel: slow, and the same sums.
template <class Op, class T = typename Op::Type>
__attribute__((noinline, cold)) void any_height(MicroArgs<T> m, int rows, int panels) {
  if (kOnlyNamed) __builtin_trap();
  const MicroArgs<T> first = m;
  for (int j = 0; j < panels; ++j) {
    for (int i = 0; i < rows; ++i) {
      m.rows = first.rows + i;
      m.b = first.b + j * first.panel_stride;
      m.c = first.c + i * first.ldc + j * kPanel;
      micro_kernel<Op, 1, 1>(m);
    }
  }
}

// Whether a group of panels, the last of them the last of all, is computed without the upper half
// of that one.
template <class T>
AOT_INLINE bool takes_half(bool half, int64_t panels, bool last) {
  return half && last && (kHalvesVectors<T> || panels <= (kJoinsHalves<T> ? 2 : 1));
}

// One strip of `rows` rows by `panels` panels, of the last one maybe by half. It is right at every
// height that fits the register block, and fast at those in kHeights.
template <class Op, Heights kHeights, class T = typename Op::Type>
AOT_INLINE void micro(int rows, int panels, const MicroArgs<T>& m, bool half = false) {
  constexpr Heights kPossible = (Heights{1} << RegisterBlock<T>::kRows) - 1;
  constexpr Heights kNamed = kHeights & kPossible;  // the same table for all that name the same
  if constexpr ((kHeights & kHalfLast) != 0 && kHalvesVectors<T>) {
    constexpr Heights kGroups = kHeights & Heights{31} << kHalfGroups;
    const MicroFn<T> fn =
        half ? kHalfLastTable<Op, kNamed | kGroups>.fn[rows - 1][panels - 1] : nullptr;
    if (fn != nullptr) return fn(m);
  }
  if constexpr ((kHeights & kInSharedTables) != 0 && kNamed == kPossible && kSharable<Op>) {
    constexpr bool kHalves = (kHeights & kHalfLast) != 0 && kHalvesPanels<T>;
    if constexpr (kHalves) {
      if (half) return SharedTables<Op>::half.fn[panels - 1][rows - 1](m);
    }
    return SharedTables<Op>::whole.fn[rows - 1][panels - 1](m);
  }
  if constexpr ((kHeights & kHalfLast) != 0 && kHalvesPanels<T>) {
    constexpr Heights kKinds = kHeights & (kHalfAlone | kHalfJoined);
    const MicroFn<T> fn = half ? kHalfTable<Op, kNamed | kKinds>.fn[panels - 1][rows - 1] : nullptr;
    if (fn != nullptr) return fn(m);
    if (kOnlyNamed && half) __builtin_trap();  // a whole panel's sums are in another order
  }
  const MicroFn<T> fn = kMicroTable<Op, kNamed>.fn[rows - 1][panels - 1];
  if constexpr (kNamed != kPossible) {
    if (__builtin_expect(fn == nullptr, 0)) return any_height<Op>(m, rows, panels);
  }
  fn(m);
}

// Cuts `mrows` rows into strips of nearly equal height, none above the register block.
template <class T>
struct Strips {
  int64_t count, base, extra;  // the first `extra` strips have base + 1 rows
  explicit constexpr AOT_INLINE Strips(int64_t mrows)
      : count(ceil_div(mrows, RegisterBlock<T>::kRows)),
        base(mrows / count),
        extra(mrows % count) {}
  constexpr AOT_INLINE int rows(int64_t i) const { return int(base + (i < extra)); }
  constexpr AOT_INLINE int64_t begin(int64_t i) const { return i * base + min64(i, extra); }
  // The first strip is of the highest, the last of the lowest.
  constexpr Heights heights() const {
    return Heights{1} << (rows(0) - 1) | Heights{1} << (rows(count - 1) - 1);
  }
};

// Cuts rows into blocks of nearly equal size, none above `most` rows.
struct Blocks {
  int64_t rows, count;
  constexpr AOT_INLINE Blocks(int64_t all, int64_t most) : rows(all), count(ceil_div(all, most)) {}
  constexpr AOT_INLINE int64_t begin(int64_t i) const { return rows * i / count; }
  constexpr AOT_INLINE int64_t size(int64_t i) const { return begin(i + 1) - begin(i); }
  // The heights of all blocks' strips: sizes are the quotient, rounded down or up.
  template <class T>
  constexpr Heights heights() const {
    return Strips<T>(rows / count).heights() | Strips<T>(ceil_div(rows, count)).heights();
  }
};

// Units of one product that a compiler looks at: it counts these in 0.03 s.
inline constexpr int64_t kMostUnits = 1024;

// The heights where work units of `unit` rows each, of `rows` in all (-1: not a constant), are
// divided among threads in any way, a thread's neighbours are joined and then cut into blocks.
template <class T>
constexpr Heights heights_of_units(int64_t rows, int64_t unit, int64_t block) {
  const int64_t units = ceil_div(rows, unit);
  if (rows < 0 || units > kMostUnits) return kAllHeights;
  Heights found = 0;
  for (int64_t n = 1; n <= units; ++n) {  // n units from anywhere but the end, and those at the end
    found |= Blocks(min64(n * unit, rows), block).template heights<T>();
    found |= Blocks(rows - (units - n) * unit, block).template heights<T>();
  }
  return found;
}

// Strips outermost: the rows of a strip stay in L1 while B streams from L2, and done(i0, i1) is
// called with finished rows that are still in L1; with one_strip they are C's first ones. For K
// that fits one chunk and B that is warm.
template <class Op, Heights kHeights, class T, class Done>
AOT_INLINE void block_by_strips(const BlockArgs<T, PackedB<T>>& a, const Done& done) {
  const Strips<T> strips(a.mrows);
  for (int64_t s = 0; s < strips.count; ++s) {
    const int mr = strips.rows(s);
    const int64_t i0 = strips.begin(s);
    const int widest = RegisterBlock<T>::panels_for(mr);
    // Rows of a dense matrix follow each other: the first panels fetch the next strip's.
    const T* next = a.rows[i0 + mr - 1] + a.kc;
    for (int64_t j = 0; j < a.panels;) {
      const int np = next_panels<T, kHeights>(a.panels - j, widest, a.half, a.panels);
      const T* b = a.b.b + j * a.b.panel_stride;
      T* c = a.c + (a.one_strip ? 0 : i0 * a.ldc) + j * kPanel;
      const T* fetch = j == 0 && a.taps == 1 ? next : b;
      if (a.out != nullptr) {
        for (int i = 0; i < mr; ++i) {
          const char* const row = a.out + (i0 + i) * a.out_row + j * a.out_panel;
          for (int64_t q = 0; q < np * a.out_panel; q += 64) __builtin_prefetch(row + q, 1, 3);
        }
      }
      MicroArgs<T> m{a.rows + i0, a.tap_stride, a.taps, 0, a.kc, b, a.b.panel_stride, kPanel,
                     c,           a.ldc,        fetch,  0, false};
      m.zeros = a.zeros;
      if (j > 0 || a.panels == 1) fetch_ahead(a.ahead, np, a.taps * a.kc, m);
      micro<Op, kHeights>(mr, np, m, takes_half<T>(a.half, np, j + np == a.panels));
      j += np;
    }
    done(i0, i0 + mr);
  }
}

// How far ahead of its use B is fetched when one strip reads it, in elements: 4 KiB of floats.
inline constexpr int64_t kPrefetchAhead = 1024;

// Strips that fetch the next panels together, each a part of their rows. One strip alone would ask
// for a line every few cycles, which no memory gives: it would wait, and those behind it ask for
// nothing. More than these make no difference.
inline constexpr int64_t kFetchers = 8;

// What strip `s` of `strips` fetches of the next panels, which have `depth` rows from `next` on.
template <class T>
AOT_INLINE void fetch_part(const Panels<T>& view, int64_t s, int64_t strips, int64_t depth,
                           MicroArgs<T>& m) {
  const int64_t parts = min64(kFetchers, strips);
  const bool any = s < parts;
  m.prefetch = any ? view.next + depth * s / parts * kPanel : view.b;
  m.prefetch_stride = any ? view.panel_stride : 0;
  // The kernel asks at every k, so for a line several times: once it is on its way that is cheap.
  m.prefetch_step = any ? ceil_div(kPanel, parts) : 0;
}

// The default of `finish` below: C keeps all panels, whoever called looks at them afterwards.
struct Together {
  AOT_INLINE void operator()(int64_t, int64_t) const {}
};
// Panels that are worth finishing by themselves: three vectors or more of each row.
inline constexpr int64_t kFinished = 3;

// One chunk of K for the whole block, panels outermost: the chunk's panels stay in L1 while the
// strips pass, and the strips fetch the next panels, so B is read from memory once. `k` is the
// chunk's first k in all of K; m says which rows and taps it has. `finish` gets panels while they
// are in L1, (first, count): C then needs room for these alone.
template <class Op, Heights kHeights, class T, class Source, class Finish = Together>
AOT_INLINE void chunk_by_panels(const BlockArgs<T, Source>& a, MicroArgs<T> m, int64_t k,
                                const Finish& finish = {}) {
  constexpr bool kTogether = std::is_same_v<Finish, Together>;
  const Strips<T> strips(a.mrows);
  const int widest = RegisterBlock<T>::panels_for(int(strips.base + (strips.extra > 0)));
  const T* const* rows = m.rows;
  int64_t first = 0;  // of the panels that C has
  for (int64_t j = 0; j < a.panels;) {
    const int np = next_panels<T, kHeights>(a.panels - j, widest, a.half, a.panels);
    const Panels<T> view = a.b.view(j, np, a.panels, k, m.taps * m.kc);
    m.b = view.b;
    m.panel_stride = view.panel_stride;
    m.step = view.step;
    const bool half = takes_half<T>(a.half, np, j + np == a.panels);
    for (int64_t s = 0; s < strips.count; ++s) {
      const int64_t i0 = strips.begin(s);
      m.rows = rows + i0;
      m.c = a.c + i0 * a.ldc + (j - first) * kPanel;
      if (strips.count == 1) {
        m.prefetch = view.b + kPrefetchAhead;
        m.prefetch_stride = view.panel_stride;
      } else {
        fetch_part(view, s, strips.count, m.taps * m.kc, m);
        fetch_ahead(a.ahead, np, m.taps * m.kc, m);
      }
      micro<Op, kHeights>(strips.rows(s), np, m, half);
    }
    j += np;
    if (!kTogether && (j == a.panels || j - first >= kFinished)) {
      finish(first, j - first);
      first = j;
    }
  }
}

// Sources whose chunks may be longer than KB, because they copy nothing.
template <class Source>
inline constexpr bool kUnboundedB = false;
template <class T>
inline constexpr bool kUnboundedB<PackedB<T>> = true;

// The default of block_by_panels' `prepare`: rows are read where they lie.
struct RowsInPlace {
  template <class T>
  AOT_INLINE void operator()(MicroArgs<T>&) const {}
};

// What one tap of k's (-1: not a constant) has for KB: no end, where it is a chunk in any case. So
// products of other depths have the same loops.
constexpr int64_t chunk_of(int64_t k, int64_t kb) { return k >= 0 && k <= kb ? INT64_MAX : kb; }

// All of K for the block, in chunks of at most KB; the sums of every element run over k in order,
// so the result does not depend on how work was divided. Before each chunk, prepare(m) may replace
// m.rows by copies of k's [m.k0, m.k0 + m.kc) of the same rows, and then sets m.k0 to 0.
template <class Op, int64_t KB, Heights kHeights, class T, class Source, class Prepare>
AOT_INLINE void all_chunks(const BlockArgs<T, Source>& a, const Prepare& prepare) {
  MicroArgs<T> m{a.rows, a.tap_stride, a.taps, 0,       a.kc, nullptr, 0,
                 kPanel, a.c,          a.ldc,  nullptr, 0,    false};
  m.zeros = a.zeros;
  // A single strip uses B once: then nothing needs to stay in L1, and long streams read best.
  const bool once = kUnboundedB<Source> && std::is_same_v<Prepare, RowsInPlace> &&
                    a.mrows <= RegisterBlock<T>::kRows;
  if (a.kc > KB && !once) {  // several chunks a tap
    const int64_t step = round_up(ceil_div(a.kc, ceil_div(a.kc, KB)), 4);
    m.taps = 1;
    for (int64_t t = 0; t < a.taps; ++t) {
      for (int64_t k = 0; k < a.kc; k += step) {
        m.rows = a.rows + t * a.tap_stride;
        m.k0 = k;
        m.kc = min64(step, a.kc - k);
        prepare(m);
        chunk_by_panels<Op, kHeights>(a, m, t * a.kc + k);
        m.accumulate = true;
      }
    }
    return;
  }
  // Several taps a chunk, evenly.
  const int64_t most = once ? a.taps : max64(1, KB / max64(a.kc, 1));
  const int64_t step = ceil_div(a.taps, ceil_div(a.taps, most));
  for (int64_t t = 0; t < a.taps; t += step) {
    m.rows = a.rows + t * a.tap_stride;
    m.taps = min64(step, a.taps - t);
    m.k0 = 0;
    prepare(m);
    chunk_by_panels<Op, kHeights>(a, m, t * a.kc);
    m.accumulate = true;
  }
}

template <class Op, int64_t KB, Heights kHeights, class T, class Source>
AOT_SHARED void shared_chunks(const BlockArgs<T, Source>& a) {
  all_chunks<Op, KB, kHeights>(a, RowsInPlace());
}

// The same. Calls that share micro-kernels know few sizes, and share the loops around these too.
template <class Op, int64_t KB, Heights kHeights, class T, class Source, class Prepare>
AOT_INLINE void block_by_panels(const BlockArgs<T, Source>& a, const Prepare& prepare) {
  constexpr bool kShared = (kHeights & kInSharedTables) != 0 && kSharable<Op>;
  if constexpr (kShared && std::is_same_v<Prepare, RowsInPlace>) {
    constexpr Heights kRead = kAllHeights | kInSharedTables | kHalfLast;
    shared_chunks<Op, KB, kHalvesVectors<T> ? kHeights : kHeights & kRead>(a);
  } else {
    all_chunks<Op, KB, kHeights>(a, prepare);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_GEMM_H_
