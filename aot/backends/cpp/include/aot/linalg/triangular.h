// Triangular systems T X = B, X in B's place.
#ifndef AOT_LINALG_TRIANGULAR_H_
#define AOT_LINALG_TRIANGULAR_H_

#include "aot/linalg/lanes.h"
#include "aot/linalg/product.h"

namespace aot::linalg {

// Which part of T there is, and whether its diagonal is ones, whatever lies there.
template <bool UPPER, bool UNIT>
struct Triangle {
  static constexpr bool kUpper = UPPER, kUnit = UNIT;
};

// Rows x[k] (`columns` wide, whole vectors) of at most a panel of unknowns.
template <class Shape, class T>
void solve_block(Seen<T> t, int64_t n, T* x, int64_t ld, int64_t columns) {
  constexpr int kWide = 2 * native_lanes<T>() < kPanel ? 2 * native_lanes<T>() : int(kPanel);
  using V = Vec<T, kWide>;
  for (int64_t c = 0; c < columns; c += kWide) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = Shape::kUpper ? n - 1 - step : step;
      V sum = load<T, kWide>(x + i * ld + c);
      const T* const row = t.at + i * t.row;
      const int64_t from = Shape::kUpper ? i + 1 : 0, to = Shape::kUpper ? n : i;
      for (int64_t k = from; k < to; ++k) {
        sum = fnma(V(row[k * t.col]), load<T, kWide>(x + k * ld + c), sum);
      }
      if constexpr (!Shape::kUnit) sum = sum / V(row[i * t.col]);
      store(x + i * ld + c, sum);
    }
  }
}

// Halves, so that nearly all of it is products; x has whole panels and ends with zeros.
template <class Shape, class T>
void solve_triangle(Seen<T> t, int64_t n, T* x, int64_t ld, int64_t columns, Room room) {
  if (n <= kPanel) return solve_block<Shape>(t, n, x, ld, round_up(columns, kPanel));
  const int64_t half = round_up(n / 2, kPanel), rest = n - half;
  const Seen<T> last{t.at + half * (t.row + t.col), t.row, t.col};
  T* const below = x + half * ld;
  if constexpr (Shape::kUpper) {
    solve_triangle<Shape>(last, rest, below, ld, columns, room);
    const Seen<T> beside{t.at + half * t.col, t.row, t.col};
    subtract_product(half, columns, rest, beside, below, ld, x, ld, room);
    solve_triangle<Shape>(t, half, x, ld, columns, room);
  } else {
    solve_triangle<Shape>(t, half, x, ld, columns, room);
    const Seen<T> under{t.at + half * t.row, t.row, t.col};
    subtract_product(rest, columns, half, under, x, ld, below, ld, room);
    solve_triangle<Shape>(last, rest, below, ld, columns, room);
  }
}

// The same for matrices side by side.
template <class Shape, class T>
void solve_lanes(LaneMatrix<T> t, int64_t n, LaneMatrix<T> x) {
  using V = Lanes<T>;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = Shape::kUpper ? n - 1 - step : step;
    const int64_t from = Shape::kUpper ? i + 1 : 0, to = Shape::kUpper ? n : i;
    for (int64_t c = 0; c < x.columns; ++c) {
      V sum = x.get(i, c);
      for (int64_t k = from; k < to; ++k) sum = fnma(t.get(i, k), x.get(k, c), sum);
      if constexpr (!Shape::kUnit) sum = sum / t.get(i, i);
      x.set(i, c, sum);
    }
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_TRIANGULAR_H_
