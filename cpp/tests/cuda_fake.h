// Controls of the fake CUDA driver (cuda_fake.cc), which tests load as libcuda.so.1.
#ifndef AOT_TESTS_CUDA_FAKE_H_
#define AOT_TESTS_CUDA_FAKE_H_

#include <cstddef>
#include <cstdint>

namespace aot_test {

// Counts of what is alive.
struct FakeLive {
  int64_t device_blocks;
  int64_t host_blocks;
  int64_t contexts;  // retained, over all GPUs
  int64_t modules;
  int64_t streams;
  int64_t events;
  int64_t graphs;  // graphs and executable graphs
};

struct FakeControls {
  // GPUs of one compute capability, the version that the driver reports (12040), device memory.
  void (*configure)(int gpus, int major, int minor, int version, size_t memory);
  // Makes the call of that symbol (NULL: of any that may fail; those that free do not) fail with
  // `result`, once, after `skip` more that do not. A negative `skip`: none.
  void (*fail)(const char* symbol, int skip, int result);
  // How often a symbol was called since clear_calls(); NULL: all of them.
  int64_t (*calls)(const char* symbol);
  void (*clear_calls)();
  FakeLive (*live)();
  // What the driver was used wrongly for: "" if never. The text stays until clear_misuse().
  const char* (*misuse)();
  void (*clear_misuse)();
  // The context's state after a crash is otherwise for the rest of the process.
  void (*revive)();
  // Asks `probe` (NULL: nobody) in each call that waits for the device; probed() is how often it
  // gave another number than 0 since then.
  void (*probe)(int (*probe)());
  int64_t (*probed)();
  // The stream that captures a graph; NULL: none does.
  void (*capture)(void* stream);
};

}  // namespace aot_test

extern "C" const aot_test::FakeControls* fake_cuda_controls();

#endif  // AOT_TESTS_CUDA_FAKE_H_
