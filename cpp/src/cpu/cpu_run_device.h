// The CPU as sessions run on it: kernel libraries, threads.
#ifndef AOT_SRC_CPU_CPU_RUN_DEVICE_H_
#define AOT_SRC_CPU_CPU_RUN_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu/bound_steps.h"
#include "run_device.h"
#include "session.h"
#include "thread_pool.h"

namespace aot_rt {

// The package's program for the CPU. `index` must be 0. Throws UNAVAILABLE, CORRUPT_PACKAGE,
// INCOMPATIBLE, DEVICE_ERROR or INVALID_ARGUMENT.
std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options);

// A run is over when its calls return: there is nothing to order, to wait for or to fetch.
class CpuRunDevice final : public RunDevice {
 public:
  CpuRunDevice(const SessionParts& parts, const SessionOptions& options);

  const std::string& isa() const override { return library_->isa(); }
  int32_t num_threads() const override { return crew_.threads(); }
  DLDevice where() const override { return {kDLCPU, 0}; }
  bool is_apart() const override { return false; }

  Block allocate(size_t bytes, const char* purpose) const override {
    return {allocator_, bytes, purpose};
  }
  OutputPoolPtr make_output_pool() const override { return OutputPool::create(allocator_); }
  OutputPoolPtr make_host_output_pool() const override { return nullptr; }

  std::unique_ptr<BoundProgram> bind(std::vector<int64_t> dims, uint8_t* states) override;
  void load(void* to, const void* from, size_t bytes) override;
  void store(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }

  void begin(const RunView& run) override;
  void* place_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) override;
  void set_weights(BoundProgram& bound, const Container& container, uint64_t generation,
                   const Placement* weights) override {
    bound.set_weights(container, generation, weights);
  }
  void launch(BoundProgram& bound, int32_t begin, int32_t end) override;
  void call(BoundProgram& bound, int32_t step, const Operator& code) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void read(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void fetch(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void finish(bool over) override;
  void abandon() noexcept override { fault_ = AOT_KERNEL_FAULT_NONE; }

 private:
  void run_step(const BoundSteps& bound, const BoundStep& step);
  void run_watched(const BoundSteps& bound, const BoundStep* first, const BoundStep* last);
  void count(int32_t step, std::chrono::steady_clock::time_point start) const;
  void observe(const BoundProgram& bound, int32_t step) const;
  [[noreturn]] void report_fault(int32_t step);

  const Plan& plan_;
  const Program& program_;
  std::shared_ptr<const KernelLibrary> library_;
  aot_allocator allocator_;
  Crew crew_;
  std::vector<Block> copies_;  // of inputs in other layouts, by input
  const RunView* run_ = nullptr;
  bool watched_ = false;
  int32_t fault_ = AOT_KERNEL_FAULT_NONE;
};

}  // namespace aot_rt

#endif  // AOT_SRC_CPU_CPU_RUN_DEVICE_H_
