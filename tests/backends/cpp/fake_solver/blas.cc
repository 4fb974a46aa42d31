// A fake libcublas.so.13: what `aot/host` calls of it, on the fake driver, slowly.
#include "memory.h"

API int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return 0;
}
API int cublasDestroy_v2(Handle* handle) {
  delete handle;
  return 0;
}
API int cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return 0;
}

namespace {

size_t reach(int count, int step) { return size_t(count - 1) * size_t(step) + 1; }

template <class T>
int copy(Handle* h, int n, const void* x, int x_step, void* y, int y_step) {
  const Numbers from = pull<T>(h, x, reach(n, x_step));
  Numbers to = pull<T>(h, y, reach(n, y_step));
  for (int i = 0; i < n; ++i) to[size_t(i) * y_step] = from[size_t(i) * x_step];
  push<T>(h, y, to);
  return 0;
}

// C = A, or A turned.
template <class T>
int geam(Handle* h, int turned, int m, int n, const void* a, int lda, void* c, int ldc) {
  const Numbers from = pull<T>(h, a, reach(turned ? m : n, lda) + size_t(turned ? n : m) - 1);
  Numbers to(size_t(ldc) * size_t(n));
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < m; ++i) {
      to[i + size_t(j) * ldc] = turned ? from[j + size_t(i) * lda] : from[i + size_t(j) * lda];
    }
  }
  push<T>(h, c, to);
  return 0;
}

template <class T>
int scal(Handle* h, int n, const T* alpha, void* x) {
  Numbers numbers = pull<T>(h, x, size_t(n));
  for (Number& number : numbers) number *= wide(*alpha);
  push<T>(h, x, numbers);
  return 0;
}

// The lower triangle, packed by columns; `back`: from there.
template <class T>
int packed(Handle* h, int n, void* square, void* triangle, bool back) {
  Numbers a = pull<T>(h, square, size_t(n) * n), p = pull<T>(h, triangle, size_t(n) * (n + 1) / 2);
  size_t at = 0;
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i, ++at)
      (back ? a[i + size_t(j) * n] : p[at]) = back ? p[at] : a[i + size_t(j) * n];
  }
  push<T>(h, back ? square : triangle, back ? a : p);
  return 0;
}

template <class T>
int trsm(Handle* h, bool upper, bool unit, int n, int r, const void* triangle, int lda, void* sides,
         int ldb) {
  const Numbers a = pull<T>(h, triangle, reach(n, lda) + size_t(n) - 1);
  Numbers b = pull<T>(h, sides, reach(r, ldb) + size_t(n) - 1);
  for (int c = 0; c < r; ++c) {
    Number* const x = b.data() + size_t(c) * ldb;
    for (int step = 0; step < n; ++step) {
      const int i = upper ? n - 1 - step : step;
      for (int k = upper ? i + 1 : 0; k < (upper ? n : i); ++k)
        x[i] -= a[i + size_t(k) * lda] * x[k];
      if (!unit) x[i] /= a[i + size_t(i) * lda];
    }
  }
  push<T>(h, sides, b);
  return 0;
}

}  // namespace

// Other settings than those that are used are no such function's.
#define OF_TYPE(L, T)                                                                             \
  API int cublas##L##copy_v2(Handle* h, int n, const void* x, int i, void* y, int j) {            \
    return copy<T>(h, n, x, i, y, j);                                                             \
  }                                                                                               \
  API int cublas##L##geam(Handle* h, int ta, int tb, int m, int n, const T* alpha, const void* a, \
                          int lda, const T* beta, const void* b, int ldb, void* c, int ldc) {     \
    if (wide(*alpha) != 1.0 || wide(*beta) != 0.0 || tb != 0 || b != c || ldb != ldc) return 7;   \
    return geam<T>(h, ta, m, n, a, lda, c, ldc);                                                  \
  }                                                                                               \
  API int cublas##L##scal_v2(Handle* h, int n, const T* alpha, void* x, int step) {               \
    return step == 1 ? scal<T>(h, n, alpha, x) : 7;                                               \
  }                                                                                               \
  API int cublas##L##trttp(Handle* h, int uplo, int n, void* a, int lda, void* p) {               \
    return uplo == 0 && lda == n ? packed<T>(h, n, a, p, false) : 7;                              \
  }                                                                                               \
  API int cublas##L##tpttr(Handle* h, int uplo, int n, void* p, void* a, int lda) {               \
    return uplo == 0 && lda == n ? packed<T>(h, n, a, p, true) : 7;                               \
  }                                                                                               \
  API int cublas##L##trsm_v2(Handle* h, int side, int uplo, int trans, int diag, int n, int r,    \
                             const T* alpha, const void* a, int lda, void* b, int ldb) {          \
    if (side != 0 || trans != 0 || wide(*alpha) != 1.0) return 7;                                 \
    return trsm<T>(h, uplo == 1, diag == 1, n, r, a, lda, b, ldb);                                \
  }
FOR_EACH_TYPE(OF_TYPE)
