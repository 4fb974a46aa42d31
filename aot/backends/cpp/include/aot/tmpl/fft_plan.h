// Plans of Fourier transforms whose number of points only a run knows: factors, and tables of
// roots of unity, which are made in float64 as products of two exact ones.
#ifndef AOT_TMPL_FFT_PLAN_H_
#define AOT_TMPL_FFT_PLAN_H_

#include "aot/tmpl/fft_points.h"

namespace aot::tmpl::fft_detail {

inline constexpr int kMostFactors = 40;      // of a number below 2^63, primes of two and three bits
inline constexpr int64_t kPowersNear = 256;  // of tables of roots that are read as products
inline constexpr int64_t kUnsplitTable = 1 << 16;  // points whose factors are one table
inline constexpr int64_t kFineRows = 32;           // of the finer of two tables of factors

// Memory that is taken piece by piece; vectors may reach beyond the end of each.
struct Room {
  char* next;
  template <class T>
  T* take(int64_t count) {
    T* const at = reinterpret_cast<T*>(next);
    next += (count * static_cast<int64_t>(sizeof(T)) + 127) / 64 * 64;
    return at;
  }
};

// The small transforms of a number of points, a pass each.
struct Passes {
  int count = 0;
  int64_t left = 1;  // what no pass is for
  uint8_t of[kMostFactors];
  explicit Passes(int64_t n) : left(n) {
    int twos = 0;
    for (; left % 2 == 0; left /= 2) ++twos;
    // Those of powers of two are as alike as can be: 16 = 4 x 4, not 8 x 2.
    const int made = (twos + 2) / 3;
    for (int k = 0; k < made; ++k) of[count++] = 1 << (twos / made + (k < twos % made));
    for (const int prime : {3, 5, 7, 11, 13}) {
      for (; left % prime == 0 && count < kMostFactors; left /= prime) of[count++] = prime;
    }
  }
  bool are_all() const { return left == 1; }
};

struct Turn {
  double re, im;
};
AOT_INLINE Turn times(Turn a, Turn b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// `count` powers, `step` apart, of exp(-2 pi i / order): from angles of at most an eighth of a
// turn.
inline void fill_roots(Turn* to, int64_t count, int64_t step, int64_t order) {
  constexpr int W = native_lanes<double>();
  constexpr double kQuarter = 1.57079632679489661923;
  for (int64_t first = 0; first < count; first += W) {
    double angles[W], cosines[W], sines[W];
    int64_t quarters[W];
    for (int l = 0; l < W; ++l) {
      const int64_t power = (first + l) * step % order;
      quarters[l] = (8 * power + order) / (2 * order);
      const int64_t rest = 4 * power - quarters[l] * order;
      angles[l] = static_cast<double>(rest) / static_cast<double>(order) * kQuarter;
    }
    const Vec<double, W> angle = load<double, W>(angles);
    store(cosines, cos(angle));
    store(sines, sin(angle));
    for (int l = 0; l < W && first + l < count; ++l) {
      const bool odd = quarters[l] % 2 == 1, half = quarters[l] / 2 % 2 == 1;
      const double re = odd ? -sines[l] : cosines[l], im = odd ? cosines[l] : sines[l];
      to[first + l] = {half ? -re : re, half ? im : -im};
    }
  }
}

// Powers of exp(-2 pi i / order).
struct Powers {
  Turn *near, *far;
  int shift = 0;
  Powers(int64_t order, Room& room) {
    while ((int64_t{1} << (2 * shift)) < order) ++shift;
    const int64_t block = int64_t{1} << shift, blocks = order / block + 1;
    near = room.take<Turn>(block);
    far = room.take<Turn>(blocks);
    fill_roots(near, block, 1, order);
    fill_roots(far, blocks, block, order);
  }
  AOT_INLINE Turn at(int64_t power) const {
    return times(far[power >> shift], near[power & ((int64_t{1} << shift) - 1)]);
  }
};

template <class T>
AOT_INLINE void put_turn(T* to, Turn x) {
  to[0] = static_cast<T>(x.re);
  to[1] = static_cast<T>(x.im);
}

// A transform of `size` points: of n1 points, or of n1 n2 in two steps. Tables are as in fft.h.
template <class T>
struct Plan {
  int64_t size, n1, n2 = 1, fine_rows = 0, coarse_rows = 0;
  Passes first, second;
  T *roots = nullptr, *others = nullptr, *fine = nullptr, *coarse = nullptr;

  Plan(int64_t points, bool in_steps, Room& room)
      : size(points), n1(in_steps ? side(points) : points), first(n1), second(1) {
    n2 = size / n1;
    second = Passes(n2);
    Room spare = room;
    roots = spare.take<T>(2 * n1);
    if (n2 > 1) {
      others = spare.take<T>(2 * n2);
      fine_rows = size > kUnsplitTable ? imin(n1, kFineRows) : n1;
      coarse_rows = (n1 + fine_rows - 1) / fine_rows;
      fine = spare.take<T>(2 * fine_rows * n2);
      coarse = spare.take<T>(2 * coarse_rows * n2);
    }
    room = spare;
    const Powers powers(size, spare);  // nobody reads them later
    for (int64_t k = 0; k < n1; ++k) put_turn(roots + 2 * k, powers.at(k * n2));
    if (n2 == 1) return;
    for (int64_t k = 0; k < n2; ++k) put_turn(others + 2 * k, powers.at(k * n1));
    fill(powers, 1, fine_rows, fine);
    if (coarse_rows > 1) fill(powers, fine_rows, coarse_rows, coarse);
  }

 private:
  // The number of points of the first step: the greatest divisor up to the root of all.
  static int64_t side(int64_t points) {
    int64_t found = 1;
    for (int64_t k = 1; k * k <= points; ++k) {
      if (points % k == 0) found = k;
    }
    return found;
  }
  // (2, rows, n2): both parts of the powers step * row * column.
  void fill(const Powers& powers, int64_t step, int64_t rows, T* to) {
    for (int64_t row = 0; row < rows; ++row) {
      T *const re = to + row * n2, *const im = re + rows * n2;
      for (int64_t column = 0, power = 0; column < n2; ++column) {
        const Turn x = powers.at(power);
        re[column] = static_cast<T>(x.re);
        im[column] = static_cast<T>(x.im);
        power += step * row;
        if (power >= size) power -= size;
      }
    }
  }
};

// The least number of points from `least` on that is 1, 3, 5, 9 or 15 times a power of two.
inline int64_t chirp_size(int64_t least) {
  int64_t found = 0;
  for (const int64_t odd : {1, 3, 5, 9, 15}) {
    int64_t size = odd;
    while (size < least) size *= 2;
    if (found == 0 || size < found) found = size;
  }
  return found;
}

// ---- passes that a run chooses ----

template <class T, class In, class Out>
__attribute__((noinline)) void pass_of(int radix, int64_t n, int64_t m, int64_t s, const T* roots,
                                       const In& in, const Out& out) {
  // Between passes are buffers: who reads anything else is the first one, who writes it the last.
  if constexpr (!std::is_same_v<In, Held<T>>) s = 1;
  if constexpr (!std::is_same_v<Out, Held<T>>) m = 1;
  switch (radix) {
    case 2:
      return pass<T, 2>(n, m, s, roots, in, out);
    case 3:
      return pass<T, 3>(n, m, s, roots, in, out);
    case 4:
      return pass<T, 4>(n, m, s, roots, in, out);
    case 5:
      return pass<T, 5>(n, m, s, roots, in, out);
    case 7:
      return pass<T, 7>(n, m, s, roots, in, out);
    case 8:
      return pass<T, 8>(n, m, s, roots, in, out);
    case 11:
      return pass<T, 11>(n, m, s, roots, in, out);
    default:
      return pass<T, 13>(n, m, s, roots, in, out);
  }
}

// All passes of n points, by way of two buffers. What comes first is never written.
template <class T, class In, class Out>
AOT_INLINE void every_pass(const Passes& passes, int64_t n, const T* roots, const In& in,
                           const Out& out, T* a, T* b) {
  if (passes.count < 2) {
    for (int64_t k = 0; k < n; ++k) Held<T>{a}.put(k, in.get(k));
    if (passes.count == 0) return out.put(0, Held<T>{a}.get(0));
    return pass_of<T>(passes.of[0], n, 1, 1, roots, Held<T>{a}, out);
  }
  int64_t m = n / passes.of[0], s = passes.of[0];
  pass_of<T>(passes.of[0], n, m, 1, roots, in, Held<T>{a});
  for (int k = 1; k + 1 < passes.count; ++k) {
    m /= passes.of[k];
    pass_of<T>(passes.of[k], n, m, s, roots, Held<T>{a}, Held<T>{b});
    s *= passes.of[k];
    T* const last = a;
    a = b;
    b = last;
  }
  pass_of<T>(passes.of[passes.count - 1], n, 1, s, roots, Held<T>{a}, out);
}

}  // namespace aot::tmpl::fft_detail

#endif  // AOT_TMPL_FFT_PLAN_H_
