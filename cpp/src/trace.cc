#include "trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace aot_rt {
namespace {

constexpr int64_t kLeastWait = 1000;  // ns: less is not waiting, but taking a free lock

}  // namespace

Trace::Trace(std::shared_ptr<const void> owner, const Plan& plan, const Program& program,
             const TraceOptions& options)
    : owner_(std::move(owner)),
      plan_(plan),
      program_(program),
      nvtx_(options.nvtx ? Nvtx::get() : nullptr),
      events_(options.capacity) {}

int64_t Trace::now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

aot_trace_event Trace::begin(aot_trace_kind kind, const char* name, const char* what) const {
  aot_trace_event event{};
  event.kind = kind;
  event.track = static_cast<uint64_t>(::syscall(SYS_gettid));  // not kept: a fork has another
  event.run = run_;
  event.name = name;
  event.what = what;
  event.origin = "";
  event.step = -1;
  event.bytes = -1;
  event.begin_ns = now();
  return event;
}

const char* Trace::name_of(int32_t step) const {
  return program_.step_name(program_.steps[static_cast<size_t>(step)]).c_str();
}

void Trace::describe(aot_trace_event* event, int32_t step, const BoundSizes* sizes) const {
  const Step& described = program_.steps[static_cast<size_t>(step)];
  event->step = step;
  if (described.origin >= 0) {
    event->origin = plan_.origins[static_cast<size_t>(described.origin)].c_str();
  }
  if (sizes == nullptr) return;
  event->bytes = 0;
  for (const int32_t buffer : described.buffers) {
    event->bytes += std::max<int64_t>(sizes->buffer_bytes(buffer), 0);
  }
}

void Trace::add(const aot_trace_event& event) noexcept {
  const uint64_t at = next_.fetch_add(1, std::memory_order_relaxed);
  if (at < events_.size()) events_[at] = event;
}

size_t Trace::size() const { return std::min<size_t>(next_.load(), events_.size()); }

Trace* TracedRun::begin_run(Trace* trace, int64_t asked) {
  if (trace == nullptr) return nullptr;
  trace->begin_run();
  aot_trace_event wait = trace->begin(AOT_TRACE_WAIT, "wait", "session");
  wait.end_ns = wait.begin_ns;
  wait.begin_ns = asked;
  if (trace->records() && asked != 0 && wait.end_ns - asked > kLeastWait) trace->add(wait);
  return trace;
}

void TraceSpan::begin(aot_trace_kind kind, const char* name, const char* what) {
  if (const Nvtx* tool = trace_->nvtx()) tool->push(name);
  around_ = trace_->innermost();
  trace_->set_innermost(this);
  event_ = trace_->begin(kind, name, what);
}

void TraceSpan::begin_step(aot_trace_kind kind, int32_t step, const BoundSizes* sizes) {
  begin(kind, trace_->name_of(step), "");
  trace_->describe(&event_, step, sizes);
}

void TraceSpan::end() noexcept {
  event_.end_ns = Trace::now();
  trace_->set_innermost(around_);
  if (const Nvtx* tool = trace_->nvtx()) tool->pop();
  if (trace_->records()) trace_->add(event_);
}

}  // namespace aot_rt
