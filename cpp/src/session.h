// One client's way to run a package on a device: what every device's session offers.
#ifndef AOT_SRC_SESSION_H_
#define AOT_SRC_SESSION_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "output_pool.h"
#include "package.h"

namespace aot_rt {

struct SessionOptions {
  std::string isa;          // "": the best; for a device with libraries
  int32_t num_threads = 0;  // 0: usable_cores()
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;
  bool profile = false;
  bool host_outputs = false;  // of every run, on a device with memory of its own
  bool graphs = true;         // replay launches as one, where the device can
  bool synchronous = false;   // wait after every step, so that a failing kernel is named
};

// How one run is done.
struct RunOptions {
  void* stream = nullptr;     // the caller's; nullptr: none, the run is over when it returns
  bool host_outputs = false;  // outputs in host memory; always so on the CPU
};

// Calls from several threads wait for each other.
class Session {
 public:
  virtual ~Session() = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model. On success `take(index, block)` is called for every output and owns the block.
  // Throws, having taken nothing.
  template <typename Take>
  void run(const DLTensor* const* inputs, size_t count, const RunOptions& options, Take take) {
    run_with(
        inputs, count, options,
        [](void* context, size_t index, OutputBlock* block) {
          (*static_cast<Take*>(context))(index, block);
        },
        &take);
  }

  const Plan& plan() const { return package_->plan(); }

  virtual const std::string& isa() const = 0;  // of the loaded kernels; "sm_90" on such a device
  virtual int32_t num_threads() const = 0;     // of the host
  virtual DLDevice device() const = 0;         // where it runs
  virtual void* stream() const { return nullptr; }  // its own, if the device has streams
  // Waits for the last run, and throws what it failed with.
  virtual void synchronize() {}
  void set_observer(aot_observer_fn observer, void* context);
  void profile(aot_step_profile* steps, size_t capacity, size_t* count);
  void reset_profile();

 protected:
  using TakeOutput = void (*)(void* context, size_t index, OutputBlock* block);

  struct Counter {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
  };

  // `program`: of the package's plan.
  Session(std::shared_ptr<Package> package, const Program& program);

  virtual void run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                        TakeOutput take, void* context) = 0;

  Package& package() const { return *package_; }
  // The output's memory is its own, not that of an input, a weight, a temporary or another output.
  bool owns_buffer(size_t output) const;

  std::mutex mutex_;  // held by whoever runs, or touches what follows
  const Program& program_;
  std::vector<Counter> counters_;     // by step
  std::vector<std::string> origins_;  // by step
  aot_observer_fn observer_ = nullptr;
  void* observer_context_ = nullptr;

 private:
  std::shared_ptr<Package> package_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_SESSION_H_
