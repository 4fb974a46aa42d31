/* Contract between custom operators and the runtime. C11; needs nothing of the runtime to link.
 *
 * A custom operator is one of the model's that the compiler has no kernel for. The package calls
 * it by name; its code is either registered in the process that loads the package
 * (aot_register_operator in abi.h), or carried in the package as a shared object that exports
 * `aot_operator_library_init`. */
#ifndef AOT_OPERATOR_ABI_H_
#define AOT_OPERATOR_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "aot/dlpack.h"

#ifdef __cplusplus
extern "C" {
#endif

#define AOT_OPERATOR_ABI_VERSION 1u

/* What an argument's elements are. */
typedef enum aot_argument_kind {
  AOT_ARGUMENT_NONE = 0, /* an optional argument that is not given */
  AOT_ARGUMENT_TENSOR = 1,
  AOT_ARGUMENT_INT = 2,
  AOT_ARGUMENT_FLOAT = 3,
  AOT_ARGUMENT_BOOL = 4,
  AOT_ARGUMENT_STRING = 5 /* also dtypes ("float32"), devices and layouts */
} aot_argument_kind;

/* One argument of the operator's schema. Exactly one of the pointers is set, by the kind, and has
 * `count` elements: 1, or those of a list; all are NULL for AOT_ARGUMENT_NONE. */
typedef struct aot_argument {
  const char* name;   /* as in the schema */
  int32_t kind;       /* an aot_argument_kind */
  int32_t is_list;    /* 1: the schema has a list */
  int32_t is_changed; /* 1: the schema says that the operator changes the tensors in place */
  size_t count;       /* of elements */
  const DLTensor* tensors;
  const int64_t* ints; /* AOT_ARGUMENT_INT; of AOT_ARGUMENT_BOOL 0 or 1 */
  const double* floats;
  const char* const* strings; /* UTF-8, end with NUL */
} aot_argument;

/* One call. All that it points to is the runtime's and lives until the function returns.
 *
 * Tensors are C-contiguous; `strides` (in elements) are always there, `byte_offset` is 0. `data` is
 * aligned to the element, and may be NULL where a tensor has no elements. Arguments are read-only
 * unless `is_changed`: they may be weights in a mapped file. Results are uninitialised, do not
 * overlap with anything, and must be written whole.
 *
 * Code for "cuda" is given tensors whose device is kDLCUDA and whose `data` are addresses of that
 * GPU. Its primary context is current. Arguments are what earlier work in `stream` leaves there,
 * and later work in it reads the results: enqueue into `stream`, and wait for nothing. Memory of
 * the operator's own must stay until the stream has used it. */
typedef struct aot_operator_call {
  size_t struct_size; /* of the runtime's struct; newer runtimes append fields */
  const char* name;   /* "ns::name", or "ns::name.overload" */
  size_t argument_count;
  const aot_argument* arguments; /* all of the schema's, in its order, defaults included */
  size_t result_count;
  const DLTensor* results; /* in the schema's order; a list's elements one after the other */
  void* stream;            /* NULL on the CPU; the run's CUstream on a GPU */
  /* Says why the call fails, before the function returns another number than 0. `message`, UTF-8,
   * is copied. Any thread, one at a time. */
  void (*fail)(const struct aot_operator_call* call, const char* message);
} aot_operator_call;

/* Computes the results; 0: done. Another number ends the run with AOT_OPERATOR_FAILED, the message
 * that `fail` was given, and the model's line. Called in the thread that runs the session, by
 * several threads at once when several sessions run. Must not throw, and must not call the session
 * that runs it. */
typedef int (*aot_operator_fn)(const aot_operator_call* call, void* user);

/* Takes the operators of a library. */
typedef struct aot_operator_registry {
  size_t struct_size;
  uint32_t abi_version; /* AOT_OPERATOR_ABI_VERSION of the runtime */
  void* context;        /* the runtime's */
  /* Adds an operator; 0: done. `name` is copied. `release` (may be NULL) is called with `user` when
   * nobody can call the function any more. */
  int (*add)(const struct aot_operator_registry* registry, const char* name,
             aot_operator_fn function, void* user, void (*release)(void* user));
  /* The same for programs that run on a kind of device, as sessions name it: "cpu", which `add`
   * stands for, or "cuda". A name may have code for several. Code for a kind that the runtime does
   * not know is never called. Runtimes whose `struct_size` ends before it know "cpu" alone. */
  int (*add_for)(const struct aot_operator_registry* registry, const char* device, const char* name,
                 aot_operator_fn function, void* user, void (*release)(void* user));
} aot_operator_registry;

/* What a carried library exports under the name `aot_operator_library_init`: adds its operators to
 * the registry, and gives 0, or another number if it cannot serve this runtime. Called once for
 * each package that carries the library, and when such a package is built. Must not throw, nor
 * call the runtime otherwise. */
typedef int (*aot_operator_library_init_fn)(const aot_operator_registry* registry);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* AOT_OPERATOR_ABI_H_ */
