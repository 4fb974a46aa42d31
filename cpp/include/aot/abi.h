/* The C interface of the runtime. C11; stable within a major version of AOT_ABI_VERSION.
 *
 *   aot_package* package = NULL;
 *   aot_session* session = NULL;
 *   aot_status* status = aot_package_open("model.pkg", NULL, &package);
 *   if (status == NULL) status = aot_session_create(package, "cpu", NULL, &session);
 *   if (status == NULL) status = aot_session_run(session, inputs, 1, outputs, 1, NULL);
 *   if (status != NULL) fprintf(stderr, "%s\n", aot_status_message(status));
 *
 * Rules that hold for every function:
 *   - A function that can fail returns aot_status*: NULL is success; anything else is owned by the
 *     caller and freed with aot_status_free. On failure no output parameter is written.
 *   - No C++ exception leaves the library.
 *   - Option structs begin with `struct_size = sizeof(struct)`; fields that a caller's older struct
 *     does not have take their defaults. NULL options mean all defaults; so does a zeroed field. A
 *     newer struct that sets a field which the library does not know fails with INVALID_ARGUMENT.
 *   - Strings are UTF-8, end with NUL, and unless said otherwise belong to the object asked. */
#ifndef AOT_ABI_H_
#define AOT_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "aot/dlpack.h"
#include "aot/operator_abi.h"

#if defined(_WIN32)
#define AOT_API
#else
#define AOT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define AOT_ABI_VERSION 1u
#define AOT_HAS_GROWTH 1 /* aot_has_feature and the other functions of "growth" are there */

/* ---------------------------------------------------------------- status */

/* Why a call failed. Values never change meaning; new ones may be added at the end. */
typedef enum aot_code {
  AOT_OK = 0,
  /* When an argument is wrong apart from sizes: a count of inputs, a dtype, a device, a null
   * pointer, an index in the data that lies outside its tensor, an assertion of the model that
   * does not hold. The caller can repair it. */
  AOT_INVALID_ARGUMENT = 1,
  /* When a rank or a size breaks the model's contract: another size, out of range, not a multiple,
   * or two inputs that disagree. The message names input, dimension, what came, what is allowed.
   * Also when a size that the model itself computes is out of its range. */
  AOT_SHAPE_MISMATCH = 2,
  /* When a file, an entry or a name does not exist, or the device's code of a custom operator. */
  AOT_NOT_FOUND = 3,
  /* When the file is not a package, or its bytes contradict its own description or checksums. */
  AOT_CORRUPT_PACKAGE = 4,
  /* When the package is whole but of a format or kernel ABI that this runtime does not read. */
  AOT_INCOMPATIBLE = 5,
  /* When the package has nothing for this machine or for what was asked: an instruction set that
   * is missing in the package or in the CPU, a device that is not there. */
  AOT_UNAVAILABLE = 6,
  /* When memory for the run could not be had. The session stays usable. */
  AOT_OUT_OF_MEMORY = 7,
  /* When the operating system or a device refuses what should work: reading the file, loading
   * kernels into memory, starting threads. */
  AOT_DEVICE_ERROR = 8,
  /* When a request is legal but this build cannot do it, such as an element type or a feature. */
  AOT_UNSUPPORTED = 9,
  /* When the runtime broke its own rules: a bug to report. */
  AOT_INTERNAL = 10,
  /* When a custom operator reports that it failed; the message is its own. */
  AOT_OPERATOR_FAILED = 11,
  /* When a run was cancelled through its aot_cancellation. The session stays usable. */
  AOT_CANCELLED = 12,
  /* When a run took longer than it was given. The session stays usable. */
  AOT_DEADLINE_EXCEEDED = 13,
  /* When a package or a run would need more than aot_limits allows: the message names which. */
  AOT_LIMIT_EXCEEDED = 14,
  /* When the caller's own policy does not allow the package: it is not signed by whom it should be,
   * has code that is not listed, or this machine cannot check what the policy wants. Nothing of the
   * package was made executable. */
  AOT_REFUSED = 15
} aot_code;

/* A failure. Immutable; may be read from any thread. */
typedef struct aot_status aot_status;

/* The code; AOT_OK for NULL. */
AOT_API aot_code aot_status_code(const aot_status* status);
/* What went wrong, where, and what to do; "" for NULL. Lives as long as the status. */
AOT_API const char* aot_status_message(const aot_status* status);
/* The model's source behind the failing step ("model.py:12 aten.add.Tensor"), or "". */
AOT_API const char* aot_status_origin(const aot_status* status);
/* Frees a status; NULL is allowed. */
AOT_API void aot_status_free(aot_status* status);
/* "INVALID_ARGUMENT" and so on; static. "UNKNOWN" for a value that is no code. */
AOT_API const char* aot_code_name(aot_code code);

/* AOT_ABI_VERSION of the library in use. */
AOT_API uint32_t aot_abi_version(void);
/* "0.1.0"; static. */
AOT_API const char* aot_runtime_version(void);

/* ---------------------------------------------------------------- hooks */

typedef enum aot_log_level {
  AOT_LOG_DEBUG = 0,
  AOT_LOG_INFO = 1,
  AOT_LOG_WARNING = 2
} aot_log_level;

/* Called from the thread at work; `message` lives for the call. Must not call the package. */
typedef void (*aot_log_fn)(void* context, aot_log_level level, const char* message);

/* Memory for arena, scratch, copies of inputs, and outputs. Both functions may be called from any
 * thread, and `release` until the last output is deleted, even after the session is gone: keep the
 * context alive that long. `allocate` returns NULL for "none left"; `alignment` is a power of 2. */
typedef struct aot_allocator {
  size_t struct_size;
  void* context;
  void* (*allocate)(void* context, size_t size, size_t alignment);
  void (*release)(void* context, void* data, size_t size, size_t alignment);
} aot_allocator;

/* The caller's own threads. `run` calls task(data, i) once for each i in [0, count), from any
 * threads and in any order, also one after the other, and returns when all have returned.
 * `workers` is the greatest useful count (>= 1). The context must outlive the session. */
typedef struct aot_executor {
  size_t struct_size;
  void* context;
  int32_t workers;
  void (*run)(void* context, int32_t count, void (*task)(void* data, int32_t index), void* data);
} aot_executor;

/* ---------------------------------------------------------------- operators */

/* Gives a custom operator its code in this process: every package that calls `name` ("ns::name", or
 * "ns::name.overload") and carries none of its own finds it when a session is created. Register
 * before that. A second registration takes the first one's place for sessions created later; those
 * that exist keep what they have. A NULL function takes the code away. `name` is copied. `release`
 * (may be NULL) is called with `user`, from any thread, when neither the registration nor a session
 * can call the function any more, not on failure. May be called from any thread. */
AOT_API aot_status* aot_register_operator(const char* name, aot_operator_fn function, void* user,
                                          void (*release)(void* user));

/* The same for sessions on a kind of device: "cpu", which aot_register_operator stands for, or
 * "cuda", where operator_abi.h says what the function is given. A name may have code for several
 * kinds; a session is never given that of another. Fails with UNAVAILABLE for a kind that this
 * runtime does not know. */
AOT_API aot_status* aot_register_operator_for(const char* device, const char* name,
                                              aot_operator_fn function, void* user,
                                              void (*release)(void* user));

/* ---------------------------------------------------------------- package */

/* An open package: the mapped file, its checked plan, loaded kernels, present weights. Safe to
 * share between threads; sessions keep it alive, so it may be freed while they live. */
typedef struct aot_package aot_package;

/* How much of a package is checked. Header, manifest and plan always are, when it is opened, and
 * code when it is loaded: from private copies, which are what is then used. */
typedef enum aot_verify {
  AOT_VERIFY_DEFAULT = 0, /* no more than that */
  AOT_VERIFY_FULL = 1,    /* every byte of the files, now, with all cores (reads all of it) */
  AOT_VERIFY_LAZY = 2     /* weights too: those that a session uses, when it is created */
} aot_verify;

/* What a session may use. 0 is the default: 256 MiB for plans, 2^32 turns, else no limit. What
 * would pass a limit fails with LIMIT_EXCEEDED, and nothing has been allocated. */
typedef struct aot_limits {
  size_t struct_size;
  int64_t plan_bytes;   /* of what is kept resolved for sets of sizes; the least used goes first */
  int64_t arena_bytes;  /* of temporaries and scratch, while one run is in progress */
  int64_t state_bytes;  /* of all states of the session */
  int64_t output_bytes; /* of all outputs of one run */
  int64_t loop_turns;   /* of all loops of one run together */
  int64_t run_ns;       /* of one run, in nanoseconds; as aot_run_options.timeout_ns */
} aot_limits;

/* What a caller allows of a package. Whatever it does not allow is REFUSED when the package is
 * opened, before anything of it is mapped executable or given to the dynamic linker or a driver.
 * Strings are borrowed for the call. Zeroed fields allow everything. */
typedef struct aot_policy {
  size_t struct_size;
  /* Ed25519 public keys: 64 hexadecimal digits each, or PEM. `signatures` of them must have signed
   * the package; 0 stands for 1 where there are keys. OpenSSL's libcrypto (1.1.1 or newer) must be
   * installed. What is signed is the manifest, so with keys weights are checked as by
   * AOT_VERIFY_LAZY, unless `trust_weights` is 1. */
  const char* const* keys;
  size_t key_count;
  size_t signatures;
  int32_t trust_weights;
  int32_t no_operator_libraries; /* 1: refuses packages that carry custom operators */
  /* SHA-256, in lower-case hexadecimal, of the code that is allowed: every kernel library, device
   * kernel and operator library of every program must be in it. NULL: any code. */
  const char* const* code;
  size_t code_count;
  /* 1: refuses packages whose kernels do not declare what they touch, so that nothing proves it. */
  int32_t require_proved;
  int32_t reserved;         /* 0 */
  const aot_limits* limits; /* the most that sessions may use, whatever they ask for; NULL: none */
} aot_policy;

typedef struct aot_package_options {
  size_t struct_size;
  int32_t verify;    /* an aot_verify */
  aot_log_fn log;    /* NULL: silent */
  void* log_context; /* passed to `log`; must outlive package and sessions */
  /* The file of the weights, of a package that does not hold them (--weights-file); NULL: the one
   * that the package names, beside it. A package in memory needs it. */
  const char* weights;
  const aot_policy* policy; /* borrowed for the call; NULL: everything is allowed */
  /* 1: files are read into memory, in large pages where the system has them, and not mapped: what
   * becomes of them then does not matter, but the process shares no memory with others. */
  int64_t copy;
} aot_package_options;

/* Maps and checks a package file. Without `copy` it must not be changed in place while it is open:
 * rename another one over it. (Code, plan and manifest are copies; where weights are mapped a file
 * that is cut short ends the process with SIGBUS.) Writes *package, owned by the caller. */
AOT_API aot_status* aot_package_open(const char* path, const aot_package_options* options,
                                     aot_package** package);

/* The same from memory, borrowed: 64-byte aligned, unchanged, alive until the last is freed. */
AOT_API aot_status* aot_package_open_memory(const void* data, size_t size,
                                            const aot_package_options* options,
                                            aot_package** package);

/* Gives up the caller's reference; NULL is allowed. */
AOT_API void aot_package_free(aot_package* package);

/* One dimension of an input or output. */
typedef struct aot_dim_info {
  int64_t size;        /* -1: dynamic */
  int64_t min;         /* least size */
  int64_t max;         /* greatest size; -1: unbounded */
  int64_t multiple_of; /* 1 when free */
  const char* label;   /* "batch", "s0 * 2", "64" */
} aot_dim_info;

/* One input, output or state. */
typedef struct aot_tensor_info {
  const char* name;
  const char* dtype_name; /* "float32" */
  DLDataType dtype;
  int32_t ndim;
  const aot_dim_info* dims; /* ndim of them; of a state all are constant */
  int32_t changed; /* of an input: 1 if a run writes a new value into the caller's memory */
} aot_tensor_info;

/* One entry of the file. `data` points into the mapping. */
typedef struct aot_entry_info {
  const char* name;
  const char* dtype; /* as safetensors spells it: "F32" */
  int32_t ndim;
  const int64_t* shape;
  const void* data;
  size_t size; /* bytes */
} aot_entry_info;

/* Everything below lives as long as the package, and is NULL only for an index out of range. */
AOT_API size_t aot_package_input_count(const aot_package* package);
AOT_API size_t aot_package_output_count(const aot_package* package);
AOT_API const aot_tensor_info* aot_package_input(const aot_package* package, size_t index);
AOT_API const aot_tensor_info* aot_package_output(const aot_package* package, size_t index);
/* States: buffers of the model that runs change, such as counters and caches. */
AOT_API size_t aot_package_state_count(const aot_package* package);
AOT_API const aot_tensor_info* aot_package_state(const aot_package* package, size_t index);
AOT_API size_t aot_package_entry_count(const aot_package* package);
AOT_API const aot_entry_info* aot_package_entry(const aot_package* package, size_t index);
/* The entry of that name, or NULL. */
AOT_API const aot_entry_info* aot_package_find_entry(const aot_package* package, const char* name);
/* A file that the package carries (`--file`), by its name there: the entry "files/<name>", whose
 * bytes are checked the first time. Writes *file, which lives as long as the package. */
AOT_API aot_status* aot_package_read_file(aot_package* package, const char* name,
                                          const aot_entry_info** file);
/* The plan's JSON text (docs/format.md), not NUL-terminated; its length goes to *size. */
AOT_API const char* aot_package_plan(const aot_package* package, size_t* size);

/* ---------------------------------------------------------------- weights */

/* One weight's new value, or what is added to it. Tensors are in the host's memory, of any strides,
 * and borrowed for the call. */
typedef struct aot_weight_update {
  size_t struct_size;
  const char* name; /* in the model's state dict; tied weights have several */
  /* The new value, of the weight's type and shape; with `add`, `scale` times this is added. NULL
   * where the factors are given. */
  const DLTensor* value;
  int32_t add; /* 1: add to the present value; for floating-point weights */
  /* Low-rank factors, as adapters have them: scale * up @ down is added to the present value, seen
   * as a matrix of its first dimension and all others. up (rows, rank) and down (rank, columns…) of
   * any floating-point type. Sums are computed in float32 (float64 for such weights). */
  const DLTensor* up;
  const DLTensor* down;
  double scale; /* 0 stands for 1 */
} aot_weight_update;

typedef struct aot_replace_options {
  size_t struct_size;
  int32_t partial;        /* 1: weights that are not given stay as they are */
  int32_t restart;        /* 1: begin with the package's own weights, not with the present ones */
  int32_t ignore_unknown; /* 1: leave out names that the model does not have */
} aot_replace_options;

/* Gives the model's weights new values, in all sessions and on all devices. What was folded or
 * packed is computed again from them, by the package's own kernels. Then, at once, every run that
 * begins sees the new weights, and all of them; runs under way finish with the old ones, which are
 * freed when the last is over. May be called from any thread, while others run and replace, but not
 * from a callback of a run. On failure nothing has changed. Packages must be built with
 * --swappable, and with --keep-originals for partial replacements of weights that are folded
 * together and for additions to weights that are stored packed. */
AOT_API aot_status* aot_package_replace_weights(aot_package* package,
                                                const aot_weight_update* const* updates,
                                                size_t count, const aot_replace_options* options);

/* The same with new values from a safetensors file, which may be changed or removed afterwards. */
AOT_API aot_status* aot_package_load_weights(aot_package* package, const char* path,
                                             const aot_replace_options* options);

/* ---------------------------------------------------------------- session */

/* A package made ready to run: arena, threads, resolved shapes. Different sessions run at the same
 * time without a lock; calls on one session from several threads are serialised. */
typedef struct aot_session aot_session;

typedef struct aot_session_options {
  size_t struct_size;
  const char* isa;     /* "x86-64-v3"; NULL: the best that package and CPU both have */
  int32_t num_threads; /* 0: physical cores that this process may use; ignored with executor */
  const aot_executor* executor;   /* NULL: the process's own pool. The struct is copied. */
  const aot_allocator* allocator; /* NULL: the C library. The struct is copied. */
  int32_t profile;                /* 1: time every step (costs about 50 ns each) */
  /* For devices with memory and streams of their own, such as "cuda": */
  int32_t host_outputs;     /* 1: every run gives outputs in host memory */
  int32_t no_graphs;        /* 1: launch kernels one by one, do not replay them as a graph */
  int32_t synchronous;      /* 1: wait after every step, so that an error names its kernel (slow) */
  const aot_limits* limits; /* NULL: the defaults. The struct is copied. */
  /* 1, and with an allocator: temporaries are this session's own. Else sessions share them. */
  int32_t own_workspace;
  int32_t reserved; /* 0 */
  /* NULL: the driver. Else all memory of a GPU but weights: at 256 bytes, in use by no work when it
   * is given and when it is released. Its context is current in both calls. Copied. */
  const aot_allocator* device_allocator;
} aot_session_options;

/* Chooses, checks and loads the kernels. `device` is "cpu" or NULL for it, or "cuda" or "cuda:1"
 * for a GPU by its number: weights are then copied to it, once for all sessions there. Writes
 * *session, owned by the caller; it keeps the package alive. */
AOT_API aot_status* aot_session_create(aot_package* package, const char* device,
                                       const aot_session_options* options, aot_session** session);

/* Frees a session; NULL is allowed. Not while a run is in progress. Outputs stay valid. */
AOT_API void aot_session_free(aot_session* session);

/* Runs the model. Inputs are borrowed for the call and not written, unless their info says that
 * they are changed; they are checked against the contract always. An input whose strides are not
 * the plan's, or whose address is not aligned to its element, is copied; others are read in place.
 * On success outputs[0 .. output_count) are fresh tensors owned by the caller, who calls their
 * deleter, from any thread, at any time, also after the session is gone. On a GPU, inputs may be on
 * the host, and are then copied, or on that GPU: there they must have the plan's strides, and are
 * read in place if they are aligned to 16 bytes. `stream` is a CUstream (the driver's special
 * values 1 and 2 for the default streams included): the run is enqueued there, and inputs must stay
 * unchanged until it is done; wrong indices in the data are reported by aot_session_synchronize or
 * by the next run. With NULL, always so on the CPU, the run is over when the call returns. */
AOT_API aot_status* aot_session_run(aot_session* session, const DLTensor* const* inputs,
                                    size_t input_count, DLManagedTensor** outputs,
                                    size_t output_count, void* stream);

/* The same with versioned outputs. */
AOT_API aot_status* aot_session_run_versioned(aot_session* session, const DLTensor* const* inputs,
                                              size_t input_count,
                                              DLManagedTensorVersioned** outputs,
                                              size_t output_count, void* stream);

/* Called after each step for each of its buffers, in the thread that runs the session, with
 * positions in the plan's `steps` and `buffers`; `data` lives for the call. It must not call its
 * session, which refuses with INVALID_ARGUMENT. */
typedef void (*aot_observer_fn)(void* context, size_t step, size_t buffer, const void* data,
                                size_t size);

/* Ends runs from elsewhere. Any thread may use it at any time; it must outlive its runs. */
typedef struct aot_cancellation aot_cancellation;
AOT_API aot_status* aot_cancellation_create(aot_cancellation** cancellation);
AOT_API void aot_cancellation_free(aot_cancellation* cancellation); /* NULL is allowed */
/* Runs that have it end with CANCELLED until it is reset. May be called from a signal handler. */
AOT_API void aot_cancellation_cancel(aot_cancellation* cancellation);
AOT_API void aot_cancellation_reset(aot_cancellation* cancellation);

/* How one run is done. */
typedef struct aot_run_options {
  size_t struct_size;
  void* stream;         /* as for aot_session_run */
  int32_t host_outputs; /* 1: outputs in host memory; the run is over when the call returns */
  int32_t reserved;     /* 0 */
  /* 0: the session's. A run that takes longer ends between two steps; see docs/abi.md. */
  int64_t timeout_ns;
  aot_cancellation* cancellation; /* NULL: none. Looked at where the deadline is. */
  /* NULL, or the caller's memory for each output, NULL for one in fresh memory. Dtype and sizes are
   * the output's, on the host or the session's GPU (there with the plan's strides, aligned to 16
   * bytes). It must overlap no input or output; a run that fails leaves it undefined. In place of
   * such an output, outputs[i] becomes NULL. */
  const DLTensor* const* outputs;
  aot_observer_fn observer; /* of this run alone; NULL: the session's */
  void* observer_context;
} aot_run_options;

/* The same with options; NULL means all defaults. */
AOT_API aot_status* aot_session_run_with(aot_session* session, const DLTensor* const* inputs,
                                         size_t input_count, DLManagedTensorVersioned** outputs,
                                         size_t output_count, const aot_run_options* options);

/* Waits for the last run that was enqueued, and reports what it found wrong. */
AOT_API aot_status* aot_session_synchronize(aot_session* session);

/* The sizes of output `index` for inputs of these dtypes and sizes (whose data may be NULL), -1 for
 * one that only a run knows: written to sizes[0 .. ndim). Fails as a run with such inputs does. */
AOT_API aot_status* aot_session_output_sizes(aot_session* session, const DLTensor* const* inputs,
                                             size_t input_count, size_t index, int64_t* sizes,
                                             size_t ndim);

/* Makes all ready for runs with such inputs: sizes resolved, kernels loaded, memory there. */
AOT_API aot_status* aot_session_prewarm(aot_session* session, const DLTensor* const* inputs,
                                        size_t input_count);

/* Bytes that a session holds now, on its device unless said otherwise. */
typedef struct aot_memory_info {
  size_t struct_size; /* set by the caller */
  int64_t plan_bytes; /* of the host: sets of sizes kept resolved, about */
  int64_t state_bytes;
  int64_t workspace_bytes; /* temporaries that it has borrowed, or its own */
  int64_t shared_bytes;    /* temporaries that wait for any session of the package on this device */
  int64_t output_bytes;    /* spare blocks for outputs; those that callers hold are not counted */
  int64_t plans;           /* how many sets of sizes */
} aot_memory_info;

/* Writes what the caller's struct has room for. */
AOT_API aot_status* aot_session_memory(aot_session* session, aot_memory_info* info);
/* Frees what can be had again: spare blocks for outputs, sets of sizes, temporaries not in use. */
AOT_API aot_status* aot_session_trim(aot_session* session);

/* ---------------------------------------------------------------- state
 *
 * Each session has states of its own, which begin with the values that the model had when it was
 * packaged. Positions are those of aot_package_state; `data` is C-contiguous host memory of `size`
 * bytes, which must be the state's: its sizes times its element. Calls wait for a run in progress.
 *
 * A run that is refused before its first kernel (inputs that do not fit, no memory) changes neither
 * states nor inputs. When it fails later, by a wrong index in the data or by a device, the states
 * that the model changes hold undefined values: reset or set them. Changed inputs in host memory
 * are written last, only by a run that succeeds; those on a GPU are undefined, too, after a run
 * that failed there. Two inputs, one of which is changed, must not overlap. */

/* Copies a state to `data`. */
AOT_API aot_status* aot_session_get_state(aot_session* session, size_t index, void* data,
                                          size_t size);
/* Copies `data` into a state. */
AOT_API aot_status* aot_session_set_state(aot_session* session, size_t index, const void* data,
                                          size_t size);
/* Gives every state its first value again. */
AOT_API aot_status* aot_session_reset(aot_session* session);
/* A new session of the same package, device and options, with the states that this one has now.
 * Writes *clone, owned by the caller. An observer is not taken over. */
AOT_API aot_status* aot_session_clone(aot_session* session, aot_session** clone);

/* Where the session runs: kDLCPU, or kDLCUDA with the GPU's number. */
AOT_API DLDevice aot_session_device(const aot_session* session);
/* The stream of runs that are given none, or NULL on devices without streams. It keeps its order
 * with the legacy default stream. */
AOT_API void* aot_session_stream(const aot_session* session);
/* The instruction set of the loaded kernels ("x86-64-v3", "sm_90"); lives with the session. */
AOT_API const char* aot_session_isa(const aot_session* session);
/* The number of threads that a run may use, the caller's included. */
AOT_API int32_t aot_session_num_threads(const aot_session* session);
/* The best level of this CPU and operating system ("x86-64-v4"), or "none"; static. */
AOT_API const char* aot_cpu_isa(void);

/* Sets or, with NULL, removes the observer. Runs are slower while there is one. */
AOT_API aot_status* aot_session_set_observer(aot_session* session, aot_observer_fn observer,
                                             void* context);

/* Time of one step, summed since creation or reset. */
typedef struct aot_step_profile {
  const char* kernel; /* lives as long as the session */
  const char* origin; /* "model.py:12 aten.add.Tensor" or "" */
  uint64_t calls;
  uint64_t nanoseconds; /* wall time, all threads together */
} aot_step_profile;

/* Copies the counters of the plan's steps, in order, into steps[0 .. capacity) and writes the
 * number of steps to *count. All zero unless the session was made with `profile`. */
AOT_API aot_status* aot_session_profile(aot_session* session, aot_step_profile* steps,
                                        size_t capacity, size_t* count);
/* Sets the counters to zero. */
AOT_API aot_status* aot_session_profile_reset(aot_session* session);

/* ---------------------------------------------------------------- timeline */

/* What a span of the timeline is. New kinds may be added at the end. */
typedef enum aot_trace_kind {
  AOT_TRACE_RUN = 0,     /* one run, from when it has the session to its end */
  AOT_TRACE_PREPARE = 1, /* sizes are bound, memory is placed: what comes before the first step */
  AOT_TRACE_KERNEL = 2,  /* a launch of the plan */
  AOT_TRACE_CHUNK = 3,   /* a worker's part of a kernel on the CPU */
  AOT_TRACE_CALL = 4,    /* a custom operator; on a GPU the host's part of it */
  AOT_TRACE_CONTROL = 5, /* a control step, with all that it runs */
  AOT_TRACE_COPY = 6,    /* bytes are moved; `what` says which */
  AOT_TRACE_WAIT = 7,    /* the host waits; `what` says for what */
  AOT_TRACE_LAUNCH = 8   /* the host gives a kernel or a copy to the device */
} aot_trace_kind;

/* One span. The library gives pointers to it and may know more fields than the caller. Strings live
 * as long as the trace. */
typedef struct aot_trace_event {
  int32_t kind;      /* aot_trace_kind */
  int32_t on_device; /* 1: in a stream of the device, in the host's time; 0: in a host's thread */
  uint64_t track;    /* the thread's number (gettid), or the stream */
  int64_t begin_ns;  /* of CLOCK_MONOTONIC, as std::chrono::steady_clock has it */
  int64_t end_ns;
  uint64_t run;       /* which run of the trace it belongs to, from 1 */
  const char* name;   /* the kernel's, the control step's, the input's or output's */
  const char* what;   /* of COPY: "input", "output", "state", "step", "read"; of WAIT: "session",
                       * "device"; else "" */
  const char* origin; /* "model.py:12 aten.add.Tensor" or "" */
  int32_t step;       /* position in the plan's `steps`, or -1 */
  int32_t worker;     /* of CHUNK: which of the session's threads, 0 is the caller's */
  int64_t bytes;      /* moved by COPY; of KERNEL the sum of its buffers; -1: unknown */
  uint64_t flow;      /* the same in a LAUNCH and in what the device made of it; 0: none */
} aot_trace_event;

/* What a session's runs did. Immutable; may be read from any thread, also after the session. */
typedef struct aot_trace aot_trace;

typedef struct aot_trace_options {
  size_t struct_size;
  uint64_t capacity; /* events that are kept, the first ones, in memory taken now; 0: 65536 */
  /* 1: what is traced is also a range for NVIDIA's tools (NVTX), if one watches the process. The
   * library that the tool names in the environment (NVTX_INJECTION64_PATH) is then loaded. */
  int32_t nvtx;
  int32_t no_events; /* 1: ranges alone: no event is kept, and runs are not changed by the trace */
} aot_trace_options;

/* Begins to trace the runs of a session. A traced run on a GPU launches kernels one by one, without
 * graphs, and is over when the call returns. Fails with INVALID_ARGUMENT while it is traced
 * already, with OUT_OF_MEMORY, and with DEVICE_ERROR where the tool cannot be used. */
AOT_API aot_status* aot_session_trace_begin(aot_session* session, const aot_trace_options* options);
/* Ends it, after a run in progress. Writes *trace, owned by the caller. */
AOT_API aot_status* aot_session_trace_end(aot_session* session, aot_trace** trace);
/* The number of its events, which are in the order of their ends. */
AOT_API size_t aot_trace_count(const aot_trace* trace);
/* An event; NULL for an index out of range. Lives as long as the trace. */
AOT_API const aot_trace_event* aot_trace_event_at(const aot_trace* trace, size_t index);
/* Events for which there was no room. */
AOT_API uint64_t aot_trace_dropped(const aot_trace* trace);
/* Frees a trace; NULL is allowed. */
AOT_API void aot_trace_free(aot_trace* trace);

/* Appends the CPU kernels that sessions of the package have loaded to /tmp/perf-PID.map, where
 * `perf report` looks for the names of code that is in no file: a line "address size
 * kernel (model.py:12 …)" for each. Fails with DEVICE_ERROR. */
AOT_API aot_status* aot_package_write_perf_map(aot_package* package);

/* ---------------------------------------------------------------- names
 *
 * Positions by name. They write *index, or fail with NOT_FOUND, and say which names there are. */
AOT_API aot_status* aot_package_find_input(const aot_package* package, const char* name,
                                           size_t* index);
AOT_API aot_status* aot_package_find_output(const aot_package* package, const char* name,
                                            size_t* index);
AOT_API aot_status* aot_package_find_state(const aot_package* package, const char* name,
                                           size_t* index);

/* ---------------------------------------------------------------- growth
 *
 * Within a major version structs get new fields at their end, and functions are added. What a
 * caller gives carries its size (struct_size, or an argument); what the library gives is behind
 * pointers, and aot_struct_size tells how much of it is there. Structs that stand in arrays,
 * aot_dim_info and aot_step_profile, never grow there: elements of any size come through the
 * functions below. */

/* 1 if this library can do what the name says (docs/abi.md lists the names), else 0. */
AOT_API int32_t aot_has_feature(const char* name);
/* The name of feature `index`, static; NULL behind the last. */
AOT_API const char* aot_feature_name(size_t index);
/* The size of a public struct as this library knows it: aot_struct_size("aot_tensor_info"). A field
 * that ends behind it is not there. 0 for a name that it does not know. */
AOT_API size_t aot_struct_size(const char* name);

/* A dimension of an input, output or state; NULL for an axis out of range. */
AOT_API const aot_dim_info* aot_tensor_dim(const aot_tensor_info* tensor, size_t axis);
/* As aot_session_profile, for elements of `element_size` bytes: sizeof(aot_step_profile) as the
 * caller knows it. Fields that the library does not know are zero. */
AOT_API aot_status* aot_session_step_profiles(aot_session* session, aot_step_profile* steps,
                                              size_t element_size, size_t capacity, size_t* count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* AOT_ABI_H_ */
