// A routine over a batch: what its kernel calls.
//
//   template <class Routine, class Cfg, class Epi, class Lanes>
//   void routine(const RoutineArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                const Epi& epi, const Lanes& in_lanes);
//
// A routine takes the matrices of one element of a batch, and gives its *record*: all that it
// computes of them, one number after the other. Work units are GROUP elements of the batch:
//   work    = ceil(batch / GROUP)
//   scratch = Python's formula in template_library.py, for each routine
// Small matrices are computed side by side in vectors' lanes, others one by one (lanes.h, room.h).
// Epi is called with records:
//   epi(m0, m1, n0, n1, const T* tile, int64_t ld)    tile[(m - m0) * ld + n]
// or, where all of them go as they are (place.h), with as many as there are lanes, side by side:
//   in_lanes(m0, const T* records)
#ifndef AOT_LINALG_ROUTINE_H_
#define AOT_LINALG_ROUTINE_H_

#include <type_traits>

#include "aot/linalg/dense.h"
#include "aot/linalg/lanes.h"
#include "aot/linalg/place.h"

namespace aot::linalg {

struct RoutineConfig {
  using A = float;  // of all elements
  static constexpr int64_t GROUP = 1;
  static constexpr bool UPPER = false, UNIT = false;  // of SolveTriangular
  static constexpr bool BACK = false;                 // of Reflections
  static constexpr bool VALUES = false;               // of Eigh and Svd: no vectors
  static constexpr bool HERMITIAN = false;            // of Ldl
  static constexpr bool PRODUCT = false;              // of Determinant: no sign, no size
  static constexpr bool SOLUTION = false;             // of Solve: no factors
  static constexpr bool COMPLEX = false;              // of what is written for both kinds
  static constexpr bool STACKED = false;              // of complex matrices: as below
  static constexpr bool ALONE = false;                // small matrices one by one, too
};

// a (batch, m, n) and, for some, b (batch, its rows, r). Strides are in elements. Complex matrices
// have twice as many rows: the imaginary parts lie below the real ones (STACKED), or with COMPLEX
// anywhere.
template <class Cfg>
struct RoutineArgs {
  using T = typename Cfg::A;
  const T* a;
  int64_t a_batch, a_row, a_col;
  const T* b;
  int64_t b_batch, b_row, b_col;
  const T *a_im, *b_im;
  int64_t a_im_batch, a_im_row, a_im_col, b_im_batch, b_im_row, b_im_col;
  int64_t batch, m, n, r;
  int64_t b_rows;
  int64_t record;  // elements

  Seen<T> matrix_a(int64_t k) const { return {a + k * a_batch, a_row, a_col}; }
  Seen<T> matrix_b(int64_t k) const { return {b + k * b_batch, b_row, b_col}; }
  // Matrices side by side, and alone.
  static constexpr bool kComplex = Cfg::COMPLEX || Cfg::STACKED;
  using Side = std::conditional_t<kComplex, ComplexLaneMatrix<T>, LaneMatrix<T>>;
  using Whole = std::conditional_t<Cfg::COMPLEX, ComplexDense<T>, Dense<T>>;
  static constexpr int64_t kParts = Side::kParts;

  int64_t rows() const { return m / kParts; }
  Batches batches_a() const { return {a_batch, Cfg::STACKED ? a_batch : a_im_batch}; }
  Batches batches_b() const { return {b_batch, Cfg::STACKED ? b_batch : b_im_batch}; }
  auto operand_a(int64_t k) const {
    if constexpr (Cfg::COMPLEX) {
      return ComplexSeen<T>{matrix_a(k), {a_im + k * a_im_batch, a_im_row, a_im_col}};
    } else if constexpr (Cfg::STACKED) {
      return ComplexSeen<T>{matrix_a(k), matrix_a(k).from(m / 2, 0)};
    } else {
      return matrix_a(k);
    }
  }
  auto operand_b(int64_t k) const {
    if constexpr (Cfg::COMPLEX) {
      return ComplexSeen<T>{matrix_b(k), {b_im + k * b_im_batch, b_im_row, b_im_col}};
    } else if constexpr (Cfg::STACKED) {
      return ComplexSeen<T>{matrix_b(k), matrix_b(k).from(b_rows / 2, 0)};
    } else {
      return matrix_b(k);
    }
  }
  static Side side(T* at, int64_t rows, int64_t columns) {
    return lanes_at<Side>(at, rows, columns);
  }

  bool small() const { return !Cfg::ALONE && rows() <= kSmall && n <= kSmall && r <= kSmall; }
};

// Reads matrices of a batch that come next, while they are a part of the second-level cache:
// several streams at once are more than hardware guesses. Line after line, also where half of a
// matrix is needed: it is that order which hardware follows, and it follows what is read; what is
// asked for ahead (prefetched) it takes no notice of. What is more than that is read as it is
// needed: of eight triangles half comes, and in an order that is followed as well.
template <class T>
AOT_INLINE void fetch(Seen<T> first, int64_t batch, int64_t count, int64_t rows, int64_t columns) {
  constexpr int64_t kLine = 64 / int64_t(sizeof(T)), kMost = 65536 / int64_t(sizeof(T));
  const int64_t wide = columns * first.col;
  if (first.col < 1 || first.col > 2 || batch == 0 || count * rows * wide > kMost) return;
  const bool dense = first.row == wide;
  const int64_t each = dense ? rows * wide : wide, lines = dense ? 1 : rows;
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < lines; ++i) {
      const volatile T* const at = first.at + k * batch + i * first.row;
      for (int64_t j = 0; j < each; j += kLine) (void)at[j];
    }
  }
}

template <class Routine, class Cfg, class Epi, class InLanes = NoLanes>
AOT_INLINE void routine(const RoutineArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                        const Epi& epi, const InLanes& in_lanes = {}) {
  using T = typename Cfg::A;
  const int64_t first = begin * Cfg::GROUP, last = min64(end * Cfg::GROUP, p.batch);
  if (p.record == 0) return;
  Room room{reinterpret_cast<char*>(round_up(reinterpret_cast<int64_t>(scratch), 64))};
  const int64_t ld = round_up(p.record, kPanel);
  if (!p.small()) {
    T* const record = room.take<T>(ld);
    for (int64_t k = first; k < last; ++k) {
      Routine::one(p, k, record, room);
      Routine::finish(p, record);
      epi(k, k + 1, 0, p.record, record, ld);
    }
    return;
  }
  if constexpr (!Cfg::ALONE) {
    T* const records = room.take<T>(p.record * kLanes<T>);
    T* const apart = room.take<T>(ld * kLanes<T>);
    for (int64_t k = first; k < last; k += kLanes<T>) {
      const int64_t lanes = min64(kLanes<T>, last - k), next = k + kLanes<T>;
      if (next + kLanes<T> <= last) {
        fetch(p.matrix_a(next), p.a_batch, kLanes<T>, Cfg::STACKED ? p.m : p.rows(), p.n);
        if (p.b) fetch(p.matrix_b(next), p.b_batch, kLanes<T>, p.b_rows, p.r);
      }
      if constexpr (Routine::kApart) {
        Routine::apart(p, k, lanes, apart, ld, room);
      } else {
        Routine::lanes(p, k, lanes, records, room);
        if constexpr (!std::is_same_v<InLanes, NoLanes> && Routine::kFinished) {
          if (lanes == kLanes<T>) {
            in_lanes(k, static_cast<const T*>(records));
            continue;
          }
        }
        separate(records, p.record, apart, ld);
      }
      for (int64_t l = 0; l < lanes; ++l) Routine::finish(p, apart + l * ld);
      epi(k, k + lanes, 0, p.record, apart, ld);
    }
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROUTINE_H_
