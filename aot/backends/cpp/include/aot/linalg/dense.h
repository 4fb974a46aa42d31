// Single matrices: dense rows in scratch, and as they lie anywhere, of real and of complex numbers.
//
// A complex matrix has its real and its imaginary parts in two planes, of which each row has one
// after the other. Algorithms are written once, over either kind.
#ifndef AOT_LINALG_DENSE_H_
#define AOT_LINALG_DENSE_H_

#include "aot/linalg/numbers.h"
#include "aot/linalg/room.h"

namespace aot::linalg {

// A complex matrix wherever it lies; with OTHER the conjugate of what lies there.
template <class T, bool OTHER = false>
struct ComplexSeen {
  Seen<T> re, im;
  AOT_INLINE Complex<T> get(int64_t i, int64_t j) const {
    const T value = im.get(i, j);
    return {re.get(i, j), OTHER ? -value : value};
  }
  AOT_INLINE ComplexSeen from(int64_t i, int64_t j) const { return {re.from(i, j), im.from(i, j)}; }
  AOT_INLINE ComplexSeen turned() const { return {re.turned(), im.turned()}; }
};

// Numbers that lie in two rows: real and imaginary parts.
template <class T>
struct Parts {
  T *re, *im;
  AOT_INLINE Complex<T> get(int64_t i) const { return {re[i], im[i]}; }
  AOT_INLINE void set(int64_t i, Complex<T> v) const {
    re[i] = v.re;
    im[i] = v.im;
  }
  AOT_INLINE Parts from(int64_t i) const { return {re + i, im + i}; }
};

template <class T>
struct Dense {
  using Element = T;
  using Number = T;
  static constexpr int kParts = 1;
  T* at;
  int64_t ld;
  AOT_INLINE T get(int64_t i, int64_t j) const { return at[i * ld + j]; }
  AOT_INLINE void set(int64_t i, int64_t j, T v) const { at[i * ld + j] = v; }
  AOT_INLINE Dense from(int64_t i, int64_t j) const { return {at + i * ld + j, ld}; }
  AOT_INLINE T* part(int) const { return at; }
  AOT_INLINE T* line(int64_t i, int64_t j) const { return at + i * ld + j; }
  // What lies there, its conjugate, and its adjoint.
  AOT_INLINE Seen<T> seen() const { return {at, ld, 1}; }
  AOT_INLINE Seen<T> other() const { return seen(); }
  AOT_INLINE Seen<T> adjoint() const { return {at, 1, ld}; }
  template <int W>
  AOT_INLINE Vec<T, W> wide(int64_t i, int64_t j) const {
    return load<T, W>(at + i * ld + j);
  }
  template <int W>
  AOT_INLINE void set_wide(int64_t i, int64_t j, Vec<T, W> v) const {
    store(at + i * ld + j, v);
  }
};

template <class T>
struct ComplexDense {
  using Element = T;
  using Number = Complex<T>;
  static constexpr int kParts = 2;
  T *re, *im;
  int64_t ld;
  AOT_INLINE Complex<T> get(int64_t i, int64_t j) const { return {re[i * ld + j], im[i * ld + j]}; }
  AOT_INLINE void set(int64_t i, int64_t j, Complex<T> v) const {
    re[i * ld + j] = v.re;
    im[i * ld + j] = v.im;
  }
  AOT_INLINE ComplexDense from(int64_t i, int64_t j) const {
    return {re + i * ld + j, im + i * ld + j, ld};
  }
  AOT_INLINE T* part(int which) const { return which ? im : re; }
  AOT_INLINE Parts<T> line(int64_t i, int64_t j) const {
    return {re + i * ld + j, im + i * ld + j};
  }
  AOT_INLINE ComplexSeen<T> seen() const { return {{re, ld, 1}, {im, ld, 1}}; }
  AOT_INLINE ComplexSeen<T, true> other() const { return {{re, ld, 1}, {im, ld, 1}}; }
  AOT_INLINE ComplexSeen<T, true> adjoint() const { return {{re, 1, ld}, {im, 1, ld}}; }
  template <int W>
  AOT_INLINE Complex<Vec<T, W>> wide(int64_t i, int64_t j) const {
    return {load<T, W>(re + i * ld + j), load<T, W>(im + i * ld + j)};
  }
  template <int W>
  AOT_INLINE void set_wide(int64_t i, int64_t j, Complex<Vec<T, W>> v) const {
    store(re + i * ld + j, v.re);
    store(im + i * ld + j, v.im);
  }
};

// A number in every lane.
template <int W, class T>
AOT_INLINE Vec<T, W> spread(T v) {
  return Vec<T, W>(v);
}
template <int W, class T>
AOT_INLINE Complex<Vec<T, W>> spread(Complex<T> v) {
  return {Vec<T, W>(v.re), Vec<T, W>(v.im)};
}

// Whether neighbours of a row are nearer than those of a column.
template <class T>
AOT_INLINE bool is_by_rows(Seen<T> a) {
  return a.col <= a.row;
}
template <class T, bool OTHER>
AOT_INLINE bool is_by_rows(ComplexSeen<T, OTHER> a) {
  return is_by_rows(a.re);
}

// A matrix at a place, part beside part in rows of `wide` numbers.
template <class M>
M dense_at(typename M::Element* at, int64_t wide) {
  if constexpr (M::kParts == 2) {
    return {at, at + wide, 2 * wide};
  } else {
    return {at, wide};
  }
}

// Room for a matrix, of any numbers; rows that products may read beyond their end.
template <class M>
M take_dense(int64_t rows, int64_t columns, Room& room) {
  using T = typename M::Element;
  const int64_t wide = leading(columns);
  return dense_at<M>(room.take<T>(rows * M::kParts * wide), wide);
}

template <class T>
void copy_in(Seen<T> from, int64_t rows, int64_t columns, Dense<T> to) {
  copy_in(from, rows, columns, to.at, to.ld);
}
template <class T>
void copy_in(ComplexSeen<T> from, int64_t rows, int64_t columns, ComplexDense<T> to) {
  copy_in(from.re, rows, columns, to.re, to.ld);
  copy_in(from.im, rows, columns, to.im, to.ld);
}

template <class M>
void zero_row(M a, int64_t i, int64_t columns) {
  for (int p = 0; p < M::kParts; ++p) {
    typename M::Element* const row = a.part(p) + i * a.ld;
    for (int64_t j = 0; j < round_up(columns, kPanel); ++j) row[j] = 0;
  }
}

// Rows become their conjugates.
template <class T>
void conjugate_rows(Dense<T>, int64_t, int64_t) {}
template <class T>
void conjugate_rows(ComplexDense<T> a, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) a.im[i * a.ld + j] = -a.im[i * a.ld + j];
  }
}

// Into a record, part after part; where the next one begins.
template <class M, class T>
T* copy_out(M a, int64_t rows, int64_t columns, T* record) {
  for (int p = 0; p < M::kParts; ++p) {
    const T* const from = a.part(p);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) *record++ = from[i * a.ld + j];
    }
  }
  return record;
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_DENSE_H_
