// Routines of dense linear algebra by cuSOLVER, as their records are (`ROUTINES` of the compiler's
// tables): parts one after the other, by rows, of complex ones all real parts first.
#ifndef AOT_HOST_SOLVER_ROUTINES_H_
#define AOT_HOST_SOLVER_ROUTINES_H_

#include "aot/host/solver_moves.h"

namespace aot_host {

// One element of a batch: what is read, where its record lies, and its sizes. Rows of complex
// operands are those of either part.
struct SolverCall {
  SolverOperand a, b;
  int64_t batch, m, n, r;
  bool upper, unit, back;
  uint64_t record;
  int64_t record_size;  // numbers of the real type
};

enum SolverSlot { kMatrix, kSides, kWorkspace, kApart, kOther, kMore, kWords, kSpare };

constexpr int kLower = 0, kUpper = 1, kLeft = 0, kAsIs = 0, kTransposed = 1, kConjugate = 2;

// A routine on the matrices of a batch, one after the other.
class Solver {
 public:
  Solver(SolverWork& work, const SolverCall& call) : w_(work), c_(call) {}

  void cholesky(int64_t k) {
    const int n = int(c_.n);
    const uint64_t a = loaded(k), info = words(k);
    int count = 0;
    // Of the upper triangle, which turned matrices would have, an H200 takes twice as long.
    w_.solve("potrf_bufferSize", kLower, n, p(a), n, &count);
    const uint64_t work = room(kWorkspace, count);
    w_.solve("potrf", kLower, n, p(a), n, p(work), count, p(info));
    // Above the diagonal are numbers of the operand.
    const uint64_t packed = room(kOther, c_.n * (c_.n + 1) / 2), factor = room(kMore, c_.n * c_.n);
    w_.fill(factor, 0, size_t(c_.n * c_.n) * w_.size());
    w_.blas("trttp", w_.type(), kLower, n, p(a), n, p(packed));
    w_.blas("tpttr", w_.type(), kLower, n, p(packed), p(factor), n);
    w_.store(factor, n, n, part(k), kSpare);
    past(c_.n * c_.n);
    numbers(k, 0, 0);
  }

  void lu(int64_t k) {
    const uint64_t a = factored(k);
    w_.store(a, c_.m, c_.n, part(k), kSpare);
    past(c_.m * c_.n);
    numbers(k, least(), c_.m);
  }

  void solve(int64_t k) {
    const uint64_t a = factored(k), b = room(kSides, c_.n * c_.r);
    w_.load(c_.b, k, c_.n, c_.r, b, kApart);
    back_substituted(k, a, b, c_.r);
    if (!w_.is_complex()) {
      w_.store(a, c_.n, c_.n, part(k), kSpare);
      past(c_.n * c_.n);
      numbers(k, c_.n, c_.n);
    }
    w_.store(b, c_.n, c_.r, part(k), kSpare);
    past(c_.n * c_.r);
    if (w_.is_complex()) numbers(k, 0, 0);
  }

  void inverse(int64_t k) {
    const uint64_t a = factored(k), b = room(kSides, c_.n * c_.n);
    identity(b);
    back_substituted(k, a, b, c_.n);
    w_.store(b, c_.n, c_.n, part(k), kSpare);
    past(c_.n * c_.n);
    numbers(k, 0, 0);
  }

  void triangular(int64_t k) {
    const uint64_t a = loaded(k), b = room(kSides, c_.n * c_.r);
    w_.load(c_.b, k, c_.n, c_.r, b, kApart);
    back(a, int(c_.n), b, int(c_.n), int(c_.r), c_.upper, c_.unit);
    w_.store(b, c_.n, c_.r, part(k), kSpare);
  }

  void qr(int64_t k) {
    const uint64_t a = factored_by_rows(k);
    w_.store(a, c_.m, c_.n, part(k), kSpare);
    past(c_.m * c_.n);
    w_.store_as_is(tau(), least(), part(k), kSpare);
  }

  // The last row of the operand is tau.
  void reflections(int64_t k) {
    const int m = int(c_.m) - 1, n = int(c_.n), r = int(c_.r), count = m < n ? m : n;
    const uint64_t a = loaded(k), b = room(kSides, c_.m * c_.r);
    w_.copy(w_.type(), count, a + size_t(m) * w_.size(), m + 1, tau(), 1);
    w_.load(c_.b, k, m, r, b, kApart);
    reflected(k, a, m + 1, m, count, b, r, c_.back);
    w_.store(b, m, r, part(k), kSpare);
  }

  void eigh(int64_t k) { symmetric(k, true); }
  void eigvalsh(int64_t k) { symmetric(k, false); }

  void eig(int64_t k) { general(k, true); }
  void eigvals(int64_t k) { general(k, false); }

  void svd(int64_t k) { singular(k, true); }
  void svdvals(int64_t k) { singular(k, false); }

  // Of matrices of whole rank: of others the library is not the one to ask.
  void lstsq(int64_t k) {
    const int m = int(c_.m), n = int(c_.n), r = int(c_.r);
    if (m < n) return w_.lack();
    const uint64_t a = factored_by_rows(k), b = room(kSides, c_.m * c_.r);
    if (!is_whole(a)) return w_.lack();
    w_.load(c_.b, k, m, r, b, kApart);
    reflected(k, a, m, m, n, b, r, true);
    back(a, m, b, m, r, true, false);
    const uint64_t x = room(kMore, c_.n * c_.r);
    for (int64_t j = 0; j < r; ++j) {
      const size_t size = w_.size();
      w_.copy_bytes(b + size_t(j * m) * size, x + size_t(j * n) * size, size_t(n) * size);
    }
    w_.store(x, n, r, part(k), kSpare);
    past(c_.n * c_.r);
    rank_at_ = done_;
  }

  void determinant(int64_t k) {
    const uint64_t a = factored(k), diagonals = room(kSides, c_.batch * c_.n);
    w_.copy(w_.type(), c_.n, a, c_.n + 1, diagonals + size_t(k * c_.n) * w_.size(), 1);
    diagonals_ = diagonals;
  }

  // What the library says of each element becomes numbers of its record.
  void finish() {
    if (!said_.is_there && !is_iterative_ && rank_at_ < 0 && diagonals_ == 0) return;
    const int64_t each = least() + 1;
    Held words(size_t(c_.batch * each) * 4), made(size_t(c_.record_size) * w_.real_size());
    if (words.at == nullptr || made.at == nullptr) return w_.lack();
    const auto* const found = static_cast<const int32_t*>(words.at);
    w_.to_host(this->words(0) - size_t(least()) * 4, words.at, size_t(c_.batch * each) * 4);
    w_.wait();
    if (diagonals_ != 0) return determinants(found);
    for (int64_t k = 0; k < c_.batch && w_.is_well(); ++k) {
      const int32_t* const pivots = found + k * each;
      int64_t first = 0, count = 0;
      if (rank_at_ >= 0) {
        first = rank_at_;
        count = 1;
        put(made, 0, double(c_.n));
      } else if (said_.is_there) {
        first = said_.at;
        const bool is_said = said_.pivots + said_.rows == 0 && pivots[least()] == 0;
        if (!is_said) count = say(pivots, pivots[least()], made);
      } else if (pivots[least()] != 0 && is_iterative_) {
        count = c_.record_size;  // no numbers are what a matrix that is none has
        for (int64_t i = 0; i < count; ++i) put(made, i, NAN);
      }
      const uint64_t to = c_.record + size_t(k * c_.record_size + first) * w_.real_size();
      w_.to_device(made.at, to, size_t(count) * w_.real_size());
      if (count > 0) w_.wait();  // `made` is the next one's
    }
  }

  int64_t least() const { return c_.m < c_.n ? c_.m : c_.n; }

 private:
  // Memory of the host.
  struct Held {
    explicit Held(size_t bytes) : at(malloc(bytes == 0 ? 1 : bytes)) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() { free(at); }
    void* at;
  };

  // Where numbers that the host makes lie in a record, and which.
  struct Said {
    int64_t at = 0, pivots = 0, rows = 0;
    bool is_there = false;
  };

  void put(const Held& to, int64_t index, double value) const {
    if (w_.real_type() == 'D') {
      static_cast<double*>(to.at)[index] = value;
    } else {
      static_cast<float*>(to.at)[index] = float(value);
    }
  }

  double number(const Held& from, int64_t index) const {
    return w_.real_type() == 'D' ? static_cast<const double*>(from.at)[index]
                                 : double(static_cast<const float*>(from.at)[index]);
  }

  int64_t say(const int32_t* pivots, int32_t info, const Held& made) const {
    for (int64_t i = 0; i < said_.pivots; ++i) put(made, i, pivots[i]);
    const int64_t order = said_.pivots;
    for (int64_t i = 0; i < said_.rows; ++i) put(made, order + i, double(i));
    for (int64_t i = 0; i < said_.rows && i < said_.pivots; ++i) {
      const int64_t other = order + pivots[i] - 1;
      const double row = number(made, order + i);
      put(made, order + i, number(made, other));
      put(made, other, row);
    }
    put(made, order + said_.rows, info);
    return order + said_.rows + 1;
  }

  void determinants(const int32_t* found) {
    const int parts = w_.is_complex() ? 2 : 1;
    const int64_t n = c_.n, count = c_.batch * n * parts;
    Held pivots(size_t(count) * w_.real_size());
    Held made(size_t(c_.batch * c_.record_size) * w_.real_size());
    if (pivots.at == nullptr || made.at == nullptr) return w_.lack();
    w_.to_host(diagonals_, pivots.at, size_t(count) * w_.real_size());
    w_.wait();
    for (int64_t k = 0; k < c_.batch; ++k) {
      // A product of many pivots leaves the numbers' range long before its logarithm does.
      double det[2] = {1, 0}, sign[2] = {1, 0}, logs = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (k * n + i) * parts;
        const double x[2] = {number(pivots, at), parts == 2 ? number(pivots, at + 1) : 0};
        const double size = parts == 2 ? hypot(x[0], x[1]) : fabs(x[0]);
        const double unit[2] = {size == 0 ? 0 : x[0] / size, size == 0 ? 0 : x[1] / size};
        times(det, x, parts);
        times(sign, unit, parts);
        logs += log(size);
        if (found[k * (n + 1) + i] != i + 1) {
          const double minus[2] = {-1, 0};
          times(det, minus, 1);
          times(sign, minus, 1);
        }
      }
      int64_t at = k * c_.record_size;
      for (int i = 0; i < parts; ++i) put(made, at++, det[i]);
      for (int i = 0; i < parts; ++i) put(made, at++, sign[i]);
      put(made, at, logs);
    }
    w_.to_device(made.at, c_.record, size_t(c_.batch * c_.record_size) * w_.real_size());
    w_.wait();
  }

  // x *= y, of real or complex numbers; both of a real one's parts are scaled.
  static void times(double* x, const double* y, int parts) {
    const double re = parts == 2 ? x[0] * y[0] - x[1] * y[1] : x[0] * y[0];
    const double im = parts == 2 ? x[0] * y[1] + x[1] * y[0] : x[1] * y[0];
    x[0] = re;
    x[1] = im;
  }

  static void* p(uint64_t at) { return SolverWork::pointer(at); }

  uint64_t room(int slot, int64_t count) { return w_.memory(slot, count, w_.size()); }

  // The words of all elements of the batch: pivots, then info.
  uint64_t words(int64_t k) {
    const int64_t each = least() + 1;
    return w_.memory(kWords, c_.batch * each, 4) + size_t(k * each + least()) * 4;
  }
  uint64_t pivots(int64_t k) { return words(k) - size_t(least()) * 4; }

  // Where the next part of a record lies.
  uint64_t part(int64_t k) {
    return c_.record + size_t(k * c_.record_size + done_) * w_.real_size();
  }
  void past(int64_t count) { done_ += w_.is_complex() ? 2 * count : count; }

  // Numbers of the record that the host makes: pivots, the order of `rows` rows, info. That is 0,
  // unless the library says otherwise.
  void numbers(int64_t k, int64_t pivots, int64_t rows) {
    said_ = {done_, pivots, rows, true};
    if (pivots + rows == 0) w_.fill(part(k), 0, w_.real_size());
    done_ += pivots + rows + 1;
  }

  uint64_t loaded(int64_t k) {
    done_ = 0;
    const uint64_t a = room(kMatrix, c_.m * c_.n);
    w_.load(c_.a, k, c_.m, c_.n, a, kApart);
    return a;
  }

  uint64_t factored(int64_t k) {
    const int m = int(c_.m), n = int(c_.n);
    const uint64_t a = loaded(k);
    int count = 0;
    w_.solve("getrf_bufferSize", m, n, p(a), m, &count);
    const uint64_t work = room(kWorkspace, count);
    w_.solve("getrf", m, n, p(a), m, p(work), p(pivots(k)), p(words(k)));
    return a;
  }

  uint64_t tau() { return room(kOther, c_.n); }

  // Reflections below the triangle, and tau.
  uint64_t factored_by_rows(int64_t k) {
    const int m = int(c_.m), n = int(c_.n);
    const uint64_t a = loaded(k);
    int count = 0;
    w_.solve("geqrf_bufferSize", m, n, p(a), m, &count);
    const uint64_t work = room(kWorkspace, count);
    w_.solve("geqrf", m, n, p(a), m, p(tau()), p(work), count, p(words(k)));
    return a;
  }

  // b (m x r) = `count` reflections of a times it, or, `turned`, those of their adjoint.
  void reflected(int64_t k, uint64_t a, int step, int m, int count, uint64_t b, int r,
                 bool turned) {
    const bool complex = w_.is_complex();
    const int way = !turned ? kAsIs : complex ? kConjugate : kTransposed;
    int size = 0;
    w_.solve(complex ? "unmqr_bufferSize" : "ormqr_bufferSize", kLeft, way, m, r, count, p(a), step,
             p(tau()), p(b), m, &size);
    const uint64_t work = room(kWorkspace, size);
    w_.solve(complex ? "unmqr" : "ormqr", kLeft, way, m, r, count, p(a), step, p(tau()), p(b), m,
             p(work), size, p(words(k)));
  }

  // b = the inverse of a triangle of a times it.
  void back(uint64_t a, int a_step, uint64_t b, int b_step, int r, bool upper, bool unit) {
    w_.blas("trsm_v2", w_.type(), kLeft, upper ? kUpper : kLower, kAsIs, int(unit), int(c_.n), r,
            w_.constant(1), p(a), a_step, p(b), b_step);
  }

  // Whether no pivot of a triangle is what rounding leaves of one that should be 0.
  //
  // The bound is that of the rank's rule itself (eps times the rows): what exact dependence leaves
  // is a hundredth of it, while a random matrix of 1024 rows in float32 has pivots that are not ten
  // times above. A matrix between is one of whole rank for eager's library, too.
  bool is_whole(uint64_t a) {
    const int parts = w_.is_complex() ? 2 : 1;
    const uint64_t diagonal = room(kMore, c_.n);
    w_.copy(w_.type(), c_.n, a, c_.m + 1, diagonal, 1);
    Held found(size_t(c_.n) * w_.size());
    if (found.at == nullptr) return false;
    w_.to_host(diagonal, found.at, size_t(c_.n) * w_.size());
    w_.wait();
    double least = INFINITY, most = 0;
    for (int64_t i = 0; i < c_.n; ++i) {
      const double size =
          hypot(number(found, i * parts), parts == 2 ? number(found, i * parts + 1) : 0);
      least = size < least ? size : least;
      most = size > most ? size : most;
    }
    const double rounding = w_.real_type() == 'D' ? 0x1p-52 : 0x1p-23;
    return least > rounding * double(c_.m) * most;
  }

  void back_substituted(int64_t k, uint64_t a, uint64_t b, int64_t sides) {
    const int n = int(c_.n);
    // Its info is of the arguments, which are right: that of the factors stays.
    const uint64_t info = room(kOther, 1);
    w_.solve("getrs", kAsIs, n, int(sides), p(a), n, p(pivots(k)), p(b), n, p(info));
  }

  void identity(uint64_t b) {
    const uint64_t first = room(kOther, 1);
    w_.fill(b, 0, size_t(c_.n * c_.n) * w_.size());
    w_.to_device(w_.constant(1), first, w_.size());
    w_.copy(w_.type(), c_.n, first, 0, b, c_.n + 1);
  }

  void symmetric(int64_t k, bool vectors) {
    const int n = int(c_.n), mode = vectors;
    is_iterative_ = true;
    const uint64_t a = loaded(k), values = room(kOther, c_.n);
    int count = 0;
    const bool complex = w_.is_complex();
    w_.solve(complex ? "heevd_bufferSize" : "syevd_bufferSize", mode, kLower, n, p(a), n, p(values),
             &count);
    const uint64_t work = room(kWorkspace, count);
    w_.solve(complex ? "heevd" : "syevd", mode, kLower, n, p(a), n, p(values), p(work), count,
             p(words(k)));
    w_.copy_bytes(values, part(k), size_t(n) * w_.real_size());
    done_ += c_.n;
    if (vectors) w_.store(a, n, n, part(k), kSpare);
  }

  void general(int64_t k, bool vectors) {
    const int64_t n = c_.n;
    const uint64_t a = loaded(k), v = room(kSides, n * n);
    const uint64_t values = w_.memory(kOther, n, 2 * w_.real_size());
    is_iterative_ = true;
    factor_by_schur(k, a, values, v, vectors);
    w_.copy(w_.real_type(), n, values, 2, part(k), 1);
    done_ += n;
    w_.copy(w_.real_type(), n, values + w_.real_size(), 2, part(k), 1);
    done_ += n;
    if (!vectors) return;
    if (w_.is_complex()) return w_.store(v, n, n, part(k), kSpare);
    store_pairs(k, values, v);
  }

  // geev: numbers of CUDA's types, and complex eigenvalues also of real matrices.
  void factor_by_schur(int64_t k, uint64_t a, uint64_t values, uint64_t v, bool vectors) {
    const int64_t n = c_.n;
    const int real = w_.real_type() == 'D', complex = real + 4,
              own = w_.is_complex() ? complex : real;
    void* rules = nullptr;
    if (!w_.make("Params", &rules)) return;
    size_t on_device = 0, on_host = 0;
    w_.solve_any("Xgeev_bufferSize", rules, 0, int(vectors), n, own, p(a), n, complex, p(values),
                 own, p(v), n, own, p(v), n, own, &on_device, &on_host);
    const uint64_t work = w_.memory(kWorkspace, int64_t(on_device), 1);
    Held room(on_host);
    if (room.at == nullptr) w_.lack();
    w_.solve_any("Xgeev", rules, 0, int(vectors), n, own, p(a), n, complex, p(values), own, p(v), n,
                 own, p(v), n, own, p(work), on_device, room.at, on_host, p(words(k)));
    w_.wait();  // the memory of the host ends here
    w_.end("Params", rules);
  }

  // Vectors of a real matrix: of two eigenvalues that are conjugate there are real parts, then
  // imaginary ones, of the first's.
  void store_pairs(int64_t k, uint64_t values, uint64_t v) {
    const int64_t n = c_.n;
    const size_t size = w_.real_size(), column = size_t(n) * size;
    const uint64_t imaginary = room(kMore, n * n);
    Held found(size_t(2 * n) * size);
    if (found.at == nullptr) return w_.lack();
    w_.to_host(values, found.at, size_t(2 * n) * size);
    w_.wait();
    w_.fill(imaginary, 0, size_t(n) * column);
    for (int64_t j = 0; j + 1 < n && w_.is_well(); ++j) {
      if (!(number(found, 2 * j + 1) != 0)) continue;
      const size_t one = size_t(j) * column, other = one + column;
      w_.copy_bytes(v + other, imaginary + one, column);
      w_.copy_bytes(v + other, imaginary + other, column);
      w_.negate(imaginary + other, n);
      w_.copy_bytes(v + one, v + other, column);
      ++j;
    }
    w_.turn(v, n, n, part(k));
    done_ += n * n;
    w_.turn(imaginary, n, n, part(k));
  }

  void singular(int64_t k, bool vectors) {
    const int m = int(c_.m), n = int(c_.n), mode = vectors, economy = 1;
    is_iterative_ = true;
    const uint64_t a = loaded(k), values = room(kOther, c_.n), v = room(kMore, c_.n * c_.n);
    const uint64_t u = room(kSides, c_.m * c_.n);
    void* rules = nullptr;
    if (!w_.make("GesvdjInfo", &rules)) return;
    int count = 0;
    w_.solve("gesvdj_bufferSize", mode, economy, m, n, p(a), m, p(values), p(u), m, p(v), n, &count,
             rules);
    const uint64_t work = room(kWorkspace, count);
    w_.solve("gesvdj", mode, economy, m, n, p(a), m, p(values), p(u), m, p(v), n, p(work), count,
             p(words(k)), rules);
    w_.end("GesvdjInfo", rules);
    w_.copy_bytes(values, part(k), size_t(n) * w_.real_size());
    done_ += c_.n;
    if (!vectors) return;
    w_.store_as_is(u, c_.m * c_.n, part(k), kSpare);  // columns of U are rows of its transpose
    past(c_.m * c_.n);
    w_.store_adjoint(v, c_.n, part(k), kSpare);
  }

  SolverWork& w_;
  const SolverCall& c_;
  int64_t done_ = 0;  // numbers of the record that are written
  Said said_;
  uint64_t diagonals_ = 0;
  int64_t rank_at_ = -1;
  bool is_iterative_ = false;
};

}  // namespace aot_host

#endif  // AOT_HOST_SOLVER_ROUTINES_H_
