// The timeline of a session's runs: what happened when, in a buffer of fixed size, and ranges for
// the tools that watch the process.
#ifndef AOT_SRC_TRACE_H_
#define AOT_SRC_TRACE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "aot/abi.h"
#include "bound_sizes.h"
#include "nvtx.h"
#include "plan.h"

namespace aot_rt {

struct TraceOptions {
  size_t capacity = 0;  // events; 0: none are kept, runs go as they do without a trace
  bool nvtx = false;    // ranges for tools
};

class TraceSpan;

// Belongs to the session until it is given to the caller. While a run is in progress, whatever
// thread works for it may add events.
class Trace {
 public:
  // `owner` keeps plan and program, whose names the events point to. Throws what Nvtx::get does.
  Trace(std::shared_ptr<const void> owner, const Plan& plan, const Program& program,
        const TraceOptions& options);

  // Nanoseconds of the monotonic clock.
  static int64_t now();

  // Whether events are kept: devices then run launch by launch, and look at the clock.
  bool records() const { return !events_.empty(); }
  const Nvtx* nvtx() const { return nvtx_; }

  void begin_run() { ++run_; }
  uint64_t next_flow() { return ++flow_; }
  // An event of this run and thread that begins now.
  aot_trace_event begin(aot_trace_kind kind, const char* name, const char* what) const;
  const char* name_of(int32_t step) const;
  // Says what step of the plan it is and its model line, and with `sizes` the bytes of its
  // buffers.
  void describe(aot_trace_event* event, int32_t step, const BoundSizes* sizes) const;
  // Keeps an event, or counts it as dropped. Any thread.
  void add(const aot_trace_event& event) noexcept;

  // The innermost span of the thread that runs the session; nullptr: none is open.
  TraceSpan* innermost() const { return innermost_; }
  void set_innermost(TraceSpan* span) { innermost_ = span; }

  // What has been added, in that order. Not while a run is in progress.
  size_t size() const;
  const aot_trace_event& operator[](size_t index) const { return events_[index]; }
  uint64_t dropped() const { return next_.load() - size(); }

 private:
  std::shared_ptr<const void> owner_;
  const Plan& plan_;
  const Program& program_;
  const Nvtx* nvtx_;
  std::vector<aot_trace_event> events_;
  std::atomic<uint64_t> next_{0};
  uint64_t run_ = 0;
  uint64_t flow_ = 0;
  TraceSpan* innermost_ = nullptr;
};

// A span of the time of the thread that runs the session, kept when it ends, also by an exception.
// Spans nest. Nothing without a trace.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, aot_trace_kind kind, const char* name, const char* what = "")
      : trace_(trace) {
    if (trace_ != nullptr) begin(kind, name, what);
  }
  // The same for a step of the plan.
  TraceSpan(Trace* trace, aot_trace_kind kind, int32_t step, const BoundSizes* sizes)
      : trace_(trace) {
    if (trace_ != nullptr) begin_step(kind, step, sizes);
  }
  ~TraceSpan() {
    if (trace_ != nullptr) end();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // Only with a trace.
  aot_trace_event& event() { return event_; }
  void set_bytes(size_t bytes) {
    if (trace_ != nullptr) event_.bytes = static_cast<int64_t>(bytes);
  }
  void set_what(const char* what) { event_.what = what; }

 private:
  void begin(aot_trace_kind kind, const char* name, const char* what);
  void begin_step(aot_trace_kind kind, int32_t step, const BoundSizes* sizes);
  void end() noexcept;

  Trace* trace_;
  TraceSpan* around_ = nullptr;
  aot_trace_event event_{};
};

// The span of one run, whose thread asked for the session at `asked` and has its lock by now; 0: it
// has not looked at the clock.
class TracedRun {
 public:
  TracedRun(Trace* trace, const char* model, int64_t asked)
      : span_(begin_run(trace, asked), AOT_TRACE_RUN, model) {}

 private:
  static Trace* begin_run(Trace* trace, int64_t asked);

  TraceSpan span_;
};

}  // namespace aot_rt

#endif  // AOT_SRC_TRACE_H_
