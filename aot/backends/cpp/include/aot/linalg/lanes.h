// Small matrices of a batch side by side: a vector has one element of as many matrices as it has
// lanes, so that an algorithm for one matrix is written once, with a vector for a number.
#ifndef AOT_LINALG_LANES_H_
#define AOT_LINALG_LANES_H_

#include "aot/linalg/dense.h"

namespace aot::linalg {

// Sizes up to which matrices are computed side by side; SMALL in template_library.py. Of 32, and
// what a routine puts beside them.
inline constexpr int64_t kSmall = 33;

template <class T>
inline constexpr int kLanes = native_lanes<T>();
template <class T>
using Lanes = Vec<T, kLanes<T>>;

// A matrix of vectors by rows, `stride` vectors apart: element (i, j) of every lane's matrix.
template <class T>
struct LaneMatrix {
  using Element = T;
  using Number = Lanes<T>;
  static constexpr int kParts = 1;
  T* at;
  int64_t columns;
  int64_t stride = columns;
  AOT_INLINE LaneMatrix part(int) const { return *this; }
  AOT_INLINE LaneMatrix below(int64_t i) const {
    return {place(i, 0), columns, stride};
  }  // row i on
  AOT_INLINE LaneMatrix beside(int64_t j, int64_t count) const {
    return {place(0, j), count, stride};
  }
  AOT_INLINE T* place(int64_t i, int64_t j) const { return at + (i * stride + j) * kLanes<T>; }
  AOT_INLINE Lanes<T> get(int64_t i, int64_t j) const { return load<T, kLanes<T>>(place(i, j)); }
  AOT_INLINE void set(int64_t i, int64_t j, Lanes<T> v) const { store(place(i, j), v); }
};

// The same of complex matrices: all real parts lie before the imaginary ones.
template <class T>
struct ComplexLaneMatrix {
  using Element = T;
  using Number = Complex<Lanes<T>>;
  static constexpr int kParts = 2;
  LaneMatrix<T> re, im;
  int64_t columns;
  ComplexLaneMatrix(LaneMatrix<T> real, LaneMatrix<T> imaginary)
      : re(real), im(imaginary), columns(real.columns) {}
  ComplexLaneMatrix(T* at, int64_t rows, int64_t n)
      : ComplexLaneMatrix({at, n}, {at + rows * n * kLanes<T>, n}) {}
  AOT_INLINE ComplexLaneMatrix below(int64_t i) const { return {re.below(i), im.below(i)}; }
  AOT_INLINE ComplexLaneMatrix beside(int64_t j, int64_t count) const {
    return {re.beside(j, count), im.beside(j, count)};
  }
  AOT_INLINE LaneMatrix<T> part(int which) const { return which ? im : re; }
  AOT_INLINE Number get(int64_t i, int64_t j) const { return {re.get(i, j), im.get(i, j)}; }
  AOT_INLINE void set(int64_t i, int64_t j, Number v) const {
    re.set(i, j, v.re);
    im.set(i, j, v.im);
  }
};

// A matrix at a place, part after part.
template <class M>
M lanes_at(typename M::Element* at, int64_t rows, int64_t columns) {
  if constexpr (M::kParts == 2) {
    return M(at, rows, columns);
  } else {
    return {at, columns};
  }
}

// Rows of `count` elements, `stride` apart, one a lane, as `count` vectors.
template <class T>
void interleave(const T* from, int64_t stride, int64_t count, T* to) {
  constexpr int64_t kSide = transpose_lanes<T>();
  static_assert(kSide == kLanes<T> || kSide < kLanes<T>);
  int64_t e = 0;
  if constexpr (kSide == kLanes<T>) {
    for (; e + kSide <= count; e += kSide) {
      transpose_block(from + e, stride, to + e * kLanes<T>, kLanes<T>);
    }
    if (count - e >= kSide / 4) {
      transpose_block_n(from + e, stride, to + e * kLanes<T>, kLanes<T>, kSide, count - e);
      return;
    }
  }
  for (; e < count; ++e) {
    for (int64_t l = 0; l < kLanes<T>; ++l) to[e * kLanes<T> + l] = from[l * stride + e];
  }
}

// The way back: `count` vectors as a row for each lane.
template <class T>
void separate(const T* from, int64_t count, T* to, int64_t stride) {
  constexpr int64_t kSide = transpose_lanes<T>();
  int64_t e = 0;
  if constexpr (kSide == kLanes<T>) {
    for (; e + kSide <= count; e += kSide) {
      transpose_block(from + e * kLanes<T>, kLanes<T>, to + e, stride);
    }
    if (count - e >= kSide / 4) {
      transpose_block_n(from + e * kLanes<T>, kLanes<T>, to + e, stride, count - e, kSide);
      return;
    }
  }
  for (; e < count; ++e) {
    for (int64_t l = 0; l < kLanes<T>; ++l) to[l * stride + e] = from[e * kLanes<T> + l];
  }
}

// `lanes` matrices, `batch` elements apart; the last one stands in for those that are missing.
template <class T>
void gather_lanes(Seen<T> first, int64_t batch, int64_t lanes, int64_t rows, int64_t columns,
                  T* to) {
  const bool whole = lanes == kLanes<T> && first.col == 1;
  if (whole && first.row == columns) return interleave(first.at, batch, rows * columns, to);
  for (int64_t i = 0; i < rows; ++i) {
    T* const row = to + i * columns * kLanes<T>;
    if (whole) {
      interleave(first.at + i * first.row, batch, columns, row);
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) {
      const T* const at = first.at + i * first.row + j * first.col;
      for (int64_t l = 0; l < kLanes<T>; ++l) {
        row[j * kLanes<T> + l] = at[min64(l, lanes - 1) * batch];
      }
    }
  }
}

// Elements between neighbours of a batch, of either part.
struct Batches {
  int64_t re, im;
};
template <class T>
void gather_lanes(Seen<T> first, Batches apart, int64_t lanes, int64_t rows, int64_t columns,
                  LaneMatrix<T> to) {
  gather_lanes(first, apart.re, lanes, rows, columns, to.at);
}
// Complex numbers as they lie in tensors, both parts side by side, are turned together.
template <class T>
void gather_lanes(ComplexSeen<T> first, Batches apart, int64_t lanes, int64_t rows, int64_t columns,
                  ComplexLaneMatrix<T> to) {
  const Seen<T> re = first.re, im = first.im;
  const bool paired = im.at == re.at + 1 && re.col == 2 && im.col == 2 && re.row == im.row;
  if (!paired || apart.re != apart.im || lanes != kLanes<T> || columns > kSmall) {
    gather_lanes(re, apart.re, lanes, rows, columns, to.re.at);
    gather_lanes(im, apart.im, lanes, rows, columns, to.im.at);
    return;
  }
  // Rows that follow each other are one, of which whole vectors are turned at a time.
  constexpr int64_t kMost = 32;
  static_assert(kMost <= kSmall);
  const bool dense = re.row == 2 * columns;
  const int64_t lines = dense ? 1 : rows, each = dense ? rows * columns : columns;
  const int64_t step = dense ? kMost : columns;
  alignas(64) T both[2 * kSmall * kLanes<T>];
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t e = 0; e < each; e += step) {
      const int64_t count = min64(step, each - e), at = (i * columns + e) * kLanes<T>;
      interleave(re.at + i * re.row + 2 * e, apart.re, 2 * count, both);
      T *const x = to.re.at + at, *const y = to.im.at + at;
      for (int64_t j = 0; j < count * kLanes<T>; j += kLanes<T>) {
        store(x + j, load<T, kLanes<T>>(both + 2 * j));
        store(y + j, load<T, kLanes<T>>(both + 2 * j + kLanes<T>));
      }
    }
  }
}

// Into rows that are apart from each other.
template <class A, class M>
void gather_rows(A first, Batches apart, int64_t lanes, int64_t rows, M to) {
  for (int64_t i = 0; i < rows; ++i) {
    gather_lanes(first.from(i, 0), apart, lanes, 1, to.columns, to.below(i));
  }
}

// The lower triangles alone; what else a vector of neighbours reads of a row comes, too.
template <class A, class M>
void gather_lower(A first, Batches apart, int64_t lanes, int64_t n, M to) {
  constexpr int64_t kSide = transpose_lanes<typename M::Element>();
  for (int64_t i = 0; i < n; ++i) {
    gather_lanes(first.from(i, 0), apart, lanes, 1, min64(n, round_up(i + 1, kSide)), to.below(i));
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_LANES_H_
