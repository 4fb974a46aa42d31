#include "cpu/bound_steps.h"

#include <utility>

#include "error.h"

namespace aot_rt {
namespace {

constexpr int64_t kScratchAlignment = 128;

}  // namespace

BoundSteps::BoundSteps(const Plan& plan, const Program& program, const KernelLibrary& library,
                       std::vector<int64_t> dims, int32_t threads, uint8_t* states, int32_t* fault)
    : BoundProgram(plan, program, std::move(dims), states),
      library_(library),
      threads_(threads),
      fault_(fault),
      bound_(launch_count()) {
  bind_launches();
}

void BoundSteps::bind_launch(int32_t launch, const Step& step) {
  const std::string& kernel = program().kernel_of(step).name;
  BoundStep& bound = bound_[static_cast<size_t>(launch)];
  bound.work = evaluate_count(step.work, dims().data(), "work of step", kernel);
  bound.run = library_.kernel(step.kernel);
  bound.chunks = Chunks(bound.work, step.grain, threads_);
  bound.step = step_of(launch);
  bound.args.buffers = buffers_of(launch);
  bound.args.sizes = sizes_of(launch);
  bound.args.scratch = scratch_;
  bound.args.fault = fault_;
  if (bound.work == 0) return;
  // The same for all workers, so that each finds its own.
  int64_t bytes = evaluate_count(step.scratch, dims().data(), "scratch of step", kernel);
  if (__builtin_add_overflow(bytes, kScratchAlignment - 1, &bytes) ||
      __builtin_mul_overflow(bytes / kScratchAlignment * kScratchAlignment, int64_t{threads_},
                             &bytes)) {
    fail(AOT_OUT_OF_MEMORY, "no memory for the scratch of kernel '", kernel, "'");
  }
  need_scratch(bytes);
}

void BoundSteps::set_scratch(uint8_t* memory) {
  if (scratch_ == memory) return;
  scratch_ = memory;
  for (BoundStep& step : bound_) step.args.scratch = memory;
}

size_t BoundSteps::footprint() const {
  return BoundProgram::footprint() + bound_.size() * sizeof(BoundStep);
}

}  // namespace aot_rt
