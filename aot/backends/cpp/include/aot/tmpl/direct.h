// Products of operands that are read where they lie, without a copy of either: of small matrices,
// whose elements are used too seldom for one to pay.
//
//   C[i][n] (+)= sum over k of  A[i][k] * B[k][n]
//
// A has any strides: one element at a time goes to all lanes. B's columns are neighbours in memory,
// or it is packed. How many rows and vectors of columns are computed at once is a choice by price
// among all that fit the registers (DirectShape), made by compilers where sizes are constants.
#ifndef AOT_TMPL_DIRECT_H_
#define AOT_TMPL_DIRECT_H_

#include "aot/tmpl/ahead.h"
#include "aot/tmpl/micro.h"
#include "aot/tmpl/pack.h"

namespace aot::tmpl {

// Whether this level loads the first elements of a vector in one instruction or two.
template <class T, class E>
inline constexpr bool kLoadsParts =
#if defined(__AVX512F__)
    std::is_floating_point_v<T>;
#elif defined(__AVX2__)
    std::is_floating_point_v<T> && std::is_same_v<T, E>;
#else
    false;
#endif

// The first lanes of a vector of T.
template <class T>
struct FirstLanes {
#if defined(__AVX512F__)
  uint32_t mask;
  explicit AOT_INLINE FirstLanes(int64_t n) : mask((uint32_t{1} << n) - 1) {}
#elif defined(__AVX2__)
  __m256i mask;
  explicit AOT_INLINE FirstLanes(int64_t n) {
    typedef std::conditional_t<sizeof(T) == 8, int64_t, int32_t> Lane;
    typedef Lane Lanes __attribute__((vector_size(32)));
    Lanes lane;
    AOT_UNROLL for (int i = 0; i < Simd<T>::kLanes; ++i) lane[i] = i;
    mask = __m256i(Lane(n) - Lanes{} > lane);
  }
#else
  int64_t n;
  explicit AOT_INLINE FirstLanes(int64_t n) : n(n) {}
#endif

  // These elements, which alone exist, and zeros.
  template <class E>
  AOT_INLINE typename Simd<T>::V load(const E* at) const {
    using V [[maybe_unused]] = typename Simd<T>::V;
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<E, float>) {
      return V(_mm512_maskz_loadu_ps(__mmask16(mask), at));
    } else if constexpr (std::is_same_v<E, double>) {
      return V(_mm512_maskz_loadu_pd(__mmask8(mask), at));
    } else {
      const __m256i bits = _mm256_maskz_loadu_epi16(__mmask16(mask), at);
      if constexpr (std::is_same_v<E, F16>) return V(_mm512_maskz_cvtph_ps(0xffff, bits));
      return V(typename Simd<T>::Words(_mm512_maskz_cvtepu16_epi32(0xffff, bits)) << 16);
    }
#elif defined(__AVX2__)
    if constexpr (std::is_same_v<E, float>) {
      return V(_mm256_maskload_ps(at, mask));
    } else {
      return V(_mm256_maskload_pd(at, mask));
    }
#else
    return load_first<T>(at, n);
#endif
  }
  // These lanes, and nothing else.
  AOT_INLINE void store(T* to, typename Simd<T>::V v) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4) {
      _mm512_mask_storeu_ps(to, __mmask16(mask), __m512(v));
    } else {
      _mm512_mask_storeu_pd(to, __mmask8(mask), __m512d(v));
    }
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      _mm256_maskstore_ps(to, mask, __m256(v));
    } else {
      _mm256_maskstore_pd(to, mask, __m256d(v));
    }
#else
    for (int64_t i = 0; i < n; ++i) to[i] = v[i];
#endif
  }
};

// B whose columns are neighbours in memory, of T or narrower; vector j of a row. AHEAD: kernels ask
// for what is used much later, too.
template <class T, class E, bool AHEAD = false>
struct RowsOfB {
  using Op = MultiplyAdd<T>;  // how elements are multiplied
  using Result = T;           // what sums are stored as
  static constexpr bool kPacked = false, kMany = false, kAdds = false, kAhead = AHEAD;
  static constexpr int kFetched = 3;  // where to, as __builtin_prefetch counts levels
  const E* b;
  int64_t row;
  int64_t first = 0;  // vector
  AOT_INLINE const E* at(int64_t j) const { return b + (first + j) * Simd<T>::kLanes; }
  AOT_INLINE int64_t step() const { return row; }
  AOT_INLINE RowsOfB from(int64_t k) const { return {b + k * row, row, first}; }
};

// Bytes of an operand that the second level of cache keeps beside others.
inline constexpr int64_t kNearBytes = 1 << 18;

// Brings `count` rows of `columns` elements, `row` apart, near: by loads in the order of memory,
// which machines run ahead of. Kernels that read some columns of each row, far from the row before,
// would wait for every line.
template <class E>
AOT_INLINE void bring_near(const E* from, int64_t row, int64_t count, int64_t columns) {
  constexpr int64_t kLine = 64 / int64_t(sizeof(E));
  const int64_t runs = row == columns ? 1 : count, run = row == columns ? count * columns : columns;
  for (int64_t i = 0; i < runs; ++i) {
    for (int64_t at = 0; at < run; at += kLine) {
      asm volatile("" : : "r"(*reinterpret_cast<const char*>(from + i * row + at)));
    }
  }
}

// B in panels, of a narrower type perhaps.
template <class T, class E = T>
struct PanelsOfB {
  using Op = MultiplyAdd<T>;
  using Result = T;
  static constexpr bool kPacked = true, kMany = false, kAhead = false;
  static constexpr bool kAdds = false;  // whether a column's own number is added to sums
  static constexpr int kFetched = 3;
  const E* b;
  int64_t panel;
  int64_t first = 0;
  AOT_INLINE const E* at(int64_t j) const {
    using S = Simd<T>;
    const int64_t at = first + j;
    return b + at / S::kPerPanel * panel + at % S::kPerPanel * S::kLanes;
  }
  AOT_INLINE int64_t step() const { return kPanel; }
  AOT_INLINE PanelsOfB from(int64_t k) const { return {b + k * kPanel, panel, first}; }
};

// The same where what is fetched is more than L1 holds, for some pieces in turn.
template <class T>
struct FarPanelsOfB : PanelsOfB<T> {
  static constexpr bool kMany = true;
  static constexpr int kFetched = 2;
};

template <class T, class Source>
struct DirectArgs {
  const T* a;
  int64_t a_row, a_col;  // strides in elements
  Source b;
  int64_t k;
  typename Source::Result* c;  // tile, row-major
  int64_t ldc;
  int64_t last;                // lanes of the last vector that exist
  bool add;                    // to what C has
  const char* next = nullptr;  // a line is fetched at each k from here on: of mapped memory
  int64_t line = 0;            // bytes from a k's line to the next k's
  const char* far = nullptr;   // the same of lines that are used later: to the second level
  int64_t far_line = 0;
  // With kMany, so many pieces in turn, elements from one's operands to the next one's; how many of
  // them fetch, and bytes from where one begins to where the next one does.
  int64_t pieces = 1, a_next = 0, b_next = 0, c_next = 0, fetch = 1, fetch_next = 0;
};

// Whether kernels of so many vectors ask for what is used much later, too: a load more at each k,
// which shows where there is a load for each operation already, or few registers.
template <class Source>
constexpr bool asks_ahead(int64_t vectors) {
  return Source::kAhead && !kFewRegisters && vectors > 1;
}

// Has a kernel ask for what is used next, if there is more of it.
template <class T, class Source>
AOT_INLINE void fetch_ahead(Ahead& ahead, int64_t vectors, DirectArgs<T, Source>& args) {
  if (!asks_ahead<Source>(vectors)) return;
  args.far = args.next, args.far_line = 0;
  if (!ahead.any()) return;
  args.far_line = ahead.step();
  args.far = ahead.take(args.k);
}

template <class T, class Source>
using DirectFn = void (*)(const DirectArgs<T, Source>&);

// EXACT: no column of C beyond the last is written.
template <class T, class Source, int MR, int NV, bool EXACT>
AOT_INLINE void direct_piece(const DirectArgs<T, Source>& d, int64_t piece) {
  using S = Simd<T>;
  using V = typename S::V;
  constexpr int kL = S::kLanes;
  // Fewer sums than hide an operation's latency take the k's by turns.
  constexpr int kTurns = MR * NV >= 8 ? 1 : MR * NV >= 4 ? 2 : 4;
  // Rows are reached from every third one: one and two strides on, in an address.
  constexpr int kBases = (MR + 2) / 3;
  const int64_t row = d.a_row, col = d.a_col, step = d.b.step(), ldc = d.ldc, depth = d.k;
  auto* const corner = d.c + piece * d.c_next;
  const FirstLanes<T> last(d.last);
  const T* a[kBases];
  AOT_UNROLL for (int i = 0; i < kBases; ++i) a[i] = d.a + piece * d.a_next + 3 * i * row;
  auto* b = d.b.at(0);
  int64_t at[NV];
  AOT_UNROLL for (int j = 0; j < NV; ++j) at[j] = d.b.at(j) - b;
  b += piece * d.b_next;
  bool add = d.add;
  const bool part = d.last < kL;  // stores of all lanes are faster without a mask
  const bool fetches = piece < d.fetch;
  const char* next = d.next + (fetches ? piece * d.fetch_next : 0);
  const int64_t line = fetches ? d.line : 0;
  [[maybe_unused]] const char* far = d.far;
  [[maybe_unused]] const int64_t far_line = d.far_line;
  int64_t k = 0;
  do {
    V acc[kTurns][MR][NV];
    AOT_UNROLL for (int t = 0; t < kTurns; ++t) {
      AOT_UNROLL for (int i = 0; i < MR; ++i) {
        AOT_UNROLL for (int j = 0; j < NV; ++j) acc[t][i][j] = S::zero();
      }
    }
    const auto one = [&](V(&sums)[MR][NV]) __attribute__((always_inline)) {
      V bv[NV];
      AOT_UNROLL for (int j = 0; j < NV; ++j) {
        if constexpr (Source::kPacked) {
          bv[j] = load_widened<T>(b + at[j]);
        } else if (j + 1 < NV) {
          bv[j] = load_widened<T>(b + j * kL);
        } else {
          bv[j] = last.load(b + j * kL);
        }
        // Compilers would load operands of two operations twice, where loads are what counts.
        if constexpr (MR == 2) asm("" : "+v"(bv[j]));
      }
      AOT_UNROLL for (int i = 0; i < MR; ++i) {
        const V x = S::set1(a[i / 3][i % 3 * row]);
        AOT_UNROLL for (int j = 0; j < NV; ++j) sums[i][j] =
            Source::Op::apply(x, bv[j], sums[i][j]);
      }
      AOT_UNROLL for (int i = 0; i < kBases; ++i) a[i] += col;
      b += step;
      __builtin_prefetch(next, 0, Source::kFetched);
      next += line;
      if constexpr (asks_ahead<Source>(NV)) {
        __builtin_prefetch(far, 0, 2);
        far += far_line;
      }
    };
    const int64_t stop = min64(depth, k + kChain);
    if constexpr (kTurns > 1) {
      for (; k + kTurns <= stop; k += kTurns) {
        AOT_UNROLL for (int t = 0; t < kTurns; ++t) one(acc[t]);
      }
    }
    // The loop's own half cycle shows where a k's operations are few.
    if constexpr (kTurns == 1 && MR * NV <= 12) {
      AOT_UNROLL_4 for (; k < stop; ++k) one(acc[0]);
    }
    for (; k < stop; ++k) one(acc[0]);
    [[maybe_unused]] V own[NV];
    if constexpr (Source::kAdds) d.b.addends(own, d.last);
    AOT_UNROLL for (int i = 0; i < MR; ++i) {
      AOT_UNROLL for (int t = 1; t < kTurns; ++t) {
        AOT_UNROLL for (int j = 0; j < NV; ++j) acc[0][i][j] += acc[t][i][j];
      }
      if constexpr (Source::kAdds) {
        AOT_UNROLL for (int j = 0; j < NV; ++j) acc[0][i][j] += own[j];
      }
      if constexpr (!std::is_same_v<typename Source::Result, T>) {
        Source::template store<NV>(corner + i * ldc, acc[0][i], d.last);
      } else {
        AOT_UNROLL for (int j = 0; j < NV; ++j) {
          T* const c = corner + i * ldc + j * kL;
          const V sum = acc[0][i][j];
          if (EXACT && j + 1 == NV && part) {
            last.store(c, add ? last.load(c) + sum : sum);
          } else {
            S::store(c, add ? S::load(c) + sum : sum);
          }
        }
      }
    }
    add = true;
  } while (k < depth);
}

template <class T, class Source, int MR, int NV, bool EXACT>
__attribute__((noinline)) void direct_kernel(const DirectArgs<T, Source>& args) {
  const DirectArgs<T, Source> own = args;  // which no store to C can change
  const int64_t pieces = Source::kMany ? own.pieces : 1;
  for (int64_t i = 0; i < pieces; ++i) direct_piece<T, Source, MR, NV, EXACT>(own, i);
}

// Rows and vectors that are computed at once.
struct DirectShape {
  int64_t rows, vectors;
  int64_t price;    // of all, in half cycles
  int64_t far = 0;  // the part of it that lines of B take, which are read in place
};

inline constexpr int kMostDirectRows = 14, kMostDirectVectors = 6;

// Registers besides those of sums and of B's vectors: an element of A, and where masks are vectors
// that of the last one. Without a register it is loaded at each k, and so are B's vectors again.
inline constexpr int kDirectRest = kFewRegisters && kLoadsParts<float, float> ? 2 : 1;

// Bytes that are fetched at each k of the rows that follow `rows` others: these and no more, where
// B fills half of a small first level of cache.
template <class T>
constexpr AOT_INLINE int64_t direct_line(int64_t rows) {
  return kFewRegisters ? min64(rows * int64_t(sizeof(T)), 64) : 64;
}

// Cuts `count` into pieces of nearly equal size, none above `most`.
struct Pieces {
  int64_t count, base, extra;  // the first `extra` have base + 1
  constexpr AOT_INLINE Pieces(int64_t all, int64_t most)
      : count(ceil_div(all, most)), base(all / count), extra(all % count) {}
  constexpr AOT_INLINE int64_t size(int64_t i) const { return base + (i < extra); }
  constexpr AOT_INLINE int64_t begin(int64_t i) const { return i * base + min64(i, extra); }
  // Pieces of one size from this one on.
  constexpr AOT_INLINE int64_t alike(int64_t i) const { return i < extra ? extra - i : count - i; }
};

// What a strip of so many sums takes, of `a_k` half cycles a k: around it there are a call and, for
// each result, a store and the epilogue's load.
constexpr int64_t price_of_strip(int64_t sums, int64_t a_k, int64_t k) {
  constexpr int64_t kAround = 60, kResult = 3;
  return k * a_k + kAround + sums * kResult;
}

// The least half cycles of a k: sums wait four cycles for each other, and few take turns.
constexpr int64_t least_wait(int64_t sums) { return sums >= 4 ? 4 : 2; }

// A strip of `rows` by `vectors`: at each k two operations a cycle and two loads, and the loop's
// own. With few registers a k is few operations, beside which the loop's own and the line that is
// fetched show.
constexpr int64_t direct_strip(int64_t rows, int64_t vectors, int64_t k) {
  const int64_t sums = rows * vectors, loads = rows + vectors, least = least_wait(sums);
  const int64_t a_k = kFewRegisters ? max64(max64(sums, least) + 3, (loads + 1) * 4 / 3)
                                    : max64(max64(sums, loads), least) + 1;
  return price_of_strip(sums, a_k, k);
}

// The same of panels that lie near: the line that is fetched is a load. A vector of B takes an
// eighth of a cycle more: the more there are of them, the fewer stay in L1 while rows pass. So does
// any load, nearly, where registers are many: of the rows of a high strip some come from L2.
constexpr int64_t panel_strip(int64_t rows, int64_t vectors, int64_t k) {
  const int64_t sums = rows * vectors, loads = rows + vectors + 1;
  const int64_t a_k = max64(max64(sums, loads), least_wait(sums)) + 1;
  return price_of_strip(sums, a_k, k) + k * (2 * vectors + (kFewRegisters ? 0 : 3 * loads)) / 8;
}

// The sum of strip(rows, vectors) over all strips and groups: they have two sizes at most.
template <class Strip>
constexpr int64_t price_of(const Pieces& strips, const Pieces& groups, const Strip& strip) {
  int64_t sum = 0;
  for (const bool high : {true, false}) {
    for (const bool wide : {true, false}) {
      const int64_t count = (high ? strips.extra : strips.count - strips.extra) *
                            (wide ? groups.extra : groups.count - groups.extra);
      if (count > 0) sum += count * strip(strips.base + high, groups.base + wide);
    }
  }
  return sum;
}

// Rows, so many bytes apart, whose lines the first level of cache keeps side by side. Its sets come
// again every 4096 bytes and hold eight lines or more: two are for B and C.
constexpr int64_t near_rows(int64_t apart) {
  constexpr int64_t kAgain = 4096, kLine = 64, kHeld = 6;
  int64_t places = kAgain / kLine;  // where lines of rows can be: as many as the greatest factor
  while (places > 1 && apart % (2 * kAgain / places) == 0) places /= 2;
  return places * kHeld;
}

// The cut of the least price among those that leave `rest` registers besides those of sums and of
// B's vectors, of strips of `most_rows` at most; shape(strips, groups) prices one.
template <class Shape>
constexpr DirectShape cheapest(int64_t rows, int64_t vectors, int rest, int64_t most_rows,
                               const Shape& shape) {
  DirectShape best{0, 0, 0, 0};
  for (int64_t nv = min64(vectors, kMostDirectVectors); nv > 0; --nv) {
    const int64_t most = min64(most_rows, (kVectorRegisters - rest - nv) / nv);
    if (most < 1) continue;
    const DirectShape found = shape(Pieces(rows, most), Pieces(vectors, nv));
    if (best.rows == 0 || found.price < best.price) best = found;
  }
  return best;
}

// The cheapest cut of so many rows by so many columns.
template <class T>
constexpr DirectShape direct_shape(int64_t rows, int64_t columns, int64_t k) {
  const auto shape = [&](const Pieces& strips, const Pieces& groups) {
    const int64_t mr = strips.size(0), gv = groups.size(0);
    if (!kFewRegisters) {
      return DirectShape{mr, gv, strips.count * groups.count * direct_strip(mr, gv, k)};
    }
    // Low and narrow pieces differ by more. And a line of B comes from far once for each group that
    // has a part of it: groups of half lines read most of them twice.
    constexpr int64_t kHalfLine = 3;
    const int64_t near =
        price_of(strips, groups, [&](int64_t r, int64_t v) { return direct_strip(r, v, k); });
    const int64_t far = price_of(Pieces(1, 1), groups, [&](int64_t, int64_t v) {
      return k * (2 + v * kVectorBytes / 32) * kHalfLine;
    });
    return DirectShape{mr, gv, near + far, far};
  };
  return cheapest(rows, ceil_div(columns, Simd<T>::kLanes), kDirectRest, kMostDirectRows, shape);
}

// The same of panels that lie near, and rows of which one begins `apart` elements behind another.
template <class T>
constexpr DirectShape panel_shape(int64_t rows, int64_t columns, int64_t k, int64_t apart) {
  const int64_t most = min64(kMostDirectRows, near_rows(apart * int64_t(sizeof(T))));
  const auto shape = [&](const Pieces& strips, const Pieces& groups) {
    const int64_t mr = strips.size(0), gv = groups.size(0);
    const int64_t price =
        price_of(strips, groups, [&](int64_t r, int64_t v) { return panel_strip(r, v, k); });
    // A strip asks for one panel of the next group (even.h): those beyond come late. Where rows are
    // few, memory bounds what B takes, and gives most where several panels are read at once.
    constexpr int64_t kLate = 12, kFewRows = 8;
    const int64_t panels = ceil_div(gv, Simd<T>::kPerPanel);
    const int64_t beyond = rows > kFewRows ? max64(0, panels - strips.count) : 0;
    return DirectShape{mr, gv, price + groups.count * beyond * k * kLate};
  };
  return cheapest(rows, ceil_div(columns, Simd<T>::kLanes), 1, most, shape);
}

// What a product of constant sizes, in units of so many rows and columns, cuts them into: the
// heights and widths of pieces, as bits.
struct DirectCuts {
  uint32_t rows, vectors;
};

constexpr uint32_t sizes_of(const Pieces& pieces) {
  return uint32_t{1} << pieces.size(0) | uint32_t{1} << pieces.size(pieces.count - 1);
}

template <class T>
constexpr DirectCuts direct_cuts(int64_t m, int64_t n, int64_t k, int64_t mb, int64_t nb) {
  DirectCuts found{0, 0};
  for (const int64_t rows : {min64(m, mb), m % mb}) {
    for (const int64_t columns : {min64(n, nb), n % nb}) {
      if (rows == 0 || columns == 0) continue;
      const DirectShape shape = direct_shape<T>(rows, columns, k);
      found.rows |= sizes_of(Pieces(rows, shape.rows));
      found.vectors |= sizes_of(Pieces(ceil_div(columns, Simd<T>::kLanes), shape.vectors));
    }
  }
  return found;
}

template <class T, class Source>
struct DirectTable {
  DirectFn<T, Source> fn[kMostDirectRows + 1][kMostDirectVectors + 1];
};

template <class T, class Source, uint32_t ROWS, uint32_t VECTORS, bool EXACT, int... AT>
constexpr auto make_direct_table(std::integer_sequence<int, AT...>) {
  DirectTable<T, Source> table{};
  (
      [&] {
        constexpr int kR = AT / (kMostDirectVectors + 1), kV = AT % (kMostDirectVectors + 1);
        if constexpr ((ROWS >> kR & 1) != 0 && (VECTORS >> kV & 1) != 0) {
          table.fn[kR][kV] = direct_kernel<T, Source, kR, kV, EXACT>;
        }
      }(),
      ...);
  return table;
}

template <class T, class Source, uint32_t ROWS, uint32_t VECTORS, bool EXACT = false>
inline constexpr auto kDirectTable = make_direct_table<T, Source, ROWS, VECTORS, EXACT>(
    std::make_integer_sequence<int, (kMostDirectRows + 1) * (kMostDirectVectors + 1)>{});

}  // namespace aot::tmpl

#endif  // AOT_TMPL_DIRECT_H_
