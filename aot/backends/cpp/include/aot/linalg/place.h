// Where a matrix of each record goes as it is: by rows or by columns, both parts of complex numbers
// side by side. It is turned in registers, from matrices side by side without a copy in between.
#ifndef AOT_LINALG_PLACE_H_
#define AOT_LINALG_PLACE_H_

#include "aot/linalg/lanes.h"

namespace aot::linalg {

// In a record from its element `first` on the matrix lies by rows, part after part (PARTS of them).
// Strides are in elements; a number's parts follow each other, and its neighbours along a row
// (col == PARTS) or along a column (row == PARTS) follow it.
template <class T, int PARTS>
struct Place {
  T* at;
  int64_t batch, row, col;
  int64_t first, rows, columns;

  bool by_rows() const { return col == PARTS; }

  // Of records first_record .. last_record - 1, one after the other `ld` apart.
  AOT_INLINE void put(int64_t first_record, int64_t last_record, const T* records,
                      int64_t ld) const {
    for (int64_t k = first_record; k < last_record; ++k, records += ld) {
      T* const to = at + k * batch;
      by_rows() ? put_rows(records + first, to) : put_columns(records + first, to);
    }
  }

  // Of records side by side, as many as there are lanes: what follows each other where they go,
  // also from one row (or column) to the next, is turned as many vectors at a time.
  void put_lanes(int64_t record, const T* records) const {
    constexpr int64_t kLane = kLanes<T>, kSide = transpose_lanes<T>();
    static_assert(kSide == kLane);
    T* const to = at + record * batch;
    const T* const from = records + first * kLane;
    const int64_t lines = by_rows() ? rows : columns, each = by_rows() ? columns : rows;
    const int64_t line = by_rows() ? columns : 1, step = by_rows() ? 1 : columns;
    const int64_t apart = by_rows() ? row : col, part = rows * columns;
    const bool dense = apart == each * PARTS;
    alignas(64) T held[kSide * kLane];
    int64_t count = 0, start = 0;
    for (int64_t l = 0; l < lines; ++l) {
      if (!dense) start = l * apart;
      for (int64_t e = 0; e < each; ++e) {
        AOT_UNROLL for (int p = 0; p < PARTS; ++p) {
          const T* const own = from + (p * part + l * line + e * step) * kLane;
          store(held + count * kLane, load<T, int(kLane)>(own));
          if (++count < kSide) continue;
          transpose_block(held, kLane, to + start, batch);
          start += count;
          count = 0;
        }
      }
      if (count == 0 || (dense && l + 1 < lines)) continue;
      transpose_block_n(held, kLane, to + start, batch, count, kSide);
      count = 0;
    }
  }

 private:
  AOT_INLINE void put_rows(const T* from, T* to) const {
    constexpr int kWide = native_lanes<T>();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < PARTS; ++p) {
        const T* const own = from + (p * rows + i) * columns;
        T* const line = to + i * row + p;
        int64_t j = 0;
        if constexpr (PARTS == 1) {
          for (; j + kWide <= columns; j += kWide) store(line + j, load<T, kWide>(own + j));
        }
        for (; j < columns; ++j) line[j * PARTS] = own[j];
      }
    }
  }

  AOT_INLINE void put_columns(const T* from, T* to) const {
    constexpr int64_t kSide = transpose_lanes<T>(), kHigh = max64(1, kSide / PARTS);
    const int64_t part = rows * columns;
    alignas(64) T held[kSide * kSide];
    for (int64_t i = 0; i < rows; i += kHigh) {
      const int64_t high = PARTS * min64(kHigh, rows - i);
      for (int64_t j = 0; j < columns; j += kSide) {
        const T* const own = from + i * columns + j;
        T* const tile = to + j * col + i * PARTS;
        const int64_t wide = min64(kSide, columns - j);
        const bool whole = high == kSide && wide == kSide;
        if constexpr (PARTS == 1) {
          whole ? transpose_block(own, columns, tile, col)
                : transpose_block_n(own, columns, tile, col, high, wide);
        } else {
          for (int64_t r = 0; r < high; ++r) {
            const T* const line = own + r / PARTS * columns + r % PARTS * part;
            store(held + r * kSide, load_n<T, int(kSide)>(line, wide));
          }
          whole ? transpose_block(held, kSide, tile, col)
                : transpose_block_n(held, kSide, tile, col, high, wide);
        }
      }
    }
  }
};

// What takes records side by side where none are taken so.
struct NoLanes {};

}  // namespace aot::linalg

#endif  // AOT_LINALG_PLACE_H_
