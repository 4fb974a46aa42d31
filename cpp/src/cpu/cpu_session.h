// A session on the CPU: memory, threads, resolved plans.
#ifndef AOT_SRC_CPU_CPU_SESSION_H_
#define AOT_SRC_CPU_CPU_SESSION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cpu/bound_plan.h"
#include "memory.h"
#include "output_pool.h"
#include "session.h"
#include "thread_pool.h"

namespace aot_rt {

// The package's program for the CPU. `index` must be 0. Throws UNAVAILABLE, CORRUPT_PACKAGE,
// INCOMPATIBLE, DEVICE_ERROR or INVALID_ARGUMENT.
std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options);

class CpuSession final : public Session {
 public:
  CpuSession(const std::shared_ptr<Package>& package, const Program& program,
             const SessionOptions& options);
  ~CpuSession() override;

  const std::string& isa() const override { return library_->isa(); }
  int32_t num_threads() const override { return crew_.threads(); }
  DLDevice device() const override { return {kDLCPU, 0}; }

 protected:
  void run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                TakeOutput take, void* context) override;

 private:
  // Gives back what a failed run left in `results_`.
  struct Outputs {
    explicit Outputs(CpuSession& session) : session(session) {}
    ~Outputs();
    CpuSession& session;
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
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_CPU_SESSION_H_
