// What eigenvalues and singular values of one large matrix share: chains of rotations of rows, and
// the orthogonal matrix that reflections are.
#ifndef AOT_LINALG_ROTATIONS_H_
#define AOT_LINALG_ROTATIONS_H_

#include "aot/linalg/jacobi.h"
#include "aot/linalg/qr.h"

namespace aot::linalg {

// Rows that chains of rotations turn; `at` may be null. Rotation k is of rows k and k + 1, whose
// new values are c x - s y and s x + c y.
template <class T>
struct TurnedRows {
  T* at;
  int64_t ld, columns;

  // Rotations first .. first + count - 1, the last one first where DOWN. A strip of columns at a
  // time: the row that two of them share stays in registers.
  template <bool DOWN>
  void turn(int64_t first, int64_t count, const T* c, const T* s) const {
    constexpr int64_t kOne = native_lanes<T>(), kStrip = 4 * kOne;
    if (!at || count <= 0) return;
    int64_t j = 0;
    for (; j + kStrip <= columns; j += kStrip) strip<DOWN, int(kOne), 4>(j, first, count, c, s);
    for (; j + kOne <= columns; j += kOne) strip<DOWN, int(kOne), 1>(j, first, count, c, s);
    for (; j < columns; ++j) strip<DOWN, 1, 1>(j, first, count, c, s);
  }

  template <bool DOWN, int WIDE, int VECTORS>
  AOT_INLINE void strip(int64_t j, int64_t first, int64_t count, const T* c, const T* s) const {
    using V = Vec<T, WIDE>;
    V held[VECTORS];
    T* const start = at + (DOWN ? first + count : first) * ld + j;
    AOT_UNROLL for (int v = 0; v < VECTORS; ++v) held[v] = load<T, WIDE>(start + v * WIDE);
    for (int64_t step = 0; step < count; ++step) {
      const int64_t k = first + (DOWN ? count - 1 - step : step);
      const V cos(c[k]), sin(s[k]);
      T *const upper = at + k * ld + j, *const lower = upper + ld;
      AOT_UNROLL for (int v = 0; v < VECTORS; ++v) {
        if constexpr (DOWN) {
          const V x = load<T, WIDE>(upper + v * WIDE), y = held[v];
          store(lower + v * WIDE, fma(sin, x, cos * y));
          held[v] = fnma(sin, y, cos * x);
        } else {
          const V x = held[v], y = load<T, WIDE>(lower + v * WIDE);
          store(upper + v * WIDE, fnma(sin, y, cos * x));
          held[v] = fma(sin, x, cos * y);
        }
      }
    }
    T* const end = at + (DOWN ? first : first + count) * ld + j;
    AOT_UNROLL for (int v = 0; v < VECTORS; ++v) store(end + v * WIDE, held[v]);
  }
};

// dst (columns x rows) = src (rows x columns) turned.
template <class T>
void transpose_into(const T* src, int64_t src_ld, int64_t rows, int64_t columns, T* dst,
                    int64_t dst_ld) {
  copy_in(Seen<T>{src, 1, src_ld}, columns, rows, dst, dst_ld);
}

// H_0 H_1 ... in the first columns of a matrix (rows x columns, `ld`), from `count` reflections
// below the diagonal of `at`; rows and columns before `skip` are the identity's, and the
// reflections are of what is behind them.
template <class T>
void form_basis(const T* at, int64_t at_ld, const T* tau, int64_t count, T* q, int64_t ld,
                int64_t rows, int64_t columns, int64_t skip, Room room) {
  for (int64_t i = 0; i < rows; ++i) {
    tmpl::zero_row(q + i * ld, round_up(columns, kPanel));
    if (i < columns) q[i * ld + i] = T(1);
  }
  if (skip) {  // panels begin at the first column: form it there, and move it afterwards
    form_basis(at, at_ld, tau, count, q, ld, rows - skip, columns - skip, 0, room);
    for (int64_t i = rows - 1; i >= skip; --i) {
      for (int64_t j = columns - 1; j >= skip; --j) {
        q[i * ld + j] = q[(i - skip) * ld + j - skip];
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        if (i < skip || j < skip) q[i * ld + j] = i == j ? T(1) : T(0);
      }
    }
    return;
  }
  for (int64_t c = (count - 1) / kReflections * kReflections; c >= 0; c -= kReflections) {
    Room own = room;
    const Joined<T> joined(at + c * at_ld + c, at_ld, tau + c, rows - c,
                           min64(kReflections, count - c), own);
    joined.template apply<false>(q + c * ld + c, ld, columns - c, own);
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROTATIONS_H_
