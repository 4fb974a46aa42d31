#include "cuda/timeline.h"

namespace aot_rt::cuda {
namespace {

constexpr size_t kMostMarks = 8192;  // between two looks at the clocks
constexpr double kNanosecondsPerMillisecond = 1e6;

bool is_work(int32_t kind) {
  return kind == AOT_TRACE_KERNEL || kind == AOT_TRACE_COPY || kind == AOT_TRACE_CALL;
}

}  // namespace

void Timeline::begin(Trace* trace, CUstream stream) {
  trace_ = trace != nullptr && trace->records() ? trace : nullptr;
  if (trace_ == nullptr) return;
  stream_ = stream;
  pending_.clear();
  device_->driver().stream_synchronize(stream_);
  anchor();
}

void Timeline::finish() {
  if (trace_ == nullptr) return;
  {
    const TraceSpan wait(trace_, AOT_TRACE_WAIT, "wait", "device");
    device_->driver().stream_synchronize(stream_);
  }
  settle();
  trace_ = nullptr;
}

void Timeline::abandon() noexcept {
  pending_.clear();
  trace_ = nullptr;
}

// The stream is empty: the event happens between two looks at the host's clock.
void Timeline::anchor() {
  used_ = 0;
  const size_t mark = take_marks();
  used_ = 1;
  const int64_t before = Trace::now();
  record(mark);
  device_->driver().event_synchronize(marks_[mark]->get());
  anchor_ns_ = before + (Trace::now() - before) / 2;
}

// The stream is empty.
void Timeline::settle() {
  for (Pending& pending : pending_) {
    pending.event.begin_ns = host_time(pending.first);
    pending.event.end_ns = host_time(pending.first + 1);
    trace_->add(pending.event);
  }
  pending_.clear();
}

int64_t Timeline::host_time(size_t mark) const {
  float milliseconds = 0;
  device_->driver().event_elapsed_time(&milliseconds, marks_[0]->get(), marks_[mark]->get());
  return anchor_ns_ + static_cast<int64_t>(milliseconds * kNanosecondsPerMillisecond);
}

size_t Timeline::take_marks() {
  if (used_ >= kMostMarks) {
    device_->driver().stream_synchronize(stream_);
    settle();
    anchor();
  }
  while (marks_.size() < used_ + 2) {
    marks_.push_back(std::make_unique<Event>(device_, kEventDefault));
  }
  const size_t first = used_;
  used_ += 2;
  return first;
}

void Timeline::record(size_t mark) noexcept {
  device_->driver().event_record.raw(marks_[mark]->get(), stream_);
}

DeviceSpan::DeviceSpan(Timeline* timeline)
    : timeline_(timeline != nullptr && timeline->records() ? timeline : nullptr) {
  if (timeline_ == nullptr) return;
  first_ = timeline_->take_marks();
  std::vector<Timeline::Pending>& pending = timeline_->pending_;
  if (pending.size() == pending.capacity()) pending.reserve(2 * pending.size() + 64);
  timeline_->record(first_);
}

DeviceSpan::~DeviceSpan() {
  if (timeline_ == nullptr) return;
  timeline_->record(first_ + 1);
  TraceSpan* const around = timeline_->trace_->innermost();
  if (around == nullptr) return;
  aot_trace_event& told = around->event();
  aot_trace_event event = told;
  if (is_work(told.kind)) {
    event.flow = told.flow = timeline_->trace_->next_flow();
  } else {  // a copy that has no span of its own, such as an observer's
    event.kind = AOT_TRACE_COPY;
    event.name = "copy";
    event.bytes = -1;
  }
  event.on_device = 1;
  event.track = reinterpret_cast<uint64_t>(timeline_->stream_);
  timeline_->pending_.push_back({event, first_});  // there is room
  if (told.kind == AOT_TRACE_KERNEL || told.kind == AOT_TRACE_COPY) told.kind = AOT_TRACE_LAUNCH;
}

}  // namespace aot_rt::cuda
