// A GPU as sessions run on it: streams, launches or graphs of them.
#ifndef AOT_SRC_CUDA_CUDA_RUN_DEVICE_H_
#define AOT_SRC_CUDA_CUDA_RUN_DEVICE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/bound_launches.h"
#include "cuda/device.h"
#include "cuda/device_memory.h"
#include "cuda/device_program.h"
#include "cuda/input_copies.h"
#include "cuda/timeline.h"
#include "run_device.h"
#include "session.h"

namespace aot_rt {

// The package's program for the GPU of that number. Throws UNAVAILABLE (no driver, no such GPU, no
// kernels for it), OUT_OF_MEMORY, DEVICE_ERROR, CORRUPT_PACKAGE or INVALID_ARGUMENT.
std::unique_ptr<Session> make_cuda_session(std::shared_ptr<Package> package, int32_t index,
                                           const SessionOptions& options);

namespace cuda {

// A run without a stream is over when it returns. A run on the caller's stream is only enqueued
// there, unless outputs go to the host; data that it finds wrong is reported by synchronize() or by
// the next run.
//
// A program with control steps waits for the GPU wherever one of them reads what it computed; the
// launches between them are graphs of their own. Custom operators are called between launches and
// enqueue their work in the run's stream; no graph holds it, and nobody waits for it.
class CudaRunDevice final : public RunDevice {
 public:
  // `code`: of the program, or of the program that it is a routine of; kept by the session's place,
  // or by the caller.
  CudaRunDevice(const SessionParts& parts, const SessionOptions& options, DeviceProgram& code);
  ~CudaRunDevice() override;

  const std::string& isa() const override { return program_.arch; }
  int32_t num_threads() const override { return 1; }
  DLDevice where() const override { return {kDLCUDA, device_->ordinal()}; }
  void* stream() const override { return own_stream_.get(); }
  bool is_apart() const override { return true; }

  Block allocate(size_t bytes, const char* purpose) const override;
  OutputPoolPtr make_output_pool() const override;
  OutputPoolPtr make_host_output_pool() const override;

  size_t most_plans() const override { return 16; }  // with their graphs
  std::unique_ptr<BoundProgram> bind(std::vector<int64_t> dims, uint8_t* states) override;
  void forget(std::unique_ptr<BoundProgram> bound) override;
  void load(void* to, const void* from, size_t bytes) override;
  void store(void* to, const void* from, size_t bytes) override;

  void begin(const RunView& run) override;
  const void* queue() const override { return reinterpret_cast<const void*>(key_); }
  void* place_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) override;
  void set_weights(BoundProgram& bound, const Container& container, uint64_t generation,
                   const Placement* weights) override;
  void launch(BoundProgram& bound, int32_t begin, int32_t end) override;
  void call(BoundProgram& bound, int32_t step, const Operator& code) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void read(void* to, const void* from, size_t bytes) override;
  void fetch(void* to, const void* from, size_t bytes) override;
  void finish(bool over) override;
  void abandon() noexcept override;
  bool is_busy() const override { return busy_; }
  void synchronize() override;

 private:
  // cuda_streams.cc: the order of runs
  void require_process() const;
  void refuse_capture(CUstream stream) const;
  uintptr_t key_of(CUstream stream) const;
  bool lasts() const;
  void mark_last_run();
  void wait_for_last_run();
  void check_faults();

  // cuda_launches.cc: what a run launches
  bool launch_graph(BoundLaunches& bound, Segment* segment);
  void launch_one(const BoundSizes& bound, const Launch& launch);
  void run_watched(const BoundLaunches& bound, LaunchRange launches);
  void run_profiled(const BoundSizes& bound, LaunchRange launches);
  // Notes when the stream comes to this point; the step took from mark `index` to the next one.
  void mark(size_t index);
  void count(int32_t step, size_t index);
  void wait_for_step(int32_t step);
  void observe(const BoundProgram& bound, int32_t step);
  bool is_watched() const { return options_.synchronous || run_->observer != nullptr; }

  volatile int32_t& fault_word(int32_t step) const {
    return reinterpret_cast<int32_t*>(faults_.data())[step];
  }
  // "kernel 'k' (model.py:12 aten.add.Tensor)", "custom operator 'ns::name' (…)"
  std::string step_name(int32_t step) const;
  std::string origin(int32_t step) const {
    return plan_.origin_of(program_.steps[static_cast<size_t>(step)]);
  }

  const Plan& plan_;
  const Program& program_;
  SessionOptions options_;
  Log log_;
  DeviceProgram& code_;
  DevicePtr device_;
  std::shared_ptr<const DeviceMemory> memory_;
  const Driver& driver_;
  Stream own_stream_;
  PinnedBlock faults_;             // an int32 for each step
  std::vector<int32_t> faulting_;  // steps whose kernels report faults
  InputCopies copies_;
  Timeline timeline_;
  std::vector<std::unique_ptr<Event>> marks_;  // between the steps of a profiled run

  // The last run that was only enqueued. Streams are told apart by their number, which the driver
  // never gives again: handles are reused, and one handle means another stream in each thread.
  Event last_run_;     // behind it, once it is recorded
  bool busy_ = false;  // it may still go on
  CUstream last_stream_ = nullptr;
  uintptr_t last_key_ = 0;

  // Of the run under way.
  const RunView* run_ = nullptr;
  std::optional<Scope> scope_;  // the device's context, in the thread that runs
  CUstream stream_ = nullptr;
  uintptr_t key_ = 0;
  bool ordered_ = false;  // behind the runs before it
};

}  // namespace cuda
}  // namespace aot_rt

#endif  // AOT_SRC_CUDA_CUDA_RUN_DEVICE_H_
