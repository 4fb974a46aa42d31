// A session on the CPU: memory, threads, resolved plans.
#ifndef AOT_SRC_CPU_CPU_SESSION_H_
#define AOT_SRC_CPU_CPU_SESSION_H_

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu/bound_plan.h"
#include "flow_runner.h"
#include "memory.h"
#include "output_pool.h"
#include "session.h"
#include "thread_pool.h"

namespace aot_rt {

// The package's program for the CPU. `index` must be 0. Throws UNAVAILABLE, CORRUPT_PACKAGE,
// INCOMPATIBLE, DEVICE_ERROR or INVALID_ARGUMENT.
std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options);

class CpuSession final : public Session, private FlowDevice {
 public:
  // As Session's.
  CpuSession(const std::shared_ptr<Package>& package, const Plan& plan, const Program& program,
             std::shared_ptr<WeightPlace> place, const SessionOptions& options);
  ~CpuSession() override;

  const std::string& isa() const override { return library_->isa(); }
  int32_t num_threads() const override { return crew_.threads(); }
  DLDevice device() const override { return {kDLCPU, 0}; }

 protected:
  void run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                TakeOutput take, void* context) override;
  void read_state(const State& state, void* data) override;
  void write_state(const State& state, const void* data) override;
  std::unique_ptr<Session> twin() const override;

 private:
  // Gives back what a failed run left in `results_`.
  struct Outputs {
    explicit Outputs(CpuSession& session) : session(session) {}
    ~Outputs();
    CpuSession& session;
  };

  void prepare(const DLTensor* const* inputs, size_t count);
  void run_locked(const DLTensor* const* inputs, size_t count);
  // Steps are looked at one by one.
  bool watched() const {
    return options().profile || observer_ != nullptr || trace_ != nullptr;
  }
  BoundPlan& bind(const DLTensor* const* inputs, size_t count);
  BoundPlan& bind(std::vector<int64_t> dims);
  void prepare_memory(BoundPlan& bound);
  void place_inputs(BoundPlan& bound, const DLTensor* const* inputs);
  void* copy_input(size_t index, const DLTensor& tensor, const BoundTensor& bound);
  void place_outputs(BoundPlan& bound);
  void trim_outputs();
  void copy_shared_outputs();
  void update(const DLTensor* const* inputs);
  uint8_t* address_of(const State& state) const { return states_.data() + state.offset; }
  void run_steps(const BoundPlan& bound);
  void run_steps_watched(const BoundPlan& bound);
  void run_step(const BoundStep& step);
  void run_step_watched(const BoundPlan& bound, const BoundStep& step);
  void observe(const BoundPlan& bound, int32_t step);
  void count(int32_t step, std::chrono::steady_clock::time_point start);
  [[noreturn]] void report_fault(int32_t step);

  // FlowDevice, of the run under way.
  void bind_flow(std::vector<int64_t> dims) override;
  const BoundSizes& sizes() const override { return *bound_; }
  void launch_steps(int32_t begin, int32_t end) override;
  void launch_step(int32_t step);
  void call_operator(int32_t step) override;
  void read_buffer(int32_t buffer, void* to, size_t bytes) override;
  void copy_buffer(int32_t from, int32_t to, size_t bytes) override;
  void begin_turn(int32_t step, int64_t turn) override;

  std::shared_ptr<const KernelLibrary> library_;
  aot_allocator allocator_;
  Crew crew_;
  OutputPool* outputs_;
  std::list<std::unique_ptr<BoundPlan>> plans_;  // most recently used first
  Block states_;
  std::vector<Block> arenas_;  // by scope
  Block scratch_;
  int64_t scratch_stride_ = 0;         // bytes between workers' scratch
  uint64_t generation_ = 1;            // counts moves of arena and scratch
  std::vector<Block> copies_;          // of inputs in other layouts, by input
  std::vector<OutputBlock*> results_;  // by output; nullptr: its size is not known yet

  // Of the run under way.
  BoundPlan* bound_ = nullptr;                      // for the sizes known so far
  std::vector<void*> addresses_;                    // of inputs
  std::vector<BoundPlan*> output_plans_;            // that each output was placed for
  std::vector<std::pair<int32_t, int64_t>> turns_;  // of loops, the latest last
  int32_t fault_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_CPU_SESSION_H_
