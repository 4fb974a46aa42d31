// What the fake CUDA driver is made of: shared by its files, seen by no test.
#ifndef AOT_TESTS_CUDA_FAKE_STATE_H_
#define AOT_TESTS_CUDA_FAKE_STATE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cuda/driver_abi.h"

// An entry point of the driver.
#define API extern "C" __attribute__((visibility("default")))

namespace fake_cuda {

using namespace aot_rt::cuda;  // NOLINT: the driver's own names

constexpr CUresult kInvalidContext = 201;
constexpr CUresult kInvalidHandle = 400;
constexpr uint64_t kTag = uint64_t{1} << 62;  // in device addresses; no CPU has such addresses
constexpr unsigned kUnaskedShared = 48 << 10;
constexpr int kMaxShared = 228 << 10;
constexpr int kMostGpus = 8;

// Lives on when its handle is destroyed: the work that it has been given is done all the same.
struct FakeStream {
  static uint64_t next_number() {
    static std::atomic<uint64_t> next{1};
    return next++;
  }

  std::deque<std::function<void()>> work;
  uint64_t number = next_number();  // no other stream ever has it
  uint64_t enqueued = 0;
  uint64_t done = 0;
  bool destroyed = false;  // its handle is
};

struct FakeEvent {
  FakeStream* stream = nullptr;  // nullptr: never recorded
  uint64_t position = 0;
};

struct FakeFunction {
  std::string symbol;
  int parameters = 0;
  bool waits = false;      // for the launches before it, by itself
  bool narrow = false;     // its first parameter has 4 bytes
  uint64_t alignment = 1;  // of its scratch
  int dynamic_shared = kUnaskedShared;
};

struct FakeModule {
  std::map<std::string, FakeFunction> functions;
};

struct FakeNode {
  FakeFunction* function = nullptr;
  std::array<unsigned, 3> grid{};
  std::vector<uint64_t> parameters;
  bool follows = false;  // the node before it in its graph
};

struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};

struct FakeExec {
  std::map<const FakeNode*, size_t> positions;
  std::vector<FakeNode> nodes;
};

struct Failure {
  int skip;
  CUresult result;
};

struct State {
  std::recursive_mutex mutex;
  int gpus = 1;
  int major = 9;
  int minor = 0;
  int version = 12040;
  size_t memory = size_t{1} << 30;
  size_t used = 0;
  bool initialised = false;
  CUresult lost = kSuccess;  // the error that every call gives after a crash
  std::map<uint64_t, size_t> device_blocks;
  std::map<uint64_t, size_t> host_blocks;
  std::array<int, kMostGpus> retained{};
  std::set<FakeModule*> modules;
  std::set<FakeStream*> streams;
  std::map<CUstream, FakeStream*> handles;  // of those that have not been destroyed
  std::vector<CUstream> free_handles;       // the last one is given out again first
  std::set<FakeEvent*> events;
  std::set<FakeGraph*> graphs;
  std::set<FakeExec*> execs;
  FakeStream legacy;
  std::map<std::string, Failure> failures;  // by symbol; "": of all calls together
  std::map<std::string, int64_t> calls;
  int (*probe)() = nullptr;  // asked in every call that waits for the device
  int64_t probed = 0;
  CUstream capturing = nullptr;
  std::string misuse;
};

State& state();

// Notes that the driver is used wrongly.
void misuse(const std::string& text);

// Does the work of a stream up to a position, and of all streams.
void drain(FakeStream* stream, uint64_t position);
void drain_all();

// Whether a range lies in one block.
bool inside(const std::map<uint64_t, size_t>& blocks, uint64_t address, size_t bytes);

// Host memory behind device addresses, or nullptr and a lost context.
template <typename T>
T* reach(uint64_t address, int64_t count) {
  State& s = state();
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  if (inside(s.device_blocks, address, bytes)) return reinterpret_cast<T*>(address & ~kTag);
  if (inside(s.host_blocks, address, bytes)) return reinterpret_cast<T*>(address);
  if (count != 0 && s.lost == kSuccess) s.lost = kIllegalAddress;
  return nullptr;
}

// What a kernel does with its parameters on so many blocks.
using Kernel = void (*)(const std::vector<uint64_t>& parameters, int64_t blocks);
const std::map<std::string, Kernel>& kernels();

}  // namespace fake_cuda

#endif  // AOT_TESTS_CUDA_FAKE_STATE_H_
