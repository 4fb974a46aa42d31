#include "cpu/cpu_run_device.h"

#include <cstring>
#include <utility>
#include <vector>

#include "contract.h"
#include "error.h"
#include "strided_copy.h"

namespace aot_rt {
namespace {

// A step in the hands of several workers.
struct ParallelStep {
  const BoundStep* step;
  int64_t scratch_stride;
  Trace* trace;  // nullptr: chunks are not traced
};

void run_chunk(void* data, int32_t seat, int64_t chunk) {
  const auto& job = *static_cast<const ParallelStep*>(data);
  const BoundStep& step = *job.step;
  aot_kernel_args args = step.args;
  if (args.scratch != nullptr) {
    args.scratch = static_cast<uint8_t*>(args.scratch) + seat * job.scratch_stride;
  }
  const int64_t begin = step.chunks.begin(chunk);
  const int64_t end = step.chunks.begin(chunk + 1);
  if (begin == end) return;
  if (job.trace == nullptr) return step.run(&args, begin, end);
  aot_trace_event event = job.trace->begin(AOT_TRACE_CHUNK, job.trace->name_of(step.step), "");
  step.run(&args, begin, end);
  event.end_ns = Trace::now();
  event.worker = seat;
  job.trace->describe(&event, step.step, nullptr);
  job.trace->add(event);
}

std::unique_ptr<RunDevice> make_device(const SessionParts& parts, const SessionOptions& options,
                                       void* /*shared*/) {
  return std::make_unique<CpuRunDevice>(parts, options);
}

// The host reads weights where they are.
class HostWeights final : public WeightDevice {
 public:
  HostWeights(Package& package, const Program& program) : package_(package), program_(program) {}

  const Program& program() const override { return program_; }
  Placement package_weights() override { return {}; }
  SharedBytes store(const SharedBytes& bytes, size_t /*size*/) override { return bytes; }
  SharedBytes derive(const Routine& routine, const DLTensor* const* sources) override {
    Session session({package_.shared_from_this(), &routine.plan, &routine.body, nullptr, nullptr},
                    SessionOptions{}, make_device, nullptr);
    return session.compute(sources, routine.plan.inputs.size());
  }

 private:
  Package& package_;  // which owns this
  const Program& program_;
};

}  // namespace

std::unique_ptr<Session> make_cpu_session(std::shared_ptr<Package> package, int32_t index,
                                          const SessionOptions& options) {
  if (index != 0) fail(AOT_UNAVAILABLE, "no device 'cpu:", index, "': there is one, 'cpu'");
  const Plan& plan = package->plan();
  const std::vector<const Program*> programs = plan.programs_for("cpu");
  const Program& program = choose_cpu_program(programs, options.isa);
  Package* const owner = package.get();
  std::shared_ptr<WeightPlace> place = package->weight_place(
      cat("cpu ", program.arch), [&] { return std::make_unique<HostWeights>(*owner, program); });
  std::shared_ptr<WorkspacePool> workspaces = place->workspaces;
  return std::make_unique<Session>(
      SessionParts{std::move(package), &plan, &program, std::move(place), std::move(workspaces)},
      options, make_device, nullptr);
}

CpuRunDevice::CpuRunDevice(const SessionParts& parts, const SessionOptions& options)
    : plan_(*parts.plan),
      program_(*parts.program),
      library_(parts.package->library(program_, options.isa)),
      allocator_(checked_allocator(options.allocator)),
      crew_(options.num_threads > 0 ? options.num_threads : usable_cores(), options.executor),
      copies_(plan_.inputs.size()) {}

std::unique_ptr<BoundProgram> CpuRunDevice::bind(std::vector<int64_t> dims, uint8_t* states) {
  return std::make_unique<BoundSteps>(plan_, program_, *library_, std::move(dims), crew_.threads(),
                                      states, &fault_);
}

void CpuRunDevice::load(void* to, const void* from, size_t bytes) {
  if (from != nullptr) {
    copy(to, from, bytes);
  } else {
    std::memset(to, 0, bytes);
  }
}

void CpuRunDevice::begin(const RunView& run) {
  if (run.stream != nullptr) fail(AOT_INVALID_ARGUMENT, "the cpu has no streams: give NULL");
  run_ = &run;
  watched_ = run.counters != nullptr || run.observer != nullptr || run.control->active() ||
             run.trace != nullptr;
}

void* CpuRunDevice::place_input(size_t index, const DLTensor& tensor, const BoundTensor& bound) {
  auto* const from = static_cast<uint8_t*>(tensor.data) + tensor.byte_offset;
  if (readable_in_place(tensor, bound, *plan_.inputs[index].dtype)) return from;
  const auto span = static_cast<size_t>(bound.span);
  TraceSpan traced(run_->trace, AOT_TRACE_COPY, plan_.inputs[index].name.c_str(), "input");
  traced.set_bytes(span);
  Block& copy = copies_[index];
  if (copy.size() < span) copy = Block(allocator_, span, "a copy of an input");
  strided_copy(copy.data(), bound.strides, from, strides_of(tensor), bound.sizes,
               plan_.inputs[index].dtype->size);
  return copy.data();
}

void CpuRunDevice::launch(BoundProgram& bound, int32_t begin, int32_t end) {
  const auto& steps = static_cast<const BoundSteps&>(bound);
  const BoundStep* const last = steps.last(end);
  if (watched_) return run_watched(steps, steps.first(begin), last);
  for (const BoundStep* step = steps.first(begin); step != last; ++step) {
    if (step->work == 0) continue;
    run_step(steps, *step);
    if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step->step);
  }
}

void CpuRunDevice::run_step(const BoundSteps& bound, const BoundStep& step) {
  if (step.chunks.count() == 1) {
    step.run(&step.args, 0, step.work);
  } else {
    Trace* const trace = run_->trace != nullptr && run_->trace->records() ? run_->trace : nullptr;
    ParallelStep job{&step, bound.scratch_stride(), trace};
    crew_.run(run_chunk, &job, step.chunks.count());
  }
}

void CpuRunDevice::run_watched(const BoundSteps& bound, const BoundStep* first,
                               const BoundStep* last) {
  for (const BoundStep* step = first; step != last; ++step) {
    if (step->work == 0) continue;
    run_->control->check();
    const auto start = std::chrono::steady_clock::now();
    {
      const TraceSpan traced(run_->trace, AOT_TRACE_KERNEL, step->step, &bound);
      run_step(bound, *step);
    }
    count(step->step, start);
    if (fault_ != AOT_KERNEL_FAULT_NONE) report_fault(step->step);
    observe(bound, step->step);
  }
}

void CpuRunDevice::call(BoundProgram& bound, int32_t step, const Operator& code) {
  const TraceSpan traced(run_->trace, AOT_TRACE_CALL, step, &bound);
  const auto start = std::chrono::steady_clock::now();
  bound.call_of(program_.steps[static_cast<size_t>(step)], where())
      .run(code, nullptr, [&bound](int32_t buffer) { return bound.address(buffer); });
  count(step, start);
  observe(bound, step);
}

void CpuRunDevice::copy(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memmove(to, from, bytes);
}

void CpuRunDevice::finish(bool /*over*/) { run_ = nullptr; }

void CpuRunDevice::count(int32_t step, std::chrono::steady_clock::time_point start) const {
  if (run_->counters == nullptr) return;
  const auto elapsed = std::chrono::steady_clock::now() - start;
  StepCounter& counter = run_->counters[step];
  ++counter.calls;
  counter.nanoseconds +=
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

void CpuRunDevice::observe(const BoundProgram& bound, int32_t step) const {
  if (run_->observer == nullptr) return;
  for (const int32_t buffer : program_.steps[static_cast<size_t>(step)].buffers) {
    run_->observer(run_->observer_context, static_cast<size_t>(step), static_cast<size_t>(buffer),
                   bound.address(buffer), static_cast<size_t>(bound.buffer_bytes(buffer)));
  }
}

void CpuRunDevice::report_fault(int32_t step) {
  const int32_t fault = std::exchange(fault_, AOT_KERNEL_FAULT_NONE);
  const Step& failed = program_.steps[static_cast<size_t>(step)];
  const std::string origin = plan_.origin_of(failed);
  const std::string where =
      origin.empty() ? cat("kernel ", program_.kernel_of(failed).name) : origin;
  if (fault == AOT_KERNEL_FAULT_INDEX) {
    throw Error(AOT_INVALID_ARGUMENT,
                cat("an index in the data is outside the tensor that it points into, at ", where),
                origin);
  }
  throw Error(AOT_INTERNAL, cat("kernel fault ", fault, " at ", where), origin);
}

}  // namespace aot_rt
