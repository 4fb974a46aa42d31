// A session on a GPU: memory, streams, launches or graphs of them.
#ifndef AOT_SRC_CUDA_CUDA_SESSION_H_
#define AOT_SRC_CUDA_CUDA_SESSION_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/bound_launches.h"
#include "cuda/device.h"
#include "cuda/device_program.h"
#include "cuda/input_copies.h"
#include "cuda/timeline.h"
#include "cuda/updates.h"
#include "flow_runner.h"
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
//
// A program with control steps waits for the GPU wherever one of them reads what it computed; the
// launches between them are graphs of their own. Custom operators are called between launches and
// enqueue their work in the run's stream; no graph holds it, and nobody waits for it.
class CudaSession final : public Session, private FlowDevice {
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
  BoundLaunches& bind(std::vector<int64_t> dims);
  void prepare_memory(BoundLaunches& bound);
  void place_outputs(BoundLaunches& bound, CUstream stream, bool to_host);
  void place_output(size_t index, const BoundLaunches& bound, CUstream stream, bool to_host);
  void trim_outputs(bool to_host);
  void fetch_outputs(CUstream stream);
  void copy_shared_outputs(CUstream stream);
  void give_back_all();
  void spare_memory();

  void enqueue(BoundLaunches& bound, CUstream stream);
  void run_flow(CUstream stream, bool to_host);
  void enqueue_segment(BoundLaunches& bound, Segment* segment, CUstream stream);
  bool enqueue_graph(BoundLaunches& bound, Segment* segment, CUstream stream);
  void enqueue_launch(const Launch& launch, CUstream stream);
  void run_watched(const BoundLaunches& bound, LaunchRange launches, CUstream stream);
  void run_profiled(LaunchRange launches, CUstream stream);
  // Notes when the stream comes to this point; the step took from mark `index` to the next one.
  void mark(size_t index, CUstream stream);
  void count(int32_t step, size_t index);
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
  // "kernel 'k' (model.py:12 aten.add.Tensor)", "custom operator 'ns::name' (…)"
  std::string step_name(int32_t step) const;
  const std::string& origin(int32_t step) const { return origins_[static_cast<size_t>(step)]; }

  // FlowDevice, of the run under way.
  void bind_flow(std::vector<int64_t> dims) override;
  const BoundSizes& sizes() const override { return *bound_; }
  void launch_steps(int32_t begin, int32_t end) override;
  void call_operator(int32_t step) override;
  void read_buffer(int32_t buffer, void* to, size_t bytes) override;
  void copy_buffer(int32_t from, int32_t to, size_t bytes) override;
  void begin_turn(int32_t step, int64_t turn) override;

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
  std::vector<DeviceBlock> arenas_;  // by scope
  DeviceBlock scratch_;
  InputCopies copies_;
  Timeline timeline_;
  Updates updates_;
  std::list<std::unique_ptr<BoundLaunches>> plans_;  // most recently used first
  std::vector<std::unique_ptr<Event>> marks_;        // between the steps of a profiled run

  // Of the run under way. Outputs have device memory, and host memory if the caller wants that;
  // those of sizes that are not known yet have no plan.
  BoundLaunches* bound_ = nullptr;  // for the sizes known so far
  std::vector<OutputBlock*> results_;
  std::vector<OutputBlock*> fetched_;
  std::vector<const BoundLaunches*> output_plans_;
  std::vector<void*> addresses_;                    // of inputs
  std::vector<std::pair<int32_t, int64_t>> turns_;  // of loops, the latest last
  CUstream stream_ = nullptr;
  bool to_host_ = false;
};

}  // namespace cuda
}  // namespace aot_rt

#endif  // AOT_SRC_CUDA_CUDA_SESSION_H_
