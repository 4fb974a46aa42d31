// The roots between poles that rank-one changes of diagonal matrices have, side by side in lanes.
//
// Eigenvalues of D + rho z z^T are the x with 1 / rho + sum of z_i^2 / (d_i - x) = 0, one behind
// each pole d_i, d ascending (Golub 1973). With SQUARES the same of x^2 and squares of poles, with
// rho = 1: singular values of a diagonal matrix whose first row is z. A root is found as what lies
// between it and its nearest pole, so that its difference from every pole has all its digits (Li,
// LAPACK Working Note 89: two poles stand for those on either side).
#ifndef AOT_LINALG_SECULAR_H_
#define AOT_LINALG_SECULAR_H_

#include "aot/linalg/jacobi.h"

namespace aot::linalg {

// A power of two by which a size > 0 comes near 1.
template <class T>
AOT_INLINE T near_one(T size) {
  T by(1);
  const T least = sizeof(T) == 8 ? T(1e-300) : T(1e-36), most = T(1) / least;
  if (!(size > T(0))) return by;
  for (; size * by < T(0.5) && by < most; by *= T(2)) {
  }
  for (; size * by > T(2) && by > least; by *= T(0.5)) {
  }
  return by;
}

// A power of two by which a matrix's greatest element becomes one whose square is a plain number,
// 1 where it is; 0 where an element is none.
template <class T>
AOT_INLINE T ordinary(T most) {
  if (!(most < T(1) / T(0))) return T(0);
  return most > T(1e-10) && most < T(1e10) ? T(1) : near_one(most);
}

template <class T, bool SQUARES>
struct Secular {
  using V = Lanes<T>;
  const T *d, *z;  // no two of d are alike, no z is 0
  int64_t count;
  T rest, width;  // 1 / rho; how far the last root can be from the last pole

  static AOT_INLINE T between(T pole, T base) {
    return SQUARES ? (pole - base) * (pole + base) : pole - base;
  }
  static AOT_INLINE V between(T pole, V base) {
    return SQUARES ? (V(pole) - base) * (V(pole) + base) : V(pole) - base;
  }

  // The function's two sides at base + at, their slopes, and the size of what rounding leaves.
  struct Sides {
    V before, behind, before_slope, behind_slope, error;
  };
  AOT_INLINE Sides sides(int64_t first, V own, V base, V at) const {
    const V zero(T(0));
    Sides s{zero, zero, zero, zero, zero};
    const int64_t edge = min64(first + kLanes<T>, count);
    const auto term = [&](int64_t i, V& slope) __attribute__((always_inline)) {
      const V part = V(z[i]) / (between(d[i], base) - at);
      slope = part * part;
      return V(z[i]) * part;
    };
    V slope = zero;
    for (int64_t i = 0; i < first; ++i) {
      s.before = s.before + term(i, slope);
      s.before_slope = s.before_slope + slope;
      s.error = s.error - s.before;
    }
    for (int64_t i = count - 1; i >= edge; --i) {
      s.behind = s.behind + term(i, slope);
      s.behind_slope = s.behind_slope + slope;
      s.error = s.error + s.behind;
    }
    for (int64_t i = first; i < edge; ++i) {
      const V value = term(i, slope);
      const auto is_before = V(T(i)) <= own;
      s.before = s.before + select(is_before, value, zero);
      s.before_slope = s.before_slope + select(is_before, slope, zero);
      s.behind = s.behind + select(is_before, zero, value);
      s.behind_slope = s.behind_slope + select(is_before, zero, slope);
      s.error = s.error + abs(value);
    }
    const V size = s.behind - s.before;
    s.error = s.error + V(T(8)) * size + V(rest) + abs(at) * (s.before_slope + s.behind_slope);
    return s;
  }

  // Roots first .. first + kLanes: the pole that each is nearest to, and how far from it.
  AOT_INLINE void find(int64_t first, T* base_out, T* at_out) const {
    const V zero(T(0)), half(T(0.5));
    T own_of[kLanes<T>], base_of[kLanes<T>], gap_of[kLanes<T>], next_of[kLanes<T>];
    for (int64_t l = 0; l < kLanes<T>; ++l) {
      const int64_t j = min64(first + l, count - 1);
      own_of[l] = T(j);
      base_of[l] = d[j];
      next_of[l] = d[min64(j + 1, count - 1)];
      gap_of[l] = j + 1 < count ? between(next_of[l], d[j]) : width;
    }
    const V own = load<T, kLanes<T>>(own_of), gap = load<T, kLanes<T>>(gap_of);
    V base = load<T, kLanes<T>>(base_of), low = zero, high = gap, at = half * gap;
    const auto is_last = own >= V(T(count - 1));
    auto done = own < zero;
    V from_next = zero;  // the gap where the next pole is the nearer one
    for (int step = 0; step < kMostSteps; ++step) {
      const Sides s = sides(first, own, base, at);
      const V value = V(rest) + s.before + s.behind, slope = s.before_slope + s.behind_slope;
      const auto is_left = value < zero;  // of the root
      if (step == 0) {
        const auto turns = is_left & ~is_last;
        base = select(turns, load<T, kLanes<T>>(next_of), base);
        from_next = select(turns, gap, zero);
        at = at - from_next;
        low = low - from_next;
        high = select(turns, zero, high);
      }
      low = select(is_left, at, low);
      high = select(is_left, high, at);
      done = done | (abs(value) <= V(rounding<T>()) * s.error);
      const V near = -from_next - at, far = near + gap;  // both poles from here
      const V c = value - near * s.before_slope - far * s.behind_slope;
      const V a = (near + far) * value - near * far * slope, b = near * far * value;
      const V root = sqrt(maximum(fnma(V(T(4)) * b, c, a * a), zero));
      V move = select(a <= zero, (a - root) / (c + c), (b + b) / (a + root));
      move = select(value * move < zero, move, -value / slope);
      const V there = at + move;
      const auto inside = (there > low) & (there < high);
      const V next = select(inside, there, half * (low + high));
      const V before = at;
      at = select(done, at, next);
      done = done | (at == before);
      if (!any(~done)) break;
    }
    store(base_of, base);
    store(gap_of, at);
    for (int64_t l = 0; l < kLanes<T> && first + l < count; ++l) {
      base_out[first + l] = base_of[l];
      at_out[first + l] = gap_of[l];
    }
  }

  static constexpr int kMostSteps = 60;  // six are usual
};

// Of each root the elements of its vector, but for their common factor: z_i / (d_i - x), of the z
// whose roots these are exactly (Gu and Eisenstat 1994), as vectors are orthogonal only so.
// `d` and `z` may be in any order here; places[j] is where the pole of root j is.
template <class T, bool SQUARES>
void exact_weights(const T* d, const T* base, const T* at, const int64_t* places, int64_t count,
                   T* z) {
  using V = Lanes<T>;
  using S = Secular<T, SQUARES>;
  const int64_t wide = round_up(count, kPanel);
  T* const squares = z + wide;
  for (int64_t i = 0; i < wide; ++i) squares[i] = T(1);
  for (int64_t j = 0; j < count; ++j) {
    const T own = d[places[j]], mine = squares[places[j]];
    for (int64_t i = 0; i < wide; i += kLanes<T>) {
      const V pole = load<T, kLanes<T>>(d + i), from_root = V(base[j]) - pole;
      const V from_own = V(own) - pole;
      const V above = SQUARES ? fma(from_root, V(base[j]) + pole, V(at[j])) : from_root + V(at[j]);
      const V below = SQUARES ? from_own * (V(own) + pole) : from_own;
      store(squares + i, load<T, kLanes<T>>(squares + i) * (above / below));
    }
    squares[places[j]] = mine * (at[j] - S::between(own, base[j]));
  }
  for (int64_t i = 0; i < count; ++i) z[i] = copysign(sqrt(abs(squares[i])), z[i]);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_SECULAR_H_
