// What a session's runs launch on a GPU.
#include "cuda/cuda_run_device.h"
#include "error.h"

namespace aot_rt::cuda {
namespace {

constexpr size_t kLeastGraph = 3;  // launches: fewer are as fast one by one
constexpr double kNanosecondsPerMillisecond = 1e6;

// A kernel that waits by itself for what was enqueued before it, as the edges of graphs have it:
// the driver enqueues it in less time, too, and it begins while the one before it ends.
CUresult launch_early(const Driver& driver, const Launch& launch, CUstream stream) {
  LaunchAttribute attribute{kProgrammaticSerialization, 0, 1, {}};
  const LaunchConfig config{launch.grid[0],
                            launch.grid[1],
                            launch.grid[2],
                            launch.threads,
                            1,
                            1,
                            launch.shared,
                            stream,
                            &attribute,
                            1};
  return driver.launch_kernel_ex.raw(&config, launch.function, launch.parameters, nullptr);
}

}  // namespace

void CudaRunDevice::launch(BoundProgram& bound, int32_t begin, int32_t end) {
  auto& launches = static_cast<BoundLaunches&>(bound);
  Segment& segment = launches.segment(begin, end);
  if (is_watched()) {
    run_watched(launches, segment.launches);
  } else if (run_->counters != nullptr) {
    run_profiled(launches, segment.launches);
  } else if (!launch_graph(launches, &segment)) {
    for (const Launch& launch : segment.launches) {
      if (launch.is_empty()) continue;
      run_->control->check();
      launch_one(launches, launch);
    }
  }
  ++segment.runs;
}

// The first run of given sizes is often the only one: a graph is made for the second.
bool CudaRunDevice::launch_graph(BoundLaunches& bound, Segment* segment) {
  if (!options_.graphs || !segment->graph_works || segment->runs == 0 ||
      segment->launches.count < kLeastGraph || timeline_.records()) {
    return false;
  }
  const TraceSpan traced(run_->trace, AOT_TRACE_LAUNCH, "graph");
  try {
    bound.graph(*device_, segment).launch(stream_);
    return true;
  } catch (const Error& error) {
    if (error.code() != AOT_OUT_OF_MEMORY && error.code() != AOT_UNSUPPORTED) throw;
    segment->graph_works = false;
    log_(AOT_LOG_WARNING, cat("launching one by one, without a graph: ", error.what()));
    return false;
  }
}

void CudaRunDevice::launch_one(const BoundSizes& bound, const Launch& launch) {
  const TraceSpan traced(run_->trace, AOT_TRACE_KERNEL, launch.step, &bound);
  const DeviceSpan work(&timeline_);
  const CUresult result =
      launch.waits && driver_.has_launch_attributes()
          ? launch_early(driver_, launch, stream_)
          : driver_.launch_kernel.raw(launch.function, launch.grid[0], launch.grid[1],
                                      launch.grid[2], launch.threads, 1, 1, launch.shared, stream_,
                                      launch.parameters, nullptr);
  if (result != kSuccess) {
    driver_.fail(result, driver_.launch_kernel.name, cat("launching ", step_name(launch.step)),
                 origin(launch.step));
  }
}

void CudaRunDevice::wait_for_step(int32_t step) {
  const CUresult result = driver_.stream_synchronize.raw(stream_);
  if (result != kSuccess) {
    driver_.fail(result, driver_.stream_synchronize.name, cat("running ", step_name(step)),
                 origin(step));
  }
}

void CudaRunDevice::run_watched(const BoundLaunches& bound, LaunchRange launches) {
  for (const Launch& launch : launches) {
    if (launch.is_empty()) continue;
    run_->control->check();
    launch_one(bound, launch);
    wait_for_step(launch.step);
    check_faults();
    observe(bound, launch.step);
  }
}

void CudaRunDevice::run_profiled(const BoundSizes& bound, LaunchRange launches) {
  mark(0);
  for (size_t i = 0; i < launches.count; ++i) {
    if (!launches.first[i].is_empty()) launch_one(bound, launches.first[i]);
    mark(i + 1);
  }
  driver_.stream_synchronize(stream_);
  for (size_t i = 0; i < launches.count; ++i) {
    if (!launches.first[i].is_empty()) count(launches.first[i].step, i);
  }
}

void CudaRunDevice::mark(size_t index) {
  while (marks_.size() <= index) {
    marks_.push_back(std::make_unique<Event>(device_, kEventDefault));
  }
  driver_.event_record(marks_[index]->get(), stream_);
}

void CudaRunDevice::count(int32_t step, size_t index) {
  float milliseconds = 0;
  driver_.event_elapsed_time(&milliseconds, marks_[index]->get(), marks_[index + 1]->get());
  StepCounter& counter = run_->counters[step];
  ++counter.calls;
  counter.nanoseconds += static_cast<uint64_t>(milliseconds * kNanosecondsPerMillisecond);
}

void CudaRunDevice::observe(const BoundProgram& bound, int32_t step) {
  if (run_->observer == nullptr) return;
  for (const int32_t buffer : program_.steps[static_cast<size_t>(step)].buffers) {
    const auto bytes = static_cast<size_t>(bound.buffer_bytes(buffer));
    const Block copy(default_allocator(), bytes, "a copy for the observer");
    const void* from = bound.address(buffer);
    if (bytes != 0 && from != nullptr) {
      fetch(copy.data(), from, bytes);
      driver_.stream_synchronize(stream_);
    }
    run_->observer(run_->observer_context, static_cast<size_t>(step), static_cast<size_t>(buffer),
                   copy.data(), bytes);
  }
}

// The operator enqueues its work behind what was launched, in the run's stream: nobody waits.
void CudaRunDevice::call(BoundProgram& bound, int32_t step, const Operator& code) {
  const bool timed = run_->counters != nullptr && !is_watched();
  if (timed) mark(0);
  {
    const TraceSpan traced(run_->trace, AOT_TRACE_CALL, step, &bound);
    const DeviceSpan work(&timeline_);
    const Visit visit(*device_);
    bound.call_of(program_.steps[static_cast<size_t>(step)], where())
        .run(code, stream_, [&bound](int32_t buffer) { return bound.address(buffer); });
  }
  if (timed) {
    mark(1);
    driver_.stream_synchronize(stream_);
    count(step, 0);
  }
  if (!is_watched()) return;
  wait_for_step(step);
  check_faults();
  observe(bound, step);
}

}  // namespace aot_rt::cuda
