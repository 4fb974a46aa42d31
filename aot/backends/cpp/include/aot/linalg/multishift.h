// Schur's form of one large matrix of Hessenberg's: sweeps of many shifts (sweep.h), and between
// them early deflation: a window at the end is brought to Schur's form, and those of its values
// that the rest of the matrix does not touch are taken off (Braman, Byers, Mathias 2002; LAPACK's
// laqr0 and laqr3).
#ifndef AOT_LINALG_MULTISHIFT_H_
#define AOT_LINALG_MULTISHIFT_H_

#include "aot/linalg/schur.h"
#include "aot/linalg/sweep.h"

namespace aot::linalg {

inline constexpr int64_t kWindow = 128;  // rows of the greatest window; in template_library.py
inline constexpr int kPatience = 5;      // sweeps without any value before something is changed

// The block at row k of Schur's form: its values, and its rows.
template <class M, class T = typename M::Element>
int values_at(M t, int64_t n, int64_t k, Complex<T>* to) {
  const Complex<T> own = as_complex(t.get(k, k));
  to[0] = own;
  if constexpr (M::kParts == 1) {
    if (k + 1 < n && t.get(k + 1, k) != T(0)) {
      const T im = sqrt(abs(t.get(k, k + 1))) * sqrt(abs(t.get(k + 1, k)));
      to[0] = {own.re, im};
      to[1] = {t.get(k + 1, k + 1), -im};
      return 2;
    }
  }
  return 1;
}

// Early deflation of rows [top, bottom]; both windows have room for kWindow rows.
template <class M>
struct Deflation {
  using N = typename M::Number;
  using T = typename M::Element;
  Spectrum<M> on;
  int64_t top, bottom, window;
  M t, v, held;  // the window, its basis by columns, and two rows
  T none;
  Complex<T>* shifts;  // values that stay, as many as `count`
  int64_t count = 0, deflated = 0;

  void run(Room room) {
    const int64_t n = window, first = bottom - n + 1;
    const M h = on.h;
    const N spike = first == top ? Real<N>::number(0) : h.get(first, first - 1);
    for (int64_t i = 0; i < n; ++i) {
      zero_row(t, i, n);
      zero_row(v, i, n);
      v.set(i, i, Real<N>::number(1));
      for (int64_t j = max64(i - 1, 0); j < n; ++j) t.set(i, j, h.get(first + i, first + j));
    }
    const SchurBlocks<M> blocks{t, v, n, n};
    const int64_t lost = SmallSchur<M>{blocks, true}.find();
    int64_t stay = part(blocks, rough_size(spike), lost);
    const bool none_stay = stay == 0;
    deflated = n - stay;
    for (int64_t k = lost; k < stay;) {
      const int rows = values_at(t, n, k, shifts + count);
      count += rows;
      k += rows;
    }
    const bool alone = none_stay || rough_size(spike) == T(0);
    if (stay == n && !alone) return;
    if (stay > 1 && !alone) to_hessenberg(stay);
    if (first > top) {
      h.set(first, first - 1, none_stay ? Real<N>::number(0) : spike * conjugate(v.get(0, 0)));
    }
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = max64(i - 1, 0); j < n; ++j) h.set(first + i, first + j, t.get(i, j));
    }
    on.spread_out(v, first, n, first, bottom + 1, top, bottom, room);
  }

  // Blocks that the spike touches go up; how many rows these are.
  int64_t part(const SchurBlocks<M>& blocks, T spike, int64_t lost) const {
    int64_t stay = window, to = lost;
    const auto touched = [&](int64_t k) { return spike * rough_size(v.get(k, 0)); };
    while (to < stay) {
      const bool two = stay > 1 && blocks.rows(stay - 2) == 2;
      const int64_t k = two ? stay - 2 : stay - 1;
      T size = rough_size(t.get(stay - 1, stay - 1)), reached = touched(stay - 1);
      if (two) {
        size += sqrt(rough_size(t.get(k + 1, k))) * sqrt(rough_size(t.get(k, k + 1)));
        reached = maximum(reached, touched(k));
      }
      if (size == T(0)) size = spike;
      if (reached <= maximum(none, rounding<T>() * size)) {
        stay = k;
      } else {
        const int64_t there = blocks.move(k, to);
        to = there + blocks.rows(there);
      }
    }
    return stay;
  }

  // The first `stay` rows to Hessenberg's form, with the spike as its first column.
  void to_hessenberg(int64_t stay) const {
    const auto x = held.line(0, 0);
    for (int64_t i = 0; i < stay; ++i) held.set(0, i, conjugate(v.get(i, 0)));
    reflect_both(0, 0, stay, reflect_row(x, stay), stay);
    for (int64_t k = 0; k + 2 < stay; ++k) {
      const int64_t rest = stay - k - 1;
      for (int64_t i = 0; i < rest; ++i) held.set(0, i, t.get(k + 1 + i, k));
      const N by = reflect_row(x, rest), beta = held.get(0, 0);
      reflect_both(k + 1, k + 1, rest, by, stay);
      t.set(k + 1, k, beta);
      for (int64_t i = 1; i < rest; ++i) t.set(k + 1 + i, k, Real<N>::number(0));
    }
  }

  // The reflection of the held row, whose first element is to be 1, of rows and columns k ...
  void reflect_both(int64_t k, int64_t from, int64_t rows, N tau, int64_t stay) const {
    held.set(0, 0, Real<N>::number(1));
    const auto x = held.line(0, 0), sums = held.line(1, 0);
    zero_row(held, 1, window);
    for (int64_t i = 0; i < rows; ++i) {
      add_row(conjugate(held.get(0, i)), t.line(k + i, from), sums, window - from);
    }
    for (int64_t i = 0; i < rows; ++i) {
      add_row(-(conjugate(tau) * held.get(0, i)), sums, t.line(k + i, from), window - from);
    }
    zero_row(held, 1, window);
    for (int64_t i = 0; i < rows; ++i) add_row(held.get(0, i), v.line(k + i, 0), sums, window);
    conjugate_rows(held, 1, rows);
    for (int64_t i = 0; i < rows; ++i) {
      add_row(-(tau * held.get(0, i)), sums, v.line(k + i, 0), window);
    }
    for (int64_t i = 0; i < stay; ++i) {
      add_row(-(tau * dot<true>(x, t.line(i, k), rows)), x, t.line(i, k), rows);
    }
    conjugate_rows(held, 1, rows);
  }
};

template <class M>
struct Multishift {
  using N = typename M::Number;
  using T = typename M::Element;
  Spectrum<M> on;

  // As LAPACK's iparmq has them.
  static int64_t shifts_for(int64_t rows) {
    if (rows < 60) return 4;
    if (rows < 150) return 10;
    int64_t log = 0;
    for (; (int64_t(1) << (log + 1)) <= rows; ++log) {
    }
    return min64(kMostShifts, max64(10, rows / log / 2 * 2));
  }

  // Whether all values were found.
  bool find(Room room) const {
    const int64_t n = on.n, wanted = shifts_for(n);
    const int64_t usual = n <= 500 ? wanted : min64(3 * wanted / 2, kWindow);
    const int64_t most = min64(max64((n - 1) / 3, 4), kWindow);
    const T none = least_number<T>() * (T(n) / rounding<T>());
    const M t = take_dense<M>(kWindow, kWindow, room), v = take_dense<M>(kWindow, kWindow, room);
    const M held = take_dense<M>(2, kWindow, room), u = take_dense<M>(kReach, kReach, room);
    Complex<T>* const shifts = room.take<Complex<T>>(kWindow + 2);
    Turn<3, N>* const turns = room.take<Turn<3, N>>(kMostBulges + 1);
    int64_t window = usual, fewer = -1;
    int idle = 1;
    int64_t bottom = n - 1;
    for (int64_t steps = 30 * max64(10, n); bottom >= 0 && steps > 0; --steps) {
      int64_t top = bottom;
      while (top > 0 && rough_size(on.h.get(top, top - 1)) != T(0)) --top;
      window = window_for(top, bottom, usual, most, idle, window, fewer);
      Deflation<M> found{on, top, bottom, window, t, v, held, none, shifts};
      found.run(room);
      bottom -= found.deflated;
      const int64_t rows = bottom - top + 1;
      if (found.deflated > 0 && (100 * found.deflated > window * kNibble || rows <= kEnough)) {
        idle = 1;
        continue;
      }
      const int64_t count = min64(wanted, max64(2, rows - 1)) / 2 * 2;
      const int64_t bulges = choose(top, bottom, count, found.count, idle, t, shifts);
      Sweep<M>{on, top, bottom, bulges, shifts, u, none, turns}.run(room);
      idle = found.deflated > 0 ? 1 : idle + 1;
    }
    return bottom < 0;
  }

  static constexpr int64_t kNibble = 14, kEnough = 75;

  int64_t window_for(int64_t top, int64_t bottom, int64_t usual, int64_t most, int idle,
                     int64_t before, int64_t& fewer) const {
    const int64_t rows = bottom - top + 1, limit = min64(rows, most);
    int64_t window = idle < kPatience ? min64(limit, usual) : min64(limit, 2 * before);
    if (window < most) {
      if (window >= rows - 1) {
        window = rows;
      } else {
        const int64_t first = bottom - window + 1;
        if (rough_size(on.h.get(first, first - 1)) > rough_size(on.h.get(first - 1, first - 2))) {
          ++window;
        }
      }
    }
    if (idle < kPatience) {
      fewer = -1;
    } else if (fewer >= 0 || window >= limit) {
      ++fewer;
      if (window - fewer < 2) fewer = 0;
      window -= fewer;
    }
    return window;
  }

  // Pairs of shifts, the `known` ones that a window had or others; how many pairs.
  int64_t choose(int64_t top, int64_t bottom, int64_t count, int64_t known, int idle, M t,
                 Complex<T>* shifts) const {
    const M h = on.h;
    if (idle % (kPatience + 1) == 0) {
      known = 0;
      for (int64_t i = bottom; i >= max64(bottom - count + 2, top + 2); i -= 2) {
        const T size = rough_size(h.get(i, i - 1)) + rough_size(h.get(i - 1, i - 2));
        const Complex<T> own = as_complex(h.get(i, i)) + Complex<T>{T(0.75) * size, T(0)};
        const Complex<T> beside{T(0), T(0.66143782776614768) * size};
        shifts[known++] = own + beside;
        shifts[known++] = own - beside;
      }
    } else if (known <= count / 2) {
      known = 0;
      const int64_t first = bottom - count + 1;
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t j = 0; j < count; ++j) {
          t.set(i, j, i <= j + 1 ? h.get(first + i, first + j) : Real<N>::number(0));
        }
      }
      const SchurBlocks<M> blocks{t, dense_at<M>(nullptr, 0), count, 0};
      for (int64_t k = SmallSchur<M>{blocks, false}.find(); k < count;) {
        const int rows = values_at(t, count, k, shifts + known);
        known += rows;
        k += rows;
      }
    }
    if (known < 2) {
      SmallSchur<M>::values_of_two(h, bottom - 1, shifts);
      known = 2;
    }
    return in_pairs(as_complex(h.get(bottom, bottom)), count, known, shifts);
  }

  // The `count` least of them, conjugates beside each other.
  static int64_t in_pairs(Complex<T> last, int64_t count, int64_t known, Complex<T>* shifts) {
    for (int64_t i = 1; i < known; ++i) {  // ascending; conjugates stay together
      const Complex<T> own = shifts[i];
      int64_t k = i;
      for (; k > 0 && rough_size(shifts[k - 1]) > rough_size(own); --k) shifts[k] = shifts[k - 1];
      shifts[k] = own;
    }
    if constexpr (M::kParts == 2) return min64(count, known) / 2;
    int64_t made = 0;
    int64_t alone = -1;
    for (int64_t i = 0; i < known && made + 2 <= count;) {
      if (shifts[i].im != T(0)) {
        const Complex<T> own = shifts[i];
        if (i + 1 == known) break;
        const Complex<T> waits = shifts[made];
        shifts[made] = own;
        shifts[made + 1] = conjugate(own);
        if (alone >= 0) shifts[made + 2] = waits;
        i += 2;
        made += 2;
        if (alone >= 0) alone = made;
      } else if (alone >= 0) {
        shifts[made + 1] = shifts[i];
        made += 2;
        alone = -1;
        ++i;
      } else {
        shifts[made] = shifts[i];
        alone = made;
        ++i;
      }
    }
    if (made == 0) {
      shifts[1] = shifts[0];
      return 1;
    }
    if (known == 2 && shifts[0].im == T(0)) {
      const bool first = rough_size(shifts[0] - last) <= rough_size(shifts[1] - last);
      shifts[first ? 1 : 0] = shifts[first ? 0 : 1];
    }
    return made / 2;
  }
};

// A function of its own, which models share (aot/tmpl/apart.h).
template <class M>
bool find_spectrum(const Multishift<M>& sweeps, Room room) {
  return sweeps.find(room);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_MULTISHIFT_H_
