// A program of kernel libraries resolved for given sizes: a run is a loop over its steps, nothing
// is computed again.
#ifndef AOT_SRC_CPU_BOUND_PLAN_H_
#define AOT_SRC_CPU_BOUND_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "aot/kernel_abi.h"
#include "bound_sizes.h"
#include "cpu/kernel_library.h"
#include "plan.h"

namespace aot_rt {

struct BoundStep {
  aot_kernel_fn run = nullptr;
  aot_kernel_args args{};  // with the first worker's scratch
  int64_t work = 0;
  int64_t chunks = 1;
  int32_t step = 0;  // position in the plan
};

// Belongs to one session. Addresses that change between runs (inputs, outputs, arena) are written
// into `slots`, which the steps' argument arrays are parts of.
class BoundPlan : public BoundSizes {
 public:
  // As BoundSizes. `fault`: where kernels report bad data; must outlive this.
  BoundPlan(const Plan& plan, const Program& program, const KernelLibrary& library,
            std::vector<int64_t> dims, int32_t threads, int32_t* fault);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const std::vector<BoundStep>& steps() const { return steps_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // per worker

  void set_input(size_t index, void* address) { set(input_slots_[index], address); }
  void set_output(size_t index, void* address) { set(output_slots_[index], address); }

  // Points at a new arena or scratch, if `generation` is not that of the last call.
  void set_memory(uint64_t generation, uint8_t* arena, uint8_t* scratch);

  // The present address of a buffer of the plan, which some step or output uses.
  void* address(int32_t buffer) const;

 private:
  using Slots = std::vector<uint32_t>;

  void bind_steps(const Program& program, const KernelLibrary& library, int32_t threads,
                  int32_t* fault);
  void set(const Slots& slots, void* address) {
    for (const uint32_t slot : slots) slots_[slot] = address;
  }

  std::vector<BoundStep> steps_;
  std::vector<void*> slots_;    // one per buffer of the plan, then all steps' argument arrays
  std::vector<int64_t> sizes_;  // all steps' size arguments
  std::vector<Slots> input_slots_;
  std::vector<Slots> output_slots_;
  std::vector<uint32_t> arena_slots_;   // slots that point into the arena …
  std::vector<int64_t> arena_offsets_;  // … and where
  int64_t scratch_bytes_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_BOUND_PLAN_H_
