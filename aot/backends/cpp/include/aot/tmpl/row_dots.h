// Dot products of rows of A and columns of B, and tiles that are turned: for products that read
// their operands where these lie (direct.h).
#ifndef AOT_TMPL_ROW_DOTS_H_
#define AOT_TMPL_ROW_DOTS_H_

#include "aot/tmpl/direct.h"

namespace aot::tmpl {

// A vector's lanes are the sums of so many vectors, in their order.
template <int H, class T>
AOT_INLINE typename Simd<T>::V sums_of(typename Simd<T>::V* r) {
  constexpr int kL = Simd<T>::kLanes;
  AOT_UNROLL for (int i = 0; i < H; ++i) {
    exchange<H>(r[i], r[i + H], std::make_integer_sequence<int, kL>{});
    r[i] += r[i + H];
  }
  if constexpr (H == 1) {
    return r[0];
  } else {
    return sums_of<H / 2, T>(r);
  }
}

// Columns of the block of Dots: of a product of few rows or columns as few, or nearly.
template <class T>
constexpr int dots_columns(int64_t rows, int64_t columns) {
  constexpr int kL = Simd<T>::kLanes;
  if (kL <= 4 || columns <= 2) return 2;
  return rows <= 2 ? kL / 2 : 4;
}

// Dot products of rows of A and columns of B, both of neighbours: a vector of results at once.
template <class T, int COLUMNS>
struct Dots {
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int kL = S::kLanes;
  static constexpr int kColumns = COLUMNS, kRows = kL / kColumns;
  const T* a;
  int64_t a_row;
  const T* b;
  int64_t b_column, k;

  // What is used next for the first time: so many lines, a row apart, are fetched with each vector,
  // for machines look ahead along long rows alone.
  struct Next {
    const T* at;
    int64_t row;
  };
  static constexpr int kFetched = kRows > kColumns ? kRows : kColumns;

  // Of the last rows and columns some may be beyond the end: these are the last one again.
  AOT_INLINE V of(int64_t i, int64_t rows, int64_t j, int64_t columns, const Next& next) const {
    const T *at[kRows], *bt[kColumns];
    AOT_UNROLL for (int q = 0; q < kRows; ++q) at[q] = a + min64(i + q, rows - 1) * a_row;
    AOT_UNROLL for (int q = 0; q < kColumns; ++q) bt[q] = b + min64(j + q, columns - 1) * b_column;
    V acc[kL];
    AOT_UNROLL for (int q = 0; q < kL; ++q) acc[q] = S::zero();
    const auto multiply = [&](const auto& load) __attribute__((always_inline)) {
      V bv[kColumns];
      AOT_UNROLL for (int q = 0; q < kColumns; ++q) bv[q] = load(bt[q]);
      AOT_UNROLL for (int q = 0; q < kRows; ++q) {
        const V x = load(at[q]);
        AOT_UNROLL for (int r = 0; r < kColumns; ++r) {
          acc[q * kColumns + r] = S::fma(x, bv[r], acc[q * kColumns + r]);
        }
      }
    };
    const int64_t whole = k - k % kL;
    for (int64_t p = 0; p < whole; p += kL) {
      multiply([&](const T* from) __attribute__((always_inline)) { return S::load(from + p); });
      AOT_UNROLL for (int q = 0; q < kFetched; ++q) __builtin_prefetch(next.at + q * next.row + p);
    }
    if (whole < k) {
      const FirstLanes<T> rest(k - whole);
      multiply([&](const T* from)
                   __attribute__((always_inline)) { return rest.load(from + whole); });
    }
    return sums_of<kL / 2, T>(acc);
  }

  // All of so many rows and columns, to a tile whose rows have room for whole pieces.
  void run(int64_t rows, int64_t columns, T* c, int64_t ldc) const {
    for (int64_t i = 0; i < rows; i += kRows) {
      for (int64_t j = 0; j < columns; j += kColumns) {
        Next next{a + i * a_row, 0};  // nothing
        if (j == 0) {
          next = {a + (i + kRows) * a_row, a_row};
        } else if (i == 0) {
          next = {b + (j + kColumns) * b_column, b_column};
        }
        const V found = of(i, rows, j, columns, next);
        AOT_UNROLL for (int q = 0; q < kRows; ++q) {
          if (i + q < rows) {
            __builtin_memcpy(c + (i + q) * ldc + j,
                             reinterpret_cast<const T*>(&found) + q * kColumns,
                             kColumns * sizeof(T));
          }
        }
      }
    }
  }

  // In half cycles: two operations a cycle, where loads of rows that begin anywhere take as long;
  // and a permutation a cycle.
  static constexpr int64_t price(int64_t rows, int64_t columns, int64_t k) {
    const int64_t blocks = ceil_div(rows, kRows) * ceil_div(columns, kColumns);
    return blocks * (ceil_div(k, kL) * (kL + (kFewRegisters ? 4 : 1)) + 4 * kL + 30);
  }
};

// dst[j * ld + i] = src[i * src_ld + j] for i < rows and j < columns; up to a whole vector of a row
// of dst is written, zeros beyond `rows`.
template <class T>
void turn_tile(const T* src, int64_t src_ld, int64_t rows, int64_t columns, T* dst, int64_t ld) {
  using S = Simd<T>;
  constexpr int64_t kL = S::kLanes;
  for (int64_t j = 0; j < columns; j += kL) {
    const int64_t there = min64(kL, columns - j);
    for (int64_t i = 0; i < rows; i += kL) {
      const T* const from = src + i * src_ld + j;
      const int64_t height = min64(kL, rows - i);
      typename S::V r[kL];
      if (height == kL) {
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) r[q] = S::load(from + q * src_ld);
      } else {
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
          r[q] = q < height ? S::load(from + q * src_ld) : S::zero();
        }
      }
      transpose_rows<kL / 2, T>(r);
      T* const to = dst + j * ld + i;
      if (there == kL) {
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) S::store(to + q * ld, r[q]);
      } else {
        AOT_UNROLL for (int64_t q = 0; q < kL; ++q) {
          if (q < there) S::store(to + q * ld, r[q]);
        }
      }
    }
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_ROW_DOTS_H_
