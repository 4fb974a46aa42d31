// Matrices between where a program has them and where LAPACK wants them: by columns, complex
// numbers as pairs. cuBLAS moves them, so that no kernel of our own is needed.
#ifndef AOT_HOST_SOLVER_MOVES_H_
#define AOT_HOST_SOLVER_MOVES_H_

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "aot/host/solver_library.h"

namespace aot_host {

// Real or imaginary parts of an operand: where matrices of a batch begin, and how far these, their
// rows and their columns are apart, in numbers of a real type.
struct SolverPart {
  uint64_t at = 0;
  int64_t batch = 0, row = 0, column = 0;
};

// Of real operands, only `re` is one.
struct SolverOperand {
  SolverPart re, im;
};

// The work of one call: its stream, its place, and whether all has gone well so far. A step after
// one that failed does nothing.
class SolverWork {
 public:
  // `type`: S, D, C or Z.
  SolverWork(SolverPlace* place, void* stream, char type)
      : place_(place), stream_(stream), type_(type) {
    using Stream = int (*)(void*, void*);
    const SolverLibrary& library = SolverLibrary::found();
    did(library.solver<Stream>("SetStream")(place->solver, stream));
    did(library.blas<Stream>("SetStream_v2")(place->blas, stream));
  }

  bool is_well() const { return code_ == 0; }
  // For want of a function or of memory: nothing is wrong with the GPU.
  bool lacks() const { return lacks_; }

  bool is_complex() const { return type_ == 'C' || type_ == 'Z'; }
  char type() const { return type_; }
  char real_type() const { return type_ == 'C' ? 'S' : type_ == 'Z' ? 'D' : type_; }
  size_t real_size() const { return real_type() == 'S' ? 4 : 8; }
  size_t size() const { return is_complex() ? 2 * real_size() : real_size(); }

  // Memory for `count` numbers of `bytes`, which no other slot has.
  uint64_t memory(int slot, int64_t count, size_t bytes) {
    if (!is_well()) return 0;
    const uint64_t at = place_->slot(slot, size_t(count) * bytes);
    if (at == 0) lack();
    return at;
  }

  // Calls cuSOLVER's <T><name>, whose last arguments are `given`.
  template <class... Given>
  void solve(const char* name, Given... given) {
    call(SolverLibrary::found().solver<int (*)(void*, Given...)>(name, type_), place_->solver,
         given...);
  }

  template <class... Given>
  void blas(const char* name, char type, Given... given) {
    call(SolverLibrary::found().blas<int (*)(void*, Given...)>(name, type), place_->blas, given...);
  }

  // `count` numbers of a type, from one stride to another.
  void copy(char type, int64_t count, uint64_t from, int64_t from_step, uint64_t to,
            int64_t to_step) {
    blas("copy_v2", type, int(count), pointer(from), int(from_step), pointer(to), int(to_step));
  }

  void copy_bytes(uint64_t from, uint64_t to, size_t bytes) {
    if (moves(bytes)) did(Driver::found().copy(to, from, bytes, stream_));
  }

  void fill(uint64_t at, unsigned char value, size_t bytes) {
    if (moves(bytes)) did(Driver::found().fill(at, value, bytes, stream_));
  }

  void to_host(uint64_t from, void* to, size_t bytes) {
    if (moves(bytes)) did(Driver::found().to_host(to, from, bytes, stream_));
  }

  void to_device(const void* from, uint64_t to, size_t bytes) {
    if (moves(bytes)) did(Driver::found().to_device(to, from, bytes, stream_));
  }

  // Nothing where the stream has had no work since the last time.
  void wait() {
    if (rests_) return;
    const int found = Driver::found().wait(stream_);
    rests_ = true;
    if (is_well()) did(found);
  }

  // The k-th matrix of an operand, by columns; `spare`: a slot that complex ones need.
  void load(const SolverOperand& x, int64_t k, int64_t rows, int64_t columns, uint64_t to,
            int spare) {
    if (!is_complex()) return plane(type_, x.re, k, rows, columns, to);
    if (is_paired(x)) {
      const SolverPart pairs = {x.re.at, x.re.batch / 2, x.re.row / 2, x.re.column / 2};
      return plane(type_, pairs, k, rows, columns, to);
    }
    const uint64_t apart = memory(spare, rows * columns, real_size());
    for (int part = 0; part < 2; ++part) {
      plane(real_type(), part ? x.im : x.re, k, rows, columns, apart);
      copy(real_type(), rows * columns, apart, 1, to + size_t(part) * real_size(), 2);
    }
  }

  // A matrix by columns as rows: all real parts, then all imaginary ones, from `to` on.
  void store(uint64_t from, int64_t rows, int64_t columns, uint64_t to, int spare) {
    parted(from, rows * columns, to, spare,
           [&](uint64_t plane, uint64_t target) { turn(plane, rows, columns, target); });
  }

  // The same as it lies.
  void store_as_is(uint64_t from, int64_t count, uint64_t to, int spare) {
    parted(from, count, to, spare, [&](uint64_t plane, uint64_t target) {
      copy_bytes(plane, target, size_t(count) * real_size());
    });
  }

  // A square matrix by columns as the rows of its adjoint.
  void store_adjoint(uint64_t from, int64_t side, uint64_t to, int spare) {
    store_as_is(from, side * side, to, spare);
    if (!is_complex()) return;
    negate(to + size_t(side * side) * real_size(), side * side);
  }

  // Real numbers in a row.
  void negate(uint64_t at, int64_t count) {
    blas("scal_v2", real_type(), int(count), constant(-1), pointer(at), 1);
  }

  // What `Create<kind>` makes: settings as they come. False where there are none.
  bool make(const char* kind, void** settings) {
    const auto create = settings_of<int (*)(void**)>("Create", kind);
    if (create == nullptr) lack();
    if (is_well()) did(create(settings));
    return is_well();
  }

  void end(const char* kind, void* settings) {
    const auto destroy = settings_of<int (*)(void*)>("Destroy", kind);
    if (destroy != nullptr) destroy(settings);
  }

  // Calls a function of any type, which is told of it in its arguments.
  template <class... Given>
  void solve_any(const char* name, Given... given) {
    call(SolverLibrary::found().solver<int (*)(void*, Given...)>(name), place_->solver, given...);
  }

  void lack() {
    lacks_ = is_well() || lacks_;
    did(-1);
  }

  // A real matrix by columns, as rows.
  void turn(uint64_t from, int64_t rows, int64_t columns, uint64_t to) {
    add(real_type(), true, columns, rows, from, rows, to);
  }

  // -1, 0 or 1 as the libraries read it: of the type, or of its real one.
  const void* constant(int value) const {
    static constexpr double kDoubles[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    static constexpr float kSingles[3][2] = {{-1, 0}, {0, 0}, {1, 0}};
    if (real_type() == 'D') return kDoubles[value + 1];
    return kSingles[value + 1];
  }

  static void* pointer(uint64_t at) { return reinterpret_cast<void*>(at); }

 private:
  template <class F>
  static F settings_of(const char* verb, const char* kind) {
    char name[32];
    snprintf(name, sizeof(name), "%s%s", verb, kind);
    return SolverLibrary::found().solver<F>(name);
  }

  template <class F, class... Given>
  void call(F function, void* handle, Given... given) {
    if (!is_well()) return;
    if (function == nullptr) return lack();
    rests_ = false;
    did(function(handle, given...));
  }

  // Whether there is something to move; the stream has work then.
  bool moves(size_t bytes) {
    const bool is_some = is_well() && bytes > 0;
    rests_ = rests_ && !is_some;
    return is_some;
  }

  void did(int code) {
    if (code_ == 0) code_ = code;
  }

  // Whether imaginary parts lie beside real ones, as the library has them.
  bool is_paired(const SolverOperand& x) const {
    const SolverPart &re = x.re, &im = x.im;
    const bool alike = re.batch == im.batch && re.row == im.row && re.column == im.column;
    const bool even = re.batch % 2 == 0 && re.row % 2 == 0 && re.column % 2 == 0;
    return alike && even && im.at == re.at + real_size();
  }

  // The k-th matrix of numbers of a type, whose rows or columns are apart by any stride, by columns
  // without gaps.
  void plane(char type, const SolverPart& x, int64_t k, int64_t rows, int64_t columns,
             uint64_t to) {
    const size_t size = type == real_type() ? real_size() : 2 * real_size();
    const uint64_t from = x.at + size_t(k * x.batch) * size;
    if (columns == 1) return copy(type, rows, from, x.row, to, 1);
    if (rows == 1) return copy(type, columns, from, x.column, to, 1);
    if (x.column == 1 && x.row >= columns) return add(type, true, rows, columns, from, x.row, to);
    if (x.row == 1 && x.column >= rows) return add(type, false, rows, columns, from, x.column, to);
    for (int64_t j = 0; j < columns; ++j) {
      const size_t at = size_t(j) * size;
      copy(type, rows, from + at * size_t(x.column), x.row, to + at * size_t(rows), 1);
    }
  }

  // to (rows x columns, by columns) = from, whose columns (or rows, where it is turned) are `step`
  // apart.
  void add(char type, bool turned, int64_t rows, int64_t columns, uint64_t from, int64_t step,
           uint64_t to) {
    blas("geam", type, int(turned), 0, int(rows), int(columns), constant(1), pointer(from),
         int(step), constant(0), pointer(to), int(rows), pointer(to), int(rows));
  }

  template <class Move>
  void parted(uint64_t from, int64_t count, uint64_t to, int spare, Move move) {
    if (!is_complex()) return move(from, to);
    const uint64_t apart = memory(spare, count, real_size());
    for (int part = 0; part < 2; ++part) {
      copy(real_type(), count, from + size_t(part) * real_size(), 2, apart, 1);
      move(apart, to + size_t(part) * size_t(count) * real_size());
    }
  }

  SolverPlace* place_;
  void* stream_;
  char type_;
  int code_ = 0;
  bool lacks_ = false;
  bool rests_ = false;  // whether all work of the stream, what was ahead included, has ended
};

// Whether cuBLAS can move matrices: what is read backwards or several times it cannot.
inline bool can_move(const SolverPart& x, int64_t rows, int64_t columns) {
  const bool counted = rows * columns < INT_MAX && x.row < INT_MAX && x.column < INT_MAX;
  return counted && (x.row > 0 || rows == 1) && (x.column > 0 || columns == 1);
}

}  // namespace aot_host

#endif  // AOT_HOST_SOLVER_MOVES_H_
