// A routine over a batch: what its kernel calls.
//
//   template <class Routine, class Cfg, class Epi>
//   void routine(const RoutineArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                const Epi& epi);
//
// A routine takes the matrices of one element of a batch, and gives its *record*: all that it
// computes of them, one number after the other. Work units are GROUP elements of the batch:
//   work    = ceil(batch / GROUP)
//   scratch = Python's formula in template_library.py, for each routine
// Small matrices are computed side by side in vectors' lanes, others one by one (lanes.h, room.h).
// Epi is called with records:
//   epi(m0, m1, n0, n1, const T* tile, int64_t ld)    tile[(m - m0) * ld + n]
#ifndef AOT_LINALG_ROUTINE_H_
#define AOT_LINALG_ROUTINE_H_

#include "aot/linalg/lanes.h"

namespace aot::linalg {

struct RoutineConfig {
  using A = float;  // of all elements
  static constexpr int64_t GROUP = 1;
  static constexpr bool UPPER = false, UNIT = false;  // of SolveTriangular
  static constexpr bool BACK = false;                 // of Reflections
  static constexpr bool VALUES = false;               // of Eigh and Svd: no vectors
  static constexpr bool HERMITIAN = false;            // of Ldl
  static constexpr bool ALONE = false;                // small matrices one by one, too
};

// a (batch, m, n) and, for some, b (batch, its rows, r). Strides are in elements.
template <class Cfg>
struct RoutineArgs {
  using T = typename Cfg::A;
  const T* a;
  int64_t a_batch, a_row, a_col;
  const T* b;
  int64_t b_batch, b_row, b_col;
  int64_t batch, m, n, r;
  int64_t record;  // elements

  Seen<T> matrix_a(int64_t k) const { return {a + k * a_batch, a_row, a_col}; }
  Seen<T> matrix_b(int64_t k) const { return {b + k * b_batch, b_row, b_col}; }
  bool small() const { return !Cfg::ALONE && m <= kSmall && n <= kSmall && r <= kSmall; }
};

template <class Routine, class Cfg, class Epi>
AOT_INLINE void routine(const RoutineArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                        const Epi& epi) {
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
      const int64_t lanes = min64(kLanes<T>, last - k);
      Routine::lanes(p, k, lanes, records, room);
      separate(records, p.record, apart, ld);
      for (int64_t l = 0; l < lanes; ++l) Routine::finish(p, apart + l * ld);
      epi(k, k + lanes, 0, p.record, apart, ld);
    }
  }
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_ROUTINE_H_
