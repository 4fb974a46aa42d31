// One client's way to run a package: memory, threads, resolved plans.
#ifndef AOT_SRC_SESSION_H_
#define AOT_SRC_SESSION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bound_plan.h"
#include "memory.h"
#include "output_pool.h"
#include "package.h"
#include "thread_pool.h"

namespace aot_rt {

struct SessionOptions {
  std::string isa;          // "": the best
  int32_t num_threads = 0;  // 0: usable_cores()
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;
  bool profile = false;
};

class Session {
 public:
  // Throws UNAVAILABLE, CORRUPT_PACKAGE, INCOMPATIBLE, DEVICE_ERROR or INVALID_ARGUMENT.
  Session(std::shared_ptr<Package> package, const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model; calls from several threads wait for each other. On success `take(index,
  // block)` is called for every output and owns the block. Throws, having taken nothing.
  template <typename Take>
  void run(const DLTensor* const* inputs, size_t count, Take take) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Outputs outputs(*this);
    run_locked(inputs, count);
    for (size_t i = 0; i < results_.size(); ++i) take(i, results_[i]);
    results_.clear();
  }

  const Plan& plan() const { return package_->plan(); }
  const std::string& isa() const { return library_->isa(); }
  int32_t num_threads() const { return crew_.threads(); }

  void set_observer(aot_observer_fn observer, void* context);
  void profile(aot_step_profile* steps, size_t capacity, size_t* count);
  void reset_profile();

 private:
  // Gives back what a failed run left in `results_`.
  struct Outputs {
    explicit Outputs(Session& session) : session(session) {}
    ~Outputs();
    Session& session;
  };
  struct Counter {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
  };

  void run_locked(const DLTensor* const* inputs, size_t count);
  BoundPlan& bind(const DLTensor* const* inputs, size_t count);
  void prepare_memory(BoundPlan& bound);
  void place_inputs(BoundPlan& bound, const DLTensor* const* inputs);
  void* copy_input(size_t index, const DLTensor& tensor, const BoundTensor& bound);
  void place_outputs(BoundPlan& bound);
  void copy_shared_outputs(const BoundPlan& bound);
  void run_steps(const BoundPlan& bound);
  void run_steps_watched(const BoundPlan& bound);
  void run_step(const BoundStep& step);
  void observe(const BoundPlan& bound, int32_t step);
  [[noreturn]] void report_fault(int32_t step);
  bool owns_buffer(size_t output) const;

  std::mutex mutex_;
  std::shared_ptr<Package> package_;
  std::shared_ptr<const KernelLibrary> library_;
  aot_allocator allocator_;
  Crew crew_;
  OutputPool* outputs_;
  std::list<std::unique_ptr<BoundPlan>> plans_;  // most recently used first
  Block arena_;
  Block scratch_;
  int64_t scratch_stride_ = 0;  // bytes between workers' scratch
  uint64_t generation_ = 1;     // counts moves of arena and scratch
  std::vector<Block> copies_;   // of inputs in other layouts, by input
  std::vector<OutputBlock*> results_;
  int32_t fault_ = 0;

  bool profile_;
  std::vector<Counter> counters_;     // by step
  std::vector<std::string> origins_;  // by step
  aot_observer_fn observer_ = nullptr;
  void* observer_context_ = nullptr;
};

}  // namespace aot_rt

#endif  // AOT_SRC_SESSION_H_
