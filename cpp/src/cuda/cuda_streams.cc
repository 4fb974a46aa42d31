// The order of a session's runs on a GPU: which stream each is in, and what waits for what.
#include "cuda/cuda_run_device.h"
#include "error.h"

namespace aot_rt::cuda {
namespace {

CUstream const kDefaultStream = reinterpret_cast<CUstream>(1);  // CU_STREAM_LEGACY
// Keys of streams: handles of those that last are even, or 1; numbers of the others are made odd.
constexpr uintptr_t kNumberShift = 2;
constexpr uintptr_t kNumberMark = 3;

}  // namespace

// A context of CUDA does not pass to a child process.
void CudaRunDevice::require_process() const {
  if (!device_->is_lost()) return;
  fail(AOT_UNAVAILABLE, "this session was made before the process was forked, and CUDA does not ",
       "work in the child: open the package after the fork, or start the process with 'spawn'");
}

// What a capture records would be replayed with memory that the session has given to others by
// then.
void CudaRunDevice::refuse_capture(CUstream stream) const {
  int status = kCaptureNone;
  if (driver_.stream_is_capturing.raw(stream, &status) == kSuccess && status == kCaptureNone)
    return;
  fail(AOT_UNSUPPORTED, "the stream is capturing a CUDA graph, which a run cannot be part of: run ",
       "outside of the capture (repeated runs are graphs of the runtime's own)");
}

uintptr_t CudaRunDevice::key_of(CUstream stream) const {
  if (stream == kDefaultStream || stream == own_stream_.get()) {
    return reinterpret_cast<uintptr_t>(stream);
  }
  unsigned long long number = 0;  // NOLINT(google-runtime-int): as the driver has it
  driver_.stream_get_id(stream, &number);
  return static_cast<uintptr_t>(number) << kNumberShift | kNumberMark;
}

// Whether the last stream is there as long as the session, and means the same in every thread.
bool CudaRunDevice::lasts() const {
  return last_stream_ == kDefaultStream || last_stream_ == own_stream_.get();
}

void CudaRunDevice::begin(const RunView& run) {
  run_ = &run;
  ordered_ = false;
  require_process();
  scope_.emplace(*device_);
  check_faults();  // of earlier runs that were only enqueued
  const bool own = run.stream == nullptr;
  stream_ = own ? own_stream_.get() : static_cast<CUstream>(run.stream);
  if (!own) refuse_capture(stream_);
  key_ = key_of(stream_);
  if (busy_ && last_key_ != key_) {
    mark_last_run();
    driver_.stream_wait_event(stream_, last_run_.get(), 0);  // both use the session's memory
  }
  if (program_.reads_back) {  // what its steps read shall be of this run, faults too
    wait_for_last_run();
    check_faults();
  }
  ordered_ = true;
  timeline_.begin(run.trace, stream_);
}

void CudaRunDevice::finish(bool over) {
  timeline_.finish();
  if (over) {
    driver_.stream_synchronize(stream_);
    busy_ = false;
    copies_.all_read();
    check_faults();
  } else {
    copies_.finish_reading(stream_);
    last_stream_ = stream_;
    last_key_ = key_;
    if (!lasts()) driver_.event_record(last_run_.get(), stream_);
    busy_ = true;
  }
  run_ = nullptr;
  scope_.reset();
}

void CudaRunDevice::abandon() noexcept {
  timeline_.abandon();
  // A run that came to its own steps is behind all earlier ones: they are over when it is.
  if (ordered_ && !device_->is_lost()) {
    driver_.stream_synchronize.raw(stream_);
    busy_ = false;
    copies_.all_read();
    for (const int32_t step : faulting_) fault_word(step) = 0;
  }
  ordered_ = false;
  run_ = nullptr;
  scope_.reset();
}

// The event of a stream that lasts is recorded only when somebody has to wait for it.
void CudaRunDevice::mark_last_run() {
  if (lasts()) driver_.event_record(last_run_.get(), last_stream_);
}

void CudaRunDevice::wait_for_last_run() {
  if (!busy_) return;
  mark_last_run();
  driver_.event_synchronize(last_run_.get());
  busy_ = false;
}

void CudaRunDevice::synchronize() {
  require_process();
  const Scope scope(*device_);
  wait_for_last_run();
  check_faults();
}

void CudaRunDevice::check_faults() {
  for (const int32_t step : faulting_) {
    if (fault_word(step) == 0) continue;
    const bool earlier = busy_;
    wait_for_last_run();  // so that it does not report again
    for (const int32_t other : faulting_) fault_word(other) = 0;
    throw Error(
        AOT_INVALID_ARGUMENT,
        cat(earlier ? "in an earlier run of this session, " : "",
            "an index in the data is outside the tensor that it points into, at ", step_name(step)),
        origin(step));
  }
}

}  // namespace aot_rt::cuda
