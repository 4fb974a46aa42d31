// A session on a GPU: memory, streams, launches or graphs of them.
#ifndef AOT_SRC_CUDA_CUDA_SESSION_H_
#define AOT_SRC_CUDA_CUDA_SESSION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "cuda/bound_launches.h"
#include "cuda/device.h"
#include "cuda/device_program.h"
#include "cuda/input_copies.h"
#include "cuda/updates.h"
#include "memory.h"
#include "output_pool.h"
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
class CudaSession final : public Session {
 public:
  // As Session's. `code`: of `program`, or of the program that it is a routine of; kept by `place`,
  // or by the caller.
  CudaSession(const std::shared_ptr<Package>& package, const Plan& plan, const Program& program,
              DeviceProgram& code, std::shared_ptr<WeightPlace> place,
              const SessionOptions& options);
  ~CudaSession() override;

  const std::string& isa() const override { return program_.arch; }
  int32_t num_threads() const override { return 1; }
  DLDevice device() const override { return {kDLCUDA, device_->ordinal()}; }
  void* stream() const override { return own_stream_.get(); }
  void synchronize() override;

 protected:
  void run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                TakeOutput take, void* context) override;
  void read_state(const State& state, void* data) override;
  void write_state(const State& state, const void* data) override;
  std::unique_ptr<Session> twin() const override;

 private:
  // One run under way. Gives back what it took, after the GPU is done with it, if it fails.
  class Run {
   public:
    Run(CudaSession& session, CUstream stream) : session(session), stream(stream) {}
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    CudaSession& session;
    CUstream stream;
    bool finished = false;
  };

  void run_locked(const DLTensor* const* inputs, size_t count, CUstream stream, bool to_host);
  void prepare(const DLTensor* const* inputs, size_t count, CUstream stream, bool to_host);
  void bind_weights(BoundLaunches& bound);
  BoundLaunches& bind(const DLTensor* const* inputs, size_t count);
  void prepare_memory(BoundLaunches& bound);
  void place_outputs(BoundLaunches& bound, CUstream stream, bool to_host);
  void fetch_outputs(const BoundLaunches& bound, CUstream stream);
  void copy_shared_outputs(const BoundLaunches& bound, CUstream stream);
  void give_back_all();
  void spare_memory();

  void enqueue(BoundLaunches& bound, CUstream stream);
  bool enqueue_graph(BoundLaunches& bound, CUstream stream);
  void enqueue_launch(const Launch& launch, CUstream stream);
  void run_watched(const BoundLaunches& bound, CUstream stream);
  void run_profiled(const BoundLaunches& bound, CUstream stream);
  void wait_for_step(int32_t step, CUstream stream);
  void observe(const BoundLaunches& bound, int32_t step, CUstream stream);

  void mark_last_run();
  // Whether a stream is there as long as the session, and not the caller's to destroy.
  bool lasts(CUstream stream) const;
  void wait_for_last_run();
  void check_faults();
  volatile int32_t& fault_word(int32_t step) const {
    return reinterpret_cast<int32_t*>(faults_.data())[step];
  }
  // "kernel 'k' (model.py:12 aten.add.Tensor)"
  std::string step_name(int32_t step) const;
  const std::string& origin(int32_t step) const { return origins_[static_cast<size_t>(step)]; }

  DeviceProgram& code_;
  DevicePtr device_;
  const Driver& driver_;
  Stream own_stream_;
  Event last_run_;                  // behind the last run on a given stream …
  CUstream last_stream_ = nullptr;  // … which is this one; nullptr: nothing is under way
  PinnedBlock faults_;              // an int32 for each step
  std::vector<int32_t> faulting_;   // steps whose kernels report faults
  OutputPool* device_outputs_;
  OutputPool* host_outputs_;
  DeviceBlock states_;
  DeviceBlock memory_;
  InputCopies copies_;
  Updates updates_;
  std::list<std::unique_ptr<BoundLaunches>> plans_;  // most recently used first
  std::vector<OutputBlock*> results_;                // of the run under way: device memory …
  std::vector<OutputBlock*> fetched_;                // … and, if the caller wants that, host memory

  std::vector<std::unique_ptr<Event>> marks_;  // between the steps of a profiled run
};

}  // namespace cuda
}  // namespace aot_rt

#endif  // AOT_SRC_CUDA_CUDA_SESSION_H_
