// What a matrix product is called with, and the way that it goes: a part of matmul.h.
#ifndef AOT_TMPL_MATMUL_CALL_H_
#define AOT_TMPL_MATMUL_CALL_H_

#include "aot/tmpl/direct.h"
#include "aot/tmpl/gemm.h"
#include "aot/tmpl/pieces.h"
#include "aot/tmpl/row_dots.h"

namespace aot::tmpl {

// What an operand's neighbours in memory are.
enum class Along { kAny, kDepth, kAcross };  // not known; k's; rows of A, or columns of B

struct MatmulConfig {
  using A = float;                  // element of A in memory
  using B = float;                  // element of packed B in memory
  static constexpr int64_t M = -1;  // constants, or -1: given at run time
  static constexpr int64_t N = -1;
  static constexpr int64_t K = -1;
  static constexpr int64_t MB = 128;  // rows and columns of a work unit
  static constexpr int64_t NB = 64;
  static constexpr int64_t MC = 128;     // rows and columns of the tile handed to the epilogue
  static constexpr int64_t NC = 256;     // a multiple of 16
  static constexpr int64_t KB = 256;     // chunk of K
  static constexpr bool COPY_A = false;  // rows of A pass through scratch (k strided, or widened)
  static constexpr bool STRIDED_B = false;
  // The epilogue only stores, in the type that is computed in, to MatmulArgs::out: what need not
  // pass through a tile is written there, and the epilogue not called.
  static constexpr bool PLAIN = false;
  // The same of results that are rounded to bfloat16.
  static constexpr bool ROUNDED = false;
  // With ROUNDED: the epilogue also adds, before it rounds, MatmulArgs::addend of a column.
  static constexpr bool ADDS = false;
  static constexpr Along A_ALONG = Along::kAny;
  static constexpr Along B_ALONG = Along::kAny;  // with STRIDED_B
  static constexpr int64_t PACKED = 0;   // NC * K: with STRIDED_B, columns packed for all rows
  static constexpr bool SHARED = false;  // micro-kernels of all heights are those of SharedTables
  // With STRIDED_B: a call multiplies one of several matrices, and says which comes next.
  static constexpr bool BATCH = false;
  // Whether tiles of bfloat16 multiply in pieces where a machine has them (pieces.h): so many
  // columns, k's and, where those are not all of K, rows at a time. K is a constant then.
  static constexpr bool PIECES = false;
  static constexpr int64_t PN = 16, PK = 32, PM = 32;
};

template <class Cfg>
struct MatmulArgs {
  const typename Cfg::A* a;
  int64_t a_batch, a_row, a_col;  // strides of A in elements; a_col must be 1 unless COPY_A
  const typename Cfg::B* b;
  int64_t b_batch;       // elements between the matrices; 0 when all share one
  int64_t b_row, b_col;  // with STRIDED_B, strides of B in elements (between k's, between n's)
  int64_t m, n, k;       // used where Cfg has -1
  // Where the epilogue stores first: bytes between rows and columns; null: not known.
  void* out = nullptr;
  int64_t out_row = 0, out_column = 0;
  const Bf16* addend = nullptr;  // with ADDS, of all columns
  // From these matrices to those that are multiplied next: elements of A's and B's, bytes of what
  // is stored. Zero: there are none, or they are these again.
  int64_t a_next = 0, b_next = 0, out_next = 0;
  bool follows = false;  // whether this matrix was another's next one

  // What the configuration has as constants, else what the call says.
  AOT_INLINE int64_t rows() const { return Cfg::M >= 0 ? Cfg::M : m; }
  AOT_INLINE int64_t columns() const { return Cfg::N >= 0 ? Cfg::N : n; }
  AOT_INLINE int64_t depth() const { return Cfg::K >= 0 ? Cfg::K : k; }
};

// The epilogue that only stores: C[b][m][n] with contiguous n.
template <class T>
struct StoreRows {
  T* c;
  int64_t c_batch, c_row;  // strides in elements
  AOT_INLINE void operator()(int64_t b, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                             const T* tile, int64_t ld) const {
    for (int64_t m = m0; m < m1; ++m) {
      widen_row(tile + (m - m0) * ld, n1 - n0, c + b * c_batch + m * c_row + n0);
    }
  }
};
template <class Epi>
inline constexpr bool kStoresRows = false;
template <class T>
inline constexpr bool kStoresRows<StoreRows<T>> = true;

template <class Cfg>
constexpr int64_t matmul_tile_ld() {
  return Cfg::NC + kPanel;  // off the powers of two, or the rows of a strip share cache sets
}
template <class Cfg>
constexpr bool matmul_copies_a() {
  return Cfg::COPY_A || !std::is_same_v<typename Cfg::A, compute_t<typename Cfg::A>>;
}
template <class Cfg>
constexpr bool matmul_copies_b() {
  return Cfg::STRIDED_B || !std::is_same_v<typename Cfg::B, compute_t<typename Cfg::B>>;
}

// Whether a product may be computed turned, its operands exchanged: the same for all levels.
template <class Cfg>
constexpr bool matmul_may_turn() {
  using A = typename Cfg::A;
  return Cfg::STRIDED_B && Cfg::A_ALONG == Along::kAcross && Cfg::M > 0 && Cfg::N > 0 &&
         Cfg::K > 0 && std::is_floating_point_v<A> && std::is_same_v<A, typename Cfg::B>;
}
// Elements between copies of few rows, all of K long.
template <class Cfg>
constexpr int64_t matmul_few_ld() {
  return round_up(Cfg::K, kPanel) + kPanel;
}
// Rows that scratch has room for where few are multiplied by panels of halves as these lie
// (matmul_few.h); of rows whose number varies kFewVarying. They stay in the second level of cache.
inline constexpr int64_t kFewVarying = 12, kFewElements = 1 << 16;
template <class Cfg>
constexpr int64_t matmul_few_rows() {
  using A = typename Cfg::A;
  constexpr bool kHalves = std::is_same_v<A, F16> || std::is_same_v<A, Bf16>;
  if (Cfg::STRIDED_B || !kHalves || !std::is_same_v<typename Cfg::B, A> || Cfg::K <= 0) return 0;
  const int64_t most = kFewElements / matmul_few_ld<Cfg>();
  if (Cfg::M < 0) return min64(kFewVarying, most);
  return Cfg::M <= min64(kMostDirectRows, most) ? Cfg::M : 0;
}
// Elements of a turned tile's row: a group of vectors, off the powers of two.
inline constexpr int64_t kTurnedLd = (kMostDirectVectors + 1) * kPanel;

namespace detail {

// What a product in pieces has in scratch, in bytes, one behind the other: results of a strip or of
// PM rows, pointers to rows, copies of two strips, packed panels, and pieces.
template <class Cfg>
struct PieceRoom {
  using P = PieceSizes<kPiecesOf<typename Cfg::A>>;
  static constexpr bool kAtOnce = Cfg::PK >= Cfg::K;
  static constexpr bool kPacks = Cfg::STRIDED_B && Cfg::B_ALONG != Along::kAcross;
  static constexpr int64_t kLd = Cfg::PN + kPanel;
  static constexpr int64_t kCopyLd = round_up(Cfg::K, kPanel) + kPanel;
  static constexpr int64_t kTile = (kAtOnce ? P::kStrip : Cfg::PM) * kLd * 4;
  static constexpr int64_t kTable = 2 * P::kStrip * int64_t(sizeof(void*));
  static constexpr int64_t kCopy = Cfg::COPY_A ? 2 * P::kStrip * kCopyLd * 4 : 0;
  static constexpr int64_t kPack = kPacks ? Cfg::PN * Cfg::K * 4 : 0;
  static constexpr int64_t kBytes =
      kTile + kTable + kCopy + kPack + P::scratch(Cfg::K, min64(Cfg::PK, Cfg::K), Cfg::PN, Cfg::PM);
};

// The other parts of scratch.
template <class Cfg>
constexpr int64_t matmul_room() {
  const int64_t size = sizeof(compute_t<typename Cfg::A>);
  int64_t bytes = Cfg::MC * matmul_tile_ld<Cfg>() * size;
  if (matmul_copies_a<Cfg>()) bytes += Cfg::MC * (Cfg::KB + kPanel) * size;
  if (matmul_copies_b<Cfg>()) bytes += panel_copy_elements(Cfg::KB) * size;
  if (matmul_may_turn<Cfg>()) bytes += Cfg::NC * kTurnedLd * size;
  bytes += matmul_few_rows<Cfg>() * matmul_few_ld<Cfg>() * size;
  return round_up(bytes + Cfg::PACKED * size, 64);
}

}  // namespace detail

template <class Cfg>
constexpr int64_t matmul_scratch() {
  if constexpr (Cfg::PIECES) {
    return detail::matmul_room<Cfg>() + detail::PieceRoom<Cfg>::kBytes;
  } else {
    return detail::matmul_room<Cfg>();
  }
}

namespace detail {

// How a product goes: with copies of what its kernels cannot read in place, or without
// (direct.h), there also with its operands exchanged and finished tiles turned, or by dot products.
enum class Way { kCopies, kDirect, kTurned, kDots };

// Whether caches of 64 sets keep a line of each of k rows of operands that lie across: rows some
// powers of two apart fall into the same few sets.
constexpr bool rows_kept(int64_t apart, int64_t k) {
  int64_t room = 512;
  if (apart % 64 != 0) return true;
  for (apart /= 64; apart % 2 == 0 && room > 8; apart /= 2) room /= 2;
  return k <= room;
}
template <class Cfg>
constexpr bool lines_kept(int64_t k) {
  if (!kFewRegisters) return true;
  for (const bool a : {true, false}) {
    if ((a ? Cfg::A_ALONG : Cfg::B_ALONG) != Along::kAcross) continue;
    const int64_t size = sizeof(compute_t<typename Cfg::A>);
    if (!rows_kept((a ? Cfg::M : Cfg::N) * size, k)) return false;
  }
  return true;
}

// The price of a product whose vectors lie across, and single elements also, unless they are of
// rows of k's (`deep`): at each k a piece is read of a line, or of some, and each pass reads the
// same lines again, from the second level of cache where the first has no room for all of them, or
// not in the sets that they fall into (`kept`: it has).
template <class T>
constexpr int64_t price_across(int64_t rows, int64_t columns, int64_t k, bool kept, bool deep) {
  constexpr int64_t kLine = 6, kRoom = 3 << (kFewRegisters ? 13 : 14);  // half cycles, bytes
  constexpr int64_t kSize = sizeof(T);
  const DirectShape shape = direct_shape<T>(rows, columns, k);
  const int64_t vectors = ceil_div(columns, Simd<T>::kLanes);
  const int64_t single = deep && kFewRegisters ? 0 : 1 + shape.rows * kSize / 64;
  const int64_t lines = 1 + single + shape.vectors * Simd<T>::kLanes * kSize / 64;
  if (k * lines * 64 <= kRoom && kept) return shape.price;
  const int64_t strips = ceil_div(rows, shape.rows) - (kFewRegisters ? 1 : 0);
  const int64_t passes = strips * ceil_div(vectors, shape.vectors);
  return shape.price + passes * k * max64(0, lines * kLine - shape.rows * shape.vectors);
}

// Whether all strips pass a group of B's vectors before the next one: strips of few registers are
// low, so that B is read often, and a group stays in the first level of cache where all do not.
template <class Cfg>
constexpr bool direct_groups_first() {
  const int64_t rows = min64(Cfg::M, Cfg::MB), columns = min64(Cfg::N, Cfg::NB);
  return kFewRegisters && Cfg::A_ALONG == Along::kDepth &&
         rows > direct_shape<compute_t<typename Cfg::A>>(rows, columns, Cfg::K).rows;
}

// Whether B whose rows are read in place by groups is better packed: many strips read vectors that
// cross lines, or rows that fall into the same few sets of a cache. With many registers any two
// strips do, where B is far: its rows are then too far apart for machines to guess the next one.
template <class Cfg>
constexpr bool packing_pays() {
  using T = compute_t<typename Cfg::A>;
  constexpr int64_t kNear = 1 << 18;  // bytes: half of the second level
  const int64_t row = Cfg::N * int64_t(sizeof(T));
  const bool far = Cfg::K * row > kNear, crosses = row % kVectorBytes != 0;
  if (Cfg::A_ALONG != Along::kDepth || !std::is_same_v<typename Cfg::B, T>) return false;
  // What was brought near while the matrix before was multiplied is read in any order.
  if (!kFewRegisters && Cfg::BATCH && !far) return false;
  if (!kFewRegisters && far && crosses) return Cfg::M > RegisterBlock<T>::kRows;
  if (!kFewRegisters && row < 8 * kVectorBytes) return false;
  const int64_t strips = far ? 4 : 8;  // what so many wait for is packing's time
  return min64(Cfg::M, Cfg::MB) > strips * RegisterBlock<T>::kRows && (crosses || row % 512 == 0);
}

// Whether B is packed whole for all rows of a unit though they are few: it is read in its order.
template <class Cfg>
constexpr bool packs_for_few() {
  return !kFewRegisters && Cfg::STRIDED_B && Cfg::M > 0 && Cfg::N > 0 && Cfg::K > 0 &&
         Cfg::B_ALONG == Along::kAcross && packing_pays<Cfg>();
}

// K's that a direct product takes at a time. Rows of k's (A across) are read by every strip, in
// pieces of a line: as many as stay in the first level of cache until the last strip, or in a half
// of it where strips are low, and more of them need a line. Of a group that passes strip by strip,
// as many as that level has room for.
template <class Cfg>
constexpr int64_t direct_depth() {
  using T = compute_t<typename Cfg::A>;
  constexpr int64_t kSize = sizeof(T);
  const int64_t rows = min64(Cfg::M, Cfg::MB), columns = min64(Cfg::N, Cfg::NB);
  int64_t room = kFewRegisters ? 1 << 14 : 1 << 15, bytes = (rows + columns) * kSize;  // of a k
  if (direct_groups_first<Cfg>()) {
    const int64_t more = Cfg::N * kSize % 64 == 0 ? 0 : 64;  // rows that begin anywhere
    room = 1 << 15, bytes = direct_shape<T>(rows, columns, Cfg::K).vectors * kVectorBytes + more;
  } else if (Cfg::A_ALONG == Along::kDepth || Cfg::M <= RegisterBlock<T>::kRows) {
    return Cfg::K;
  }
  const int64_t most = max64(room / bytes / 4 * 4, 16);
  return ceil_div(Cfg::K, ceil_div(Cfg::K, most));
}

// Elements between k's of rows that are brought near, off the powers of two.
template <class Cfg>
inline constexpr int64_t kAcrossLd = round_up(min64(Cfg::M, Cfg::MB), kPanel) + kPanel;

// Whether A's rows of k's are copied, as they lie, before their strips read them: each strip reads
// a part of a line of each, and the sets that they fall into keep no line until the next strip.
template <class Cfg>
constexpr bool brings_a() {
  using T = compute_t<typename Cfg::A>;
  const int64_t depth = min64(direct_depth<Cfg>(), Cfg::K);
  return kFewRegisters && std::is_same_v<typename Cfg::A, T> && Cfg::COPY_A &&
         Cfg::A_ALONG == Along::kAcross && !rows_kept(Cfg::M * int64_t(sizeof(T)), depth) &&
         min64(Cfg::M, Cfg::MB) > 2 * RegisterBlock<T>::kRows &&
         depth * kAcrossLd<Cfg> <= Cfg::MC * (Cfg::KB + kPanel);
}

// Whether results that are stored as they are go to their places at once: where their sums are
// read and written again for each piece of K, and vectors of them cross lines, a tile is better.
template <class Cfg>
constexpr bool direct_in_c() {
  using T = compute_t<typename Cfg::A>;
  const bool crosses = Cfg::N * int64_t(sizeof(T)) % kVectorBytes != 0;
  return Cfg::PLAIN && (direct_depth<Cfg>() >= Cfg::K || !crosses);
}

// Whether a unit's columns of B are packed, though A is read where it lies: where its columns are
// not neighbours, and where many strips read vectors that cross lines.
template <class Cfg>
constexpr bool direct_packs() {
  using T = compute_t<typename Cfg::A>;
  const int64_t columns = round_up(min64(Cfg::N, Cfg::NB), kPanel);
  const bool crosses = Cfg::N * int64_t(sizeof(T)) % kVectorBytes != 0 &&
                       min64(Cfg::M, Cfg::MB) > 4 * RegisterBlock<T>::kRows;
  return Cfg::STRIDED_B && Cfg::A_ALONG == Along::kAcross && std::is_same_v<typename Cfg::B, T> &&
         Cfg::PACKED >= columns * Cfg::K && (Cfg::B_ALONG == Along::kDepth || crosses);
}

// The price of a direct product whose k's go in pieces of direct_depth. With many registers those
// may be all of them, if that is cheaper; so they are where B's columns are packed.
template <class Cfg, class T = compute_t<typename Cfg::A>>
constexpr int64_t price_in_pieces(int64_t m, int64_t n) {
  const int64_t whole = price_across<T>(m, n, Cfg::K, true, false);
  if (!kFewRegisters && Cfg::B_ALONG != Along::kAcross) return whole;
  const int64_t depth = min64(direct_depth<Cfg>(), Cfg::K);
  const int64_t pieces =
      price_across<T>(m, n, depth, lines_kept<Cfg>(depth), false) * Cfg::K / depth;
  return kFewRegisters ? pieces : min64(whole, pieces);
}

// The price of a product without that of its copies.
template <class T>
constexpr int64_t packed_price(int64_t m, int64_t n, int64_t k) {
  const DirectShape shape = direct_shape<T>(m, n, k);
  return shape.price - shape.far;
}

// A size that varies, for prices.
constexpr int64_t likely(int64_t size) { return size > 0 ? size : 256; }

template <class Cfg, class T = compute_t<typename Cfg::A>>
using DotsFor = Dots<T, dots_columns<T>(Cfg::M, likely(Cfg::N))>;

// Whether dot products of rows and columns take less than packing B. Its sizes may vary.
template <class Cfg, class T = compute_t<typename Cfg::A>>
constexpr bool dots_pay(int64_t packing) {
  const int64_t m = min64(Cfg::M, Cfg::MB), n = min64(likely(Cfg::N), Cfg::NB);
  const int64_t k = likely(Cfg::K);
  return DotsFor<Cfg>::price(m, n, k) < packed_price<T>(m, n, k) + packing;
}

template <class Cfg>
constexpr Way matmul_way() {
  using A = typename Cfg::A;
  using B = typename Cfg::B;
  using T = compute_t<A>;
  constexpr bool kFixed = Cfg::M > 0 && Cfg::N > 0 && Cfg::K > 0;
  if (!Cfg::STRIDED_B) {
    // A copy of A takes as long as a quarter of the products of 32 columns.
    const bool few = Cfg::N <= 64 && Cfg::M > 2 * RegisterBlock<T>::kRows;
    const bool own = std::is_same_v<A, T> && std::is_same_v<B, T> && std::is_floating_point_v<T>;
    return kFixed && few && own && Cfg::A_ALONG == Along::kAcross && Cfg::NB <= Cfg::NC
               ? Way::kDirect
               : Way::kCopies;
  }
  if (Cfg::NB > Cfg::NC || !std::is_floating_point_v<T>) return Way::kCopies;
  constexpr bool kDots = Cfg::A_ALONG == Along::kDepth && Cfg::B_ALONG == Along::kDepth &&
                         kLoadsParts<T, B> && std::is_same_v<A, T> && std::is_same_v<B, T>;
  if (!kFixed) {
    // Of rows that are few, sizes of B matter little to what is the fastest.
    constexpr bool kFew = Cfg::M > 0 && Cfg::M <= RegisterBlock<T>::kRows;
    const int64_t each = round_up(likely(Cfg::K), Simd<T>::kLanes) / 2;
    if constexpr (kDots && kFew) {
      return dots_pay<Cfg>(Cfg::NB * each) ? Way::kDots : Way::kCopies;
    }
    return Way::kCopies;
  }
  // Narrow elements of B are widened again for each strip, those of A once.
  const bool straight = Cfg::B_ALONG == Along::kAcross && kLoadsParts<T, B> &&
                        (std::is_same_v<B, T> || Cfg::M <= RegisterBlock<T>::kRows) &&
                        (std::is_same_v<A, T> || Cfg::K <= Cfg::KB);
  const bool turned = matmul_may_turn<Cfg>() && kLoadsParts<T, A>;
  const bool kept = lines_kept<Cfg>(Cfg::K);
  const int64_t m = min64(Cfg::M, Cfg::MB), n = min64(Cfg::N, Cfg::NB);
  constexpr int64_t kTurning = 3;  // quarters of a half cycle an element
  const int64_t turning =
      round_up(m, Simd<T>::kLanes) * round_up(n, Simd<T>::kLanes) * kTurning / 4;
  // What packs B: two permutations for four elements, for whole blocks.
  const int64_t packing = round_up(n, kPanel) * round_up(Cfg::K, Simd<T>::kLanes) / 2 * m / Cfg::M;
  if (kDots) return dots_pay<Cfg>(packing) ? Way::kDots : Way::kCopies;
  if (straight && turned) {
    const int64_t exchanged = price_across<T>(n, m, Cfg::K, kept, false) + turning;
    const int64_t direct = price_in_pieces<Cfg>(m, n);
    // B is packed, too, where one strip does not read it in place; short vectors turn A slowly.
    constexpr int64_t kVector = 10;  // half cycles
    const bool packs = kFewRegisters && Cfg::M > RegisterBlock<T>::kRows;
    const int64_t each = kFewRegisters ? kVector : Simd<T>::kLanes / 2;
    const int64_t copying = m * Cfg::K * each / Simd<T>::kLanes + (packs ? packing : 0);
    const int64_t copies = packed_price<T>(m, n, Cfg::K) + copying;
    if (copies < min64(direct, exchanged)) return Way::kCopies;
    return direct <= exchanged ? Way::kDirect : Way::kTurned;
  }
  if (turned && Cfg::B_ALONG == Along::kDepth) {
    const int64_t exchanged = price_across<T>(n, m, Cfg::K, kept, true) + turning;
    const int64_t copies = packed_price<T>(m, n, Cfg::K) + m * Cfg::K / 2 + packing;
    const int64_t direct = price_in_pieces<Cfg>(m, n) + packing * Cfg::M / m;
    if (direct_packs<Cfg>() && direct < min64(exchanged, copies)) return Way::kDirect;
    return exchanged <= copies ? Way::kTurned : Way::kCopies;
  }
  if (straight) return packing_pays<Cfg>() ? Way::kCopies : Way::kDirect;
  return turned ? Way::kTurned : Way::kCopies;
}

// How a unit of a direct product is cut.
struct DirectCut {
  Pieces strips, groups;
};
struct DirectCutsOf {
  DirectCut of[2][2];  // the last along rows, along columns
};

// Whether B goes into the second level of cache before its first use: there is room, and strips
// read it again, some columns at a time.
template <class Cfg>
constexpr bool brings_b(const DirectCut& cut) {
  constexpr int64_t kBytes = Cfg::K * Cfg::N * int64_t(sizeof(typename Cfg::B));
  return Cfg::STRIDED_B && !direct_packs<Cfg>() && !kFewRegisters && kBytes <= kNearBytes &&
         cut.groups.count > 1 && cut.strips.count > 1;
}

template <class Cfg>
constexpr DirectCut direct_cut(int64_t m, int64_t n) {
  using T = compute_t<typename Cfg::A>;
  const bool turned = matmul_way<Cfg>() == Way::kTurned;
  const int64_t rows = max64(turned ? n : m, 1), columns = max64(turned ? m : n, 1);
  const DirectShape shape = direct_shape<T>(rows, columns, Cfg::K);
  return {Pieces(rows, shape.rows), Pieces(ceil_div(columns, Simd<T>::kLanes), shape.vectors)};
}

template <class Cfg>
constexpr DirectCutsOf direct_cuts_of() {
  const int64_t m = min64(Cfg::M, Cfg::MB), n = min64(Cfg::N, Cfg::NB);
  const int64_t rest = Cfg::M % Cfg::MB, more = Cfg::N % Cfg::NB;
  return {{{direct_cut<Cfg>(m, n), direct_cut<Cfg>(m, more)},
           {direct_cut<Cfg>(rest, n), direct_cut<Cfg>(rest, more)}}};
}

}  // namespace detail

}  // namespace aot::tmpl

#endif  // AOT_TMPL_MATMUL_CALL_H_
