// When a GPU did what a traced run gave it: events around each piece of work, told in the host's
// time.
#ifndef AOT_SRC_CUDA_TIMELINE_H_
#define AOT_SRC_CUDA_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/device.h"
#include "trace.h"

namespace aot_rt::cuda {

// Belongs to a session; one run at a time. Where no trace keeps events, nothing is done.
class Timeline {
 public:
  explicit Timeline(DevicePtr device) : device_(std::move(device)) {}

  // A run begins in this stream. Waits for the stream, so that both clocks are read together: the
  // host's times of the GPU's work are right within the microseconds that this takes.
  void begin(Trace* trace, CUstream stream);
  bool records() const { return trace_ != nullptr; }
  // All work has been enqueued: waits for it, and adds its spans to the trace.
  void finish();
  // The run has failed; what has not been added is forgotten.
  void abandon() noexcept;

 private:
  friend class DeviceSpan;

  struct Pending {
    aot_trace_event event;
    size_t first;  // the mark before it; the next one is behind it
  };

  // Room for two more marks; gives the number of the first.
  size_t take_marks();
  void record(size_t mark) noexcept;
  void anchor();
  void settle();
  int64_t host_time(size_t mark) const;

  DevicePtr device_;
  Trace* trace_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<std::unique_ptr<Event>> marks_;  // the first is the anchor
  size_t used_ = 0;
  int64_t anchor_ns_ = 0;  // the host's time of the anchor
  std::vector<Pending> pending_;
};

// Work that is enqueued while this lives, of which the trace's innermost span tells what it is.
// That span becomes the launch of it.
class DeviceSpan {
 public:
  explicit DeviceSpan(Timeline* timeline);
  ~DeviceSpan();
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;

 private:
  Timeline* timeline_;  // nullptr: nothing is recorded
  size_t first_ = 0;
};

}  // namespace aot_rt::cuda

#endif  // AOT_SRC_CUDA_TIMELINE_H_
