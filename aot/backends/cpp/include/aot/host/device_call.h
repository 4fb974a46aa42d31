// A kernel of the host as a custom operator of a program for GPUs: operands are copied here, the
// kernel runs on the host's threads, and what it gives is copied back. Where the machine has
// cuSOLVER, that computes the same on the GPU.
//
// The call waits for what is ahead of it in the stream, and ends when its results are on the GPU: a
// launch between calls waits for the host, which is what leaving a routine to the host costs. The
// driver is looked up in the process, which has it loaded. Memory of the host is the call's own.
#ifndef AOT_HOST_DEVICE_CALL_H_
#define AOT_HOST_DEVICE_CALL_H_

#include <cpuid.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aot/host/solver_routines.h"
#include "aot/kernel_abi.h"
#include "aot/operator_abi.h"

namespace aot_host {

// A kernel compiled for several levels: of the narrowest, with AVX2, with AVX-512.
struct Kernel {
  aot_kernel_fn levels[3];
};

constexpr size_t kLine = 64;
constexpr int kMostThreads = 64;

// ---- the machine ----

inline bool all(unsigned value, unsigned bits) { return (value & bits) == bits; }

// The index in Kernel::levels of the widest level that this machine has.
inline int level() {
  unsigned a = 0, b = 0, c = 0, d = 0, low = 0, high = 0, wide = 0, extended = 0;
  if (!__get_cpuid_count(1, 0, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  const unsigned basic = c;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) wide = b;
  if (__get_cpuid_count(0x80000001u, 0, &a, &b, &c, &d)) extended = c;
  constexpr unsigned kAvx = 6u, kAvx512 = 7u << 5;  // registers that the system saves
  if (!all(low, kAvx) || !all(basic, bit_AVX | bit_F16C | bit_FMA | bit_MOVBE) ||
      !all(wide, bit_AVX2 | bit_BMI | bit_BMI2) || !all(extended, bit_LZCNT)) {
    return 0;
  }
  const unsigned v4 = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
  return all(low, kAvx512) && all(wide, v4) ? 2 : 1;
}

// Processors that this thread may run on.
inline int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count < kMostThreads ? count : kMostThreads;
}

// ---- memory ----

inline size_t bytes_of(const DLTensor& tensor) {
  size_t count = (size_t(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
  for (int32_t i = 0; i < tensor.ndim; ++i) count *= size_t(tensor.shape[i]);
  return count;
}

// A copy of a tensor's memory on the host; freed with it. `at`: null where there was no memory.
struct Copy {
  void* at = nullptr;
  size_t bytes = 0;

  Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { free(at); }

  bool take(size_t count) {
    bytes = count;
    return posix_memalign(&at, kLine, count == 0 ? kLine : count) == 0;
  }
};

inline uint64_t address(const DLTensor& tensor) { return reinterpret_cast<uint64_t>(tensor.data); }

// ---- the work ----

// One thread's part of a kernel's work.
struct Part {
  aot_kernel_fn run;
  aot_kernel_args args;
  int64_t begin, end;
};

inline void* run_part(void* given) {
  const Part& part = *static_cast<const Part*>(given);
  part.run(&part.args, part.begin, part.end);
  return nullptr;
}

// All work units, on up to `threads` threads with `scratch` bytes each in `room`. Where the system
// gives no thread, this one does its part.
inline void run_all(aot_kernel_fn run, const aot_kernel_args& args, int64_t work, int threads,
                    char* room, size_t scratch) {
  Part parts[kMostThreads];
  pthread_t handles[kMostThreads];
  bool started[kMostThreads];
  for (int t = 0; t < threads; ++t) {
    parts[t] = {run, args, work * t / threads, work * (t + 1) / threads};
    parts[t].args.scratch = room + size_t(t) * scratch;
    started[t] = t > 0 && pthread_create(&handles[t], nullptr, run_part, &parts[t]) == 0;
  }
  for (int t = 0; t < threads; ++t) {
    if (started[t]) {
      pthread_join(handles[t], nullptr);
    } else {
      run_part(&parts[t]);
    }
  }
}

inline int fails(const aot_operator_call* call, const char* what) {
  char text[160];
  snprintf(text, sizeof(text), "%s: %s", call->name, what);
  call->fail(call, text);
  return 1;
}

// What a call's numbers say; then come the kernel's sizes. Of each operand (a, b and their
// imaginary parts): its tensor, or -1; its first element; what is between matrices, rows, columns.
struct Numbers {
  static constexpr int kFields = 8, kOperands = 4, kOfOperand = 5;
  static constexpr int kCount = kFields + kOperands * kOfOperand;

  const int64_t* at;

  int64_t work() const { return at[0]; }
  int64_t grain() const { return at[1]; }    // work units that are worth a thread
  int64_t scratch() const { return at[2]; }  // bytes, for each thread
  int64_t batch() const { return at[3]; }
  int64_t record() const { return at[4]; }  // elements
  int64_t m() const { return at[5]; }
  int64_t n() const { return at[6]; }
  int64_t r() const { return at[7]; }
  const int64_t* operand(int k) const { return at + kFields + k * kOfOperand; }
  const int64_t* sizes() const { return at + kCount; }
};

// The routine of cuSOLVER that computes the same; null where there is none.
struct SolverRoutine {
  void (Solver::*run)(int64_t) = nullptr;
  char type = 0;  // S, D, C or Z
  bool upper = false, unit = false, back = false;
  double from = 0;  // columns of a lone matrix for which it is as fast as the host
};

inline SolverPart part_of(const aot_argument& reads, const int64_t* operand, size_t size) {
  if (operand[0] < 0) return {};
  const uint64_t at = address(reads.tensors[operand[0]]) + uint64_t(operand[1]) * size;
  return {at, operand[2], operand[3], operand[4]};
}

// The operand of a place, and whether its matrices, of these sizes, can be moved; true of none.
inline bool read_operand(const aot_argument& reads, const Numbers& numbers, int place, size_t size,
                         int64_t rows, int64_t columns, SolverOperand* operand) {
  const int64_t* const re = numbers.operand(place);
  const int64_t* const im = numbers.operand(place + 2);
  *operand = {part_of(reads, re, size), part_of(reads, im, size)};
  return (re[0] < 0 || can_move(operand->re, rows, columns)) &&
         (im[0] < 0 || can_move(operand->im, rows, columns));
}

// Whether cuSOLVER, which takes a matrix at a time, is faster than the host, which takes as many as
// it has threads. What each needs for a matrix of n columns grows, between 100 and 1024 of them, by
// n on a GPU, whose steps wait for each other, and by n^2.5 on the host; k threads did the work of
// k^0.65 on the sixteen processors beside an H200.
inline bool worth(const SolverCall& call, const SolverRoutine& routine, bool has_sides) {
  if (call.m < 1 || call.n < 1 || (has_sides && call.r < 1)) return false;
  const int most = processors();
  const double together = pow(double(call.batch < most ? call.batch : most), 0.65);
  return sqrt(double(call.m) * double(call.n)) >= routine.from * pow(together, 2.0 / 3);
}

enum Outcome { kComputed, kNotHere, kFailed };

// By cuSOLVER where the machine has it: `kNotHere` where it has not, or no memory is left for it.
inline Outcome by_library(const aot_operator_call* call, const SolverRoutine& routine,
                          const Numbers& numbers, SolverPlaces& places) {
  if (routine.run == nullptr || numbers.batch() < 1 || !SolverLibrary::found().is_there()) {
    return kNotHere;
  }
  const size_t size = routine.type == 'S' || routine.type == 'C' ? 4 : 8;
  const aot_argument& reads = call->arguments[0];
  SolverCall wanted = {{},
                       {},
                       numbers.batch(),
                       numbers.m(),
                       numbers.n(),
                       numbers.r(),
                       routine.upper,
                       routine.unit,
                       routine.back,
                       address(call->results[0]),
                       numbers.record()};
  if (!worth(wanted, routine, numbers.operand(1)[0] >= 0) ||
      !read_operand(reads, numbers, 0, size, wanted.m, wanted.n, &wanted.a) ||
      !read_operand(reads, numbers, 1, size, wanted.m, wanted.r, &wanted.b)) {
    return kNotHere;
  }
  SolverPlace* const place = places.take(call->results[0].device.device_id);
  if (place == nullptr) return kNotHere;
  SolverWork work(place, call->stream, routine.type);
  Solver solver(work, wanted);
  for (int64_t k = 0; k < wanted.batch && work.is_well(); ++k) (solver.*routine.run)(k);
  if (work.is_well()) solver.finish();
  work.wait();  // the place is the next call's
  places.give(place);
  return work.is_well() ? kComputed : work.lacks() ? kNotHere : kFailed;
}

// The call's arguments: the tensors that the kernel reads, and its numbers. Its buffers are what it
// reads, then its results. `widest`: `level()` of this machine.
template <int kReads, int kResults>
int call_kernel(const aot_operator_call* call, const Kernel& kernel, int widest,
                const SolverRoutine& routine, SolverPlaces& places) {
  const aot_argument& reads = call->arguments[0];
  const Numbers numbers = {call->arguments[1].ints};
  const Driver& driver = Driver::found();
  if (!driver.is_whole) return fails(call, "libcuda.so.1 lacks functions that copy memory");
  switch (by_library(call, routine, numbers, places)) {
    case kComputed:
      return 0;
    case kFailed:
      return fails(call, "cuSOLVER failed, or the GPU ahead of the call");
    case kNotHere:
      break;
  }
  const int64_t work = numbers.work(), grain = numbers.grain();
  const size_t scratch = (size_t(numbers.scratch()) + kLine - 1) / kLine * kLine;
  Copy copies[kReads + kResults], room;
  void* buffers[kReads + kResults];
  for (int i = 0; i < kReads + kResults; ++i) {
    const DLTensor& tensor = i < kReads ? reads.tensors[i] : call->results[i - kReads];
    if (!copies[i].take(bytes_of(tensor))) return fails(call, "no memory on the host for copies");
    buffers[i] = copies[i].at;
  }
  const int64_t shares = grain > 0 ? work / grain : work;
  const int most = processors(), threads = shares < 1 ? 1 : shares < most ? int(shares) : most;
  if (!room.take(scratch * size_t(threads))) return fails(call, "no memory on the host for work");
  int result = 0;
  for (int i = 0; i < kReads && result == 0; ++i) {
    if (copies[i].bytes == 0) continue;
    result = driver.to_host(buffers[i], address(reads.tensors[i]), copies[i].bytes, call->stream);
  }
  if (result == 0) result = driver.wait(call->stream);
  if (result != 0) return fails(call, "the GPU failed ahead of the call, or in a copy to the host");
  int32_t fault = 0;
  const aot_kernel_args args = {buffers, numbers.sizes(), nullptr, &fault};
  run_all(kernel.levels[widest], args, work, threads, static_cast<char*>(room.at), scratch);
  for (int i = 0; i < kResults && result == 0; ++i) {
    const Copy& made = copies[kReads + i];
    if (made.bytes == 0) continue;
    result = driver.to_device(address(call->results[i]), made.at, made.bytes, call->stream);
  }
  if (result == 0) result = driver.wait(call->stream);  // memory of the copies ends with the call
  return result == 0 ? 0 : fails(call, "a copy to the GPU failed");
}

}  // namespace aot_host

#endif  // AOT_HOST_DEVICE_CALL_H_
