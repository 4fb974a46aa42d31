// Many matrices side by side, each copied by a loop of its own.
//
//   template <class A, int64_t PARTS, class Epi>
//   void concat(const ConcatArgs<A, PARTS>& p, int64_t begin, int64_t end, void* scratch,
//               const Epi& epi);
//
// Work units are tiles of the result, kConcatRows rows of kConcatColumns columns at most, row by
// row of tiles: work = ceil(m / kConcatRows) * ceil(n / kConcatColumns). A tile stays in the cache
// while the parts that reach into it are copied there, so that narrow parts write whole cache lines
// of the result together, and each reads its own lines once. Wide parts are handed on where they
// are.
//   scratch = kConcatRows * min(n rounded up to 16, kConcatColumns) * sizeof(A)
//   epi(0, m0, m1, n0, n1, const A* tile, int64_t ld)    tile[(i - m0) * ld + j - n0]
#ifndef AOT_TMPL_CONCAT_H_
#define AOT_TMPL_CONCAT_H_

#include <algorithm>
#include <cstring>

#include "aot/kernel/prelude.h"

namespace aot::tmpl {

inline constexpr int64_t kConcatRows = 16;
inline constexpr int64_t kConcatColumns = 512;
inline constexpr int64_t kConcatWide = 64;  // columns from which a part needs no tile

template <class A>
struct ConcatPart {
  const A* x;
  int64_t row, col;  // strides in elements
  int64_t width;     // columns
};

template <class A, int64_t PARTS>
struct ConcatArgs {
  const ConcatPart<A> (&parts)[PARTS];
  int64_t m, n;  // of the result
};

namespace detail {

// So many bytes, CHUNK at least, CHUNK at a time; the last ones may be copied twice.
template <size_t CHUNK>
AOT_INLINE void concat_bytes(const char* x, char* out, size_t bytes) {
  for (size_t k = 0; k + CHUNK < bytes; k += CHUNK) std::memcpy(out + k, x + k, CHUNK);
  std::memcpy(out + bytes - CHUNK, x + bytes - CHUNK, CHUNK);
}

// Rows of `bytes` bytes, CHUNK at least; `step` and `ld`: bytes from one to the next.
template <size_t CHUNK>
AOT_INLINE void concat_lines(const char* x, int64_t step, char* out, int64_t ld, int64_t rows,
                             size_t bytes) {
  for (int64_t i = 0; i < rows; ++i) {
    if (bytes == CHUNK) {
      std::memcpy(out + i * ld, x + i * step, CHUNK);
    } else {
      concat_bytes<CHUNK>(x + i * step, out + i * ld, bytes);
    }
  }
}

// A matrix of rows times width elements into a tile.
template <class A>
AOT_INLINE void concat_block(const A* x, int64_t row, int64_t col, A* out, int64_t ld, int64_t rows,
                             int64_t width) {
  const bool neighbours = col == 1 || width == 1;
  const size_t bytes = sizeof(A) * (neighbours ? size_t(width) : 1);
  const int64_t step = row * int64_t(sizeof(A)), leading = ld * int64_t(sizeof(A));
  for (int64_t j = 0; j < (neighbours ? 1 : width); ++j) {
    const char* const from = reinterpret_cast<const char*>(x + j * col);
    char* const to = reinterpret_cast<char*>(out + j);
    if (bytes >= 32) {
      concat_lines<32>(from, step, to, leading, rows, bytes);
    } else if (bytes >= 16) {
      concat_lines<16>(from, step, to, leading, rows, bytes);
    } else if (bytes >= 8) {
      concat_lines<8>(from, step, to, leading, rows, bytes);
    } else if (bytes >= 4) {
      concat_lines<4>(from, step, to, leading, rows, bytes);
    } else {
      concat_lines<1>(from, step, to, leading, rows, bytes);
    }
  }
}

}  // namespace detail

template <class A, int64_t PARTS, class Epi>
AOT_INLINE void concat(const ConcatArgs<A, PARTS>& p, int64_t begin, int64_t end, void* scratch,
                       const Epi& epi) {
  int64_t starts[PARTS + 1] = {0};
  for (int64_t k = 0; k < PARTS; ++k) starts[k + 1] = starts[k] + p.parts[k].width;
  A* const tile = static_cast<A*>(scratch);
  const int64_t ld = std::min((p.n + 15) / 16 * 16, kConcatColumns);
  const int64_t across = (p.n + kConcatColumns - 1) / kConcatColumns;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m0 = unit / across * kConcatRows, m1 = std::min(m0 + kConcatRows, p.m);
    const int64_t n0 = unit % across * kConcatColumns, n1 = std::min(n0 + kConcatColumns, p.n);
    // The last part that begins at n0 or before it; those of no width come before it.
    int64_t k = std::upper_bound(starts, starts + PARTS, n0) - starts - 1;
    int64_t done = n0;  // columns before it are handed on
    const auto hand_on = [&](int64_t stop) {
      if (done < stop) epi(0, m0, m1, done, stop, tile + (done - n0), ld);
    };
    for (; k < PARTS && starts[k] < n1; ++k) {
      const ConcatPart<A>& part = p.parts[k];
      const int64_t j0 = std::max(starts[k], n0), j1 = std::min(starts[k + 1], n1);
      if (j0 >= j1) continue;
      const A* const x = part.x + m0 * part.row + (j0 - starts[k]) * part.col;
      if (part.col == 1 && j1 - j0 >= kConcatWide) {
        hand_on(j0);
        epi(0, m0, m1, j0, j1, x, part.row);
        done = j1;
        continue;
      }
      detail::concat_block(x, part.row, part.col, tile + (j0 - n0), ld, m1 - m0, j1 - j0);
    }
    hand_on(n1);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_CONCAT_H_
