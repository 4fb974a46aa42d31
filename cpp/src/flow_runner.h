// Runs a program's steps in the order that its control steps give, on any device.
#ifndef AOT_SRC_FLOW_RUNNER_H_
#define AOT_SRC_FLOW_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "aot/abi.h"
#include "bound_sizes.h"
#include "plan.h"
#include "trace.h"

namespace aot_rt {

// What control steps need of the session that runs them. Buffers are those of the program.
class FlowHost {
 public:
  virtual const BoundSizes& sizes() const = 0;
  // Binds the measured dims of a scope, and places what they decide; leave() ends that.
  virtual void enter(int32_t scope, const std::vector<int64_t>& values) = 0;
  virtual void leave(int32_t scope) = 0;

  // Steps from `begin` to before `end`, launches all of them.
  virtual void launch_steps(int32_t begin, int32_t end) = 0;
  // Calls the custom operator of a call step. Throws OPERATOR_FAILED without a place.
  virtual void call_operator(int32_t step) = 0;
  // Waits for what was launched, and reads the buffer's first bytes.
  virtual void read_buffer(int32_t buffer, void* to, size_t bytes) = 0;
  virtual void copy_buffer(int32_t from, int32_t to, size_t bytes) = 0;
  // Slices of loop `step` are those of this turn from now on.
  virtual void begin_turn(int32_t step, int64_t turn) = 0;
  // Counts a turn of any loop against the run's limit, and looks whether the run shall end.
  virtual void count_turn() = 0;

 protected:
  ~FlowHost() = default;
};

// One run of a program with control steps; `host` is bound for the inputs' sizes.
class FlowRunner {
 public:
  // `trace`: where control steps are noted; may be nullptr.
  FlowRunner(const Plan& plan, const Program& program, FlowHost* host, Trace* trace)
      : plan_(plan), program_(program), host_(*host), trace_(trace) {}

  // Throws what the host throws; OPERATOR_FAILED with the step's origin; INVALID_ARGUMENT with
  // the step's origin when a check of the model fails; SHAPE_MISMATCH when a size that is read is
  // out of its range; CORRUPT_PACKAGE.
  void run() { run_steps(0, static_cast<int32_t>(program_.steps.size())); }

 private:
  void run_steps(int32_t begin, int32_t end);
  void run_control(const Step& step, int32_t at);
  int32_t launch(int32_t begin, int32_t end);
  void branch(const Step& step, int32_t first);
  void repeat_while(const Step& step, int32_t first);
  void repeat(const Step& step, int32_t self);
  void check_slices(int32_t self, int64_t count) const;
  void copy(const Step& step, TraceSpan* traced);
  void read_sizes(const Step& step, int32_t first);
  void check(const Step& step);
  void call(int32_t at);
  bool holds(const Step& step);
  int64_t size_in(int32_t buffer);
  [[noreturn]] void fail_at(const Step& step, aot_code code, const std::string& message) const;

  const Plan& plan_;
  const Program& program_;
  FlowHost& host_;
  Trace* trace_;
  std::vector<int64_t> values_;  // that a step has read
};

}  // namespace aot_rt

#endif  // AOT_SRC_FLOW_RUNNER_H_
