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
//
//   void shared_recurrence(p, begin, end, scratch, epi)    epi(step, m0, m1, n0, n1, tile, ld)
//
// The same, each step shared out among threads: a share is ROWS elements of the batch times
// kShareUnits units, and work = shares. Units are a multiple of kPanel, and nothing is projected.
// p.marks are zeros: how many shares are done, the steps that each share has begun, and room for
// the states. A thread takes whatever share of the step nobody has taken, its own first, so that it
// finds its part of the matrix in its cache, and waits when none is left until the others have
// finished theirs. It only waits for threads that hold a share, which are running: any number of
// threads will do, in any order, one after the other too. What a share computes does not depend on
// who does it.
#ifndef AOT_TMPL_RECURRENCE_H_
#define AOT_TMPL_RECURRENCE_H_

#include <sched.h>

#include "aot/tmpl/gemm.h"
#include "aot/vec/vec.h"

namespace aot::tmpl {

inline constexpr int64_t kShareUnits = 32;

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
  int64_t* marks = nullptr;
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

  // A row's states: where its gates are, its cell, and what was and will be seen of it.
  struct Row {
    const T* own;
    T* state;
    const T* before;
    T* after;
  };

  // Units [u, u + n) of a row, n = kLanes where WHOLE; `x` is the row's input part.
  template <bool WHOLE>
  AOT_INLINE void units(const T* x, const Row& row, int64_t u, int64_t n) const {
    using V = Vec<T, kLanes>;
    const T* const own = row.own;
    const auto part = [&](int64_t g) { return read<WHOLE>(own + g * p.units + u, n); };
    const auto given = [&](int64_t g) { return read<WHOLE>(x + g * p.units + u, n); };
    T* const old = row.state + u;
    T* const out = row.after + u;
    if constexpr (Cfg::CELL == Cell::lstm) {
      const V kept = sigmoid(given(1) + part(1)) * read<WHOLE>(old, n);
      const V next = fma(sigmoid(given(0) + part(0)), tanh(given(2) + part(2)), kept);
      write<WHOLE>(old, next, n);
      write<WHOLE>(out, sigmoid(given(3) + part(3)) * tanh(next), n);
    } else if constexpr (Cfg::CELL == Cell::gru) {
      V inner = part(2);
      if constexpr (Cfg::BIAS) inner = inner + read<WHOLE>(p.bias + u, n);
      const V next = tanh(fma(sigmoid(given(0) + part(0)), inner, given(2)));
      write<WHOLE>(
          out, fma(read<WHOLE>(row.before + u, n) - next, sigmoid(given(1) + part(1)), next), n);
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
      const Row row{gates + m * gates_ld, state + m * ld, seen + m * ld,
                    (Cfg::PROJECTED ? made : seen) + m * ld};
      int64_t u = 0;
      for (; u + kLanes <= p.units; u += kLanes) units<true>(x, row, u, kLanes);
      if (u < p.units) units<false>(x, row, u, p.units - u);
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

// The threads' common states and marks, and one thread's way through the steps.
template <class Cfg>
struct SharedSteps {
  using T = typename Cfg::A;
  using Own = Recurrence<Cfg>;
  static constexpr int64_t kApart = 8;  // marks between two that threads change: a cache line

  const RecurrenceArgs<Cfg>& p;
  const Own& own;
  int64_t across, shares;
  T *seen[2], *state;

  static int64_t shares_of(const RecurrenceArgs<Cfg>& args) {
    return ceil_div(args.units, kShareUnits) * ceil_div(args.batch, Cfg::ROWS);
  }
  // Turn 0 fills in the states before the first step; step k is turn k + 1.
  static int64_t turns_of(const RecurrenceArgs<Cfg>& args) { return args.steps + 1; }
  static int64_t done(const RecurrenceArgs<Cfg>& args) {
    return __atomic_load_n(args.marks, __ATOMIC_ACQUIRE);
  }

  AOT_INLINE SharedSteps(const RecurrenceArgs<Cfg>& args, const Own& scratch)
      : p(args), own(scratch), across(ceil_div(args.units, kShareUnits)), shares(shares_of(args)) {
    T* room = reinterpret_cast<T*>(p.marks + kApart * (1 + shares));
    for (T** place : {&seen[0], &seen[1], &state}) *place = Own::take(room, p.batch * own.ld);
  }

  int64_t* begun(int64_t share) const { return p.marks + kApart * (1 + share); }
  // Takes a share of turn k, unless somebody has.
  bool take(int64_t share, int64_t k) const {
    int64_t* const mark = begun(share);
    if (__atomic_load_n(mark, __ATOMIC_RELAXED) != k) return false;
    return __atomic_compare_exchange_n(mark, &k, k + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  }

  template <class Epi>
  AOT_INLINE void walk(int64_t home, const Epi& epi) const {
    const int64_t turns = turns_of(p);
    for (int64_t k = done(p) / shares; k < turns; k = max64(k + 1, done(p) / shares)) {
      for (int64_t i = 0; i < shares; ++i) {
        const int64_t share = home + i < shares ? home + i : home + i - shares;
        if (!take(share, k)) continue;
        const int64_t m0 = share / across * Cfg::ROWS, m1 = min64(m0 + Cfg::ROWS, p.batch);
        const int64_t n0 = share % across * kShareUnits, n1 = min64(n0 + kShareUnits, p.units);
        if (k == 0) {
          begin(m0, m1, n0, n1);
        } else {
          step(k, m0, m1, n0, n1, epi);
        }
        if constexpr (Cfg::ENDS) {
          if (k + 1 == turns) {
            epi(p.steps, m0, m1, n0, n1, (last() + m0 * own.ld + n0), own.ld);
          }
        }
        __atomic_fetch_add(p.marks, 1, __ATOMIC_RELEASE);
      }
      for (int64_t spins = 0; done(p) < (k + 1) * shares; ++spins) {
        if (spins < 2000) {
          __builtin_ia32_pause();
        } else {
          sched_yield();
        }
      }
    }
  }

  // The states that the last turn leaves.
  const T* last() const { return Cfg::CELL == Cell::lstm ? state : seen[p.steps & 1]; }

  AOT_INLINE void begin(int64_t m0, int64_t m1, int64_t n0, int64_t n1) const {
    const auto copied = [&](const RecurrentMatrix<T>& from, int64_t m, T* to) {
      for (int64_t j = n0; j < n1; ++j) to[m * own.ld + j] = from.at[m * from.row + j * from.col];
    };
    for (int64_t m = m0; m < m1; ++m) {
      copied(p.hidden, m, seen[0]);
      if constexpr (Cfg::CELL == Cell::lstm) copied(p.state, m, state);
    }
  }

  template <class Epi>
  AOT_INLINE void step(int64_t k, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                       const Epi& epi) const {
    const int64_t t = Cfg::BACKWARDS ? p.steps - k : k - 1, ld = own.ld;
    const T* const before = seen[(k - 1) & 1];
    T* const after = seen[k & 1];
    for (int64_t g = 0; g < Own::kGates; ++g) {
      const int64_t column = g * p.units + n0;
      own.times(before + m0 * ld, own.weight + column * p.size, p.size, n1 - n0, m1 - m0,
                own.gates + column, own.gates_ld);
    }
    for (int64_t m = m0; m < m1; ++m) {
      const T* const x = p.x + t * p.x_step + m * p.x_row;
      const typename Own::Row row{own.gates + (m - m0) * own.gates_ld, state + m * ld,
                                  before + m * ld, after + m * ld};
      int64_t u = n0;
      for (; u + Own::kLanes <= n1; u += Own::kLanes) {
        own.template units<true>(x, row, u, Own::kLanes);
      }
      if (u < n1) own.template units<false>(x, row, u, n1 - u);
    }
    epi(t, m0, m1, n0, n1, after + m0 * ld + n0, ld);
  }
};

template <class Cfg, class Epi>
AOT_INLINE void shared_recurrence(const RecurrenceArgs<Cfg>& p, int64_t begin, int64_t end,
                                  void* scratch, const Epi& epi) {
  using Steps = SharedSteps<Cfg>;
  const int64_t shares = Steps::shares_of(p);
  if (begin == 0 && end == shares) {  // nobody to share with
    const auto whole = [&](int64_t t, int64_t m0, int64_t m1, const typename Cfg::A* tile,
                           int64_t ld) { epi(t, m0, m1, 0, p.units, tile, ld); };
    return recurrence(p, 0, ceil_div(p.batch, Cfg::ROWS), scratch, whole);
  }
  if (Steps::done(p) == Steps::turns_of(p) * shares) return;
  const Recurrence<Cfg> own(p, static_cast<typename Cfg::A*>(scratch));
  Steps(p, own).walk(begin, epi);
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_RECURRENCE_H_
