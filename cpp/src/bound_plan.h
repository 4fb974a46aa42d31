// A plan resolved for given sizes: a run is a loop over its steps, nothing is computed again.
#ifndef AOT_SRC_BOUND_PLAN_H_
#define AOT_SRC_BOUND_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "aot/kernel_abi.h"
#include "cpu/kernel_library.h"
#include "plan.h"

namespace aot_rt {

struct BoundTensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // in elements
  int64_t span = 0;              // bytes from the first element to behind the last; 0 when empty
  bool contiguous = false;       // strides are those of C order
};

struct BoundStep {
  aot_kernel_fn run = nullptr;
  aot_kernel_args args{};  // with the first worker's scratch
  int64_t work = 0;
  int64_t chunks = 1;
  int32_t step = 0;  // position in the plan
};

// Belongs to one session. Addresses that change between runs (inputs, outputs, arena) are written
// into `slots`, which the steps' argument arrays are parts of.
class BoundPlan {
 public:
  // `dims`: one value per dim, already checked. `fault`: where kernels report bad data; must
  // outlive this. Throws SHAPE_MISMATCH or CORRUPT_PACKAGE.
  BoundPlan(const Plan& plan, const KernelLibrary& library, std::vector<int64_t> dims,
            int32_t threads, int32_t* fault);
  BoundPlan(const BoundPlan&) = delete;
  BoundPlan& operator=(const BoundPlan&) = delete;

  const std::vector<int64_t>& dims() const { return dims_; }
  const std::vector<BoundTensor>& inputs() const { return inputs_; }
  const std::vector<BoundTensor>& outputs() const { return outputs_; }
  const std::vector<BoundStep>& steps() const { return steps_; }
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t scratch_bytes() const { return scratch_bytes_; }  // per worker
  int64_t buffer_bytes(int32_t buffer) const { return bytes_[static_cast<size_t>(buffer)]; }

  void set_input(size_t index, void* address) { set(input_slots_[index], address); }
  void set_output(size_t index, void* address) { set(output_slots_[index], address); }

  // Points at a new arena or scratch, if `generation` is not that of the last call.
  void set_memory(uint64_t generation, uint8_t* arena, uint8_t* scratch);

  // The present address of a buffer of the plan, which some step or output uses.
  void* address(int32_t buffer) const;

 private:
  using Slots = std::vector<uint32_t>;

  void evaluate_checks(const Plan& plan) const;
  BoundTensor bind_tensor(const TensorSpec& spec, const char* what) const;
  void bind_buffers(const Plan& plan);
  void bind_arena(const Plan& plan);
  void bind_steps(const Plan& plan, const KernelLibrary& library, int32_t threads, int32_t* fault);
  void set(const Slots& slots, void* address) {
    for (const uint32_t slot : slots) slots_[slot] = address;
  }

  std::vector<int64_t> dims_;
  std::vector<BoundTensor> inputs_;
  std::vector<BoundTensor> outputs_;
  std::vector<BoundStep> steps_;
  std::vector<int64_t> bytes_;    // by buffer
  std::vector<int64_t> offsets_;  // by buffer: in the arena, -1 elsewhere
  std::vector<void*> slots_;      // one per buffer of the plan, then all steps' argument arrays
  std::vector<int64_t> sizes_;    // all steps' size arguments
  std::vector<Slots> input_slots_;
  std::vector<Slots> output_slots_;
  std::vector<uint32_t> arena_slots_;   // slots that point into the arena …
  std::vector<int64_t> arena_offsets_;  // … and where
  int64_t arena_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
  uint64_t generation_ = 0;
};

}  // namespace aot_rt

#endif  // AOT_SRC_BOUND_PLAN_H_
