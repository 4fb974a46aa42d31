// A fake libcusolver.so.12: what `aot/host` calls of it, on the fake driver, by the textbook.
#include <algorithm>
#include <cmath>
#include <limits>

#include "memory.h"

API int cusolverDnCreate(void** handle) {
  *handle = new Handle;
  return 0;
}
API int cusolverDnDestroy(Handle* handle) {
  delete handle;
  return 0;
}
API int cusolverDnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return 0;
}
API int cusolverDnCreateParams(void** rules) {
  *rules = new int;
  return 0;
}
API int cusolverDnDestroyParams(void* rules) {
  delete static_cast<int*>(rules);
  return 0;
}
API int cusolverDnCreateGesvdjInfo(void** rules) {
  *rules = new int;
  return 0;
}
API int cusolverDnDestroyGesvdjInfo(void* rules) {
  delete static_cast<int*>(rules);
  return 0;
}

namespace {

template <class T>
int potrf(Handle* h, int n, void* at, int* info) {
  Numbers a = pull<T>(h, at, size_t(n) * n);
  int failed = 0;
  for (int j = 0; j < n && failed == 0; ++j) {
    for (int k = 0; k < j; ++k) {
      for (int i = j; i < n; ++i) {
        a[i + size_t(j) * n] -= a[i + size_t(k) * n] * std::conj(a[j + size_t(k) * n]);
      }
    }
    const double pivot = a[j + size_t(j) * n].real();
    if (!(pivot > 0)) failed = j + 1;
    a[j + size_t(j) * n] = pivot;
    for (int i = j; i < n; ++i) a[i + size_t(j) * n] /= std::sqrt(pivot);
  }
  push<T>(h, at, a);
  push_words(h, info, {failed});
  return 0;
}

// LAPACK's size of a number, by which it chooses pivots.
double rough(Number x) { return std::abs(x.real()) + std::abs(x.imag()); }

template <class T>
int getrf(Handle* h, int m, int n, void* at, int* pivots, int* info) {
  Numbers a = pull<T>(h, at, size_t(m) * n);
  std::vector<int> chosen;
  int singular = 0;
  for (int k = 0; k < std::min(m, n); ++k) {
    int best = k;
    for (int i = k; i < m; ++i) {
      if (rough(a[i + size_t(k) * m]) > rough(a[best + size_t(k) * m])) best = i;
    }
    chosen.push_back(best + 1);
    for (int j = 0; j < n; ++j) std::swap(a[k + size_t(j) * m], a[best + size_t(j) * m]);
    const Number pivot = a[k + size_t(k) * m];
    if (pivot == 0.0) {
      if (singular == 0) singular = k + 1;
      continue;
    }
    for (int i = k + 1; i < m; ++i) a[i + size_t(k) * m] /= pivot;
    for (int j = k + 1; j < n; ++j) {
      for (int i = k + 1; i < m; ++i) {
        a[i + size_t(j) * m] -= a[i + size_t(k) * m] * a[k + size_t(j) * m];
      }
    }
  }
  push<T>(h, at, a);
  push_words(h, pivots, chosen);
  push_words(h, info, {singular});
  return 0;
}

template <class T>
int getrs(Handle* h, int n, int r, const void* at, const int* pivots, void* sides, int* info) {
  const Numbers a = pull<T>(h, at, size_t(n) * n);
  Numbers b = pull<T>(h, sides, size_t(n) * r);
  std::vector<int> rows(static_cast<size_t>(n));
  cuMemcpyDtoHAsync_v2(rows.data(), reinterpret_cast<uint64_t>(pivots), rows.size() * 4, h->stream);
  cuStreamSynchronize(h->stream);
  for (int c = 0; c < r; ++c) {
    Number* const x = b.data() + size_t(c) * n;
    for (int i = 0; i < n; ++i) std::swap(x[i], x[rows[size_t(i)] - 1]);
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < i; ++k) x[i] -= a[i + size_t(k) * n] * x[k];
    }
    for (int i = n - 1; i >= 0; --i) {
      for (int k = i + 1; k < n; ++k) x[i] -= a[i + size_t(k) * n] * x[k];
      x[i] /= a[i + size_t(i) * n];
    }
  }
  push<T>(h, sides, b);
  push_words(h, info, {0});
  return 0;
}

// x -= scale * v (v^H x), of v = (1, below).
void reflect(Number* x, const Number* below, int count, Number scale) {
  Number sum = x[0];
  for (int i = 1; i < count; ++i) sum += std::conj(below[i]) * x[i];
  x[0] -= scale * sum;
  for (int i = 1; i < count; ++i) x[i] -= scale * sum * below[i];
}

template <class T>
int geqrf(Handle* h, int m, int n, void* at, void* taus, int* info) {
  Numbers a = pull<T>(h, at, size_t(m) * n), tau(size_t(std::min(m, n)));
  for (int k = 0; k < std::min(m, n); ++k) {
    Number* const column = a.data() + k + size_t(k) * m;
    double norm = 0, below = 0;
    for (int i = 0; i < m - k; ++i) norm += std::norm(column[i]);
    for (int i = 1; i < m - k; ++i) below += std::norm(column[i]);
    if (below == 0 && column[0].imag() == 0) continue;
    const double beta = -std::copysign(std::sqrt(norm), column[0].real());
    tau[size_t(k)] = (beta - column[0]) / beta;
    for (int i = 1; i < m - k; ++i) column[i] /= column[0] - beta;
    column[0] = beta;
    for (int j = k + 1; j < n; ++j) {
      reflect(a.data() + k + size_t(j) * m, column, m - k, std::conj(tau[size_t(k)]));
    }
  }
  push<T>(h, at, a);
  push<T>(h, taus, tau);
  push_words(h, info, {0});
  return 0;
}

template <class T>
int mqr(Handle* h, bool back, int m, int r, int count, const void* at, int lda, const void* taus,
        void* sides, int* info) {
  const Numbers a = pull<T>(h, at, size_t(lda) * count), tau = pull<T>(h, taus, size_t(count));
  Numbers b = pull<T>(h, sides, size_t(m) * r);
  for (int c = 0; c < r; ++c) {
    for (int step = 0; step < count; ++step) {
      const int k = back ? step : count - 1 - step;
      const Number scale = back ? std::conj(tau[size_t(k)]) : tau[size_t(k)];
      reflect(b.data() + k + size_t(c) * m, a.data() + k + size_t(k) * lda, m - k, scale);
    }
  }
  push<T>(h, sides, b);
  push_words(h, info, {0});
  return 0;
}

// Turns columns of `a` (m x n) against each other until they are orthogonal, those of `v` alike
// (one-sided Jacobi). False: `a` holds no numbers.
bool orthogonalize(Numbers& a, int m, Numbers& v, int n) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) {
        Number *const x = a.data() + size_t(p) * m, *const y = a.data() + size_t(q) * m;
        double xx = 0, yy = 0;
        Number xy = 0;
        for (int i = 0; i < m; ++i) {
          xx += std::norm(x[i]);
          yy += std::norm(y[i]);
          xy += std::conj(x[i]) * y[i];
        }
        if (std::isnan(xx + yy)) return false;
        const double size = std::abs(xy);
        if (size <= 1e-15 * std::sqrt(xx * yy)) continue;
        off = 1;
        const double zeta = (yy - xx) / (2 * size);
        const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double c = 1 / std::sqrt(1 + t * t);
        const Number s = c * t * (xy / size);
        const auto turn = [&](Number* one, Number* other, int count) {
          for (int i = 0; i < count; ++i) {
            const Number before = one[i];
            one[i] = c * before - std::conj(s) * other[i];
            other[i] = s * before + c * other[i];
          }
        };
        turn(x, y, m);
        turn(v.data() + size_t(p) * n, v.data() + size_t(q) * n, n);
      }
    }
    if (off == 0) break;
  }
  return true;
}

std::vector<int> sorted(const Numbers& values, bool falling) {
  std::vector<int> order;
  for (int i = 0; i < int(values.size()); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](int i, int j) {
    const double x = values[size_t(i)].real(), y = values[size_t(j)].real();
    return falling ? x > y : x < y;
  });
  return order;
}

Numbers in_order(const Numbers& columns, int rows, const std::vector<int>& order) {
  Numbers found;
  for (const int j : order) {
    found.insert(found.end(), columns.begin() + j * rows, columns.begin() + (j + 1) * rows);
  }
  return found;
}

Numbers identity(int n) {
  Numbers made(size_t(n) * n);
  for (int i = 0; i < n; ++i) made[size_t(i) * (n + 1)] = 1;
  return made;
}

template <class T, class Real>
int gesvdj(Handle* h, bool vectors, int m, int n, const void* at, void* values, void* us, void* vs,
           int* info) {
  Numbers u = pull<T>(h, at, size_t(m) * n), v = identity(n), sizes;
  const bool is_there = orthogonalize(u, m, v, n);
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < m; ++i) sum += std::norm(u[i + size_t(j) * m]);
    sizes.push_back(std::sqrt(sum));
    for (int i = 0; i < m; ++i) u[i + size_t(j) * m] /= sizes.back();
  }
  const std::vector<int> order = sorted(sizes, true);
  push<Real>(h, values, in_order(sizes, 1, order));
  if (vectors) push<T>(h, us, in_order(u, m, order));
  if (vectors) push<T>(h, vs, in_order(v, n, order));
  push_words(h, info, {is_there ? 0 : n + 1});
  return 0;
}

// Of a matrix that is shifted until it is positive: its columns, made orthogonal, are its
// eigenvectors times eigenvalues.
template <class T, class Real>
int syevd(Handle* h, bool vectors, int n, void* at, void* values, int* info) {
  Numbers a = pull<T>(h, at, size_t(n) * n), v = identity(n), found;
  double shift = 0;
  for (int j = 0; j < n; ++j) {
    a[size_t(j) * (n + 1)] = a[size_t(j) * (n + 1)].real();
    for (int i = 0; i < j; ++i) a[i + size_t(j) * n] = std::conj(a[j + size_t(i) * n]);
  }
  for (const Number x : a) shift += std::abs(x);
  for (int j = 0; j < n; ++j) a[size_t(j) * (n + 1)] += shift;
  const bool is_there = orthogonalize(a, n, v, n);
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += std::norm(a[i + size_t(j) * n]);
    found.push_back(std::sqrt(sum) - shift);
  }
  const std::vector<int> order = sorted(found, false);
  push<Real>(h, values, in_order(found, 1, order));
  push<T>(h, at, vectors ? in_order(v, n, order) : a);
  push_words(h, info, {is_there ? 0 : 1});
  return 0;
}

}  // namespace

#define SIZE(L, name, ...)                                                    \
  API int cusolverDn##L##name##_bufferSize(Handle*, __VA_ARGS__, int* size) { \
    *size = 4;                                                                \
    return 0;                                                                 \
  }

#define OF_TYPE(L, T)                                                                            \
  SIZE(L, potrf, int, int, void*, int)                                                           \
  SIZE(L, getrf, int, int, void*, int)                                                           \
  SIZE(L, geqrf, int, int, void*, int)                                                           \
  API int cusolverDn##L##potrf(Handle* h, int uplo, int n, void* a, int lda, void*, int,         \
                               int* info) {                                                      \
    return uplo == 0 && lda == n ? potrf<T>(h, n, a, info) : 3;                                  \
  }                                                                                              \
  API int cusolverDn##L##getrf(Handle* h, int m, int n, void* a, int lda, void*, int* pivots,    \
                               int* info) {                                                      \
    return lda == m ? getrf<T>(h, m, n, a, pivots, info) : 3;                                    \
  }                                                                                              \
  API int cusolverDn##L##getrs(Handle* h, int trans, int n, int r, const void* a, int lda,       \
                               const int* pivots, void* b, int ldb, int* info) {                 \
    if (trans != 0 || lda != n || ldb != n) return 3;                                            \
    return getrs<T>(h, n, r, a, pivots, b, info);                                                \
  }                                                                                              \
  API int cusolverDn##L##geqrf(Handle* h, int m, int n, void* a, int lda, void* tau, void*, int, \
                               int* info) {                                                      \
    return lda == m ? geqrf<T>(h, m, n, a, tau, info) : 3;                                       \
  }
FOR_EACH_TYPE(OF_TYPE)

// Real and complex ones have different names.
#define NAMED(L, T, Real, mqr_, syevd_, turned)                                                    \
  SIZE(L, mqr_, int, int, int, int, int, const void*, int, const void*, const void*, int)          \
  SIZE(L, syevd_, int, int, int, const void*, int, const void*)                                    \
  API int cusolverDn##L##gesvdj_bufferSize(Handle*, int, int, int, int, const void*, int,          \
                                           const void*, const void*, int, const void*, int,        \
                                           int* size, void*) {                                     \
    *size = 4;                                                                                     \
    return 0;                                                                                      \
  }                                                                                                \
  API int cusolverDn##L##mqr_(Handle* h, int side, int trans, int m, int r, int k, const void* a,  \
                              int lda, const void* tau, void* c, int ldc, void*, int, int* info) { \
    if (side != 0 || (trans != 0 && trans != turned) || ldc != m) return 3;                        \
    return mqr<T>(h, trans != 0, m, r, k, a, lda, tau, c, info);                                   \
  }                                                                                                \
  API int cusolverDn##L##syevd_(Handle* h, int mode, int uplo, int n, void* a, int lda,            \
                                void* values, void*, int, int* info) {                             \
    return uplo == 0 && lda == n ? syevd<T, Real>(h, mode == 1, n, a, values, info) : 3;           \
  }                                                                                                \
  API int cusolverDn##L##gesvdj(Handle* h, int mode, int economy, int m, int n, void* a, int lda,  \
                                void* s, void* u, int ldu, void* v, int ldv, void*, int,           \
                                int* info, void*) {                                                \
    if (economy != 1 || lda != m || ldu != m || ldv != n || m < n) return 3;                       \
    return gesvdj<T, Real>(h, mode == 1, m, n, a, s, u, v, info);                                  \
  }
NAMED(S, float, float, ormqr, syevd, 1)
NAMED(D, double, double, ormqr, syevd, 1)
NAMED(C, std::complex<float>, float, unmqr, heevd, 2)
NAMED(Z, std::complex<double>, double, unmqr, heevd, 2)

namespace {
constexpr int kDouble = 1, kComplexDouble = 5;
}

API int cusolverDnXgeev_bufferSize(Handle*, void*, int, int, int64_t, int, const void*, int64_t,
                                   int, const void*, int, const void*, int64_t, int, const void*,
                                   int64_t, int, size_t* on_device, size_t* on_host) {
  *on_device = *on_host = 64;
  return 0;
}

// Of real matrices that are 2 x 2 blocks along the diagonal, and nothing else.
API int cusolverDnXgeev(Handle* h, void*, int left, int right, int64_t n, int a_type, void* at,
                        int64_t lda, int w_type, void* values, int, void*, int64_t, int v_type,
                        void* vectors, int64_t ldv, int type, void*, size_t, void*, size_t,
                        int* info) {
  if (left != 0 || a_type != kDouble || w_type != kComplexDouble || v_type != kDouble ||
      type != kDouble || lda != n || ldv != n) {
    return 3;
  }
  const Numbers a = pull<double>(h, at, size_t(n * n));
  Numbers found(static_cast<size_t>(n)), v(size_t(n * n));
  for (int64_t i = 0; i < n; i += 2) {
    const auto number = [&](int64_t row, int64_t column) {
      return a[size_t(i + row + (i + column) * n)].real();
    };
    const double middle = (number(0, 0) + number(1, 1)) / 2, b = number(0, 1);
    const double rest = middle * middle - number(0, 0) * number(1, 1) + b * number(1, 0);
    const Number root = std::sqrt(Number(rest));
    Number* const one = v.data() + i + i * n;
    Number* const other = one + n;
    found[size_t(i)] = middle + root;
    found[size_t(i) + 1] = middle - root;
    if (rest < 0) {
      const double norm = std::sqrt(b * b + std::norm(found[size_t(i)] - number(0, 0)));
      one[0] = b / norm;
      one[1] = (middle - number(0, 0)) / norm;
      other[1] = root.imag() / norm;
    } else {
      for (int k = 0; k < 2; ++k) {
        const double below = found[size_t(i + k)].real() - number(0, 0);
        (k ? other : one)[0] = b / std::hypot(b, below);
        (k ? other : one)[1] = below / std::hypot(b, below);
      }
    }
  }
  push<std::complex<double>>(h, values, found);
  if (right != 0) push<double>(h, vectors, v);
  push_words(h, info, {0});
  return 0;
}
