// Scratch memory of a routine, and copies of matrices into it and out of it.
//
// A single matrix lies there by rows, `ld` elements apart: whole panels, and one more, so that rows
// of a power of two do not fall on each other in a cache. What is beside the matrix in its last
// panel are zeros, which products may read and write.
#ifndef AOT_LINALG_ROOM_H_
#define AOT_LINALG_ROOM_H_

#include "aot/tmpl/simd.h"
#include "aot/vec/vec.h"

namespace aot::linalg {

using tmpl::ceil_div;
using tmpl::kPanel;
using tmpl::max64;
using tmpl::min64;
using tmpl::round_up;

// Handed on by value: what a callee takes is free again when it returns.
struct Room {
  char* at;
  template <class T>
  AOT_INLINE T* take(int64_t elements) {
    T* const taken = reinterpret_cast<T*>(at);
    at += round_up(elements * int64_t(sizeof(T)), 64);
    return taken;
  }
};

// A routine whose records are finished as they are computed; others put each in order afterwards.
struct Finished {
  static constexpr bool kFinished = true;
  static constexpr bool kApart = false;  // of small matrices it gives records apart itself
  template <class Args, class T>
  static AOT_INLINE void finish(const Args&, T*) {}
};

constexpr int64_t leading(int64_t columns) { return round_up(columns, kPanel) + kPanel; }

// A matrix wherever it lies; strides in elements.
template <class T>
struct Seen {
  const T* at;
  int64_t row, col;
  AOT_INLINE T get(int64_t i, int64_t j) const { return at[i * row + j * col]; }
  AOT_INLINE Seen from(int64_t i, int64_t j) const { return {at + i * row + j * col, row, col}; }
  AOT_INLINE Seen turned() const { return {at, col, row}; }
};

// `count` elements `step` apart; the parts of complex numbers are 2 apart.
template <class T>
AOT_INLINE void copy_row(const T* from, int64_t step, int64_t count, T* to) {
  constexpr int kWide = native_lanes<T>();
  int64_t j = 0;
  if (step == 2) {
    for (; j + kWide <= count; j += kWide) store(to + j, load_strided<T, kWide>(from + 2 * j, 2));
  }
  for (; j < count; ++j) to[j] = from[j * step];
}

// A tile of a matrix whose columns are nearer than its rows, by rows: neighbours of a column,
// `step` apart, are read together, and turned in registers.
template <class T>
AOT_INLINE void turn_tile(const T* from, int64_t step, int64_t column, T* to, int64_t ld) {
  constexpr int kSide = transpose_lanes<T>();
  if (step == 1) return transpose_block(from, column, to, ld);
  alignas(64) T columns[kSide * kSide];
  AOT_UNROLL for (int64_t j = 0; j < kSide; ++j) {
    store(columns + j * kSide, load_strided<T, kSide>(from + j * column, 2));
  }
  transpose_block(columns, kSide, to, ld);
}

// The matrix as dense rows, zeros beside it up to the end of its last panel. Tiles keep what is
// read across rows in a cache.
template <class T>
void copy_in(Seen<T> from, int64_t rows, int64_t columns, T* to, int64_t ld) {
  constexpr int64_t kTile = 32, kSide = transpose_lanes<T>();
  const bool turned = (from.row == 1 || from.row == 2) && from.col > from.row;
  const int64_t whole = turned ? columns / kSide * kSide : 0;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    const int64_t i1 = min64(i0 + kTile, rows), turns = whole ? (i1 - i0) / kSide * kSide : 0;
    for (int64_t j = 0; j < whole; j += kSide) {
      for (int64_t i = i0; i < i0 + turns; i += kSide) {
        turn_tile(from.at + i * from.row + j * from.col, from.row, from.col, to + i * ld + j, ld);
      }
    }
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const int64_t j1 = min64(j0 + kTile, columns);
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t j = i < i0 + turns ? max64(j0, whole) : j0;
        if (j >= j1) continue;
        copy_row(from.at + i * from.row + j * from.col, from.col, j1 - j, to + i * ld + j);
      }
    }
    for (int64_t i = i0; i < i1; ++i) {
      for (int64_t j = columns; j < round_up(columns, kPanel); ++j) to[i * ld + j] = T(0);
    }
  }
}

template <class T>
AOT_INLINE void swap_rows(T* a, T* b, int64_t n) {
  constexpr int kLanes = native_lanes<T>();
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    const auto x = load<T, kLanes>(a + j), y = load<T, kLanes>(b + j);
    store(a + j, y);
    store(b + j, x);
  }
  for (; j < n; ++j) {
    const T x = a[j];
    a[j] = b[j];
    b[j] = x;
  }
}

// Descending values; swap(i, k) exchanges what goes along with two of them.
template <class T, class Swap>
AOT_INLINE void sort_descending(T* values, int64_t n, const Swap& swap) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t most = i;
    for (int64_t k = i + 1; k < n; ++k) most = values[k] > values[most] ? k : most;
    if (most == i) continue;
    const T held = values[i];
    values[i] = values[most];
    values[most] = held;
    swap(i, most);
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROOM_H_
