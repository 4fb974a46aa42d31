// Eigenvalues and eigenvectors of one large matrix, real or complex: balanced, brought to
// Hessenberg's form by blocks (hessenberg.h), from there to Schur's by sweeps of many shifts
// (multishift.h); vectors are those of Schur's form (schur_vectors.h), turned back by products.
#ifndef AOT_LINALG_LARGE_EIG_H_
#define AOT_LINALG_LARGE_EIG_H_

#include "aot/linalg/balance.h"
#include "aot/linalg/hessenberg.h"
#include "aot/linalg/schur_vectors.h"
#include "aot/linalg/secular.h"

namespace aot::linalg {

inline constexpr int64_t kAlone = 75;  // rows up to which blocks do not pay

template <class M, bool VALUES>
struct LargeEig;
template <class M, class T>
void find_vectors(const LargeEig<M, false>& of, M t, M z, const Balance<M>& balance, T* out,
                  Room room);

template <class M, bool VALUES>
struct LargeEig {
  using N = typename M::Number;
  using T = typename M::Element;
  int64_t n;

  // `in` copies the matrix. Record: values, and but for VALUES vectors as columns, part after part;
  // NaN where there are none.
  template <class In>
  void find(const In& in, T* record, Room room) const {
    const M a = take_dense<M>(n, n, room);
    const M z = VALUES ? dense_at<M>(nullptr, 0) : take_dense<M>(n, n, room);
    const M tau = take_dense<M>(1, n, room);
    const Balance<M> balance{a, n, room.take<T>(n), room.take<int64_t>(n)};
    T* const sizes = room.take<T>(2 * n);
    in(a);
    const T unit = scale(a);
    const Spectrum<M> spectrum{a, z, n};
    if (unit == T(0)) return none(record);
    balance.find(sizes);
    reduce(Hessenberg<M>{a, n, tau}, room);
    if (!VALUES) hessenberg_basis(a, n, tau, z, room);
    for (int64_t i = 2; i < n; ++i) {
      for (int64_t j = 0; j + 1 < i; ++j) a.set(i, j, Real<N>::number(0));
    }
    if (!find_spectrum(Multishift<M>{spectrum}, room)) return none(record);
    for (int64_t k = 0; k < n;) {
      Complex<T> values[2];
      const int rows = values_at(a, n, k, values);
      for (int r = 0; r < rows; ++r) {
        record[k + r] = values[r].re / unit;
        record[n + k + r] = values[r].im / unit;
      }
      k += rows;
    }
    if constexpr (!VALUES) find_vectors(*this, a, z, balance, record + 2 * n, room);
  }

  void none(T* record) const {
    for (int64_t i = 0; i < (VALUES ? 2 * n : 2 * n * (n + 1)); ++i) record[i] = T(0) / T(0);
  }

  // A power of two that makes the greatest element ordinary; 0 where an element is none.
  T scale(M a) const {
    T most(0);
    for (int p = 0; p < M::kParts; ++p) {
      for (int64_t i = 0; i < n; ++i) {
        const T* const row = a.part(p) + i * a.ld;
        for (int64_t j = 0; j < n; ++j) most = maximum(most, abs(row[j]));
      }
    }
    const T by = ordinary(most);
    for (int64_t i = 0; i < n && by != T(0) && by != T(1); ++i) {
      for (int p = 0; p < M::kParts; ++p) scale_row(by, a.part(p) + i * a.ld, n);
    }
    return by;
  }

  void vectors(M t, M z, const Balance<M>& balance, T* out, Room room) const {
    const SchurVectors<M> found(t, n, room);
    const int64_t wide = SchurVectors<M>::columns_for(n);
    const Dense<T> made{room.take<T>(n * found.x.ld), found.x.ld};
    found.find(room);
    found.turn_back(z, made, room);
    T *const size = room.take<T>(wide), *const most = room.take<T>(wide);
    for (int64_t i = 0; i < n; ++i) scale_row(-balance.by[i], made.line(i, 0), wide);
    sizes_of_columns(made, wide, size, most, room.take<T>(wide));
    for (const auto& kind : found.kinds) {
      put_columns(found, kind, made, size, balance.order, out, room);
    }
  }

  // Lengths of columns' parts, by their greatest elements.
  // Sums are of sums of a few rows, which err by less.
  void sizes_of_columns(Dense<T> a, int64_t wide, T* size, T* most, T* sums) const {
    constexpr int64_t kFew = 32;
    for (int64_t j = 0; j < wide; ++j) size[j] = most[j] = T(0);
    for (int64_t i = 0; i < n; ++i) {
      const T* const row = a.line(i, 0);
      for (int64_t j = 0; j < wide; ++j) most[j] = maximum(most[j], abs(row[j]));
    }
    for (int64_t j = 0; j < wide; ++j) most[j] = most[j] > T(0) ? most[j] : T(1);
    for (int64_t first = 0; first < n; first += kFew) {
      for (int64_t j = 0; j < wide; ++j) sums[j] = T(0);
      for (int64_t i = first; i < min64(n, first + kFew); ++i) {
        const T* const row = a.line(i, 0);
        for (int64_t j = 0; j < wide; ++j) {
          const T part = row[j] / most[j];
          sums[j] += part * part;
        }
      }
      for (int64_t j = 0; j < wide; ++j) size[j] += sums[j];
    }
    for (int64_t j = 0; j < wide; ++j) size[j] = most[j] * sqrt(size[j]);
  }

  // Vectors of one kind, of length 1, into the result: of a pair also the other one.
  void put_columns(const SchurVectors<M>& found, const VectorKind<T>& kind, Dense<T> made,
                   const T* size, const int64_t* order, T* out, Room room) const {
    const bool complex = M::kParts == 2 || &kind == &found.kinds[1];
    T *const re = room.take<T>(kind.count), *const im = room.take<T>(kind.count);
    T* const greatest = room.take<T>(kind.count);
    int64_t* const at = room.take<int64_t>(kind.count);
    for (int64_t j = 0; j < kind.count; ++j) {
      const T length = complex ? hypot(size[kind.at + j], size[kind.im_at + j]) : size[kind.at + j];
      re[j] = T(1) / length;
      im[j] = greatest[j] = T(0);
      at[j] = -1;
    }
    if (complex) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < kind.count; ++j) {
          const T x = made.get(i, kind.at + j) * re[j], y = made.get(i, kind.im_at + j) * re[j];
          const T square = x * x + y * y;
          at[j] = square > greatest[j] ? i : at[j];
          greatest[j] = maximum(greatest[j], square);
        }
      }
      for (int64_t j = 0; j < kind.count; ++j) {
        if (at[j] < 0) continue;
        const Complex<T> own{made.get(at[j], kind.at + j), made.get(at[j], kind.im_at + j)};
        const T length = re[j], by = modulus(own);
        re[j] = length * (own.re / by);
        im[j] = -length * (own.im / by);
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      T *const row = out + order[i] * n, *const im_row = row + n * n;
      for (int64_t j = 0; j < kind.count; ++j) {
        const int64_t k = kind.places[j];
        const Complex<T> own{made.get(i, kind.at + j),
                             complex ? made.get(i, kind.im_at + j) : T(0)};
        const Complex<T> value = Complex<T>{re[j], im[j]} * own;
        row[k] = value.re;
        im_row[k] = i == at[j] ? T(0) : value.im;
        if (M::kParts == 1 && complex) {
          row[k + 1] = value.re;
          im_row[k + 1] = -im_row[k];
        }
      }
    }
  }
};

// A function of its own, which models share (aot/tmpl/apart.h).
template <class M, class T>
void find_vectors(const LargeEig<M, false>& of, M t, M z, const Balance<M>& balance, T* out,
                  Room room) {
  of.vectors(t, z, balance, out, room);
}

}  // namespace aot::linalg

#endif  // AOT_LINALG_LARGE_EIG_H_
