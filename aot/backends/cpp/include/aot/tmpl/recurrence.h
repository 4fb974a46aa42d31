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
// p.marks are zeros: a mark for each share, how many threads have come, and room for the states. A
// thread takes the shares of a step that are its own by the order in which threads came, and waits
// until all are done; those that nobody takes for a while are its own too. So it only waits for
// threads that hold a share, which are running: any number of threads will do, in any order, one
// after the other too. What a share computes does not depend on who does it, nor on how many are
// done at once.
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
  static constexpr int64_t BATCH = -1, UNITS = -1;  // -1: sizes that the arguments tell
  static constexpr bool BACKWARDS = false;
  static constexpr bool ENDS = false;
  static constexpr bool PACKED = false;  // weight is packed: pack_matmul_weight
  static constexpr bool PROJECTED = false;
  static constexpr bool BIAS = false;
  static constexpr bool SHARED = false;  // micro-kernels are those of SharedTables
};

// The heights of strips where a batch is cut into units of so many rows each.
template <class T>
constexpr Heights heights_of_batch(int64_t batch, int64_t rows) {
  if (batch < 0) return kAllHeights;
  Heights found = 0;
  if (batch >= rows) found |= Strips<T>(rows).heights();
  if (batch % rows > 0) found |= Strips<T>(batch % rows).heights();
  return found;
}

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
  // Whether units end within a vector; shares of them begin with one.
  static constexpr bool kPart = Cfg::UNITS < 0 || Cfg::UNITS % kLanes != 0;
  static_assert(kShareUnits % kLanes == 0);

  const RecurrenceArgs<Cfg>& p;
  int64_t gates_ld, ld;  // elements between the rows of gates, and of all else
  T *gates, *seen, *state, *made;
  const T* weight;
  const T* projection;

  AOT_INLINE int64_t all() const { return Cfg::UNITS >= 0 ? Cfg::UNITS : p.units; }

  AOT_INLINE Recurrence(const RecurrenceArgs<Cfg>& args, T* room)
      : p(args), gates_ld(round_up(kGates * all(), kPanel)), ld(round_up(all(), kPanel)) {
    gates = take(room, Cfg::ROWS * gates_ld);
    seen = take(room, Cfg::ROWS * ld);
    state = take(room, Cfg::ROWS * ld);
    made = take(room, Cfg::ROWS * ld);
    weight = matrix(args.weight, p.size, kGates * all(), Cfg::PACKED, room);
    projection = Cfg::PROJECTED ? matrix(args.projection, all(), p.size, false, room) : nullptr;
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
  __attribute__((noinline)) void times(const T* a, const T* b, int64_t k, int64_t n, int64_t rows,
                                       T* c, int64_t c_ld) const {
    if constexpr (Cfg::BATCH > 0 && Cfg::BATCH <= Cfg::ROWS) rows = Cfg::BATCH;
    const T* at[Cfg::ROWS];
    for (int64_t i = 0; i < Cfg::ROWS; ++i) at[i] = a + min64(i, rows - 1) * ld;
    const BlockArgs<T, PackedB<T>> block{at, 0,   rows, 1, k, {b, k * kPanel}, ceil_div(n, kPanel),
                                         c,  c_ld};
    constexpr Heights kHeights = heights_of_batch<T>(Cfg::BATCH, Cfg::ROWS) | kSharing<Cfg>;
    block_by_panels<MultiplyAdd<T>, 256, kHeights>(block, RowsInPlace{});
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

  // Units [from, to) of a row, of which `x` is the input part.
  __attribute__((noinline)) void units(const T* x, const Row& row, int64_t from, int64_t to) const {
    int64_t u = from;
    for (; u + kLanes <= to; u += kLanes) lanes<true>(x, row, u, kLanes);
    if (kPart && u < to) lanes<false>(x, row, u, to - u);
  }

  // Units [u, u + n), n = kLanes where WHOLE.
  template <bool WHOLE>
  AOT_INLINE void lanes(const T* x, const Row& row, int64_t u, int64_t n) const {
    using V = Vec<T, kLanes>;
    const T* const own = row.own;
    const auto part = [&](int64_t g) { return read<WHOLE>(own + g * all() + u, n); };
    const auto given = [&](int64_t g) { return read<WHOLE>(x + g * all() + u, n); };
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
      if constexpr (Cfg::CELL == Cell::lstm) copy(p.state, m0 + i, all(), state + i * ld);
    }
  }
  static AOT_INLINE void copy(const RecurrentMatrix<T>& m, int64_t row, int64_t n, T* out) {
    for (int64_t j = 0; j < n; ++j) out[j] = m.at[row * m.row + j * m.col];
  }

  AOT_INLINE void step(int64_t t, int64_t m0, int64_t rows) const {
    times(seen, weight, p.size, kGates * all(), rows, gates, gates_ld);
    const int64_t after = Cfg::BACKWARDS ? -p.x_step : p.x_step;
    for (int64_t m = 0; m < rows; ++m) {
      const T* const x = p.x + t * p.x_step + (m0 + m) * p.x_row;
      // The next step's product hides the way of its input part from memory.
      for (int64_t j = 0; j < kGates * all(); j += kLine) __builtin_prefetch(x + after + j, 0, 2);
      const Row row{gates + m * gates_ld, state + m * ld, seen + m * ld,
                    (Cfg::PROJECTED ? made : seen) + m * ld};
      units(x, row, 0, all());
    }
    if constexpr (Cfg::PROJECTED) times(made, projection, all(), p.size, rows, seen, ld);
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
  static constexpr int64_t kApart = 8;       // a cache line for each mark
  static constexpr int64_t kPatience = 500;  // pauses: some 10 us, a few steps

  const RecurrenceArgs<Cfg>& p;
  const Own& own;
  int64_t across, shares;
  T *seen[2], *state;

  static int64_t shares_of(const RecurrenceArgs<Cfg>& args) {
    return ceil_div(args.units, kShareUnits) * ceil_div(args.batch, Cfg::ROWS);
  }

  AOT_INLINE SharedSteps(const RecurrenceArgs<Cfg>& args, const Own& scratch)
      : p(args), own(scratch), across(ceil_div(args.units, kShareUnits)), shares(shares_of(args)) {
    T* room = reinterpret_cast<T*>(p.marks + kApart * (shares + 1));
    for (T** place : {&seen[0], &seen[1], &state}) *place = Own::take(room, p.batch * own.ld);
  }

  // Turn 0 fills in the states before the first step; step k is turn k + 1. A share's mark is twice
  // the number of turns that are done, and one more while the next is taken.
  int64_t* mark(int64_t share) const { return p.marks + kApart * share; }
  bool is_done(int64_t share, int64_t turn) const {
    return __atomic_load_n(mark(share), __ATOMIC_ACQUIRE) >= 2 * turn + 2;
  }
  bool take(int64_t share, int64_t turn) const {
    int64_t free = 2 * turn;
    int64_t* const at = mark(share);
    if (__atomic_load_n(at, __ATOMIC_RELAXED) != free) return false;
    return __atomic_compare_exchange_n(at, &free, free + 1, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
  }

  // Takes what is free of [from, to), and does neighbours of the same rows at once.
  template <class Epi>
  __attribute__((noinline)) void work(int64_t from, int64_t to, int64_t turn,
                                      const Epi& epi) const {
    while (from < to) {
      const int64_t row = from / across, most = min64(to, (row + 1) * across);
      int64_t end = from;
      while (end < most && take(end, turn)) ++end;
      if (end > from) {
        const int64_t n0 = (from - row * across) * kShareUnits;
        const int64_t n1 = min64((end - row * across) * kShareUnits, own.all());
        turn_of(turn, row * Cfg::ROWS, min64((row + 1) * Cfg::ROWS, p.batch), n0, n1, epi);
        for (int64_t s = from; s < end; ++s) {
          __atomic_store_n(mark(s), 2 * turn + 2, __ATOMIC_RELEASE);
        }
      }
      from = end < most ? end + 1 : end;
    }
  }

  template <class Epi>
  AOT_INLINE void turn_of(int64_t turn, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                          const Epi& epi) const {
    if (turn == 0) {
      begin(m0, m1, n0, n1);
    } else {
      step(turn, m0, m1, n0, n1, epi);
    }
    if constexpr (Cfg::ENDS) {
      if (turn == p.steps) epi(p.steps, m0, m1, n0, n1, (last() + m0 * own.ld + n0), own.ld);
    }
  }

  template <class Epi>
  AOT_INLINE void walk(const Epi& epi) const {
    int64_t turn = first();
    if (turn > p.steps) return;
    int64_t* const come = p.marks + kApart * shares;
    const int64_t number = __atomic_fetch_add(come, 1, __ATOMIC_RELAXED);
    for (; turn <= p.steps; ++turn) {
      const int64_t threads = __atomic_load_n(come, __ATOMIC_RELAXED);
      work(number * shares / threads, (number + 1) * shares / threads, turn, epi);
      await(turn, epi);
    }
  }

  template <class Epi>
  AOT_INLINE void await(int64_t turn, const Epi& epi) const {
    for (int64_t s = 0, spins = 0; s < shares;) {
      if (is_done(s, turn)) {
        ++s;
      } else if (++spins < kPatience) {
        __builtin_ia32_pause();
      } else {
        work(s, s + 1, turn, epi);
        sched_yield();
      }
    }
  }

  // The first turn that is not done.
  int64_t first() const {
    int64_t turn = p.steps + 1;
    for (int64_t s = 0; s < shares; ++s) {
      turn = min64(turn, __atomic_load_n(mark(s), __ATOMIC_ACQUIRE) / 2);
    }
    return turn;
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
      const int64_t column = g * own.all() + n0;
      own.times(before + m0 * ld, own.weight + column * p.size, p.size, n1 - n0, m1 - m0,
                own.gates + column, own.gates_ld);
    }
    const int64_t next = Cfg::BACKWARDS ? -p.x_step : p.x_step;
    for (int64_t m = m0; m < m1; ++m) {
      const T* const x = p.x + t * p.x_step + m * p.x_row;
      for (int64_t g = 0; g < Own::kGates; ++g) {
        for (int64_t j = n0; j < n1; j += Own::kLine) {
          __builtin_prefetch(x + next + g * own.all() + j, 0, 2);
        }
      }
      const typename Own::Row row{own.gates + (m - m0) * own.gates_ld, state + m * ld,
                                  before + m * ld, after + m * ld};
      own.units(x, row, n0, n1);
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
  const Recurrence<Cfg> own(p, static_cast<typename Cfg::A*>(scratch));
  Steps(p, own).walk(epi);
}

}  // namespace aot::tmpl

#endif  // AOT_TMPL_RECURRENCE_H_
