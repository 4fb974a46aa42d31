// A program of kernel libraries resolved for given sizes: a run is a loop over its steps, nothing
// is computed again.
#ifndef AOT_SRC_CPU_BOUND_PLAN_H_
#define AOT_SRC_CPU_BOUND_PLAN_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "aot/kernel_abi.h"
#include "bound_call.h"
#include "bound_sizes.h"
#include "cpu/kernel_library.h"
#include "memory.h"
#include "plan.h"
#include "weights.h"

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
  // As BoundSizes. `states`: the session's block; `fault`: where kernels report bad data; both must
  // outlive this.
  BoundPlan(const Plan& plan, const Program& program, const KernelLibrary& library,
            std::vector<int64_t> dims, int32_t threads, uint8_t* states, int32_t* fault);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const std::vector<BoundStep>& steps() const { return steps_; }
  // The launch of the program's step of that number; nullptr: it has nothing to do.
  const BoundStep* step_of(int32_t step) const {
    const int32_t position = position_[static_cast<size_t>(step)];
    return position < 0 ? nullptr : &steps_[static_cast<size_t>(position)];
  }
  // The call of a call step, bound when it is first asked for.
  BoundCall& call_of(const Program& program, const Step& step) {
    return calls_.of(program, step, *this, DLDevice{kDLCPU, 0});
  }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // per worker

  void set_input(size_t index, void* address) { set(input_slots_[index], address); }
  void set_output(size_t index, void* address) { set(output_slots_[index], address); }

  // Points at the entries' bytes in `weights` (nullptr: in the package), if `generation` is not
  // that of the last call; 0 is that of the package's own.
  void set_weights(const Program& program, const Container& container, uint64_t generation,
                   const Placement* weights);

  // Points at new arenas (one for each scope) or scratch, if `generation` is not that of the last
  // call.
  void set_memory(uint64_t generation, const std::vector<Block>& arenas, uint8_t* scratch);

  // Slices of loop `step` are those of this turn from now on. Addresses of what they are parts of
  // must have been set.
  void set_turn(const Program& program, int32_t step, int64_t turn);

  // The present address of a buffer of the plan, which some step or output uses.
  void* address(int32_t buffer) const;

 private:
  using Slots = std::vector<uint32_t>;

  std::vector<int32_t> bind_steps(const Program& program, const KernelLibrary& library,
                                  int32_t threads, int32_t* fault);
  void bind_slots(const Plan& plan, const Program& program,
                  const std::vector<int32_t>& buffer_of_slot, uint8_t* states);
  Slots& slice_place(int32_t buffer, int32_t loop);
  void set(const Slots& slots, void* address) {
    for (const uint32_t slot : slots) slots_[slot] = address;
  }

  std::vector<BoundStep> steps_;
  std::vector<void*> slots_;    // one per buffer of the plan, then all steps' argument arrays
  std::vector<int64_t> sizes_;  // all steps' size arguments
  std::vector<Slots> input_slots_;
  std::vector<Slots> output_slots_;
  std::vector<std::pair<uint32_t, int32_t>> entry_slots_;  // and the buffer of each
  struct ArenaPlace {
    uint32_t slot;
    int32_t scope;
    int64_t offset;
  };
  struct SlicePlace {
    int32_t buffer;
    int32_t loop;
    Slots slots;
  };
  std::vector<ArenaPlace> arena_places_;
  std::vector<SlicePlace> slices_;  // in the order of the buffers
  std::vector<int32_t> position_;   // by step of the program: in steps_, or -1
  BoundCalls calls_;
  int64_t scratch_bytes_ = 0;
  uint64_t generation_ = 0;
  uint64_t weights_generation_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_BOUND_PLAN_H_
