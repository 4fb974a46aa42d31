// C -= A B on dense rows in scratch, by the micro-kernels of matrix products.
#ifndef AOT_LINALG_PRODUCT_H_
#define AOT_LINALG_PRODUCT_H_

#include "aot/linalg/dense.h"
#include "aot/tmpl/gemm.h"

namespace aot::linalg {

inline constexpr int64_t kDepth = 256;  // of A and B at once
inline constexpr int64_t kHeight = 96;  // rows of A that stay in the second-level cache

// Bytes that `subtract_product` of real matrices takes for C of rows x columns; complex ones take
// as much for twice the rows. The twin is in template_library.py.
template <class T>
constexpr int64_t product_bytes(int64_t rows, int64_t columns) {
  return round_up(kDepth * round_up(columns, kPanel) * int64_t(sizeof(T)), 64) +
         round_up(kDepth * rows * int64_t(sizeof(T)), 64) + round_up(8 * rows, 64);
}

// dst[p][k][j] = b[k * ld + 16 p + j], or with MINUS the opposite; b has whole panels.
template <bool MINUS, class T>
void pack_signed(const T* b, int64_t ld, int64_t depth, int64_t panels, T* dst) {
  using S = tmpl::Simd<T>;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t p = 0; p < panels; ++p) {
      AOT_UNROLL for (int64_t j = 0; j < kPanel; j += S::kLanes) {
        const auto value = S::load(b + k * ld + p * kPanel + j);
        S::store(dst + (p * depth + k) * kPanel + j, MINUS ? -value : value);
      }
    }
  }
}

// Where rows of A (rows x depth) lie, for the micro-kernels: in place, or turned into scratch.
template <class T>
void find_rows(Seen<T> a, int64_t rows, int64_t depth, T* turned, const T** at) {
  if (a.col == 1) {
    for (int64_t i = 0; i < rows; ++i) at[i] = a.at + i * a.row;
    return;
  }
  for (int64_t i = 0; i < rows; ++i) at[i] = turned + i * depth;
  if (a.col < a.row) {
    for (int64_t i = 0; i < rows; ++i) {
      copy_row(a.at + i * a.row, a.col, depth, turned + i * depth);
    }
    return;
  }
  for (int64_t q = 0; q < depth; ++q) {
    for (int64_t i = 0; i < rows; ++i) turned[i * depth + q] = a.get(i, q);
  }
}

// C += A B, B packed.
template <bool ABOVE, class T>
void add_packed(int64_t rows, int64_t panels, int64_t depth, const T** at, const T* packed, T* c,
                int64_t ldc) {
  for (int64_t i = 0; i < rows; i += kHeight) {
    const int64_t from = ABOVE ? i / kPanel : 0;
    if (from >= panels) break;
    const tmpl::PackedB<T> source{packed + from * depth * kPanel, depth * kPanel};
    T* const place = c + i * ldc + from * kPanel;
    const tmpl::BlockArgs<T, tmpl::PackedB<T>> block{
        at + i, 0, min64(kHeight, rows - i), 1, depth, source, panels - from, place, ldc};
    const tmpl::MicroArgs<T> micro{at + i, 0,     1,   0,       depth, nullptr, 0,
                                   kPanel, place, ldc, nullptr, 0,     true};
    tmpl::chunk_by_panels<tmpl::MultiplyAdd<T>, tmpl::kAllHeights>(block, micro, 0);
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
    pack_signed<true>(b + k * ldb, ldb, kc, panels, packed);
    find_rows(a.from(0, k), rows, kc, turned, at);
    add_packed<ABOVE>(rows, panels, kc, at, packed, c, ldc);
  }
}
template <bool ABOVE = false, class T>
void subtract_product(int64_t rows, int64_t columns, int64_t depth, Seen<T> a, Dense<T> b,
                      Dense<T> c, Room room) {
  subtract_product<ABOVE>(rows, columns, depth, a, b.at, b.ld, c.at, c.ld, room);
}

// The same of complex matrices: four products of real ones.
template <bool ABOVE = false, class T, bool OTHER>
void subtract_product(int64_t rows, int64_t columns, int64_t depth, ComplexSeen<T, OTHER> a,
                      ComplexDense<T> b, ComplexDense<T> c, Room room) {
  if (rows <= 0 || columns <= 0) return;
  const int64_t panels = ceil_div(columns, kPanel), held = kDepth * rows;
  T* const packed = room.take<T>(kDepth * panels * kPanel);
  T *const re = room.take<T>(2 * held), *const im = re + held;
  const T** const at_re = room.take<const T*>(2 * rows);
  const T** const at_im = at_re + rows;
  for (int64_t k = 0; k < depth; k += kDepth) {
    const int64_t kc = min64(kDepth, depth - k);
    find_rows(a.re.from(0, k), rows, kc, re, at_re);
    find_rows(a.im.from(0, k), rows, kc, im, at_im);
    const T *const b_re = b.re + k * b.ld, *const b_im = b.im + k * b.ld;
    pack_signed<true>(b_re, b.ld, kc, panels, packed);
    add_packed<ABOVE>(rows, panels, kc, at_re, packed, c.re, c.ld);
    if constexpr (OTHER) pack_signed<false>(b_re, b.ld, kc, panels, packed);
    add_packed<ABOVE>(rows, panels, kc, at_im, packed, c.im, c.ld);
    pack_signed<true>(b_im, b.ld, kc, panels, packed);
    add_packed<ABOVE>(rows, panels, kc, at_re, packed, c.im, c.ld);
    if constexpr (!OTHER) pack_signed<false>(b_im, b.ld, kc, panels, packed);
    add_packed<ABOVE>(rows, panels, kc, at_im, packed, c.re, c.ld);
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_PRODUCT_H_
