// Steps on a few rows and columns of matrices of Hessenberg's or Schur's form: reflections of two
// or three rows, blocks of two rows in standard form, and neighbours on the diagonal that change
// places (LAPACK's lanv2 and laexc; Bai and Demmel 1993).
//
// A basis lies by columns: row k of `v` is its column k, so that its reflections turn rows, too.
#ifndef AOT_LINALG_SCHUR_STEPS_H_
#define AOT_LINALG_SCHUR_STEPS_H_

#include "aot/linalg/complex.h"

namespace aot::linalg {

// The least number whose reciprocal is one.
template <class T>
constexpr T least_number() {
  return sizeof(T) == 8 ? T(2.2250738585072014e-308) : T(1.17549435e-38);
}

template <class T>
AOT_INLINE Complex<T> as_complex(T a) {
  return {a, T(0)};
}
template <class T>
AOT_INLINE Complex<T> as_complex(Complex<T> a) {
  return a;
}
template <class T>
AOT_INLINE void put(Complex<T> from, T& to) {
  to = from.re;
}
template <class T>
AOT_INLINE void put(Complex<T> from, Complex<T>& to) {
  to = from;
}

// The root whose real part is not negative.
template <class T>
Complex<T> root(Complex<T> z) {
  const T size = modulus(z);
  if (size == T(0)) return z;
  const T re = sqrt((size + abs(z.re)) / T(2)), im = z.im / (T(2) * re);
  if (z.re >= T(0)) return {re, im};
  return {abs(im), z.im >= T(0) ? re : -re};
}

// H = I - tau v v^H with v[0] = 1 and H^H x = (beta, 0, ...), beta real.
template <int COUNT, class N>
struct Turn {
  N v[COUNT], tau;
};
template <int COUNT, class N>
AOT_INLINE Turn<COUNT, N> turn_of(const N* x, N& beta) {
  using T = decltype(real_of(x[0]));
  Turn<COUNT, N> made;
  T below(0);
  for (int r = 1; r < COUNT; ++r) below = maximum(below, rough_size(x[r]));
  const Complex<T> given = as_complex(x[0]);
  if (below == T(0) && given.im == T(0)) {
    for (int r = 0; r < COUNT; ++r) made.v[r] = Real<N>::number(r == 0);
    made.tau = Real<N>::number(0);
    beta = x[0];
    return made;
  }
  const T most = maximum(below, rough_size(x[0])), far = sizeof(T) == 8 ? T(1e140) : T(1e15);
  const bool plain = most < far && most * far > T(1);
  N y[COUNT];
  T sum(0);
  for (int r = 0; r < COUNT; ++r) {
    put(plain ? as_complex(x[r])
              : Complex<T>{as_complex(x[r]).re / most, as_complex(x[r]).im / most},
        y[r]);
    const Complex<T> part = as_complex(y[r]);
    sum += part.re * part.re + part.im * part.im;
  }
  const Complex<T> first = as_complex(y[0]);
  const T size = sqrt(sum), turned = first.re >= T(0) ? -size : size;
  put(Complex<T>{(turned - first.re) / turned, -first.im / turned}, made.tau);
  const N by = Real<N>::number(1) / (y[0] - Real<N>::number(turned));
  made.v[0] = Real<N>::number(1);
  for (int r = 1; r < COUNT; ++r) made.v[r] = by * y[r];
  beta = Real<N>::number(plain ? turned : turned * most);
  return made;
}

// Rows i .. of a, columns [from, to): (I - t w w^H) times them.
template <int COUNT, class M>
AOT_INLINE void reflect_rows(M a, int64_t i, int64_t from, int64_t to, const typename M::Number* w,
                             typename M::Number t) {
  using T = typename M::Element;
  constexpr int kWide = native_lanes<T>();
  const auto part = [&](auto width, int64_t j) __attribute__((always_inline)) {
    constexpr int W = decltype(width)::value;
    auto sum = spread<W>(Real<typename M::Number>::number(0));
    decltype(sum) x[COUNT];
    AOT_UNROLL for (int r = 0; r < COUNT; ++r) {
      x[r] = a.template wide<W>(i + r, j);
      sum = less_product(spread<W>(t * conjugate(w[r])), x[r], sum);
    }
    AOT_UNROLL for (int r = 0; r < COUNT; ++r) {
      a.template set_wide<W>(i + r, j, less_product(spread<W>(-w[r]), sum, x[r]));
    }
  };
  int64_t j = from;
  for (; j + kWide <= to; j += kWide) part(std::integral_constant<int, kWide>{}, j);
  for (; j < to; ++j) part(std::integral_constant<int, 1>{}, j);
}
// H^H times rows of a.
template <int COUNT, class M>
AOT_INLINE void turn_rows(M a, int64_t i, int64_t from, int64_t to,
                          const Turn<COUNT, typename M::Number>& h) {
  reflect_rows<COUNT>(a, i, from, to, h.v, conjugate(h.tau));
}
// A basis, whose columns lie as rows, times H.
template <int COUNT, class M>
AOT_INLINE void turn_basis(M v, int64_t i, int64_t from, int64_t to,
                           const Turn<COUNT, typename M::Number>& h) {
  typename M::Number w[COUNT];
  AOT_UNROLL for (int r = 0; r < COUNT; ++r) w[r] = conjugate(h.v[r]);
  reflect_rows<COUNT>(v, i, from, to, w, h.tau);
}
// Rows [from, to) of a, columns j ..: these times H.
template <int COUNT, class M>
AOT_INLINE void turn_columns(M a, int64_t j, int64_t from, int64_t to,
                             const Turn<COUNT, typename M::Number>& h) {
  using N = typename M::Number;
  N by[COUNT], back[COUNT];
  AOT_UNROLL for (int r = 0; r < COUNT; ++r) {
    by[r] = h.tau * h.v[r];
    back[r] = conjugate(h.v[r]);
  }
  for (int64_t i = from; i < to; ++i) {
    N x[COUNT];
    AOT_UNROLL for (int r = 0; r < COUNT; ++r) x[r] = a.get(i, j + r);
    N sum = by[0] * x[0];
    AOT_UNROLL for (int r = 1; r < COUNT; ++r) sum = sum + by[r] * x[r];
    a.set(i, j, x[0] - sum);
    AOT_UNROLL for (int r = 1; r < COUNT; ++r) a.set(i, j + r, x[r] - sum * back[r]);
  }
}

// Of (h - one)(h - other), h of Hessenberg's form, a multiple of the first column from row k on.
template <class M, class T>
AOT_INLINE void start(M h, int64_t k, Complex<T> one, Complex<T> other, typename M::Number* v) {
  using N = typename M::Number;
  const N own = h.get(k, k), below = h.get(k + 1, k);
  const Complex<T> far = as_complex(own) - other;
  const T size = rough_size(far) + rough_size(below);
  if (size == T(0)) {
    for (int r = 0; r < 3; ++r) v[r] = Real<N>::number(0);
    return;
  }
  const Complex<T> share = T(1) / size * as_complex(below);
  const Complex<T> beside = as_complex(h.get(k, k + 1)), next = as_complex(h.get(k + 1, k + 1));
  put(share * beside + (as_complex(own) - one) * Complex<T>{far.re / size, far.im / size}, v[0]);
  put(share * (as_complex(own) + next - one - other), v[1]);
  put(share * as_complex(h.get(k + 2, k + 1)), v[2]);
}

// Whether the element below h's diagonal, in column k, is nothing beside its neighbours (Ahues and
// Tisseur 1997), of which [first, last] are the block.
template <class M>
bool is_negligible(M h, int64_t k, int64_t first, int64_t last, typename M::Element none) {
  using T = typename M::Element;
  const T below = rough_size(h.get(k + 1, k));
  if (below <= none) return true;
  T size = rough_size(h.get(k, k)) + rough_size(h.get(k + 1, k + 1));
  if (size == T(0)) {
    if (k > first) size += rough_size(h.get(k, k - 1));
    if (k + 2 <= last) size += rough_size(h.get(k + 2, k + 1));
  }
  if (!(below <= rounding<T>() * size)) return false;
  const T beside = rough_size(h.get(k, k + 1)), own = rough_size(h.get(k + 1, k + 1));
  const T apart = rough_size(h.get(k, k) - h.get(k + 1, k + 1));
  const T ab = maximum(below, beside), ba = minimum(below, beside);
  const T aa = maximum(own, apart), bb = minimum(own, apart), sum = aa + ab;
  return ba * (ab / sum) <= maximum(none, rounding<T>() * (bb * (aa / sum)));
}

// The rotation x = c x + s y, y = c y - s x of rows that makes (a, b; c, d) upper triangular, or
// a = d and b c < 0; the block is that then.
template <class T>
struct StandardBlock {
  T a, b, c, d, cos = T(1), sin = T(0);

  void find() {
    if (c == T(0)) return;
    if (b == T(0)) {
      cos = T(0);
      sin = T(1);
      const T held = d;
      d = a;
      a = held;
      b = -c;
      c = T(0);
      return;
    }
    if (a - d == T(0) && (b < T(0)) != (c < T(0))) return;
    const T apart = a - d, half = apart / T(2);
    const T most = maximum(abs(b), abs(c));
    const T least = minimum(abs(b), abs(c)) * ((b < T(0)) != (c < T(0)) ? T(-1) : T(1));
    const T scale = maximum(abs(half), most);
    const T z = (half / scale) * half + (most / scale) * least;
    if (z >= T(4) * rounding<T>()) {
      const T far = half + copysign(sqrt(scale) * sqrt(z), half);
      const T size = hypot(c, far);
      a = d + far;
      d = d - (most / far) * least;
      cos = far / size;
      sin = c / size;
      b = b - c;
      c = T(0);
      return;
    }
    alike(apart);
  }

  // Values that are complex, or real and nearly one.
  void alike(T apart) {
    const T sum = b + c, size = hypot(sum, apart), half = apart / T(2);
    cos = sqrt((T(1) + abs(sum) / size) / T(2));
    sin = -(half / (size * cos)) * copysign(T(1), sum);
    const T aa = a * cos + b * sin, bb = b * cos - a * sin;
    const T cc = c * cos + d * sin, dd = d * cos - c * sin;
    a = aa * cos + cc * sin;
    b = bb * cos + dd * sin;
    c = cc * cos - aa * sin;
    d = dd * cos - bb * sin;
    const T mean = (a + d) / T(2);
    a = d = mean;
    if (c == T(0)) return;
    if (b == T(0)) {
      b = -c;
      c = T(0);
      const T held = cos;
      cos = -sin;
      sin = held;
      return;
    }
    if ((b < T(0)) != (c < T(0))) return;
    const T one = sqrt(abs(b)), other = sqrt(abs(c)), p = copysign(one * other, c);
    const T by = T(1) / sqrt(abs(b + c)), c1 = one * by, s1 = other * by;
    a = mean + p;
    d = mean - p;
    b = b - c;
    c = T(0);
    const T held = cos * c1 - sin * s1;
    sin = cos * s1 + sin * c1;
    cos = held;
  }

  AOT_INLINE T imaginary() const { return c == T(0) ? T(0) : sqrt(abs(b)) * sqrt(abs(c)); }
};

// A matrix of Schur's form (t, n x n) that changes along with its basis (v, whose columns are rows
// of `width` numbers; or nowhere).
template <class M>
struct SchurBlocks {
  using N = typename M::Number;
  using T = typename M::Element;
  M t, v;
  int64_t n, width;

  // Rows of the block that begins with row k.
  AOT_INLINE int rows(int64_t k) const {
    if constexpr (M::kParts == 2) return 1;
    return k + 1 < n && rough_size(t.get(k + 1, k)) != T(0) ? 2 : 1;
  }

  template <int COUNT>
  void turn(int64_t k, int64_t from, int64_t to, const Turn<COUNT, N>& h) const {
    turn_rows(t, k, from, n, h);
    turn_columns(t, k, 0, to, h);
    if (v.part(0)) turn_basis(v, k, 0, width, h);
  }

  // The block of two rows at k in standard form, or as two of one; of columns up to `columns` and
  // rows from `top` on.
  void standardise(int64_t k, int64_t top, int64_t columns) const {
    if constexpr (M::kParts == 2) {
      const N a = t.get(k, k), b = t.get(k, k + 1), c = t.get(k + 1, k), d = t.get(k + 1, k + 1);
      const N half = T(0.5) * (a - d), far = root(half * half + b * c);
      const N one = half + far, other = half - far;
      const N x[2] = {rough_size(one) >= rough_size(other) ? one : other, c};
      N beta;
      const Turn<2, N> h = turn_of<2>(x, beta);
      turn_rows(t, k, k, columns, h);
      turn_columns(t, k, top, k + 2, h);
      if (v.part(0)) turn_basis(v, k, 0, width, h);
      t.set(k + 1, k, Real<N>::number(0));
    } else {
      StandardBlock<T> s{t.get(k, k), t.get(k, k + 1), t.get(k + 1, k), t.get(k + 1, k + 1)};
      s.find();
      if (k + 2 < columns) {
        rotate(t.line(k, k + 2), t.line(k + 1, k + 2), columns - k - 2, s.cos, s.sin);
      }
      for (int64_t i = top; i < k; ++i) {
        const T x = t.get(i, k), y = t.get(i, k + 1);
        t.set(i, k, s.cos * x + s.sin * y);
        t.set(i, k + 1, s.cos * y - s.sin * x);
      }
      if (v.at) rotate(v.line(k, 0), v.line(k + 1, 0), width, s.cos, s.sin);
      t.set(k, k, s.a);
      t.set(k, k + 1, s.b);
      t.set(k + 1, k, s.c);
      t.set(k + 1, k + 1, s.d);
    }
  }

  // The block at k and the one behind it change places; whether they could.
  bool swap(int64_t k) const {
    const int first = rows(k), second = rows(k + first);
    if (first == 1 && second == 1) {
      const N own = t.get(k, k), next = t.get(k + 1, k + 1);
      const N x[2] = {t.get(k, k + 1), next - own};
      N beta;
      turn<2>(k, k, k + 2, turn_of<2>(x, beta));
      t.set(k, k, next);
      t.set(k + 1, k + 1, own);
      t.set(k + 1, k, Real<N>::number(0));
      return true;
    }
    if constexpr (M::kParts == 1) {
      return first == 1 ? swap_blocks<1>(k, second) : swap_blocks<2>(k, second);
    }
    return false;
  }

  // With x of t11 x - x t22 = t12 the columns of (-x; I) are those of t22's space.
  template <int FIRST>
  bool swap_blocks(int64_t k, int second) const {
    const int all = FIRST + second;
    T held[4 * kPanel], x[4], space[4][2];
    const SchurBlocks own{M{held, kPanel}, M{nullptr, 0}, all, 0};
    T norm(0);
    for (int i = 0; i < all; ++i) {
      for (int j = 0; j < all; ++j) {
        own.t.set(i, j, t.get(k + i, k + j));
        norm = maximum(norm, abs(own.t.get(i, j)));
      }
    }
    sylvester(own.t, FIRST, second, norm, x);
    for (int i = 0; i < all; ++i) {
      for (int j = 0; j < second; ++j) {
        space[i][j] = i < FIRST ? -x[i * second + j] : (i - FIRST == j ? T(1) : T(0));
      }
    }
    Turn<FIRST + 1, T> h[2];
    for (int j = 0; j < second; ++j) {
      T column[FIRST + 1], beta;
      for (int r = 0; r <= FIRST; ++r) column[r] = space[j + r][j];
      h[j] = turn_of<FIRST + 1>(column, beta);
      if (j + 1 < second) turn_rows(M{&space[0][0], 2}, j, j + 1, 2, h[j]);
      own.turn(j, 0, all, h[j]);
    }
    const T none = maximum(T(10) * rounding<T>() * norm, least_number<T>() / rounding<T>());
    for (int i = second; i < all; ++i) {
      for (int j = 0; j < second; ++j) {
        if (!(abs(own.t.get(i, j)) <= none)) return false;
      }
    }
    for (int j = 0; j < second; ++j) turn(k + j, k, k + all, h[j]);
    for (int i = second; i < all; ++i) {
      for (int j = 0; j < second; ++j) t.set(k + i, k + j, T(0));
    }
    if (second == 2) standardise(k, 0, n);
    if (FIRST == 2) standardise(k + second, 0, n);
    return true;
  }

  // By elimination with whole pivoting; pivots that are nothing are the least that counts.
  static void sylvester(M d, int first, int second, T norm, T* x) {
    const int count = first * second;
    T a[4][5];
    int order[4];
    for (int i = 0; i < first; ++i) {
      for (int j = 0; j < second; ++j) {
        T* const row = a[i * second + j];
        for (int q = 0; q < count; ++q) row[q] = T(0);
        for (int q = 0; q < first; ++q) row[q * second + j] += d.get(i, q);
        for (int q = 0; q < second; ++q) row[i * second + q] -= d.get(first + q, first + j);
        row[count] = d.get(i, first + j);
      }
    }
    const T least = maximum(rounding<T>() * norm, least_number<T>() / rounding<T>());
    for (int k = 0; k < count; ++k) order[k] = k;
    for (int k = 0; k < count; ++k) {
      int row = k, column = k;
      for (int i = k; i < count; ++i) {
        for (int j = k; j < count; ++j) {
          if (abs(a[i][j]) > abs(a[row][column])) row = i, column = j;
        }
      }
      for (int j = 0; j <= count; ++j) exchange(a[k][j], a[row][j]);
      for (int i = 0; i < count; ++i) exchange(a[i][k], a[i][column]);
      const int taken = order[k];
      order[k] = order[column];
      order[column] = taken;
      if (abs(a[k][k]) < least) a[k][k] = least;
      for (int i = k + 1; i < count; ++i) {
        const T by = a[i][k] / a[k][k];
        for (int j = k; j <= count; ++j) a[i][j] -= by * a[k][j];
      }
    }
    for (int k = count - 1; k >= 0; --k) {
      T sum = a[k][count];
      for (int j = k + 1; j < count; ++j) sum -= a[k][j] * x[order[j]];
      x[order[k]] = sum / a[k][k];
    }
  }
  static AOT_INLINE void exchange(T& a, T& b) {
    const T held = a;
    a = b;
    b = held;
  }

  // The block that begins with row `from` goes up to row `to`; where it came to be.
  int64_t move(int64_t from, int64_t to) const {
    while (from > to) {
      const int64_t before = from > 1 && rows(from - 2) == 2 ? from - 2 : from - 1;
      if (before < to || !swap(before)) break;
      from = before;
    }
    return from;
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_SCHUR_STEPS_H_
