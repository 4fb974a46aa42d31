// A recurrent layer in one direction: every step's gates are the input's part, computed before, and
// what was seen of the last state times a matrix.
//
//   template <class Cfg, class Epi>
//   void recurrence(const RecurrenceArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
//                   const Epi& epi);
//
// Work units are blocks of ROWS elements of the batch, which need nothing of each other:
//   work    = ceil(batch / ROWS)
//   scratch = recurrence_scratch<Cfg>(p) bytes; Python's twin of the formula is in
//             template_recurrence.py
// The states of a block live in scratch, and so does the matrix if nobody packed it before. Epi is
// called with what is seen of each step's states, and then, with ENDS, with the last states:
//   epi(step, m0, m1, const T* tile, int64_t ld)    tile[(m - m0) * ld + column]
// Columns beyond what is seen are zeros.
#ifndef AOT_TMPL_RECURRENCE_H_
#define AOT_TMPL_RECURRENCE_H_

#include "aot/tmpl/gemm.h"
#include "aot/vec/vec.h"

namespace aot::tmpl {

enum class Cell { lstm, gru, tanh, relu };

struct RecurrenceConfig {
  using A = float;  // of all elements
  static constexpr Cell CELL = Cell::lstm;
  static constexpr int64_t ROWS = 8;
  static constexpr bool BACKWARDS = false;
  static constexpr bool ENDS = false;
  static constexpr bool PACKED = false;  // weight is packed: pack_matmul_weight
  static constexpr bool PROJECTED = false;
  static constexpr bool BIAS = false;
};

template <class T>
struct RecurrentMatrix {
  const T* at;
  int64_t row, col;  // strides in elements
};

// Strides are in elements. x has unit stride along the gates, and bias along the units.
template <class Cfg>
struct RecurrenceArgs {
  using A = typename Cfg::A;
  const A* x;
  int64_t x_step, x_row;
  RecurrentMatrix<A> weight;      // size x gates * units
  RecurrentMatrix<A> hidden;      // batch x size, seen before the first step
  RecurrentMatrix<A> state;       // batch x units, of lstm
  RecurrentMatrix<A> projection;  // units x size
  const A* bias;                  // of gru's new gate
  int64_t steps, batch, units, size;
};

constexpr int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

template <class Cfg>
struct Recurrence {
  using T = typename Cfg::A;
  static constexpr int64_t kGates = gates_of(Cfg::CELL);
  static constexpr int kLanes = 2 * native_lanes<T>();
  static constexpr int64_t kLine = 64 / sizeof(T);

  const RecurrenceArgs<Cfg>& p;
  int64_t gates_ld, ld;  // elements between the rows of gates, and of all else
  T *gates, *seen, *state, *made;
  const T* weight;
  const T* projection;

  AOT_INLINE Recurrence(const RecurrenceArgs<Cfg>& args, T* room)
      : p(args), gates_ld(round_up(kGates * args.units, kPanel)), ld(round_up(args.units, kPanel)) {
    gates = take(room, Cfg::ROWS * gates_ld);
    seen = take(room, Cfg::ROWS * ld);
    state = take(room, Cfg::ROWS * ld);
    made = take(room, Cfg::ROWS * ld);
    weight = matrix(args.weight, p.size, kGates * p.units, Cfg::PACKED, room);
    projection = Cfg::PROJECTED ? matrix(args.projection, p.units, p.size, false, room) : nullptr;
  }

  static AOT_INLINE T* take(T*& room, int64_t elements) {
    T* const taken = room;
    room += elements;
    return taken;
  }

  static AOT_INLINE const T* matrix(const RecurrentMatrix<T>& m, int64_t k, int64_t n, bool packed,
                                    T*& room) {
    if (packed) return m.at;
    T* const copy = take(room, k * round_up(n, kPanel));
    pack_any(m.at, m.row, m.col, k, n, copy, k * kPanel);
    return copy;
  }

  // c = rows of a (k wide) times a packed matrix of n columns; whole panels are written.
  AOT_INLINE void times(const T* a, const T* b, int64_t k, int64_t n, int64_t rows, T* c,
                        int64_t c_ld) const {
    const T* at[Cfg::ROWS];
    for (int64_t i = 0; i < Cfg::ROWS; ++i) at[i] = a + min64(i, rows - 1) * ld;
    const BlockArgs<T, PackedB<T>> block{at, 0,   rows, 1, k, {b, k * kPanel}, ceil_div(n, kPanel),
                                         c,  c_ld};
    block_by_panels<MultiplyAdd<T>, 256>(block, RowsInPlace{});
  }

  template <bool WHOLE>
  static AOT_INLINE Vec<T, kLanes> read(const T* at, int64_t n) {
    if constexpr (WHOLE) return load<T, kLanes>(at);
    return load_n<T, kLanes>(at, n);
  }
  template <bool WHOLE>
  static AOT_INLINE void write(T* at, Vec<T, kLanes> v, int64_t n) {
    if constexpr (WHOLE) {
      store(at, v);
    } else {
      store_n(at, v, n);
    }
  }

  // Units [u, u + n) of row m, n = kLanes where WHOLE; `x` is the row's input part.
  template <bool WHOLE>
  AOT_INLINE void units(const T* x, int64_t m, int64_t u, int64_t n) const {
    using V = Vec<T, kLanes>;
    const T* const own = gates + m * gates_ld;
    const auto part = [&](int64_t g) { return read<WHOLE>(own + g * p.units + u, n); };
    const auto given = [&](int64_t g) { return read<WHOLE>(x + g * p.units + u, n); };
    T* const old = state + m * ld + u;
    T* const out = (Cfg::PROJECTED ? made : seen) + m * ld + u;
    if constexpr (Cfg::CELL == Cell::lstm) {
      const V kept = sigmoid(given(1) + part(1)) * read<WHOLE>(old, n);
      const V next = fma(sigmoid(given(0) + part(0)), tanh(given(2) + part(2)), kept);
      write<WHOLE>(old, next, n);
      write<WHOLE>(out, sigmoid(given(3) + part(3)) * tanh(next), n);
    } else if constexpr (Cfg::CELL == Cell::gru) {
      V inner = part(2);
      if constexpr (Cfg::BIAS) inner = inner + read<WHOLE>(p.bias + u, n);
      const V next = tanh(fma(sigmoid(given(0) + part(0)), inner, given(2)));
      write<WHOLE>(out, fma(read<WHOLE>(out, n) - next, sigmoid(given(1) + part(1)), next), n);
    } else if constexpr (Cfg::CELL == Cell::tanh) {
      write<WHOLE>(out, tanh(given(0) + part(0)), n);
    } else {
      write<WHOLE>(out, maximum(given(0) + part(0), V(T(0))), n);
    }
  }

  AOT_INLINE void begin(int64_t m0, int64_t rows) const {
    zero_row(seen, 3 * Cfg::ROWS * ld);
    for (int64_t i = 0; i < rows; ++i) {
      copy(p.hidden, m0 + i, p.size, seen + i * ld);
      if constexpr (Cfg::CELL == Cell::lstm) copy(p.state, m0 + i, p.units, state + i * ld);
    }
  }
  static AOT_INLINE void copy(const RecurrentMatrix<T>& m, int64_t row, int64_t n, T* out) {
    for (int64_t j = 0; j < n; ++j) out[j] = m.at[row * m.row + j * m.col];
  }

  AOT_INLINE void step(int64_t t, int64_t m0, int64_t rows) const {
    times(seen, weight, p.size, kGates * p.units, rows, gates, gates_ld);
    const int64_t after = Cfg::BACKWARDS ? -p.x_step : p.x_step;
    for (int64_t m = 0; m < rows; ++m) {
      const T* const x = p.x + t * p.x_step + (m0 + m) * p.x_row;
      // The next step's product hides the way of its input part from memory.
      for (int64_t j = 0; j < kGates * p.units; j += kLine) __builtin_prefetch(x + after + j, 0, 2);
      int64_t u = 0;
      for (; u + kLanes <= p.units; u += kLanes) units<true>(x, m, u, kLanes);
      if (u < p.units) units<false>(x, m, u, p.units - u);
    }
    if constexpr (Cfg::PROJECTED) times(made, projection, p.units, p.size, rows, seen, ld);
  }
};

template <class Cfg, class Epi>
AOT_INLINE void recurrence(const RecurrenceArgs<Cfg>& p, int64_t begin, int64_t end, void* scratch,
                           const Epi& epi) {
  const Recurrence<Cfg> run(p, static_cast<typename Cfg::A*>(scratch));
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t m0 = unit * Cfg::ROWS, m1 = min64(m0 + Cfg::ROWS, p.batch);
    run.begin(m0, m1 - m0);
    for (int64_t k = 0; k < p.steps; ++k) {
      const int64_t t = Cfg::BACKWARDS ? p.steps - 1 - k : k;
      run.step(t, m0, m1 - m0);
      epi(t, m0, m1, run.seen, run.ld);
    }
    if constexpr (Cfg::ENDS) epi(p.steps, m0, m1, run.state, run.ld);
  }
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_RECURRENCE_H_
