// Eigenvalues and eigenvectors of real matrices that need not be symmetric: reflections to
// Hessenberg's form, double steps of Francis, and what triangular systems give. Larger matrices go
// another way (large_eig.h), and values alone of small ones are found side by side (schur_lanes.h).
#ifndef AOT_LINALG_EIG_H_
#define AOT_LINALG_EIG_H_

#include "aot/linalg/large_eig.h"
#include "aot/linalg/schur_lanes.h"

namespace aot::linalg {

inline constexpr int kFrancisSteps = 60;  // for one eigenvalue; ten are many

// Rows a, b and perhaps c less their sum by `weights` times `factors`.
template <bool THREE, class T>
AOT_INLINE void reflect_rows(T* a, T* b, T* c, int64_t n, const T (&weights)[3],
                             const T (&factors)[3]) {
  using V = Vec<T, native_lanes<T>()>;
  const V w0(weights[0]), w1(weights[1]), w2(weights[2]);
  const V f0(factors[0]), f1(factors[1]), f2(factors[2]);
  by_vectors<T>(n, [=](int64_t j, auto part) {
    const V x = part.get(a + j), y = part.get(b + j);
    V sum = fma(w1, y, w0 * x);
    if constexpr (THREE) {
      const V z = part.get(c + j);
      sum = fma(w2, z, sum);
      part.set(c + j, fnma(f2, sum, z));
    }
    part.set(a + j, fnma(f0, sum, x));
    part.set(b + j, fnma(f1, sum, y));
  });
}

// a becomes v^T a v with zeros below its first subdiagonal; v's columns, if there are any, lie as
// rows.
template <class T>
void to_hessenberg(T* a, int64_t n, T* v, T* x) {
  if (v) make_identity(OneMatrix<T>{v, n});
  // (I - tau x x^T) times the rows from k + 1 on, their columns from `first` on.
  const auto turn = [=](T* m, int64_t k, int64_t first, T tau) {
    const int64_t rest = n - k - 1, wide = n - first;
    T *const sums = x + n, *const rows = m + (k + 1) * n + first;
    for (int64_t j = 0; j < wide; ++j) sums[j] = T(0);
    for (int64_t i = 0; i < rest; ++i) add_row(x[i], rows + i * n, sums, wide);
    for (int64_t i = 0; i < rest; ++i) add_row(-tau * x[i], sums, rows + i * n, wide);
  };
  for (int64_t k = 0; k + 2 < n; ++k) {
    const int64_t rest = n - k - 1;
    for (int64_t i = 0; i < rest; ++i) x[i] = a[(k + 1 + i) * n + k];
    const T tau = reflect(x, 1, rest), beta = x[0];
    if (tau == T(0)) continue;
    x[0] = T(1);
    turn(a, k, k, tau);
    a[(k + 1) * n + k] = beta;
    for (int64_t i = 1; i < rest; ++i) a[(k + 1 + i) * n + k] = T(0);
    for (int64_t i = 0; i < n; ++i) {
      T* const row = a + i * n + k + 1;
      add_row(-tau * dot(row, x, rest), x, row, rest);
    }
    if (v) turn(v, k, 0, tau);
  }
}

// A matrix of Hessenberg's form that becomes Schur's: h is quasi-triangular, v's rows are the
// columns of its basis, and (re, im) are the eigenvalues. Without v there are eigenvalues alone: of
// h only the rows and columns change that some of them still depend on.
template <class T>
struct Schur {
  T *h, *v, *re, *im;
  int64_t n;
  T* products;  // the matrix' vectors as rows: of the basis and the vectors of h
  T norm;

  AOT_INLINE T& at(int64_t i, int64_t j) const { return h[i * n + j]; }

  // Rows k and k + 1 (and columns, and those of the basis) turned by (p, q).
  void turn_pair(int64_t k, T p, T q) const {
    rotate(&at(k, k), &at(k + 1, k), n - k, q, p);
    for (int64_t i = 0; i < k + 2; ++i) {
      T* const row = h + i * n + k;
      const T z = row[0];
      row[0] = q * z + p * row[1];
      row[1] = q * row[1] - p * z;
    }
    rotate(v + k * n, v + (k + 1) * n, n, q, p);
  }

  // The eigenvalues of rows last - 1 and last, which stand apart.
  void two(int64_t last, T shifted) const {
    const int64_t k = last - 1;
    const T w = at(last, k) * at(k, last);
    at(last, last) += shifted;
    at(k, k) += shifted;
    const T x = at(last, last);
    T p = (at(k, k) - x) / T(2);
    const T q = p * p + w;
    T z = sqrt(abs(q));
    if (!(q >= T(0))) {
      re[k] = re[last] = x + p;
      im[k] = z;
      im[last] = -z;
      return;
    }
    z = p >= T(0) ? p + z : p - z;
    re[k] = re[last] = x + z;
    if (z != T(0)) re[last] = x - w / z;
    im[k] = im[last] = T(0);
    if (!v) return;
    const T below = at(last, k), size = abs(below) + abs(z);
    p = below / size;
    T turned = z / size;
    const T length = sqrt(p * p + turned * turned);
    turn_pair(k, p / length, turned / length);
    at(last, k) = T(0);
  }

  // p, q and r as parts of a size, by one division but for the least numbers.
  static AOT_INLINE void as_parts(T size, T& p, T& q, T& r) {
    if (__builtin_expect(size > T(1e-30), 1)) {
      const T by = T(1) / size;
      p *= by;
      q *= by;
      r *= by;
      return;
    }
    p /= size;
    q /= size;
    r /= size;
  }

  // One double step on rows first .. last, by the shifts' sum and product.
  void step(int64_t first, int64_t last, T x, T y, T w) const {
    int64_t m = last - 2;
    T p(0), q(0), r(0);
    for (; m >= first; --m) {
      const T z = at(m, m), one = x - z, other = y - z;
      p = (one * other - w) / at(m + 1, m) + at(m, m + 1);
      q = at(m + 1, m + 1) - z - one - other;
      r = at(m + 2, m + 1);
      const T size = abs(p) + abs(q) + abs(r);
      as_parts(size, p, q, r);
      if (m == first) break;
      const T around = abs(at(m - 1, m - 1)) + abs(z) + abs(at(m + 1, m + 1));
      if (abs(at(m, m - 1)) * (abs(q) + abs(r)) < rounding<T>() * (abs(p) * around)) break;
    }
    for (int64_t i = m + 2; i <= last; ++i) {
      at(i, i - 2) = T(0);
      if (i > m + 2) at(i, i - 3) = T(0);
    }
    for (int64_t k = m; k < last; ++k) {
      const bool three = k != last - 1;
      T size(1);
      if (k != m) {
        p = at(k, k - 1);
        q = at(k + 1, k - 1);
        r = three ? at(k + 2, k - 1) : T(0);
        size = abs(p) + abs(q) + abs(r);
        if (size == T(0)) continue;
        as_parts(size, p, q, r);
      }
      const T length = sqrt(p * p + q * q + r * r), s = p < T(0) ? -length : length;
      if (s == T(0)) continue;
      if (k != m) {
        at(k, k - 1) = -s * size;
      } else if (first != m) {
        at(k, k - 1) = -at(k, k - 1);
      }
      p += s;
      bulge(first, k, last, three, {p / s, q / s, r / s}, {q / p, r / p});
    }
  }

  // The rows from k on, and the columns, turned by a reflection of two or three.
  void bulge(int64_t first, int64_t k, int64_t last, bool three, const T (&by)[3],
             const T (&more)[2]) const {
    three ? turned<true>(first, k, last, by, {T(1), more[0], more[1]})
          : turned<false>(first, k, last, by, {T(1), more[0], T(0)});
  }
  template <bool THREE>
  void turned(int64_t first, int64_t k, int64_t last, const T (&by)[3], const T (&more)[3]) const {
    T *const a = h + k * n + k, *const own = v + k * n;
    reflect_rows<THREE>(a, a + n, a + 2 * n, (v ? n : last + 1) - k, more, by);
    for (int64_t i = v ? 0 : first; i <= min64(last, k + 3); ++i) {
      T* const row = h + i * n + k;
      T sum = by[0] * row[0] + by[1] * row[1];
      if constexpr (THREE) {
        sum += by[2] * row[2];
        row[2] -= sum * more[2];
      }
      row[0] -= sum;
      row[1] -= sum * more[1];
    }
    if (v) reflect_rows<THREE>(own, own + n, own + 2 * n, n, by, more);
  }

  // Two real shifts become the one that is nearer to x, twice: as LAPACK has it, so that
  // eigenvalues come in its order.
  static void shift(T& x, T& y, T& w) {
    const T half = (y - x) / T(2), square = half * half + w;
    if (!(square >= T(0))) return;
    const T root = sqrt(square), one = half + root, other = half - root;
    x = y = x + (abs(one) <= abs(other) ? one : other);
    w = T(0);
  }

  // Whether all eigenvalues were found.
  bool find() {
    norm = T(0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i > 0 ? i - 1 : 0; j < n; ++j) norm += abs(at(i, j));
    }
    if (!(norm < T(1) / T(0))) return false;
    T shifted(0);
    int steps = 0;
    for (int64_t last = n - 1; last >= 0;) {
      int64_t first = last;
      for (; first > 0; --first) {
        T size = abs(at(first - 1, first - 1)) + abs(at(first, first));
        if (size == T(0)) size = norm;
        if (abs(at(first, first - 1)) < rounding<T>() * size) break;
        if (at(first, first - 1) == T(0)) break;
      }
      if (first == last) {
        at(last, last) += shifted;
        re[last] = at(last, last);
        im[last] = T(0);
        --last;
        steps = 0;
        continue;
      }
      if (first == last - 1) {
        two(last, shifted);
        last -= 2;
        steps = 0;
        continue;
      }
      if (steps++ == kFrancisSteps) return false;
      T x = at(last, last), y = at(last - 1, last - 1), w = at(last, last - 1) * at(last - 1, last);
      if (steps % 10 == 0) {  // a shift out of turn
        shifted += x;
        for (int64_t i = 0; i <= last; ++i) at(i, i) -= x;
        const T size = abs(at(last, last - 1)) + abs(at(last - 1, last - 2));
        x = y = T(0.75) * size;
        w = T(-0.4375) * size * size;
      }
      if (steps % 10 != 0) shift(x, y, w);
      step(first, last, x, y, w);
    }
    return true;
  }

  // The eigenvectors of h in its columns: real ones, and real and imaginary parts side by side.
  void vectors() const {
    for (int64_t k = n - 1; k >= 0; --k) {
      if (im[k] == T(0)) {
        real_vector(k);
      } else if (im[k] < T(0)) {
        complex_vector(k);
      }
    }
    for (int64_t j = 0; j < n; ++j) {
      T* const row = products + j * n;
      for (int64_t i = 0; i < n; ++i) row[i] = T(0);
      for (int64_t k = 0; k <= j; ++k) add_row(at(k, j), v + k * n, row, n);
    }
  }

  // In place of the distance of two eigenvalues that are one.
  T least() const { return maximum(rounding<T>() * norm, sizeof(T) == 8 ? T(1e-300) : T(1e-36)); }

  void real_vector(int64_t k) const {
    const T value = re[k];
    T s(0), z(0);
    int64_t l = k;
    at(k, k) = T(1);
    for (int64_t i = k - 1; i >= 0; --i) {
      const T w = at(i, i) - value;
      T r(0);
      for (int64_t j = l; j <= k; ++j) r += at(i, j) * at(j, k);
      if (im[i] < T(0)) {
        z = w;
        s = r;
        continue;
      }
      l = i;
      if (im[i] == T(0)) {
        at(i, k) = -r / (w != T(0) ? w : least());
      } else {
        const T x = at(i, i + 1), y = at(i + 1, i), p = re[i] - value;
        const T q = p * p + im[i] * im[i], t = (x * s - z * r) / q;
        at(i, k) = t;
        at(i + 1, k) = abs(x) > abs(z) ? (-r - w * t) / x : (-s - y * t) / z;
      }
      const T t = abs(at(i, k));
      if (rounding<T>() * t * t > T(1)) {
        for (int64_t j = i; j <= k; ++j) at(j, k) /= t;
      }
    }
  }

  void complex_vector(int64_t k) const {
    using C = Complex<T>;
    const T p = re[k], q = im[k];
    int64_t l = k - 1;
    const auto put = [&](int64_t i, C value) {
      at(i, k - 1) = value.re;
      at(i, k) = value.im;
    };
    if (abs(at(k, k - 1)) > abs(at(k - 1, k))) {
      put(k - 1, C{q / at(k, k - 1), -(at(k, k) - p) / at(k, k - 1)});
    } else {
      put(k - 1, C{T(0), -at(k - 1, k)} / C{at(k - 1, k - 1) - p, q});
    }
    put(k, C{T(0), T(1)});
    T z(0), r(0), s(0);
    for (int64_t i = k - 2; i >= 0; --i) {
      T ra(0), sa(0);
      for (int64_t j = l; j <= k; ++j) {
        ra += at(i, j) * at(j, k - 1);
        sa += at(i, j) * at(j, k);
      }
      const T w = at(i, i) - p;
      if (im[i] < T(0)) {
        z = w;
        r = ra;
        s = sa;
        continue;
      }
      l = i;
      if (im[i] == T(0)) {
        put(i, C{-ra, -sa} / C{w, q});
      } else {
        const T x = at(i, i + 1), y = at(i + 1, i);
        C size{(re[i] - p) * (re[i] - p) + im[i] * im[i] - q * q, (re[i] - p) * T(2) * q};
        if (size.re == T(0) && size.im == T(0)) {
          size.re = least() * (abs(w) + abs(q) + abs(x) + abs(y) + abs(z));
        }
        put(i, C{x * r - z * ra + q * sa, x * s - z * sa - q * ra} / size);
        if (abs(x) > abs(z) + abs(q)) {
          at(i + 1, k - 1) = (-ra - w * at(i, k - 1) + q * at(i, k)) / x;
          at(i + 1, k) = (-sa - w * at(i, k) - q * at(i, k - 1)) / x;
        } else {
          put(i + 1, C{-r - y * at(i, k - 1), -s - y * at(i, k)} / C{z, q});
        }
      }
      const T t = maximum(abs(at(i, k - 1)), abs(at(i, k)));
      if (rounding<T>() * t * t > T(1)) {
        for (int64_t j = i; j <= k; ++j) {
          at(j, k - 1) /= t;
          at(j, k) /= t;
        }
      }
    }
  }
};

// x of length 1, its greatest number real.
template <class T>
void normalise(Parts<T> x, int64_t n, bool real) {
  const T square = square_of(x, n), least = sizeof(T) == 8 ? T(1e-200) : T(1e-20);
  const T size = square > least && square < T(1) / least ? sqrt(square) : length_of(x, n);
  if (!(size > T(0))) return;
  scale_row(Complex<T>{T(1) / size, T(0)}, x, n);
  if (real) return;
  const auto square_at = [=](int64_t i) { return x.re[i] * x.re[i] + x.im[i] * x.im[i]; };
  int64_t most = 0;
  for (int64_t i = 1; i < n; ++i) most = square_at(i) > square_at(most) ? i : most;
  scale_row((T(1) / sqrt(square_at(most))) * conjugate(x.get(most)), x, n);
  x.im[most] = T(0);
}

// Record: eigenvalues, and but for VALUES V by rows, with eigenvectors as its columns; NaN where
// none were found.
template <class Cfg>
struct Eig : Finished {
  static constexpr bool kApart = true;
  using T = typename Cfg::A;

  // Side by side, unless there are so few that most lanes would do the same.
  template <class Args>
  static void apart(const Args& p, int64_t first, int64_t lanes, T* records, int64_t ld,
                    Room room) {
    if (4 * lanes <= kLanes<T>) {
      for (int64_t l = 0; l < lanes; ++l) small(p, first + l, records + l * ld, room);
      return;
    }
    const int64_t n = p.n, all = n * n;
    const auto take = [&](int64_t count) { return room.take<T>(count * kLanes<T>); };
    const auto row = [&] { return LaneRow<T>{take(n)}; };
    const LaneMatrix<T> h{take(all), n}, v{Cfg::VALUES ? nullptr : take(all), n};
    const LaneRow<T> values{take(2 * n)}, by = row(), rows = row(), columns = row(), norms = row();
    gather_lanes(p.matrix_a(first), p.a_batch, lanes, n, n, h.at);
    LaneBalance<T>{h, by, rows, columns}.find();
    hessenberg_lanes(h, v);
    const LaneRow<T> im{values.at + n * kLanes<T>};
    norms.set(0, LaneSchur<T, !Cfg::VALUES>{h, v, values, im}.find());
    separate(values.at, 2 * n, records, ld);
    if constexpr (!Cfg::VALUES) {
      T *const each_h = take(all), *const each_v = take(all), *const each_by = take(n);
      separate(h.at, all, each_h, all);
      separate(v.at, all, each_v, all);
      separate(by.at, n, each_by, n);
      T* const made = room.take<T>(all);
      for (int64_t l = 0; l < lanes; ++l) {
        T* const record = records + l * ld;
        const Schur<T> schur{each_h + l * all, each_v + l * all, record, record + n, n, made,
                             norms.at[l]};
        if (record[0] != record[0]) {
          none(p, record);
        } else {
          vectors(schur, each_by + l * n, record, room);
        }
      }
    }
  }

  template <class Args>
  static void one(const Args& p, int64_t matrix, T* record, Room room) {
    if (p.n > kAlone) {
      const Seen<T> seen = p.matrix_a(matrix);
      const auto in = [&](Dense<T> a) { copy_in(seen, p.n, p.n, a); };
      return LargeEig<Dense<T>, Cfg::VALUES>{p.n}.find(in, record, room);
    }
    small(p, matrix, record, room);
  }

  template <class Args>
  static void small(const Args& p, int64_t matrix, T* record, Room room) {
    const int64_t n = p.n;
    T *const h = room.take<T>(n * n), *const v = Cfg::VALUES ? nullptr : room.take<T>(n * n);
    T *const made = room.take<T>(n * n), *const by = room.take<T>(n),
             *const x = room.take<T>(2 * n);
    const Seen<T> seen = p.matrix_a(matrix);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) h[i * n + j] = seen.at[i * seen.row + j * seen.col];
    }
    Balance<Dense<T>>{Dense<T>{h, n}, n, by, nullptr}.scale(0, n, x);
    to_hessenberg(h, n, v, x);
    Schur<T> schur{h, v, record, record + n, n, made, T(0)};
    if (!schur.find()) return none(p, record);
    if constexpr (!Cfg::VALUES) vectors(schur, by, record, room);
  }

  template <class Args>
  static void none(const Args& p, T* record) {
    for (int64_t k = 0; k < p.record; ++k) record[k] = T(0) / T(0);
  }

  static void vectors(const Schur<T>& schur, const T* by, T* record, Room room) {
    const int64_t n = schur.n;
    const T* const made = schur.products;
    schur.vectors();
    const ComplexRows<T> columns{room.take<T>(2 * n * n), n};
    const T* const im = record + n;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t first = im[k] < T(0) ? k - 1 : k;
      const T sign = im[k] < T(0) ? T(-1) : T(1);
      const Parts<T> column = columns.row(k);
      const T *const real = made + first * n, *const other = real + n;
      for (int64_t i = 0; i < n; ++i) {
        column.set(i, {by[i] * real[i], im[k] == T(0) ? T(0) : sign * (by[i] * other[i])});
      }
      normalise(column, n, im[k] == T(0));
    }
    complex_out(columns, n, n, true, record + 2 * n);
  }
};

}  // namespace aot::linalg

#endif  // AOT_LINALG_EIG_H_
