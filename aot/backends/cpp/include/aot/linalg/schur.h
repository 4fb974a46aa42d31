// Schur's form of a matrix of Hessenberg's by double steps of QR: of windows that fit in a cache,
// real (LAPACK's lahqr) and complex ones alike.
#ifndef AOT_LINALG_SCHUR_H_
#define AOT_LINALG_SCHUR_H_

#include "aot/linalg/schur_steps.h"

namespace aot::linalg {

// Rows [0, n) of t; without `whole` only its values are wanted, and the rest of t is anything.
template <class M>
struct SmallSchur {
  using N = typename M::Number;
  using T = typename M::Element;
  SchurBlocks<M> blocks;
  bool whole;

  // How many rows, from the first on, have no values: 0 but where steps did not converge.
  int64_t find() const {
    const M t = blocks.t;
    const int64_t n = blocks.n, most = 30 * max64(10, n);
    const T none = least_number<T>() * (T(n) / rounding<T>());
    for (int64_t j = 0; j + 2 < n; ++j) {
      t.set(j + 2, j, Real<N>::number(0));
      if (j + 3 < n) t.set(j + 3, j, Real<N>::number(0));
    }
    int64_t steps = 0, idle = 0;
    for (int64_t last = n - 1; last >= 0;) {
      int64_t first = last;
      while (first > 0 && !is_negligible(t, first - 1, 0, n - 1, none)) --first;
      if (first > 0) t.set(first, first - 1, Real<N>::number(0));
      if (first + 1 >= last) {
        if (first < last) blocks.standardise(first, whole ? 0 : first, whole ? n : last + 1);
        last = first - 1;
        idle = 0;
        continue;
      }
      if (steps++ == most) return last + 1;
      step(first, last, ++idle);
    }
    return 0;
  }

  // The values of the two last rows, or others once in a while.
  void shifts(int64_t first, int64_t last, int64_t idle, Complex<T>* s) const {
    const M t = blocks.t;
    if (idle % 10 == 0) {
      const bool below = idle % 20 == 0;
      const int64_t at = below ? last : first;
      const T size =
          below ? rough_size(t.get(last, last - 1)) + rough_size(t.get(last - 1, last - 2))
                : rough_size(t.get(first + 1, first)) + rough_size(t.get(first + 2, first + 1));
      const Complex<T> own = as_complex(t.get(at, at)) + Complex<T>{T(0.75) * size, T(0)};
      s[0] = own + Complex<T>{T(0), T(0.66143782776614768) * size};  // sqrt(0.4375)
      s[1] = own - Complex<T>{T(0), T(0.66143782776614768) * size};
      return;
    }
    values_of_two(t, last - 1, s);
    if constexpr (M::kParts == 1) {
      if (s[0].im != T(0)) return;
      const T own = t.get(last, last);
      const int near = abs(s[0].re - own) <= abs(s[1].re - own) ? 0 : 1;
      s[1 - near] = s[near];
    }
  }

  static void values_of_two(M t, int64_t k, Complex<T>* s) {
    using C = Complex<T>;
    C a = as_complex(t.get(k, k)), b = as_complex(t.get(k, k + 1));
    C c = as_complex(t.get(k + 1, k)), d = as_complex(t.get(k + 1, k + 1));
    const T size = rough_size(a) + rough_size(b) + rough_size(c) + rough_size(d);
    s[0] = s[1] = C{T(0), T(0)};
    if (size == T(0)) return;
    for (C* const x : {&a, &b, &c, &d}) *x = C{x->re / size, x->im / size};
    const C mean = T(0.5) * (a + d), half = T(0.5) * (a - d);
    const C far = root(half * half + b * c);
    s[0] = size * (mean + far);
    s[1] = size * (mean - far);
  }

  void step(int64_t first, int64_t last, int64_t idle) const {
    const M t = blocks.t;
    Complex<T> s[2];
    shifts(first, last, idle, s);
    N v[3];
    int64_t m = last - 2;
    for (;; --m) {
      start(t, m, s[0], s[1], v);
      if (m == first) break;
      const T before = rough_size(t.get(m - 1, m - 1)), next = rough_size(t.get(m + 1, m + 1));
      const T around = before + rough_size(t.get(m, m)) + next;
      const T left = rough_size(t.get(m, m - 1)) * (rough_size(v[1]) + rough_size(v[2]));
      if (left <= rounding<T>() * rough_size(v[0]) * around) break;
    }
    for (int64_t k = m; k < last; ++k) {
      if (k + 1 < last) {
        turn<3>(k, m, first, last, v);
      } else {
        turn<2>(k, m, first, last, v);
      }
    }
  }

  template <int COUNT>
  AOT_INLINE void turn(int64_t k, int64_t m, int64_t first, int64_t last, const N* begin) const {
    const M t = blocks.t;
    N x[COUNT], beta;
    for (int r = 0; r < COUNT; ++r) x[r] = k == m ? begin[r] : t.get(k + r, k - 1);
    const Turn<COUNT, N> h = turn_of<COUNT>(x, beta);
    if (k > m) {
      t.set(k, k - 1, beta);
      for (int r = 1; r < COUNT; ++r) t.set(k + r, k - 1, Real<N>::number(0));
    } else if (m > first) {
      t.set(k, k - 1, t.get(k, k - 1) - conjugate(h.tau) * t.get(k, k - 1));
    }
    turn_rows(t, k, k, whole ? blocks.n : last + 1, h);
    turn_columns(t, k, whole ? 0 : first, min64(k + 4, last + 1), h);
    if (blocks.v.part(0)) turn_basis(blocks.v, k, 0, blocks.width, h);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SCHUR_H_
