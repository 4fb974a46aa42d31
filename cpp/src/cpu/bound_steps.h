// A program of kernel libraries resolved for given sizes.
#ifndef AOT_SRC_CPU_BOUND_STEPS_H_
#define AOT_SRC_CPU_BOUND_STEPS_H_

#include <cstdint>
#include <vector>

#include "aot/kernel_abi.h"
#include "bound_program.h"
#include "cpu/chunks.h"
#include "cpu/kernel_library.h"

namespace aot_rt {

struct BoundStep {
  aot_kernel_fn run = nullptr;
  aot_kernel_args args{};  // with the first worker's scratch
  int64_t work = 0;        // 0: nothing to do
  Chunks chunks;           // of the work
  int32_t step = 0;        // position in the plan
};

class BoundSteps final : public BoundProgram {
 public:
  // As BoundProgram. `fault`: where kernels report bad data; must outlive this.
  BoundSteps(const Plan& plan, const Program& program, const KernelLibrary& library,
             std::vector<int64_t> dims, int32_t threads, uint8_t* states, int32_t* fault);

  void set_scratch(uint8_t* memory) override;
  size_t footprint() const override;

  // The launches from the step `begin` to before `end`.
  const BoundStep* first(int32_t begin) const { return bound_.data() + first_launch(begin); }
  const BoundStep* last(int32_t end) const { return bound_.data() + first_launch(end); }

  // Bytes between the workers' scratch.
  int64_t scratch_stride() const { return scratch_bytes() / threads_; }

 private:
  void bind_launch(int32_t launch, const Step& step) override;

  const KernelLibrary& library_;
  int32_t threads_;
  int32_t* fault_;
  uint8_t* scratch_ = nullptr;
  std::vector<BoundStep> bound_;  // by launch
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_BOUND_STEPS_H_
