// One client's way to run a package: the same on every device.
//
// A session is in one of these states, and a failure leads back to `idle` from each:
//
//   state      what has been done                          after a failure
//   idle       nothing is under way
//   begun      weights taken, earlier runs ordered before  the device ends the run; nothing else
//   bound      a bound program for the input sizes         it stays, right for its sizes: what
//                                                          runs measure is forgotten in `bound`
//   placed     memory for temporaries, inputs, outputs     outputs go back; memory that has grown
//                                                          stays grown
//   running    steps are executed                          temporaries hold anything, which no run
//                                                          reads; outputs go back; states that
//                                                          steps write in place are as the steps
//                                                          left them
//   finishing  new values go to states and inputs          as in `running`: nothing fails here
//                                                          on the host, a device may
//
// So a run that failed has changed no later run but through states that the plan writes in place,
// and through inputs and outputs in the caller's memory (docs/abi.md, "After a failure").
#ifndef AOT_SRC_SESSION_H_
#define AOT_SRC_SESSION_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "aot/abi.h"
#include "flow_runner.h"
#include "lock.h"
#include "output_pool.h"
#include "package.h"
#include "run_control.h"
#include "run_device.h"
#include "trace.h"
#include "workspace.h"

namespace aot_rt {

struct SessionOptions {
  std::string isa;          // "": the best; for a device with libraries
  int32_t num_threads = 0;  // 0: usable_cores()
  const aot_executor* executor = nullptr;
  const aot_allocator* allocator = nullptr;         // of the host's memory
  const aot_allocator* device_allocator = nullptr;  // of the device's, where that is apart
  bool profile = false;
  bool host_outputs = false;   // of every run, on a device with memory of its own
  bool graphs = true;          // replay launches as one, where the device can
  bool synchronous = false;    // wait after every step, so that a failing kernel is named
  bool own_workspace = false;  // temporaries are not shared with other sessions
  Limits limits = Limits::from({});
};

// How one run is done.
struct RunOptions {
  void* stream = nullptr;     // the caller's; nullptr: none, the run is over when it returns
  bool host_outputs = false;  // outputs in host memory; always so on the CPU
  int64_t timeout_ns = 0;     // 0: the limits' alone
  const aot_cancellation* cancellation = nullptr;
  const DLTensor* const* outputs = nullptr;  // the caller's memory; see aot_run_options
  aot_observer_fn observer = nullptr;        // nullptr: the session's
  void* observer_context = nullptr;
};

// What a device's sessions are made of: how to make one more of the kind.
struct SessionParts {
  std::shared_ptr<Package> package;
  const Plan* plan;        // the package's or that of a routine; lives as long as the package
  const Program* program;  // of the plan
  std::shared_ptr<WeightPlace> place;         // where weights are; nullptr: none are read
  std::shared_ptr<WorkspacePool> workspaces;  // to share; nullptr: there are none
};
using MakeRunDevice = std::unique_ptr<RunDevice> (*)(const SessionParts& parts,
                                                     const SessionOptions& options, void* shared);

// Calls from several threads wait for each other.
class Session final : private Package::WeightUser, private FlowHost {
 public:
  // `shared`: the device's part of `parts.place`, or of the program that this is a routine of.
  Session(SessionParts parts, const SessionOptions& options, MakeRunDevice make, void* shared);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs the model. On success `take(index, block)` is called for every output and owns the block;
  // nullptr stands for one in the caller's memory. Throws, having taken nothing.
  template <typename Take>
  void run(const DLTensor* const* inputs, size_t count, const RunOptions& options, Take take) {
    const struct Finally {
      ~Finally() { session.forget_old_weights(); }
      Session& session;
    } finally{*this};
    run_locked(
        inputs, count, options,
        [](void* context, size_t index, OutputBlock* block) {
          (*static_cast<Take*>(context))(index, block);
        },
        &take);
  }

  // Runs a plan of one output, whose memory it gives: for routines of weight programs.
  SharedBytes compute(const DLTensor* const* inputs, size_t count);

  const Plan& plan() const { return *parts_.plan; }

  const std::string& isa() const { return device_->isa(); }
  int32_t num_threads() const { return device_->num_threads(); }
  DLDevice device() const { return device_->where(); }
  void* stream() const { return device_->stream(); }
  // Waits for the last run, and throws what it failed with.
  void synchronize();

  // The sizes of an output for inputs of these sizes; -1: only a run knows.
  void output_sizes(const DLTensor* const* inputs, size_t count, size_t index, int64_t* sizes,
                    size_t ndim);
  // Makes what runs with inputs of these sizes need.
  void prewarm(const DLTensor* const* inputs, size_t count);
  aot_memory_info memory();
  void trim();

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

 private:
  using TakeOutput = void (*)(void* context, size_t index, OutputBlock* block);
  class Run;

  const Program& program() const { return *parts_.program; }
  Package& package() const { return *parts_.package; }

  // session.cc
  const State& checked_state(size_t index, const void* data, size_t size) const;
  uint8_t* address_of(const State& state) const { return states_.data() + state.offset; }
  void write_state(const State& state, const void* data);
  void write_first_values();
  void take_weights();
  void drop_old_weights() final { forget_old_weights(); }
  // Lets go of weights that have been replaced, unless a run is using them: it does so at its end.
  void forget_old_weights();

  // session_memory.cc: what runs are bound to and placed in
  BoundProgram& bind(const DLTensor* const* inputs, size_t count);
  void trim_plans(size_t most_bytes);
  void borrow_workspace();
  void return_workspace() noexcept;
  void grow(Block* block, int64_t wanted, const char* purpose);
  void place_temporaries();
  void place_outputs();
  void place_output(size_t index);
  const DLTensor* callers_output(size_t index) const;
  bool is_fetched(size_t index) const;
  void* direct_place(size_t index, const DLTensor& callers) const;
  // The output's memory is its own, not that of an input, a weight, a temporary or another output.
  bool owns_buffer(size_t output) const;
  size_t output_bytes(size_t output) const;
  void spare_memory();

  // session_run.cc: one run, from begin to end
  void run_locked(const DLTensor* const* inputs, size_t count, const RunOptions& options,
                  TakeOutput take, void* context);
  void prepare(const DLTensor* const* inputs, size_t count);
  void bind_run(const DLTensor* const* inputs, size_t count);
  void place_memory();
  void place(const DLTensor* const* inputs);
  void execute();
  void trim_outputs();
  void give_back_outputs() noexcept;
  void fetch_outputs();
  bool writes_host(const DLTensor* const* inputs) const;
  void update_device(const DLTensor* const* inputs);
  void update_host(const DLTensor* const* inputs);
  void write_callers_outputs();

  // FlowHost, of the run under way.
  const BoundSizes& sizes() const override { return *bound_; }
  void enter(int32_t scope, const std::vector<int64_t>& values) override;
  void leave(int32_t scope) override { bound_->leave(scope); }
  void launch_steps(int32_t begin, int32_t end) override;
  void call_operator(int32_t step) override;
  void read_buffer(int32_t buffer, void* to, size_t bytes) override;
  void copy_buffer(int32_t from, int32_t to, size_t bytes) override;
  void begin_turn(int32_t step, int64_t turn) override;
  void count_turn() override { control_->count_turn(); }

  Lock lock_{"this session"};
  SessionParts parts_;
  aot_executor executor_{};    // the caller's, which `options_` points to
  aot_allocator allocator_{};  // the same
  aot_allocator device_allocator_{};
  SessionOptions options_;
  MakeRunDevice make_;
  void* shared_;
  std::vector<OperatorPtr> operators_;  // of the program's calls
  // What follows may hold memory that the device gave, and goes before it.
  std::unique_ptr<RunDevice> device_;
  OutputPoolPtr outputs_;       // on the device
  OutputPoolPtr host_outputs_;  // where the device is apart
  Block states_;
  std::list<std::unique_ptr<BoundProgram>> plans_;  // most recently used first
  std::shared_ptr<WorkspacePool> workspaces_;       // shared, or its own
  std::unique_ptr<Workspace> workspace_;            // while it is needed
  const Workspace* last_workspace_ = nullptr;       // to ask for again; may be gone
  std::vector<StepCounter> counters_;               // by step
  std::vector<std::string> origins_;                // by step
  aot_observer_fn observer_ = nullptr;
  void* observer_context_ = nullptr;
  std::unique_ptr<Trace> trace_;     // nullptr: runs are not traced
  std::atomic<bool> traced_{false};  // the same for who has not the lock yet
  std::shared_ptr<const Placement> weights_;
  std::atomic<uint64_t> held_{0};  // the generation of `weights_`; 0: none

  // Of the run under way.
  BoundProgram* bound_ = nullptr;
  RunControl* control_ = nullptr;
  bool to_host_ = false;                      // outputs are fetched
  const DLTensor* const* callers_ = nullptr;  // outputs in the caller's memory
  std::vector<OutputBlock*> results_;  // by output: on the device; nullptr: none, or not known yet
  std::vector<OutputBlock*> fetched_;  // by output: on the host, where the device is apart
  std::vector<void*> places_;          // by output: where it is on the device; nullptr: nowhere yet
  std::vector<bool> placed_;           // by output
  size_t placed_bytes_ = 0;
  std::vector<Block> staged_;  // by update: new values of inputs on their way to the host
};

}  // namespace aot_rt

#endif  // AOT_SRC_SESSION_H_
