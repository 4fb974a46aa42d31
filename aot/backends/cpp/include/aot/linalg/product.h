// C -= A B on dense rows in scratch, by the micro-kernels of matrix products.
#ifndef AOT_LINALG_PRODUCT_H_
#define AOT_LINALG_PRODUCT_H_

#include "aot/linalg/room.h"
#include "aot/tmpl/gemm.h"

namespace aot::linalg {

inline constexpr int64_t kDepth = 256;  // of A and B at once
inline constexpr int64_t kHeight = 96;  // rows of A that stay in the second-level cache

// Bytes that `subtract_product` takes for C of rows x columns; the twin is in template_library.py.
template <class T>
constexpr int64_t product_bytes(int64_t rows, int64_t columns) {
  return round_up(kDepth * round_up(columns, kPanel) * int64_t(sizeof(T)), 64) +
         round_up(kDepth * rows * int64_t(sizeof(T)), 64) + round_up(8 * rows, 64);
}

// dst[p][k][j] = -b[k * ld + 16 p + j]; b has whole panels.
template <class T>
void pack_negative(const T* b, int64_t ld, int64_t depth, int64_t panels, T* dst) {
  using S = tmpl::Simd<T>;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t p = 0; p < panels; ++p) {
      AOT_UNROLL for (int64_t j = 0; j < kPanel; j += S::kLanes) {
        S::store(dst + (p * depth + k) * kPanel + j, -S::load(b + k * ld + p * kPanel + j));
      }
    }
  }
}

// C (rows x columns, `ldc`) -= A (rows x depth) B (depth x columns, `ldb`). B and C begin at a
// panel and have whole ones. ABOVE: of C, a row's elements before the panel that the row's own
// number lies in are of no interest, and most of them are left out.
template <bool ABOVE = false, class T>
void subtract_product(int64_t rows, int64_t columns, int64_t depth, Seen<T> a, const T* b,
                      int64_t ldb, T* c, int64_t ldc, Room room) {
  if (rows <= 0 || columns <= 0) return;
  const int64_t panels = ceil_div(columns, kPanel);
  T* const packed = room.take<T>(kDepth * panels * kPanel);
  T* const turned = room.take<T>(a.col == 1 ? 0 : kDepth * rows);
  const T** const at = room.take<const T*>(rows);
  for (int64_t k = 0; k < depth; k += kDepth) {
    const int64_t kc = min64(kDepth, depth - k);
    pack_negative(b + k * ldb, ldb, kc, panels, packed);
    const T* const first = a.at + k * a.col;
    if (a.col != 1) {
      for (int64_t i = 0; i < rows; ++i) at[i] = turned + i * kc;
      for (int64_t q = 0; q < kc; ++q) {
        for (int64_t i = 0; i < rows; ++i) turned[i * kc + q] = first[i * a.row + q * a.col];
      }
    } else {
      for (int64_t i = 0; i < rows; ++i) at[i] = first + i * a.row;
    }
    for (int64_t i = 0; i < rows; i += kHeight) {
      const int64_t from = ABOVE ? i / kPanel : 0;
      if (from >= panels) break;
      const tmpl::PackedB<T> source{packed + from * kc * kPanel, kc * kPanel};
      T* const place = c + i * ldc + from * kPanel;
      const tmpl::BlockArgs<T, tmpl::PackedB<T>> block{
          at + i, 0, min64(kHeight, rows - i), 1, kc, source, panels - from, place, ldc};
      const tmpl::MicroArgs<T> micro{at + i, 0,     1,   0,       kc, nullptr, 0,
                                     kPanel, place, ldc, nullptr, 0,  true};
      tmpl::chunk_by_panels<tmpl::MultiplyAdd<T>, tmpl::kAllHeights>(block, micro, 0);
    }
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_PRODUCT_H_
