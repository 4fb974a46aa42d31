// One client's way to run a package on a device: what every device's session offers.
#ifndef AOT_SRC_SESSION_H_
#define AOT_SRC_SESSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "output_pool.h"
#include "package.h"
#include "trace.h"

namespace aot_rt {

struct SessionOptions {
  std::string isa;          // "": the best; for a device with libraries
  int32_t num_threads = 0;  // 0: usable_cores()
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;
  bool profile = false;
  bool host_outputs = false;  // of every run, on a device with memory of its own
  bool graphs = true;         // replay launches as one, where the device can
  bool synchronous = false;   // wait after every step, so that a failing kernel is named
};

// How one run is done.
struct RunOptions {
  void* stream = nullptr;     // the caller's; nullptr: none, the run is over when it returns
  bool host_outputs = false;  // outputs in host memory; always so on the CPU
};

// Calls from several threads wait for each other.
class Session : private Package::WeightUser {
 public:
  virtual ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model. On success `take(index, block)` is called for every output and owns the block.
  // Throws, having taken nothing.
  template <typename Take>
  void run(const DLTensor* const* inputs, size_t count, const RunOptions& options, Take take) {
    const struct Finally {
      ~Finally() { session.forget_old_weights(); }
      Session& session;
    } finally{*this};
    run_with(
        inputs, count, options,
        [](void* context, size_t index, OutputBlock* block) {
          (*static_cast<Take*>(context))(index, block);
        },
        &take);
  }

  // Runs a plan of one output, whose memory it gives: for routines of weight programs.
  SharedBytes compute(const DLTensor* const* inputs, size_t count);

  const Plan& plan() const { return plan_; }

  virtual const std::string& isa() const = 0;  // of the loaded kernels; "sm_90" on such a device
  virtual int32_t num_threads() const = 0;     // of the host
  virtual DLDevice device() const = 0;         // where it runs
  virtual void* stream() const { return nullptr; }  // its own, if the device has streams
  // Waits for the last run, and throws what it failed with.
  virtual void synchronize() {}

  // States by their position in the plan; `size` must be the state's. Throws INVALID_ARGUMENT.
  void get_state(size_t index, void* data, size_t size);
  void set_state(size_t index, const void* data, size_t size);
  void reset_states();  // to their first values
  // A session of the same options whose states are what this one's are now.
  std::unique_ptr<Session> clone();

  void set_observer(aot_observer_fn observer, void* context);
  void profile(aot_step_profile* steps, size_t capacity, size_t* count);
  void reset_profile();

  // A timeline of the runs that begin later; see aot_session_trace_begin.
  void begin_trace(const TraceOptions& options);
  std::unique_ptr<Trace> end_trace();

 protected:
  // When a run asks for the session, if that is to be known.
  int64_t asked_now() const { return traced_.load(std::memory_order_relaxed) ? Trace::now() : 0; }

  using TakeOutput = void (*)(void* context, size_t index, OutputBlock* block);

  struct Counter {
    uint64_t calls = 0;
    uint64_t nanoseconds = 0;
  };

  // `program`: of `plan`, which is the package's or that of a routine. `place`: where weights are;
  // nullptr: none are read. A device's session calls write_first_values() when it can.
  Session(std::shared_ptr<Package> package, const Plan& plan, const Program& program,
          std::shared_ptr<WeightPlace> place, const SessionOptions& options);

  virtual void run_with(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                        TakeOutput take, void* context) = 0;

  // A state's memory, from and to the host's; `data` nullptr: zeros. The mutex is held, or nobody
  // else knows the session.
  virtual void read_state(const State& state, void* data) = 0;
  virtual void write_state(const State& state, const void* data) = 0;
  // A session of the same options, with first values.
  virtual std::unique_ptr<Session> twin() const = 0;
  void write_first_values();

  Package& package() const { return *package_; }
  const std::shared_ptr<Package>& shared_package() const { return package_; }
  const std::shared_ptr<WeightPlace>& place() const { return place_; }
  const SessionOptions& options() const { return options_; }

  // Takes the present weights for a run that begins. Under `mutex_`.
  void take_weights();
  // What the last call took; nullptr when no weights are read. Equal generations, from 1, mean
  // equal addresses.
  const Placement* weights() const { return weights_.get(); }
  uint64_t generation_of_weights() const { return held_.load(std::memory_order_relaxed); }
  // The code of a call step's operator.
  const Operator& operator_of(const Step& step) const {
    return *operators_[static_cast<size_t>(step.call)];
  }
  // The output's memory is its own, not that of an input, a weight, a temporary or another output.
  bool owns_buffer(size_t output) const;

  std::mutex mutex_;  // held by whoever runs, or touches what follows
  const Program& program_;
  std::vector<Counter> counters_;     // by step
  std::vector<std::string> origins_;  // by step
  aot_observer_fn observer_ = nullptr;
  void* observer_context_ = nullptr;
  std::unique_ptr<Trace> trace_;     // nullptr: runs are not traced
  std::atomic<bool> traced_{false};  // for who has not the mutex yet

 private:
  const State& checked_state(size_t index, const void* data, size_t size) const;
  void drop_old_weights() final { forget_old_weights(); }
  // Lets go of weights that have been replaced, unless a run is using them: it does so at its end.
  void forget_old_weights();

  std::shared_ptr<Package> package_;
  const Plan& plan_;
  aot_executor executor_{};    // the caller's, which `options_` points to
  aot_allocator allocator_{};  // the same
  SessionOptions options_;
  std::vector<OperatorPtr> operators_;  // of the program's calls
  std::shared_ptr<WeightPlace> place_;
  std::shared_ptr<const Placement> weights_;
  std::atomic<uint64_t> held_{0};  // the generation of `weights_`; 0: none. Written under `mutex_`
};

}  // namespace aot_rt

#endif  // AOT_SRC_SESSION_H_
