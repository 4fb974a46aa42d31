// Chains of rotations of rows: what implicit QL steps do to the vectors of one complex matrix.
#ifndef AOT_LINALG_ROTATIONS_H_
#define AOT_LINALG_ROTATIONS_H_

#include "aot/linalg/jacobi.h"

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

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROTATIONS_H_
