/* Contract between generated CPU kernels and the runtime. C11; both sides include it, nobody else.
 *
 * A kernel library is one ELF shared object per ISA level. It exports exactly one symbol,
 * `aot_kernel_library_query`, and depends on nothing but libc and libm.
 * Kernels own no threads, allocate nothing, and may run concurrently on disjoint ranges. */
#ifndef AOT_KERNEL_ABI_H_
#define AOT_KERNEL_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AOT_KERNEL_ABI_VERSION 1u

/* What a kernel sets in `*fault` when it finds bad data. Zero means none. */
enum aot_kernel_fault {
  AOT_KERNEL_FAULT_NONE = 0,
  AOT_KERNEL_FAULT_INDEX = 1 /* an index read from a tensor is out of range (access clamped) */
};

/* Arguments of one launch; owned by the runtime, constant while the launch runs. */
typedef struct aot_kernel_args {
  void* const* buffers; /* one address per buffer, in the order of the plan's step */
  const int64_t* sizes; /* one value per size argument, in the order of the plan's step */
  /* This worker's own, 64-byte aligned, `scratch` bytes as in the plan; may be NULL if 0. */
  void* scratch;
  /* Written (never read) with an aot_kernel_fault when data is bad; may be shared by workers. */
  int32_t* fault;
} aot_kernel_args;

/* Computes the work units [begin, end) of the kernel's iteration space; 0 <= begin <= end <= work.
 * Units are independent: any split of [0, work) over any workers gives the same bytes. */
typedef void (*aot_kernel_fn)(const aot_kernel_args* args, int64_t begin, int64_t end);

typedef struct aot_kernel_entry {
  const char* name; /* equals the plan's kernel name at the same position */
  aot_kernel_fn run;
} aot_kernel_entry;

typedef struct aot_kernel_library {
  uint32_t abi_version; /* AOT_KERNEL_ABI_VERSION of the compiler */
  uint32_t kernel_count;
  const char* isa; /* "x86-64-v2", "x86-64-v3", "x86-64-v4" */
  const aot_kernel_entry* kernels;
} aot_kernel_library;

/* Returns the library's table, or NULL when `runtime_version` is not one that it can serve.
 * The table lives as long as the shared object stays loaded. */
typedef const aot_kernel_library* (*aot_kernel_library_query_fn)(uint32_t runtime_version);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* AOT_KERNEL_ABI_H_ */
