/* A kernel library for tests, written by hand. ISA (a string) and ABI (a number) come from the
 * compiler's command line. Also built by tests/runtime/make_package.py. */
#include "aot/kernel_abi.h"

/* y[i, j] = x[i, j] + bias[j]; unit: a row */
static void add_bias(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* x = a->buffers[0];
  const float* bias = a->buffers[1];
  float* y = a->buffers[2];
  const int64_t n = a->sizes[0];
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = x[i * n + j] + bias[j];
}

/* y = factor[0] * x; unit: an element */
static void scale(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* x = a->buffers[0];
  const float* factor = a->buffers[1];
  float* y = a->buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = factor[0] * x[i];
}

/* y[i] = sum_j x[i, j], through this worker's scratch; unit: a row */
static void row_sum(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* x = a->buffers[0];
  float* y = a->buffers[1];
  float* scratch = a->scratch;
  const int64_t n = a->sizes[0];
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < n; ++j) scratch[j] = x[i * n + j];
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += scratch[j];
    y[i] = sum;
  }
}

/* y[i] = table[index[i]], clamped, with a fault when out of range; unit: an element */
static void gather(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const float* table = a->buffers[0];
  const int64_t* index = a->buffers[1];
  float* y = a->buffers[2];
  const int64_t n = a->sizes[0];
  for (int64_t i = begin; i < end; ++i) {
    int64_t k = index[i];
    if (k < 0 || k >= n) {
      *a->fault = AOT_KERNEL_FAULT_INDEX;
      k = 0;
    }
    y[i] = table[k];
  }
}

/* bytes of y = bytes of x; unit: a byte */
static void copy_bytes(const aot_kernel_args* a, int64_t begin, int64_t end) {
  const char* x = a->buffers[0];
  char* y = a->buffers[1];
  for (int64_t i = begin; i < end; ++i) y[i] = x[i];
}

static const aot_kernel_entry entries[] = {{"add_bias", add_bias}, {"scale", scale},
  {"row_sum", row_sum}, {"gather", gather}, {"copy_bytes", copy_bytes}};
static const aot_kernel_library library = {ABI, 5, ISA, entries};

__attribute__((visibility("default")))
const aot_kernel_library* aot_kernel_library_query(uint32_t version) {
  return version == ABI ? &library : 0;
}
